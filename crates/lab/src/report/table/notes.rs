//! What stands below the tables: how to read them, and with all columns how it was measured.

use super::work;
use crate::report::{MachineUse, Prediction, Report, Row};
use crate::subject::{Backend, Receive};
use crate::wrap::counted;

/// What a reader of the columns that decide needs.
pub(super) fn short(report: &Report) -> Vec<String> {
    let cpus = counted(report.workload.server_cpus, "CPU");
    let interval = if report.decided.is_empty() { "" } else { " ±: 95 % interval over rounds." };
    let read = format!(
        "Latency in us from when a request was due. CPU and spin (polls that found nothing) in % of the server's {cpus}.{interval} behind: \
         answers less than 99 % of what is due in time. --wide has all columns and how it was measured, --explain what each is; \
         docs/compare.md says how it is decided."
    );
    [Some(read), of_the_machine(report), lost(report), failed(report)].into_iter().flatten().collect()
}

/// The same, and how it was measured.
pub(super) fn all(report: &Report) -> Vec<String> {
    let mut notes = short(report);
    let workload = &report.workload;
    notes.extend(report.at_start.clone());
    notes.extend(
        report
            .searched_again
            .as_ref()
            .map(|why| format!("The loads were searched again, for the first were wrong ({why}).")),
    );
    if let Some(cost_us) = workload.request_cost_us {
        let added = workload.service.as_ref().map_or_else(String::new, |service| format!(", with --service {service}"));
        notes.push(format!(
            "A request costs the server {cost_us:.2} us of CPU here (fullbusy in closed loop, delivery included{added})."
        ));
    }
    let in_force: Vec<String> = report.host.in_force.iter().map(|(name, what)| format!("{name}: {what}")).collect();
    notes.extend((!in_force.is_empty()).then(|| format!("In force: {}.", in_force.join("; "))));
    for (load, rows) in report.by_load() {
        let backends = report.among_backends();
        let machine = report.machine_at(load).map(MachineUse::text);
        let said = [machine.unwrap_or_default(), work::per_reply(&rows, backends), work::sides(&rows, backends)];
        let said: Vec<String> = said.into_iter().filter(|words| !words.is_empty()).collect();
        notes.extend((!said.is_empty()).then(|| format!("At {load}: {}", said.join(" "))));
    }
    if report.rows.iter().any(|row| row.measured().is_some_and(|measured| measured.median.cores.is_some())) {
        notes.push(
            "cpu0+1: how busy the CPUs of client and server are together, in % of one CPU, by /proc/stat, for all programs; the \
             client polls and takes 100. proc: the same of this process alone. cl-si: % of the client's CPU spent in softirqs: \
             over veth the kernel does much of the server's receive work on the CPU that sends."
                .to_owned(),
        );
    }
    notes.extend(of_the_kernel(report));
    notes.extend(setup(report));
    notes
}

/// Rows that have figures, and runs that are not behind them.
fn lost(report: &Report) -> Option<String> {
    let partly = |row: &&Row| row.figures().is_some() && row.lost.is_some();
    let mut rows = report.rows.iter().filter(partly);
    let first = rows.next()?;
    let lost = first.lost.as_ref()?;
    let more = match rows.count() {
        0 => String::new(),
        more => format!("; and of {} more", counted(more as u64, "row")),
    };
    Some(format!(
        "Not in the figures of {} at {}: {} of {}: {}{more}.",
        first.subject.name(report.among_backends()),
        first.load,
        lost.runs,
        counted(lost.of, "run"),
        lost.why
    ))
}

fn failed(report: &Report) -> Option<String> {
    let first = report.failures.first()?;
    Some(format!("{} failed; the first: {first}.", counted(report.failures.len() as u64, "run")))
}

/// What rows of the simulated machine are, and are not.
fn of_the_machine(report: &Report) -> Option<String> {
    let Prediction { machine, title, machine_figures, machine_figures_fitted, runs } = report.prediction.as_ref()?;
    let named = if machine == title { title.clone() } else { format!("{machine} ({title})") };
    Some(format!(
        "sim: PREDICTED, not measured: {} in virtual time of a server and its clients on {named}. Of the {machine_figures} figures \
         of that machine {machine_figures_fitted} were fitted. How near predictions come: docs/fidelity.md.",
        counted(*runs, "run"),
    ))
}

/// What holds for rows of the kernel alone.
fn of_the_kernel(report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    let of_kernel = || report.rows.iter().filter(|row| row.subject.backend == Backend::Kernel);
    if of_kernel().any(|row| row.subject.receive == Receive::Irq) {
        notes.push(
            "-irq: packets are received on the server's CPU, in a pinned NAPI thread of SCHED_FIFO that stands for the interrupt of \
             a NIC. Without it they are received on the CPU that sends, which no NIC does: the server has it for nothing."
                .to_owned(),
        );
    }
    if of_kernel().any(|row| row.measured().is_some_and(|measured| measured.median.polls_per_s.is_some())) {
        notes.push(
            "Rows of the kernel: polls by the tracepoint napi_poll, timers by hrtimer_expire_entry of napi_watchdog on this machine; a veth \
             has no interrupts. switches: context switches of the server's threads."
                .to_owned(),
        );
    }
    notes
}

fn setup(report: &Report) -> Vec<String> {
    let workload = &report.workload;
    let (flows, queues) = (counted(workload.flows, "flow"), counted(workload.queues, "queue"));
    let service = workload.service.as_deref().unwrap_or("none added");
    let predicted = Backend::Sim.to_string();
    if workload.device == predicted {
        // Nothing ran here, so nothing of this machine matters.
        return vec![format!(
            "In virtual time: {flows}, {queues}; service {service}; seed {}; commit {}.",
            workload.seed, report.commit,
        )];
    }
    let measured: Vec<&str> = workload.backend.split(" and ").filter(|name| *name != predicted).collect();
    let way = match workload.device.as_str() {
        "link" => String::new(),
        _ => format!(" over {}, {}", workload.way(), workload.proto),
    };
    let by = workload
        .program
        .as_ref()
        .map_or(String::new(), |program| format!(", served by `{program}` ({})", workload.format));
    let mut notes = vec![format!(
        "{} on the {}{way}{by}: {flows}, {queues}, {} records, {} % sets, keys {}, values {}, {}; service {service}; seed {}. {}, \
         {}, Linux {}; commit {}.",
        workload.name,
        measured.join(" and "),
        workload.records,
        workload.set_pct,
        workload.key_sizes,
        workload.value_sizes,
        workload.popularity,
        workload.seed,
        report.host.cpu_model,
        counted(report.host.cpus, "CPU"),
        report.host.kernel,
        report.commit,
    )];
    if let Some(memory) = &report.memory {
        let mib = |kib: u64| kib.div_ceil(1024);
        let (first, end, peak) = (mib(memory.after_first_run_kib), mib(memory.at_end_kib), mib(memory.peak_kib));
        notes.push(format!(
            "memory: {first} MiB resident in this process after the first run, {end} at the end, {peak} at most"
        ));
    }
    let above = &report.host.in_force;
    let further = report.host.notes.iter().filter(|(name, _)| !above.contains_key(*name));
    notes.extend(further.map(|(name, note)| format!("{name}: {note}")));
    notes
}

//! What stands above the blocks of a table and below them.

use super::page::Page;
use crate::report::columns::Column;
use crate::report::most::{sustained_head, sustains_most_words};
use crate::report::{Prediction, Report};
use crate::subject::{Backend, Receive};
use crate::wrap::counted;

/// What is in force, and what a request costs.
pub(super) fn heading(page: &mut Page, report: &Report) {
    let workload = &report.workload;
    page.words(report.at_start.as_deref().unwrap_or_default());
    if let Some(cost_us) = workload.request_cost_us {
        let added = workload.service.as_ref().map_or_else(String::new, |service| format!(", with --service {service}"));
        page.words(&format!(
            "A request costs the server {cost_us:.2} us of CPU here (fullbusy in closed loop, delivery included{added})."
        ));
    }
    let in_force: Vec<String> = report.host.in_force.iter().map(|(name, what)| format!("{name}: {what}")).collect();
    if !in_force.is_empty() {
        page.words(&format!("In force: {}.", in_force.join("; ")));
    }
}

/// What each mode sustains.
pub(super) fn sustained(page: &mut Page, report: &Report) {
    if report.sustained.is_empty() {
        return;
    }
    let backends = report.among_backends();
    page.line("");
    page.words(&sustained_head(report));
    let names = report.sustained.iter().map(|one| one.subject.name(backends).len());
    let name_width = names.max().unwrap_or(0).max(10);
    page.line(&format!(
        "{:>name_width$} {:>9} {:>7} {:>5} {:>9}  {}",
        "testcase", "sustains", "99%lat", "cpu", "fails at", "by"
    ));
    for one in &report.sustained {
        let [p99, cpu] = match one.at_most {
            Some((p99_us, cpu_pct)) => [format!("{p99_us:.1}"), format!("{cpu_pct:.0}")],
            None => ["-".to_owned(), "-".to_owned()],
        };
        let (failed, why) = match &one.failed {
            Some((rps, why)) => (rps.to_string(), why.clone()),
            None => ("-".to_owned(), String::new()),
        };
        let why = match &one.taken {
            Some(taken) => format!("{why}; {taken}").trim_start_matches("; ").to_owned(),
            None => why,
        };
        let line =
            format!("{:>name_width$} {:>9} {p99:>7} {cpu:>5} {failed:>9}  {why}", one.subject.name(backends), one.rps);
        page.line(line.trim_end());
    }
    for backend in Backend::ALL {
        page.words(&sustains_most_words(report, backend));
    }
}

/// How to read it, what ran and where.
pub(super) fn legend(page: &mut Page, report: &Report, hidden: &[&Column], bold: bool) {
    let workload = &report.workload;
    let runs = report.rows.iter().filter_map(|row| Some(row.measured()?.runs)).max().unwrap_or(0);
    // Without rows there were searches at most.
    let median = match (runs, workload.seconds) {
        (0, _) | (_, None) => String::new(),
        (runs, Some(seconds)) => format!("Median of {} of {seconds} s. ", counted(runs, "run")),
    };
    page.words(&format!(
        "{median}Latency in us from the intended send. cpu, useful, spin: % of the server's {}; spin is time in polls that found nothing. cpq: reference cycles per query. empty: % of polls that found \
         nothing. -: not applicable or not to be had here.",
        counted(workload.server_cpus, "CPU"),
    ));
    page.words(
        "% is of the CPU, x is a ratio. sustains: answers 99 % of what is due meanwhile. frontier: the modes that no other \
         beats in both p99 and CPU. runs overlap: their ranges do, so do not choose by the difference. refused: the mode cannot be \
         applied here. closed: a closed loop, one request out per flow, bound by latency as well as by CPU. More: docs/compare.md; where the modes come from: docs/sources.md.",
    );
    let mark = if bold { "Bold" } else { "*" };
    page.words(&format!(
        "{mark}: the best of its column within the load, where that is decided. --explain says what each column is."
    ));
    if !hidden.is_empty() {
        let heads: Vec<&str> = hidden.iter().map(|column| column.head).collect();
        page.words(&format!(
            "Not shown at {} columns: {}. --wide shows all, --columns those that it names.",
            page.width(),
            heads.join(", ")
        ));
    }
    if report.rows.iter().any(|row| row.measured().is_some_and(|measured| measured.median.cores.is_some())) {
        page.words(
            "cpu0+1: how busy the CPUs of client and server are together, in % of one CPU, by /proc/stat, for all programs; the \
             client polls and takes 100. proc: the same of this process alone. cl-si: % of the client's CPU spent in softirqs: \
             over veth the kernel does much of the server's receive work on the CPU that sends.",
        );
    }
    of_the_kernel(page, report);
    of_the_machine(page, report);
    setup(page, report);
}

/// What rows of the simulated machine are, and are not.
fn of_the_machine(page: &mut Page, report: &Report) {
    let Some(Prediction { machine, title, machine_figures, machine_figures_fitted, runs }) = &report.prediction else {
        return;
    };
    let named = if machine == title { title.clone() } else { format!("{machine} ({title})") };
    page.words(&format!(
        "sim: PREDICTED, not measured: {} in virtual time of a server and its clients on {named}. Of the {machine_figures} figures \
         of that machine {machine_figures_fitted} were fitted. A request takes what the machine's file says and the service time, whatever \
         the records, the device and the protocol are. How near predictions come: docs/fidelity.md.",
        counted(*runs, "run"),
    ));
}

/// What holds for rows of the kernel alone.
fn of_the_kernel(page: &mut Page, report: &Report) {
    let of_kernel = || report.rows.iter().filter(|row| row.subject.backend == Backend::Kernel);
    if of_kernel().any(|row| row.subject.receive == Receive::Irq) {
        page.words(
            "-irq: packets are received on the server's CPU, in a pinned NAPI thread of SCHED_FIFO that stands for the interrupt of \
             a NIC. Without it they are received on the CPU that sends, which no NIC does: the server has it for nothing.",
        );
    }
    if of_kernel().any(|row| row.measured().is_some_and(|measured| measured.median.polls_per_s.is_some())) {
        page.words(
            "Rows of the kernel: polls by the tracepoint napi_poll, timers by hrtimer_expire_entry of napi_watchdog on this machine; a veth \
             has no interrupts. switches: context switches of the server's threads.",
        );
    }
}

fn setup(page: &mut Page, report: &Report) {
    let workload = &report.workload;
    let (flows, queues) = (counted(workload.flows, "flow"), counted(workload.queues, "queue"));
    let service = workload.service.as_deref().unwrap_or("none added");
    let predicted = Backend::Sim.to_string();
    if workload.device == predicted {
        // Nothing ran here, so nothing of this machine matters.
        page.words(&format!(
            "In virtual time: {flows}, {queues}; service {service}; seed {}; commit {}.",
            workload.seed, report.commit,
        ));
        return;
    }
    let measured = workload.backend.split(" and ").filter(|name| *name != predicted);
    let measured: Vec<&str> = measured.collect();
    let way = match workload.device.as_str() {
        "link" => String::new(),
        _ => format!(" over {}, {}", workload.way(), workload.proto),
    };
    let by = workload
        .program
        .as_ref()
        .map_or(String::new(), |program| format!(", served by `{program}` ({})", workload.format));
    page.words(&format!(
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
    ));
    if let Some(memory) = &report.memory {
        let mib = |kib: u64| kib.div_ceil(1024);
        let (first, end, peak) = (mib(memory.after_first_run_kib), mib(memory.at_end_kib), mib(memory.peak_kib));
        page.words(&format!(
            "memory: {first} MiB resident in this process after the first run, {end} at the end, {peak} at most"
        ));
    }
    let above = &report.host.in_force;
    for (name, note) in report.host.notes.iter().filter(|(name, _)| !above.contains_key(*name)) {
        page.words(&format!("{name}: {note}"));
    }
}

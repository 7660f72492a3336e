//! How a comparison was measured: machine, limits, commit, runs, and what speaks against its figures.

use maud::{Markup, html};

use super::load_words;
use crate::html::shell::{facts, printable};
use crate::report::{Prediction, Report};
use crate::wrap::counted;

/// All that stands below a table too.
pub(super) fn how(report: &Report, notes: &[String]) -> Markup {
    let doubts = doubts(report, notes);
    html! {
        @for doubt in &doubts { p.warn { (printable(doubt)) } }
        (facts(&setup(report)))
        @if !report.machine.is_empty() {
            h3 { "What else the machine did" }
            dl {
                @for machine in &report.machine {
                    div {
                        dt { (load_words(machine.load_rps)) }
                        dd { (printable(machine.text().trim_start_matches("This machine: "))) }
                    }
                }
            }
        }
        p.note {
            "Latency begins when a request was due, not when it left, so neither a slow server nor a slow generator hides the wait. CPU time is that of all "
            "the server's threads. Slices of the modes follow each other in random order, and a verdict is of a test over rounds of them. A figure of one "
            "machine is a figure of that machine."
        }
    }
}

fn doubts(report: &Report, notes: &[String]) -> Vec<String> {
    let mut doubts: Vec<String> = notes.to_vec();
    doubts.extend(report.ended.iter().map(|why| format!("Incomplete: {why}.")));
    doubts.extend(
        report
            .searched_again
            .iter()
            .map(|why| format!("The loads were wrong at first ({why}) and were searched again.")),
    );
    if let Some(first) = report.failures.first() {
        let more = match report.failures.len() {
            1 => String::new(),
            all => format!(" ({} more failed)", all - 1),
        };
        doubts.push(format!("A run failed: {first}{more}"));
    }
    if report.rows.iter().any(|row| row.measured().is_some_and(|measured| measured.runs == 1)) {
        doubts.push("Rows of one run have no spread: no difference between them can be claimed.".to_owned());
    }
    doubts
}

fn setup(report: &Report) -> Vec<(String, String)> {
    let (workload, host) = (&report.workload, &report.host);
    let mut facts: Vec<(&str, String)> = Vec::new();
    let runs = report.rows.iter().filter_map(|row| Some(row.figures()?.runs)).max().unwrap_or(0);
    match workload.seconds {
        Some(seconds) => facts.push(("runs", format!("{runs} of {seconds} s per row; medians"))),
        None => facts.push(("runs", format!("{runs} per row in virtual time; medians"))),
    }
    facts.push(("commit", report.commit.clone()));
    if workload.device != "sim" {
        facts.push(("machine", format!("{}, {}, Linux {}", host.cpu_model, counted(host.cpus, "CPU"), host.kernel)));
        facts.push((
            "between client and server",
            format!("{}, {}, {}", workload.way(), workload.proto, workload.format),
        ));
    }
    facts.push(("server", workload.program.clone().unwrap_or_else(|| format!("{}, our own", workload.name))));
    facts.push((
        "load",
        format!("{}, {}, seed {}", counted(workload.flows, "flow"), counted(workload.queues, "queue"), workload.seed),
    ));
    facts.push((
        "requests",
        format!(
            "{} records, {} % sets, keys {}, values {}, {}; service {}",
            workload.records,
            workload.set_pct,
            workload.key_sizes,
            workload.value_sizes,
            workload.popularity,
            workload.service.as_deref().unwrap_or("none added")
        ),
    ));
    if let Some(cost) = workload.request_cost_us {
        facts.push(("CPU time of a request", format!("{cost:.2} µs (fullbusy in closed loop, delivery included)")));
    }
    facts.push(("CPUs of the server", workload.server_cpus.to_string()));
    if let Some(Prediction { machine, title, machine_figures, machine_figures_fitted, runs }) = &report.prediction {
        let what = format!(
            "PREDICTED on {machine} ({title}), {} in virtual time; {machine_figures_fitted} of {machine_figures} figures of that machine were fitted",
            counted(*runs, "run")
        );
        facts.push(("rows of sim", what));
    }
    let mut facts: Vec<(String, String)> = facts.into_iter().map(|(name, what)| (name.to_owned(), what)).collect();
    facts.extend(host.in_force.iter().map(|(name, what)| (format!("in force: {name}"), what.clone())));
    let notes = host.notes.iter().filter(|(name, _)| !host.in_force.contains_key(*name) && workload.device != "sim");
    facts.extend(notes.map(|(name, what)| (name.clone(), what.clone())));
    if let Some(memory) = report.memory {
        facts.push(("memory of the process".to_owned(), format!("{} MiB at most", memory.peak_kib.div_ceil(1024))));
    }
    facts
}

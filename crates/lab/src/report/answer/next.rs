//! What to type after a comparison.

use super::Block;
use crate::loads::Load;
use crate::report::Report;
use crate::report::take::choose;
use crate::subject::{Backend, Subject};

/// Commands, each with what it is for.
pub(super) fn of(report: &Report) -> Vec<(String, String)> {
    let mut next = Vec::new();
    let has = |backend: Backend| report.rows.iter().any(|row| row.subject.backend == backend);
    if report.rows.iter().all(|row| row.figures().is_none()) {
        return vec![("napier doctor".to_owned(), "what this machine lacks".to_owned())];
    }
    let (load, taken) = middle(report);
    let pair = |command: String, what: &str| (command, what.to_owned());
    match (&report.workload.program, taken) {
        (Some(program), Some(subject)) if subject.backend == Backend::Kernel && !subject.is_base() => {
            let command = format!("sudo napier run --dev IF --mode {} -- {program}", subject.mode);
            next.push(pair(command, "puts it in force"));
        }
        _ => {}
    }
    if let Some(Load::Rps(rps)) = load {
        let rate = Load::Rps(rps).to_string().to_lowercase();
        next.push(pair(format!("napier advise --rate {rate}"), "your own rate, by simulation"));
    }
    if !has(Backend::Kernel) {
        next.push(pair("sudo napier compare --backend kernel -- memcached -u nobody".to_owned(), "your own program"));
    }
    next
}

/// The load in the middle of those where something is to be taken, and that.
pub(super) fn middle(report: &Report) -> (Option<Load>, Option<Subject>) {
    let open: Vec<Load> =
        report.by_load().into_iter().map(|(load, _)| load).filter(|load| *load != Load::Max).collect();
    let takes =
        |load: &Load| Block::all_of(report, *load).iter().rev().find_map(|block| Some(choose(block)?.take.subject));
    let taken: Vec<(Load, Subject)> = open.iter().filter_map(|load| Some((*load, takes(load)?))).collect();
    match taken.get(taken.len() / 2) {
        Some((load, subject)) => (Some(*load), Some(*subject)),
        None => (open.get(open.len() / 2).copied(), None),
    }
}

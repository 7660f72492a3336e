//! What a comparison answers, over all of its loads, in a few sentences.

use crate::loads::Load;
use crate::report::sentence::{clearly_lowest, on_frontier};
use crate::report::{Outcome, Report, Row};
use crate::subject::{Backend, Subject};

/// What a backend's rows say at the loads of the open loop.
struct Loads {
    /// How many there are.
    all: usize,
    /// At so many of them a mode was on the frontier.
    on_frontier: Vec<(Subject, usize)>,
    /// At so many of them a mode had clearly the lowest p99.
    lowest: Vec<(Subject, usize)>,
}

/// The answer, a paragraph each; the first is the one that matters.
pub(super) fn answer(report: &Report) -> Vec<String> {
    if report.rows.iter().all(|row| row.figures().is_none()) {
        return vec![nothing(report)];
    }
    let backends = report.among_backends();
    let mut paragraphs = Vec::new();
    let mut second = Vec::new();
    for backend in Backend::ALL {
        let Some(loads) = loads(report, backend) else { continue };
        let head = match (backends, backend) {
            (false, _) => String::new(),
            (true, Backend::Sim) => "Predicted: ".to_owned(),
            (true, Backend::Engine | Backend::Kernel) => format!("In the {backend}: "),
        };
        paragraphs.push(head.clone() + &frontier(&loads));
        second.push(head + &lowest(&loads));
    }
    if paragraphs.is_empty() {
        paragraphs.push(closed_loop(report));
    }
    paragraphs.extend(second);
    paragraphs.extend(taken(report));
    paragraphs.extend(sustained(report));
    if let Some(why) = &report.ended {
        paragraphs.insert(0, format!("INCOMPLETE: {why}. What was measured until then follows."));
    }
    paragraphs
}

fn nothing(report: &Report) -> String {
    let refused = report.rows.iter().filter(|row| matches!(row.outcome, Outcome::Refused(_))).count();
    match (report.rows.len(), refused) {
        (0, _) => "This comparison has no rows, so it says nothing.".to_owned(),
        (all, refused) if all == refused => {
            "Nothing was measured: every mode was refused here. The reasons are in the table.".to_owned()
        }
        _ => "Nothing was measured: no run gave any figures. The reasons are in the table.".to_owned(),
    }
}

/// `None` without rows of this backend in the open loop.
fn loads(report: &Report, backend: Backend) -> Option<Loads> {
    let mut found = Loads { all: 0, on_frontier: Vec::new(), lowest: Vec::new() };
    let count =
        |counts: &mut Vec<(Subject, usize)>, subject: Subject| match counts.iter_mut().find(|(s, _)| *s == subject) {
            Some((_, times)) => *times += 1,
            None => counts.push((subject, 1)),
        };
    for (load, rows) in report.by_load() {
        let of_this: Vec<&Row> = rows.iter().copied().filter(|row| row.subject.backend == backend).collect();
        if load == Load::Max || of_this.iter().all(|row| row.figures().is_none()) {
            continue;
        }
        found.all += 1;
        // In virtual time nothing takes the machine away.
        let taken =
            report.machine_at(load).filter(|_| backend != Backend::Sim).and_then(|machine| machine.taken(&rows));
        on_frontier(&of_this).into_iter().for_each(|subject| count(&mut found.on_frontier, subject));
        clearly_lowest(&of_this, taken.as_deref()).into_iter().for_each(|subject| count(&mut found.lowest, subject));
    }
    for counts in [&mut found.on_frontier, &mut found.lowest] {
        counts.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
    }
    (found.all > 0).then_some(found)
}

fn frontier(loads: &Loads) -> String {
    let all = loads.all;
    if loads.on_frontier.is_empty() {
        return format!("No mode sustains any of {all} {}, so every latency is that of a queue.", plural(all, "load"));
    }
    let mut groups: Vec<(usize, Vec<String>)> = Vec::new();
    for (subject, times) in &loads.on_frontier {
        match groups.last_mut().filter(|(of_group, _)| of_group == times) {
            Some((_, names)) => names.push(subject.name(false)),
            None => groups.push((*times, vec![subject.name(false)])),
        }
    }
    let at = |times: usize| match times {
        _ if all == 1 => "the one load".to_owned(),
        times if times == all => format!("all {all} loads"),
        times => format!("{times} of {all}"),
    };
    let said: Vec<String> = groups.iter().map(|(times, names)| format!("{} at {}", and(names), at(*times))).collect();
    format!("On the frontier of p99 and CPU time, so that no mode beats them in both: {}.", said.join("; "))
}

fn lowest(loads: &Loads) -> String {
    let all = loads.all;
    let decided: usize = loads.lowest.iter().map(|(_, times)| times).sum();
    let each: Vec<String> =
        loads.lowest.iter().map(|(subject, times)| format!("{} at {times}", subject.name(false))).collect();
    let mut said = if each.is_empty() {
        format!("Which mode has the lowest p99 is not decided at any of {all} {}", plural(all, "load"))
    } else {
        format!("The lowest p99 has {} of {all} {}", and(&each), plural(all, "load"))
    };
    if !each.is_empty() && decided < all {
        said += &format!(", and at {} it is not decided", all - decided);
    }
    said + "."
}

/// Of a comparison that has nothing else.
fn closed_loop(report: &Report) -> String {
    let measured = report.rows.iter().filter_map(|row| Some((row.subject, row.figures()?.median.achieved_rps)));
    let backends = report.among_backends();
    measured.max_by(|a, b| a.1.total_cmp(&b.1)).map_or_else(String::new, |(subject, rps)| {
        format!(
            "In closed loop {} has the highest median rate, {} requests/s; what a mode costs at a given load was not asked.",
            subject.name(backends),
            super::rate(rps)
        )
    })
}

/// Where others had the CPUs, so that nothing is decided.
fn taken(report: &Report) -> Option<String> {
    let by_load = report.by_load();
    let measured = by_load.iter().filter(|(_, rows)| rows.iter().any(|row| row.measured().is_some()));
    let taken: Vec<(Load, String)> =
        measured.clone().filter_map(|(load, rows)| Some((*load, report.machine_at(*load)?.taken(rows)?))).collect();
    let (_, first) = taken.first()?;
    let all = measured.count();
    let at = if taken.len() == all { format!("all {all}") } else { format!("{} of {all}", taken.len()) };
    Some(format!(
        "The machine was taken away at {at} {}, so no mode is called the best there ({first}): repeat it on a quieter machine.",
        plural(all, "load")
    ))
}

fn sustained(report: &Report) -> Option<String> {
    let most = report.sustained.iter().filter(|one| one.rps > 0).max_by_key(|one| one.rps)?;
    let base = report.sustained.iter().find(|one| one.subject.is_base() && one.subject.backend == most.subject.backend);
    let backends = report.among_backends();
    let beside = base.filter(|base| base.subject != most.subject && base.rps > 0).map_or_else(String::new, |base| {
        format!(", {:.2}x of what base does ({})", most.rps as f64 / base.rps as f64, super::rate(base.rps as f64))
    });
    Some(format!("{} sustains most: {} requests/s{beside}.", most.subject.name(backends), super::rate(most.rps as f64)))
}

fn and(all: &[String]) -> String {
    match all {
        [] => String::new(),
        [only] => only.clone(),
        [firsts @ .., last] => format!("{} and {last}", firsts.join(", ")),
    }
}

fn plural(count: usize, what: &str) -> String {
    if count == 1 { what.to_owned() } else { format!("{what}s") }
}

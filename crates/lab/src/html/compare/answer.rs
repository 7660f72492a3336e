//! What a comparison answers, over all of its loads, in a few sentences.

use crate::loads::Load;
use crate::report::most::{sustained_head, sustains_most_words};
use crate::report::sentence::sentences;
use crate::report::verdict::{Block, Sustaining, Verdict, and};
use crate::report::{Outcome, Report, Row};
use crate::subject::{Backend, Subject};

/// What a backend's rows say at the loads of the open loop.
struct Loads {
    /// How many there are.
    all: usize,
    /// At so many of them it is decided what is on the frontier.
    frontier_known: usize,
    /// At so many of those no mode sustains the load.
    none_sustains: usize,
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
    if let [_] = report.sustained.as_slice() {
        paragraphs.push(sustained_head(report));
    }
    paragraphs.extend(
        Backend::ALL.map(|backend| sustains_most_words(report, backend)).into_iter().filter(|said| !said.is_empty()),
    );
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
    let mut found = Loads { all: 0, frontier_known: 0, none_sustains: 0, on_frontier: Vec::new(), lowest: Vec::new() };
    let count =
        |counts: &mut Vec<(Subject, usize)>, subject: Subject| match counts.iter_mut().find(|(s, _)| *s == subject) {
            Some((_, times)) => *times += 1,
            None => counts.push((subject, 1)),
        };
    for (load, _) in report.by_load().into_iter().filter(|(load, _)| *load != Load::Max) {
        let Some(block) = Block::of(report, load, backend) else { continue };
        found.all += 1;
        if let Verdict::Given(sustaining) = block.sustaining()
            && let Verdict::Given(frontier) = block.frontier()
        {
            found.frontier_known += 1;
            found.none_sustains += usize::from(*sustaining.get() == Sustaining::None);
            frontier.get().iter().for_each(|one| count(&mut found.on_frontier, one.subject));
        }
        if let Verdict::Given(best) = block.lowest_p99() {
            count(&mut found.lowest, best.get().best.subject);
        }
    }
    for counts in [&mut found.on_frontier, &mut found.lowest] {
        counts.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
    }
    (found.all > 0).then_some(found)
}

fn frontier(loads: &Loads) -> String {
    let Loads { all, frontier_known: known, none_sustains, .. } = *loads;
    let of = plural(all, "load");
    if known == 0 {
        return format!("What each mode costs and gives is not decided at any of {all} {of}.");
    }
    if none_sustains == all {
        return format!("No mode sustains any of {all} {of}, so every latency is that of a queue.");
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
    let mut said: Vec<String> =
        groups.iter().map(|(times, names)| format!("{} at {}", and(names), at(*times))).collect();
    if none_sustains > 0 {
        said.push(format!("none at {none_sustains}, which no mode sustains"));
    }
    if known < all {
        said.push(format!("at {} it is not decided", all - known));
    }
    format!("On the frontier of p99 and CPU time, so that no mode beats them in both: {}.", said.join("; "))
}

fn lowest(loads: &Loads) -> String {
    let all = loads.all;
    let decided: usize = loads.lowest.iter().map(|(_, times)| times).sum();
    let each: Vec<String> =
        loads.lowest.iter().map(|(subject, times)| format!("{} at {times}", subject.name(false))).collect();
    let mut said = if each.is_empty() {
        format!("The lowest p99 is not decided at any of {all} {}", plural(all, "load"))
    } else {
        format!("The lowest p99 has {} of {all} {}", and(&each), plural(all, "load"))
    };
    if !each.is_empty() && decided < all {
        said += &format!(", and at {} it is not decided", all - decided);
    }
    said + "."
}

/// Of a comparison that has nothing else, of each backend by itself.
fn closed_loop(report: &Report) -> String {
    let rows: Vec<&Row> = report.rows.iter().filter(|row| row.load == Load::Max).collect();
    let said = sentences(Load::Max, &rows, report).join(" ");
    format!("{said} What a mode costs at a given load was not asked.")
}

/// What stands in place of a figure to which no mode has a mark, for none kept up.
pub(super) fn without_dots(blocks: &[Block<'_>]) -> &'static str {
    let is_sure = |block: &Block<'_>| match block.sustaining() {
        Verdict::Given(sustaining) => *sustaining.get() == Sustaining::None,
        Verdict::Withheld(_) => false,
    };
    match blocks {
        [] => "Nothing was measured at this load.",
        blocks if blocks.iter().all(is_sure) => "No mode sustains this load.",
        _ => "All modes fell behind.",
    }
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

fn plural(count: usize, what: &str) -> String {
    if count == 1 { what.to_owned() } else { format!("{what}s") }
}

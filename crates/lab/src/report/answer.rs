//! The answer of a comparison in a few lines: which mode to take at which load and why, what is not decided and what would decide it, and what
//! to type next. It stands first in every form, and is all that is shown while it is measured.

mod next;
mod words;

use napier_verdict::Metric;

use super::decided::LeftOut;
use super::take::{Choice, choose};
use super::verdict::{Block, Doubt, ModeEntry, and};
use super::{Outcome, Report, beside, sustained};
use crate::loads::Load;
use crate::sheet::SheetAnswer;
use crate::subject::{Backend, Subject};
use words::{asked, at_loads, figures};
pub(crate) use words::{per_s, rate, us};

/// What is said of a comparison that is over.
pub(crate) fn of(report: &Report) -> SheetAnswer {
    SheetAnswer { asked: asked(report), said: said(report), next: next::of(report) }
}

/// The load by which to show it: in the middle of those where something is to be taken.
pub(crate) fn middle(report: &Report) -> Option<Load> {
    next::middle(report).0
}

/// What came of it so far.
pub(crate) fn said(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(report.ended.as_ref().map(|why| incomplete(report, why)));
    if report.rows.iter().all(|row| row.figures().is_none()) {
        lines.push(nothing(report));
        lines.extend(who_had_it(report));
        return lines;
    }
    for backend in Backend::ALL {
        lines.extend(of_backend(report, backend));
    }
    lines.extend(who_had_it(report));
    lines.extend(
        report
            .loads_wrong
            .as_ref()
            .map(|why| format!("The loads are not what they were to be: {why}; give --load, or more --minutes.")),
    );
    lines.extend(beside::said(report));
    lines.extend(sustained::said(report));
    lines.extend(undecided(report));
    lines.extend(left_out(report));
    lines
}

fn incomplete(report: &Report, why: &str) -> String {
    let not_begun = report.by_load().into_iter().filter(|(_, rows)| rows.iter().all(|row| row.was_not_run()));
    let loads: Vec<String> = not_begun.map(|(load, _)| load.to_string()).collect();
    let loads = if loads.is_empty() { String::new() } else { format!(" Not begun: {}.", loads.join(", ")) };
    format!("INCOMPLETE: {why}; this is from what there is.{loads}")
}

/// Who had the CPUs before anything was measured, where the machine was taken away.
fn who_had_it(report: &Report) -> Option<String> {
    report.at_start.clone().filter(|_| report.decided.iter().any(|decided| decided.taken))
}

fn nothing(report: &Report) -> String {
    if report.decided.iter().any(|decided| decided.taken) {
        let sum = left_out_of(report.decided.iter().map(|decided| &decided.left_out));
        return format!("No answer: the machine was taken away in {}.", of_slices(&sum));
    }
    let refused = report.rows.iter().filter(|row| matches!(row.outcome, Outcome::Refused(_))).count();
    match (report.rows.len(), refused) {
        (0, _) => "Nothing is measured so far.".to_owned(),
        (all, refused) if all == refused => {
            "No answer: every mode was refused here, and the table says why.".to_owned()
        }
        _ => "No answer: nothing gave any figures, and the table says why.".to_owned(),
    }
}

/// What is known of the loads of one backend: loads next to each other with the same answer are told together.
fn of_backend(report: &Report, backend: Backend) -> Vec<String> {
    let blocks: Vec<Block<'_>> =
        report.by_load().into_iter().filter_map(|(load, _)| Block::of(report, load, backend)).collect();
    let open: Vec<&Block<'_>> = blocks.iter().filter(|block| block.load != Load::Max).collect();
    // In a closed loop nothing is to be taken, so it is told only where there is nothing else.
    let told = if open.is_empty() { blocks.iter().filter_map(closed_loop).collect() } else { of_loads(&open) };
    match backend {
        _ if !report.among_backends() => told,
        Backend::Engine | Backend::Kernel => headed(&format!("In the {backend}: "), told),
        Backend::Sim => headed("Predicted: ", told),
    }
}

fn headed(head: &str, lines: Vec<String>) -> Vec<String> {
    lines.into_iter().map(|line| if line.starts_with(' ') { line } else { format!("{head}{line}") }).collect()
}

fn of_loads(blocks: &[&Block<'_>]) -> Vec<String> {
    let mut groups: Vec<Vec<(&Block<'_>, Outlook<'_>)>> = Vec::new();
    for block in blocks {
        let outlook = Outlook::of(block);
        match groups.last_mut().filter(|group| group[0].1.is_like(&outlook)) {
            Some(group) => group.push((block, outlook)),
            None => groups.push(vec![(block, outlook)]),
        }
    }
    let all: Vec<Load> = blocks.iter().map(|block| block.load).collect();
    groups.iter().flat_map(|group| of_group(group, &all)).collect()
}

/// What is told of one load and backend, in a line.
pub(super) fn of_block(block: &Block<'_>) -> String {
    match closed_loop(block) {
        Some(told) => told,
        None if block.load == Load::Max => "In closed loop there is nothing to compare.".to_owned(),
        None => of_loads(&[block]).iter().map(|line| line.trim()).collect::<Vec<_>>().join(" "),
    }
}

/// What can be told of a load.
enum Outlook<'a> {
    Take(Box<Choice<'a>>),
    NoneKeepsUp,
    MayKeepUp(Vec<Subject>),
    Taken,
    NoRounds,
}

impl<'a> Outlook<'a> {
    fn of(block: &Block<'a>) -> Self {
        match (block.doubt(), choose(block)) {
            (Some(Doubt::Taken(_)), _) => Self::Taken,
            (Some(Doubt::NoRounds(_)), _) => Self::NoRounds,
            (None, Some(choice)) => Self::Take(Box::new(choice)),
            (None, None) => match block.that_keep_up(None).as_slice() {
                [] => Self::NoneKeepsUp,
                may => Self::MayKeepUp(may.iter().map(|one| one.subject).collect()),
            },
        }
    }

    fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Take(a), Self::Take(b)) => a.is_like(b),
            (Self::MayKeepUp(a), Self::MayKeepUp(b)) => a == b,
            (Self::NoneKeepsUp, Self::NoneKeepsUp) | (Self::Taken, Self::Taken) | (Self::NoRounds, Self::NoRounds) => {
                true
            }
            _ => false,
        }
    }
}

fn of_group(group: &[(&Block<'_>, Outlook<'_>)], all: &[Load]) -> Vec<String> {
    let loads: Vec<Load> = group.iter().map(|(block, _)| block.load).collect();
    let at = at_loads(&loads, all);
    if let [only] = group[0].0.all.as_slice() {
        let (name, p99, cpu) = (only.name(), us(only.value(Metric::P99)), only.value(Metric::Cpu));
        return vec![match group {
            [_] => format!(
                "Only {name} has figures {at}: p99 {p99} us, CPU {cpu:.0} %; there is nothing to compare it with."
            ),
            _ => format!("Only {name} has figures {at}: there is nothing to compare it with."),
        }];
    }
    let names = |subjects: &[Subject]| and(&subjects.iter().map(|one| one.name(false)).collect::<Vec<_>>());
    match &group[0].1 {
        Outlook::Take(_) => take(group, &at),
        Outlook::NoneKeepsUp => vec![format!("Nothing keeps up {at}: every latency there is that of a queue.")],
        Outlook::MayKeepUp(may) => vec![format!("Whether anything keeps up {at} is undecided ({} may).", names(may))],
        Outlook::Taken => {
            let sum =
                left_out_of(group.iter().filter_map(|(block, _)| block.decided()).map(|decided| &decided.left_out));
            vec![format!("No answer {at}: the machine was taken away in {}.", of_slices(&sum))]
        }
        Outlook::NoRounds => {
            let others = group.iter().find_map(|(block, _)| match block.doubt() {
                Some(Doubt::NoRounds(others)) => others.clone(),
                _ => None,
            });
            let others = others.map_or_else(String::new, |others| format!(", and {others}"));
            vec![format!(
                "No mode is called better {at}: this has no rounds, without which nothing is decided{others}."
            )]
        }
    }
}

/// What to take at the loads of a group, and what else there is to have.
fn take(group: &[(&Block<'_>, Outlook<'_>)], at: &str) -> Vec<String> {
    let choices: Vec<(&Block<'_>, &Choice<'_>)> = group
        .iter()
        .filter_map(
            |(block, outlook)| if let Outlook::Take(choice) = outlook { Some((*block, &**choice)) } else { None },
        )
        .collect();
    let (_, first) = choices[0];
    let of = |which: fn(&Choice<'_>) -> Option<Subject>, whose: &str| -> Option<String> {
        let at_each = choices.iter().filter_map(|(block, choice)| {
            let subject = which(choice)?;
            let entry = block.all.iter().find(|entry| entry.subject == subject)?;
            Some((*block, *entry, choice.base))
        });
        figures(&at_each.collect::<Vec<_>>(), whose)
    };
    let taken = of(|choice| Some(choice.take.subject), " base's").unwrap_or_default();
    let everywhere = |one: &&ModeEntry<'_>| {
        choices.iter().all(|(_, choice)| choice.or.iter().any(|other| other.subject == one.subject))
    };
    let or: Vec<String> = first.or.iter().filter(everywhere).map(ModeEntry::name).collect();
    let or = if or.is_empty() { String::new() } else { format!(" {} no different.", is_are(&or)) };
    let name = first.take.name();
    let mut lines = vec![match (first.is_base(), first.is_only) {
        (_, true) => format!("Take {name} {at}: only it keeps up; {taken}."),
        (true, _) => format!("Leave base {at}: {taken}; no mode is shown to give more than it costs.{or}"),
        (false, _) if first.base.is_some() => format!("Take {name} {at}: {taken}.{or}"),
        (false, _) => {
            let behind = group.iter().all(|(block, _)| Block::base(&block.that_keep_up(Some(false))).is_some());
            format!("Take {name} {at}: {taken}{}.{or}", if behind { "; base falls behind" } else { "" })
        }
    }];
    let also = [
        ("cheaper", of(|choice| Some(choice.cheaper?.subject), ""), first.cheaper),
        ("faster", of(|choice| Some(choice.faster?.subject), ""), first.faster),
    ];
    let also: Vec<String> = also
        .into_iter()
        .filter_map(|(what, figures, entry)| Some(format!("{what}: {}, {}", entry?.name(), figures?)))
        .collect();
    if !also.is_empty() {
        lines.push(format!("  {}.", also.join("; ")));
    }
    lines
}

fn is_are(names: &[String]) -> String {
    format!("{} {}", and(names), if names.len() == 1 { "is" } else { "are" })
}

/// What a closed loop says: which answers most.
pub(super) fn closed_loop(block: &Block<'_>) -> Option<String> {
    if block.load != Load::Max || block.all.len() < 2 {
        return None;
    }
    Some(match (block.doubt(), block.best(Metric::Throughput)) {
        (Some(_), _) => "In closed loop no mode is called better.".to_owned(),
        (None, Some(best)) => {
            let base = Block::base(&block.all).filter(|base| base.subject != best.subject);
            let ratio = base.and_then(|base| block.ratio(&best, &base, Metric::Throughput));
            let beside = ratio.map_or_else(String::new, |ratio| format!(", {:.2}x base's", ratio.value));
            format!(
                "In closed loop {} answers most: {}/s{beside}.",
                best.name(),
                words::rate(best.value(Metric::Throughput))
            )
        }
        (None, None) => "In closed loop no mode is shown to answer more than all others.".to_owned(),
    })
}

/// What might change the choice, and how long that would take.
fn undecided(report: &Report) -> Option<String> {
    let mut open: Vec<(String, Vec<Load>)> = Vec::new();
    let mut more_minutes = Some(0.0);
    for (load, _) in report.by_load().into_iter().filter(|(load, _)| *load != Load::Max) {
        let blocks = Block::all_of(report, load);
        let mut any = false;
        for subject in blocks.iter().filter_map(choose).flat_map(|choice| choice.open) {
            any = true;
            let name = subject.name(report.among_backends());
            match open.iter_mut().find(|(other, _)| *other == name) {
                Some((_, loads)) => loads.push(load),
                None => open.push((name, vec![load])),
            }
        }
        if let Some(decided) = report.decided_at(load).filter(|_| any) {
            more_minutes = more_minutes.zip(decided.more_minutes).map(|(sum, more)| sum + more);
        }
    }
    const NAMED: usize = 4;
    let mut told: Vec<String> =
        open.iter().take(NAMED).map(|(name, loads)| format!("{name} at {}", words::list(loads))).collect();
    told.extend((open.len() > NAMED).then(|| format!("{} more", open.len() - NAMED)));
    let how = match (more_minutes.filter(|more| *more > 0.0), report.took_minutes) {
        (Some(more), Some(took)) => format!("; --minutes {:.0} would decide, as it looks", (took + more).ceil()),
        _ => String::new(),
    };
    (!told.is_empty()).then(|| format!("Undecided, and might be the better choice: {}{how}.", told.join("; ")))
}

fn left_out(report: &Report) -> Option<String> {
    let kept = report.decided.iter().filter(|decided| !decided.taken);
    let sum = left_out_of(kept.map(|decided| &decided.left_out));
    (sum.slices > 0).then(|| format!("Left out, because the machine was taken away: {}.", of_slices(&sum)))
}

fn left_out_of<'a>(each: impl Iterator<Item = &'a LeftOut>) -> LeftOut {
    each.fold(LeftOut::default(), |mut sum, one| {
        sum.slices += one.slices;
        sum.of += one.of;
        for (cause, count) in &one.causes {
            *sum.causes.entry(cause.clone()).or_default() += count;
        }
        sum
    })
}

fn of_slices(left_out: &LeftOut) -> String {
    let mut causes: Vec<(&String, &u32)> = left_out.causes.iter().collect();
    causes.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let causes: Vec<String> = causes.iter().map(|(cause, count)| format!("{cause} {count}")).collect();
    let why = if causes.is_empty() { String::new() } else { format!(" ({})", causes.join(", ")) };
    format!("{} of {} slices{why}", left_out.slices, left_out.of)
}

#[cfg(test)]
mod tests;

//! The sentence below each load: which mode buys what, from the figures alone.
//!
//! At a fixed load a mode is worth its place if no other has both a lower p99 and a lower CPU time: these are the
//! frontier, and all of them are named, from the cheapest to the fastest. One is called the best only if its runs lie apart
//! from those of all others, and nothing took the machine away meanwhile. Modes that do not sustain the load are named as
//! such and not compared: their latency is the length of their queue.
//!
//! `%` is of the CPU throughout; how two figures stand to each other is an `x`.

use super::Row;
use crate::loads::Load;
use crate::stats::{Figures, Measured};
use crate::subject::{Backend, Subject};

type Figure = fn(&Figures) -> f64;
const P99: Figure = |figures| figures.latency_us.p99;
const CPU: Figure = |figures| figures.cpu.total_pct;
const RPS: Figure = |figures| figures.achieved_rps;

/// The sentence for the rows of one load and one backend; empty if nothing was measured. `taken` says what took the machine
/// away meanwhile, if anything did.
pub(crate) fn sentence(load: Load, rows: &[&Row], taken: Option<&str>) -> String {
    let measured = candidates(rows);
    let [first, rest @ ..] = measured.as_slice() else {
        return String::new();
    };
    if rest.is_empty() {
        let did = if first.subject.backend == Backend::Sim { "predicted" } else { "measured" };
        return format!("Only {} was {did}: nothing to compare it with.", first.name());
    }
    let doubt = Doubt { taken, one_run: measured.iter().any(|candidate| candidate.measured.runs == 1) };
    let parts = match load {
        Load::Max => closed_loop(&measured, &doubt),
        Load::Rps(_) => open_loop(&measured, &doubt),
    };
    parts.join("; ") + "."
}

fn candidates<'a>(rows: &[&'a Row]) -> Vec<Candidate<'a>> {
    let candidate =
        |row: &&'a Row| Some(Candidate { subject: row.subject, measured: row.figures()?, sustains: row.sustains() });
    rows.iter().filter_map(candidate).collect()
}

/// The modes of one load and backend that no other beats in p99 and CPU, from the cheapest; of those that sustain the load.
pub(crate) fn on_frontier(rows: &[&Row]) -> Vec<Subject> {
    let sustaining: Vec<Candidate<'_>> = candidates(rows).into_iter().filter(|candidate| candidate.sustains).collect();
    unbeaten(&sustaining).iter().map(|candidate| candidate.subject).collect()
}

/// The mode of one load and backend with the lowest p99, if its runs lie apart from those of all others and nothing speaks against
/// calling it the best. `taken` as in [`sentence`].
pub(crate) fn clearly_lowest(rows: &[&Row], taken: Option<&str>) -> Option<Subject> {
    let sustaining: Vec<Candidate<'_>> = candidates(rows).into_iter().filter(|candidate| candidate.sustains).collect();
    let has_spread = sustaining.iter().all(|candidate| candidate.measured.runs > 1);
    let lowest = least(&sustaining, P99).filter(|_| sustaining.len() > 1 && has_spread && taken.is_none())?;
    rivals(&sustaining, lowest, P99).is_empty().then_some(lowest.subject)
}

/// Why none is called the best, whatever the medians say.
struct Doubt<'a> {
    taken: Option<&'a str>,
    one_run: bool,
}

impl Doubt<'_> {
    fn why(&self) -> Option<String> {
        match (self.taken, self.one_run) {
            (Some(taken), _) => Some(format!("none is called the best, for the machine was taken away ({taken})")),
            (None, true) => Some("none is called the best: of one run the spread is unknown".to_owned()),
            (None, false) => None,
        }
    }
}

#[derive(Clone, Copy)]
struct Candidate<'a> {
    subject: Subject,
    measured: &'a Measured,
    sustains: bool,
}

impl Candidate<'_> {
    fn median(&self, figure: Figure) -> f64 {
        figure(&self.measured.median)
    }

    fn overlaps(&self, other: &Self, figure: Figure) -> bool {
        let (a, b) = (&self.measured.spread, &other.measured.spread);
        figure(&a.min) <= figure(&b.max) && figure(&b.min) <= figure(&a.max)
    }

    /// Whether it is at least as good in both, and better in one.
    fn beats(&self, other: &Self) -> bool {
        let (p99, cpu) = (self.median(P99), self.median(CPU));
        let (other_p99, other_cpu) = (other.median(P99), other.median(CPU));
        p99 <= other_p99 && cpu <= other_cpu && (p99 < other_p99 || cpu < other_cpu)
    }

    fn name(&self) -> String {
        self.subject.name(false)
    }

    fn figures(&self) -> String {
        format!("{} {} us at {:.0} %", self.name(), us(self.median(P99)), self.median(CPU))
    }
}

fn open_loop(all: &[Candidate<'_>], doubt: &Doubt<'_>) -> Vec<String> {
    let (sustaining, failing): (Vec<_>, Vec<_>) = all.iter().copied().partition(|candidate| candidate.sustains);
    let mut parts = Vec::new();
    match sustaining.as_slice() {
        [] => parts.push("No mode sustains this load, so every latency is that of a queue".to_owned()),
        [only] => parts.push(format!("Only {} sustains this load: p99 and CPU {}", only.name(), only.figures())),
        several => {
            parts.extend(frontier(several));
            parts.push(doubt.why().unwrap_or_else(|| lowest_p99(several)));
        }
    }
    if !sustaining.is_empty() && !failing.is_empty() {
        parts.push(format!("{} not sustain this load", subject_of(&failing, "does", "do")));
    }
    parts
}

/// The modes that no other beats, from the cheapest to the fastest, and what base has if it is none of them.
fn frontier(sustaining: &[Candidate<'_>]) -> Vec<String> {
    let frontier = unbeaten(sustaining);
    let named: Vec<String> = frontier.iter().map(Candidate::figures).collect();
    let mut parts = vec![format!("Frontier of p99 and CPU: {}", named.join(", "))];
    let base = sustaining.iter().find(|candidate| candidate.subject.is_base());
    if let Some(base) = base.filter(|base| frontier.iter().all(|other| other.subject != base.subject)) {
        parts.push(format!("beside it {}", base.figures()));
    }
    parts
}

fn unbeaten<'a>(sustaining: &[Candidate<'a>]) -> Vec<Candidate<'a>> {
    let unbeaten = |one: &&Candidate<'_>| !sustaining.iter().any(|other| other.beats(one));
    let mut frontier: Vec<Candidate<'_>> = sustaining.iter().filter(unbeaten).copied().collect();
    frontier.sort_by(|a, b| a.median(CPU).total_cmp(&b.median(CPU)));
    frontier
}

fn lowest_p99(sustaining: &[Candidate<'_>]) -> String {
    let lowest = least(sustaining, P99).expect("there are several");
    let rivals: Vec<_> = rivals(sustaining, lowest, P99);
    if !rivals.is_empty() {
        let all = [&[lowest], rivals.as_slice()].concat();
        return format!("the lowest p99 is not decided between {} (runs overlap)", names(&all));
    }
    let others: Vec<_> = sustaining.iter().copied().filter(|other| other.subject != lowest.subject).collect();
    let next = least(&others, P99).expect("there are several");
    let factor = ratio(next.median(P99), lowest.median(P99));
    format!("{} has the lowest p99, and next is {} with {factor} of it", lowest.name(), next.name())
}

/// Those that cannot be told apart from the best.
fn rivals<'a>(all: &[Candidate<'a>], best: Candidate<'a>, figure: Figure) -> Vec<Candidate<'a>> {
    all.iter().copied().filter(|other| other.subject != best.subject && other.overlaps(&best, figure)).collect()
}

fn closed_loop(all: &[Candidate<'_>], doubt: &Doubt<'_>) -> Vec<String> {
    let Some(fastest) = most(all, RPS) else {
        return Vec::new();
    };
    let base = all.iter().copied().find(|candidate| candidate.subject.is_base());
    let beside_base = |candidate: &Candidate<'_>| match base {
        Some(base) if base.subject != candidate.subject => {
            format!(", {} base's rate", ratio(candidate.median(RPS), base.median(RPS)))
        }
        _ => String::new(),
    };
    let rivals = rivals(all, fastest, RPS);
    let answers = if let Some(why) = doubt.why() {
        format!("In closed loop {} has the highest median{}; {why}", fastest.name(), beside_base(&fastest))
    } else if rivals.is_empty() {
        format!("In closed loop {} answers most{}", fastest.name(), beside_base(&fastest))
    } else {
        let all = [&[fastest], rivals.as_slice()].concat();
        format!("In closed loop {} answer most{} (runs overlap)", names(&all), beside_base(&fastest))
    };
    vec![answers]
}

fn least<'a>(all: &[Candidate<'a>], figure: Figure) -> Option<Candidate<'a>> {
    all.iter().copied().min_by(|a, b| a.median(figure).total_cmp(&b.median(figure)))
}

fn most<'a>(all: &[Candidate<'a>], figure: Figure) -> Option<Candidate<'a>> {
    // min_by keeps the first of equals, as `least` does; max_by would keep the last.
    all.iter().copied().min_by(|a, b| b.median(figure).total_cmp(&a.median(figure)))
}

fn ratio(number: f64, of: f64) -> String {
    if of > 0.0 { format!("{:.2}x", number / of) } else { "?x".to_owned() }
}

fn us(us: f64) -> String {
    if us < 100.0 { format!("{us:.1}") } else { format!("{us:.0}") }
}

fn names(all: &[Candidate<'_>]) -> String {
    let names: Vec<String> = all.iter().map(|candidate| candidate.name()).collect();
    match names.as_slice() {
        [] => String::new(),
        [only] => only.clone(),
        [firsts @ .., last] => format!("{} and {last}", firsts.join(", ")),
    }
}

fn subject_of(all: &[Candidate<'_>], one: &str, several: &str) -> String {
    format!("{} {}", names(all), if all.len() == 1 { one } else { several })
}

#[cfg(test)]
mod tests;

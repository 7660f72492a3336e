//! What may be said of the modes of a load against each other.
//!
//! Every sentence, mark and plot about the rows of a load asks a [`Block`]. It has an answer where the measuring decided one (by rounds of
//! slices), and for what was predicted by a simple rule over its runs. For anything else it has none: without rounds, as in a file of an older
//! version, and where the machine was taken away, no mode is called better than another.

use napier_verdict::Metric;

use super::decided::{Decided, DecidedPair, Estimated, PairVerdict};
use super::{Report, Row};
use crate::loads::{Load, SustainSearch};
use crate::stats::{Figures, Measured};
use crate::subject::{Backend, Subject};

/// How one mode stands to another in a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stands {
    Better,
    /// No different, within a bound.
    Same,
    Worse,
    /// It is not known.
    Open,
}

/// Why nothing is said of a block.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Doubt<'a> {
    /// The machine was taken away in most slices.
    Taken(&'a Decided),
    /// It was measured without rounds; where others had the machine, in words.
    NoRounds(Option<String>),
}

/// What the verdicts of a block rest on.
#[derive(Clone, Debug)]
enum Ground<'a> {
    Rounds(&'a Decided),
    /// Runs in virtual time with different chances.
    Chances,
    Nothing(Doubt<'a>),
}

/// A mode of a block, with its figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ModeEntry<'a> {
    pub(crate) subject: Subject,
    pub(crate) figures: &'a Measured,
    /// Whether it keeps up with the load; `None` if that is not decided.
    pub(crate) keeps_up: Option<bool>,
}

impl ModeEntry<'_> {
    pub(crate) fn value(&self, metric: Metric) -> f64 {
        of(metric)(&self.figures.median)
    }

    pub(crate) fn name(&self) -> String {
        self.subject.name(false)
    }

    fn estimated(&self, metric: Metric) -> Estimated {
        let figure = of(metric);
        let Measured { median, spread, .. } = self.figures;
        let (a, b) = (figure(&spread.min), figure(&spread.max));
        Estimated { value: figure(median), low: Some(a.min(b)), high: Some(a.max(b)) }
    }
}

/// Where a metric stands among the figures of a row.
pub(crate) const fn of(metric: Metric) -> fn(&Figures) -> f64 {
    match metric {
        Metric::P50 => |figures| figures.latency_us.p50,
        Metric::P99 => |figures| figures.latency_us.p99,
        Metric::P999 => |figures| figures.latency_us.p999,
        Metric::Cpu => |figures| figures.cpu.total_pct,
        Metric::Throughput => |figures| figures.achieved_rps,
    }
}

/// Whether a row surely keeps up with its load, or surely does not; `None` if its interval holds both, or it has no figures.
pub(crate) fn sustains_for_sure(row: &Row) -> Option<bool> {
    let figures = row.figures()?;
    let enough = |figures: &Figures| figures.in_time_pct.map(SustainSearch::is_enough);
    match (row.measured(), enough(&figures.spread.min), enough(&figures.spread.max)) {
        (Some(_), Some(least), Some(most)) => (least == most).then_some(least),
        // What is predicted is judged over all its runs together, and nothing is known of single runs of what has no shares.
        _ => Some(row.sustains()),
    }
}

/// The rows of one load and backend that have figures.
#[derive(Clone, Debug)]
pub(crate) struct Block<'a> {
    pub(crate) load: Load,
    pub(crate) backend: Backend,
    pub(crate) all: Vec<ModeEntry<'a>>,
    ground: Ground<'a>,
}

impl<'a> Block<'a> {
    /// `None` if nothing of it has figures.
    pub(crate) fn of(report: &'a Report, load: Load, backend: Backend) -> Option<Self> {
        let rows = report.rows.iter().filter(|row| row.load == load && row.subject.backend == backend);
        let entry = |row: &'a Row| {
            let keeps_up = sustains_for_sure(row);
            Some(ModeEntry { subject: row.subject, figures: row.figures()?, keeps_up })
        };
        let all: Vec<ModeEntry<'_>> = rows.filter_map(entry).collect();
        if all.is_empty() {
            return None;
        }
        let ground = match report.decided_at(load) {
            _ if backend == Backend::Sim => Ground::Chances,
            Some(decided) if decided.taken => Ground::Nothing(Doubt::Taken(decided)),
            Some(decided) => Ground::Rounds(decided),
            None => Ground::Nothing(Doubt::NoRounds(report.taken_at(load))),
        };
        Some(Self { load, backend, all, ground })
    }

    /// Those of a load, a block for each backend.
    pub(crate) fn all_of(report: &'a Report, load: Load) -> Vec<Self> {
        Backend::ALL.into_iter().filter_map(|backend| Self::of(report, load, backend)).collect()
    }

    /// What speaks against any verdict on this block.
    pub(crate) const fn doubt(&self) -> Option<&Doubt<'a>> {
        match &self.ground {
            Ground::Nothing(doubt) => Some(doubt),
            Ground::Rounds(_) | Ground::Chances => None,
        }
    }

    /// The rounds behind it, if there are any.
    pub(crate) const fn decided(&self) -> Option<&'a Decided> {
        match &self.ground {
            Ground::Rounds(decided) | Ground::Nothing(Doubt::Taken(decided)) => Some(decided),
            Ground::Chances | Ground::Nothing(Doubt::NoRounds(_)) => None,
        }
    }

    /// Those that keep up, or fall behind, for sure; `None`: of which it is not decided.
    pub(crate) fn that_keep_up(&self, keeps_up: Option<bool>) -> Vec<ModeEntry<'a>> {
        self.all.iter().copied().filter(|one| one.keeps_up == keeps_up).collect()
    }

    /// `base`, if it is one of `entries`.
    pub(crate) fn base(entries: &[ModeEntry<'a>]) -> Option<ModeEntry<'a>> {
        entries.iter().copied().find(|one| one.subject.is_base())
    }

    /// How one stands to another in a figure.
    pub(crate) fn stands(&self, one: &ModeEntry<'_>, other: &ModeEntry<'_>, metric: Metric) -> Stands {
        let decided = match &self.ground {
            Ground::Rounds(decided) => decided.verdict(one.subject, other.subject, metric).cloned(),
            Ground::Chances => Some(by_chances(one, other, metric)),
            Ground::Nothing(_) => None,
        };
        match decided {
            Some(PairVerdict::Better { better }) if better == one.subject => Stands::Better,
            Some(PairVerdict::Better { .. }) => Stands::Worse,
            Some(PairVerdict::NoDifferent { .. }) => Stands::Same,
            Some(PairVerdict::Undecided { .. }) | None => Stands::Open,
        }
    }

    /// A figure of one over that of another. It says nothing by itself of which is better.
    pub(crate) fn ratio(&self, one: &ModeEntry<'_>, other: &ModeEntry<'_>, metric: Metric) -> Option<Estimated> {
        match &self.ground {
            Ground::Rounds(decided) => ratio_of(decided.pair(one.subject, other.subject, metric)?, one.subject),
            Ground::Chances => ratio_of_ranges(one, other, metric),
            Ground::Nothing(_) => None,
        }
    }

    /// The one that is better than all others that keep up, of at least two.
    pub(crate) fn best(&self, metric: Metric) -> Option<ModeEntry<'a>> {
        let kept_up = self.that_keep_up(Some(true));
        let beats = |one: &&ModeEntry<'_>| {
            let mut others = kept_up.iter().filter(|other| other.subject != one.subject);
            kept_up.len() > 1 && others.all(|other| self.stands(one, other, metric) == Stands::Better)
        };
        kept_up.iter().find(beats).copied()
    }

    /// Those that keep up and that no other beats: is better than in p99 or CPU, and no worse in the other; the cheapest first.
    /// `None` where nothing may be said.
    pub(crate) fn frontier(&self) -> Option<Vec<ModeEntry<'a>>> {
        if self.doubt().is_some() {
            return None;
        }
        let kept_up = self.that_keep_up(Some(true));
        let beats = |other: &ModeEntry<'_>, one: &ModeEntry<'_>| {
            let both = [Metric::P99, Metric::Cpu].map(|metric| self.stands(other, one, metric));
            both.contains(&Stands::Better) && both.iter().all(|stands| matches!(stands, Stands::Better | Stands::Same))
        };
        let unbeaten = |one: &ModeEntry<'_>| !kept_up.iter().any(|other| beats(other, one));
        let mut frontier: Vec<ModeEntry<'_>> = kept_up.iter().copied().filter(unbeaten).collect();
        frontier.sort_by(|a, b| a.value(Metric::Cpu).total_cmp(&b.value(Metric::Cpu)));
        Some(frontier)
    }
}

/// The ratio of a pair, as `one` over the other.
pub(crate) fn ratio_of(pair: &DecidedPair, one: Subject) -> Option<Estimated> {
    let ratio = pair.ratio?;
    if pair.a == one {
        return Some(ratio);
    }
    let over = |bound: Option<f64>| bound.filter(|bound| *bound > 0.0).map(|bound| 1.0 / bound);
    Some(Estimated { value: over(Some(ratio.value))?, low: over(ratio.high), high: over(ratio.low) })
}

/// From the ranges of the runs, so it never claims too much.
fn ratio_of_ranges(one: &ModeEntry<'_>, other: &ModeEntry<'_>, metric: Metric) -> Option<Estimated> {
    let (a, b) = (one.estimated(metric), other.estimated(metric));
    let over = |a: Option<f64>, b: Option<f64>| a.zip(b.filter(|b| *b > 0.0)).map(|(a, b)| a / b);
    Some(Estimated { value: over(Some(a.value), Some(b.value))?, low: over(a.low, b.high), high: over(a.high, b.low) })
}

/// Two predicted modes are no different within what their ranges allow; apart if the ranges are, and by more than a hair.
fn by_chances(one: &ModeEntry<'_>, other: &ModeEntry<'_>, metric: Metric) -> PairVerdict {
    const HAIR: f64 = 1.02;
    const BOUND: f64 = 1.1;
    let open = PairVerdict::Undecided { more_rounds: None };
    let runs = one.figures.runs.min(other.figures.runs);
    let Some((low, high)) = ratio_of_ranges(one, other, metric).and_then(|ratio| ratio.low.zip(ratio.high)) else {
        return open;
    };
    let less_is_better = metric != Metric::Throughput;
    let better = |is_less: bool| {
        let better = if is_less == less_is_better { one.subject } else { other.subject };
        PairVerdict::Better { better }
    };
    match runs {
        0 | 1 => open,
        _ if high < 1.0 / HAIR => better(true),
        _ if low > HAIR => better(false),
        _ if low >= 1.0 / BOUND && high <= BOUND => PairVerdict::NoDifferent { within_pct: 100.0 * (BOUND - 1.0) },
        _ => open,
    }
}

/// `a, b and c`.
pub(crate) fn and(all: &[String]) -> String {
    match all {
        [] => String::new(),
        [only] => only.clone(),
        [firsts @ .., last] => format!("{} and {last}", firsts.join(", ")),
    }
}

#[cfg(test)]
mod tests;

//! Whether it may be said which mode is better, and then which.
//!
//! Every sentence, mark and plot about the rows of a load asks a [`Block`], and a block answers with a [`Verdict`]. What is [`Given`] can
//! be made in this module only, after all that speaks against it was looked at: a machine that was taken away, runs that overlap, one run
//! whose spread is not known, one mode that has nothing beside it. A sentence that names a winner takes a `Given`, so there is none without.

use super::{Report, Row, Sustained};
use crate::loads::{Load, SustainSearch};
use crate::stats::{Figures, Measured};
use crate::subject::{Backend, Subject};

/// A figure by which modes are held against each other.
pub(crate) type Figure = fn(&Figures) -> f64;
pub(crate) const P99: Figure = |figures| figures.latency_us.p99;
pub(crate) const CPU: Figure = |figures| figures.cpu.total_pct;
pub(crate) const RPS: Figure = |figures| figures.achieved_rps;

/// What may be said, with nothing against it. Only this module makes one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Given<T>(T);

impl<T> Given<T> {
    pub(crate) fn get(&self) -> &T {
        &self.0
    }
}

/// What may be said, or why nothing may.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict<T> {
    /// This.
    Given(Given<T>),
    /// Nothing, for this reason.
    Withheld(Doubt),
}

/// Why nothing is said.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Doubt {
    /// Others had the machine, in words.
    Taken(String),
    /// Of one run it is not known how far runs lie apart.
    OneRun,
    /// The runs of these overlap; the one with the best median stands first.
    Overlap(Vec<Subject>),
    /// These kept up in some of their runs only.
    Sometimes(Vec<Subject>),
    /// There is nothing to hold it against.
    Alone,
}

impl Doubt {
    /// Why none is called the best.
    pub(crate) fn none_is_best(&self) -> String {
        match self {
            Self::Taken(taken) => format!("none is called the best, for the machine was taken away ({taken})"),
            Self::OneRun => "none is called the best: of one run the spread is unknown".to_owned(),
            Self::Overlap(subjects) => {
                format!("none is called the best: {} cannot be told apart (runs overlap)", and(&names(subjects)))
            }
            Self::Sometimes(subjects) => {
                format!("none is called the best: {} kept up in some runs only", and(&names(subjects)))
            }
            Self::Alone => "there is nothing to compare it with".to_owned(),
        }
    }
}

/// A mode of a block, with its figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Candidate<'a> {
    pub(crate) subject: Subject,
    pub(crate) figures: &'a Measured,
    /// By its median.
    sustains: bool,
    /// Not in all of its runs alike.
    sometimes: bool,
}

impl<'a> Candidate<'a> {
    fn of(row: &'a Row) -> Option<Self> {
        let figures = row.figures()?;
        let sustains = row.sustains();
        Some(Self { subject: row.subject, figures, sustains, sometimes: sustains_for_sure(row).is_none() })
    }

    pub(crate) fn median(&self, figure: Figure) -> f64 {
        figure(&self.figures.median)
    }

    fn overlaps(&self, other: &Self, figure: Figure) -> bool {
        let (a, b) = (&self.figures.spread, &other.figures.spread);
        figure(&a.min) <= figure(&b.max) && figure(&b.min) <= figure(&a.max)
    }

    /// Whether it is at least as good in both, and better in one.
    fn beats(&self, other: &Self) -> bool {
        let (p99, cpu) = (self.median(P99), self.median(CPU));
        let (other_p99, other_cpu) = (other.median(P99), other.median(CPU));
        p99 <= other_p99 && cpu <= other_cpu && (p99 < other_p99 || cpu < other_cpu)
    }

    pub(crate) fn name(&self) -> String {
        self.subject.name(false)
    }
}

/// Whether a row sustained its load in each of its runs, or in none; `None` if its runs differ in that, or it has no figures.
pub(crate) fn sustains_for_sure(row: &Row) -> Option<bool> {
    let figures = row.figures()?;
    let enough = |figures: &Figures| figures.in_time_pct.map(SustainSearch::is_enough);
    match (row.measured(), enough(&figures.spread.min), enough(&figures.spread.max)) {
        (Some(_), Some(least), Some(most)) => (least == most).then_some(least),
        // What is predicted is judged over all its runs together, and nothing is known of single runs of what has no shares.
        _ => Some(row.sustains()),
    }
}

/// The rows of one load and backend that have figures, and what speaks against a verdict on them.
#[derive(Clone, Debug)]
pub(crate) struct Block<'a> {
    pub(crate) load: Load,
    pub(crate) backend: Backend,
    pub(crate) all: Vec<Candidate<'a>>,
    doubt: Option<Doubt>,
}

/// Which modes of a block sustain its load.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Sustaining<'a> {
    /// None of them.
    None,
    /// One, and not the others.
    Only(Candidate<'a>),
    /// Several, or all.
    Several,
}

/// The best of a block in a figure, and the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Best<'a> {
    pub(crate) best: Candidate<'a>,
    pub(crate) next: Candidate<'a>,
}

impl<'a> Block<'a> {
    /// `None` if nothing of it has figures.
    pub(crate) fn of(report: &'a Report, load: Load, backend: Backend) -> Option<Self> {
        let at_load = || report.rows.iter().filter(move |row| row.load == load);
        let all: Vec<Candidate<'_>> =
            at_load().filter(|row| row.subject.backend == backend).filter_map(Candidate::of).collect();
        if all.is_empty() {
            return None;
        }
        // In virtual time nothing takes the machine away.
        let taken = if backend == Backend::Sim { None } else { report.taken_at(load) };
        let one_run = all.iter().any(|candidate| candidate.figures.runs < 2);
        let doubt = taken.map(Doubt::Taken).or(one_run.then_some(Doubt::OneRun));
        Some(Self { load, backend, all, doubt })
    }

    /// Those of a load, a block for each backend.
    pub(crate) fn all_of(report: &'a Report, load: Load) -> Vec<Self> {
        Backend::ALL.into_iter().filter_map(|backend| Self::of(report, load, backend)).collect()
    }

    /// What speaks against any verdict on this block.
    pub(crate) fn doubt(&self) -> Option<&Doubt> {
        self.doubt.as_ref()
    }

    fn give<T>(&self, what: T) -> Verdict<T> {
        match &self.doubt {
            None => Verdict::Given(Given(what)),
            Some(doubt) => Verdict::Withheld(doubt.clone()),
        }
    }

    /// Those that kept up, by their medians.
    pub(crate) fn kept_up(&self) -> Vec<Candidate<'a>> {
        self.all.iter().copied().filter(|candidate| candidate.sustains).collect()
    }

    /// Those that fell behind, by their medians.
    pub(crate) fn fell_behind(&self) -> Vec<Candidate<'a>> {
        self.all.iter().copied().filter(|candidate| !candidate.sustains).collect()
    }

    /// Which of them sustain the load.
    pub(crate) fn sustaining(&self) -> Verdict<Sustaining<'a>> {
        let which = match self.kept_up().as_slice() {
            [] => Sustaining::None,
            [only] if self.all.len() > 1 => Sustaining::Only(*only),
            _ => Sustaining::Several,
        };
        let sometimes: Vec<Subject> = self.all.iter().filter(|one| one.sometimes).map(|one| one.subject).collect();
        if self.doubt.is_none() && which != Sustaining::Several && !sometimes.is_empty() {
            return Verdict::Withheld(Doubt::Sometimes(sometimes));
        }
        self.give(which)
    }

    /// Those that no other beats in both p99 and CPU time, by their medians, from the cheapest; of those that kept up.
    pub(crate) fn unbeaten(&self) -> Vec<Candidate<'a>> {
        let kept_up = self.kept_up();
        let unbeaten = |one: &&Candidate<'_>| !kept_up.iter().any(|other| other.beats(one));
        let mut frontier: Vec<Candidate<'_>> = kept_up.iter().filter(unbeaten).copied().collect();
        frontier.sort_by(|a, b| a.median(CPU).total_cmp(&b.median(CPU)));
        frontier
    }

    /// The same as a verdict.
    pub(crate) fn frontier(&self) -> Verdict<Vec<Candidate<'a>>> {
        self.give(self.unbeaten())
    }

    /// Which has the lowest p99, of those that kept up.
    pub(crate) fn lowest_p99(&self) -> Verdict<Best<'a>> {
        self.best(&self.kept_up(), P99, |a, b| a < b)
    }

    /// Which answers most, in a closed loop.
    pub(crate) fn fastest(&self) -> Verdict<Best<'a>> {
        self.best(&self.all, RPS, |a, b| a > b)
    }

    /// Which has the least of a figure, or the most, of those that kept up.
    pub(crate) fn best_in(
        &self,
        figure: fn(&Figures) -> Option<f64>,
        is_better: fn(f64, f64) -> bool,
    ) -> Option<Given<Subject>> {
        if self.doubt.is_some() {
            return None;
        }
        let known: Vec<(Subject, f64, f64, f64)> = self
            .kept_up()
            .iter()
            .filter_map(|one| {
                let Measured { median, spread, .. } = one.figures;
                Some((one.subject, figure(median)?, figure(&spread.min)?, figure(&spread.max)?))
            })
            .collect();
        let better = |a: &&(Subject, f64, f64, f64), b: &&(Subject, f64, f64, f64)| {
            if is_better(a.1, b.1) { std::cmp::Ordering::Less } else { std::cmp::Ordering::Greater }
        };
        let (subject, _, low, high) = *known.iter().min_by(better).filter(|_| known.len() > 1)?;
        let apart = |other: &(Subject, f64, f64, f64)| other.0 == subject || low > other.3 || other.2 > high;
        known.iter().all(apart).then_some(Given(subject))
    }

    fn best(&self, of: &[Candidate<'a>], figure: Figure, is_better: fn(f64, f64) -> bool) -> Verdict<Best<'a>> {
        if let Some(doubt) = &self.doubt {
            return Verdict::Withheld(doubt.clone());
        }
        let first = |of: &[Candidate<'a>]| {
            of.iter().copied().reduce(|best, one| {
                // The first of equals.
                if is_better(one.median(figure), best.median(figure)) { one } else { best }
            })
        };
        let Some(best) = first(of) else { return Verdict::Withheld(Doubt::Alone) };
        let others: Vec<Candidate<'_>> = of.iter().copied().filter(|other| other.subject != best.subject).collect();
        let Some(next) = first(&others) else { return Verdict::Withheld(Doubt::Alone) };
        let rivals: Vec<Subject> =
            others.iter().filter(|other| other.overlaps(&best, figure)).map(|other| other.subject).collect();
        if !rivals.is_empty() {
            return Verdict::Withheld(Doubt::Overlap([vec![best.subject], rivals].concat()));
        }
        self.give(Best { best, next })
    }
}

/// Which mode of a backend sustains most, by the searches. Those that lie within what a search does not tell apart are not decided.
pub(crate) fn sustains_most(report: &Report, backend: Backend) -> Verdict<&Sustained> {
    let searched: Vec<&Sustained> =
        report.sustained.iter().filter(|one| one.subject.backend == backend && one.rps > 0).collect();
    let Some(most) = searched.iter().copied().max_by_key(|one| one.rps).filter(|_| searched.len() > 1) else {
        return Verdict::Withheld(Doubt::Alone);
    };
    if let Some(taken) = searched.iter().find_map(|one| one.taken.clone()) {
        return Verdict::Withheld(Doubt::Taken(taken));
    }
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    let near = |one: &Sustained| one.rps as f64 >= (1.0 - SustainSearch::PRECISION) * most.rps as f64;
    let mut alike: Vec<Subject> = searched.iter().filter(|one| near(one)).map(|one| one.subject).collect();
    if alike.len() > 1 {
        alike.sort_by_key(|subject| *subject != most.subject);
        return Verdict::Withheld(Doubt::Overlap(alike));
    }
    Verdict::Given(Given(most))
}

pub(crate) fn names(subjects: &[Subject]) -> Vec<String> {
    subjects.iter().map(|subject| subject.name(false)).collect()
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

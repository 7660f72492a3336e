//! What a comparison has found so far: every slice of every load, and what became of those that gave nothing.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use napier_kv::load::plan::nanos;
use napier_verdict::sustain::Attempt;
use napier_verdict::{Beside, Estimate, Settings, Slice, Slices};

use super::figures::{figures, in_time};
use super::machine::{Outside, Pauses};
use super::meter::CaseResult;
use crate::applied::Applied;
use crate::cpus::CpuLayout;
use crate::loads::{Load, SustainSearch};
use crate::report::{Decided, Lost, Outcome, Row, SavedSlices};
use crate::stats::{Figures, Measured, Spread};
use crate::subject::Subject;

/// So many failures one after the other end a comparison: the next slice would fail as well.
const FAILED_IN_A_ROW_MAX: u32 = 3;

/// What there is so far.
pub(super) struct Found {
    /// In the order of the rows.
    pub(super) loads: Vec<LoadFound>,
    /// At whatever rate, by the subject that runs.
    pub(super) attempts: Vec<Vec<Attempt>>,
    /// Rows that were not measured.
    pub(super) predicted: Vec<Row>,
    /// What simulated modes sustain.
    pub(super) predicted_sustained: Vec<crate::report::Sustained>,
    pub(super) searched_again: Option<String>,
    pub(super) loads_wrong: Option<String>,
    pub(super) request_cost_us: Option<f64>,
    /// The softirq threads had SCHED_FIFO in all slices.
    pub(super) fifo: bool,
    pub(super) in_force: Applied,
    pub(super) first_run_kib: Option<u64>,
    /// Failures, each with what failed, in the order in which they came.
    pub(super) failures: Vec<String>,
    /// Why no more slices follow, before all were run.
    pub(super) ended: Option<String>,
    failed_in_a_row: u32,
}

/// What there is of one load.
pub(super) struct LoadFound {
    pub(super) load: Load,
    pub(super) slices: Slices,
    /// By the subject that runs.
    rows: Vec<RowFound>,
    /// Rounds that were begun.
    pub(super) rounds: u32,
    /// Time that these took.
    pub(super) took: Duration,
    /// Rounds that were asked for; `None`: as many as the time allows.
    rounds_wanted: Option<u32>,
    pub(super) outside: Outside,
    pub(super) pauses: Pauses,
    /// What could be said at the last look.
    pub(super) decided: Option<Decided>,
    /// More rounds would tell nothing new.
    pub(super) is_over: bool,
}

/// What there is of a row.
#[derive(Default)]
struct RowFound {
    /// All slices that count, as one run.
    sum: Option<CaseResult>,
    /// All that were left out: where nothing else is there, they are shown, and nothing is decided by them.
    sum_left_out: Option<CaseResult>,
    slices: u32,
    kept: u32,
    left_out: u32,
    unanswered: u32,
    failures: Vec<String>,
}

impl Found {
    pub(super) fn new(subjects: usize) -> Self {
        Self {
            loads: Vec::new(),
            attempts: vec![Vec::new(); subjects],
            predicted: Vec::new(),
            predicted_sustained: Vec::new(),
            searched_again: None,
            loads_wrong: None,
            request_cost_us: None,
            fifo: true,
            in_force: Applied::new(),
            first_run_kib: None,
            failures: Vec::new(),
            ended: None,
            failed_in_a_row: 0,
        }
    }

    /// Whether there is anything to show.
    pub(super) fn has_figures(&self) -> bool {
        self.loads.iter().flat_map(|load| &load.rows).any(|row| row.kept > 0 || row.left_out > 0)
    }

    /// Keeps that a slice failed; too many in a row end the comparison. Each reason of a row is said once.
    pub(super) fn fail(&mut self, subject: Subject, load: Option<(usize, usize)>, why: String) {
        self.failed_in_a_row += 1;
        if self.failed_in_a_row == FAILED_IN_A_ROW_MAX {
            self.ended = Some(format!("{FAILED_IN_A_ROW_MAX} slices failed one after the other"));
        }
        let named = match load {
            Some((at, _)) => format!("{subject} at {}: {why}", self.loads[at].load),
            None => format!("{subject}: {why}"),
        };
        if !self.failures.contains(&named) {
            self.failures.push(named);
        }
        if let Some((at, subject)) = load {
            let row = &mut self.loads[at].rows[subject];
            row.slices += 1;
            row.failures.push(why);
        }
    }

    /// Keeps a slice of a row.
    pub(super) fn add(&mut self, at: usize, subject: usize, round: u32, layout: &CpuLayout, result: CaseResult) {
        self.failed_in_a_row = 0;
        self.fifo &= result.fifo;
        self.in_force.extend(result.in_force.clone());
        let load = &mut self.loads[at];
        let slice = slice_of(subject, round, layout, &result);
        load.outside = load.outside.and(result.outside);
        let left_out = load.slices.cause(&slice).is_some();
        if let Load::Rps(rate_rps) = load.load {
            self.attempts[subject].push(attempt(rate_rps, &slice, left_out));
        }
        let row = &mut load.rows[subject];
        row.slices += 1;
        row.unanswered += u32::from(slice.answered == 0 && slice.due > 0);
        load.slices.add(slice);
        let sum = if left_out {
            row.left_out += 1;
            &mut row.sum_left_out
        } else {
            row.kept += 1;
            &mut row.sum
        };
        match sum {
            Some(sum) => sum.add(result),
            none => *none = Some(result),
        }
    }

    /// Keeps a slice that was measured to learn what a subject sustains, and for nothing else.
    pub(super) fn try_rate(&mut self, subject: usize, rate_rps: u64, layout: &CpuLayout, result: &CaseResult) {
        self.failed_in_a_row = 0;
        let slice = slice_of(subject, 0, layout, result);
        let left_out = Settings::DEFAULT.rule.left_out(&slice.beside, slice.window_ns, slice.cpus).is_some();
        self.attempts[subject].push(attempt(rate_rps, &slice, left_out));
    }
}

#[expect(clippy::cast_precision_loss, reason = "a rate")]
fn attempt(rate_rps: u64, slice: &Slice, left_out: bool) -> Attempt {
    Attempt { rate: rate_rps as f64, due: slice.due, in_time: slice.in_time, left_out }
}

/// A slice as it is judged. Counters were read over a little more than the measured time; what they say is of that time.
fn slice_of(candidate: usize, round: u32, layout: &CpuLayout, result: &CaseResult) -> Slice {
    let measured = &result.measured;
    let elapsed_ns = nanos(Duration::from_secs_f64(result.seconds)).max(1);
    let of_window = |ns: u64| {
        u64::try_from(u128::from(ns) * u128::from(measured.window_ns) / u128::from(elapsed_ns)).unwrap_or(u64::MAX)
    };
    let Beside { others_ns, stolen_ns, client_waited_ns, pause_ns } = result.beside;
    Slice {
        candidate,
        round,
        window_ns: measured.window_ns,
        cpus: u32::try_from(layout.server_cpus()).expect("CPUs are few"),
        latency: measured
            .recorder
            .intended()
            .iter_recorded()
            .map(|step| (step.value_iterated_to(), step.count_since_last_iteration()))
            .collect(),
        cpu_ns: of_window(nanos(result.cpu_total)),
        due: measured.due,
        in_time: in_time(measured),
        answered: measured.answered,
        beside: Beside {
            others_ns: others_ns.map(of_window),
            stolen_ns: stolen_ns.map(of_window),
            client_waited_ns: client_waited_ns.map(of_window),
            pause_ns,
        },
    }
}

impl LoadFound {
    pub(super) fn new(load: Load, subjects: usize, settings: Settings, rounds_wanted: Option<u32>) -> Self {
        Self {
            load,
            slices: Slices::new(subjects, settings),
            rows: (0..subjects).map(|_| RowFound::default()).collect(),
            rounds: 0,
            took: Duration::ZERO,
            rounds_wanted,
            outside: Outside::default(),
            pauses: Pauses::default(),
            decided: None,
            is_over: false,
        }
    }

    /// Slices of a row that count, and those that were left out.
    pub(super) fn counts(&self, subject: usize) -> (u32, u32) {
        (self.rows[subject].kept, self.rows[subject].left_out)
    }

    /// Whether there was a slice of a row.
    pub(super) fn has_begun(&self, subject: usize) -> bool {
        self.rows[subject].slices > 0
    }

    /// Whether a subject keeps up with the load, or may; a closed loop asks for what is answered.
    pub(super) fn keeps_up(&self, subject: usize) -> bool {
        let most = |estimate: Estimate| estimate.interval.map_or(estimate.value, |interval| interval.high);
        let may = |estimate| SustainSearch::is_enough(100.0 * most(estimate));
        self.load == Load::Max || self.slices.in_time(subject).is_some_and(may)
    }

    /// Its slices that count, of each row.
    pub(super) fn saved<'a>(&'a self, subjects: &'a [Subject]) -> impl Iterator<Item = SavedSlices> + 'a {
        subjects.iter().enumerate().filter_map(|(at, subject)| SavedSlices::of(&self.slices, at, *subject, self.load))
    }

    /// What a row shows, and of how many slices: of those that count; where the machine was taken away, or none of them counts, of all.
    pub(super) fn shown(&self, subject: usize) -> Option<(Cow<'_, CaseResult>, u32)> {
        let row = &self.rows[subject];
        let all = self.slices.all_count(subject);
        match (&row.sum, row.sum_left_out.as_ref().filter(|_| all)) {
            (Some(sum), Some(left_out)) => {
                let mut both = sum.clone();
                both.add(left_out.clone());
                Some((Cow::Owned(both), row.kept + row.left_out))
            }
            (Some(sum), None) => Some((Cow::Borrowed(sum), row.kept)),
            (None, left_out) => left_out.map(|left_out| (Cow::Borrowed(left_out), row.left_out)),
        }
    }

    /// The row of a subject that runs.
    pub(super) fn row(&self, index: usize, subject: Subject, layout: &CpuLayout) -> Row {
        let row = &self.rows[index];
        let measured = self.shown(index).and_then(|(sum, runs)| {
            let median = self.figures_of(index, &sum, layout)?;
            Some(Measured { spread: self.spread(index, subject, &median), median, runs })
        });
        let outcome = measured.map_or(Outcome::Nothing, |measured| Outcome::Measured(Box::new(measured)));
        Row { subject, load: self.load, outcome, lost: self.lost(row), left_out: row.left_out }
    }

    fn figures_of(&self, index: usize, sum: &CaseResult, layout: &CpuLayout) -> Option<Figures> {
        let pace = self.load;
        let figures = figures(sum, layout, pace)?;
        // What was on its way at the end of each slice is counted there.
        let in_time = self.slices.in_time(index).filter(|_| pace != Load::Max);
        let in_time_pct = in_time.map(|estimate| 100.0 * estimate.value);
        Some(Figures { in_time_pct: in_time_pct.or(figures.in_time_pct), ..figures }.rounded())
    }

    /// The intervals of the figures that have one.
    fn spread(&self, index: usize, subject: Subject, all: &Figures) -> Spread {
        let (mut min, mut max) = (*all, *all);
        let in_time = self.slices.in_time(index).filter(|_| self.load != Load::Max);
        if let Some(interval) = in_time.and_then(|estimate| estimate.interval) {
            (min.in_time_pct, max.in_time_pct) = (Some(100.0 * interval.low), Some(100.0 * interval.high));
        }
        let mode = self.decided.as_ref().and_then(|decided| decided.mode(subject));
        let Some(mode) = mode else { return Spread { min, max } };
        let mut set = |estimated: Option<crate::report::Estimated>, field: fn(&mut Figures) -> &mut f64| {
            if let Some(estimated) = estimated {
                *field(&mut min) = estimated.low.unwrap_or(estimated.value);
                *field(&mut max) = estimated.high.unwrap_or(estimated.value);
            }
        };
        set(mode.p50_us, |figures| &mut figures.latency_us.p50);
        set(mode.p99_us, |figures| &mut figures.latency_us.p99);
        set(mode.p999_us, |figures| &mut figures.latency_us.p999);
        set(mode.cpu_pct, |figures| &mut figures.cpu.total_pct);
        set(mode.throughput_rps, |figures| &mut figures.achieved_rps);
        Spread { min, max }
    }

    /// The slices of a row that gave nothing, though the machine was there.
    fn lost(&self, row: &RowFound) -> Option<Lost> {
        let of = self.rounds_wanted.unwrap_or(self.rounds.max(1)).max(row.slices);
        let failed = u32::try_from(row.failures.len()).expect("no more than there are slices");
        // Without a number that was asked for nothing is missing of a row that has slices.
        let not_run = if self.rounds_wanted.is_some() || row.slices == 0 { of - row.slices } else { 0 };
        let mut why = Vec::new();
        if row.unanswered > 0 {
            why.push(format!(
                "{} in which no request that was due while it was measured was answered (overloaded, or stalled)",
                row.unanswered
            ));
        }
        if !row.failures.is_empty() {
            let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
            row.failures.iter().for_each(|why| *reasons.entry(why).or_default() += 1);
            let most = reasons.iter().max_by_key(|(_, count)| **count).map_or("", |(why, _)| *why);
            why.push(format!("{failed} failed ({most})"));
        }
        if not_run > 0 {
            why.push(format!("{not_run} not run"));
        }
        let runs = row.unanswered + failed + not_run;
        (runs > 0).then(|| Lost { runs, of, not_run, why: why.join(", ") })
    }
}

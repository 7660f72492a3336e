//! Rounds: one slice of every row of a load, next to each other in time, in random order; and passes over all loads, so that a
//! comparison that ends early has said something of each.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use napier_kv::load::plan::Window;
use napier_rng::{Xoshiro256PlusPlus, below};
use napier_verdict::Settings;
use napier_verdict::sustain::{self, Search};

use super::case::run_case;
use super::comparison::{Comparison, DRAIN, RUN_OVERHEAD, WARM_UP};
use super::decide;
use super::found::{Found, LoadFound};
use super::kernel::counters;
use super::machine::Pauses;
use super::meter::CaseResult;
use super::process;
use super::stand::{self, MARGIN, SliceOf, Stand};
use super::workload::{OfferedLoad, Workload};
use crate::cpus::CpuLayout;
use crate::loads::Load;
use crate::modes::Mode;
use crate::report::{hdrlog, one_line, progress::Progress};
use crate::subject::{Backend, Subject};

/// Length of a slice where server and client go on between slices.
const SLICE: Duration = Duration::from_millis(60);

/// Where each slice has a server and a client of its own, which takes longer than the slice.
const SLICE_ALONE: Duration = Duration::from_millis(150);

/// Passes over the loads. After each it is looked what is decided; each look has its share of the error.
pub(super) const PASSES: u32 = 5;

/// The kernel's polls are counted in this many rounds of a load: it takes 0.3 s each.
const COUNTED_ROUNDS: u32 = 2;

/// Slices at rates of their own, for what each row sustains, in a pass.
const TRIES: u32 = 3;

/// Most slices of the search for the loads.
const LADDER_TRIES: u32 = 24;

/// What a search leaves unknown.
const WITHIN: f64 = 0.05;

/// A comparison at work.
pub(super) struct Rounds<'a> {
    pub(super) comparison: &'a Comparison<'a>,
    /// In the order of the rows.
    pub(super) subjects: Vec<Subject>,
    layouts: Vec<CpuLayout>,
    stand: Option<Stand>,
    /// The same without what is traced.
    uncounted: Workload,
    pub(super) slice: Duration,
    order: Xoshiro256PlusPlus,
    /// Slices that were begun: no two have the same arrivals, but for those of one round.
    slices: u64,
    pub(super) deadline: Instant,
    pub(super) progress: Progress,
}

impl<'a> Rounds<'a> {
    pub(super) fn new(comparison: &'a Comparison<'a>, deadline: Instant) -> anyhow::Result<Self> {
        let subjects: Vec<Subject> = comparison.runnable().collect();
        let layouts = subjects.iter().map(|subject| comparison.layout(subject.mode)).collect::<Result<_, _>>()?;
        let mut all = Self {
            comparison,
            subjects,
            layouts,
            stand: None,
            uncounted: Workload { counters: None, ..comparison.workload.clone() },
            slice: SLICE,
            order: napier_rng::stream(comparison.config.seed, "order of slices"),
            slices: 0,
            deadline,
            progress: Progress::new(0),
        };
        let alone = all.subjects.iter().all(|subject| !all.is_held(*subject));
        all.slice = comparison.config.run_length.unwrap_or(if alone { SLICE_ALONE } else { SLICE });
        Ok(all)
    }

    /// Whether slices of a subject are measured on the stand.
    fn is_held(&self, subject: Subject) -> bool {
        Stand::can_hold(&self.comparison.workload, subject, self.comparison.config.has_kernel())
    }

    pub(super) fn layout(&self, subject: usize) -> &CpuLayout {
        &self.layouts[subject]
    }

    /// About how long a round takes.
    pub(super) fn round_time(&self) -> Duration {
        self.subjects.iter().map(|subject| self.slice_time(*subject)).sum()
    }

    fn slice_time(&self, subject: Subject) -> Duration {
        self.slice + if self.is_held(subject) { stand::OVERHEAD } else { RUN_OVERHEAD }
    }

    pub(super) fn is_interrupted(&self) -> bool {
        self.comparison.interrupted.load(Ordering::Relaxed)
    }

    /// Measures one slice of a subject.
    fn slice(&mut self, subject: usize, pace: Load, seed: u64, counted: bool) -> anyhow::Result<CaseResult> {
        self.slices += 1;
        let (of, comparison) = (self.subjects[subject], self.comparison);
        if self.is_held(of) {
            if self.stand.is_none() {
                self.stand = Some(Stand::start(&self.uncounted, self.widest_layout()?, comparison.interrupted)?);
            }
            let stand = self.stand.as_mut().expect("it was made");
            let _showing = self.uncounted.shown.set(stand.engine());
            let slice = SliceOf { mode: of.mode, pace, length: self.slice, seed };
            let result = stand.slice(slice, comparison.interrupted);
            if result.is_err() {
                // What broke is made anew.
                self.stand = None;
            }
            return result;
        }
        if let Some(stand) = &mut self.stand {
            stand.rest()?;
        }
        let workload = if counted { &comparison.workload } else { &self.uncounted };
        let workload = Workload { arrivals: seed, ..workload.clone() };
        self.by_itself(&workload, of, &self.layouts[subject], pace)
    }

    /// A slice with a server and a client of its own.
    fn by_itself(
        &self,
        workload: &Workload,
        subject: Subject,
        cpus: &CpuLayout,
        pace: Load,
    ) -> anyhow::Result<CaseResult> {
        let window = Window { warm_up: WARM_UP, measure: self.slice, margin: MARGIN, drain: DRAIN };
        run_case(workload, subject, cpus, OfferedLoad { pace, window }, self.comparison.interrupted)
    }

    /// Of the modes that the stand holds the layout that has CPUs for all of them.
    fn widest_layout(&self) -> anyhow::Result<CpuLayout> {
        let held = self.subjects.iter().filter(|subject| self.is_held(**subject));
        let mode = held.map(|subject| subject.mode).find(|mode| *mode == Mode::ThreadedBusyPoll);
        Ok(self.comparison.layout(mode.unwrap_or(Mode::Base))?)
    }

    /// What a request costs the server where nothing but requests takes its time: `fullbusy`, in closed loop, in µs.
    pub(super) fn request_cost(&mut self) -> Option<f64> {
        if !self.comparison.config.backends.contains(&Backend::Engine) {
            // Of the kernel a part of it is spent where it cannot be told from others'.
            return None;
        }
        let subject = Subject::engine(Mode::FullBusy);
        let result = match self.subjects.iter().position(|one| *one == subject) {
            Some(at) => self.slice(at, Load::Max, self.comparison.config.seed, false),
            None => {
                let layout = self.comparison.layout(subject.mode).ok()?;
                self.by_itself(&self.uncounted, subject, &layout, Load::Max)
            }
        };
        let result = result.ok()?;
        let per_s = result.measured.answered_per_s();
        (per_s > 0.0).then(|| (result.cpu_total.as_secs_f64() / result.seconds / per_s * 1e9).round() / 1e3)
    }

    /// Finds the rate that a subject sustains, near enough to choose loads by.
    pub(super) fn search(&mut self, subject: usize, found: &mut Found) -> anyhow::Result<u64> {
        let closed = self.slice(subject, Load::Max, self.comparison.config.seed, false)?;
        let first = (closed.measured.answered_per_s() * 0.8).max(1000.0);
        let mut tried = 0;
        while tried < LADDER_TRIES && self.try_rate(subject, first, found)? {
            tried += 1;
        }
        let known = sustain::sustained(&found.attempts[subject], &Settings::DEFAULT);
        let rate = known.and_then(|known| known.keeps_up_to()).unwrap_or(first);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate is neither")]
        Ok(rate as u64)
    }

    /// Measures a slice at the rate that tells most of what a subject sustains; false if no more is to be known.
    fn try_rate(&mut self, subject: usize, first: f64, found: &mut Found) -> anyhow::Result<bool> {
        let search = Search { first, lowest: 100.0, highest: 1e8, within: WITHIN };
        let next = sustain::next_rate(&found.attempts[subject], &search, &Settings::DEFAULT);
        let Some(rate) = next else { return Ok(false) };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate is neither")]
        let rate_rps = rate.max(1.0) as u64;
        let seed = self.comparison.config.seed.wrapping_add(self.slices);
        let result = self.slice(subject, Load::Rps(rate_rps), seed, false)?;
        found.try_rate(subject, rate_rps, &self.layouts[subject], &result);
        Ok(true)
    }

    /// What each subject sustains, by some more slices.
    pub(super) fn try_rates(&mut self, first: f64, found: &mut Found) {
        for subject in 0..self.subjects.len() {
            for _ in 0..TRIES {
                if found.ended.is_some() || self.is_over(Duration::ZERO) {
                    return;
                }
                self.progress.message(format!("what {} sustains", self.subjects[subject]));
                match self.try_rate(subject, first, found) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(_) if self.is_interrupted() => return,
                    Err(error) => {
                        let name = self.subjects[subject];
                        found.fail(name, None, format!("searching what it sustains: {}", one_line(&error)));
                    }
                }
            }
        }
    }

    /// Whether there is no time for what takes so long, or it was interrupted.
    pub(super) fn is_over(&self, takes: Duration) -> bool {
        self.is_interrupted() || Instant::now() + takes > self.deadline
    }

    /// Whether there is time for so many rounds.
    pub(super) fn has_time_for(&self, rounds: u32) -> bool {
        !self.is_over(self.round_time() * rounds)
    }

    /// Runs rounds of a load.
    pub(super) fn run(&mut self, at: usize, rounds: u32, timed: bool, found: &mut Found) {
        let begun = Instant::now();
        if found.loads[at].rounds == 0 && found.ended.is_none() && !self.is_interrupted() {
            let layout = self.comparison.layout(Mode::Base);
            let cpus = layout.map(|layout| self.comparison.workload.watched(&layout)).unwrap_or_default();
            if let Some(stand) = &mut self.stand {
                let _ = stand.rest();
            }
            found.loads[at].pauses = Pauses::watch(&cpus);
        }
        for _ in 0..rounds {
            if found.ended.is_some() || (timed && self.is_over(self.round_time())) || self.is_interrupted() {
                break;
            }
            self.round(at, found);
        }
        found.loads[at].took += begun.elapsed();
    }

    fn round(&mut self, at: usize, found: &mut Found) {
        let (load, round) = (found.loads[at].load, found.loads[at].rounds);
        found.loads[at].rounds += 1;
        let seed = self.comparison.config.seed.wrapping_add(1000 + self.slices);
        let mut order: Vec<usize> = (0..self.subjects.len()).collect();
        for left in (1..order.len()).rev() {
            let end = u32::try_from(left + 1).expect("rows are few");
            order.swap(left, below(&mut self.order, end) as usize);
        }
        for subject in order {
            let name = self.subjects[subject];
            self.progress.message(format!("{name} at {load}, round {}", round + 1));
            match self.slice(subject, load, seed, round < COUNTED_ROUNDS) {
                Ok(result) => {
                    self.try_histogram(at, subject, found, &result);
                    found.add(at, subject, round, &self.layouts[subject], result);
                }
                Err(_) if self.is_interrupted() => return,
                Err(error) => {
                    let why = one_line(&error) + &process::descriptor_advice(&error);
                    if found.has_figures() {
                        self.progress.failed(&format!("{name} at {load}, round {}: {why}", round + 1));
                    }
                    found.fail(name, Some((at, subject)), why);
                }
            }
            self.progress.done();
            found.first_run_kib = found.first_run_kib.or_else(process::resident_kib);
            if found.ended.is_some() {
                return;
            }
        }
    }

    /// Writes the histogram of a row's first slice, if histograms are wanted: what cannot be written is known at once, and not after all is
    /// measured. It is replaced by that of the row at the end.
    fn try_histogram(&self, at: usize, subject: usize, found: &mut Found, result: &CaseResult) {
        let load = &found.loads[at];
        if let Some(dir) = self.comparison.config.out.as_ref().filter(|_| !load.has_begun(subject))
            && let Err(error) =
                hdrlog::write(dir, self.subjects[subject], load.load, &result.measured.recorder, self.slice)
        {
            found.ended = Some(error.to_string());
        }
    }

    /// Looks what can be said of a load now.
    pub(super) fn look(&self, load: &mut LoadFound) {
        let decided = decide::decided(load, &self.subjects, self.slice);
        load.is_over = decided.is_some_and(|decided| {
            let open = decided.taken || decided.pairs.iter().any(decide::is_undecided);
            load.decided = Some(decided);
            !open
        });
    }

    /// Rounds for each of so many loads in a pass, if so many passes are left.
    pub(super) fn rounds_of_pass(&self, loads: usize, passes_left: u32, also: Duration) -> u32 {
        let left = self.deadline.saturating_duration_since(Instant::now()).saturating_sub(also) / passes_left.max(1);
        let loads = u32::try_from(loads.max(1)).expect("loads are few");
        let round = self.round_time().max(Duration::from_millis(1)) * loads;
        u32::try_from(left.as_millis() / round.as_millis().max(1)).unwrap_or(u32::MAX).max(1)
    }

    /// Time that a pass spends on what rows sustain.
    pub(super) fn tries_time(&self) -> Duration {
        self.round_time() * TRIES
    }

    /// Time that counting polls of the kernel adds.
    pub(super) fn counting_time(&self, loads: usize) -> Duration {
        let rounds = u32::try_from(loads * self.subjects.len()).unwrap_or(u32::MAX).saturating_mul(COUNTED_ROUNDS);
        if self.comparison.workload.counters.is_some() {
            counters::LASTS.saturating_mul(rounds)
        } else {
            Duration::ZERO
        }
    }
}

/// The most rounds that a load gets: a distribution of so many slices is known well enough.
pub(super) const ROUNDS_MAX: u32 = 400;

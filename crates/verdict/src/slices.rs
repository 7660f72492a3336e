//! The slices of one load, and what follows from them.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use crate::judge::judge;
use crate::look::{Look, Second};
use crate::{Cause, Estimate, Histogram, Interval, Metric, Pair, Settings, Slice};

/// How many slices were left out, and why.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Slices that were left out.
    pub slices: usize,
    /// Of so many.
    pub of: usize,
    /// How many for which cause.
    pub causes: BTreeMap<Cause, usize>,
}

/// All slices of one load.
#[derive(Debug, Clone)]
pub struct Slices {
    settings: Settings,
    candidates: usize,
    slices: Vec<Slice>,
    second: Option<Second>,
    /// Made when something is asked, and gone with the next slice.
    look: OnceCell<Look>,
}

impl Slices {
    /// Those of a load at which `candidates` are compared; none yet.
    #[must_use]
    pub fn new(candidates: usize, settings: Settings) -> Self {
        Self { settings, candidates, slices: Vec::new(), second: None, look: OnceCell::new() }
    }

    /// Both, of two runs that were not measured next to each other; the candidates of the second are numbered behind these. Of candidates of two
    /// runs no rounds are pairs: their ratios come of rounds that are drawn for each run by itself, their verdicts of the ranks of all rounds.
    /// What differs between the runs as a whole, such as where memory lies, is in no slice, and no verdict knows of it.
    ///
    /// # Panics
    /// If one of them is of two runs already.
    #[must_use]
    pub fn beside(&self, second: &Self) -> Self {
        assert!(self.second.is_none() && second.second.is_none(), "two runs are compared, and not more");
        let from = Second {
            candidate: self.candidates,
            round: self.slices.iter().map(|slice| slice.round + 1).max().unwrap_or(0),
        };
        let moved = |slice: &Slice| Slice {
            candidate: from.candidate + slice.candidate,
            round: from.round + slice.round,
            ..slice.clone()
        };
        Self {
            settings: self.settings,
            candidates: self.candidates + second.candidates,
            slices: self.slices.iter().cloned().chain(second.slices.iter().map(moved)).collect(),
            second: Some(from),
            look: OnceCell::new(),
        }
    }

    /// Adds a slice, in any order.
    ///
    /// # Panics
    /// If its candidate is not one of those that are compared.
    pub fn add(&mut self, slice: Slice) {
        assert!(slice.candidate < self.candidates, "candidate {} of {}", slice.candidate, self.candidates);
        self.slices.push(slice);
        self.look.take();
    }

    /// How many candidates there are.
    #[must_use]
    pub fn candidates(&self) -> usize {
        self.candidates
    }

    /// What was fixed before looking.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// All slices, also those that are left out.
    #[must_use]
    pub fn all(&self) -> &[Slice] {
        &self.slices
    }

    /// How many rounds have a slice.
    #[must_use]
    pub fn rounds(&self) -> usize {
        let mut rounds: Vec<u32> = self.slices.iter().map(|slice| slice.round).collect();
        rounds.sort_unstable();
        rounds.dedup();
        rounds.len()
    }

    /// Why a slice is left out; `None` if it is kept.
    #[must_use]
    pub fn cause(&self, slice: &Slice) -> Option<Cause> {
        self.settings.rule.left_out(&slice.beside, slice.window_ns, slice.cpus)
    }

    /// The slices of a candidate that are kept.
    pub fn kept(&self, candidate: usize) -> impl Iterator<Item = &Slice> {
        self.slices.iter().filter(move |slice| slice.candidate == candidate && self.cause(slice).is_none())
    }

    /// The slices of a candidate that are left out.
    #[must_use]
    pub fn left_out(&self, candidate: usize) -> LeftOut {
        self.count_left_out(self.slices.iter().filter(|slice| slice.candidate == candidate))
    }

    /// The slices of all candidates that are left out.
    #[must_use]
    pub fn left_out_of_all(&self) -> LeftOut {
        self.count_left_out(self.slices.iter())
    }

    fn count_left_out<'a>(&self, slices: impl Iterator<Item = &'a Slice>) -> LeftOut {
        let mut counted = LeftOut::default();
        for slice in slices {
            counted.of += 1;
            if let Some(cause) = self.cause(slice) {
                counted.slices += 1;
                *counted.causes.entry(cause).or_default() += 1;
            }
        }
        counted
    }

    /// Whether the machine was taken away: more than half of all slices are left out.
    #[must_use]
    pub fn taken(&self) -> bool {
        let left_out = self.left_out_of_all();
        2 * left_out.slices > left_out.of
    }

    /// Whether all slices of a candidate count, and not those alone that are kept: where the machine was taken away, and where none is kept.
    #[must_use]
    pub fn all_count(&self, candidate: usize) -> bool {
        self.taken() || self.kept(candidate).next().is_none()
    }

    /// The latencies of all slices of a candidate that are kept.
    #[must_use]
    pub fn latency(&self, candidate: usize) -> Histogram {
        let mut all = Histogram::new();
        self.kept(candidate).for_each(|slice| all.merge(&slice.latency));
        all
    }

    /// The share of what was due in a slice that was answered in it in time: the median over the slices that are kept, and where it
    /// lies. A candidate keeps up if as many slices do as not, by which [`sustained`](crate::sustain::sustained) judges too: one
    /// pause that was not seen says nothing against many slices. Where the machine was taken away all slices count, and not the few that were
    /// kept. `None` if nothing was due.
    #[must_use]
    pub fn in_time(&self, candidate: usize) -> Option<Estimate> {
        let share = |slice: &Slice| slice.in_time as f64 / slice.due as f64;
        let of = |slice: &&Slice| slice.candidate == candidate && slice.due > 0;
        let all = self.all_count(candidate);
        let counted = self.slices.iter().filter(|slice| all || self.cause(slice).is_none());
        let mut shares: Vec<f64> = counted.filter(of).map(share).collect();
        shares.sort_unstable_by(f64::total_cmp);
        let (last, count) = (shares.len().checked_sub(1)?, shares.len() as f64);
        // Ranks around the median by the normal approximation of the binomial distribution, at 95 %.
        let away = 1.96 * count.sqrt() / 2.0;
        let low = ((count / 2.0 - away).floor().max(0.0) as usize).min(last);
        let interval = Interval { low: shares[low], high: shares[last - low] };
        Some(Estimate { value: f64::midpoint(shares[last / 2], shares[last.div_ceil(2)]), interval: Some(interval) })
    }

    /// A figure of a candidate: of the latencies of all kept slices together, of their CPU time or their answers.
    #[must_use]
    pub fn estimate(&self, candidate: usize, metric: Metric) -> Option<Estimate> {
        self.look().estimate(candidate, metric)
    }

    /// The figure of `a` divided by that of `b`, of the rounds in which both were kept.
    #[must_use]
    pub fn ratio(&self, a: usize, b: usize, metric: Metric) -> Option<Estimate> {
        self.look().ratio(a, b, metric).map(|ratio| ratio.estimate)
    }

    /// Verdicts of all pairs of candidates, in each of these figures.
    #[must_use]
    pub fn pairs(&self, metrics: &[Metric]) -> Vec<Pair> {
        let pairs: Vec<(usize, usize)> =
            (0..self.candidates).flat_map(|a| (a + 1..self.candidates).map(move |b| (a, b))).collect();
        self.verdicts(&pairs, metrics)
    }

    /// Verdicts of these pairs in each of these figures, corrected for how many they are. All that is said of a load must
    /// come from one call.
    #[must_use]
    pub fn verdicts(&self, pairs: &[(usize, usize)], metrics: &[Metric]) -> Vec<Pair> {
        judge(self.look(), pairs, metrics, &self.settings)
    }

    /// Whether all pairs are decided in all of these figures, so that more slices would tell nothing new.
    #[must_use]
    pub fn is_decided(&self, metrics: &[Metric]) -> bool {
        self.pairs(metrics).iter().all(|pair| pair.verdict.is_decided())
    }

    fn look(&self) -> &Look {
        self.look.get_or_init(|| {
            let kept: Vec<&Slice> = self.slices.iter().filter(|slice| self.cause(slice).is_none()).collect();
            Look::new(self.candidates, &kept, self.second, &self.settings)
        })
    }
}

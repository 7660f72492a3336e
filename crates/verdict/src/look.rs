//! One look at the slices: tables of all candidates, and one set of resamples for all of them.

use std::cell::RefCell;
use std::collections::BTreeMap;

use napier_rng::{below, stream};

use crate::numbers::{normal_above, student_bound};
use crate::rank::Evidence;
use crate::table::ByRound;
use crate::{Estimate, Interval, Metric, Settings, Slice};

/// Logarithms of a figure of a candidate in each resample, of the rounds of a mask.
type Replicates = BTreeMap<(usize, Metric, Vec<bool>), Vec<f64>>;

/// So many requests beyond a quantile make it a figure of its own; where a slice has fewer, rounds are taken together.
const BEYOND_MIN: f64 = 5.0;

/// Where a second run begins among slices.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Second {
    /// Its first candidate.
    pub(crate) candidate: usize,
    /// Its first round.
    pub(crate) round: u32,
}

/// What follows from the slices that are there.
#[derive(Debug, Clone)]
pub(crate) struct Look {
    tables: Vec<ByRound>,
    rounds: usize,
    /// How often each round is in each resample, resample after resample.
    weights: Vec<f32>,
    level: f64,
    rounds_min: usize,
    /// The first candidate of a second run.
    second: Option<usize>,
    replicates: RefCell<Replicates>,
}

/// A ratio of two candidates, as a logarithm.
pub(crate) struct Ratio {
    /// With its interval.
    pub(crate) estimate: Estimate,
    /// Standard error of the logarithm, of the bootstrap.
    pub(crate) error: f64,
    /// Rounds that have both.
    pub(crate) rounds: usize,
}

impl Look {
    /// At the slices that are kept.
    pub(crate) fn new(candidates: usize, kept: &[&Slice], second: Option<Second>, settings: &Settings) -> Self {
        let mut numbers: Vec<u32> = kept.iter().map(|slice| slice.round).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let index = |slice: &Slice| numbers.binary_search(&slice.round).expect("its number is among them");
        let rounds = numbers.len();
        let table = |candidate| {
            let own = kept.iter().filter(|slice| slice.candidate == candidate);
            ByRound::new(rounds, &own.map(|slice| (index(slice), *slice)).collect::<Vec<_>>())
        };
        let mut rng = stream(settings.seed, "rounds of the bootstrap");
        let mut weights = vec![0.0; rounds * settings.resamples as usize];
        // Rounds of two runs are drawn each among their own.
        let of_first = second.map_or(rounds, |second| numbers.partition_point(|round| *round < second.round));
        for weights in weights.chunks_mut(rounds.max(1)) {
            for run in [0..of_first, of_first..rounds] {
                run.clone().for_each(|_| weights[run.start + below(&mut rng, run.len() as u32) as usize] += 1.0);
            }
        }
        let rounds_min = settings.rounds_min.max(2) as usize;
        let tables = (0..candidates).map(table).collect();
        let second = second.map(|second| second.candidate);
        Self { tables, rounds, weights, level: settings.level, rounds_min, second, replicates: RefCell::default() }
    }

    /// Whether they are of two runs.
    fn are_apart(&self, a: usize, b: usize) -> bool {
        self.second.is_some_and(|second| (a < second) != (b < second))
    }

    /// The rounds that have all of these candidates.
    fn mask(&self, candidates: &[usize]) -> Vec<bool> {
        (0..self.rounds).map(|round| candidates.iter().all(|candidate| self.tables[*candidate].kept[round])).collect()
    }

    /// The figure of a candidate over the rounds of a mask.
    fn figure(&self, candidate: usize, metric: Metric, mask: &[bool]) -> Option<f64> {
        let weights: Vec<f32> = mask.iter().map(|is| f32::from(u8::from(*is))).collect();
        self.tables[candidate].figure(metric, &weights)
    }

    /// Its logarithm in each resample; not a number where no round of the mask was drawn.
    fn replicates(&self, candidate: usize, metric: Metric, mask: &[bool]) -> Vec<f64> {
        let key = (candidate, metric, mask.to_vec());
        if let Some(known) = self.replicates.borrow().get(&key) {
            return known.clone();
        }
        let mut weights = vec![0.0; self.rounds];
        let of = |resample: &[f32]| {
            for (round, weight) in resample.iter().enumerate() {
                weights[round] = if mask[round] { *weight } else { 0.0 };
            }
            self.tables[candidate].figure(metric, &weights).map_or(f64::NAN, f64::ln)
        };
        let made: Vec<f64> = self.weights.chunks(self.rounds.max(1)).map(of).collect();
        self.replicates.borrow_mut().insert(key, made.clone());
        made
    }

    /// A candidate's figure over all its rounds.
    pub(crate) fn estimate(&self, candidate: usize, metric: Metric) -> Option<Estimate> {
        let mask = self.mask(&[candidate]);
        let value = self.figure(candidate, metric, &mask)?;
        let rounds = count(&mask);
        let interval =
            (rounds >= self.rounds_min).then(|| self.interval(self.replicates(candidate, metric, &mask), rounds));
        Some(Estimate { value, interval: interval.flatten() })
    }

    /// The figure of `a` divided by that of `b`, over the rounds that have both; of two runs over all rounds of each, and there are as many as
    /// the shorter one has.
    pub(crate) fn ratio(&self, a: usize, b: usize, metric: Metric) -> Option<Ratio> {
        let [of_a, of_b] = if self.are_apart(a, b) {
            [self.mask(&[a]), self.mask(&[b])]
        } else {
            [(); 2].map(|()| self.mask(&[a, b]))
        };
        let rounds = count(&of_a).min(count(&of_b));
        let value = self.figure(a, metric, &of_a)? / self.figure(b, metric, &of_b)?;
        if rounds < self.rounds_min {
            return Some(Ratio { estimate: Estimate { value, interval: None }, error: f64::INFINITY, rounds });
        }
        let (of_a, of_b) = (self.replicates(a, metric, &of_a), self.replicates(b, metric, &of_b));
        let mut logs: Vec<f64> = of_a.iter().zip(&of_b).map(|(a, b)| a - b).collect();
        logs.retain(|log| log.is_finite());
        let mean = logs.iter().sum::<f64>() / logs.len() as f64;
        let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / logs.len() as f64;
        // The bootstrap of n rounds has the spread of n - 1.
        let error = (variance * rounds as f64 / (rounds - 1) as f64).sqrt();
        Some(Ratio { estimate: Estimate { value, interval: self.interval(logs, rounds) }, error, rounds })
    }

    /// The percentile interval of logarithms, widened for few rounds as Student's distribution is wider than the normal one
    /// (Hesterberg, What Teachers Should Know About the Bootstrap, 2015, "expanded percentile").
    fn interval(&self, mut logs: Vec<f64>, rounds: usize) -> Option<Interval> {
        logs.retain(|log| log.is_finite());
        logs.sort_by(f64::total_cmp);
        let n = rounds as f64;
        let outside = normal_above((n / (n - 1.0)).sqrt() * student_bound(1.0 - self.level, n - 1.0));
        let skipped = (outside * logs.len() as f64) as usize;
        let last = logs.len().checked_sub(1)?;
        Some(Interval { low: logs.get(skipped)?.exp(), high: logs[last - skipped].exp() })
    }

    /// The logarithms of a figure of both in each round; where a slice has too few requests for the quantile, of neighbouring rounds together,
    /// of as many for both.
    pub(crate) fn evidence(&self, a: usize, b: usize, metric: Metric) -> Evidence {
        let need = metric.quantile().map_or(0.0, |q| BEYOND_MIN / q.min(1.0 - q) * (1.0 - 1e-9));
        let log = |candidate: usize, group: &[f32]| self.tables[candidate].figure(metric, group).map(f64::ln);
        if self.are_apart(a, b) {
            let mean = |of: usize| {
                let kept: Vec<f64> = self.rounds_of(&[of]).map(|round| self.tables[of].count(round)).collect();
                kept.iter().sum::<f64>() / kept.len().max(1) as f64
            };
            let size = (need / mean(a).min(mean(b)).max(1.0)).ceil().max(1.0) as usize;
            let logs = |of: usize| {
                let rounds: Vec<usize> = self.rounds_of(&[of]).collect();
                self.groups(rounds.chunks(size).filter(|chunk| chunk.len() == size))
                    .iter()
                    .filter_map(|group| log(of, group))
                    .collect()
            };
            return Evidence::Apart(logs(a), logs(b));
        }
        let (mut chunks, mut chunk): (Vec<Vec<usize>>, Vec<usize>) = (Vec::new(), Vec::new());
        let (mut requests_a, mut requests_b) = (0.0, 0.0);
        for round in self.rounds_of(&[a, b]) {
            chunk.push(round);
            requests_a += self.tables[a].count(round);
            requests_b += self.tables[b].count(round);
            if requests_a >= need && requests_b >= need {
                chunks.push(std::mem::take(&mut chunk));
                (requests_a, requests_b) = (0.0, 0.0);
            }
        }
        // What is left over at the end goes to the last whole group.
        if let Some(last) = chunks.last_mut() {
            last.append(&mut chunk);
        }
        let groups = self.groups(chunks.iter().map(Vec::as_slice));
        Evidence::Paired(groups.iter().filter_map(|group| Some(log(a, group)? - log(b, group)?)).collect())
    }

    /// The rounds that have all of these candidates, by number.
    fn rounds_of<'a>(&'a self, candidates: &'a [usize]) -> impl Iterator<Item = usize> + 'a {
        (0..self.rounds).filter(|round| candidates.iter().all(|candidate| self.tables[*candidate].kept[*round]))
    }

    /// Rounds that are taken together, as weights.
    fn groups<'a>(&self, chunks: impl Iterator<Item = &'a [usize]>) -> Vec<Vec<f32>> {
        let of = |chunk: &[usize]| {
            let mut group = vec![0.0; self.rounds];
            chunk.iter().for_each(|round| group[*round] = 1.0);
            group
        };
        chunks.map(of).collect()
    }
}

fn count(mask: &[bool]) -> usize {
    mask.iter().filter(|is| **is).count()
}

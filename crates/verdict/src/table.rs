//! What one candidate's kept slices hold, laid out so that any weighting of rounds gives a figure at once.

use crate::histogram::value_at;
use crate::{Metric, Slice};

/// CPU time below this share of the CPUs is taken as this: a logarithm needs something, and no difference below it matters.
const CPU_LEAST: f64 = 1e-4;

/// A candidate's kept slices by round.
#[derive(Debug, Clone)]
pub(crate) struct ByRound {
    /// Whether the round has a slice that was kept.
    pub(crate) kept: Vec<bool>,
    /// Requests with a latency.
    count: Vec<f32>,
    /// The bins that any round has.
    bins: Vec<u16>,
    /// For each bin, how many requests of each round are in it or below.
    up_to: Vec<f32>,
    largest: f64,
    cpu_ns: Vec<f32>,
    cpus_ns: Vec<f32>,
    answered: Vec<f32>,
    window_ns: Vec<f32>,
}

impl ByRound {
    /// Of kept slices of one candidate, each with the index of its round.
    pub(crate) fn new(rounds: usize, slices: &[(usize, &Slice)]) -> Self {
        let mut bins: Vec<u16> =
            slices.iter().flat_map(|(_, slice)| slice.latency.bins()).map(|(bin, _)| *bin).collect();
        bins.sort_unstable();
        bins.dedup();
        let zero = || vec![0.0; rounds];
        let mut table = Self {
            kept: vec![false; rounds],
            count: zero(),
            up_to: vec![0.0; bins.len() * rounds],
            bins,
            largest: slices.iter().filter_map(|(_, slice)| slice.latency.max()).max().unwrap_or(0) as f64,
            cpu_ns: zero(),
            cpus_ns: zero(),
            answered: zero(),
            window_ns: zero(),
        };
        for (round, slice) in slices {
            table.add(*round, slice, rounds);
        }
        table
    }

    fn add(&mut self, round: usize, slice: &Slice, rounds: usize) {
        self.kept[round] = true;
        self.count[round] += slice.latency.count() as f32;
        self.cpu_ns[round] += slice.cpu_ns as f32;
        self.cpus_ns[round] += slice.window_ns as f32 * slice.cpus as f32;
        self.answered[round] += slice.answered as f32;
        self.window_ns[round] += slice.window_ns as f32;
        let (mut below, mut left) = (0, slice.latency.bins().iter().peekable());
        for (at, bin) in self.bins.iter().enumerate() {
            if let Some((_, count)) = left.next_if(|(has, _)| has == bin) {
                below += count;
            }
            self.up_to[at * rounds + round] += below as f32;
        }
    }

    /// How many requests of the round have a latency.
    pub(crate) fn count(&self, round: usize) -> f64 {
        f64::from(self.count[round])
    }

    /// The figure of all rounds, each as often as `weights` says; `None` if nothing was measured in them.
    pub(crate) fn figure(&self, metric: Metric, weights: &[f32]) -> Option<f64> {
        let share = |of: &[f32], by: &[f32]| f64::from(dot(of, weights)) / f64::from(dot(by, weights));
        let figure = match metric {
            Metric::P50 | Metric::P99 | Metric::P999 => self.quantile(metric.quantile()?, weights)?,
            Metric::Cpu => share(&self.cpu_ns, &self.cpus_ns).max(CPU_LEAST),
            Metric::Throughput => share(&self.answered, &self.window_ns) * 1e9,
        };
        (figure.is_finite() && figure > 0.0).then_some(figure)
    }

    /// As [`Histogram::quantile`](crate::Histogram::quantile) of the rounds' merged histogram.
    fn quantile(&self, q: f64, weights: &[f32]) -> Option<f64> {
        let rank = (q * f64::from(dot(&self.count, weights))) as f32;
        let rounds = weights.len();
        let up_to = |bin: usize| dot(&self.up_to[bin * rounds..(bin + 1) * rounds], weights);
        let (mut low, mut high) = (0, self.bins.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            if up_to(middle) < rank { low = middle + 1 } else { high = middle }
        }
        // A sum that was rounded may fall short of its own total.
        let bin = low.min(self.bins.len().checked_sub(1)?);
        let below = if bin > 0 { up_to(bin - 1) } else { 0.0 };
        let within = (rank - below) / (up_to(bin) - below);
        (rank > 0.0).then(|| value_at(self.bins[bin], f64::from(within).clamp(0.0, 1.0)).min(self.largest))
    }
}

/// Sum of products, in eight sums beside each other.
fn dot(of: &[f32], weights: &[f32]) -> f32 {
    let mut sums = [0.0_f32; 8];
    let (chunks, rest) = of.as_chunks::<8>();
    let (weight_chunks, weight_rest) = weights.as_chunks::<8>();
    for (of, weights) in chunks.iter().zip(weight_chunks) {
        for lane in 0..8 {
            sums[lane] += of[lane] * weights[lane];
        }
    }
    rest.iter().zip(weight_rest).map(|(of, weight)| of * weight).sum::<f32>() + sums.iter().sum::<f32>()
}

//! What is kept of each reply, and what is made of it: histograms in ns, summaries in us, medians over runs.

mod cdf;
mod figures;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

pub use cdf::Cdf;
pub use figures::{Figures, RowFigures};
pub use napier_kv::recorder::Recorder;

/// A distribution of latencies in a few figures, all in us.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "each name says it all: mean, percentiles, largest")]
pub struct Summary {
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

impl Summary {
    /// The figures of a histogram of ns; `None` if it is empty, for then there are none.
    pub fn of(histogram: &Histogram<u64>) -> Option<Self> {
        if histogram.is_empty() {
            return None;
        }
        let us = |ns: u64| ns as f64 / 1e3;
        let quantile = |quantile| us(histogram.value_at_quantile(quantile));
        Some(Self {
            mean: histogram.mean() / 1e3,
            p50: quantile(0.5),
            p90: quantile(0.9),
            p95: quantile(0.95),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: us(histogram.max()),
        })
    }

    /// The median of each figure on its own; `None` of none.
    pub fn median_of(all: &[Self]) -> Option<Self> {
        (!all.is_empty()).then(|| Self::reduce(all, median))
    }

    fn reduce(all: &[Self], by: Reduce) -> Self {
        let of = |field: fn(&Self) -> f64| rounded(by(&mut all.iter().map(field).collect::<Vec<_>>()));
        Self {
            mean: of(|s| s.mean),
            p50: of(|s| s.p50),
            p90: of(|s| s.p90),
            p95: of(|s| s.p95),
            p99: of(|s| s.p99),
            p999: of(|s| s.p999),
            max: of(|s| s.max),
        }
    }
}

/// CPU time of the server, in percent of all its CPUs: 100 = every CPU of the server busy all the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuSplit {
    /// Both together.
    pub total_pct: f64,
    /// Spent on anything but looking in vain; `None` where polls in vain are not counted (the kernel).
    pub useful_pct: Option<f64>,
    /// Spent on polls that found nothing.
    pub spin_pct: Option<f64>,
}

impl CpuSplit {
    /// From CPU time in ns: all of it, and the part spent on empty polls if it is known, of `cpus` CPUs over `wall_ns`.
    ///
    /// The spinning part is cut to the whole: the two are read from different clocks.
    ///
    /// # Panics
    /// If there is no CPU or no time.
    pub fn of(busy_ns: u64, spin_ns: Option<u64>, wall_ns: u64, cpus: usize) -> Self {
        assert!(wall_ns > 0 && cpus > 0, "a share of nothing");
        let pct = |ns: u64| 100.0 * ns as f64 / (wall_ns as f64 * cpus as f64);
        let spin_ns = spin_ns.map(|spin_ns| spin_ns.min(busy_ns));
        Self {
            total_pct: pct(busy_ns),
            useful_pct: spin_ns.map(|spin_ns| pct(busy_ns - spin_ns)),
            spin_pct: spin_ns.map(pct),
        }
    }

    fn reduce(all: &[Self], by: Reduce) -> Self {
        Self {
            total_pct: rounded(by(&mut all.iter().map(|c| c.total_pct).collect::<Vec<_>>())),
            useful_pct: known(all, |c| c.useful_pct, by),
            spin_pct: known(all, |c| c.spin_pct, by),
        }
    }
}

/// Use of the CPUs of client and server as the kernel accounts for it (`/proc/stat`), by all programs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CoreUse {
    /// All of them together, in percent of one CPU: 200 = two CPUs busy all the time. A client that polls takes 100.
    pub busy_pct: f64,
    /// CPU time of this process, in percent of one CPU: client, server, and the softirqs that ran inside
    /// their system calls, but nothing of other programs.
    pub process_pct: f64,
    /// The part of the client's CPU that ran softirqs, in percent of it: over veth the sender's CPU does the receiver's
    /// share of the work. `None` if the client has none of this machine's CPUs.
    pub client_softirq_pct: Option<f64>,
    /// What the client's CPU did; `None` likewise.
    #[serde(default)]
    pub client: Option<SideUse>,
    /// What the server's CPUs did, all together, in percent of one CPU.
    #[serde(default)]
    pub server: SideUse,
}

/// Where the time of some CPUs went, by `/proc/stat`, in percent of one CPU. What is missing to the whole was idle, or the host
/// had it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SideUse {
    /// Programs.
    pub user_pct: f64,
    /// The kernel for programs, and its threads.
    pub system_pct: f64,
    /// Interrupts.
    pub irq_pct: f64,
    /// Softirqs.
    pub softirq_pct: f64,
}

impl SideUse {
    fn reduce(all: &[Self], by: Reduce) -> Option<Self> {
        let of = |field: fn(&Self) -> f64| known(all, |side| Some(field(side)), by);
        Some(Self {
            user_pct: of(|s| s.user_pct)?,
            system_pct: of(|s| s.system_pct)?,
            irq_pct: of(|s| s.irq_pct)?,
            softirq_pct: of(|s| s.softirq_pct)?,
        })
    }
}

impl CoreUse {
    /// The mean of each figure; `None` of none.
    pub(crate) fn mean_of(all: &[Self]) -> Option<Self> {
        #[expect(clippy::cast_precision_loss, reason = "a count of runs")]
        let mean: Reduce = |values| values.iter().sum::<f64>() / values.len() as f64;
        if all.is_empty() { None } else { Self::reduce(all, mean) }
    }

    fn reduce(all: &[Self], by: Reduce) -> Option<Self> {
        let of = |field: fn(&Self) -> f64| known(all, |cores| Some(field(cores)), by);
        Some(Self {
            busy_pct: of(|c| c.busy_pct)?,
            process_pct: of(|c| c.process_pct)?,
            client_softirq_pct: known(all, |c| c.client_softirq_pct, by),
            client: SideUse::reduce(&all.iter().filter_map(|c| c.client).collect::<Vec<_>>(), by),
            server: SideUse::reduce(&all.iter().map(|c| c.server).collect::<Vec<_>>(), by)?,
        })
    }
}

/// How several values become one. Gets at least one value, and may reorder them.
type Reduce = fn(&mut [f64]) -> f64;

/// Six decimals: finer than any clock here, and free of the tails that binary fractions leave in a JSON file.
pub(crate) fn rounded(number: f64) -> f64 {
    (number * 1e6).round() / 1e6
}

/// A figure of those that have it.
fn known<T>(all: &[T], field: impl Fn(&T) -> Option<f64>, by: Reduce) -> Option<f64> {
    let mut known: Vec<f64> = all.iter().filter_map(field).collect();
    (!known.is_empty()).then(|| rounded(by(&mut known)))
}

/// Several runs of one cell: the median of each figure, and how far the runs lie apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Median of each figure on its own; with an even number of runs the mean of the two in the middle.
    pub median: Figures,
    /// Smallest and largest of each figure.
    pub spread: Spread,
    /// Number of runs.
    pub runs: u32,
}

/// Smallest and largest of each figure over the runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The smallest.
    pub min: Figures,
    /// The largest.
    pub max: Figures,
}

impl Measured {
    /// Puts runs together, each figure rounded to six decimals; `None` if there are none.
    pub fn of(runs: &[Figures]) -> Option<Self> {
        if runs.is_empty() {
            return None;
        }
        let min: Reduce = |values| values.iter().copied().fold(f64::INFINITY, f64::min);
        let max: Reduce = |values| values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Some(Self {
            median: Figures::reduce(runs, median),
            spread: Spread { min: Figures::reduce(runs, min), max: Figures::reduce(runs, max) },
            runs: runs.len() as u32,
        })
    }
}

/// Median; of an even number of values the mean of the two in the middle. Reorders them.
///
/// # Panics
/// If there is no value.
pub fn median(values: &mut [f64]) -> f64 {
    assert!(!values.is_empty(), "nothing has no median");
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) }
}

#[cfg(test)]
pub(crate) mod tests;

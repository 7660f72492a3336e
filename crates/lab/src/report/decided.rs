//! What was decided of the modes of a load: their figures with intervals, and a verdict on each two of them.
//!
//! The measuring fills it, from the rounds of slices that it ran; everything that is said of a comparison is said from it. It is written to
//! the JSON as it is, and read back, so a saved comparison says what it said when it was measured.

use std::collections::BTreeMap;

use napier_verdict::{self as verdict, Metric};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};

use crate::loads::Load;
use crate::stats::rounded;
use crate::subject::{Subject, by_name};

/// What was decided at one load, of all that was measured there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decided {
    /// The load.
    pub load_rps: Load,
    /// Rounds that were run: one slice of every mode each, in random order.
    pub rounds: u32,
    /// Length of a slice, in ms.
    pub slice_ms: f64,
    /// Slices in which the machine was taken away; no figure has anything of them.
    pub left_out: LeftOut,
    /// More than half of the slices were left out, so nothing is decided.
    pub taken: bool,
    /// Each mode that has figures, in the order of the rows.
    pub modes: Vec<DecidedMode>,
    /// Verdicts on pairs: of all modes of a backend, and of the engine beside the kernel in one mode. In a figure that was not compared there
    /// is none.
    pub pairs: Vec<DecidedPair>,
    /// Minutes more that would decide what is undecided, as far as that can be told; null if nothing is, or if it cannot be told.
    pub more_minutes: Option<f64>,
}

/// Slices that were left out, of how many, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// How many.
    pub slices: u32,
    /// Of so many.
    pub of: u32,
    /// Cause in words, such as `others had the CPUs`, and how many slices by it.
    pub causes: BTreeMap<String, u32>,
}

/// The figures of a mode, each over all of its slices that were kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DecidedMode {
    /// The mode, and the backend if that is not the engine.
    #[serde(with = "by_name")]
    pub mode: Subject,
    /// Latency within which half of the requests were answered, in µs.
    pub p50_us: Option<Estimated>,
    /// 99 % of them.
    pub p99_us: Option<Estimated>,
    /// 99.9 % of them.
    pub p999_us: Option<Estimated>,
    /// CPU time of the server, in % of its CPUs.
    pub cpu_pct: Option<Estimated>,
    /// Requests answered per second.
    pub throughput_rps: Option<Estimated>,
    /// Slices behind the figures.
    pub kept: u32,
    /// Slices that were left out.
    pub left_out: u32,
}

impl DecidedMode {
    /// The estimate of a figure.
    #[must_use]
    pub const fn estimate(&self, metric: Metric) -> Option<Estimated> {
        match metric {
            Metric::P50 => self.p50_us,
            Metric::P99 => self.p99_us,
            Metric::P999 => self.p999_us,
            Metric::Cpu => self.cpu_pct,
            Metric::Throughput => self.throughput_rps,
        }
    }
}

/// A figure and its 95 % interval; the bounds are missing where there were too few rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimated {
    /// The figure.
    pub value: f64,
    /// Lower end of the interval.
    pub low: Option<f64>,
    /// Upper end of it.
    pub high: Option<f64>,
}

impl Estimated {
    /// Of an estimate, in another unit.
    pub(crate) fn of(estimate: verdict::Estimate, scale: f64) -> Self {
        let scaled = |value: f64| rounded(value * scale);
        let bound = |of: fn(verdict::Interval) -> f64| estimate.interval.map(|interval| scaled(of(interval)));
        Self {
            value: scaled(estimate.value),
            low: bound(|interval| interval.low),
            high: bound(|interval| interval.high),
        }
    }
}

/// A figure in which modes are compared, as the JSON names it.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Metric", rename_all = "lowercase")]
enum MetricName {
    P50,
    P99,
    #[serde(rename = "p99.9")]
    P999,
    Cpu,
    Throughput,
}

/// The figures in which modes are compared at a load: a closed loop by what is answered, a rate by what it costs in latency.
pub(crate) const fn metrics_at(load: Load) -> &'static [Metric] {
    match load {
        Load::Max => &[Metric::Throughput, Metric::Cpu],
        Load::Rps(_) => &[Metric::P99, Metric::Cpu],
    }
}

/// Two modes in one figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DecidedPair {
    /// One.
    #[serde(with = "by_name")]
    pub a: Subject,
    /// The other.
    #[serde(with = "by_name")]
    pub b: Subject,
    /// The figure.
    #[serde(with = "MetricName")]
    pub metric: Metric,
    /// The figure of `a` over that of `b`, with its interval.
    pub ratio: Option<Estimated>,
    /// What may be said of them.
    #[serde(flatten)]
    pub verdict: PairVerdict,
}

/// What may be said of two modes in a figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum PairVerdict {
    /// One is better.
    Better {
        /// Which.
        #[serde(with = "by_name")]
        better: Subject,
    },
    /// They are no different within so many percent.
    NoDifferent {
        /// The bound, in percent.
        within_pct: f64,
    },
    /// It is not known.
    Undecided {
        /// Rounds more that would decide it, if that can be told.
        more_rounds: Option<u32>,
    },
}

impl Decided {
    /// The verdict on two modes in a figure; `None` if they were not compared in it.
    #[must_use]
    pub fn verdict(&self, one: Subject, other: Subject, metric: Metric) -> Option<&PairVerdict> {
        self.pair(one, other, metric).map(|pair| &pair.verdict)
    }

    /// Two modes in a figure, in either order.
    #[must_use]
    pub fn pair(&self, one: Subject, other: Subject, metric: Metric) -> Option<&DecidedPair> {
        self.pairs
            .iter()
            .find(|pair| pair.metric == metric && [(pair.a, pair.b), (pair.b, pair.a)].contains(&(one, other)))
    }

    /// A mode's figures.
    #[must_use]
    pub fn mode(&self, subject: Subject) -> Option<&DecidedMode> {
        self.modes.iter().find(|mode| mode.mode == subject)
    }
}

/// Entries that this version can read; one that names a mode it does not know is left out, as the mode's rows are.
pub(super) fn readable<'de, T: DeserializeOwned, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let written = Vec::<serde_json::Value>::deserialize(deserializer)?;
    Ok(written.into_iter().filter_map(|one| serde_json::from_value(one).ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modes::Mode;

    #[test]
    fn a_verdict_is_found_in_either_order_and_reads_back_from_the_json() {
        let (base, other) = (Subject::kernel_irq(Mode::Base), Subject::engine(Mode::Suspend { us: 20 }));
        let ratio = Some(Estimated { value: 1.4, low: Some(1.3), high: None });
        let pair = |metric, verdict| DecidedPair { a: base, b: other, metric, ratio, verdict };
        let decided = Decided {
            load_rps: Load::Rps(20_000),
            rounds: 40,
            slice_ms: 50.0,
            left_out: LeftOut { slices: 2, of: 80, causes: [("others had the CPUs".to_owned(), 2)].into() },
            taken: false,
            modes: Vec::new(),
            pairs: vec![
                pair(Metric::P99, PairVerdict::Better { better: other }),
                pair(Metric::Cpu, PairVerdict::NoDifferent { within_pct: 5.0 }),
                pair(Metric::P999, PairVerdict::Undecided { more_rounds: Some(30) }),
            ],
            more_minutes: Some(1.5),
        };
        assert_eq!(decided.verdict(other, base, Metric::P99), Some(&PairVerdict::Better { better: other }));
        assert_eq!(decided.verdict(other, base, Metric::P50), None);
        let written = serde_json::to_value([&decided]).unwrap();
        assert_eq!(
            written[0]["pairs"][0],
            serde_json::json!({
                "a": "kernel/base-irq", "b": "suspend20", "metric": "p99", "ratio": { "value": 1.4, "low": 1.3, "high": null },
                "verdict": "better", "better": "suspend20"
            })
        );
        assert_eq!(readable::<Decided, _>(written).unwrap(), std::slice::from_ref(&decided));
        let mut unknown = serde_json::to_value([&decided, &decided]).unwrap();
        unknown[0]["pairs"][1]["a"] = "hyperpoll".into();
        assert_eq!(readable::<Decided, _>(unknown).unwrap(), [decided]);
    }
}

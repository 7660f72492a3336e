//! Figures of blocks as slices of `napier-verdict`, which knows latencies: less is better, and what counts is the median over blocks.
//!
//! One figure of a service is one value for a block. A median of blocks does not follow the few in which the machine was disturbed, as the mean
//! would. A figure of which more is better goes in as its inverse.

use napier_verdict::{Beside, Estimate, Histogram, Interval, Metric, Settings, Slice, Slices};

use crate::judge::{Better, JudgedFigure};

/// Slices hold whole numbers, in bins that are narrow against them: the middle of all values becomes this.
const MIDDLE: f64 = 1e9;
/// A block counts as so many requests of its value: `napier-verdict` takes blocks together that have few.
const REQUESTS: u64 = 1000;

/// The values of one figure.
pub(crate) struct FigureSlices {
    slices: Slices,
    /// What a value is multiplied by.
    scale: f64,
    better: Better,
}

impl FigureSlices {
    /// Of values of candidates in rounds.
    pub(crate) fn new(
        figure: &JudgedFigure,
        candidates: usize,
        settings: Settings,
        values: &[(usize, u32, f64)],
    ) -> Self {
        let cost = |value: f64| match figure.better {
            Better::Less => value,
            Better::More => 1.0 / value,
        };
        let mut known: Vec<f64> = values.iter().map(|(.., value)| cost(*value)).collect();
        known.retain(|cost| cost.is_finite() && *cost > 0.0);
        known.sort_by(f64::total_cmp);
        let scale = known.get(known.len() / 2).map_or(1.0, |middle| MIDDLE / middle);
        let mut slices = Slices::new(candidates, settings);
        for (candidate, round, value) in values {
            // What is 0 (no retransmission) is less than all others, and no logarithm is taken of it.
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the bounds")]
            let whole = (cost(*value) * scale).clamp(1.0, MIDDLE * MIDDLE) as u64;
            slices.add(Slice {
                candidate: *candidate,
                round: *round,
                window_ns: 1,
                cpus: 1,
                latency: Histogram::from_iter([(whole, REQUESTS)]),
                cpu_ns: 0,
                due: 0,
                in_time: 0,
                answered: 0,
                beside: Beside::default(),
            });
        }
        Self { slices, scale, better: figure.better }
    }

    /// The slices, for verdicts.
    pub(crate) fn slices(&self) -> &Slices {
        &self.slices
    }

    /// The metric that the figure is in them.
    pub(crate) const METRIC: Metric = Metric::P50;

    /// A candidate's figure, over all its blocks.
    pub(crate) fn estimate(&self, candidate: usize) -> Option<Estimate> {
        let found = self.slices.estimate(candidate, Self::METRIC)?;
        let of = |whole: f64| whole / self.scale;
        let interval = found.interval.map(|it| Interval { low: of(it.low), high: of(it.high) });
        Some(self.seen(Estimate { value: of(found.value), interval }))
    }

    /// The figure of one divided by that of another, over the rounds that have both.
    pub(crate) fn ratio(&self, a: usize, b: usize) -> Option<Estimate> {
        self.slices.ratio(a, b, Self::METRIC).map(|ratio| self.seen(ratio))
    }

    /// As the figure has it.
    pub(crate) fn seen(&self, cost: Estimate) -> Estimate {
        match self.better {
            Better::Less => cost,
            Better::More => cost.inverse(),
        }
    }
}

//! Figures of blocks as slices of `napier-verdict`, which knows latencies: less is better, and what counts is the median over blocks.
//!
//! One figure of a service is one value for a block. A median of blocks does not follow the few in which the machine was disturbed, as the mean
//! would. A figure of which more is better goes in as its inverse.
//!
//! Where two candidates are held against each other, the values of a round are divided by the one in the middle of that round. What goes up and down
//! from round to round, under all alike, is gone then, and no ratio within a round is another one.

use std::collections::BTreeMap;

use napier_verdict::{Beside, Estimate, Histogram, Interval, Metric, Settings, Slice, Slices};

use crate::judge::{Better, JudgedFigure};

/// Slices hold whole numbers, in bins that are narrow against them: the middle of all values becomes this.
const MIDDLE: f64 = 1e9;
/// A block counts as so many requests of its value: `napier-verdict` takes blocks together that have few.
const REQUESTS: u64 = 1000;

/// Values, each with its candidate and its round.
pub(crate) type InRounds = [(usize, u32, f64)];

/// The values of each round divided by the one in its middle.
pub(crate) fn levelled(values: &InRounds) -> Vec<(usize, u32, f64)> {
    let mut rounds: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (_, round, value) in values.iter().filter(|(.., value)| *value > 0.0) {
        rounds.entry(*round).or_default().push(*value);
    }
    let middle = |all: &mut Vec<f64>| {
        all.sort_by(f64::total_cmp);
        (all[(all.len() - 1) / 2] * all[all.len() / 2]).sqrt()
    };
    let middles: BTreeMap<u32, f64> = rounds.into_iter().map(|(round, mut all)| (round, middle(&mut all))).collect();
    values
        .iter()
        .map(|(candidate, round, value)| (*candidate, *round, value / middles.get(round).unwrap_or(&1.0)))
        .collect()
}

/// The values of one figure.
pub(crate) struct FigureSlices {
    slices: Slices,
    /// What a value is multiplied by.
    scale: f64,
    better: Better,
}

impl FigureSlices {
    /// Of values of candidates in rounds.
    pub(crate) fn new(figure: &JudgedFigure, candidates: usize, settings: Settings, values: &InRounds) -> Self {
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
        // What is 0 went in as 1.
        let of = |whole: f64| if whole <= 1.0 { 0.0 } else { whole / self.scale };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_shown_as_nothing() {
        let figure =
            JudgedFigure { name: "lost".to_owned(), unit: crate::judge::Unit::PerSecond, better: Better::Less };
        let values: Vec<(usize, u32, f64)> = (0..8).flat_map(|round| [(0, round, 0.0), (1, round, 5.0)]).collect();
        let slices = FigureSlices::new(&figure, 2, Settings::DEFAULT, &values);
        assert_eq!(slices.estimate(0).map(|found| found.value), Some(0.0));
        assert!(slices.estimate(1).is_some_and(|found| (found.value / 5.0 - 1.0).abs() < 0.01));
        let none: Vec<(usize, u32, f64)> = values.iter().map(|(one, round, _)| (*one, *round, 0.0)).collect();
        let slices = FigureSlices::new(&figure, 2, Settings::DEFAULT, &none);
        assert_eq!(
            (slices.estimate(0).map(|it| it.value), slices.ratio(0, 1).map(|it| it.value)),
            (Some(0.0), Some(1.0))
        );
    }

    #[test]
    fn levelling_keeps_ratios_within_a_round_and_takes_away_what_differs_between_rounds() {
        let values = [(0, 0, 2.0), (1, 0, 4.0), (2, 0, 8.0), (0, 1, 200.0), (1, 1, 400.0), (2, 1, 0.0)];
        let level = levelled(&values);
        let own: Vec<f64> = level.iter().map(|(.., value)| *value).collect();
        assert_eq!(own[..3], [0.5, 1.0, 2.0]);
        assert!((own[4] / own[3] - 2.0).abs() < 1e-12 && own[5] == 0.0);
        assert!((own[3] * own[4] - 1.0).abs() < 1e-12, "the middle of two is between them");
    }
}

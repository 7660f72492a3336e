//! What was decided of the rows of an experiment, in words.

use napier_verdict::Metric;

use super::rounds::{BenchDecided, RowPair};
use crate::report::Estimated;
use crate::report::columns::times;

/// How a row stands to another.
#[derive(Clone, Copy, PartialEq)]
enum BesideOther {
    Better,
    Worse,
    Within(u32),
    Open,
}

impl BenchDecided {
    /// A figure of a row.
    #[must_use]
    pub fn figure(&self, row: usize, metric: Metric) -> Option<Estimated> {
        let row = self.rows.get(row)?;
        match metric {
            Metric::P50 => row.p50_ns,
            Metric::P99 => row.p99_ns,
            Metric::P999 => row.p999_ns,
            Metric::Cpu => row.cpu_pct,
            Metric::Throughput => row.per_s,
        }
    }

    /// How a row stands to the first one in a figure, such as `0.45x better`; empty in the first, and where it was not compared.
    #[must_use]
    pub fn beside_first(&self, row: usize, metric: Metric) -> String {
        let Some(pair) = self.pairs.iter().find(|pair| (pair.a, pair.b, pair.metric) == (0, row, metric)) else {
            return String::new();
        };
        let times = pair.ratio.map_or_else(|| "?x".to_owned(), |ratio| times(ratio.value));
        match pair.within_pct {
            Some(within) => format!("{times} within {within} %"),
            None => format!("{times} {}", pair.verdict),
        }
    }

    /// What came of the block, a line for each figure by which rows were compared.
    #[must_use]
    pub fn answer(&self) -> Vec<String> {
        let at = if self.block.is_empty() { String::new() } else { format!(" at {}", self.block) };
        if self.taken {
            let (left_out, of) = (self.left_out, self.of);
            return vec![format!("No answer{at}: the machine was taken away in {left_out} of {of} slices.")];
        }
        let mut metrics: Vec<Metric> = self.pairs.iter().map(|pair| pair.metric).collect();
        metrics.sort_unstable();
        metrics.dedup();
        metrics.into_iter().filter_map(|metric| self.said(metric, &at)).collect()
    }

    /// Rounds in all that would decide what is undecided; `None` if nothing is, or if it cannot be told.
    #[must_use]
    pub fn rounds_to_decide(&self) -> Option<u32> {
        self.pairs.iter().filter_map(|pair| pair.more_rounds).max().map(|more| self.rounds.saturating_add(more))
    }

    fn said(&self, metric: Metric, at: &str) -> Option<String> {
        let values: Vec<(usize, Estimated)> =
            (0..self.rows.len()).filter_map(|row| Some((row, self.figure(row, metric)?))).collect();
        let less = |a: &&(usize, Estimated), b: &&(usize, Estimated)| {
            let order = a.1.value.total_cmp(&b.1.value);
            if metric.higher_is_better() { order.reverse() } else { order }
        };
        let (best, value) = values.iter().min_by(less)?;
        let others: Vec<(usize, BesideOther)> = values
            .iter()
            .filter(|(row, _)| row != best)
            .map(|(row, _)| (*row, self.stands(*best, *row, metric)))
            .collect();
        if others.is_empty() {
            return None;
        }
        let names = |which: &dyn Fn(BesideOther) -> bool| {
            let such = others.iter().filter(|(_, stands)| which(*stands)).map(|(row, _)| self.rows[*row].row.clone());
            such.collect::<Vec<_>>()
        };
        let (alike, open) = (names(&|of| matches!(of, BesideOther::Within(_))), names(&|of| of == BesideOther::Open));
        let beside = self.figure(0, metric).filter(|first| *best != 0 && first.value > 0.0);
        let beside = beside.map(|first| format!(", {} of {}", times(value.value / first.value), self.rows[0].row));
        let (name, figure, beside) = (&self.rows[*best].row, shown(metric, *value), beside.unwrap_or_default());
        let which = match metric {
            Metric::Throughput => "Most",
            Metric::P50 | Metric::P99 | Metric::P999 | Metric::Cpu => "Lowest",
        };
        let mut text = if alike.is_empty() && open.is_empty() {
            format!("{which} {metric}{at}: {name}, {figure}{beside}.")
        } else {
            format!("{which} {metric} so far{at}: {name}, {figure}{beside}.")
        };
        if !alike.is_empty() {
            let within = others
                .iter()
                .filter_map(|(_, of)| if let BesideOther::Within(pct) = of { Some(*pct) } else { None })
                .max();
            text += &format!(" No different within {} %: {}.", within.unwrap_or_default(), alike.join(", "));
        }
        if !open.is_empty() {
            text += &format!(" Undecided: {}.", open.join(", "));
        }
        Some(text)
    }

    fn stands(&self, one: usize, other: usize, metric: Metric) -> BesideOther {
        let is_pair =
            |pair: &&RowPair| pair.metric == metric && [(pair.a, pair.b), (pair.b, pair.a)].contains(&(one, other));
        let Some(pair) = self.pairs.iter().find(is_pair) else { return BesideOther::Open };
        match (pair.verdict, pair.within_pct) {
            (_, Some(within)) => BesideOther::Within(within),
            ("better", _) => {
                if pair.b == one {
                    BesideOther::Better
                } else {
                    BesideOther::Worse
                }
            }
            ("worse", _) => {
                if pair.b == one {
                    BesideOther::Worse
                } else {
                    BesideOther::Better
                }
            }
            _ => BesideOther::Open,
        }
    }
}

/// A figure with its interval, in the unit that it deserves.
#[must_use]
pub fn shown(metric: Metric, figure: Estimated) -> String {
    let (scale, unit) = match metric {
        Metric::Cpu => (1.0, " %"),
        Metric::Throughput if figure.value >= 1e6 => (1e-6, "M/s"),
        Metric::Throughput if figure.value >= 1e3 => (1e-3, "K/s"),
        Metric::Throughput => (1.0, "/s"),
        _ if figure.value >= 1e7 => (1e-6, " ms"),
        _ if figure.value >= 1e3 => (1e-3, " us"),
        _ => (1.0, " ns"),
    };
    format!("{}{unit}", ranged(figure, scale))
}

/// `3.21 [3.10-3.30]`.
#[must_use]
pub fn ranged(figure: Estimated, scale: f64) -> String {
    let digits = match figure.value * scale {
        small if small < 10.0 => 2,
        middling if middling < 100.0 => 1,
        _ => 0,
    };
    let of = |value: f64| format!("{:.digits$}", value * scale);
    match figure.low.zip(figure.high) {
        Some((low, high)) => format!("{} [{}-{}]", of(figure.value), of(low), of(high)),
        None => of(figure.value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::rounds::RowFigures;

    fn row(name: &str, p50: f64) -> RowFigures {
        let estimated = Estimated { value: p50, low: Some(p50 * 0.9), high: Some(p50 * 1.1) };
        RowFigures {
            row: name.to_owned(),
            p50_ns: Some(estimated),
            p99_ns: None,
            p999_ns: None,
            cpu_pct: None,
            per_s: None,
        }
    }

    fn pair(a: usize, b: usize, ratio: f64, verdict: &'static str, within_pct: Option<u32>) -> RowPair {
        let more_rounds = (verdict == "undecided").then_some(12);
        let ratio = Some(Estimated { value: ratio, low: None, high: None });
        RowPair { a, b, metric: Metric::P50, ratio, verdict, within_pct, more_rounds }
    }

    fn decided(pairs: Vec<RowPair>) -> BenchDecided {
        let rows = vec![row("blocking", 8000.0), row("busy", 4000.0), row("context", 4100.0)];
        BenchDecided { block: String::new(), rounds: 20, left_out: 2, of: 60, taken: false, rows, pairs }
    }

    #[test]
    fn the_best_is_named_as_far_as_it_is_decided() {
        let sure = decided(vec![
            pair(0, 1, 0.5, "better", None),
            pair(0, 2, 0.51, "better", None),
            pair(1, 2, 1.03, "worse", None),
        ]);
        assert_eq!(sure.answer(), ["Lowest p50: busy, 4.00 [3.60-4.40] us, 0.50x of blocking."]);
        assert_eq!((sure.beside_first(1, Metric::P50).as_str(), sure.rounds_to_decide()), ("0.50x better", None));
        let alike = decided(vec![pair(0, 1, 0.5, "undecided", None), pair(1, 2, 1.03, "no-different", Some(5))]);
        assert_eq!(
            alike.answer(),
            [
                "Lowest p50 so far: busy, 4.00 [3.60-4.40] us, 0.50x of blocking. No different within 5 %: context. Undecided: blocking."
            ]
        );
        assert_eq!(alike.rounds_to_decide(), Some(32));
        let taken = BenchDecided { taken: true, left_out: 40, ..alike };
        assert_eq!(taken.answer(), ["No answer: the machine was taken away in 40 of 60 slices."]);
    }

    #[test]
    fn figures_have_the_unit_that_they_deserve() {
        let of = |value| Estimated { value, low: None, high: None };
        assert_eq!(shown(Metric::P99, of(850.0)), "850 ns");
        assert_eq!(shown(Metric::P99, of(12_340.0)), "12.3 us");
        assert_eq!(shown(Metric::Throughput, of(2_500_000.0)), "2.50M/s");
        assert_eq!(shown(Metric::Cpu, of(42.0)), "42.0 %");
    }
}

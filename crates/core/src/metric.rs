//! Figures with a name: what a running engine or kernel can be asked for, in one vocabulary for JSON, live views and
//! scrapers. Who has figures walks over them and hands each to a [`Sink`]; who shows them is a sink.
//!
//! Names follow the conventions of Prometheus ("Metric and label naming") but for their ends, which [`Unit`] and [`Kind`]
//! say: an exporter writes `napier_napi_timer_lateness` as `napier_napi_timer_lateness_seconds_total`.

/// How a figure moves.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// It only grows, from when its object was made.
    Counter,
    /// It goes up and down.
    Gauge,
}

/// What a figure counts.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Things, which the name says.
    Count,
    /// Bytes.
    Bytes,
    /// Time, in ns here; exporters write seconds.
    Nanoseconds,
    /// 0 or 1.
    Truth,
}

/// What stands behind a figure; each is a constant of the crate that has it.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Metric {
    /// Lower-case words joined by `_`, the first is `napier`; without unit and `_total`.
    pub name: &'static str,
    /// How it moves.
    pub kind: Kind,
    /// What it counts.
    pub unit: Unit,
    /// One sentence without a full stop.
    pub help: &'static str,
    /// Names of its labels, in the order in which each sample gives their values.
    pub labels: &'static [&'static str],
}

/// What takes figures.
pub trait Sink {
    /// One figure: `labels` are the values of [`Metric::labels`], as many and in the same order. All samples of a metric
    /// that differ in their labels are separate figures; the same labels come once in a walk.
    fn sample(&mut self, metric: &'static Metric, labels: &[&str], value: u64);
}

impl<F: FnMut(&'static Metric, &[&str], u64)> Sink for F {
    fn sample(&mut self, metric: &'static Metric, labels: &[&str], value: u64) {
        self(metric, labels, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static POLLS: Metric =
        Metric { name: "napier_polls", kind: Kind::Counter, unit: Unit::Count, help: "Polls", labels: &["cpu"] };

    #[test]
    fn a_closure_gets_each_figure() {
        let mut got = alloc::vec::Vec::new();
        let mut sink = |metric: &'static Metric, labels: &[&str], value: u64| {
            got.push((metric.name, alloc::format!("{labels:?}"), value));
        };
        Sink::sample(&mut sink, &POLLS, &["3"], 7);
        assert_eq!(got, [("napier_polls", r#"["3"]"#.into(), 7)]);
    }
}

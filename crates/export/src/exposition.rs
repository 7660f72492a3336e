//! A walk as text: families in the order in which they first came, each with all its samples behind one head.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use napier_core::metric::{Kind, Metric, Sink, Unit};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit as EncodedUnit};

use crate::plain;
use crate::request::Format;

type Walk = dyn Fn(&mut dyn Sink) + Send + Sync;

/// What can be asked for figures again and again.
pub struct Exposition {
    registry: Registry,
}

impl fmt::Debug for Exposition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exposition").finish_non_exhaustive()
    }
}

impl Exposition {
    /// Of a walk, which is done anew for each text.
    pub fn new(walk: impl Fn(&mut dyn Sink) + Send + Sync + 'static) -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Walked { walk: Arc::new(walk) }));
        Self { registry }
    }

    /// Walks, and writes what was found.
    ///
    /// # Panics
    /// A sample has not as many labels as its metric: a mistake of the walk.
    #[must_use]
    pub fn text(&self, format: Format) -> String {
        let mut text = String::new();
        // A string takes whatever is written.
        prometheus_client::encoding::text::encode(&mut text, &self.registry).expect("a string has room");
        match format {
            Format::OpenMetrics => text,
            Format::Plain => plain::from_open_metrics(&text),
        }
    }
}

/// A metric's name as scrapers see it: with its unit, and `_total` behind a counter.
#[must_use]
pub fn full_name(metric: &Metric) -> String {
    let unit = unit_of(metric.unit).map(|unit| format!("_{}", unit.as_str())).unwrap_or_default();
    let end = match metric.kind {
        Kind::Counter => "_total",
        Kind::Gauge => "",
    };
    format!("{}{unit}{end}", metric.name)
}

const fn unit_of(unit: Unit) -> Option<EncodedUnit> {
    match unit {
        Unit::Count | Unit::Truth => None,
        Unit::Bytes => Some(EncodedUnit::Bytes),
        Unit::Nanoseconds => Some(EncodedUnit::Seconds),
    }
}

struct Walked {
    walk: Arc<Walk>,
}

impl fmt::Debug for Walked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Walked").finish_non_exhaustive()
    }
}

/// Samples of one metric: the values of its labels, and the figure.
type Samples = Vec<(Vec<String>, u64)>;

/// What came, in the order of the first sample of each metric.
#[derive(Default)]
struct Families {
    places: HashMap<&'static str, usize>,
    all: Vec<(&'static Metric, Samples)>,
}

impl Sink for Families {
    fn sample(&mut self, metric: &'static Metric, labels: &[&str], value: u64) {
        assert_eq!(labels.len(), metric.labels.len(), "{} has the labels {:?}", metric.name, metric.labels);
        let place = *self.places.entry(metric.name).or_insert_with(|| {
            self.all.push((metric, Samples::new()));
            self.all.len() - 1
        });
        self.all[place].1.push((labels.iter().map(|label| (*label).to_owned()).collect(), value));
    }
}

impl Collector for Walked {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut families = Families::default();
        (self.walk)(&mut families);
        for (metric, samples) in &families.all {
            let kind = match metric.kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
            };
            let unit = unit_of(metric.unit);
            // The format wants a sentence, which `help` is without its full stop.
            let help = format!("{}.", metric.help);
            let mut family = encoder.encode_descriptor(metric.name, &help, unit.as_ref(), kind)?;
            for (values, figure) in samples {
                let labels: Vec<(&str, &str)> =
                    metric.labels.iter().copied().zip(values.iter().map(String::as_str)).collect();
                if labels.is_empty() {
                    figure_of(&mut family, metric, *figure)?;
                } else {
                    figure_of(&mut family.encode_family(&labels)?, metric, *figure)?;
                }
            }
        }
        Ok(())
    }
}

fn figure_of(encoder: &mut MetricEncoder<'_>, metric: &Metric, figure: u64) -> fmt::Result {
    const NS_PER_S: f64 = 1e9;
    #[expect(clippy::cast_precision_loss, reason = "53 bits of nanoseconds are 104 days to the nanosecond")]
    let seconds = figure as f64 / NS_PER_S;
    match (metric.kind, metric.unit) {
        (Kind::Counter, Unit::Nanoseconds) => encoder.encode_counter::<NoLabelSet, _, f64>(&seconds, None),
        (Kind::Counter, _) => encoder.encode_counter::<NoLabelSet, _, f64>(&figure, None),
        (Kind::Gauge, Unit::Nanoseconds) => encoder.encode_gauge(&seconds),
        (Kind::Gauge, _) => encoder.encode_gauge(&figure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static POLLS: Metric =
        Metric { name: "napier_x_polls", kind: Kind::Counter, unit: Unit::Count, help: "Polls", labels: &["device"] };
    static SPENT: Metric =
        Metric { name: "napier_x_spent", kind: Kind::Counter, unit: Unit::Nanoseconds, help: "Spent", labels: &[] };
    static FILLED: Metric =
        Metric { name: "napier_x_filled", kind: Kind::Gauge, unit: Unit::Bytes, help: "Filled", labels: &["a", "b"] };
    static UP: Metric =
        Metric { name: "napier_x_up", kind: Kind::Gauge, unit: Unit::Truth, help: "It is up", labels: &[] };

    fn page() -> Exposition {
        Exposition::new(|sink: &mut dyn Sink| {
            sink.sample(&POLLS, &["eth0"], 7);
            sink.sample(&SPENT, &[], 1_500_000_000);
            sink.sample(&FILLED, &["1", "quote \" slash \\ line\nend"], 9);
            // Apart from the first of its family.
            sink.sample(&POLLS, &["eth1"], u64::MAX);
            sink.sample(&UP, &[], 1);
        })
    }

    #[test]
    fn a_family_is_in_one_piece_with_its_unit() {
        let expected = "# HELP napier_x_polls Polls.\n# TYPE napier_x_polls counter\n\
                        napier_x_polls_total{device=\"eth0\"} 7\n\
                        napier_x_polls_total{device=\"eth1\"} 18446744073709551615\n\
                        # HELP napier_x_spent_seconds Spent.\n# TYPE napier_x_spent_seconds counter\n\
                        # UNIT napier_x_spent_seconds seconds\nnapier_x_spent_seconds_total 1.5\n\
                        # HELP napier_x_filled_bytes Filled.\n# TYPE napier_x_filled_bytes gauge\n\
                        # UNIT napier_x_filled_bytes bytes\n\
                        napier_x_filled_bytes{a=\"1\",b=\"quote \\\" slash \\\\ line\\nend\"} 9\n\
                        # HELP napier_x_up It is up.\n# TYPE napier_x_up gauge\nnapier_x_up 1\n# EOF\n";
        assert_eq!(page().text(Format::OpenMetrics), expected);
    }

    #[test]
    fn the_older_format_names_counters_in_full() {
        let expected = "# HELP napier_x_polls_total Polls.\n# TYPE napier_x_polls_total counter\n\
                        napier_x_polls_total{device=\"eth0\"} 7\n\
                        napier_x_polls_total{device=\"eth1\"} 18446744073709551615\n\
                        # HELP napier_x_spent_seconds_total Spent.\n# TYPE napier_x_spent_seconds_total counter\n\
                        napier_x_spent_seconds_total 1.5\n\
                        # HELP napier_x_filled_bytes Filled.\n# TYPE napier_x_filled_bytes gauge\n\
                        napier_x_filled_bytes{a=\"1\",b=\"quote \\\" slash \\\\ line\\nend\"} 9\n\
                        # HELP napier_x_up It is up.\n# TYPE napier_x_up gauge\nnapier_x_up 1\n";
        assert_eq!(page().text(Format::Plain), expected);
    }

    #[test]
    fn names_are_what_the_text_has() {
        let names = [&POLLS, &SPENT, &FILLED, &UP].map(full_name);
        let text = page().text(Format::Plain);
        for name in names {
            assert!(text.contains(&format!("# TYPE {name} ")), "{name}");
        }
    }

    #[test]
    fn nothing_is_a_page_too() {
        let page = Exposition::new(|_: &mut dyn Sink| {});
        assert_eq!((page.text(Format::OpenMetrics).as_str(), page.text(Format::Plain).as_str()), ("# EOF\n", ""));
    }
}

//! A walk as text: families in the order in which they first came, each with all its samples behind one head.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use napier_core::metric::{Kind, Metric, Sink, Unit};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabel as _, EncodeLabelSet, LabelSetEncoder, MetricEncoder, NoLabelSet,
};
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
        registry.register_collector(Box::new(Walked { walk: Box::new(walk), families: Mutex::default() }));
        Self { registry }
    }

    /// Walks, and writes what was found.
    ///
    /// # Panics
    /// A sample has not as many labels as its metric: a mistake of the walk.
    #[must_use]
    pub fn text(&self, format: Format) -> String {
        let mut text = String::new();
        self.write(format, &mut text);
        text
    }

    /// The same in place of what is in `text`, whose memory is used again.
    pub(crate) fn write(&self, format: Format, text: &mut String) {
        text.clear();
        let encode = |text: &mut String| {
            // A string takes whatever is written.
            prometheus_client::encoding::text::encode(text, &self.registry).expect("a string has room");
        };
        match format {
            Format::OpenMetrics => encode(text),
            Format::Plain => {
                let mut open = String::with_capacity(text.capacity());
                encode(&mut open);
                plain::from_open_metrics(&open, text);
            }
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
    walk: Box<Walk>,
    /// Of one walk at a time.
    families: Mutex<Families>,
}

impl fmt::Debug for Walked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Walked").finish_non_exhaustive()
    }
}

/// What came, in the order in which each metric first came. Walks are much alike, so the memory of one serves the next, and where a
/// sample belongs is looked for where the last walk had it.
#[derive(Default)]
struct Families {
    places: HashMap<&'static str, usize>,
    all: Vec<Family>,
    /// Values of labels, one behind the other, and where each ends.
    values: String,
    ends: Vec<usize>,
    /// The places of the samples of the last walk, and of those of this one so far.
    order: Vec<usize>,
    samples: usize,
}

/// A metric and what a walk found of it.
struct Family {
    metric: &'static Metric,
    /// The format wants a sentence, which `help` is without its full stop.
    help: String,
    samples: Vec<Sample>,
}

/// A figure, and which of [`Families::ends`] end its labels.
struct Sample {
    labels: Range<usize>,
    figure: u64,
}

impl Families {
    /// For the next walk.
    fn clear(&mut self) {
        self.all.iter_mut().for_each(|family| family.samples.clear());
        self.values.clear();
        self.ends.clear();
        self.order.truncate(self.samples);
        self.samples = 0;
    }

    /// Of a sample that comes now.
    fn place(&mut self, metric: &'static Metric) -> usize {
        let nth = self.samples;
        self.samples += 1;
        if let Some(place) = self.order.get(nth)
            && std::ptr::eq(self.all[*place].metric, metric)
        {
            return *place;
        }
        let place = *self.places.entry(metric.name).or_insert_with(|| {
            self.all.push(Family { metric, help: format!("{}.", metric.help), samples: Vec::new() });
            self.all.len() - 1
        });
        self.order.truncate(nth);
        self.order.push(place);
        place
    }

    fn labels<'a>(&'a self, metric: &Metric, sample: &Sample) -> Labels<'a> {
        let begin = sample.labels.start.checked_sub(1).map_or(0, |before| self.ends[before]);
        Labels { names: metric.labels, values: &self.values, begin, ends: &self.ends[sample.labels.clone()] }
    }
}

impl Sink for Families {
    fn sample(&mut self, metric: &'static Metric, labels: &[&str], value: u64) {
        assert_eq!(labels.len(), metric.labels.len(), "{} has the labels {:?}", metric.name, metric.labels);
        let place = self.place(metric);
        let first = self.ends.len();
        for label in labels {
            self.values.push_str(label);
            self.ends.push(self.values.len());
        }
        self.all[place].samples.push(Sample { labels: first..self.ends.len(), figure: value });
    }
}

/// The labels of a sample.
struct Labels<'a> {
    names: &'static [&'static str],
    values: &'a str,
    /// Of the first value.
    begin: usize,
    ends: &'a [usize],
}

impl EncodeLabelSet for Labels<'_> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        let mut begin = self.begin;
        for (name, end) in self.names.iter().zip(self.ends) {
            (*name, &self.values[begin..*end]).encode(encoder.encode_label())?;
            begin = *end;
        }
        Ok(())
    }
}

impl Collector for Walked {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        // One that was given up half-way is cleared as well.
        let mut families = self.families.lock().unwrap_or_else(PoisonError::into_inner);
        families.clear();
        (self.walk)(&mut *families);
        for Family { metric, help, samples } in families.all.iter().filter(|family| !family.samples.is_empty()) {
            let kind = match metric.kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
            };
            let unit = unit_of(metric.unit);
            let mut family = encoder.encode_descriptor(metric.name, help, unit.as_ref(), kind)?;
            for sample in samples {
                if sample.labels.is_empty() {
                    figure_of(&mut family, metric, sample.figure)?;
                } else {
                    let labels = families.labels(metric, sample);
                    figure_of(&mut family.encode_family(&labels)?, metric, sample.figure)?;
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
    fn walks_that_differ_are_each_written_whole() {
        let walks = std::sync::atomic::AtomicUsize::new(0);
        let page = Exposition::new(move |sink: &mut dyn Sink| {
            match walks.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
                0 => {
                    sink.sample(&POLLS, &["eth0"], 1);
                    sink.sample(&UP, &[], 1);
                }
                // One has gone, one is new and comes first, one has other labels.
                1 => {
                    sink.sample(&FILLED, &["", "b"], 2);
                    sink.sample(&POLLS, &["a longer name"], 3);
                    sink.sample(&POLLS, &["eth1"], 4);
                }
                2 => {}
                _ => sink.sample(&UP, &[], 0),
            }
        });
        let samples = || {
            let text = page.text(Format::Plain);
            let heads = text.lines().filter(|line| line.starts_with("# TYPE ")).count();
            let lines: Vec<String> = text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect();
            (heads, lines)
        };
        let both = ["napier_x_polls_total{device=\"eth0\"} 1", "napier_x_up 1"].map(str::to_owned);
        assert_eq!(samples(), (2, both.to_vec()));
        let other = [
            "napier_x_polls_total{device=\"a longer name\"} 3",
            "napier_x_polls_total{device=\"eth1\"} 4",
            "napier_x_filled_bytes{a=\"\",b=\"b\"} 2",
        ];
        assert_eq!(samples(), (2, other.map(str::to_owned).to_vec()));
        assert_eq!(samples(), (0, Vec::new()));
        assert_eq!(samples(), (1, vec!["napier_x_up 0".to_owned()]));
    }

    #[test]
    fn nothing_is_a_page_too() {
        let page = Exposition::new(|_: &mut dyn Sink| {});
        assert_eq!((page.text(Format::OpenMetrics).as_str(), page.text(Format::Plain).as_str()), ("# EOF\n", ""));
    }
}

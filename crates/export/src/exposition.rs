//! A walk as text: families in the order in which they first came, each with all its samples behind one head.
//!
//! Two formats: OpenMetrics 1.0, and the text format 0.0.4, which tools without OpenMetrics read (node_exporter's textfile
//! collector, `promtool check metrics`). In the older one the head of a counter has the counter's whole name, and there is
//! neither unit nor end. Source: OpenMetrics 1.0, "Text format"; prometheus.io, "Exposition formats", "Text-based format".

use std::collections::HashMap;
use std::fmt::{self, Write as _};

use napier_core::metric::{Kind, Metric, Sink, Unit};

use crate::request::Format;

type Walk = dyn Fn(&mut dyn Sink) + Send + Sync;

/// What can be asked for figures again and again.
pub struct Exposition {
    walk: Box<Walk>,
}

impl fmt::Debug for Exposition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exposition").finish_non_exhaustive()
    }
}

impl Exposition {
    /// Of a walk, which is done anew for each text.
    pub fn new(walk: impl Fn(&mut dyn Sink) + Send + Sync + 'static) -> Self {
        Self { walk: Box::new(walk) }
    }

    /// Walks, and writes what was found.
    ///
    /// # Panics
    /// A sample has not as many labels as its metric: a mistake of the walk.
    #[must_use]
    pub fn text(&self, format: Format) -> String {
        let mut families = Families::default();
        (self.walk)(&mut families);
        families.text(format)
    }
}

/// A metric's name as scrapers see it: with its unit, and `_total` behind a counter.
#[must_use]
pub fn full_name(metric: &Metric) -> String {
    family_name(metric) + end_of(metric)
}

fn family_name(metric: &Metric) -> String {
    let unit = unit_of(metric.unit).map(|unit| format!("_{unit}")).unwrap_or_default();
    format!("{}{unit}", metric.name)
}

const fn end_of(metric: &Metric) -> &'static str {
    match metric.kind {
        Kind::Counter => "_total",
        Kind::Gauge => "",
    }
}

const fn unit_of(unit: Unit) -> Option<&'static str> {
    match unit {
        Unit::Count | Unit::Truth => None,
        Unit::Bytes => Some("bytes"),
        Unit::Nanoseconds => Some("seconds"),
    }
}

/// A metric, and its samples as lines.
struct Family {
    metric: &'static Metric,
    /// What each line begins with.
    name: String,
    lines: String,
}

/// What came, in the order of the first sample of each metric.
#[derive(Default)]
struct Families {
    places: HashMap<&'static str, usize>,
    all: Vec<Family>,
    /// The one that the last sample was of.
    last: usize,
}

impl Families {
    fn place_of(&mut self, metric: &'static Metric) -> usize {
        // An object's samples come in the same order as those of the object before it.
        let is_of = |place: &usize| self.all.get(*place).is_some_and(|family| std::ptr::eq(family.metric, metric));
        if let Some(place) = [self.last + 1, self.last].into_iter().find(is_of) {
            return place;
        }
        *self.places.entry(metric.name).or_insert_with(|| {
            self.all.push(Family { metric, name: full_name(metric), lines: String::new() });
            self.all.len() - 1
        })
    }

    fn text(&self, format: Format) -> String {
        /// Of a head, about.
        const HEAD_BYTES: usize = 256;
        let mut text = String::with_capacity(self.all.iter().map(|family| family.lines.len() + HEAD_BYTES).sum());
        for Family { metric, name, lines } in &self.all {
            let (kind, family) = (kind_of(metric), family_name(metric));
            let (head, unit) = match format {
                Format::OpenMetrics => (&family, unit_of(metric.unit)),
                Format::Plain => (name, None),
            };
            // The format wants a sentence, which `help` is without its full stop.
            text.extend(["# HELP ", head, " ", metric.help, ".\n# TYPE ", head, " ", kind, "\n"]);
            unit.into_iter().for_each(|unit| text.extend(["# UNIT ", head, " ", unit, "\n"]));
            text += lines;
        }
        if format == Format::OpenMetrics {
            text += "# EOF\n";
        }
        text
    }
}

const fn kind_of(metric: &Metric) -> &'static str {
    match metric.kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
    }
}

impl Sink for Families {
    fn sample(&mut self, metric: &'static Metric, labels: &[&str], value: u64) {
        assert_eq!(labels.len(), metric.labels.len(), "{} has the labels {:?}", metric.name, metric.labels);
        self.last = self.place_of(metric);
        let Family { name, lines, .. } = &mut self.all[self.last];
        *lines += name;
        for (nth, (label, value)) in metric.labels.iter().zip(labels).enumerate() {
            lines.extend([if nth == 0 { "{" } else { "," }, label, "=\""]);
            escaped(value, lines);
            lines.push('"');
        }
        *lines += if labels.is_empty() { " " } else { "} " };
        figure(metric.unit, value, lines);
        lines.push('\n');
    }
}

fn escaped(label: &str, lines: &mut String) {
    if !label.contains(['\\', '"', '\n']) {
        *lines += label;
        return;
    }
    for letter in label.chars() {
        match letter {
            '\\' => *lines += "\\\\",
            '"' => *lines += "\\\"",
            '\n' => *lines += "\\n",
            other => lines.push(other),
        }
    }
}

/// A string takes whatever is written.
fn figure(unit: Unit, value: u64, lines: &mut String) {
    const NS_PER_S: u64 = 1_000_000_000;
    let (whole, ns) = match unit {
        Unit::Nanoseconds => (value / NS_PER_S, Some(value % NS_PER_S)),
        Unit::Count | Unit::Bytes | Unit::Truth => (value, None),
    };
    let _ = write!(lines, "{whole}");
    if let Some(ns) = ns {
        let _ = write!(lines, ".{ns:09}");
        let kept = lines.trim_end_matches('0').len();
        // A digit behind the point, always.
        lines.truncate(kept + usize::from(lines[..kept].ends_with('.')));
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
    fn seconds_are_exact() {
        let of = |ns| {
            let mut lines = String::new();
            figure(Unit::Nanoseconds, ns, &mut lines);
            lines
        };
        assert_eq!([0, 1, 1_500_000_000, 20_000_000_000].map(of), ["0.0", "0.000000001", "1.5", "20.0"]);
        assert_eq!(of(u64::MAX), "18446744073.709551615");
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

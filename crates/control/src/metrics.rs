//! The figures of an engine over the socket: the operation `metrics`.
//!
//! ```text
//! {"op": "metrics", "how": "dump", "attributes": {"prefix": "napier_softirq_"}}
//! {"reply": [{"name": "napier_softirq_runs", "kind": "counter", "unit": "count", "help": "Runs of the receive handler (net_rx_action)",
//!             "samples": [{"labels": {"cpu": "0"}, "value": 7}]}, ...]}
//! ```
//!
//! `prefix` is what names begin with, or an array of such beginnings; without it all are asked for. `unit` is `count`, `bytes`, `ns` or `bool`. A metric without
//! samples is left out. The answer is bounded ([`METRICS_BYTES_MAX`]): an engine with thousands of instances is to be asked for
//! one part after the other.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use napier_core::metric::{Kind, Metric, Sink, Unit};
use napier_runtime::engine::Engine;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::refused::{Refused, invalid};

/// Its name.
pub const OPERATION: &str = "metrics";

/// Bytes of an answer, about.
pub const METRICS_BYTES_MAX: usize = 8 << 20;

/// Beginnings of names in one request.
pub const PREFIXES_MAX: usize = 64;

/// A metric and its samples, as they come over the socket.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Family {
    /// Name, without unit.
    pub name: String,
    /// `counter` or `gauge`.
    pub kind: String,
    /// `count`, `bytes`, `ns` or `bool`.
    pub unit: String,
    /// What it is, in a sentence.
    pub help: String,
    /// One for each set of labels.
    pub samples: Vec<Sample>,
}

/// One figure.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// Labels by name.
    pub labels: BTreeMap<String, String>,
    /// The figure, in the unit of its family.
    pub value: u64,
}

impl Family {
    /// Words of another program are for a terminal: what would move its cursor is taken out.
    pub(crate) fn cleaned(mut self) -> Self {
        let clean = |text: &mut String| text.retain(|letter| !letter.is_control());
        [&mut self.name, &mut self.kind, &mut self.unit, &mut self.help].into_iter().for_each(clean);
        self.samples.iter_mut().flat_map(|sample| sample.labels.values_mut()).for_each(clean);
        self
    }
}

/// The answer to a request with these attributes, as a line without its end.
pub(crate) fn answer(engine: &Engine, attributes: &Map<String, Value>) -> Result<String, Refused> {
    if let Some(unknown) = attributes.keys().find(|key| *key != "prefix") {
        return Err(invalid(format!("{OPERATION} does not accept {unknown}: it takes prefix")));
    }
    let prefixes = match attributes.get("prefix") {
        None => vec![""],
        Some(Value::String(prefix)) => vec![prefix.as_str()],
        Some(Value::Array(several)) if several.len() <= PREFIXES_MAX => {
            let texts = several.iter().map(|one| one.as_str().ok_or_else(|| wrong(one)));
            texts.collect::<Result<_, _>>()?
        }
        Some(Value::Array(_)) => return Err(invalid(format!("prefix has at most {PREFIXES_MAX} texts"))),
        Some(other) => return Err(wrong(other)),
    };
    let mut text = Text::new(&prefixes);
    engine.metrics(&mut text);
    text.finish()
}

fn wrong(prefix: &Value) -> Refused {
    invalid(format!("prefix must be a text or an array of texts, not {prefix}"))
}

/// Figures as text, without a tree in between.
struct Text<'a> {
    prefixes: &'a [&'a str],
    families: Vec<String>,
    /// Their places; none for what was not asked for.
    by_name: HashMap<&'static str, Option<usize>>,
    bytes: usize,
}

impl Sink for Text<'_> {
    fn sample(&mut self, metric: &'static Metric, labels: &[&str], value: u64) {
        if self.bytes > METRICS_BYTES_MAX {
            return;
        }
        let place = *self.by_name.entry(metric.name).or_insert_with(|| {
            self.prefixes.iter().any(|prefix| metric.name.starts_with(prefix)).then(|| {
                self.families.push(head(metric));
                self.families.len() - 1
            })
        });
        let Some(place) = place else { return };
        let family = &mut self.families[place];
        let before = family.len();
        family.push_str(if family.ends_with('[') { "{\"labels\": {" } else { ", {\"labels\": {" });
        for (nth, (name, label)) in metric.labels.iter().zip(labels).enumerate() {
            let _ = write!(family, "{}\"{name}\": {}", if nth == 0 { "" } else { ", " }, quoted(label));
        }
        let _ = write!(family, "}}, \"value\": {value}}}");
        self.bytes += family.len() - before;
    }
}

impl<'a> Text<'a> {
    fn new(prefixes: &'a [&'a str]) -> Self {
        Self { prefixes, families: Vec::new(), by_name: HashMap::new(), bytes: 0 }
    }

    fn finish(self) -> Result<String, Refused> {
        if self.bytes > METRICS_BYTES_MAX {
            return Err(Refused::plain(format!(
                "EMSGSIZE: the figures have more than {METRICS_BYTES_MAX} bytes: ask for one part after the other, with a \
                 prefix such as napier_napi_"
            )));
        }
        let families: Vec<String> = self.families.into_iter().map(|family| family + "]}").collect();
        Ok(format!("{{\"reply\": [{}]}}", families.join(", ")))
    }
}

fn head(metric: &Metric) -> String {
    let kind = match metric.kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
    };
    let unit = match metric.unit {
        Unit::Count => "count",
        Unit::Bytes => "bytes",
        Unit::Nanoseconds => "ns",
        Unit::Truth => "bool",
    };
    let (name, help) = (metric.name, quoted(metric.help));
    format!(r#"{{"name": "{name}", "kind": "{kind}", "unit": "{unit}", "help": {help}, "samples": ["#)
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    static METRIC: Metric = Metric {
        name: "napier_x",
        kind: Kind::Counter,
        unit: Unit::Nanoseconds,
        help: "A \"quoted\" thing",
        labels: &["device", "queue"],
    };

    #[test]
    fn figures_are_json_whatever_devices_are_called() {
        let mut sink = Text::new(&["x", "napier_"]);
        sink.sample(&METRIC, &["a\"\\\n\u{1b}[2J", "0"], u64::MAX);
        sink.sample(&METRIC, &["b", "1"], 0);
        let line = sink.finish().map_err(|refused| refused.line()).expect("it is short");
        assert!(!line.contains('\n'), "an answer is a line");
        let mut answer: BTreeMap<String, Vec<Family>> = serde_json::from_str(&line).expect("JSON");
        let [family] = &answer.remove("reply").expect("a reply")[..] else { panic!("{line}") };
        assert_eq!((&*family.kind, &*family.unit, &*family.help), ("counter", "ns", METRIC.help));
        assert_eq!((family.samples.len(), family.samples[0].value), (2, u64::MAX));
        assert_eq!(family.samples[0].labels["device"], "a\"\\\n\u{1b}[2J");
        assert_eq!(family.clone().cleaned().samples[0].labels["device"], "a\"\\[2J");
        let mut sink = Text::new(&["napier_y"]);
        sink.sample(&METRIC, &["a", "0"], 1);
        assert_eq!(sink.finish().ok().as_deref(), Some(r#"{"reply": []}"#));
    }

    #[test]
    fn what_is_too_long_is_refused_and_not_cut() {
        let mut sink = Text::new(&[""]);
        let name = "d".repeat(1000);
        for queue in 0..10_000 {
            sink.sample(&METRIC, &[&name, &queue.to_string()], 1);
        }
        assert!(sink.bytes < METRICS_BYTES_MAX + 2000, "no more is kept than would be sent");
        let refused = sink.finish().map_err(|refused| refused.line()).expect_err("it is too long");
        assert!(refused.contains("EMSGSIZE") && refused.contains("prefix"), "{refused}");
    }
}

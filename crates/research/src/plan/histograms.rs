//! Latencies of a plan's cells as one log of the HdrHistogram project (V2 histograms, compressed): an interval for each cell, whose tag is its name.

use std::time::Duration;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use napier_sim::machine::figures::Figures;

/// Digits that a value keeps.
const DIGITS: u8 = 3;

/// The log of cells by name. Values are in ns, of all runs of a cell, as its table counts them; a cell without an answer is left out, and characters
/// that a tag cannot have are replaced.
pub(super) fn log<'a>(title: &str, cells: impl Iterator<Item = (String, &'a [&'a Figures])>) -> String {
    let (mut bytes, mut serializer) = (Vec::new(), V2DeflateSerializer::new());
    let title = title.replace(['\r', '\n'], " ");
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment(&format!("napier sim plan: {title}"))
        .add_comment("values in ns; Interval_Max in us; a tag is MODE@LOAD")
        .with_max_value_divisor(1000.0)
        .begin_log_with(&mut bytes, &mut serializer)
        .expect("memory takes all of it");
    for (name, runs) in cells {
        let mut histogram = Histogram::<u64>::new(DIGITS).expect("so many digits can be kept");
        for ns in runs.iter().flat_map(|run| &run.latency_ns) {
            histogram.record(*ns).expect("it grows with its values");
        }
        if histogram.is_empty() {
            continue;
        }
        let measured = runs.iter().map(|run| Duration::from_nanos(run.measured.ns)).sum();
        let name = name.replace([',', ' ', '\r', '\n'], "_");
        let tag = Tag::new(&name).expect("no character in it that a tag cannot have");
        log.write_histogram(&histogram, Duration::ZERO, measured, Some(tag)).expect("memory takes all of it");
    }
    drop(log);
    String::from_utf8(bytes).expect("a log is text")
}

//! Times from a log of histograms, as tools of the HdrHistogram project and `compare --out` write it: intervals with V2 histograms that are
//! compressed, in base64. Values count as ns, which is what the project's tools record unless they are told otherwise.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

/// How such a histogram begins in base64: its cookie, 0x1c849314. Source: HdrHistogram, `AbstractHistogram.java`.
const COOKIE: &str = "HISTFAAA";

/// Whether a file is such a log.
pub(super) fn is_log(content: &str) -> bool {
    content.lines().any(|line| line.rsplit(',').next().is_some_and(|last| last.starts_with(COOKIE)))
}

/// Values in ns and how often each was counted, in order, over all intervals; where intervals have tags, those of the first tag, for the others count
/// the same requests in another way. The error says what is wrong.
pub(super) fn values(content: &str) -> Result<Vec<(f64, f64)>, String> {
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    let mut first = None;
    let mut reader = Deserializer::new();
    for entry in IntervalLogIterator::new(content.as_bytes()) {
        let entry = entry.map_err(|_| "a line of it is no interval".to_owned())?;
        let LogEntry::Interval(interval) = entry else { continue };
        let tag = interval.tag().map(|tag| tag.as_str());
        if *first.get_or_insert(tag) != tag {
            continue;
        }
        let bytes = STANDARD.decode(interval.encoded_histogram()).map_err(|error| error.to_string())?;
        let histogram: Histogram<u64> = reader.deserialize(&mut &bytes[..]).map_err(|error| error.to_string())?;
        for value in histogram.iter_recorded() {
            *counts.entry(value.value_iterated_to()).or_default() += value.count_at_value();
        }
    }
    Ok(counts.into_iter().map(|(ns, count)| (ns as f64, count as f64)).collect())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hdrhistogram::serialization::V2DeflateSerializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};

    use super::*;

    fn log(intervals: &[(Option<&str>, &[u64])]) -> String {
        let (mut bytes, mut serializer) = (Vec::new(), V2DeflateSerializer::new());
        let mut writer = IntervalLogWriterBuilder::new().begin_log_with(&mut bytes, &mut serializer).expect("a header");
        for (tag, values) in intervals {
            let mut histogram = Histogram::<u64>::new(3).expect("three digits");
            values.iter().for_each(|value| histogram.record(*value).expect("it fits"));
            let tag = tag.map(|tag| Tag::new(tag).expect("a tag"));
            let second = Duration::from_secs(1);
            writer.write_histogram(&histogram, second, second, tag).expect("written");
        }
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn intervals_are_joined_and_a_second_tag_is_not() {
        let text = log(&[(None, &[1000, 1000, 2000]), (None, &[1000])]);
        assert!(is_log(&text), "{text}");
        assert_eq!(values(&text).expect("values"), [(1000.0, 3.0), (2000.0, 1.0)]);
        let text = log(&[(Some("intended"), &[500]), (Some("actual"), &[700, 700]), (Some("intended"), &[600])]);
        assert_eq!(values(&text).expect("values"), [(500.0, 1.0), (600.0, 1.0)]);
    }

    #[test]
    fn what_is_none_is_told() {
        assert!(!is_log("6us 12.5\n9us 1\n"));
        let text = log(&[(None, &[1000])]);
        let cut = &text[..text.trim_end().len() - 8];
        assert!(is_log(cut) && values(cut).is_err());
        assert!(values(&format!("{text}soon,HISTFAAA\n")).is_err());
    }
}

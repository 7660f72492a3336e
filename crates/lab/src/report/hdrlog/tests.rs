use std::path::PathBuf;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

use super::*;
use crate::modes::Mode;

const SUBJECT: Subject = Subject::engine(Mode::Suspend { us: 20 });
const LOAD: Load = Load::Rps(37_500);

/// A directory of its own for each test, gone at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("napier-hdrlog-{}-{name}", std::process::id()));
        Self(dir)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The log keeps values in base64; this decodes it without another dependency.
fn decode_base64(text: &str) -> Vec<u8> {
    let sextet =
        |c: u8| b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".iter().position(|&d| d == c);
    let mut bytes = Vec::new();
    for group in text.trim_end_matches('=').as_bytes().chunks(4) {
        let word =
            group.iter().fold(0_u32, |word, &c| word << 6 | sextet(c).unwrap() as u32) << (6 * (4 - group.len()));
        bytes.extend_from_slice(&word.to_be_bytes()[1..group.len()]);
    }
    bytes
}

#[test]
fn what_is_written_can_be_read_back() {
    let scratch = Scratch::new("read-back");
    let mut recorder = Recorder::new();
    (1..1000_u64).for_each(|n| recorder.record(0, n * 10, n * 1000));
    let path = write(&scratch.0.join("deeper"), SUBJECT, LOAD, &recorder, Duration::from_secs(5)).unwrap();
    assert_eq!(path.file_name().unwrap(), "suspend20-37.5k.hlog");

    let log = fs::read(path).unwrap();
    let intervals: Vec<_> = IntervalLogIterator::new(&log)
        .filter_map(|entry| match entry.unwrap() {
            LogEntry::Interval(interval) => Some(interval),
            _ => None,
        })
        .collect();
    let tags: Vec<&str> = intervals.iter().map(|interval| interval.tag().unwrap().as_str()).collect();
    assert_eq!(tags, ["intended", "actual"]);
    assert_eq!(intervals[0].duration(), Duration::from_secs(5));
    assert!((intervals[0].max() - 999.0).abs() < 1.0, "maximum in us: {}", intervals[0].max());
    let bytes = decode_base64(intervals[0].encoded_histogram());
    let read: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
    assert_eq!(&read, recorder.intended());
}

#[test]
fn an_error_names_the_path() {
    let scratch = Scratch::new("error");
    fs::create_dir_all(&scratch.0).unwrap();
    let file = scratch.0.join("not-a-directory");
    fs::write(&file, "").unwrap();
    let error = write(&file, SUBJECT, LOAD, &Recorder::new(), Duration::from_secs(1)).unwrap_err();
    assert!(error.to_string().contains("not-a-directory"), "{error}");
}

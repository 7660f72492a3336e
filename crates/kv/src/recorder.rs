//! What is kept of each reply of a run.

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2Serializer};
use serde::de::Error as _;
use serde::{Deserialize, Serialize};

/// Longest latency told apart; what is longer counts as this long. In ns: one minute.
const LATENCY_NS_MAX: u64 = 60_000_000_000;
/// Decimal digits kept of each latency.
const DIGITS: u8 = 3;

/// Latencies of one run, from the intended and from the actual send. Recording allocates nothing.
#[derive(Clone, Debug)]
pub struct Recorder {
    intended: Histogram<u64>,
    actual: Histogram<u64>,
}

impl Recorder {
    /// An empty recorder; takes its memory (about 0.5 MB) now.
    pub fn new() -> Self {
        let histogram = || Histogram::new_with_bounds(1, LATENCY_NS_MAX, DIGITS).expect("the bounds are legal");
        Self { intended: histogram(), actual: histogram() }
    }

    /// Keeps one reply: when its request should have left, when it left, when the reply came; ns of one clock.
    ///
    /// # Panics
    /// If the reply came before its request left, or the request left early: both are mistakes of the client.
    pub fn record(&mut self, intended_ns: u64, actual_ns: u64, received_ns: u64) {
        assert!(intended_ns <= actual_ns && actual_ns <= received_ns, "time goes forward");
        self.intended.saturating_record(received_ns - intended_ns);
        self.actual.saturating_record(received_ns - actual_ns);
    }

    /// Both histograms as bytes (HdrHistogram's V2), intended first.
    fn to_bytes(&self) -> (Vec<u8>, Vec<u8>) {
        let bytes = |histogram| {
            let mut bytes = Vec::new();
            V2Serializer::new().serialize(histogram, &mut bytes).expect("memory takes all of it");
            bytes
        };
        (bytes(&self.intended), bytes(&self.actual))
    }

    /// The reverse of `to_bytes`; `None` if these are no such bytes.
    fn from_bytes(mut intended: &[u8], mut actual: &[u8]) -> Option<Self> {
        let mut recorder = Self::new();
        // Added rather than taken, so that the bounds are ours.
        recorder.intended.add(Deserializer::new().deserialize::<u64, _>(&mut intended).ok()?).ok()?;
        recorder.actual.add(Deserializer::new().deserialize::<u64, _>(&mut actual).ok()?).ok()?;
        Some(recorder)
    }

    /// Keeps what another one has as well.
    pub fn add(&mut self, other: &Self) {
        self.intended.add(&other.intended).expect("the bounds are the same");
        self.actual.add(&other.actual).expect("the bounds are the same");
    }

    /// Number of replies.
    pub fn len(&self) -> u64 {
        self.intended.len()
    }

    /// Whether there was no reply.
    pub fn is_empty(&self) -> bool {
        self.intended.is_empty()
    }

    /// Latencies from the intended send, in ns.
    pub fn intended(&self) -> &Histogram<u64> {
        &self.intended
    }

    /// Latencies from the actual send, in ns.
    pub fn actual(&self) -> &Histogram<u64> {
        &self.actual
    }
}

/// For another process.
impl Serialize for Recorder {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.to_bytes().serialize(to)
    }
}

impl<'de> Deserialize<'de> for Recorder {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let (intended, actual) = <(Vec<u8>, Vec<u8>)>::deserialize(from)?;
        Self::from_bytes(&intended, &actual).ok_or_else(|| D::Error::custom("histograms that cannot be read"))
    }
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

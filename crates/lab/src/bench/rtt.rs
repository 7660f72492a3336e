//! What round-trip experiments share: frames with a time stamp, percentiles in ns.

use hdrhistogram::Histogram;
use serde::Serialize;

/// Bytes of an experiment's frame: the smallest that Ethernet carries.
pub(crate) const FRAME_BYTES: usize = 64;

/// Largest latency that is told apart: one minute.
const NS_MAX: u64 = 60_000_000_000;

/// An empty histogram of ns.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, NS_MAX, 3).expect("the bounds are legal")
}

/// Percentiles of a latency, all in ns.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "each name says it all")]
pub struct Percentiles {
    pub p5_ns: u64,
    pub p50_ns: u64,
    pub p95_ns: u64,
    pub p99_ns: u64,
    pub p999_ns: u64,
    pub max_ns: u64,
    pub count: u64,
}

impl Percentiles {
    pub(crate) fn of(histogram: &Histogram<u64>) -> Self {
        let at = |quantile| histogram.value_at_quantile(quantile);
        Self {
            p5_ns: at(0.05),
            p50_ns: at(0.5),
            p95_ns: at(0.95),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            max_ns: histogram.max(),
            count: histogram.len(),
        }
    }
}

/// Writes a frame that carries `stamp_ns`.
pub(crate) fn write_stamped(frame: &mut [u8], src: [u8; 6], dst: [u8; 6], stamp_ns: u64) -> usize {
    frame[..6].copy_from_slice(&dst);
    frame[6..12].copy_from_slice(&src);
    // An EtherType for local experiments. Source: IEEE 802, "Local Experimental EtherType 1".
    frame[12..14].copy_from_slice(&0x88b5_u16.to_be_bytes());
    frame[14..22].copy_from_slice(&stamp_ns.to_le_bytes());
    frame[22..FRAME_BYTES].fill(0);
    FRAME_BYTES
}

/// The stamp of a frame, if it is one of ours.
pub(crate) fn stamp_of(frame: &[u8]) -> Option<u64> {
    let stamp = frame.get(14..22)?;
    (frame[12..14] == 0x88b5_u16.to_be_bytes()).then(|| u64::from_le_bytes(stamp.try_into().expect("eight bytes")))
}

/// Turns a frame round: what it was sent from becomes where it goes.
pub(crate) fn turn_round(frame: &mut [u8]) {
    let (dst, rest) = frame.split_at_mut(6);
    dst.swap_with_slice(&mut rest[..6]);
}

/// Durations by powers of two of ns, with bars as bpftrace prints them.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Log2Histogram {
    /// `counts[n]` = durations of 2^n to 2^(n+1) - 1 ns; 0 ns counts as 1.
    pub counts: Vec<u64>,
}

impl Log2Histogram {
    pub(crate) fn add(&mut self, ns: u64) {
        let bucket = ns.max(1).ilog2() as usize;
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
    }
}

impl std::fmt::Display for Log2Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const WIDTH: u64 = 52;
        let most = self.counts.iter().copied().max().unwrap_or(0).max(1);
        let first = self.counts.iter().position(|count| *count > 0).unwrap_or(0);
        for (bucket, count) in self.counts.iter().enumerate().skip(first) {
            let bar = "@".repeat(usize::try_from(count * WIDTH / most).unwrap_or(0));
            let range = format!("[{}, {})", power(bucket), power(bucket + 1));
            writeln!(f, "  {range:<16} {count:>10} |{bar:<52}|")?;
        }
        Ok(())
    }
}

fn power(exponent: usize) -> String {
    match exponent {
        0..10 => (1_u64 << exponent).to_string(),
        10..20 => format!("{}K", 1_u64 << (exponent - 10)),
        20..30 => format!("{}M", 1_u64 << (exponent - 20)),
        _ => format!("{}G", 1_u64 << (exponent - 30)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_come_back() {
        let mut frame = [0xff; FRAME_BYTES];
        assert_eq!(write_stamped(&mut frame, [1; 6], [2; 6], 77), FRAME_BYTES);
        turn_round(&mut frame);
        assert_eq!((stamp_of(&frame), &frame[..6], &frame[6..12]), (Some(77), &[1; 6][..], &[2; 6][..]));
        assert_eq!(stamp_of(&[0; 60]), None);
    }

    #[test]
    fn buckets_are_powers_of_two() {
        let mut histogram = Log2Histogram::default();
        for ns in [0, 1, 2, 3, 4, 1024] {
            histogram.add(ns);
        }
        assert_eq!(histogram.counts[..3], [2, 2, 1]);
        assert_eq!(histogram.counts[10], 1);
        assert!(histogram.to_string().contains("[1K, 2K)"));
    }
}

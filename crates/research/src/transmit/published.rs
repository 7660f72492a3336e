//! What was published of this experiment: Linux commit 100dfa74cad9, "net: dev_queue_xmit() llist adoption", its message.
//!
//! The model does not see these figures; they are compared with what it gives. One of its parameters is worked out from
//! a figure of the same message that is not compared: the interrupts per second (`moderation_ns`).

use crate::contention::plan::Path;
use napier_core::histogram::Histogram;

/// Senders of the experiment.
pub const SENDERS: u16 = 240;
/// Transmit queues of the experiment.
pub const QUEUES: u16 = 30;

/// Figures of one way of transmitting.
#[derive(Clone, PartialEq, Debug)]
pub struct Published {
    /// Packets sent, in millions per second, as rounded there.
    pub mpps: f64,
    /// Busy CPUs in percent: user and system of vmstat, the mean of its four lines.
    pub cpu_pct: f64,
    /// Context switches per second, likewise.
    pub switches_per_s: f64,
    /// Times in `__dev_queue_xmit`, taken with bpftrace.
    pub stays: Histogram,
}

/// From which power of two on, and how often each was seen.
const LOCKED: (u32, &[u64]) = (8, &[21, 631, 27_328, 265_392, 417_543, 826_292, 733_822, 19_055, 17_240, 25_633, 4]);
const LIST: (u32, &[u64]) =
    (7, &[1_539_830, 2_299_558, 483_936, 265_345, 145_463, 54_571, 10_270, 9_385, 7_749, 26_799, 2_665, 665]);

/// The figures of a path.
#[must_use]
pub fn published(path: Path) -> Published {
    match path {
        Path::Locked => Published { mpps: 16.0, cpu_pct: 52.0, switches_per_s: 20_742.0, stays: histogram(LOCKED) },
        Path::List => Published { mpps: 29.0, cpu_pct: 23.25, switches_per_s: 287_246.0, stays: histogram(LIST) },
    }
}

fn histogram((first, counts): (u32, &[u64])) -> Histogram {
    let mut histogram = Histogram::default();
    (first..).zip(counts).for_each(|(exponent, count)| histogram.add_many(1 << exponent, *count));
    histogram
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_histograms_have_the_published_shape() {
        let [locked, list] = Path::ALL.map(|path| published(path).stays);
        assert_eq!((locked.fullest_power(), list.fullest_power()), (Some(13), Some(8)));
        assert_eq!((locked.powers().len(), list.powers().len()), (19, 19));
        assert_eq!((locked.count(), list.count()), (2_332_961, 4_846_236));
        assert!((locked.below_pct(10) - 0.028).abs() < 0.001 && (list.below_pct(10) - 89.21).abs() < 0.01);
    }
}

//! Values by powers of two, with bars as bpftrace prints them, and percentiles of the same values.

use std::fmt;

use serde::ser::{Serialize, SerializeStruct as _, Serializer};

/// Each power of two is cut into 2^4 equal parts, so that percentiles are at most a sixteenth too large.
const PART_BITS: u32 = 4;
const PARTS: usize = 1 << PART_BITS;

/// Largest value that is told apart, 2^48 - 1: more than three days if values are ns.
const VALUE_BITS: u32 = 48;

/// A histogram of whole numbers (what of, and in which unit, the name of the field says). Recording takes a few
/// instructions and allocates nothing; each thread has its own, and they are merged afterwards.
#[derive(Clone, PartialEq, Eq)]
pub struct PowerHistogram {
    parts: Box<[u64]>,
    max: u64,
}

impl Default for PowerHistogram {
    fn default() -> Self {
        Self { parts: vec![0; PARTS * (VALUE_BITS - PART_BITS + 1) as usize].into(), max: 0 }
    }
}

impl PowerHistogram {
    /// Adds one value. What is larger than 2^48 - 1 counts as that.
    #[inline]
    pub fn add(&mut self, value: u64) {
        let value = value.min((1 << VALUE_BITS) - 1);
        self.parts[part_of(value)] += 1;
        self.max = self.max.max(value);
    }

    /// Adds `count` times the same value, as [`Self::add`]: for what somebody else has counted already.
    pub fn add_many(&mut self, value: u64, count: u64) {
        if count > 0 {
            let value = value.min((1 << VALUE_BITS) - 1);
            self.parts[part_of(value)] += count;
            self.max = self.max.max(value);
        }
    }

    /// Adds what another thread or another run recorded.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.parts.iter_mut().zip(&other.parts) {
            *mine += theirs;
        }
        self.max = self.max.max(other.max);
    }

    /// Number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.parts.iter().sum()
    }

    /// The largest value; 0 if there is none.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The value below or at which a share of `quantile` of all values lies: exact below 16, else at most a sixteenth
    /// too large. 0 if there is no value.
    ///
    /// # Panics
    /// If `quantile` is not within 0 and 1.
    #[must_use]
    pub fn percentile(&self, quantile: f64) -> u64 {
        assert!((0.0..=1.0).contains(&quantile), "a quantile is 0 to 1");
        let count = self.count() as f64;
        let rank = (count * quantile).ceil().max(1.0) as u64;
        let mut below = 0;
        for (part, count) in self.parts.iter().enumerate() {
            below += count;
            if below >= rank {
                return last_of(part).min(self.max);
            }
        }
        0
    }

    /// Element n = number of values of 2^n to 2^(n+1) - 1, up to the largest that occurs; 0 counts as 1.
    #[must_use]
    pub fn powers(&self) -> Vec<u64> {
        let mut powers: Vec<u64> = Vec::new();
        for (part, count) in self.parts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let power = last_of(part).max(1).ilog2() as usize;
            if powers.len() <= power {
                powers.resize(power + 1, 0);
            }
            powers[power] += count;
        }
        powers
    }
}

/// Small values have a part each; then come [`PARTS`] parts for each power of two.
#[inline]
fn part_of(value: u64) -> usize {
    if value < PARTS as u64 {
        return value as usize;
    }
    let power = value.ilog2();
    let part = (value >> (power - PART_BITS)) as usize - PARTS;
    ((power - PART_BITS + 1) as usize) * PARTS + part
}

/// The largest value of a part.
fn last_of(part: usize) -> u64 {
    if part < PARTS {
        return part as u64;
    }
    let shift = part / PARTS - 1;
    ((((part % PARTS + PARTS) as u64) + 1) << shift) - 1
}

impl Serialize for PowerHistogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("PowerHistogram", 1)?;
        object.serialize_field("counts", &self.powers())?;
        object.end()
    }
}

impl fmt::Debug for PowerHistogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PowerHistogram").field("powers", &self.powers()).field("max", &self.max).finish()
    }
}

/// A line for each power of two between the smallest and the largest value.
impl fmt::Display for PowerHistogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const WIDTH: u64 = 52;
        let powers = self.powers();
        let most = powers.iter().copied().max().unwrap_or(0).max(1);
        let first = powers.iter().position(|count| *count > 0).unwrap_or(0);
        for (power, count) in powers.iter().enumerate().skip(first) {
            let bar = "@".repeat((count * WIDTH / most) as usize);
            let range = format!("[{}, {})", bound(power), bound(power + 1));
            writeln!(f, "  {range:<16} {count:>10} |{bar:<52}|")?;
        }
        Ok(())
    }
}

fn bound(power: usize) -> String {
    match power {
        0..10 => (1_u64 << power).to_string(),
        10..20 => format!("{}K", 1_u64 << (power - 10)),
        20..30 => format!("{}M", 1_u64 << (power - 20)),
        _ => format!("{}G", 1_u64 << (power - 30)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl IntoIterator<Item = u64>) -> PowerHistogram {
        let mut histogram = PowerHistogram::default();
        values.into_iter().for_each(|value| histogram.add(value));
        histogram
    }

    #[test]
    fn parts_follow_each_other_without_a_gap() {
        let last = part_of((1 << VALUE_BITS) - 1);
        assert_eq!(last + 1, PowerHistogram::default().parts.len());
        for part in 0..last {
            assert_eq!(part_of(last_of(part)), part);
            assert_eq!(part_of(last_of(part) + 1), part + 1);
        }
    }

    #[test]
    fn buckets_are_powers_of_two() {
        let histogram = of([0, 1, 2, 3, 4, 1023, 1024]);
        assert_eq!(histogram.powers(), [2, 2, 1, 0, 0, 0, 0, 0, 0, 1, 1]);
        assert_eq!((histogram.count(), histogram.max()), (7, 1024));
    }

    #[test]
    fn counts_of_others_can_be_added() {
        let mut histogram = of([5]);
        [(2, 3), (70, 0), (16, 2)].into_iter().for_each(|(value, count)| histogram.add_many(value, count));
        assert_eq!(histogram, of([2, 2, 2, 5, 16, 16]));
    }

    #[test]
    fn percentiles_are_never_too_small_and_at_most_a_sixteenth_too_large() {
        let histogram = of(1..=100_000);
        for (quantile, exact) in [(0.5, 50_000), (0.99, 99_000), (0.999, 99_900)] {
            let value = histogram.percentile(quantile);
            assert!((exact..=exact + exact / 16).contains(&value), "{quantile}: {value}");
        }
        assert_eq!(histogram.percentile(1.0), 100_000);
        assert_eq!(of([3, 5, 9]).percentile(0.5), 5);
        assert_eq!(of([]).percentile(0.5), 0);
    }

    #[test]
    fn threads_are_put_together() {
        let mut first = of([1, 300]);
        first.merge(&of([70, u64::MAX]));
        assert_eq!(first, of([1, 70, 300, 1 << 60]));
        assert_eq!(first.max(), (1 << VALUE_BITS) - 1);
    }

    #[test]
    fn prints_bars_as_bpftrace_does() {
        let text = of((0..4).map(|_| 700).chain([2048, 1500, 1500])).to_string();
        let bar = |length: usize| format!("{:<52}", "@".repeat(length));
        let line = |range: &str, count: u32, length| format!("  {range:<16} {count:>10} |{}|\n", bar(length));
        assert_eq!(text, line("[512, 1K)", 4, 52) + &line("[1K, 2K)", 2, 26) + &line("[2K, 4K)", 1, 13));
    }

    #[test]
    fn json_has_the_powers() {
        assert_eq!(serde_json::to_string(&of([1, 2, 3])).expect("it is plain"), r#"{"counts":[1,2]}"#);
    }
}

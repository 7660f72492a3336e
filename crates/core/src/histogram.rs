//! A histogram of whole numbers: each power of two is cut into equal parts.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

/// Each power of two is cut into 2^4 parts, so that percentiles are at most a sixteenth too large.
const PART_BITS: u32 = 4;
const PARTS: usize = 1 << PART_BITS;

/// Counts of values (what of, and in which unit, the name of the field says). Adding takes a few instructions and
/// allocates nothing; each thread has its own, and they are merged afterwards.
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram {
    parts: Box<[u64]>,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { parts: vec![0; PARTS * (u64::BITS - PART_BITS + 1) as usize].into(), max: 0 }
    }
}

impl Histogram {
    /// Adds one value.
    #[inline]
    pub fn add(&mut self, value: u64) {
        self.add_many(value, 1);
    }

    /// Adds `count` times the same value, which is not the largest of anything if `count` is 0.
    #[inline]
    pub fn add_many(&mut self, value: u64, count: u64) {
        self.parts[part_of(value)] += count;
        self.max = self.max.max(if count > 0 { value } else { 0 });
    }

    /// Adds what another thread or another run counted.
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
    pub const fn max(&self) -> u64 {
        self.max
    }

    /// The parts that hold values, from the lowest: the least and the largest value of each, and how many it holds.
    pub fn filled(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        let parts = self.parts.iter().enumerate().filter(|(_, count)| **count > 0);
        parts.map(|(part, count)| (part.checked_sub(1).map_or(0, last_of) + u64::from(part > 0), last_of(part), *count))
    }

    /// The value below or at which a share of `quantile` of all values lies: exact below 16, else at most a sixteenth
    /// too large. 0 if there is no value.
    ///
    /// # Panics
    /// If `quantile` is not within 0 and 1.
    #[must_use]
    pub fn percentile(&self, quantile: f64) -> u64 {
        assert!((0.0..=1.0).contains(&quantile), "a quantile is 0 to 1");
        let exact = self.count() as f64 * quantile;
        let rank = (exact as u64 + u64::from(exact as u64 as f64 != exact)).max(1);
        let mut below = 0;
        let part = self.filled().find(|(_, _, count)| {
            below += count;
            below >= rank
        });
        part.map_or(0, |(_, last, _)| last.min(self.max))
    }

    /// Element n = number of values of 2^n to 2^(n+1) - 1, up to the largest that occurs; 0 counts as 1.
    #[must_use]
    pub fn powers(&self) -> Vec<u64> {
        let mut powers = Vec::new();
        for (_, last, count) in self.filled() {
            let power = last.max(1).ilog2() as usize;
            powers.resize(power + 1, 0);
            powers[power] += count;
        }
        powers
    }

    /// Which element of [`Self::powers`] is the largest, the lowest of equals; `None` without values.
    #[must_use]
    pub fn fullest_power(&self) -> Option<u32> {
        let powers = self.powers();
        let most = powers.iter().max()?;
        (0..).zip(&powers).find(|(_, count)| *count == most).map(|(power, _)| power)
    }

    /// Share of the values of 2^`power` to 2^(`power`+1) - 1, in percent; 0 without values.
    #[must_use]
    pub fn share_pct(&self, power: u32) -> f64 {
        self.percent(self.powers().get(power as usize).copied().unwrap_or(0))
    }

    /// Share of the values below 2^`power`, in percent; 0 without values.
    #[must_use]
    pub fn below_pct(&self, power: u32) -> f64 {
        self.percent(self.powers().iter().take(power as usize).sum())
    }

    fn percent(&self, count: u64) -> f64 {
        100.0 * count as f64 / self.count().max(1) as f64
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histogram").field("powers", &self.powers()).field("max", &self.max).finish()
    }
}

/// Small values have a part each; then come [`PARTS`] parts for each power of two.
#[inline]
const fn part_of(value: u64) -> usize {
    if value < PARTS as u64 {
        return value as usize;
    }
    let power = value.ilog2();
    let part = (value >> (power - PART_BITS)) as usize - PARTS;
    ((power - PART_BITS + 1) as usize) * PARTS + part
}

/// The largest value of a part.
const fn last_of(part: usize) -> u64 {
    if part < PARTS {
        return part as u64;
    }
    let shift = part / PARTS - 1;
    (((part % PARTS + PARTS) as u64) << shift) + ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::default();
        values.into_iter().for_each(|value| histogram.add(value));
        histogram
    }

    #[test]
    fn parts_follow_each_other_without_a_gap() {
        let last = part_of(u64::MAX);
        assert_eq!((last + 1, last_of(last)), (Histogram::default().parts.len(), u64::MAX));
        for part in 0..last {
            assert_eq!((part_of(last_of(part)), part_of(last_of(part) + 1)), (part, part + 1));
        }
        let filled: Vec<_> = of([0, 5, 5, 16, 33, 1 << 20]).filled().collect();
        assert_eq!(filled, [(0, 0, 1), (5, 5, 2), (16, 16, 1), (32, 33, 1), (1 << 20, (17 << 16) - 1, 1)]);
    }

    #[test]
    fn powers_of_two() {
        let histogram = of([0, 1, 2, 3, 4, 1023, 1024]);
        assert_eq!(histogram.powers(), [2, 2, 1, 0, 0, 0, 0, 0, 0, 1, 1]);
        assert_eq!((histogram.count(), histogram.max(), histogram.fullest_power()), (7, 1024, Some(0)));
        let histogram = of([0, 1, 2, 3, 1023, 1024, 1500, 2047]);
        assert_eq!((histogram.fullest_power(), of([]).fullest_power()), (Some(10), None));
        assert_eq!((histogram.below_pct(10), histogram.share_pct(10), histogram.share_pct(11)), (62.5, 37.5, 0.0));
        assert_eq!((of([]).below_pct(64), of([u64::MAX]).share_pct(63)), (0.0, 100.0));
    }

    #[test]
    fn counts_of_others_can_be_added() {
        let mut histogram = of([5]);
        [(2, 3), (70, 0), (16, 2)].into_iter().for_each(|(value, count)| histogram.add_many(value, count));
        assert_eq!(histogram, of([2, 2, 2, 5, 16, 16]));
        histogram.merge(&of([70, u64::MAX]));
        assert_eq!(histogram, of([2, 2, 2, 5, 16, 16, 70, u64::MAX]));
    }

    #[test]
    fn percentiles_are_never_too_small_and_at_most_a_sixteenth_too_large() {
        let histogram = of(1..=100_000);
        for (quantile, exact) in [(0.5, 50_000), (0.99, 99_000), (0.999, 99_900)] {
            let value = histogram.percentile(quantile);
            assert!((exact..=exact + exact / 16).contains(&value), "{quantile}: {value}");
        }
        assert_eq!((histogram.percentile(0.0), histogram.percentile(1.0)), (1, 100_000));
        assert_eq!((of([3, 5, 9]).percentile(0.5), of([]).percentile(0.5)), (5, 0));
    }

    #[test]
    fn what_is_shown_is_the_powers_and_the_largest() {
        let shown = alloc::format!("{:?}", of([1, 77]));
        assert!(shown.starts_with("Histogram { powers: [") && shown.ends_with("max: 77 }"), "{shown}");
    }
}

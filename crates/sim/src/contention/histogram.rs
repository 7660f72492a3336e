//! Times in buckets of powers of two, as bpftrace prints them.

/// Buckets, one per power of two.
const BUCKETS: usize = 64;

/// How often each power of two was seen: bucket `i` counts values from `2^i` to below `2^(i+1)`, and bucket 0 also 0.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Histogram {
    counts: [u64; BUCKETS],
}

impl Histogram {
    /// Nothing seen.
    pub const EMPTY: Self = Self { counts: [0; BUCKETS] };

    /// Counts one value.
    pub const fn record(&mut self, value_ns: u64) {
        self.counts[if value_ns == 0 { 0 } else { value_ns.ilog2() as usize }] += 1;
    }

    /// Adds `count` values to the bucket that begins at `2^exponent`.
    pub const fn add(&mut self, exponent: u32, count: u64) {
        self.counts[exponent as usize] += count;
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, more)| *count += more);
    }

    /// How many values the bucket holds that begins at `2^exponent`.
    #[must_use]
    pub const fn count(&self, exponent: u32) -> u64 {
        self.counts[exponent as usize]
    }

    /// How many values were seen.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The fullest bucket, the lowest of equals; `None` if nothing was seen.
    #[must_use]
    pub fn mode(&self) -> Option<u32> {
        let most = self.counts.iter().max().copied().filter(|most| *most > 0)?;
        (0..).zip(&self.counts).find(|(_, count)| **count == most).map(|(exponent, _)| exponent)
    }

    /// The lowest and the highest bucket that is not empty.
    #[must_use]
    pub fn bounds(&self) -> Option<(u32, u32)> {
        let filled = || (0..).zip(&self.counts).filter(|(_, count)| **count > 0).map(|(exponent, _)| exponent);
        filled().next().zip(filled().last())
    }

    /// Share of the bucket that begins at `2^exponent`, in percent; 0 if nothing was seen.
    #[must_use]
    pub fn share_pct(&self, exponent: u32) -> f64 {
        self.percent(self.count(exponent))
    }

    /// Share of the values below `2^exponent`, in percent; 0 if nothing was seen.
    #[must_use]
    pub fn below_pct(&self, exponent: u32) -> f64 {
        self.percent(self.counts[..exponent as usize].iter().sum())
    }

    fn percent(&self, count: u64) -> f64 {
        100.0 * count as f64 / self.total().max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_falls_into_the_power_of_two_below_it() {
        let mut histogram = Histogram::EMPTY;
        for value in [0, 1, 2, 3, 1023, 1024, 1500, 2047] {
            histogram.record(value);
        }
        assert_eq!((histogram.count(0), histogram.count(1), histogram.count(9), histogram.count(10)), (2, 2, 1, 3));
        assert_eq!((histogram.total(), histogram.mode(), histogram.bounds()), (8, Some(10), Some((0, 10))));
        assert!((histogram.below_pct(10) - 62.5).abs() < 1e-9 && (histogram.share_pct(10) - 37.5).abs() < 1e-9);
    }
}

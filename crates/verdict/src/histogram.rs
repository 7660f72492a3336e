//! How often which value was seen, in bins that are narrow against the value.

/// Bins for each doubling: a bin is at most 1/128 as wide as the values in it.
const PER_DOUBLING: u64 = 128;

/// A distribution of times in ns, or of any whole numbers.
///
/// Values below 256 are kept as they are; above, a bin is at most 1/128 as wide as the values in it. Quantiles are interpolated
/// within the bin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Bin and how many values are in it, in order of bins; none is empty.
    bins: Vec<(u16, u64)>,
    count: u64,
    /// Of the values as they were recorded, not of the bins.
    sum: u128,
    max: u64,
}

impl Histogram {
    /// One without values.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `value`, `count` times.
    pub fn record(&mut self, value: u64, count: u64) {
        if count == 0 {
            return;
        }
        self.put(bin_of(value), count);
        self.count += count;
        self.sum += u128::from(value) * u128::from(count);
        self.max = self.max.max(value);
    }

    fn put(&mut self, bin: u16, count: u64) {
        // Values of a slice that come sorted, as from another histogram, are appended.
        match self.bins.last() {
            Some((last, _)) if *last >= bin => match self.bins.binary_search_by_key(&bin, |(bin, _)| *bin) {
                Ok(at) => self.bins[at].1 += count,
                Err(at) => self.bins.insert(at, (bin, count)),
            },
            _ => self.bins.push((bin, count)),
        }
    }

    /// Adds what `other` has.
    pub fn merge(&mut self, other: &Self) {
        self.merge_weighted(other, 1);
    }

    /// Adds what `other` has, `times` times.
    pub fn merge_weighted(&mut self, other: &Self, times: u32) {
        if times == 0 || other.count == 0 {
            return;
        }
        let mut merged = Vec::with_capacity(self.bins.len().max(other.bins.len()));
        let (mut ours, mut theirs) = (self.bins.iter().copied().peekable(), other.bins.iter().copied().peekable());
        loop {
            let theirs_times = theirs.peek().map(|(bin, count)| (*bin, count * u64::from(times)));
            match (ours.peek().copied(), theirs_times) {
                (None, None) => break,
                (Some(a), Some(b)) if a.0 == b.0 => {
                    merged.push((a.0, a.1 + b.1));
                    ours.next();
                    theirs.next();
                }
                (Some(a), b) if b.is_none_or(|b| a.0 < b.0) => {
                    merged.push(a);
                    ours.next();
                }
                (_, Some(b)) => {
                    merged.push(b);
                    theirs.next();
                }
                (Some(_), None) => unreachable!("taken by the arm above"),
            }
        }
        self.bins = merged;
        self.count += other.count * u64::from(times);
        self.sum += other.sum * u128::from(times);
        self.max = self.max.max(other.max);
    }

    /// The value that the share `q` (0 to 1) of all values does not exceed; `None` without values.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let rank = q.clamp(0.0, 1.0) * self.count as f64;
        let mut below = 0;
        for &(bin, count) in &self.bins {
            if (below + count) as f64 >= rank {
                let within = ((rank - below as f64) / count as f64).clamp(0.0, 1.0);
                return Some((value_at(bin, within) as u64).min(self.max));
            }
            below += count;
        }
        (self.count > 0).then_some(self.max)
    }

    /// How many values there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean of the values; `None` without values.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The largest value; `None` without values.
    #[must_use]
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// The bins that have values, in order: the smallest value of each and how many are in it.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.bins.iter().map(|(bin, count)| (lowest(*bin), *count))
    }

    /// The bins that have values by their numbers, in order: what a file keeps of it.
    #[must_use]
    pub fn bins(&self) -> &[(u16, u64)] {
        &self.bins
    }

    /// One of bins by number, as [`bins`](Self::bins) gives them; each value is taken for the middle of its bin, the largest for the end of it.
    pub fn of_bins(bins: impl IntoIterator<Item = (u16, u64)>) -> Self {
        let mut all = Self::new();
        for (bin, count) in bins {
            all.record(value_at(bin, 0.5) as u64, count);
            all.max = all.max.max(value_at(bin, 1.0) as u64);
        }
        all
    }
}

impl Extend<(u64, u64)> for Histogram {
    /// Records pairs of a value and how often it was seen.
    fn extend<T: IntoIterator<Item = (u64, u64)>>(&mut self, pairs: T) {
        pairs.into_iter().for_each(|(value, count)| self.record(value, count));
    }
}

impl FromIterator<(u64, u64)> for Histogram {
    /// Of pairs of a value and how often it was seen.
    fn from_iter<T: IntoIterator<Item = (u64, u64)>>(pairs: T) -> Self {
        let mut all = Self::new();
        all.extend(pairs);
        all
    }
}

/// The bin of a value. Within a doubling the upper eight bits of the value number the bins.
fn bin_of(value: u64) -> u16 {
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(8);
    (u64::from(shift) * PER_DOUBLING + (value >> shift)) as u16
}

/// How far the values of a bin are shifted to number it.
fn shift(bin: u16) -> u64 {
    (u64::from(bin) / PER_DOUBLING).saturating_sub(1)
}

/// The smallest value of a bin.
fn lowest(bin: u16) -> u64 {
    let shift = shift(bin);
    (u64::from(bin) - shift * PER_DOUBLING) << shift
}

/// The value at the share `within` of a bin: a bin of one value is that value.
pub(crate) fn value_at(bin: u16, within: f64) -> f64 {
    let width = (1_u64 << shift(bin)) as f64;
    lowest(bin) as f64 + within * (width - 1.0)
}

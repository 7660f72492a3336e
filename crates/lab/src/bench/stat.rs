//! A figure over several runs.

use serde::Serialize;

/// Median, smallest and largest of a figure over the runs.
#[derive(Copy, Clone, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Median; the mean of the two in the middle for an even number of runs.
    pub median: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
}

impl Spread {
    /// Of the values, of which there is at least one.
    pub(crate) fn of(values: &[f64]) -> Self {
        let mut values = values.to_vec();
        let median = crate::stats::median(&mut values);
        let min = values.iter().copied().fold(f64::INFINITY, f64::min);
        let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Self { median, min, max }
    }

    /// Of a figure of each run.
    pub(crate) fn over<R>(runs: &[R], figure: impl Fn(&R) -> f64) -> Self {
        Self::of(&runs.iter().map(figure).collect::<Vec<_>>())
    }

    /// The median with as many digits as the size deserves.
    #[must_use]
    pub fn median_shown(self) -> String {
        format!("{:.*}", self.digits(), self.median)
    }

    fn digits(self) -> usize {
        match self.median {
            small if small < 10.0 => 2,
            middling if middling < 100.0 => 1,
            _ => 0,
        }
    }

    /// In another unit: every figure times `factor`.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        Self { median: self.median * factor, min: self.min * factor, max: self.max * factor }
    }
}

/// `median [min-max]` with as many digits as the size deserves.
impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digits = self.digits();
        f.pad(&format!("{:.digits$} [{:.digits$}-{:.digits$}]", self.median, self.min, self.max))
    }
}

#[cfg(test)]
mod tests {
    use super::Spread;

    #[test]
    fn median_and_bounds() {
        let spread = Spread::of(&[3.0, 1.0, 2.0]);
        assert_eq!((spread.median, spread.min, spread.max), (2.0, 1.0, 3.0));
        assert_eq!(spread.to_string(), "2.00 [1.00-3.00]");
        assert_eq!(Spread::of(&[120.0, 130.0]).to_string(), "125 [120-130]");
        assert_eq!(Spread::of(&[2000.0, 4000.0]).scaled(1e-3).to_string(), "3.00 [2.00-4.00]");
    }
}

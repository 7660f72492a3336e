//! A figure and how sure it is.

/// Where a figure lies, at the level of [`Settings::level`](crate::Settings::level).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// A figure, with its interval if there were rounds enough for one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The figure, of all slices that were kept.
    pub value: f64,
    /// Bootstrap over rounds; of a median, by its rank.
    pub interval: Option<Interval>,
}

impl Estimate {
    /// The same ratio seen from the other side.
    #[must_use]
    pub fn inverse(&self) -> Self {
        let interval = self.interval.map(|it| Interval { low: 1.0 / it.high, high: 1.0 / it.low });
        Self { value: 1.0 / self.value, interval }
    }
}

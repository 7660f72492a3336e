//! The rate up to which a candidate keeps up.

use crate::{Interval, Settings};

/// One slice at one rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Attempt {
    /// Requests per second that were offered.
    pub rate: f64,
    /// Requests that were due in it, sent or not.
    pub due: u64,
    /// Of these the ones that were answered in it, with what may be on its way at its end.
    pub in_time: u64,
    /// Whether the machine was taken away ([`Rule`](crate::Rule)): it does not count then.
    pub left_out: bool,
}

impl Attempt {
    /// Whether it kept up: 99 % of what was due was answered in time.
    #[must_use]
    pub fn kept_up(&self) -> bool {
        self.in_time * 100 >= self.due * 99
    }
}

/// What is known of the rate that a candidate sustains.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sustained {
    /// The rate at which it keeps up as often as not; `None` if no slice kept up, or none fell behind: then only a bound is known.
    pub rate: Option<f64>,
    /// Where that rate lies; its ends are bounds that hold also if `rate` is not known, 0 and infinity if there are none.
    pub interval: Interval,
    /// The highest rate at which most slices kept up.
    pub kept_up_at_most: Option<f64>,
    /// The lowest rate above it at which most slices fell behind.
    pub fell_behind_at_least: Option<f64>,
}

/// Where a search begins, and when it is over.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Search {
    /// The first rate.
    pub first: f64,
    /// No rate below this one is tried.
    pub lowest: f64,
    /// No rate above this one is tried.
    pub highest: f64,
    /// The search is over when the interval's high end is at most `1 + within` times its low end.
    pub within: f64,
}

/// What all slices at all rates say together; `None` without a slice that counts.
#[must_use]
pub fn sustained(attempts: &[Attempt], _settings: &Settings) -> Option<Sustained> {
    let counted = || attempts.iter().filter(|attempt| !attempt.left_out);
    counted().next()?;
    let kept = counted().filter(|it| it.kept_up()).map(|it| it.rate).reduce(f64::max);
    let behind = counted().filter(|it| !it.kept_up()).map(|it| it.rate).reduce(f64::min);
    let interval = Interval { low: kept.unwrap_or(0.0), high: behind.unwrap_or(f64::INFINITY) };
    let rate = kept.zip(behind).map(|(kept, behind)| (kept * behind).sqrt());
    Some(Sustained { rate, interval, kept_up_at_most: kept, fell_behind_at_least: behind })
}

/// The rate at which one more slice would tell most; `None` if the search is over.
#[must_use]
pub fn next_rate(attempts: &[Attempt], search: &Search, settings: &Settings) -> Option<f64> {
    let Some(known) = sustained(attempts, settings) else { return Some(search.first) };
    let next = match (known.kept_up_at_most, known.fell_behind_at_least) {
        (Some(kept), None) => kept * 2.0,
        (None, Some(behind)) => behind / 2.0,
        (Some(kept), Some(behind)) if behind > kept * (1.0 + search.within) => (kept * behind).sqrt(),
        (Some(_), Some(_)) | (None, None) => return None,
    };
    (search.lowest..=search.highest).contains(&next).then_some(next)
}

//! The rate up to which a candidate keeps up.
//!
//! Slices at several rates keep up or fall behind, with noise around the sustained rate and now and then a pause that makes one fall
//! behind far below it. All of them together say where the rate lies: a logistic curve over the logarithm of the rate, whose
//! place and width are not known, with a small chance for either outcome at the far ends. Every place and width gets its chance (Bayes); the
//! estimate is the median, the interval the middle 95 %. With a handful of slices that is wider than a bootstrap of the fit, which
//! claims to be certain as soon as all that kept up lie below all that fell behind.
//!
//! What is said never contradicts the slices of one rate: it is at least the highest rate at which most of them kept up, and at most the
//! lowest one above that at which most fell behind. A rate at which they fell behind below one at which they kept up does not count
//! against the latter: a pause makes a fast server miss, nothing makes a slow one keep up.

use crate::{Interval, Settings};

mod belief;

use belief::{Belief, Row};

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
    /// The rate at which a slice keeps up as often as not; `None` if only a bound is known, as at most rates none kept up or none fell behind.
    pub rate: Option<f64>,
    /// Where that rate lies, at [`Settings::level`](crate::Settings::level). Where only a bound is known its other end is 0 or infinite.
    pub interval: Interval,
    /// The highest rate at which two of three slices kept up.
    pub kept_up_at_most: Option<f64>,
    /// The lowest rate above that at which two of three fell behind.
    pub fell_behind_at_least: Option<f64>,
}

impl Sustained {
    /// The rate; where only a bound is known, the highest at which it was seen to keep up.
    #[must_use]
    pub fn keeps_up_to(&self) -> Option<f64> {
        self.rate.or(self.kept_up_at_most)
    }
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

/// Rates that differ by less than this share are one.
const SAME_RATE: f64 = 0.001;

/// The slices that count, by rate.
fn rows(attempts: &[Attempt]) -> Vec<Row> {
    let mut counted: Vec<&Attempt> = attempts.iter().filter(|attempt| !attempt.left_out && attempt.due > 0).collect();
    counted.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    let mut rows: Vec<Row> = Vec::new();
    for attempt in counted {
        if rows.last().is_none_or(|last| attempt.rate > last.rate * (1.0 + SAME_RATE)) {
            rows.push(Row { rate: attempt.rate, kept_up: 0, fell_behind: 0 });
        }
        let row = rows.last_mut().expect("there is one now");
        *(if attempt.kept_up() { &mut row.kept_up } else { &mut row.fell_behind }) += 1;
    }
    rows
}

/// The highest rate at which most kept up, and the lowest above it at which most fell behind.
fn bounds(rows: &[Row]) -> (Option<f64>, Option<f64>) {
    let kept = rows.iter().rfind(|row| row.kept_up >= 2 * row.fell_behind).map(|row| row.rate);
    let above = |row: &&Row| kept.is_none_or(|kept| row.rate > kept) && row.fell_behind >= 2 * row.kept_up;
    (kept, rows.iter().find(above).map(|row| row.rate))
}

/// What all slices at all rates say together; `None` without a slice that counts.
#[must_use]
pub fn sustained(attempts: &[Attempt], settings: &Settings) -> Option<Sustained> {
    let rows = rows(attempts);
    if rows.is_empty() {
        return None;
    }
    Some(known(&rows, &Belief::after(&rows), settings))
}

/// Whether more than half of the slices are left out.
#[must_use]
pub fn is_taken(attempts: &[Attempt]) -> bool {
    2 * attempts.iter().filter(|attempt| attempt.left_out).count() > attempts.len()
}

/// What is said of a candidate beside figures of all its slices: as [`sustained`], but where the machine was taken away all slices
/// count, as they do in those figures. A few that were kept would say that it keeps up at a rate at which nearly all fell behind.
#[must_use]
pub fn said(attempts: &[Attempt], settings: &Settings) -> Option<Sustained> {
    if !is_taken(attempts) {
        return sustained(attempts, settings);
    }
    let all: Vec<Attempt> = attempts.iter().map(|attempt| Attempt { left_out: false, ..*attempt }).collect();
    sustained(&all, settings)
}

fn known(rows: &[Row], belief: &Belief, settings: &Settings) -> Sustained {
    let (kept, behind) = bounds(rows);
    let outside = (1.0 - settings.level) / 2.0;
    let mut interval = Interval { low: belief.quantile(outside), high: belief.quantile(1.0 - outside) };
    let rate = match (kept, behind) {
        (Some(kept), Some(behind)) => Some(belief.quantile(0.5).clamp(kept, behind)),
        (None, _) | (_, None) => None,
    };
    match rate {
        Some(rate) => interval = Interval { low: interval.low.min(rate), high: interval.high.max(rate) },
        // Beyond what was tried nothing is known, whatever was assumed beforehand.
        None if behind.is_none() => interval.high = f64::INFINITY,
        None => interval.low = 0.0,
    }
    if rate.is_none() && kept.is_none() {
        interval.low = 0.0;
    }
    Sustained { rate, interval, kept_up_at_most: kept, fell_behind_at_least: behind }
}

/// The rate at which one more slice would tell most; `None` if the search is over.
///
/// Until both outcomes were seen the rate doubles or halves; then it is where the outcome would narrow the interval most.
#[must_use]
pub fn next_rate(attempts: &[Attempt], search: &Search, settings: &Settings) -> Option<f64> {
    let rows = rows(attempts);
    let (Some(lowest), Some(highest)) = (rows.first(), rows.last()) else { return Some(search.first) };
    let (kept, behind) = bounds(&rows);
    match (kept, behind) {
        // A pause may have failed the last one: at the lowest rate it takes two.
        (None, _) if lowest.rate <= search.lowest => return (lowest.fell_behind < 2).then_some(search.lowest),
        (None, _) => return Some((lowest.rate / 2.0).max(search.lowest)),
        (Some(_), None) if highest.rate >= search.highest => return None,
        (Some(_), None) => return Some((highest.rate * 2.0).min(search.highest)),
        (Some(_), Some(_)) => {}
    }
    let belief = Belief::after(&rows);
    let outside = (1.0 - settings.level) / 2.0;
    let (low, high) = (belief.quantile(outside), belief.quantile(1.0 - outside));
    if high <= low * (1.0 + search.within) {
        return None;
    }
    // On a grid, so that slices of one rate come together.
    let step = (0.5 * search.within).ln_1p();
    let number = |rate: f64| (rate / search.first).ln() / step;
    let (from, to) = (number(low).floor() as i64, number(high).ceil() as i64);
    let every = ((to - from) / TRIED_MAX + 1) as usize;
    let rates = (from..=to).step_by(every).map(|number| search.first * (number as f64 * step).exp());
    let tried = rates.map(|rate| rate.clamp(search.lowest, search.highest));
    let best = tried.map(|rate| (rate, belief.tells(rate))).max_by(|a, b| a.1.total_cmp(&b.1));
    best.map(|(rate, _)| rate)
}

/// Rates among which the next one is chosen.
const TRIED_MAX: i64 = 40;

#[cfg(test)]
mod tests;

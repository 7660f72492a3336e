//! Expectations with repeats against a sequence: does it match, and if not, how far?
//!
//! A run may take fewer events than it could, if what follows needs them. So all places that can be reached are kept,
//! expectation by expectation, each with one place that it was reached from.

use crate::Range;

/// How far the expectations lead.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Path {
    /// Everything matched.
    pub(super) complete: bool,
    /// How many events each of the first expectations took; the first that could not be met and those after it are
    /// missing here.
    pub(super) taken: Vec<usize>,
}

/// The expectations, as far as matching is concerned.
pub(super) trait Expectations {
    /// How many there are.
    fn count(&self) -> usize;
    /// How many events in a row one takes.
    fn repeat(&self, expected: usize) -> Range;
    /// One event is as expected, apart from its time.
    fn fits(&self, expected: usize, seen: usize) -> bool;
    /// Its time is as expected too; asked of the first event of a run only.
    fn in_time(&self, expected: usize, seen: usize) -> bool;
}

/// A place between events, and the place that it was reached from.
#[derive(Copy, Clone)]
struct PathPlace {
    at: usize,
    from: usize,
}

/// Finds the way through `seen` events.
pub(super) fn find(expectations: &impl Expectations, seen: usize) -> Path {
    let mut levels: Vec<Vec<PathPlace>> = vec![vec![PathPlace { at: 0, from: 0 }]];
    for expected in 0..expectations.count() {
        let next = reach(expectations, expected, &levels[expected], seen);
        if next.is_empty() {
            break;
        }
        levels.push(next);
    }
    let reached = levels.len() - 1;
    let end = levels[reached].last().expect("each level has a place").at;
    let mut taken = Vec::with_capacity(reached);
    let mut at = end;
    for level in levels[1..].iter().rev() {
        let place = level[level.binary_search_by_key(&at, |place| place.at).expect("it was reached")];
        taken.push(place.at - place.from);
        at = place.from;
    }
    taken.reverse();
    Path { complete: reached == expectations.count() && end == seen, taken }
}

/// The places after one more expectation, in order.
fn reach(expectations: &impl Expectations, expected: usize, places: &[PathPlace], seen: usize) -> Vec<PathPlace> {
    let count = |n: i64| usize::try_from(n).unwrap_or(if n < 0 { 0 } else { usize::MAX });
    let repeat = expectations.repeat(expected);
    let (least, most) = (count(repeat.min), count(repeat.max));
    let mut next: Vec<PathPlace> = Vec::new();
    // Events up to here, from the last place, fit; so the same run is not looked at twice.
    let mut run_end = 0;
    for place in places {
        run_end = run_end.max(place.at);
        while run_end < seen && run_end - place.at < most && expectations.fits(expected, run_end) {
            run_end += 1;
        }
        let end = run_end.min(place.at.saturating_add(most));
        let begins = end > place.at && expectations.in_time(expected, place.at);
        let end = if begins { end } else { place.at };
        let first = place.at.saturating_add(least).max(next.last().map_or(0, |last| last.at + 1));
        next.extend((first..=end).map(|at| PathPlace { at, from: place.at }));
    }
    next
}

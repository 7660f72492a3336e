//! Two columns: which line stands beside which.

use super::Row;
use super::path::Path;

/// Most lines of either side that are aligned after the first difference.
const ALIGNED_MAX: usize = 1500;
/// A line for which the other side has none.
const GAP: u32 = 4;
/// What makes the same event twice as different as wrong in its time only.
pub(super) const WRONG_TIME: u32 = 1;
/// Same kind, about the same thing, other values.
pub(super) const WRONG_VALUES: u32 = 5;
/// Never beside each other.
pub(super) const UNLIKE: u32 = 2 * GAP + 1;

/// One expected event after those that matched; one of a run may be optional.
#[derive(Copy, Clone)]
struct Unit {
    expected: usize,
    nth: usize,
    optional: bool,
}

/// The sides, as far as aligning is concerned.
pub(super) trait Sides: super::path::Expectations {
    /// Number of events.
    fn seen_count(&self) -> usize;
    /// How unlike an expectation and an event are; 0: matches. `first`: the time counts.
    fn unlike(&self, expected: usize, seen: usize, first: bool) -> u32;
    /// The row of a pair or of one side; `nth`: of a run.
    fn row(&self, expected: Option<(usize, usize)>, seen: Option<usize>, same: bool) -> Row;
}

/// All rows: those along the path, and after its end the alignment with the least differences.
pub(super) fn rows(sides: &impl Sides, path: &Path) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut seen = 0;
    for (expected, taken) in path.taken.iter().enumerate() {
        for nth in 0..*taken {
            rows.push(sides.row(Some((expected, nth)), Some(seen), true));
            seen += 1;
        }
    }
    if path.complete {
        return rows;
    }
    let units = units(sides, path.taken.len(), sides.seen_count() - seen);
    let events: Vec<usize> = (seen..sides.seen_count()).take(ALIGNED_MAX).collect();
    align(sides, &units, &events, &mut rows);
    let left = sides.seen_count() - seen - events.len();
    if left > 0 {
        rows.push(Row::note(format!("... {left} more events were seen; not aligned")));
    }
    rows
}

fn units(sides: &impl Sides, first: usize, seen_left: usize) -> Vec<Unit> {
    let mut units = Vec::new();
    for expected in first..sides.count() {
        let repeat = sides.repeat(expected);
        let most = usize::try_from(repeat.max).unwrap_or(0).min(seen_left.max(1)).max(usize::from(repeat.min > 0));
        for nth in 0..most {
            let optional = i64::try_from(nth).is_ok_and(|nth| nth >= repeat.min);
            units.push(Unit { expected, nth, optional });
            if units.len() == ALIGNED_MAX {
                return units;
            }
        }
    }
    units
}

/// What was done to get to a cell.
#[derive(Copy, Clone, PartialEq)]
enum Move {
    Both,
    Expected,
    Seen,
}

fn align(sides: &impl Sides, units: &[Unit], events: &[usize], rows: &mut Vec<Row>) {
    let width = events.len() + 1;
    let mut moves = vec![Move::Seen; (units.len() + 1) * width];
    let mut costs: Vec<u32> = (0..width).map(|n| GAP * u32::try_from(n).expect("bounded")).collect();
    for (u, unit) in units.iter().enumerate() {
        let skip = if unit.optional { 0 } else { GAP };
        let mut diagonal = costs[0];
        costs[0] += skip;
        moves[(u + 1) * width] = Move::Expected;
        for (e, event) in events.iter().enumerate() {
            let both = diagonal + sides.unlike(unit.expected, *event, unit.nth == 0);
            let only_expected = costs[e + 1] + skip;
            let only_seen = costs[e] + GAP;
            diagonal = costs[e + 1];
            let best = both.min(only_expected).min(only_seen);
            costs[e + 1] = best;
            moves[(u + 1) * width + e + 1] = match best {
                _ if best == both => Move::Both,
                _ if best == only_seen => Move::Seen,
                _ => Move::Expected,
            };
        }
    }
    let (mut u, mut e) = (units.len(), events.len());
    let mut backwards = Vec::new();
    while u > 0 || e > 0 {
        let step = moves[u * width + e];
        u -= usize::from(step != Move::Seen);
        e -= usize::from(step != Move::Expected);
        backwards.push((step, u, e));
    }
    for (step, u, e) in backwards.into_iter().rev() {
        match step {
            Move::Seen => rows.push(sides.row(None, Some(events[e]), false)),
            Move::Expected if units[u].optional => {}
            Move::Expected => rows.push(sides.row(Some((units[u].expected, units[u].nth)), None, false)),
            Move::Both => {
                let same = sides.unlike(units[u].expected, events[e], units[u].nth == 0) == 0;
                rows.push(sides.row(Some((units[u].expected, units[u].nth)), Some(events[e]), same));
            }
        }
    }
}

//! Rows that were measured, beside what was predicted of them: how far off a further row may be.
//!
//! What was seen is the least of it: of a few rows the next one lies outside often enough. And rows of one load are off together, for one
//! load is all that they have in common that others have not, so that loads are counted and not rows. At each end a range has what was seen,
//! and the farthest row of nine in ten further loads, if logarithms of what was measured to what was predicted are spread normally:
//! `mean ± t(n - 1) s sqrt(1 + 1/n)` of the farthest rows of `n` loads. Of a single load its rows are taken for that.
//! Source: G. Hahn, W. Meeker, "Statistical Intervals", 1991, section 4.7.

use napier_verdict::student_bound;

use super::known::{KnownError, Off, Range, kind};
use crate::loads::Load;
use crate::modes::Mode;

/// So many of a hundred further loads lie outside, half of them at either end.
const OUTSIDE: f64 = 0.2;

/// More than so many times is as good as no bound.
const MOST: f64 = 1000.0;
/// Of a percent: what is less is rounding.
const ROUNDING: f64 = 1e-6;

/// A row at a load: the logarithm of what was measured to what was predicted.
type Ratio = (Load, f64);

/// What was measured of what was predicted, by kinds of rows, whose errors are alike.
#[derive(Clone, Debug, Default)]
pub struct ErrorRows {
    kinds: Vec<OfKind>,
}

#[derive(Clone, Debug)]
struct OfKind {
    name: &'static str,
    p99: Vec<Ratio>,
    cpu: Vec<Ratio>,
}

impl ErrorRows {
    /// A row was measured at a load; p99 and CPU are what they were of what was predicted. `None` for p99: it was not the mode's.
    pub fn add(&mut self, kind: &'static str, load: Load, p99: Option<f64>, cpu: f64) {
        let at = self.kinds.iter().position(|known| known.name == kind).unwrap_or_else(|| {
            self.kinds.push(OfKind { name: kind, p99: Vec::new(), cpu: Vec::new() });
            self.kinds.len() - 1
        });
        let of_kind = &mut self.kinds[at];
        of_kind.p99.extend(p99.map(|p99| (load, p99.ln())));
        of_kind.cpu.push((load, cpu.ln()));
    }

    /// The same of a mode on a core that works for so much of the time, by its kind.
    pub fn add_mode(&mut self, (mode, load): (Mode, Load), working_pct: f64, p99: f64, cpu: f64) {
        if let Some(kind) = kind(mode, working_pct) {
            self.add(kind, load, Some(p99), cpu);
        }
    }

    /// What is known by them, with the errors of all rows, those that figures were fitted to and others, in percent.
    #[must_use]
    pub fn known(&self, fit_pct: Option<f64>, held_back_pct: Option<f64>) -> KnownError {
        let off = |of: &OfKind| Off { rows: of.cpu.len() as u32, p99: range(&of.p99), cpu: range(&of.cpu) };
        let offs = self.kinds.iter().map(|of| (of.name, off(of))).collect();
        KnownError { fit_pct, held_back_pct, offs }
    }
}

/// From where to where a row of a further load may be, with 1 between them; `None` of nothing.
fn range(rows: &[Ratio]) -> Option<Range> {
    let first = rows.first()?.0;
    let least = farthest(rows, f64::min).min(0.0);
    let most = farthest(rows, f64::max).max(0.0);
    let ends = if rows.iter().all(|(load, _)| *load == first) {
        let all: Vec<f64> = rows.iter().map(|(_, ln)| *ln).collect();
        [(least, -1.0), (most, 1.0)].map(|(seen, way)| further(&all, seen, way))
    } else {
        let of = |farther: fn(f64, f64) -> f64| of_loads(rows, farther);
        [further(&of(f64::min), least, -1.0), further(&of(f64::max), most, 1.0)]
    };
    // Whole percents, as a file has them.
    let least_pct = (ends[0].exp() * 100.0 + ROUNDING).floor();
    let most_pct = (ends[1].exp() * 100.0 - ROUNDING).ceil();
    Some((least_pct / 100.0, (most_pct / 100.0).min(MOST)))
}

fn farthest(rows: &[Ratio], farther: fn(f64, f64) -> f64) -> f64 {
    rows.iter().map(|(_, ln)| *ln).reduce(farther).unwrap_or(0.0)
}

/// The farthest row of each load.
fn of_loads(rows: &[Ratio], farther: fn(f64, f64) -> f64) -> Vec<f64> {
    let mut loads: Vec<Ratio> = Vec::new();
    for (load, ln) in rows {
        match loads.iter_mut().find(|(known, _)| known == load) {
            Some((_, far)) => *far = farther(*far, *ln),
            None => loads.push((*load, *ln)),
        }
    }
    loads.into_iter().map(|(_, ln)| ln).collect()
}

/// What was `seen`, or what is beyond it in a direction; one alone says nothing of a spread.
fn further(all: &[f64], seen: f64, way: f64) -> f64 {
    let count = all.len() as f64;
    if all.len() < 2 {
        return seen;
    }
    let mean = all.iter().sum::<f64>() / count;
    let variance = all.iter().map(|ln| (ln - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let half = student_bound(OUTSIDE, count - 1.0) * (variance * (1.0 + 1.0 / count)).sqrt();
    (seen * way).max(mean * way + half) * way
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rows: &[(u64, f64)]) -> Option<Range> {
        range(&rows.iter().map(|(rps, ratio)| (Load::Rps(*rps), ratio.ln())).collect::<Vec<_>>())
    }

    #[test]
    fn a_range_has_what_was_seen_and_what_may_come_next() {
        assert_eq!(of(&[]), None);
        // One row says nothing of the spread.
        assert_eq!((of(&[(1, 1.2)]), of(&[(1, 0.8)])), (Some((1.0, 1.2)), Some((0.8, 1.0))));
        // All alike: no spread, and 1 is always between the ends.
        assert_eq!(of(&[(1, 1.1), (2, 1.1), (3, 1.1)]), Some((1.0, 1.1)));
        // Logarithms of -0.1, 0 and 0.1: a standard deviation of 0.1, t of 2 degrees 1.886, so that the ends are 0.218 off.
        let three = [(-0.1_f64).exp(), 1.0, 0.1_f64.exp()];
        let spread = Some((0.80, 1.25));
        assert_eq!(of(&[(1, three[0]), (2, three[1]), (3, three[2])]), spread);
        assert_eq!(of(&[(1, three[0]), (1, three[1]), (1, three[2])]), spread, "of one load the rows");
        // More loads of the same spread say more.
        let many: Vec<(u64, f64)> = (0..30).map(|load| (load, three[load as usize % 3])).collect();
        let (least, most) = of(&many).expect("rows");
        assert!((0.88..0.91).contains(&least) && (1.10..1.13).contains(&most), "{least} {most}");
    }

    /// Ten rows of two loads are no more than two: what one load has in common the other tells nothing of.
    #[test]
    fn rows_of_a_load_count_once() {
        let two = of(&[(1, 1.0), (2, 1.2)]);
        let ten: Vec<(u64, f64)> = [(1, 1.0), (2, 1.2)].repeat(5);
        assert_eq!(of(&ten), two);
        assert!(two.is_some_and(|(least, most)| least < 0.8 && most > 1.5), "{two:?}");
        // At each end the farthest row of a load counts.
        let with_others = [&ten[..], &[(1, 0.99), (2, 1.19)]].concat();
        assert_eq!(of(&with_others).map(|ends| ends.1), two.map(|ends| ends.1));
        assert_eq!(of(&[(1, 1.0), (2, 1e6)]).map(|ends| ends.1), Some(MOST), "no number without an end");
    }

    #[test]
    fn kinds_are_apart() {
        let mut rows = ErrorRows::default();
        for (mode, at) in
            [(Mode::Base, 40.0), (Mode::Suspend0, 50.0), (Mode::Defer { us: 20 }, 50.0), (Mode::Threaded, 9.0)]
        {
            rows.add_mode((mode, Load::Rps(1)), at, 1.2, 0.9);
        }
        rows.add("all", Load::Rps(1), None, 1.1);
        let known = rows.known(Some(5.0), None);
        let of = |mode, at| known.off(mode, at).map(|off| (off.rows, off.p99.is_some()));
        assert_eq!((of(Mode::Base, 79.0), of(Mode::Defer { us: 50 }, 10.0)), (Some((2, true)), Some((1, true))));
        assert_eq!((of(Mode::FullBusy, 10.0), of(Mode::Threaded, 10.0)), (Some((1, false)), Some((1, false))));
    }
}

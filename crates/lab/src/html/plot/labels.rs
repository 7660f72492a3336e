//! Where names stand so that none covers another.

use super::text_width;

/// Height of a line of text, in pixels.
const LINE: f64 = 14.0;

/// Moves names apart that stand one above the other: the place of each, in the same order, within bounds if they all fit.
pub(super) fn apart(wanted: &[f64], from: f64, to: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|a, b| wanted[*a].total_cmp(&wanted[*b]));
    let step = LINE.min((to - from) / wanted.len().max(1) as f64);
    let mut placed = vec![0.0; wanted.len()];
    let mut least = from;
    for at in &order {
        placed[*at] = wanted[*at].max(least);
        least = placed[*at] + step;
    }
    let mut most = to;
    for at in order.iter().rev() {
        placed[*at] = placed[*at].min(most);
        most = placed[*at] - step;
    }
    placed
}

/// A rectangle that is taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct TakenAreas {
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
}

impl TakenAreas {
    /// A line that is level or upright.
    pub(super) fn line((x, y): (f64, f64), (to_x, to_y): (f64, f64)) -> Self {
        Self { left: x.min(to_x) - 2.0, top: y.min(to_y) - 2.0, right: x.max(to_x) + 2.0, bottom: y.max(to_y) + 2.0 }
    }

    /// Around a mark.
    pub(super) fn mark(x: f64, y: f64) -> Self {
        Self { left: x - 6.0, top: y - 6.0, right: x + 6.0, bottom: y + 6.0 }
    }

    fn common(&self, other: &Self) -> f64 {
        let width = (self.right.min(other.right) - self.left.max(other.left)).max(0.0);
        let height = (self.bottom.min(other.bottom) - self.top.max(other.top)).max(0.0);
        width * height
    }
}

/// A name beside its mark.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    /// Where the text begins, has its middle or ends, and its baseline.
    pub(super) x: f64,
    pub(super) y: f64,
    /// Which of the three, as SVG says it: the end at the mark is where it was meant to be, however wide the letters are.
    pub(super) anchor: &'static str,
    /// Where a line to the mark begins, if the name is not right beside it.
    pub(super) lead: Option<(f64, f64)>,
}

/// Where names may stand.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
}

/// Places names beside their marks, one after the other: where they cover least of each other, of marks and of `lines`, and no
/// further away than they must be.
pub(super) fn beside(names: &[(f64, f64, &str)], lines: &[TakenAreas], bounds: Bounds) -> Vec<Placed> {
    let mut taken: Vec<TakenAreas> =
        names.iter().map(|(x, y, _)| TakenAreas::mark(*x, *y)).chain(lines.iter().copied()).collect();
    names
        .iter()
        .map(|(x, y, name)| {
            let length = text_width(name);
            let candidates = candidates(*x, *y, length).filter(|(left, base)| {
                let high_enough = base - LINE + 3.0 >= bounds.top && base + 3.0 <= bounds.bottom;
                *left >= bounds.left && left + length <= bounds.right && high_enough
            });
            let area = |(left, base): (f64, f64)| TakenAreas {
                left,
                top: base - LINE + 3.0,
                right: left + length,
                bottom: base + 3.0,
            };
            let cost = |(at, place): &(usize, (f64, f64))| {
                let covered: f64 = taken.iter().map(|other| area(*place).common(other)).sum();
                covered + *at as f64 * 0.5
            };
            let best = candidates.enumerate().min_by(|a, b| cost(a).total_cmp(&cost(b)));
            let (left, base) = best.map_or((*x, *y), |(_, place)| place);
            taken.push(area((left, base)));
            let middle = (left + length / 2.0, base - 4.0);
            let is_far = (middle.0 - x).abs() > length / 2.0 + 14.0 || (middle.1 - y).abs() > 20.0;
            let lead = is_far.then(|| (x.clamp(left, left + length), if base < *y { base + 3.0 } else { base - 10.0 }));
            let (x, anchor) = if left >= *x {
                (left, "start")
            } else if left + length <= *x {
                (left + length, "end")
            } else {
                (middle.0, "middle")
            };
            Placed { x, y: base, anchor, lead }
        })
        .collect()
}

/// Places around a mark, the nearest first.
fn candidates(x: f64, y: f64, length: f64) -> impl Iterator<Item = (f64, f64)> {
    let right = x + 9.0;
    let left = x - 9.0 - length;
    let middle = x - length / 2.0;
    let near = [(right, y + 4.0), (left, y + 4.0), (middle, y - 10.0), (middle, y + 19.0)];
    let diagonal = [(right - 3.0, y - 8.0), (right - 3.0, y + 16.0), (left + 3.0, y - 8.0), (left + 3.0, y + 16.0)];
    let far = (2..9).flat_map(move |step| {
        let shift = f64::from(step) * LINE;
        [
            (right + 6.0, y - shift),
            (right + 6.0, y + shift),
            (left - 6.0, y - shift),
            (left - 6.0, y + shift),
            (middle, y - shift),
            (middle, y + shift),
        ]
    });
    near.into_iter().chain(diagonal).chain(far)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_moved_apart_and_keep_their_order() {
        let placed = apart(&[50.0, 52.0, 10.0, 51.0], 0.0, 100.0);
        let mut sorted: Vec<(f64, usize)> = placed.iter().copied().zip(0..).collect();
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert_eq!(sorted.iter().map(|(_, i)| *i).collect::<Vec<_>>(), [2, 0, 3, 1]);
        assert!(sorted.windows(2).all(|pair| pair[1].0 - pair[0].0 >= LINE - 1e-9), "{placed:?}");
        let low = apart(&[99.0, 99.0, 99.0], 0.0, 100.0);
        assert!(low.iter().all(|y| (0.0..=100.0).contains(y)), "{low:?}");
        assert!(apart(&[], 0.0, 100.0).is_empty());
    }

    #[test]
    fn no_name_covers_another_or_a_mark() {
        let names: Vec<(f64, f64, &str)> = (0..6)
            .map(|i| (100.0 + f64::from(i % 2) * 8.0, 100.0 + f64::from(i) * 3.0, "threaded-busy-poll"))
            .collect();
        let placed = beside(&names, &[], Bounds { left: 0.0, right: 500.0, top: 0.0, bottom: 300.0 });
        let length = text_width("threaded-busy-poll");
        let area = |at: &Placed| {
            let left = at.x
                - match at.anchor {
                    "start" => 0.0,
                    "middle" => length / 2.0,
                    _ => length,
                };
            TakenAreas { left, top: at.y - LINE + 3.0, right: left + length, bottom: at.y + 3.0 }
        };
        let areas: Vec<TakenAreas> = placed.iter().map(area).collect();
        for (i, a) in areas.iter().enumerate() {
            assert!(areas[i + 1..].iter().all(|b| a.common(b) < 1.0), "{placed:?}");
        }
        assert!(placed.iter().any(|at| at.lead.is_some()), "those that are far away have a line");
    }
}

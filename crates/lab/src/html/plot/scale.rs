//! Scales: from a figure to its place on an axis, and the figures that stand beside it.

/// How figures are laid out along an axis.
#[derive(Clone, Copy, Debug)]
pub(in crate::html) enum Scale {
    /// Equal steps are equally long.
    Linear { from: f64, to: f64, show: fn(f64) -> String },
    /// Equal factors are equally long.
    Log { from: f64, to: f64, show: fn(f64) -> String },
    /// Nothing stands beside it.
    Blank,
    /// Each further nine of a percentile is equally long: 90, 99, 99.9.
    Nines { to_pct: f64 },
}

impl Scale {
    /// From zero to at least the largest of these.
    pub(in crate::html) fn from_zero(values: impl Iterator<Item = f64>, least: f64, show: fn(f64) -> String) -> Self {
        let most = values.filter(|value| value.is_finite()).fold(least, f64::max);
        Self::Linear { from: 0.0, to: most, show }
    }

    /// Around these, which are above zero, with a little room on both sides.
    pub(in crate::html) fn log(values: impl Iterator<Item = f64> + Clone, show: fn(f64) -> String) -> Self {
        let usable = values.filter(|value| value.is_finite() && *value > 0.0);
        let least = usable.clone().fold(f64::INFINITY, f64::min);
        let most = usable.fold(0.0, f64::max);
        if most <= 0.0 {
            return Self::Log { from: 1.0, to: 10.0, show };
        }
        // Less than a factor of two would make noise look like a difference.
        let stretch = (2.0 / (most / least)).max(1.0).sqrt();
        // A figure beyond the last tick cannot be read off, so the axis ends where there may be one.
        Self::Log { from: least / stretch / 1.08, to: round_up(most * stretch * 1.08), show }
    }

    /// Where a figure is: 0 at the beginning, 1 at the end; not outside.
    pub(in crate::html) fn share(&self, value: f64) -> f64 {
        let share = match self {
            Self::Linear { from, to, .. } => (value - from) / (to - from),
            Self::Log { from, to, .. } => (value.max(f64::MIN_POSITIVE) / from).ln() / (to / from).ln(),
            Self::Nines { to_pct } => nines(value) / nines(*to_pct),
            Self::Blank => 0.0,
        };
        if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) }
    }

    /// Figures to stand beside an axis of this length, from its beginning on, with their text. `room` is what a text takes along it.
    pub(in crate::html) fn ticks(&self, length: f64, room: impl Fn(&str) -> f64) -> Vec<(f64, String)> {
        let fit = |ticks: &Vec<(f64, String)>| {
            ticks.windows(2).all(|pair| {
                let apart = (self.share(pair[1].0) - self.share(pair[0].0)) * length;
                apart >= f64::midpoint(room(&pair[0].1), room(&pair[1].1))
            })
        };
        let texts = |values: Vec<f64>, show: fn(f64) -> String| values.into_iter().map(|at| (at, show(at))).collect();
        match *self {
            Self::Blank => Vec::new(),
            Self::Linear { from, to, show } => {
                let finest = (2..=10).rev().map(|most| texts(linear(from, to, most), show));
                finest.into_iter().find(fit).unwrap_or_default()
            }
            Self::Log { from, to, show } => {
                let finest = log(from, to).map(|values| texts(values, show));
                finest.into_iter().find(fit).unwrap_or_default()
            }
            Self::Nines { to_pct } => {
                // From the end, for the last nines are what such an axis is for.
                let mut kept: Vec<(f64, String)> = Vec::new();
                for pct in [99.999, 99.99, 99.9, 99.0, 90.0, 50.0, 0.0].into_iter().filter(|pct| *pct <= to_pct) {
                    let next = (pct, pct.to_string());
                    if kept.last().is_none_or(|last| fit(&vec![next.clone(), last.clone()])) {
                        kept.push(next);
                    }
                }
                kept.reverse();
                kept
            }
        }
    }
}

/// The next of 1, 2, 5 and 10 times a decade.
fn round_up(value: f64) -> f64 {
    let decade = 10_f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0].map(|digit| digit * decade).into_iter().find(|end| *end >= value).unwrap_or(10.0 * decade)
}

/// How many nines: 0 for 0 %, 1 for 90 %, 2 for 99 %.
fn nines(pct: f64) -> f64 {
    -(1.0 - pct / 100.0).max(1e-9).log10()
}

fn linear(from: f64, to: f64, most: usize) -> Vec<f64> {
    let rough = (to - from) / most as f64;
    let decade = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].map(|factor| factor * decade).into_iter().find(|step| *step >= rough * 0.999);
    let Some(step) = step.filter(|step| step.is_finite() && *step > 0.0) else { return vec![from] };
    let first = (from / step).ceil() as i64;
    let last = (to / step * 1.000_001).floor() as i64;
    (first..=last).map(|at| at as f64 * step).collect()
}

/// Decades with all digits between them, with fewer, and alone; and of many decades every second or more. The finest first.
fn log(from: f64, to: f64) -> impl Iterator<Item = Vec<f64>> {
    let at = move |digits: &[f64], every: i32| -> Vec<f64> {
        let (first, last) = (from.log10().floor() as i32, to.log10().ceil() as i32);
        (first..=last)
            .filter(|decade| decade.rem_euclid(every) == 0)
            .flat_map(|decade| digits.iter().map(move |digit| digit * 10_f64.powi(decade)))
            .filter(|value| (from..=to).contains(value))
            .collect()
    };
    let all: &[f64] = &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0];
    let digits = [all, &[1.0, 2.0, 3.0, 4.0, 5.0, 7.0], &[1.0, 2.0, 3.0, 5.0], &[1.0, 2.0, 5.0], &[1.0, 3.0], &[1.0]];
    // One decade or less has digits, of which not every other may be lost.
    digits
        .into_iter()
        .map(move |digits| at(digits, 1))
        .chain([2, 3, 5, 8].into_iter().map(move |every| at(all.get(..1).unwrap_or_default(), every)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: f64) -> String {
        format!("{value}")
    }

    fn ticks(scale: &Scale, length: f64) -> Vec<f64> {
        scale.ticks(length, |_| 40.0).into_iter().map(|(value, _)| value).collect()
    }

    #[test]
    fn ticks_are_round_and_have_room() {
        assert_eq!(
            ticks(&Scale::Linear { from: 0.0, to: 100.0, show: text }, 250.0),
            [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]
        );
        assert_eq!(ticks(&Scale::Log { from: 4.0, to: 3000.0, show: text }, 200.0), [10.0, 100.0, 1000.0]);
        assert_eq!(ticks(&Scale::Log { from: 4.0, to: 60.0, show: text }, 160.0), [5.0, 10.0, 20.0, 50.0]);
        for length in [60.0, 150.0, 300.0, 600.0] {
            for (from, to) in [(1.0, 1e12), (3.2, 3.9), (0.2, 5e4), (48.0, 210.0)] {
                let scale = Scale::Log { from, to, show: text };
                let found = ticks(&scale, length);
                assert!(found.iter().all(|at| (from..=to).contains(at)), "{from} {to}: {found:?}");
                let apart = found.windows(2).map(|pair| (scale.share(pair[1]) - scale.share(pair[0])) * length);
                assert!(apart.fold(40.0, f64::min) >= 40.0, "{from} {to}: {found:?}");
            }
        }
    }

    #[test]
    fn each_nine_is_equally_long() {
        let scale = Scale::Nines { to_pct: 99.99 };
        let at = [0.0, 90.0, 99.0, 99.9, 99.99].map(|pct| scale.share(pct));
        for (i, share) in at.iter().enumerate() {
            assert!((share - i as f64 / 4.0).abs() < 1e-6, "{at:?}");
        }
        assert_eq!(scale.share(100.0), 1.0);
    }

    #[test]
    fn odd_figures_stay_on_the_axis() {
        for scale in [
            Scale::log([f64::NAN, 0.0, f64::INFINITY].into_iter(), text),
            Scale::log([5.0, 5.0].into_iter(), text),
            Scale::log([1e-9, 1e13].into_iter(), text),
            Scale::from_zero(std::iter::empty(), 1.0, text),
        ] {
            for value in [f64::NAN, -1.0, 0.0, 5.0, 1e300, f64::INFINITY] {
                assert!((0.0..=1.0).contains(&scale.share(value)), "{scale:?} {value}");
            }
            assert!(ticks(&scale, 300.0).len() <= 8, "{scale:?}");
        }
        let Scale::Log { from, to, .. } = Scale::log([50.0, 51.0].into_iter(), text) else { unreachable!() };
        assert!(to / from >= 2.0, "noise stays small: {from} to {to}");
    }
}

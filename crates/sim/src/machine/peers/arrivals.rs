//! Arrivals whose rate changes: steps, days, bursts. A rate is constant for a slice of time, and slices come again and again.

use napier_core::time::Span;
use napier_rng::Xoshiro256PlusPlus;
use rand::RngExt;

use crate::machine::peers::chance::minus_ln;

/// How a load goes over time, in percent of the full one.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Shape {
    /// Always the same.
    Steady {
        /// Above 0.
        pct: u32,
    },
    /// Low and high in turn, at all queues at once.
    Steps {
        /// The lower.
        low_pct: u32,
        /// The higher, above 0.
        high_pct: u32,
        /// How long each of the two lasts.
        each: Span,
    },
    /// Up and down once, in 24 steps like the hours of a day, at all queues at once.
    Day {
        /// At night.
        low_pct: u32,
        /// At noon, above 0.
        high_pct: u32,
        /// Of the whole day.
        length: Span,
    },
    /// Each queue by itself is low for a while and high for a while, of random lengths.
    Bursts {
        /// Between bursts.
        low_pct: u32,
        /// In a burst, above 0.
        high_pct: u32,
        /// Mean length of a burst.
        high_for: Span,
        /// Mean time between two.
        low_for: Span,
    },
}

/// Steps of a day.
const HOURS: u64 = 24;

/// Bursts of a queue that are drawn; then they come again.
const BURSTS: usize = 64;

/// The rate of one queue.
#[derive(Clone, Debug)]
pub(crate) struct Rates {
    /// End of each slice since the beginning, in ns, and its rate in percent. Some rate is above 0.
    slices: Vec<(u64, u64)>,
}

impl Rates {
    /// A queue's rate; only bursts draw.
    pub(crate) fn of(shape: Shape, rng: &mut Xoshiro256PlusPlus) -> Self {
        let mut rates = Self { slices: Vec::new() };
        match shape {
            Shape::Steady { pct } => rates.add(1_000_000, pct),
            Shape::Steps { low_pct, high_pct, each } => {
                rates.add(each.ns, low_pct);
                rates.add(each.ns, high_pct);
            }
            Shape::Day { low_pct, high_pct, length } => {
                for hour in 0..HOURS {
                    rates.add(length.ns / HOURS, of_hour(hour, low_pct, high_pct));
                }
            }
            Shape::Bursts { low_pct, high_pct, high_for, low_for } => {
                for _ in 0..BURSTS {
                    rates.add(drawn(low_for, rng), low_pct);
                    rates.add(drawn(high_for, rng), high_pct);
                }
            }
        }
        rates
    }

    fn add(&mut self, ns: u64, pct: u32) {
        self.slices.push((self.cycle_ns() + ns.max(1), pct.into()));
    }

    fn cycle_ns(&self) -> u64 {
        self.slices.last().map_or(0, |(end, _)| *end)
    }

    /// The moment, in ns since the beginning, at which as much has come since `from_ns` as comes in `full_ns` at the full rate.
    pub(crate) fn after(&self, from_ns: u64, full_ns: u64) -> u64 {
        let cycle = self.cycle_ns();
        let mut left = full_ns.saturating_mul(100);
        let in_cycle: u64 = self.lengths().map(|(ns, pct)| ns * pct).sum();
        assert!(in_cycle > 0, "some rate is above 0");
        let mut now = from_ns + left / in_cycle * cycle;
        left %= in_cycle;
        loop {
            let at = now % cycle;
            let (end, pct) = self.slices[self.slices.partition_point(|(end, _)| *end <= at)];
            let room = (end - at) * pct;
            if left <= room && pct > 0 {
                return now + left.div_ceil(pct);
            }
            left -= room;
            now += end - at;
        }
    }

    /// How much comes between two moments, in ns at the full rate.
    pub(crate) fn between(&self, from_ns: u64, to_ns: u64) -> f64 {
        let until = |ns: u64| {
            let (cycle, mut left) = (self.cycle_ns(), ns % self.cycle_ns());
            let in_cycle: u64 = self.lengths().map(|(ns, pct)| ns * pct).sum();
            let mut sum = (ns / cycle * in_cycle) as f64;
            for (ns, pct) in self.lengths() {
                let part = ns.min(left);
                sum += (part * pct) as f64;
                left -= part;
            }
            sum / 100.0
        };
        until(to_ns) - until(from_ns)
    }

    fn lengths(&self) -> impl Iterator<Item = (u64, u64)> {
        let begins = std::iter::once(0).chain(self.slices.iter().map(|(end, _)| *end));
        self.slices.iter().zip(begins).map(|((end, pct), begin)| (end - begin, *pct))
    }
}

/// The rate of an hour: least at its first and last, most at noon, and smooth in between (3t^2 - 2t^3).
fn of_hour(hour: u64, low_pct: u32, high_pct: u32) -> u32 {
    let half = HOURS / 2;
    let t = if hour < half { hour } else { HOURS - 1 - hour };
    let (part, whole) = (t * t * (3 * (half - 1) - 2 * t), (half - 1) * (half - 1) * (half - 1));
    low_pct + (u64::from(high_pct.saturating_sub(low_pct)) * part / whole) as u32
}

/// A length with this mean, exponential.
fn drawn(mean: Span, rng: &mut Xoshiro256PlusPlus) -> u64 {
    let even: f64 = rng.random_range(f64::EPSILON..1.0);
    (minus_ln(even) * mean.ns as f64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(shape: Shape) -> Rates {
        Rates::of(shape, &mut napier_rng::stream(1, "rates"))
    }

    #[test]
    fn time_goes_by_the_rate() {
        let steps = rates(Shape::Steps { low_pct: 10, high_pct: 50, each: Span::from_ns(1000) });
        let table = [
            ((0, 0), 0),
            ((0, 50), 500),        // a tenth of the full rate
            ((0, 100), 1000),      // all of the first slice
            ((0, 150), 1100),      // and some of the second
            ((1500, 250), 2000),   // to the end of it
            ((1500, 300), 2500),   // into the next cycle
            ((0, 6000), 20_000),   // ten cycles
            ((300, 5970), 20_000), // from the middle of a slice
        ];
        for ((from, full), want) in table {
            assert_eq!(steps.after(from, full), want, "{full} from {from}");
        }
        for ((from, full), to) in table {
            let came = steps.between(from, to);
            assert!((came - full as f64).abs() < 1e-6, "{came} from {from} to {to}");
        }
        let pauses = rates(Shape::Steps { low_pct: 0, high_pct: 100, each: Span::from_ns(1000) });
        assert_eq!(pauses.after(0, 1), 1001, "nothing comes in a pause");
        assert_eq!(pauses.after(0, 1001), 3001);
    }

    #[test]
    fn a_day_has_a_night_and_a_noon() {
        let hours: Vec<u32> = (0..HOURS).map(|hour| of_hour(hour, 5, 70)).collect();
        assert_eq!((hours[0], hours[11], hours[12], hours[23]), (5, 70, 70, 5));
        assert!(hours[..12].is_sorted() && hours[12..].is_sorted_by(|a, b| a >= b), "{hours:?}");
        let day = rates(Shape::Day { low_pct: 5, high_pct: 70, length: Span::from_ms(24) });
        assert_eq!((day.slices.len(), day.cycle_ns()), (24, 24_000_000));
    }

    #[test]
    fn bursts_have_the_mean_that_was_asked_for() {
        let shape =
            Shape::Bursts { low_pct: 1, high_pct: 80, high_for: Span::from_us(500), low_for: Span::from_us(2000) };
        let mean = |pct: u64| {
            let of: Vec<u64> = rates(shape).lengths().filter(|(_, of)| *of == pct).map(|(ns, _)| ns).collect();
            of.iter().sum::<u64>() as f64 / of.len() as f64
        };
        assert!((350e3..650e3).contains(&mean(80)) && (1.4e6..2.6e6).contains(&mean(1)), "{} {}", mean(80), mean(1));
    }
}

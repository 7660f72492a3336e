//! Values by powers of two, with bars as bpftrace prints them.

use std::fmt;
use std::ops::{Deref, DerefMut};

use napier_core::histogram::Histogram;
use serde::ser::{Serialize, SerializeStruct as _, Serializer};

/// A histogram as reports show it.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct PowerHistogram(pub Histogram);

impl Deref for PowerHistogram {
    type Target = Histogram;

    fn deref(&self) -> &Histogram {
        &self.0
    }
}

impl DerefMut for PowerHistogram {
    fn deref_mut(&mut self) -> &mut Histogram {
        &mut self.0
    }
}

impl Serialize for PowerHistogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("PowerHistogram", 1)?;
        object.serialize_field("counts", &self.powers())?;
        object.end()
    }
}

/// A line for each power of two between the smallest and the largest value.
impl fmt::Display for PowerHistogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const WIDTH: u64 = 52;
        let powers = self.powers();
        let most = powers.iter().copied().max().unwrap_or(0).max(1);
        let first = powers.iter().position(|count| *count > 0).unwrap_or(0);
        for (power, count) in powers.iter().enumerate().skip(first) {
            let bar = "@".repeat((count * WIDTH / most) as usize);
            let range = range(power as u32);
            writeln!(f, "  {range:<16} {count:>10} |{bar:<52}|")?;
        }
        Ok(())
    }
}

/// The values from a power of two up to the next, as bpftrace writes them.
#[must_use]
pub fn range(power: u32) -> String {
    let bound = |power: u32| match power {
        0..10 => (1_u64 << power).to_string(),
        10..20 => format!("{}K", 1_u64 << (power - 10)),
        20..30 => format!("{}M", 1_u64 << (power - 20)),
        _ => format!("{}G", 1_u64 << (power - 30)),
    };
    format!("[{}, {})", bound(power), bound(power + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl IntoIterator<Item = u64>) -> PowerHistogram {
        let mut histogram = PowerHistogram::default();
        values.into_iter().for_each(|value| histogram.add(value));
        histogram
    }

    #[test]
    fn prints_bars_as_bpftrace_does() {
        let text = of((0..4).map(|_| 700).chain([2048, 1500, 1500])).to_string();
        let bar = |length: usize| format!("{:<52}", "@".repeat(length));
        let line = |range: &str, count: u32, length| format!("  {range:<16} {count:>10} |{}|\n", bar(length));
        assert_eq!(text, line("[512, 1K)", 4, 52) + &line("[1K, 2K)", 2, 26) + &line("[2K, 4K)", 1, 13));
    }

    #[test]
    fn json_has_the_powers() {
        assert_eq!(serde_json::to_string(&of([1, 2, 3])).expect("it is plain"), r#"{"counts":[1,2]}"#);
    }
}

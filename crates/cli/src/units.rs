//! Numbers with units, as every option takes them: a time with `ns`, `us`, `ms`, `s` or `min`, a share with `%`. A bare number means the unit
//! that the option's help names, and an error always has an example.

use std::ops::RangeInclusive;

/// What a bare number of a time means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bare {
    Nanoseconds,
    Microseconds,
    Milliseconds,
    Seconds,
}

/// Units of a time by name, in nanoseconds. What another begins with stands behind it.
const UNITS: [(&str, f64); 7] =
    [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("μs", 1e3), ("ms", 1e6), ("min", 60e9), ("s", 1e9)];

impl Bare {
    fn ns(self) -> f64 {
        match self {
            Self::Nanoseconds => 1.0,
            Self::Microseconds => 1e3,
            Self::Milliseconds => 1e6,
            Self::Seconds => 1e9,
        }
    }

    /// What is given as an example: with a unit, and without.
    fn examples(self) -> &'static str {
        match self {
            Self::Nanoseconds => "20us or 20000 (ns)",
            Self::Microseconds => "200us, 1.5ms or 200 (us)",
            Self::Milliseconds => "0.2s or 200 (ms)",
            Self::Seconds => "500ms, 2s or 2 (s)",
        }
    }
}

/// A time in the unit that a bare number has. It may be negative: what an option takes is the option's own matter.
pub(crate) fn time(text: &str, bare: Bare) -> Result<f64, String> {
    let wrong = || format!("`{text}` is no time; give one such as {}", bare.examples());
    let trimmed = text.trim();
    let unit = UNITS.iter().find_map(|(name, ns)| Some((trimmed.strip_suffix(name)?, *ns)));
    let (digits, unit_ns) = unit.unwrap_or((trimmed, bare.ns()));
    let value = number(digits.trim_end()).ok_or_else(wrong)?;
    // Where the unit is the bare one nothing is computed, so that what was given is what is shown.
    Ok(if unit_ns.to_bits() == bare.ns().to_bits() { value } else { value * unit_ns / bare.ns() })
}

/// A time in seconds.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    time(text, Bare::Seconds)
}

/// A time in microseconds.
pub(crate) fn microseconds(text: &str) -> Result<f64, String> {
    time(text, Bare::Microseconds)
}

/// A time within bounds, in the unit that a bare number has, which the bounds have too.
pub(crate) fn time_within(text: &str, bare: Bare, bounds: RangeInclusive<f64>) -> Result<f64, String> {
    let value = time(text, bare)?;
    if bounds.contains(&value) {
        return Ok(value);
    }
    let (least, most) = (shown(*bounds.start(), bare), shown(*bounds.end(), bare));
    Err(format!("`{text}` is not within {least} to {most}; give a time such as {}", bare.examples()))
}

/// The same as a whole number of that unit.
pub(crate) fn whole_within(text: &str, bare: Bare, bounds: RangeInclusive<u64>) -> Result<u64, String> {
    #[expect(clippy::cast_precision_loss, reason = "bounds of options are small")]
    let within = *bounds.start() as f64..=*bounds.end() as f64;
    let value = time_within(text, bare, within)?;
    if value.fract() != 0.0 {
        return Err(format!("`{text}` is no whole number of {}; give one such as {}", name_of(bare), bare.examples()));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole, and within the bounds")]
    let value = value as u64;
    Ok(value)
}

/// A share in percent: `80`, `80%` or `80 %`.
pub(crate) fn percent(text: &str) -> Result<f64, String> {
    let trimmed = text.trim();
    let digits = trimmed.strip_suffix('%').map_or(trimmed, str::trim_end);
    number(digits).ok_or_else(|| format!("`{text}` is no share; give percent such as 80% or 80"))
}

/// The same as a whole number from 0 to 100.
pub(crate) fn whole_percent(text: &str) -> Result<u32, String> {
    let value = percent(text)?;
    if !(0.0..=100.0).contains(&value) || value.fract() != 0.0 {
        return Err(format!("`{text}` is not within 0% to 100%; give a whole number such as 95% or 95"));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 100")]
    let value = value as u32;
    Ok(value)
}

/// Digits with at most one point, and a sign: `1e3`, `inf` and `nan` are no numbers of an option.
fn number(digits: &str) -> Option<f64> {
    let plain = digits.strip_prefix('-').unwrap_or(digits);
    let is_plain = plain.bytes().any(|byte| byte.is_ascii_digit())
        && plain.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if is_plain { digits.parse().ok() } else { None }
}

fn name_of(bare: Bare) -> &'static str {
    match bare {
        Bare::Nanoseconds => "ns",
        Bare::Microseconds => "us",
        Bare::Milliseconds => "ms",
        Bare::Seconds => "s",
    }
}

fn shown(value: f64, bare: Bare) -> String {
    format!("{value}{}", name_of(bare))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_the_unit_that_is_given_or_the_one_that_is_documented() {
        for (text, us) in [
            ("200", 200.0),
            ("200us", 200.0),
            ("200µs", 200.0),
            ("200 us", 200.0),
            ("1.5ms", 1500.0),
            ("0.002s", 2000.0),
            ("500ns", 0.5),
            ("2min", 120e6),
            ("-1", -1.0),
            (" 7us ", 7.0),
        ] {
            assert_eq!(microseconds(text), Ok(us), "{text}");
        }
        assert_eq!((seconds("1"), seconds("1s"), seconds("250ms")), (Ok(1.0), Ok(1.0), Ok(0.25)));
        assert_eq!(whole_within("20us", Bare::Nanoseconds, 0..=u64::from(u32::MAX)), Ok(20_000));
    }

    #[test]
    fn what_is_no_time_is_refused_with_an_example() {
        for text in ["", "us", "1x", "1e3", "inf", "nan", "-", ".", "1.2.3", "1 2", "20 usec", "s1"] {
            let error = microseconds(text).unwrap_err();
            assert_eq!(error, format!("`{text}` is no time; give one such as 200us, 1.5ms or 200 (us)"));
        }
        assert_eq!(seconds("fast").unwrap_err(), "`fast` is no time; give one such as 500ms, 2s or 2 (s)");
        let bounds = || 0.05..=3600.0;
        assert_eq!(time_within("50ms", Bare::Seconds, bounds()), Ok(0.05));
        let error = time_within("2min", Bare::Seconds, 0.1..=60.0).unwrap_err();
        assert_eq!(error, "`2min` is not within 0.1s to 60s; give a time such as 500ms, 2s or 2 (s)");
        assert!(whole_within("1.5", Bare::Microseconds, 0..=10).unwrap_err().contains("no whole number of us"));
    }

    #[test]
    fn a_share_may_have_its_sign() {
        assert_eq!(
            (percent("80"), percent("80%"), percent("80 %"), percent("12.5%")),
            (Ok(80.0), Ok(80.0), Ok(80.0), Ok(12.5))
        );
        assert_eq!((whole_percent("95%"), whole_percent("0")), (Ok(95), Ok(0)));
        for text in ["%", "", "80%%", "many"] {
            assert!(percent(text).unwrap_err().contains("such as 80% or 80"), "{text}");
        }
        assert!(whole_percent("101%").is_err() && whole_percent("1.5").is_err() && whole_percent("-1").is_err());
    }
}

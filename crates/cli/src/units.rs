//! Numbers with units, as every option takes them: a time with `ns`, `us`, `ms`, `s`, `min` or `h`, a rate with `k` or `m`, a share with `%`.
//! A bare number means the unit that the option's help names, and an error always has an example. The options themselves have their parsers
//! from here: `names_tests` walks the command line for one that has not.

use std::ops::RangeInclusive;
use std::time::Duration;

use napier_kv::service::{Service, ServiceError};
use napier_lab::applied::Coalesce;
use napier_lab::loads::Load;
use napier_trial::units::number;
pub(crate) use napier_trial::units::{Bare, time};

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

/// The length of a run.
pub(crate) fn run_length(text: &str) -> Result<Duration, String> {
    time_within(text, Bare::Seconds, 0.05..=3600.0).map(Duration::from_secs_f64)
}

/// A time before something, which may be none.
pub(crate) fn warm_up(text: &str) -> Result<Duration, String> {
    time_within(text, Bare::Seconds, 0.0..=3600.0).map(Duration::from_secs_f64)
}

/// A time in us that is more than none.
pub(crate) fn microseconds_above_0(text: &str) -> Result<f64, String> {
    above_0(text, microseconds(text)?, "a time such as 200us or 1.5ms")
}

/// A share in percent that is more than none.
pub(crate) fn percent_above_0(text: &str) -> Result<f64, String> {
    above_0(text, percent(text)?, "a share such as 80%")
}

fn above_0(text: &str, value: f64, example: &str) -> Result<f64, String> {
    if value > 0.0 { Ok(value) } else { Err(format!("`{text}` is not above 0; give {example}")) }
}

/// What a request takes: a time, of which a bare number is in us, or a distribution.
pub(crate) fn service(text: &str) -> Result<Service, ServiceError> {
    let (kind, time) = text.split_at(text.find(':').map_or(0, |at| at + 1));
    if kind != "hist:" && number(time).is_some() { format!("{kind}{time}us").parse() } else { text.parse() }
}

/// Interrupt coalescing: a rule by name, or a time, of which a bare number is in us, and frames.
pub(crate) fn coalesce(text: &str) -> Result<Coalesce, String> {
    let (time, rest) = text.split_at(text.find(',').unwrap_or(text.len()));
    let has_unit = time.ends_with('s') && time.starts_with(|first: char| first.is_ascii_digit());
    let plain = match has_unit {
        true => format!("{}{rest}", whole_within(time, Bare::Microseconds, 0..=u64::from(u32::MAX))?),
        false => text.to_owned(),
    };
    plain.parse().map_err(|error| format!("{error}"))
}

/// Requests per second, or as many as there can be.
pub(crate) fn load(text: &str) -> Result<Load, String> {
    Load::parse(text).map_err(|error| error.to_string())
}

/// Requests per second, and no closed loop.
pub(crate) fn rate(text: &str) -> Result<u64, String> {
    match load(text)? {
        Load::Rps(rps) => Ok(rps),
        Load::Max => Err("a rate is expected, such as 120k: what is asked in a closed loop is no workload".to_owned()),
    }
}

/// A part of all, from 0 to 1: `0.97` or `97%`.
pub(crate) fn part(text: &str) -> Result<f64, String> {
    let trimmed = text.trim();
    let value = if trimmed.ends_with('%') { percent(trimmed).ok().map(|pct| pct / 100.0) } else { number(trimmed) };
    let wrong = || format!("`{text}` is no part from 0 to 1; give one such as 97% or 0.97");
    value.filter(|value| (0.0..=1.0).contains(value)).ok_or_else(wrong)
}

/// A whole number of seconds.
pub(crate) fn whole_seconds(text: &str) -> Result<u64, String> {
    whole_within(text, Bare::Seconds, 0..=1 << 40)
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

fn name_of(bare: Bare) -> &'static str {
    match bare {
        Bare::Nanoseconds => "ns",
        Bare::Microseconds => "us",
        Bare::Milliseconds => "ms",
        Bare::Seconds => "s",
        Bare::Minutes => "min",
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
            ("2m", 120e6),
            ("1h", 3600e6),
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
    fn what_options_make_of_it() {
        assert_eq!((run_length("50ms"), run_length("2")), (Ok(Duration::from_millis(50)), Ok(Duration::from_secs(2))));
        assert_eq!((warm_up("0").unwrap(), time("90s", Bare::Minutes)), (Duration::ZERO, Ok(1.5)));
        assert!(run_length("1ms").unwrap_err().contains("0.05s to 3600s"));
        assert_eq!((microseconds_above_0("0.2ms"), percent_above_0("80%")), (Ok(200.0), Ok(80.0)));
        assert!(microseconds_above_0("0").is_err() && percent_above_0("-1").unwrap_err().contains("above 0"));
        assert_eq!((rate("50K/s"), rate("1.5m"), rate("800")), (Ok(50_000), Ok(1_500_000), Ok(800)));
        assert!(rate("max").is_err() && load("max") == Ok(Load::Max));
        assert_eq!((part("97%"), part("0.97"), part("1")), (Ok(0.97), Ok(0.97), Ok(1.0)));
        assert!(part("97").unwrap_err().contains("97% or 0.97"));
    }

    #[test]
    fn what_a_request_takes_is_in_us_if_it_has_no_unit() {
        for (text, shown, us) in
            [("4", "4us", 4.0), ("exp:6", "exp:6us", 6.0), ("6us", "6us", 6.0), ("0.5ms", "0.5ms", 500.0)]
        {
            let service = service(text).unwrap();
            assert_eq!((service.to_string().as_str(), service.mean_us()), (shown, us), "{text}");
        }
        assert!(service("fast").is_err() && service("hist:4").unwrap_err().to_string().contains("hist"));
        let of = |text: &str| coalesce(text).unwrap().to_string();
        assert_eq!((of("20us"), of("1ms,8"), of("off")), (of("20"), of("1000,8"), of("off")));
        assert!(coalesce("fast").is_err() && coalesce("20ns").unwrap_err().contains("whole number of us"));
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

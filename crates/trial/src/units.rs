//! Numbers with units, as options take them and as programs print them: a time with `ns`, `us`, `ms`, `s`, `min` or `h`, a share with `%`.

/// What a bare number of a time means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bare {
    /// ns.
    Nanoseconds,
    /// us.
    Microseconds,
    /// ms.
    Milliseconds,
    /// s.
    Seconds,
    /// min.
    Minutes,
}

/// Units of a time by name, in nanoseconds. What another begins with stands behind it.
const UNITS: [(&str, f64); 9] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("μs", 1e3),
    ("ms", 1e6),
    ("min", 60e9),
    ("m", 60e9),
    ("h", 3600e9),
    ("s", 1e9),
];

impl Bare {
    fn ns(self) -> f64 {
        match self {
            Self::Nanoseconds => 1.0,
            Self::Microseconds => 1e3,
            Self::Milliseconds => 1e6,
            Self::Seconds => 1e9,
            Self::Minutes => 60e9,
        }
    }

    /// What is given as an example: with a unit, and without.
    #[must_use]
    pub const fn examples(self) -> &'static str {
        match self {
            Self::Nanoseconds => "20us or 20000 (ns)",
            Self::Microseconds => "200us, 1.5ms or 200 (us)",
            Self::Milliseconds => "0.2s or 200 (ms)",
            Self::Seconds => "500ms, 2s or 2 (s)",
            Self::Minutes => "90s, 2min or 2 (min)",
        }
    }
}

/// A time in the unit that a bare number has. It may be negative: what an option takes is the option's own matter.
///
/// # Errors
/// It is no time; the text has an example.
pub fn time(text: &str, bare: Bare) -> Result<f64, String> {
    let wrong = || format!("`{text}` is no time; give one such as {}", bare.examples());
    let trimmed = text.trim();
    let unit = UNITS.iter().find_map(|(name, ns)| Some((trimmed.strip_suffix(name)?, *ns)));
    let (digits, unit_ns) = unit.unwrap_or((trimmed, bare.ns()));
    let value = number(digits.trim_end()).ok_or_else(wrong)?;
    // Where the unit is the bare one nothing is computed, so that what was given is what is shown.
    Ok(if unit_ns.to_bits() == bare.ns().to_bits() { value } else { value * unit_ns / bare.ns() })
}

/// Digits with at most one point, and a sign: `1e3`, `inf` and `nan` are no numbers of an option.
#[must_use]
pub fn number(digits: &str) -> Option<f64> {
    let plain = digits.strip_prefix('-').unwrap_or(digits);
    let is_plain = plain.bytes().any(|byte| byte.is_ascii_digit())
        && plain.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if is_plain { digits.parse().ok() } else { None }
}

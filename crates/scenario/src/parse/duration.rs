//! Times as files spell them: `100ns`, `20us`, `1.5ms`, `2s`.

/// Units, largest first, and their length in ns.
const UNITS: [(&str, u64); 4] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];

/// Reads a time; `None` unless it is a decimal number of at most u64 ns with a unit, and a whole number of ns.
pub(super) fn parse(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(digits);
    let (_, unit_ns) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let all_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !all_digits(whole) || !all_digits(fraction) {
        return None;
    }
    let mut ns = whole.parse::<u64>().ok()?.checked_mul(*unit_ns)?;
    let mut place = *unit_ns;
    for digit in fraction.bytes().map(|b| u64::from(b - b'0')) {
        if digit != 0 && !place.is_multiple_of(10) {
            return None;
        }
        place /= 10;
        ns = ns.checked_add(digit * place)?;
    }
    Some(ns)
}

/// Writes a time so that [`parse`] reads the same: a whole number of the largest unit that allows it.
pub(crate) fn format(ns: u64) -> String {
    let (name, unit_ns) = if ns == 0 {
        ("ms", 1)
    } else {
        *UNITS.iter().find(|(_, unit_ns)| ns.is_multiple_of(*unit_ns)).expect("every number is a number of ns")
    };
    format!("{}{name}", ns / unit_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_a_time() {
        for (text, ns) in [
            ("0ms", Some(0)),
            ("100ns", Some(100)),
            ("20us", Some(20_000)),
            ("1.5ms", Some(1_500_000)),
            ("0.000000001s", Some(1)),
            ("1.50us", Some(1_500)),
            ("1.0ns", Some(1)),
            ("18446744073709551615ns", Some(u64::MAX)),
            ("18446744073709551616ns", None),
            ("18446744074s", None),
            ("18446744073.9999999999s", None),
            ("1.5ns", None),
            ("0.0000000001s", None),
            ("", None),
            ("ms", None),
            (".5ms", None),
            ("5.ms", None),
            ("-1ms", None),
            ("1 ms", None),
            ("1", None),
            ("1m", None),
            ("1e3ms", None),
            ("1_000us", None),
        ] {
            assert_eq!(parse(text), ns, "{text}");
        }
    }

    #[test]
    fn written_is_read() {
        for ns in [0, 1, 999, 1_000, 1_500_000, 2_000_000, 60_000_000_000, u64::MAX] {
            assert_eq!(parse(&format(ns)), Some(ns), "{}", format(ns));
        }
        assert_eq!(format(1_500_000), "1500us");
    }
}

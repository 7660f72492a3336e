//! Words and numbers of the text protocols.

use crate::store::NEVER_MS;

/// Relative expiry times reach so far; what is larger is a time since 1970. Source: memcached `REALTIME_MAXDELTA`.
const RELATIVE_S_MAX: i64 = 60 * 60 * 24 * 30;

/// Appends a number.
pub(super) fn put_decimal(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return out.extend_from_slice(&digits[first..]);
        }
    }
}

/// A number of 64 bits as C's `strtoull` reads it, without a minus.
pub(super) fn unsigned(word: &[u8]) -> Option<u64> {
    let digits = word.strip_prefix(b"+").unwrap_or(word);
    if digits.is_empty() || digits.len() > 20 {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, &byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// A number of 64 bits with a sign.
pub(super) fn signed(word: &[u8]) -> Option<i64> {
    match word.strip_prefix(b"-") {
        // The least number has no positive counterpart; nobody needs it.
        Some(digits) if !digits.starts_with(b"+") => Some(-i64::try_from(unsigned(digits)?).ok()?),
        Some(_) => None,
        None => i64::try_from(unsigned(word)?).ok(),
    }
}

/// The client's word that goes with a value.
pub(super) fn flags(word: &[u8]) -> Option<u32> {
    unsigned(word).and_then(|flags| u32::try_from(flags).ok())
}

/// When a record with memcached's `exptime` is forgotten, in ms since 1970: 0 is never, negative at once, up to thirty
/// days from now, beyond that a time since 1970.
pub(super) fn expires_ms(exptime_s: i64, now_ms: u64) -> u64 {
    match exptime_s {
        0 => NEVER_MS,
        ..0 => 0,
        1..=RELATIVE_S_MAX => now_ms.saturating_add(exptime_s.unsigned_abs() * 1000),
        _ => exptime_s.unsigned_abs().saturating_mul(1000).min(NEVER_MS - 1),
    }
}

/// Seconds until a record is forgotten, rounded up; -1: never.
pub(super) fn ttl_s(expires_ms: u64, now_ms: u64) -> i64 {
    if expires_ms == NEVER_MS {
        return -1;
    }
    i64::try_from(expires_ms.saturating_sub(now_ms).div_ceil(1000)).unwrap_or(i64::MAX)
}

/// Up to `N` words of a line; several spaces count as one. More words are counted and not kept.
pub(super) struct Words<'a, const N: usize> {
    words: [&'a [u8]; N],
    count: usize,
}

impl<'a, const N: usize> Words<'a, N> {
    pub(super) fn of(line: &'a [u8]) -> Self {
        let mut words = Self { words: [&[]; N], count: 0 };
        for word in line.split(|&byte| byte == b' ').filter(|word| !word.is_empty()) {
            if let Some(place) = words.words.get_mut(words.count) {
                *place = word;
            }
            words.count += 1;
        }
        words
    }

    /// Words there are, kept or not.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The words that were kept.
    pub(super) fn kept(&self) -> &[&'a [u8]] {
        &self.words[..self.count.min(N)]
    }

    pub(super) fn last(&self) -> &'a [u8] {
        self.kept().last().copied().unwrap_or_default()
    }
}

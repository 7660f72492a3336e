//! Words and numbers of the text protocols.

use crate::decimal;
use crate::store::NEVER_MS;

/// Relative expiry times reach so far; what is larger is a time since 1970. Source: memcached `REALTIME_MAXDELTA`.
const RELATIVE_S_MAX: i64 = 60 * 60 * 24 * 30;

/// A number of 64 bits as C's `strtoull` reads it, without a minus.
pub(super) fn unsigned(word: &[u8]) -> Option<u64> {
    decimal::parse(word.strip_prefix(b"+").unwrap_or(word))
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

/// Where the first byte of this kind is.
///
/// Eight bytes at a step: lines are too short for more, and a byte at a step is most of what a short request costs.
#[inline]
pub(super) fn find(bytes: &[u8], wanted: u8) -> Option<usize> {
    find_either(bytes, wanted, wanted)
}

/// Where the first byte of either kind is.
#[inline]
pub(super) fn find_either(bytes: &[u8], wanted: u8, or: u8) -> Option<usize> {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    // The lowest bit that is set is of the first byte that is 0; what is set above it may be of another one.
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word & (ONES << 7);
    let (words, rest) = bytes.as_chunks();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let found = zeros(word ^ (ONES * u64::from(wanted))) | zeros(word ^ (ONES * u64::from(or)));
        if found != 0 {
            return Some(8 * index + found.trailing_zeros() as usize / 8);
        }
    }
    rest.iter().position(|byte| *byte == wanted || *byte == or).map(|at| 8 * words.len() + at)
}

/// The first word of a line, which is empty if there is none, and what is behind it.
#[inline]
pub(super) fn split_word(line: &[u8]) -> (&[u8], &[u8]) {
    let spaces = line.iter().take_while(|&&byte| byte == b' ').count();
    let line = &line[spaces..];
    line.split_at(find(line, b' ').unwrap_or(line.len()))
}

/// Up to `N` words of a line; several spaces count as one. More words are counted and not kept.
pub(super) struct Words<'a, const N: usize> {
    words: [&'a [u8]; N],
    count: usize,
}

impl<'a, const N: usize> Words<'a, N> {
    pub(super) fn of(line: &'a [u8]) -> Self {
        let mut words = Self { words: [&[]; N], count: 0 };
        let mut rest = line;
        loop {
            let (word, behind) = split_word(rest);
            if word.is_empty() {
                return words;
            }
            if let Some(place) = words.words.get_mut(words.count) {
                *place = word;
            }
            words.count += 1;
            rest = behind;
        }
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

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_byte_is_found_where_it_is_first(
            bytes in vec(prop_oneof![3 => any::<u8>(), 1 => b'\n'..=b' ', 1 => 0x80_u8..=0x82], 0..40),
            (wanted, or) in (b'\n'..=b' ', 0x7f_u8..=0x81),
        ) {
            prop_assert_eq!(find(&bytes, wanted), bytes.iter().position(|&byte| byte == wanted));
            let either = bytes.iter().position(|&byte| byte == wanted || byte == or);
            prop_assert_eq!(find_either(&bytes, wanted, or), either);
        }

        #[test]
        fn words_are_what_is_between_spaces(line in vec(prop_oneof![Just(b' '), any::<u8>()], 0..60)) {
            let expected: Vec<&[u8]> = line.split(|&byte| byte == b' ').filter(|word| !word.is_empty()).collect();
            let words = Words::<8>::of(&line);
            prop_assert_eq!(words.count(), expected.len());
            prop_assert_eq!(words.kept(), &expected[..expected.len().min(8)]);
        }
    }
}

//! Decimal numbers in the text protocols.

/// The numbers below a hundred, of two digits each.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[b'0'; 2]; 100];
    let mut number = 0;
    while number < pairs.len() {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

/// Appends a number.
pub(crate) fn put(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut first = digits.len();
    loop {
        first -= 2;
        digits[first..first + 2].copy_from_slice(&PAIRS[(number % 100) as usize]);
        if number < 100 {
            break;
        }
        number /= 100;
    }
    first += usize::from(number < 10);
    out.extend_from_slice(&digits[first..]);
}

/// Reads digits alone, at most 20 of them; `None` if these are others, or more than 64 bits hold.
pub(crate) fn parse(digits: &[u8]) -> Option<u64> {
    let digit = |byte: u8| Some(u64::from(byte.wrapping_sub(b'0'))).filter(|digit| *digit < 10);
    // So many nines are less than what 64 bits hold.
    let (front, last) = digits.split_at(digits.len().min(19));
    let number = front.iter().try_fold(0, |number, &byte| Some(10 * number + digit(byte)?))?;
    match *last {
        [] => Some(number).filter(|_| !front.is_empty()),
        [last] => u64::checked_mul(number, 10)?.checked_add(digit(last)?),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_no_number_of_64_bits_is_refused() {
        for bad in ["", "x", "1x", "+1", "-1", " 1", "18446744073709551616", "000000000000000000001"] {
            assert_eq!(parse(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(parse(b"18446744073709551615"), Some(u64::MAX));
    }

    proptest! {
        #[test]
        fn a_number_is_read_as_it_was_written(number: u64, shift in 0_u32..64) {
            let mut out = Vec::new();
            put(&mut out, number >> shift);
            prop_assert_eq!(String::from_utf8(out.clone()), Ok((number >> shift).to_string()));
            prop_assert_eq!(parse(&out), Some(number >> shift));
        }
    }
}

//! A sum over bytes: of a line of a journal, and of a name that is too long.

/// FNV-1a: finds a line that was not written whole. Source: draft-eastlake-fnv, 64 bits.
pub(super) fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_cut_has_another_sum() {
        assert_ne!(sum(b"{\"key\":1}"), sum(b"{\"key\":1"));
        assert_eq!(sum(b""), 0xcbf2_9ce4_8422_2325);
    }
}

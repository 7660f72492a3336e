//! The Internet checksum (RFC 1071), summed in machine words.
//!
//! The ones' complement sum does not depend on byte order (RFC 1071 section 2.B): words are added as they lie in memory
//! and the result is stored as it is.

/// A running ones' complement sum of 16-bit words in memory order. Room for 2^32 words, so no carry is ever lost.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum(u64);

impl Sum {
    pub(super) const ZERO: Self = Self(0);

    /// Adds bytes; a last odd byte counts as if a zero byte followed, so only the last piece may be odd.
    #[inline]
    pub(super) fn bytes(self, data: &[u8]) -> Self {
        let mut lanes = [0u64; 4];
        let mut blocks = data.chunks_exact(32);
        for block in &mut blocks {
            for (lane, word) in lanes.iter_mut().zip(block.as_chunks::<8>().0) {
                *lane += halves(u64::from_ne_bytes(*word));
            }
        }
        let mut sum = self.0 + lanes.iter().sum::<u64>();
        let (words, tail) = blocks.remainder().as_chunks::<8>();
        for word in words {
            sum += halves(u64::from_ne_bytes(*word));
        }
        let mut last = [0u8; 8];
        last[..tail.len()].copy_from_slice(tail);
        Self(sum + halves(u64::from_ne_bytes(last)))
    }

    /// Adds one 16-bit number that stands in network order on the wire.
    #[inline]
    pub(super) fn number(self, value: u16) -> Self {
        Self(self.0 + u64::from(value.to_be()))
    }

    /// The sum as 16 bits in memory order; a message that contains its own checksum gives 0xffff.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the carries were added back before each cut")]
    pub(super) fn fold(self) -> u16 {
        let sum = halves(self.0);
        let sum = (sum & 0xffff_ffff) + (sum >> 32);
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        sum as u16
    }

    /// The checksum field, as it lies on the wire.
    #[inline]
    pub(super) fn field(self) -> [u8; 2] {
        (!self.fold()).to_ne_bytes()
    }

    /// The checksum field of UDP, where 0 means "none" and is sent as 0xffff (RFC 768).
    #[inline]
    pub(super) fn udp_field(self) -> [u8; 2] {
        match !self.fold() {
            0 => [0xff, 0xff],
            sum => sum.to_ne_bytes(),
        }
    }

    /// Whether a message that contains its own checksum is whole.
    #[inline]
    pub(super) fn is_valid(self) -> bool {
        self.fold() == 0xffff
    }
}

#[inline]
fn halves(word: u64) -> u64 {
    (word & 0xffff_ffff) + (word >> 32)
}

#[cfg(test)]
mod tests;

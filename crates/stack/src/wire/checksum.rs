//! The Internet checksum (RFC 1071), summed in machine words.
//!
//! The ones' complement sum does not depend on byte order (RFC 1071 section 2.B): words are added as they lie in memory
//! and the result is stored as it is.

/// A running ones' complement sum of 16-bit words in memory order. Room for 2^32 words, so no carry is ever lost.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum(u64);

impl Sum {
    pub(crate) const ZERO: Self = Self(0);

    /// Adds bytes; a last odd byte counts as if a zero byte followed, so only the last piece may be odd.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "both halves are taken")]
    pub(crate) fn bytes(self, data: &[u8]) -> Self {
        // 128 bits hold the carries of 2^64 words, at one addition and one carry per eight bytes.
        let (words, tail) = data.as_chunks::<8>();
        let mut wide = 0u128;
        for word in words {
            wide += u128::from(u64::from_ne_bytes(*word));
        }
        let mut sum = self.0 + halves(wide as u64) + halves((wide >> 64) as u64);
        // Not by way of a zeroed word: a load right after stores of other widths stalls.
        let (quads, tail) = tail.as_chunks::<4>();
        for quad in quads {
            sum += u64::from(u32::from_ne_bytes(*quad));
        }
        let (pairs, odd) = tail.as_chunks::<2>();
        for pair in pairs {
            sum += u64::from(u16::from_ne_bytes(*pair));
        }
        for byte in odd {
            sum += u64::from(u16::from_ne_bytes([*byte, 0]));
        }
        Self(sum)
    }

    /// As `bytes`, for an IPv4 header without options.
    #[inline]
    pub(crate) fn ipv4_header(self, header: &[u8; 20]) -> Self {
        let (quads, _) = header.as_chunks::<4>();
        Self(self.0 + quads.iter().map(|quad| u64::from(u32::from_ne_bytes(*quad))).sum::<u64>())
    }

    /// Adds one 16-bit number that stands in network order on the wire.
    #[inline]
    pub(crate) fn number(self, value: u16) -> Self {
        Self(self.0 + u64::from(value.to_be()))
    }

    /// The sum as 16 bits in memory order; a message that contains its own checksum gives 0xffff.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the carries were added back before each cut")]
    pub(crate) fn fold(self) -> u16 {
        let sum = halves(self.0);
        let sum = (sum & 0xffff_ffff) + (sum >> 32);
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        sum as u16
    }

    /// The checksum field, as it lies on the wire.
    #[inline]
    pub(crate) fn field(self) -> [u8; 2] {
        (!self.fold()).to_ne_bytes()
    }

    /// The checksum field of UDP, where 0 means "none" and is sent as 0xffff (RFC 768).
    #[inline]
    pub(crate) fn udp_field(self) -> [u8; 2] {
        match !self.fold() {
            0 => [0xff, 0xff],
            sum => sum.to_ne_bytes(),
        }
    }

    /// Whether a message that contains its own checksum is whole.
    #[inline]
    pub(crate) fn is_valid(self) -> bool {
        self.fold() == 0xffff
    }
}

#[inline]
fn halves(word: u64) -> u64 {
    (word & 0xffff_ffff) + (word >> 32)
}

#[cfg(test)]
mod tests;

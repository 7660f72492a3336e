//! Receive-side scaling: which queue a flow goes to. The hash is Microsoft's Toeplitz hash as published with the RSS
//! specification ("Verifying the RSS Hash Calculation"); the table is as `ethtool -x` shows it.

use alloc::boxed::Box;

/// Bytes of a hash key.
pub const KEY_BYTES: usize = 40;
/// Bytes of the longest input: two IPv6 addresses and two ports.
pub const INPUT_BYTES_MAX: usize = 36;
/// Entries of the indirection table.
pub const INDIRECTION_ENTRIES: usize = 128;

/// The published verification key, used unless another one is set. Source: Microsoft, "Verifying the RSS Hash
/// Calculation".
pub const DEFAULT_KEY: [u8; KEY_BYTES] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b,
    0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac,
    0x01, 0xfa,
];

/// The hash of `input`, bit by bit; the definition, and too slow for a packet path (see [`ToeplitzTable`]).
///
/// # Panics
/// If `input` is longer than [`INPUT_BYTES_MAX`].
#[must_use]
pub fn toeplitz(key: &[u8; KEY_BYTES], input: &[u8]) -> u32 {
    assert!(input.len() <= INPUT_BYTES_MAX, "the key is too short for that input");
    let mut hash = 0;
    for (at, byte) in input.iter().enumerate() {
        for bit in 0..8 {
            if byte & (0x80 >> bit) != 0 {
                hash ^= window(key, at * 8 + bit);
            }
        }
    }
    hash
}

/// The 32 bits of the key that begin at bit `at`.
fn window(key: &[u8; KEY_BYTES], at: usize) -> u32 {
    let bytes: [u8; 5] = core::array::from_fn(|i| key.get(at / 8 + i).copied().unwrap_or(0));
    let wide = u64::from_be_bytes([0, 0, 0, bytes[0], bytes[1], bytes[2], bytes[3], bytes[4]]);
    // Truncation keeps the 32 bits wanted.
    (wide >> (8 - at % 8)) as u32
}

/// The hash by one look-up per input byte.
#[derive(Clone)]
pub struct ToeplitzTable {
    of_byte: Box<[[u32; 256]]>,
}

impl ToeplitzTable {
    /// The table of `key` (36 KiB).
    #[must_use]
    pub fn new(key: &[u8; KEY_BYTES]) -> Self {
        let mut of_byte = alloc::vec![[0u32; 256]; INPUT_BYTES_MAX].into_boxed_slice();
        for (at, row) in of_byte.iter_mut().enumerate() {
            let of_bit: [u32; 8] = core::array::from_fn(|bit| window(key, at * 8 + 7 - bit));
            // The hash is linear: the value of a byte is that of its top bit, plus that of the rest.
            for byte in 1..256usize {
                let top = byte.ilog2() as usize;
                row[byte] = row[byte ^ (1 << top)] ^ of_bit[top];
            }
        }
        Self { of_byte }
    }

    /// The hash of `input`.
    ///
    /// # Panics
    /// If `input` is longer than [`INPUT_BYTES_MAX`].
    #[inline]
    #[must_use]
    pub fn hash(&self, input: &[u8]) -> u32 {
        assert!(input.len() <= INPUT_BYTES_MAX, "the key is too short for that input");
        input.iter().zip(&self.of_byte).fold(0, |hash, (byte, row)| hash ^ row[usize::from(*byte)])
    }
}

impl Default for ToeplitzTable {
    fn default() -> Self {
        Self::new(&DEFAULT_KEY)
    }
}

impl core::fmt::Debug for ToeplitzTable {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("ToeplitzTable")
    }
}

/// An IPv4 flow, as the receiver sees it. Numbers in host order.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Hash)]
pub struct FlowV4 {
    /// Source address.
    pub src: [u8; 4],
    /// Destination address.
    pub dst: [u8; 4],
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
}

/// An IPv6 flow, as the receiver sees it. Numbers in host order.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Hash)]
pub struct FlowV6 {
    /// Source address.
    pub src: [u8; 16],
    /// Destination address.
    pub dst: [u8; 16],
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
}

impl FlowV4 {
    /// The hash's input: addresses, then ports, in network order.
    #[inline]
    #[must_use]
    pub fn input(&self) -> [u8; 12] {
        let mut input = [0; 12];
        input[..4].copy_from_slice(&self.src);
        input[4..8].copy_from_slice(&self.dst);
        input[8..10].copy_from_slice(&self.src_port.to_be_bytes());
        input[10..].copy_from_slice(&self.dst_port.to_be_bytes());
        input
    }

    /// The same flow in the other direction.
    #[inline]
    #[must_use]
    pub const fn reversed(self) -> Self {
        Self { src: self.dst, dst: self.src, src_port: self.dst_port, dst_port: self.src_port }
    }
}

impl FlowV6 {
    /// The hash's input: addresses, then ports, in network order.
    #[inline]
    #[must_use]
    pub fn input(&self) -> [u8; 36] {
        let mut input = [0; 36];
        input[..16].copy_from_slice(&self.src);
        input[16..32].copy_from_slice(&self.dst);
        input[32..34].copy_from_slice(&self.src_port.to_be_bytes());
        input[34..].copy_from_slice(&self.dst_port.to_be_bytes());
        input
    }

    /// The same flow in the other direction.
    #[inline]
    #[must_use]
    pub const fn reversed(self) -> Self {
        Self { src: self.dst, dst: self.src, src_port: self.dst_port, dst_port: self.src_port }
    }
}

/// Hash to queue: the low seven bits of the hash choose one of 128 entries.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IndirectionTable {
    entries: [u16; INDIRECTION_ENTRIES],
}

impl IndirectionTable {
    /// All queues in turn (`ethtool -X DEV equal N`).
    ///
    /// # Panics
    /// If `queues` is 0.
    #[must_use]
    pub fn equal(queues: u16) -> Self {
        assert!(queues > 0, "a device has at least one queue");
        Self { entries: core::array::from_fn(|i| (i % usize::from(queues)) as u16) }
    }

    /// These entries; `None` if one names a queue that a device of `queues` queues does not have.
    #[must_use]
    pub fn from_entries(entries: [u16; INDIRECTION_ENTRIES], queues: u16) -> Option<Self> {
        entries.iter().all(|queue| *queue < queues).then_some(Self { entries })
    }

    /// The entries.
    #[must_use]
    pub const fn entries(&self) -> &[u16; INDIRECTION_ENTRIES] {
        &self.entries
    }

    /// The queue of a hash.
    #[inline]
    #[must_use]
    pub const fn queue(&self, hash: u32) -> u16 {
        self.entries[hash as usize % INDIRECTION_ENTRIES]
    }
}

#[cfg(test)]
#[path = "rss_tests.rs"]
mod tests;

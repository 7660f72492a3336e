//! Values that describe themselves: a function of the key and the length, so that a holder of the key can check any
//! reply without remembering what was stored last.

use std::io::{self, Write};

use napier_rng::mix;

/// Writes the value of `key` with the length of `out` into it and returns the flags that belong to it.
pub fn fill_value(key: &[u8], out: &mut [u8]) -> u32 {
    let seed = value_seed(key, out.len());
    for (index, chunk) in out.chunks_mut(8).enumerate() {
        let word = word(seed, index).to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
    flags_of(seed)
}

/// Writes the value that [`fill_value`] makes.
///
/// # Errors
/// `out` takes no more.
pub fn write_value(key: &[u8], value_bytes: usize, out: &mut impl Write) -> io::Result<()> {
    let seed = value_seed(key, value_bytes);
    (0..value_bytes.div_ceil(8)).try_for_each(|index| {
        let word = word(seed, index).to_le_bytes();
        out.write_all(&word[..word.len().min(value_bytes - 8 * index)])
    })
}

/// Flags that belong to the value of `key` with `value_bytes`. They make even an empty value checkable.
pub fn value_flags(key: &[u8], value_bytes: usize) -> u32 {
    flags_of(value_seed(key, value_bytes))
}

/// Whether `value` and `flags` are what [`fill_value`] makes for this key and this length. A value that was cut, mixed
/// with another, or meant for another key fails.
pub fn is_genuine(key: &[u8], flags: u32, value: &[u8]) -> bool {
    let seed = value_seed(key, value.len());
    flags == flags_of(seed)
        && value.chunks(8).enumerate().all(|(index, chunk)| *chunk == word(seed, index).to_le_bytes()[..chunk.len()])
}

/// Hash of a key.
fn hash_key(key: &[u8]) -> u64 {
    let mut hash = key.len() as u64;
    let mut chunks = key.chunks_exact(8);
    for chunk in &mut chunks {
        hash = step(hash, chunk.try_into().expect("chunks_exact gives 8 bytes"));
    }
    let mut last = [0; 8];
    last[..chunks.remainder().len()].copy_from_slice(chunks.remainder());
    mix(step(hash, last))
}

fn step(hash: u64, chunk: [u8; 8]) -> u64 {
    (hash.rotate_left(29) ^ u64::from_le_bytes(chunk)).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

fn value_seed(key: &[u8], value_bytes: usize) -> u64 {
    mix(hash_key(key) ^ (value_bytes as u64).rotate_left(32))
}

fn word(seed: u64, index: usize) -> u64 {
    mix(seed.wrapping_add((index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

fn flags_of(seed: u64) -> u32 {
    (seed >> 32) as u32
}

#[cfg(test)]
mod tests;

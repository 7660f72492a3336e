//! Asking for cache lines before they are needed.

/// Bytes of a cache line.
const LINE: usize = 64;

/// Asks for the `len` bytes at address `at`, which are not read: any address is harmless. Nothing where the processor has
/// no such instruction that Rust knows.
#[inline]
pub fn prefetch(at: usize, len: usize) {
    // Wherever a line begins: a length that is known gives one instruction a line.
    for line in 0..len.div_ceil(LINE) {
        prefetch_line(at + line * LINE);
    }
    // The last byte may be in a line that none of these has met.
    if len > 1 {
        prefetch_line(at + len - 1);
    }
}

#[inline]
fn prefetch_line(at: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint; it neither reads nor faults, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(at)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

//! Asking for cache lines before they are needed.

/// Bytes of a cache line.
const LINE: usize = 64;

/// Asks for the `len` bytes at address `at`, which are not read: any address is harmless. Nothing where the processor has
/// no such instruction that Rust knows.
#[inline]
pub(crate) fn prefetch(at: usize, len: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in (at & !(LINE - 1)..at + len).step_by(LINE) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint; it neither reads nor faults, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(line)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (at, len, LINE);
}

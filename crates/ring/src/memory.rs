//! Moves of bytes between private and shared memory, and hints about lines that are needed soon.

use core::ptr::copy_nonoverlapping;

/// Longest packet that is copied in blocks here; beyond it the platform's copy is as fast.
const BLOCKS_MAX: usize = 512;

/// Copies exactly `len` bytes. Packets of 16 to 512 bytes go in blocks of constant size, which are vector moves and no call;
/// the last block ends with the packet and overlaps the one before. So nothing beyond the packet is read or written: what a
/// frame held before goes to no peer.
///
/// # Safety
///
/// As [`copy_nonoverlapping`]: `len` bytes at `from` can be read, as many at `to` written, and the two do not overlap. Bytes
/// that another process writes meanwhile are any bytes; some of them may be read twice, and the last reading stays.
#[inline(always)]
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    if len == 64 {
        // SAFETY: one block, which is all of the packet.
        return unsafe { block::<64>(from, to, 0) };
    }
    if !(16..=BLOCKS_MAX).contains(&len) {
        // SAFETY: this function's contract.
        return unsafe { copy_nonoverlapping(from, to, len) };
    }
    if len < 32 {
        // SAFETY: both blocks are within the packet, which has 16 bytes or more.
        return unsafe { ends::<16>(from, to, len) };
    }
    if len < 64 {
        // SAFETY: as above, with 32 bytes or more.
        return unsafe { ends::<32>(from, to, len) };
    }
    let mut at = 0;
    while at + 64 < len {
        // SAFETY: the block ends before the packet does.
        unsafe { block::<64>(from, to, at) };
        at += 64;
    }
    // SAFETY: the packet has 64 bytes or more, and this is its last ones.
    unsafe { block::<64>(from, to, len - 64) };
}

/// The first and the last `N` bytes of a packet, which has `N` to `2 * N`.
///
/// # Safety
///
/// As [`copy`], and `len` is at least `N`.
#[inline(always)]
unsafe fn ends<const N: usize>(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: `len` is at least `N`.
    unsafe { block::<N>(from, to, 0) };
    // SAFETY: as above.
    unsafe { block::<N>(from, to, len - N) };
}

/// `N` bytes at `at`.
///
/// # Safety
///
/// As [`copy`] for `at + N` bytes.
#[inline(always)]
unsafe fn block<const N: usize>(from: *const u8, to: *mut u8, at: usize) {
    // SAFETY: in bounds by this function's contract; arrays of bytes need no alignment.
    unsafe { copy_nonoverlapping(from.wrapping_add(at).cast::<[u8; N]>(), to.wrapping_add(at).cast::<[u8; N]>(), 1) };
}

/// The line at `at` is read soon. Any address will do: a hint never faults.
#[inline(always)]
pub(crate) fn will_read(at: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch has no effect that a program could see, whatever the address.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(at.cast::<i8>());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}

/// The line at `at` is written soon, so that another processor that has it may give it up now. Any address will do.
#[inline(always)]
pub(crate) fn will_write(at: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: as above. Every 64-bit processor decodes PREFETCHW; those without it do nothing (Intel SDM 2B, PREFETCHW). The
    // intrinsic needs a target feature to become this instruction.
    unsafe {
        core::arch::asm!("prefetchw [{at}]", at = in(reg) at, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn copies_the_packet_and_nothing_else() {
        let lengths = if cfg!(miri) { (0..140).collect() } else { (0..700).collect::<Vec<usize>>() };
        for len in lengths {
            let from: Vec<u8> = (0..len + 64).map(|at| (at % 251) as u8 + 1).collect();
            let mut to = vec![0; len + 128];
            // SAFETY: both have room, and they are two vectors.
            unsafe { copy(from.as_ptr(), to.as_mut_ptr().wrapping_add(64), len) };
            assert!(to[..64].iter().chain(&to[64 + len..]).all(|&byte| byte == 0), "{len} bytes: written outside");
            assert_eq!(to[64..64 + len], from[..len]);
        }
    }

    #[test]
    fn a_hint_may_be_any_address() {
        will_read(core::ptr::null());
        will_write(core::ptr::without_provenance(usize::MAX));
    }
}

//! Ticks for accounting: cheaper than a clock reading, never used for a deadline.

/// A tick counter: the time-stamp counter where there is one, else nanoseconds.
#[inline]
pub(crate) fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every x86-64 processor has this instruction and Linux leaves it to user space.
        unsafe { core::arch::x86_64::_rdtsc() }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        crate::clock::Clock.now().ns
    }
}

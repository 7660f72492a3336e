//! Ticks for accounting: cheaper than a clock reading, never used for a deadline.

/// A tick counter: the time-stamp counter where there is one, else nanoseconds. It is read when the processor gets to
/// it, which may be before earlier work is complete.
#[inline]
#[must_use]
pub fn ticks() -> u64 {
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

/// As [`ticks`], but not before all that precedes it in the program has been executed: the end of a short measurement.
#[inline]
#[must_use]
pub fn ticks_after() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        let mut cpu = 0;
        // SAFETY: as `ticks` (processors from before 2008 lack it and stop the program); `cpu` is a valid place to write to.
        unsafe { core::arch::x86_64::__rdtscp(&raw mut cpu) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        crate::clock::Clock.now().ns
    }
}

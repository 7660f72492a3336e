//! Memory: how much there is, and what the allocator keeps of that which is not in use.

/// Bytes of memory that the machine has, if the system says.
#[must_use]
pub fn machine_bytes() -> Option<u64> {
    // SAFETY: it takes a number and gives one (sysconf(3), MT-Safe).
    let pages = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) };
    // One that does not know gives -1.
    u64::try_from(pages).ok()?.checked_mul(rustix::param::page_size() as u64)
}

/// Gives memory that was freed back to the operating system, as far as whole pages are free. The allocator of glibc keeps
/// what lies below something that is in use, and once a large block was freed it takes other large ones from there as
/// well; with another allocator nothing is done. Takes each arena's lock in turn, for about a millisecond per few
/// thousand free blocks.
pub fn give_back_free_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it may be called at any time from any thread (malloc_trim(3), MT-Safe), and what is in use stays as it is.
    unsafe {
        libc::malloc_trim(0);
    }
}

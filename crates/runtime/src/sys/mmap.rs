//! Memory of links: shared (an anonymous file, sealed against shrinking, mapped once) and private. All of it is there from
//! the start: a page fault on the packet path costs more than a hundred packets.

use core::ffi::c_void;
use core::ptr::{NonNull, null_mut};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use napier_ring::Mapping;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};

/// Creates `len` bytes of zeroed memory that can be shared with another process through the file returned.
///
/// The file is sealed with `F_SEAL_SHRINK`: whoever else maps it cannot make an access here fail by truncating it.
///
/// # Errors
///
/// As `memfd_create(2)`, `ftruncate(2)`, `fcntl(2)` and `mmap(2)`.
///
/// # Panics
///
/// If `len` is 0.
pub(crate) fn shared_memory(len: usize) -> io::Result<(OwnedFd, Mapping)> {
    assert!(len > 0, "an empty region");
    let file = rustix::fs::memfd_create("napier-link", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&file, len as u64)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK)?;
    let pages = Pages::map(len, &file)?;
    let base = pages.base;
    // SAFETY: `pages` keeps `len` readable and writable bytes mapped until it is dropped; the kernel zeroed them;
    // only this function knows their address.
    let mapping = unsafe { Mapping::from_raw(base, len, Box::new(pages)) };
    Ok((file, mapping))
}

/// Creates `len` bytes of zeroed memory of this process alone.
///
/// # Errors
///
/// As `mmap(2)`.
///
/// # Panics
///
/// If `len` is 0.
pub(crate) fn private_memory(len: usize) -> io::Result<Mapping> {
    assert!(len > 0, "an empty region");
    let pages = Pages::map_private(len)?;
    let base = pages.base;
    // SAFETY: as in `shared_memory`.
    Ok(unsafe { Mapping::from_raw(base, len, Box::new(pages)) })
}

struct Pages {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: `Pages` only unmaps; it never reads or writes the bytes.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    fn map(len: usize, file: impl AsFd) -> io::Result<Self> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::POPULATE);
        // SAFETY: a new mapping at an address of the kernel's choice; nothing else is touched.
        let base = unsafe { rustix::mm::mmap(null_mut(), len, access, flags, file, 0) }?;
        Ok(Self::at(base, len))
    }

    fn map_private(len: usize) -> io::Result<Self> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::POPULATE);
        // SAFETY: as in `map`.
        let base = unsafe { rustix::mm::mmap_anonymous(null_mut(), len, access, flags) }?;
        Ok(Self::at(base, len))
    }

    fn at(base: *mut c_void, len: usize) -> Self {
        let base = NonNull::new(base.cast::<u8>()).expect("mmap does not return the null page");
        Self { base, len }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: mapped in `map` with this length, unmapped once, and the owner of the bytes is gone.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast::<c_void>(), self.len) };
        assert!(unmapped.is_ok(), "munmap of our own mapping failed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zeroed_and_cannot_shrink() {
        let (file, mapping) = shared_memory(10_000).expect("memory");
        assert_eq!(mapping.len(), 10_000);
        assert_eq!(rustix::fs::fcntl_get_seals(&file).expect("seals"), SealFlags::SHRINK);
        assert!(rustix::fs::ftruncate(&file, 4096).is_err());
    }
}

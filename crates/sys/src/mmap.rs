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
/// The file is sealed with `F_SEAL_SHRINK`: another process that maps it cannot make an access here fail by truncating it.
///
/// # Errors
///
/// As `memfd_create(2)`, `ftruncate(2)`, `fcntl(2)` and `mmap(2)`.
///
/// # Panics
///
/// If `len` is 0.
pub fn shared_memory(len: usize) -> io::Result<(OwnedFd, Mapping)> {
    assert!(len > 0, "an empty region");
    let file = rustix::fs::memfd_create("napier-link", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&file, len as u64)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK)?;
    let pages = MappedPages::map(len, &file)?;
    let base = pages.base;
    // SAFETY: `pages` keeps `len` readable and writable bytes mapped until it is dropped; the kernel zeroed them;
    // only this function knows their address.
    let mapping = unsafe { Mapping::from_raw(base, len, Box::new(pages)) };
    Ok((file, mapping))
}

/// The same, with memory for what is touched, when it is touched, and a size that is for ever.
///
/// # Errors
///
/// As [`shared_memory`].
///
/// # Panics
///
/// If `len` is 0.
pub fn shared_memory_by_need(len: usize) -> io::Result<(OwnedFd, Mapping)> {
    assert!(len > 0, "an empty region");
    let file = rustix::fs::memfd_create("napier-outboxes", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&file, len as u64)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    let pages = MappedPages::map_foreign(len, &file)?;
    let base = pages.base;
    // SAFETY: as in `shared_memory`.
    let mapping = unsafe { Mapping::from_raw(base, len, Box::new(pages)) };
    Ok((file, mapping))
}

/// Why a file that a peer gave is not mapped.
#[derive(Debug, thiserror::Error)]
pub enum ForeignMemoryError {
    /// Accesses behind its end would be fatal.
    #[error("a file of {file} bytes for a region of {len} bytes")]
    Short {
        /// Length of the file.
        file: u64,
        /// As announced.
        len: u64,
    },
    /// It could be made shorter at any time.
    #[error("a file that is not sealed against shrinking (F_SEAL_SHRINK)")]
    CanShrink,
    /// Accesses may find no page at any time.
    #[error("a file of huge pages or of no memory file system")]
    Kind,
    /// The kernel refused.
    #[error("a file that cannot be mapped: {0}")]
    System(#[from] rustix::io::Errno),
}

/// `statfs` type of memory files. Source: linux `include/uapi/linux/magic.h` `TMPFS_MAGIC`.
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// Maps the first `len` bytes of a file that a peer gave, after making sure that nothing the peer does to the file can
/// make an access here fail. Also returns how many of these bytes have no memory, at least: it is made, and charged to
/// the first that uses them, when they are touched.
///
/// A peer can give memory up that it has shown here, so as much as it had can become ours in time.
///
/// # Errors
///
/// See [`ForeignMemoryError`].
pub fn foreign_memory(file: &OwnedFd, len: u64) -> Result<(Mapping, u64), ForeignMemoryError> {
    let stat = rustix::fs::fstat(file)?;
    let bytes = u64::try_from(stat.st_size).unwrap_or(0);
    if len == 0 || bytes < len {
        return Err(ForeignMemoryError::Short { file: bytes, len });
    }
    // Files that cannot be sealed at all are no memory files.
    let seals = rustix::fs::fcntl_get_seals(file).map_err(|_| ForeignMemoryError::CanShrink)?;
    if !seals.contains(SealFlags::SHRINK) {
        return Err(ForeignMemoryError::CanShrink);
    }
    if rustix::fs::fstatfs(file)?.f_type as u64 != TMPFS_MAGIC {
        return Err(ForeignMemoryError::Kind);
    }
    // In units of 512 bytes, see stat(2); it may have some behind the region.
    let holes = len.saturating_sub(u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512));
    let len = usize::try_from(len).map_err(|_| ForeignMemoryError::Short { file: bytes, len })?;
    let pages = MappedPages::map_foreign(len, file)?;
    let base = pages.base;
    // SAFETY: `pages` keeps `len` readable and writable bytes mapped until it is dropped, and the seal keeps them in the
    // file; only this function knows their address. The peer's writes are another process's.
    let mapping = unsafe { Mapping::from_raw(base, len, Box::new(pages)) };
    Ok((mapping, holes))
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
pub fn private_memory(len: usize) -> io::Result<Mapping> {
    assert!(len > 0, "an empty region");
    let pages = MappedPages::map_private(len)?;
    let base = pages.base;
    // SAFETY: as in `shared_memory`.
    Ok(unsafe { Mapping::from_raw(base, len, Box::new(pages)) })
}

struct MappedPages {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: `MappedPages` only unmaps; it never reads or writes the bytes.
unsafe impl Send for MappedPages {}
// SAFETY: as above.
unsafe impl Sync for MappedPages {}

impl MappedPages {
    fn map(len: usize, file: impl AsFd) -> io::Result<Self> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::POPULATE);
        // SAFETY: a new mapping at an address of the kernel's choice; nothing else is touched.
        let base = unsafe { rustix::mm::mmap(null_mut(), len, access, flags, file, 0) }?;
        Ok(Self::at(base, len))
    }

    fn map_foreign(len: usize, file: impl AsFd) -> rustix::io::Result<Self> {
        // SAFETY: as in `map`.
        let base = unsafe {
            rustix::mm::mmap(null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, file, 0)
        }?;
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

impl Drop for MappedPages {
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

    #[test]
    fn foreign_memory_must_be_there_for_good() {
        use ForeignMemoryError as E;
        let memfd = |bytes, seals| {
            let file =
                rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).expect("memfd");
            rustix::fs::ftruncate(&file, bytes).expect("room");
            rustix::fs::fcntl_add_seals(&file, seals).expect("seals");
            file
        };
        let file = memfd(8192, SealFlags::SHRINK);
        let (good, holes) = foreign_memory(&file, 5000).expect("sealed and long enough");
        assert_eq!((good.len(), holes), (5000, 5000));
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 8192).expect("memory");
        assert_eq!(foreign_memory(&file, 5000).expect("as before").1, 0);
        assert!(matches!(
            foreign_memory(&memfd(8192, SealFlags::SHRINK), 8193),
            Err(E::Short { file: 8192, len: 8193 })
        ));
        assert!(matches!(foreign_memory(&memfd(0, SealFlags::SHRINK), 1), Err(E::Short { .. })));
        assert!(matches!(foreign_memory(&memfd(8192, SealFlags::empty()), 64), Err(E::CanShrink)));
        assert!(matches!(foreign_memory(&memfd(8192, SealFlags::GROW), 64), Err(E::CanShrink)));
        let read_only = memfd(8192, SealFlags::SHRINK | SealFlags::WRITE);
        assert!(matches!(foreign_memory(&read_only, 64), Err(E::System(_))));
        let (reader, _writer) = std::io::pipe().expect("a pipe");
        assert!(foreign_memory(&reader.into(), 64).is_err());
    }
}

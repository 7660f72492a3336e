//! A piece of memory that more than one thread, and perhaps more than one process, can reach.

use core::ops::Range;
use core::ptr::NonNull;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::sync::Mutex;

/// Alignment of every mapping, in bytes.
pub(crate) const MAPPING_ALIGN: usize = 64;

/// Readable and writable bytes at a fixed address.
///
/// Nothing hands out plain references to these bytes except a [`Frame`](crate::Frame), whose range is claimed
/// exclusively when its arena is made; ring words are reached as atomics only. The book of claims is what makes that
/// safe without a contract on the caller.
///
/// **Memory that another process maps too** can be written by that process at any time, whatever Napier's own books
/// say. References to frames in it assume a peer that keeps to the protocol, so links between two processes keep no frame
/// in the region and copy through raw pointers ([`memif::remote`](crate::memif::remote)).
pub struct Mapping {
    base: NonNull<u8>,
    len: usize,
    claims: Mutex<Vec<ClaimedRange>>,
    _owner: Box<dyn Send + Sync>,
}

// SAFETY: the bytes are reached through atomics or through ranges that `claim` gave to one holder.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

/// Who holds a claimed range.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Holder {
    /// One holder, plain references.
    Frames,
    /// A memif ring's client end; shares the range with the server end.
    RingClient,
    /// A memif ring's server end; shares the range with the client end.
    RingServer,
    /// A ring that is shared with the kernel.
    KernelRing,
}

struct ClaimedRange {
    bytes: Range<usize>,
    holder: Holder,
}

/// Why a range of a mapping cannot be used.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum ClaimError {
    /// The range ends after the mapping.
    OutOfRange,
    /// The range, or this end of the ring, is in use.
    Taken,
}

impl core::fmt::Display for ClaimError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::OutOfRange => "the range ends after the mapping: make the mapping larger",
            Self::Taken => "the range is in use: a ring end or an arena was made here before",
        })
    }
}

impl std::error::Error for ClaimError {}

impl Mapping {
    /// Takes over mapped memory. `owner` is dropped when the memory is used no more; it unmaps.
    ///
    /// # Safety
    ///
    /// `base` points to `len` initialised bytes that stay readable and writable until `owner` is dropped, and nothing
    /// else in this process makes references into them or writes them other than atomically.
    ///
    /// # Panics
    ///
    /// If `base` is not aligned to 64 bytes.
    #[must_use]
    pub unsafe fn from_raw(base: NonNull<u8>, len: usize, owner: Box<dyn Send + Sync>) -> Self {
        assert_eq!(base.as_ptr().addr() % MAPPING_ALIGN, 0, "a mapping is aligned to 64 bytes");
        Self { base, len, claims: Mutex::new(Vec::new()), _owner: owner }
    }

    /// `len` zeroed bytes of private memory, aligned to a page of 4096 bytes.
    ///
    /// # Panics
    ///
    /// If `len` is 0.
    #[must_use]
    pub fn anonymous(len: usize) -> Self {
        assert!(len > 0, "an empty mapping");
        let pages = AnonymousPages::new(len);
        let base = pages.base;
        // SAFETY: `pages` owns the zeroed bytes until it is dropped, and nothing else knows their address.
        unsafe { Self::from_raw(base, len, Box::new(pages)) }
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the mapping has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where the bytes start, for a system call that hands them to the kernel.
    #[must_use]
    pub fn address(&self) -> usize {
        self.base.as_ptr().expose_provenance()
    }

    /// The address of `offset`. In bounds if the caller checked `offset` against [`len`](Self::len).
    #[inline]
    pub(crate) fn at(&self, offset: usize) -> *mut u8 {
        self.base.as_ptr().wrapping_add(offset)
    }

    /// The smallest range that holds all claims, if there are any.
    pub(crate) fn claimed(&self) -> Option<Range<usize>> {
        let claims = self.claims.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let start = claims.iter().map(|claim| claim.bytes.start).min()?;
        let end = claims.iter().map(|claim| claim.bytes.end).max()?;
        Some(start..end)
    }

    /// Records a holder for a range, so that no two holders can contradict each other. Claims last as long as the
    /// mapping: a frame may be anywhere.
    pub(crate) fn claim(&self, offset: usize, len: usize, holder: Holder) -> Result<(), ClaimError> {
        let end = offset.checked_add(len).filter(|&end| end <= self.len).ok_or(ClaimError::OutOfRange)?;
        let bytes = offset..end;
        let mut claims = self.claims.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let clash = |old: &ClaimedRange| {
            let apart = old.bytes.end <= bytes.start || bytes.end <= old.bytes.start;
            let other_end = old.bytes == bytes
                && matches!(
                    (old.holder, holder),
                    (Holder::RingClient, Holder::RingServer) | (Holder::RingServer, Holder::RingClient)
                );
            !apart && !other_end
        };
        if claims.iter().any(clash) {
            return Err(ClaimError::Taken);
        }
        claims.push(ClaimedRange { bytes, holder });
        Ok(())
    }
}

impl core::fmt::Debug for Mapping {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Mapping").field("len", &self.len).finish_non_exhaustive()
    }
}

struct AnonymousPages {
    base: NonNull<u8>,
    layout: Layout,
}

// SAFETY: plain memory; `AnonymousPages` only frees it.
unsafe impl Send for AnonymousPages {}
// SAFETY: as above.
unsafe impl Sync for AnonymousPages {}

impl AnonymousPages {
    fn new(len: usize) -> Self {
        let Ok(layout) = Layout::from_size_align(len, 4096) else { panic!("{len} bytes exceed the address space") };
        // SAFETY: the size is not 0 (`Mapping::anonymous` checked).
        let base = unsafe { alloc_zeroed(layout) };
        let Some(base) = NonNull::new(base) else { handle_alloc_error(layout) };
        Self { base, layout }
    }
}

impl Drop for AnonymousPages {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout, freed once.
        unsafe { dealloc(self.base.as_ptr(), self.layout) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn claims_exclude_each_other() {
        let mapping = Mapping::anonymous(4096);
        assert_eq!(mapping.claim(0, 128, Holder::RingClient), Ok(()));
        assert_eq!(mapping.claim(0, 128, Holder::RingClient), Err(ClaimError::Taken));
        assert_eq!(mapping.claim(0, 128, Holder::RingServer), Ok(()));
        assert_eq!(mapping.claim(64, 128, Holder::RingServer), Err(ClaimError::Taken));
        assert_eq!(mapping.claim(100, 1, Holder::Frames), Err(ClaimError::Taken));
        assert_eq!(mapping.claim(128, 128, Holder::Frames), Ok(()));
        assert_eq!(mapping.claim(128, 128, Holder::Frames), Err(ClaimError::Taken));
        assert_eq!(mapping.claim(4000, 97, Holder::Frames), Err(ClaimError::OutOfRange));
        assert_eq!(mapping.claim(usize::MAX, 2, Holder::Frames), Err(ClaimError::OutOfRange));
    }
}

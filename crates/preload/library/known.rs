//! Which sockets a program has put into its epoll instances: what is polled for them is found by one of these.

use core::ffi::c_int;
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

/// Epoll instances that are told apart, by the end of their number; two that share a place share their sockets.
const PLACES: usize = 64;
/// Sockets that are remembered for each, the last ones.
pub(crate) const EACH: usize = 32;

struct EpollSlot {
    /// When it was polled last for waits that have no time.
    polled_ns: AtomicU64,
    next: AtomicU32,
    /// Numbers of descriptors and one more: 0 is none.
    fds: [AtomicI32; EACH],
}

static KNOWN: [EpollSlot; PLACES] = [const {
    EpollSlot { polled_ns: AtomicU64::new(0), next: AtomicU32::new(0), fds: [const { AtomicI32::new(0) }; EACH] }
}; PLACES];

fn place(epoll: c_int) -> &'static EpollSlot {
    &KNOWN[epoll as u32 as usize % PLACES]
}

/// When one of its sockets was polled last, and is to be set to when that happens. Two threads that see the same poll both.
pub(crate) fn polled_ns(epoll: c_int) -> &'static AtomicU64 {
    &place(epoll).polled_ns
}

/// Remembers a descriptor. What it is, and whether it still is that, is asked when it is used: nothing but numbers is shared, so
/// `Relaxed` is enough.
pub(crate) fn note(epoll: c_int, fd: c_int) {
    let place = place(epoll);
    let at = place.next.fetch_add(1, Ordering::Relaxed) as usize % EACH;
    place.fds[at].store(fd.wrapping_add(1), Ordering::Relaxed);
}

/// The descriptor that was remembered as the `nth` before the last.
pub(crate) fn before_last(epoll: c_int, nth: usize) -> Option<c_int> {
    let place = place(epoll);
    let at = (place.next.load(Ordering::Relaxed) as usize).wrapping_sub(1 + nth) % EACH;
    Some(place.fds[at].load(Ordering::Relaxed).wrapping_sub(1)).filter(|fd| *fd >= 0)
}

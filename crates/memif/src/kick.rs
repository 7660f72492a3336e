//! Interrupts between two processes: an eventfd per ring, which the client makes and gives to the server.
//!
//! Both descriptors of an eventfd are one open file, so a hostile peer can change its flags and fill it at any time.
//! Reads are asked not to wait for such a file; a write that does is freed by the [guard](super::guard).

use core::sync::atomic::{AtomicBool, Ordering};
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use napier_ring::memif::{KickLook, KickWord};
use rustix::event::{EventfdFlags, PollFd, PollFlags, poll};
use rustix::io::ReadWriteFlags;

use crate::bell::GuardBell;

/// A new eventfd that counts from 0.
///
/// # Errors
///
/// As `eventfd(2)`.
pub fn new_eventfd() -> io::Result<OwnedFd> {
    Ok(rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

/// Whether a descriptor that a peer gave is an eventfd: writing eight bytes to anything else could do anything.
pub(crate) fn is_eventfd(fd: &OwnedFd) -> bool {
    use std::os::fd::AsRawFd as _;
    let name = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()));
    name.is_ok_and(|name| name.as_os_str() == "anon_inode:[eventfd]")
}

/// Takes what an eventfd has counted, without waiting whatever the file's flags say.
pub fn drain(eventfd: BorrowedFd<'_>) {
    let mut count = [0; 8];
    // Nothing counted is an error, and fine. The offset that is none: an eventfd has no position.
    let _ = rustix::io::preadv2(eventfd, &mut [IoSliceMut::new(&mut count)], u64::MAX, ReadWriteFlags::NOWAIT);
}

/// The peer's interrupt, from the producer's side. One thread at a time rings.
pub struct Kick {
    eventfd: OwnedFd,
    word: KickWord,
    /// Wakes the guard.
    bell: Arc<GuardBell>,
    /// The peer made a ringer wait.
    refused: AtomicBool,
}

impl Kick {
    /// Rings `eventfd` from now on, under the eyes of the guard whose `bell` this is.
    pub(crate) fn new(eventfd: OwnedFd, bell: Arc<GuardBell>) -> Self {
        // As long as the peer leaves it so.
        let _ = rustix::io::ioctl_fionbio(&eventfd, true);
        Self { eventfd, word: KickWord::new(), bell, refused: AtomicBool::new(false) }
    }

    /// Interrupts the peer; nothing once it is being closed.
    pub fn ring(&self) {
        if !self.word.begin() {
            return;
        }
        // A system call only if the guard sleeps, which it does not while rings come.
        self.bell.ring();
        // A full counter is as good as one more; any other failure is the peer's loss.
        let _ = rustix::io::write(&self.eventfd, &1_u64.to_ne_bytes());
        self.word.end();
    }

    /// Whether a thread rings, and whether any thread still may.
    pub(crate) fn look(&self) -> KickLook {
        self.word.look()
    }

    /// No thread begins to ring from now on: the peer is being closed.
    pub(crate) fn retire(&self) {
        self.word.retire();
    }

    /// As [`retire`](Self::retire), because the peer made a ringer wait.
    pub(crate) fn refuse(&self) {
        self.word.retire();
        self.refused.store(true, Ordering::Relaxed); // the control thread is told by a system call
    }

    /// Whether the peer made a ringer wait.
    pub(crate) fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// Whether the counter is at its end, where a write waits if the file's flags let it.
    pub(crate) fn is_full(&self) -> bool {
        let mut fds = [PollFd::new(&self.eventfd, PollFlags::OUT)];
        let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut fds, Some(&now)).is_ok() && !fds[0].revents().contains(PollFlags::OUT)
    }

    /// Makes room for one who waits to write; no other count is of worth any more.
    pub(crate) fn free(&self) {
        drain(self.eventfd.as_fd());
    }

    #[cfg(test)]
    pub(crate) fn word(&self) -> &KickWord {
        &self.word
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_eventfd_is_one() {
        assert!(is_eventfd(&new_eventfd().expect("eventfd")));
        let (reader, writer) = std::io::pipe().expect("pipe");
        assert!(!is_eventfd(&reader.into()) && !is_eventfd(&writer.into()));
    }

    #[test]
    fn a_drain_never_waits() {
        let blocking = rustix::event::eventfd(0, EventfdFlags::CLOEXEC).expect("eventfd");
        drain(blocking.as_fd());
        rustix::io::write(&blocking, &5_u64.to_ne_bytes()).expect("room");
        drain(blocking.as_fd());
        // Nothing is left.
        rustix::io::ioctl_fionbio(&blocking, true).expect("an eventfd");
        assert!(rustix::io::read(&blocking, &mut [0; 8]).is_err());
    }
}

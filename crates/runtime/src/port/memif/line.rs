//! Interrupts between two processes: an eventfd per ring, which the client makes and gives to the server.
//!
//! Both descriptors of an eventfd are one open file, so a hostile peer can change its flags and fill it at any time.
//! Reads are asked not to wait for such a file; a write that does is freed by the [guard](super::guard).

use core::sync::atomic::{AtomicBool, Ordering};
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use napier_ring::memif::{InterruptSwitch, KickLook, KickWord};
use rustix::event::{EventfdFlags, PollFd, PollFlags, poll};
use rustix::io::ReadWriteFlags;

use crate::port::{Counter, InterruptLine};
use napier_stack::park::Parker;

/// A new eventfd that counts from 0.
///
/// # Errors
///
/// As `eventfd(2)`.
pub(super) fn new_eventfd() -> io::Result<OwnedFd> {
    Ok(rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

/// Whether a descriptor that a peer gave is an eventfd: writing eight bytes to anything else could do anything.
pub(super) fn is_eventfd(fd: &OwnedFd) -> bool {
    use std::os::fd::AsRawFd as _;
    let name = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()));
    name.is_ok_and(|name| name.as_os_str() == "anon_inode:[eventfd]")
}

/// Takes what has been counted, without waiting whatever the file's flags say.
fn drain(eventfd: BorrowedFd<'_>) {
    let mut count = [0; 8];
    // Nothing counted is an error, and fine. The offset that is none: an eventfd has no position.
    let _ = rustix::io::preadv2(eventfd, &mut [IoSliceMut::new(&mut count)], u64::MAX, ReadWriteFlags::NOWAIT);
}

/// The interrupt of one receive queue whose peer comes and goes.
///
/// The doorbell's number stays the same all the time, so that a softirq CPU can watch it; which eventfd it stands for
/// changes with the peer.
pub(crate) struct MemifLine {
    doorbell: OwnedFd,
    /// The ring that the peer produces into; none without peer.
    switch: ArcSwapOption<InterruptSwitch>,
    interrupts: Counter,
}

impl MemifLine {
    /// A line without peer.
    ///
    /// # Errors
    ///
    /// As `eventfd(2)`.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { doorbell: new_eventfd()?, switch: ArcSwapOption::empty(), interrupts: Counter::default() })
    }

    /// There is a peer, which rings `eventfd`; masked until a thread unmasks. No thread watches the doorbell meanwhile.
    ///
    /// # Errors
    ///
    /// As `dup3(2)`.
    pub(super) fn connect(&self, eventfd: impl AsFd, switch: InterruptSwitch) -> io::Result<()> {
        napier_sys::fd::replace(self.doorbell.as_fd(), eventfd)?;
        switch.mask();
        self.switch.store(Some(switch.into()));
        Ok(())
    }

    /// The peer is gone, and cannot ring any more. No thread watches the doorbell meanwhile.
    pub(super) fn disconnect(&self) {
        self.switch.store(None);
        // Without a descriptor to spare the old one stays: its rings are spurious interrupts, which are harmless.
        let _ = new_eventfd().and_then(|nobody| napier_sys::fd::replace(self.doorbell.as_fd(), nobody));
    }

    /// The interrupt is unmasked and packets wait: the peer may have failed to ring, as one that does not fence between
    /// publishing and looking at the flag can.
    pub(super) fn overlooked(&self) -> bool {
        self.switch.load().as_ref().is_some_and(|switch| switch.is_overlooked())
    }
}

impl InterruptLine for MemifLine {
    #[inline]
    fn note_consumed(&self, index: u16) {
        if let Some(switch) = &*self.switch.load() {
            switch.note_consumed(index);
        }
    }

    #[inline]
    fn mask(&self) {
        if let Some(switch) = &*self.switch.load() {
            switch.mask();
        }
    }

    fn unmask(&self) -> bool {
        self.switch.load().as_ref().is_some_and(|switch| switch.unmask())
    }

    fn doorbell_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.doorbell.as_fd())
    }

    fn forget_rings(&self) {
        drain(self.doorbell.as_fd());
    }

    fn packets_wait(&self) -> bool {
        // Also what cannot be: a poll finds that out, and the connection is ended.
        self.switch.load().as_ref().is_some_and(|switch| switch.has_news())
    }

    fn look_suffices(&self) -> bool {
        true
    }

    fn heard(&self) -> bool {
        self.interrupts.add_shared(1);
        true
    }

    fn interrupts(&self) -> u64 {
        self.interrupts.get()
    }
}

/// The peer's interrupt, from the producer's side. One thread at a time rings.
pub(crate) struct Kick {
    eventfd: OwnedFd,
    word: KickWord,
    /// Wakes the guard.
    bell: Arc<Parker>,
    /// The peer made a ringer wait.
    refused: AtomicBool,
}

impl Kick {
    /// Rings `eventfd` from now on, under the eyes of the guard whose `bell` this is.
    pub(super) fn new(eventfd: OwnedFd, bell: Arc<Parker>) -> Self {
        // As long as the peer leaves it so.
        let _ = rustix::io::ioctl_fionbio(&eventfd, true);
        Self { eventfd, word: KickWord::new(), bell, refused: AtomicBool::new(false) }
    }

    /// Interrupts the peer; nothing once it is being closed.
    pub(crate) fn ring(&self) {
        if !self.word.begin() {
            return;
        }
        // A system call only if the guard sleeps, which it does not while rings come.
        self.bell.wake();
        // A full counter is as good as one more; any other failure is the peer's loss.
        let _ = rustix::io::write(&self.eventfd, &1_u64.to_ne_bytes());
        self.word.end();
    }

    /// Whether a thread rings, and whether any thread still may.
    pub(super) fn look(&self) -> KickLook {
        self.word.look()
    }

    /// No thread begins to ring from now on: the peer is being closed.
    pub(super) fn retire(&self) {
        self.word.retire();
    }

    /// As [`retire`](Self::retire), because the peer made a ringer wait.
    pub(super) fn refuse(&self) {
        self.word.retire();
        self.refused.store(true, Ordering::Relaxed); // the control thread is told by a system call
    }

    /// Whether the peer made a ringer wait.
    pub(super) fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// Whether the counter is at its end, where a write waits if the file's flags let it.
    pub(super) fn is_full(&self) -> bool {
        let mut fds = [PollFd::new(&self.eventfd, PollFlags::OUT)];
        let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut fds, Some(&now)).is_ok() && !fds[0].revents().contains(PollFlags::OUT)
    }

    /// Makes room for one who waits to write; no other count is of worth any more.
    pub(super) fn free(&self) {
        drain(self.eventfd.as_fd());
    }

    #[cfg(test)]
    pub(super) fn word(&self) -> &KickWord {
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

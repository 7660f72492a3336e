//! Interrupts between two processes: an eventfd per ring, which the client makes and gives to the server.
//!
//! Both descriptors of an eventfd are one open file, so a hostile peer can change its flags and fill it at any time.
//! Nothing here waits for such a file: reads are asked not to, and a write that does is freed by whoever watches
//! ([`Kick::rescue`]).

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use arc_swap::ArcSwapOption;
use napier_ring::memif::InterruptSwitch;
use rustix::event::EventfdFlags;
use rustix::io::ReadWriteFlags;

use crate::port::Counter;
use crate::sys;

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
pub(crate) struct RemoteLine {
    doorbell: OwnedFd,
    /// The ring that the peer produces into; none without peer.
    switch: ArcSwapOption<InterruptSwitch>,
    interrupts: Counter,
}

impl RemoteLine {
    /// A line without peer.
    ///
    /// # Errors
    ///
    /// As `eventfd(2)`.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { doorbell: new_eventfd()?, switch: ArcSwapOption::empty(), interrupts: Counter::default() })
    }

    /// There is a peer, which rings `eventfd`; masked until somebody unmasks. Nobody watches the doorbell meanwhile.
    ///
    /// # Errors
    ///
    /// As `dup3(2)`.
    pub(super) fn connect(&self, eventfd: impl AsFd, switch: InterruptSwitch) -> io::Result<()> {
        sys::fd::replace(self.doorbell.as_fd(), eventfd)?;
        switch.mask();
        self.switch.store(Some(switch.into()));
        Ok(())
    }

    /// The peer is gone, and cannot ring any more. Nobody watches the doorbell meanwhile.
    pub(super) fn disconnect(&self) {
        self.switch.store(None);
        // Without a descriptor to spare the old one stays: its rings are spurious interrupts, which are harmless.
        let _ = new_eventfd().and_then(|nobody| sys::fd::replace(self.doorbell.as_fd(), nobody));
    }

    /// The interrupt is unmasked and packets wait: the peer may have failed to ring, as one that does not fence between
    /// publishing and looking at the flag can.
    pub(super) fn overlooked(&self) -> bool {
        self.switch.load().as_ref().is_some_and(|switch| switch.is_overlooked())
    }

    /// See [`IrqLine`](crate::port::IrqLine).
    #[inline]
    pub(crate) fn note_consumed(&self, index: u16) {
        if let Some(switch) = &*self.switch.load() {
            switch.note_consumed(index);
        }
    }

    /// See [`IrqLine`](crate::port::IrqLine).
    #[inline]
    pub(crate) fn mask(&self) {
        if let Some(switch) = &*self.switch.load() {
            switch.mask();
        }
    }

    /// See [`IrqLine`](crate::port::IrqLine).
    #[must_use = "true means that packets wait and nobody may be told"]
    pub(crate) fn unmask(&self) -> bool {
        self.switch.load().as_ref().is_some_and(|switch| switch.unmask())
    }

    /// See [`IrqLine`](crate::port::IrqLine).
    pub(crate) fn doorbell_fd(&self) -> BorrowedFd<'_> {
        self.doorbell.as_fd()
    }

    /// See [`IrqLine`](crate::port::IrqLine).
    pub(crate) fn forget_rings(&self) {
        drain(self.doorbell.as_fd());
    }

    /// A softirq CPU heard the doorbell.
    pub(crate) fn heard(&self) {
        self.interrupts.add_shared(1);
    }

    /// Interrupts heard so far.
    pub(crate) fn interrupts(&self) -> u64 {
        self.interrupts.get()
    }
}

/// The peer's interrupt, from the producer's side. One thread at a time rings.
pub(crate) struct Kick {
    eventfd: OwnedFd,
    /// Rings begun and ended: odd while one is under way.
    rings: AtomicU64,
    /// A ring was under way for long, and what it may have counted was taken away.
    rescued: AtomicBool,
    /// What the last rescuer saw.
    seen: AtomicU64,
}

impl Kick {
    /// Rings `eventfd` from now on.
    pub(super) fn new(eventfd: OwnedFd) -> Self {
        // As long as the peer leaves it so.
        let _ = rustix::io::ioctl_fionbio(&eventfd, true);
        Self { eventfd, rings: AtomicU64::new(0), rescued: AtomicBool::new(false), seen: AtomicU64::new(0) }
    }

    /// Interrupts the peer.
    pub(crate) fn ring(&self) {
        // Relaxed: one thread at a time changes it, and whoever rescues looks again and again.
        let begun = self.rings.load(Ordering::Relaxed).wrapping_add(1);
        self.rings.store(begun, Ordering::Relaxed);
        self.write();
        if self.rescued.load(Ordering::Relaxed) && self.rescued.swap(false, Ordering::Relaxed) {
            self.write();
        }
        self.rings.store(begun.wrapping_add(1), Ordering::Relaxed);
    }

    fn write(&self) {
        // A full counter is as good as one more; any other failure is the peer's loss.
        let _ = rustix::io::write(&self.eventfd, &1_u64.to_ne_bytes());
    }

    /// Frees a thread that rings and does not come back, because the peer has filled the eventfd and made it wait. To be
    /// called now and then, by one thread: what was under way at the last call and still is, is stuck.
    pub(super) fn rescue(&self) {
        let rings = self.rings.load(Ordering::Relaxed);
        let stuck = rings % 2 == 1 && self.seen.swap(rings, Ordering::Relaxed) == rings;
        if stuck {
            // First: if the thread was only slow, it rings again.
            self.rescued.store(true, Ordering::Relaxed);
            drain(self.eventfd.as_fd());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc;
    use std::time::Duration;

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

    /// The peer fills the eventfd and clears its non-blocking flag, which both sides share.
    #[test]
    fn a_thread_that_is_made_to_wait_is_freed() {
        let ours = new_eventfd().expect("eventfd");
        let theirs = rustix::io::dup(&ours).expect("descriptors");
        let kick = Arc::new(Kick::new(ours));
        rustix::io::ioctl_fionbio(&theirs, false).expect("an eventfd");
        rustix::io::write(&theirs, &(u64::MAX - 1).to_ne_bytes()).expect("room");
        let (done, is_done) = mpsc::channel();
        let ringer = std::thread::spawn({
            let kick = kick.clone();
            move || {
                kick.ring();
                done.send(()).expect("somebody waits");
            }
        });
        while is_done.recv_timeout(Duration::from_millis(1)).is_err() {
            kick.rescue();
        }
        ringer.join().expect("no panic");
    }
}

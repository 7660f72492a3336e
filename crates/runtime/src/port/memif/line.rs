//! The peer's interrupt as a line of a queue.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use arc_swap::ArcSwapOption;
use napier_memif::drive::{drain, new_eventfd};
use napier_ring::memif::InterruptSwitch;

use crate::port::{Counter, InterruptLine};

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

//! Packets to a socket.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use napier_ring::xsk::{TxWake, XskTx};
use rustix::event::EventfdFlags;

use crate::port::{MovedTx, Tell, TxHome, TxRing};
use napier_sys::xsk::{Kicked, XskSocket};

/// Kicks in a row that send nothing before the rest is left to be kicked later.
const KICKS_IN_VAIN_MAX: u32 = 4;

/// The transmit end of a queue.
pub(crate) type XskTxEnd = MovedTx<Kicks>;

/// The kicks of a queue's socket.
pub(crate) struct Kicks {
    socket: Arc<XskSocket>,
    /// A kick that the kernel could not act on.
    owed: Option<TxWake>,
    queue: u16,
    late: Arc<LateKicks>,
}

impl Kicks {
    pub(super) fn new(socket: Arc<XskSocket>, queue: u16, late: Arc<LateKicks>) -> Self {
        Self { socket, owed: None, queue, late }
    }
}

impl XskTxEnd {
    fn kick(&mut self, mut wake: TxWake, home: &mut TxHome) {
        let (mut in_vain, mut unsent) = (0, self.ring.unsent());
        loop {
            home.counters.kicks.add(1);
            match self.tell.socket.kick(wake) {
                Kicked::Done => break,
                Kicked::Unreachable(token) => {
                    // The thread that watches the interface kicks when it is back.
                    self.tell.owed = Some(token);
                    break;
                }
                Kicked::Again(token) => {
                    // Never without room for what was sent.
                    self.reclaim(home);
                    let left = self.ring.unsent();
                    if left == 0 {
                        break;
                    }
                    in_vain = if left < unsent { 0 } else { in_vain + 1 };
                    unsent = left;
                    if in_vain == KICKS_IN_VAIN_MAX {
                        self.tell.owed = Some(token);
                        self.tell.late.note(self.tell.queue);
                        break;
                    }
                    wake = token;
                }
            }
        }
        self.reclaim_many(home);
    }
}

impl Tell for Kicks {
    type Ring = XskTx;
    const LEAVES_BELL: bool = false;

    /// Kicks the kernel until it has taken all, or takes no more: then the next sender kicks again, and that is soon.
    fn flush(end: &mut XskTxEnd, home: &mut TxHome) {
        let publish = end.ring.publish();
        match publish.wake.or(end.tell.owed.take()) {
            Some(wake) => end.kick(wake, home),
            None => end.reclaim_many(home),
        }
        home.note_errors(end.ring.bad_descriptors(), end.ring.index_errors());
    }

    fn owes_kick(&self) -> bool {
        self.owed.is_some()
    }
}

/// Queues whose packets wait though they were kicked, for the thread that kicks them again.
pub(crate) struct LateKicks {
    queues: AtomicU64,
    bell: OwnedFd,
}

impl LateKicks {
    /// # Errors
    /// As `eventfd(2)`.
    pub(super) fn new() -> io::Result<Self> {
        let bell = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { queues: AtomicU64::new(0), bell })
    }

    fn note(&self, queue: u16) {
        // AcqRel: pairs with `take`; the thread that finds no queue rings.
        if self.queues.fetch_or(1 << queue, Ordering::AcqRel) == 0 {
            self.ring();
        }
    }

    /// The queues noted since the last time, one bit each.
    pub(super) fn take(&self) -> u64 {
        let mut count = [0; 8];
        // Nothing to read: another's bell.
        let _ = rustix::io::read(&self.bell, &mut count);
        self.queues.swap(0, Ordering::AcqRel)
    }

    /// Wakes the thread that waits for the bell.
    pub(super) fn ring(&self) {
        // A full counter means that it was not even heard yet: just as good.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }
}

impl AsFd for LateKicks {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

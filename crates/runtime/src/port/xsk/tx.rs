//! Packets to a socket.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use napier_ring::xsk::{TxWake, XskTx};
use napier_ring::{Frame, FramePool};
use rustix::event::EventfdFlags;

use crate::port::{FrameAccount, FrameRing, Given, TxFull, TxHome, TxRing, bring_home, build_in_frame, push_given};
use napier_sys::xsk::{Kicked, XskSocket};

/// Kicks in a row that send nothing before the rest is left to be kicked later.
const KICKS_IN_VAIN_MAX: u32 = 4;

/// The transmit end of a queue.
pub(crate) struct XskTxEnd {
    ring: XskTx,
    pool: FramePool,
    socket: Arc<XskSocket>,
    /// Frames that may be with the kernel before it is asked for them.
    reclaim_at: u32,
    /// A kick that the kernel could not act on.
    owed: Option<TxWake>,
    queue: u16,
    late: Arc<LateKicks>,
}

impl XskTxEnd {
    pub(super) fn new(ring: XskTx, pool: FramePool, socket: Arc<XskSocket>, queue: u16, late: Arc<LateKicks>) -> Self {
        let reclaim_at = ring.free_slots() / 2;
        Self { ring, pool, socket, reclaim_at, owed: None, queue, late }
    }

    fn kick(&mut self, mut wake: TxWake, home: &mut TxHome) {
        let (mut in_vain, mut unsent) = (0, self.ring.unsent());
        loop {
            home.counters.kicks.add(1);
            match self.socket.kick(wake) {
                Kicked::Done => break,
                Kicked::Unreachable(token) => {
                    // Whoever watches the interface kicks when it is back.
                    self.owed = Some(token);
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
                        self.owed = Some(token);
                        self.late.note(self.queue);
                        break;
                    }
                    wake = token;
                }
            }
        }
        if self.ring.in_flight() >= self.reclaim_at {
            self.reclaim(home);
        }
    }
}

impl FrameRing for XskTx {
    #[inline]
    fn free_slots(&self) -> u32 {
        self.free_slots()
    }
    #[inline]
    fn push(&mut self, frame: Frame, len: u32) -> Result<(), Frame> {
        self.push(frame, len)
    }
    #[inline]
    fn reclaim(&mut self, home: impl FnMut(Frame)) -> u32 {
        self.reclaim(home)
    }
}

impl TxRing for XskTxEnd {
    fn expect_senders(&mut self, pool: &FramePool) {
        self.ring.add_arena(pool.table(), pool.arena());
    }

    #[inline]
    fn build(
        &mut self,
        _max_len: usize,
        home: &mut TxHome,
        build: impl FnOnce(&mut [u8]) -> usize,
    ) -> Result<usize, TxFull> {
        build_in_frame(&mut self.ring, &mut self.pool, home, build)
    }

    #[inline]
    fn give(&mut self, frame: Frame, len: u32, home: &mut TxHome) -> Given {
        if !self.ring.takes(frame.arena()) {
            return Given::Foreign(frame);
        }
        push_given(&mut self.ring, &mut self.pool, frame, len, home)
    }

    #[inline]
    fn may_have_room(&mut self) -> bool {
        self.ring.free_slots() > 0
    }

    #[inline]
    fn in_flight(&mut self) -> u32 {
        self.ring.in_flight()
    }

    /// Kicks the kernel until it has taken all, or takes no more: then whoever sends next kicks again, and somebody does
    /// soon.
    fn flush(&mut self, home: &mut TxHome) {
        let publish = self.ring.publish();
        if let Some(wake) = publish.wake.or(self.owed.take()) {
            self.kick(wake, home);
        } else if self.ring.in_flight() >= self.reclaim_at {
            self.reclaim(home);
        }
        home.note_errors(self.ring.bad_descriptors(), self.ring.index_errors());
    }

    fn reclaim(&mut self, home: &mut TxHome) {
        self.ring.reclaim(|frame| bring_home(&mut self.pool, &mut home.sorter, frame));
    }

    fn owes_kick(&self) -> bool {
        self.owed.is_some()
    }

    fn account(&mut self) -> FrameAccount {
        FrameAccount {
            total: u64::from(self.pool.total()),
            pooled: self.pool.available() as u64,
            in_ring: u64::from(self.ring.in_flight()),
        }
    }
}

/// Queues whose packets wait though they were kicked, for whoever kicks them again.
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
        // AcqRel: pairs with `take`; whoever finds no queue rings.
        if self.queues.fetch_or(1 << queue, Ordering::AcqRel) == 0 {
            self.ring();
        }
    }

    /// The queues noted since the last time, one bit each.
    pub(super) fn take(&self) -> u64 {
        let mut count = [0; 8];
        // Nothing to read: somebody else's bell.
        let _ = rustix::io::read(&self.bell, &mut count);
        self.queues.swap(0, Ordering::AcqRel)
    }

    /// Wakes whoever waits for the bell.
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

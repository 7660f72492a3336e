//! Sending where frames are moved into a ring: at the client of a link, and to an AF_XDP socket.

use napier_ring::memif::C2sProducer;
#[cfg(feature = "xdp")]
use napier_ring::xsk::XskTx;
use napier_ring::{ArenaId, Frame, FramePool, FrameTable};

use super::FrameAccount;
use super::tx::{Given, TxFull, TxHome, TxRing};

/// A ring that frames are moved into, and out of when they were sent.
pub(crate) trait FrameRing {
    /// Packets that can be pushed, as far as is known.
    fn free_slots(&self) -> u32;
    fn push(&mut self, frame: Frame, len: u32) -> Result<(), Frame>;
    /// Takes back what was sent; returns how many frames that were.
    fn reclaim(&mut self, home: impl FnMut(Frame)) -> u32;
    /// Frames that were pushed and not taken back.
    fn in_flight(&self) -> u32;
    /// Frames of a second arena can be pushed too.
    fn add_arena(&mut self, table: &FrameTable, arena: ArenaId);
    /// Whether frames of this arena can be pushed.
    fn takes(&self, arena: ArenaId) -> bool;
}

/// What both rings have by these names.
macro_rules! frame_ring {
    ($($ring:ty),*) => {$(
        impl FrameRing for $ring {
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
            #[inline]
            fn in_flight(&self) -> u32 {
                self.in_flight()
            }
            fn add_arena(&mut self, table: &FrameTable, arena: ArenaId) {
                self.add_arena(table, arena);
            }
            #[inline]
            fn takes(&self, arena: ArenaId) -> bool {
                self.takes(arena)
            }
        }
    )*};
}
frame_ring!(C2sProducer);
#[cfg(feature = "xdp")]
frame_ring!(XskTx);

/// How the peer of a ring is shown what was sent, and told.
pub(crate) trait Tell: Sized {
    /// The ring.
    type Ring: FrameRing;
    /// Whether a flush leaves a bell, and tells the peer later.
    const LEAVES_BELL: bool;

    /// Shows the peer what was built and given, and tells it or leaves a bell.
    fn flush(end: &mut MovedTx<Self>, home: &mut TxHome);

    /// Whether packets wait that a kick did not move.
    fn owes_kick(&self) -> bool {
        false
    }
}

/// A transmit end: packets are built in frames of `pool`, or sent in frames of the ring's memory as they are.
pub(crate) struct MovedTx<T: Tell> {
    pub(crate) ring: T::Ring,
    pub(crate) tell: T,
    pool: FramePool,
    /// Frames that may be with the peer before it is asked for them.
    reclaim_at: u32,
}

impl<T: Tell> MovedTx<T> {
    /// An end over a ring that nothing was pushed to.
    pub(crate) fn new(ring: T::Ring, pool: FramePool, tell: T) -> Self {
        let reclaim_at = ring.free_slots() / 2;
        Self { ring, tell, pool, reclaim_at }
    }

    /// Takes back what the peer has read, if much is with it.
    #[inline]
    pub(crate) fn reclaim_many(&mut self, home: &mut TxHome) {
        if self.ring.in_flight() >= self.reclaim_at {
            self.reclaim(home);
        }
    }

    /// Looks at the peer's index only if the ring is full as far as known.
    #[inline]
    fn make_room(&mut self, home: &mut TxHome) {
        if self.ring.free_slots() == 0 {
            self.reclaim(home);
        }
    }

    /// A frame from the pool, or one that the peer has just finished with.
    #[inline]
    fn alloc(&mut self, home: &mut TxHome) -> Option<Frame> {
        self.pool.alloc().or_else(|| {
            self.reclaim(home);
            self.pool.alloc()
        })
    }
}

impl<T: Tell> TxRing for MovedTx<T> {
    fn expect_senders(&mut self, pool: &FramePool) {
        self.ring.add_arena(pool.table(), pool.arena());
    }

    /// In a frame of our own.
    #[inline]
    fn build(
        &mut self,
        _max_len: usize,
        home: &mut TxHome,
        build: impl FnOnce(&mut [u8]) -> usize,
    ) -> Result<usize, TxFull> {
        self.make_room(home);
        if self.ring.free_slots() == 0 {
            return home.full();
        }
        let Some(mut frame) = self.alloc(home) else {
            home.counters.no_frame_drops.add(1);
            return Err(TxFull);
        };
        let length = build(self.pool.table().data_mut(&mut frame));
        if length == 0 {
            self.pool.free(frame);
        } else if self.ring.push(frame, length as u32).is_err() {
            unreachable!("the ring had a free slot");
        }
        Ok(length)
    }

    #[inline]
    fn give(&mut self, frame: Frame, len: u32, home: &mut TxHome) -> Given {
        if !self.ring.takes(frame.arena()) {
            return Given::Foreign(frame);
        }
        self.make_room(home);
        if home.tap.is_on() && self.ring.free_slots() > 0 {
            home.tap.record(home.table.data(&frame, len as usize));
        }
        match self.ring.push(frame, len) {
            Ok(()) => {
                home.counters.packets.add(1);
                home.counters.bytes.add(u64::from(len));
                Given::Sent
            }
            Err(frame) => {
                home.counters.tx_full_drops.add(1);
                Given::Full(frame)
            }
        }
    }

    #[inline]
    fn may_have_room(&mut self) -> bool {
        self.ring.free_slots() > 0
    }

    #[inline]
    fn in_flight(&mut self) -> u32 {
        self.ring.in_flight()
    }

    #[inline]
    fn leaves_bell(&self) -> bool {
        T::LEAVES_BELL
    }

    #[inline]
    fn flush(&mut self, home: &mut TxHome) {
        T::flush(self, home);
    }

    /// A frame that was sent goes back to where it came from.
    #[inline]
    fn reclaim(&mut self, home: &mut TxHome) {
        let (pool, sorter) = (&mut self.pool, &mut home.sorter);
        self.ring.reclaim(|frame| match sorter {
            Some(sorter) if sorter.arena() == frame.arena() => sorter.push(frame),
            _ => pool.free(frame),
        });
    }

    fn owes_kick(&self) -> bool {
        self.tell.owes_kick()
    }

    fn account(&mut self) -> FrameAccount {
        FrameAccount {
            total: u64::from(self.pool.total()),
            pooled: self.pool.available() as u64,
            in_ring: u64::from(self.ring.in_flight()),
        }
    }
}

//! What a kind of device transmits with.

use napier_ring::{Frame, FramePool};

use super::{TxFull, TxHome};
use crate::port::Detached;
use crate::port::counters::FrameAccount;

/// The transmit end of one kind of device.
pub(crate) trait TxRing {
    /// Frames of senders will come, from this pool among others.
    fn expect_senders(&mut self, _pool: &FramePool) {}

    /// Builds a packet where it will be sent from, in room for `max_len` bytes or more, and says how long it is; 0: none was
    /// built, or it is counted already.
    ///
    /// # Errors
    /// [`TxFull`], which is counted.
    fn build(
        &mut self,
        max_len: usize,
        home: &mut TxHome,
        build: impl FnOnce(&mut [u8]) -> usize,
    ) -> Result<usize, TxFull>;

    /// Sends the first `len` bytes of a frame as it is, if it can be sent so.
    #[inline]
    fn give(&mut self, frame: Frame, _len: u32, _home: &mut TxHome) -> Given {
        Given::Foreign(frame)
    }

    /// Copies a packet where it will be sent from, and counts it; `None`: it is to be built.
    #[inline]
    fn copy(&mut self, _packet: &[u8], _home: &mut TxHome) -> Option<Result<(), TxFull>> {
        None
    }

    /// As at most `max` calls of [`build`](Self::build), until one builds nothing; returns how many were sent. What finds no
    /// room is counted once, and so is what was sent. `None`: they are to be built one by one.
    #[inline]
    fn build_many(
        &mut self,
        _max: usize,
        _max_len: usize,
        _home: &mut TxHome,
        _build: &mut impl FnMut(&mut [u8]) -> usize,
    ) -> Option<usize> {
        None
    }

    /// As [`copy`](Self::copy) of each of the packets, of which there are `many`; returns how many of them, the first ones,
    /// were sent. `None`: they are to be given one by one.
    #[inline]
    fn copy_many<'p>(
        &mut self,
        _packets: impl Iterator<Item = &'p [u8]>,
        _many: usize,
        _home: &mut TxHome,
    ) -> Option<usize> {
        None
    }

    /// Whether a packet can be given now, as far as is known without a look at the peer.
    fn may_have_room(&mut self) -> bool;

    /// Packets in the ring that the peer has not finished with, as far as is known.
    fn in_flight(&mut self) -> u32;

    /// Whether a flush notifies no thread, but leaves a bell.
    #[inline]
    fn leaves_bell(&self) -> bool {
        false
    }

    /// Shows the peer what was built and given, and tells it or leaves a bell.
    fn flush(&mut self, home: &mut TxHome);

    /// Takes back the frames that the peer has read.
    #[inline]
    fn reclaim(&mut self, _home: &mut TxHome) {}

    /// Whether packets wait that a kick did not move.
    fn owes_kick(&self) -> bool {
        false
    }

    /// Where this home's frames are. Without frames of its own all zero.
    fn account(&mut self) -> FrameAccount {
        FrameAccount::default()
    }
}

/// What became of a frame that was given.
pub(crate) enum Given {
    Sent,
    /// There is no room; that is counted.
    Full(Frame),
    /// It is not of this end's memory: to be copied.
    Foreign(Frame),
}

impl TxRing for Detached {
    fn build(
        &mut self,
        _max_len: usize,
        home: &mut TxHome,
        _build: impl FnOnce(&mut [u8]) -> usize,
    ) -> Result<usize, TxFull> {
        home.full()
    }

    fn may_have_room(&mut self) -> bool {
        false
    }

    fn in_flight(&mut self) -> u32 {
        0
    }

    fn flush(&mut self, _home: &mut TxHome) {}
}

//! The ends of a queue whose peer is another process: packets are copied out of and into memory that it can write.

use std::sync::Arc;

use napier_ring::Frame;
use napier_ring::memif::remote::{Receiver, SendError, Sender};

use super::Kick;
use crate::port::{RxHome, RxRing, TxFull, TxHome, TxRing, take_copied};

/// The receive end.
pub(crate) struct MemifRx {
    pub(super) ring: Receiver,
    /// Longer packets are refused.
    pub(super) frame_bytes: usize,
}

impl RxRing for MemifRx {
    #[inline]
    fn pending(&mut self) -> u32 {
        self.ring.pending()
    }

    #[inline]
    fn receive(&mut self, home: &mut RxHome) -> Option<(Frame, u32)> {
        take_copied(home, |to| {
            let room = to.len().min(self.frame_bytes);
            self.ring.take_into(&mut to[..room])
        })
    }

    fn takes_many(&self) -> bool {
        true
    }

    #[inline]
    fn take_many(&mut self, max: u32, home: &mut RxHome, each: &mut impl FnMut(Frame, u32)) -> (u32, u64) {
        let (mut taken, mut bytes) = (0, 0);
        while taken < max && self.ring.has_packets() {
            let Some((frame, length)) = self.receive(home) else { break };
            each(frame, length);
            taken += 1;
            bytes += u64::from(length);
        }
        (taken, bytes)
    }

    #[inline]
    fn refill(&mut self, home: &mut RxHome) -> Option<u16> {
        let released = self.ring.release();
        home.counters.index_errors.set(home.index_errors_before + self.ring.index_errors());
        // An empty poll changes nothing.
        (released > 0).then(|| self.ring.consumed())
    }
}

/// The transmit end. What is built is built in `scratch` first: nobody may read what it wrote where the peer can write.
pub(crate) struct MemifTx {
    pub(super) ring: Sender,
    pub(super) scratch: Box<[u8]>,
    pub(super) kick: Arc<Kick>,
}

impl MemifTx {
    fn note_errors(&self, home: &TxHome) {
        home.note_errors(self.ring.bad_descriptors(), self.ring.index_errors());
    }
}

impl TxRing for MemifTx {
    #[inline]
    fn build(
        &mut self,
        _max_len: usize,
        home: &mut TxHome,
        build: impl FnOnce(&mut [u8]) -> usize,
    ) -> Result<usize, TxFull> {
        if !self.ring.has_room() {
            // Perhaps there will be none any more: that is seen where it is counted.
            self.note_errors(home);
            return home.full();
        }
        match build(&mut self.scratch) {
            0 => Ok(0),
            length => send(&mut self.ring, &self.scratch[..length], home).map(|()| 0),
        }
    }

    #[inline]
    fn copy(&mut self, packet: &[u8], home: &mut TxHome) -> Option<Result<(), TxFull>> {
        Some(send(&mut self.ring, packet, home))
    }

    #[inline]
    fn may_have_room(&mut self) -> bool {
        self.ring.has_room()
    }

    #[inline]
    fn in_flight(&mut self) -> u32 {
        self.ring.in_flight()
    }

    fn flush(&mut self, home: &mut TxHome) {
        if self.ring.publish().peer_wants_interrupt {
            self.kick.ring();
            home.counters.kicks.add_shared(1);
        }
        self.note_errors(home);
    }

    fn reclaim(&mut self, home: &mut TxHome) {
        self.note_errors(home);
    }
}

/// Copies a packet to the peer. One that its buffers cannot hold is dropped: it never will fit.
#[inline]
fn send(ring: &mut Sender, packet: &[u8], home: &TxHome) -> Result<(), TxFull> {
    match ring.send(packet) {
        Ok(()) => {
            home.counters.packets.add(1);
            home.counters.bytes.add(packet.len() as u64);
            Ok(())
        }
        Err(SendError::TooLong) => {
            home.counters.too_long_drops.add(1);
            Ok(())
        }
        Err(SendError::Full) => home.full(),
    }
}

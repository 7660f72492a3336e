//! The ends of a queue whose peer is another process: packets are copied out of and into memory that it can write.

use std::sync::Arc;

use napier_memif::drive::Kick;
use napier_ring::Frame;
use napier_ring::memif::BadDescriptor;
use napier_ring::memif::remote::{Landing, Receiver, Sender};

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
        let ready = home.pool.ready(max as usize).min(max as usize);
        if ready == 0 {
            // What waits is dropped and counted there.
            let received = self.receive(home);
            assert!(received.is_none(), "a frame came home meanwhile");
            return (0, 0);
        }
        let mut hand = Hand { home, frame_bytes: self.frame_bytes, each, taken: 0, bytes: 0 };
        self.ring.take_burst(ready, &mut hand);
        (hand.taken, hand.bytes)
    }

    #[inline]
    fn refill(&mut self, home: &mut RxHome) -> Option<u16> {
        let released = self.ring.release();
        home.counters.index_errors.set(home.index_errors_before + self.ring.index_errors());
        // An empty poll changes nothing.
        (released > 0).then(|| self.ring.consumed())
    }
}

/// Copies packets into frames of the home and hands them on. There is a frame for each.
struct Hand<'a, E> {
    home: &'a mut RxHome,
    frame_bytes: usize,
    each: &'a mut E,
    taken: u32,
    bytes: u64,
}

impl<E: FnMut(Frame, u32)> Landing for Hand<'_, E> {
    #[inline]
    fn room(&mut self) -> &mut [u8] {
        let Some(bytes) = self.home.pool.next_bytes() else { panic!("the frames were counted before") };
        let room = bytes.len().min(self.frame_bytes);
        &mut bytes[..room]
    }

    #[inline]
    fn landed(&mut self, length: usize) {
        let Some(frame) = self.home.pool.alloc() else { panic!("the frame was filled before") };
        (self.each)(frame, length as u32); // at most a frame
        self.taken += 1;
        self.bytes += length as u64;
    }

    #[cold]
    fn refused(&mut self, why: BadDescriptor) {
        self.home.counters.refused(why);
    }
}

/// Packets that are built before they are copied to the peer.
const BUILD_MAX: usize = 32;

/// Bytes for those of them that fit; one packet always does.
const SCRATCH_BYTES: usize = 64 << 10;

/// The transmit end. What is built is built in `scratch` first: what it wrote must not be read where the peer can write.
pub(crate) struct MemifTx {
    ring: Sender,
    /// Room for one packet or more, `stride` bytes apart.
    scratch: Box<[u8]>,
    stride: usize,
    kick: Arc<Kick>,
}

impl MemifTx {
    /// The end for packets of at most `frame_bytes`.
    pub(super) fn new(ring: Sender, frame_bytes: usize, kick: Arc<Kick>) -> Self {
        // No power of two, so that packet heads spread over the cache sets.
        let stride = frame_bytes.next_multiple_of(64) + 64;
        let many = (SCRATCH_BYTES / stride).clamp(1, BUILD_MAX);
        Self { ring, scratch: vec![0; many * stride].into(), stride, kick }
    }

    fn note_errors(&self, home: &TxHome) {
        home.note_errors(self.ring.bad_descriptors(), self.ring.index_errors());
    }
}

impl TxRing for MemifTx {
    #[inline]
    fn build(
        &mut self,
        max_len: usize,
        home: &mut TxHome,
        build: impl FnOnce(&mut [u8]) -> usize,
    ) -> Result<usize, TxFull> {
        if !self.ring.has_room() {
            // Perhaps there will be none any more: that is seen where it is counted.
            self.note_errors(home);
            return home.full();
        }
        match build(&mut self.scratch[..max_len]) {
            0 => Ok(0),
            length => send_one(&mut self.ring, &self.scratch[..length], home).map(|()| 0),
        }
    }

    /// Builds some packets, then copies them: what was just written by narrow moves and is read by wide ones waits until it is
    /// in the cache, and with it for all packets before, whose slots another processor has.
    #[inline]
    fn build_many(
        &mut self,
        max: usize,
        max_len: usize,
        home: &mut TxHome,
        build: &mut impl FnMut(&mut [u8]) -> usize,
    ) -> Option<usize> {
        let mut built = 0;
        while built < max {
            let asked = (max - built).min(self.scratch.len() / self.stride);
            let room = self.ring.prepare(asked);
            let (mut lengths, mut many) = ([0; BUILD_MAX], 0);
            while many < room {
                lengths[many] = build(&mut self.scratch[many * self.stride..][..max_len]);
                if lengths[many] == 0 {
                    break;
                }
                many += 1;
            }
            let (scratch, stride) = (&self.scratch, self.stride);
            let packets = (0..many).map(|at| &scratch[at * stride..][..lengths[at]]);
            let sent = send_many(&mut self.ring, packets, home);
            built += sent;
            // One that is refused is counted, not all that might have been built; those whose buffers were spoilt are gone.
            let refused = many - sent + usize::from(many == room && room < asked);
            if refused > 0 {
                self.note_errors(home);
                home.counters.tx_full_drops.add(refused as u64);
            }
            if sent < asked {
                break;
            }
        }
        Some(built)
    }

    #[inline]
    fn copy(&mut self, packet: &[u8], home: &mut TxHome) -> Option<Result<(), TxFull>> {
        Some(send_one(&mut self.ring, packet, home))
    }

    #[inline]
    fn copy_many<'p>(
        &mut self,
        packets: impl Iterator<Item = &'p [u8]>,
        many: usize,
        home: &mut TxHome,
    ) -> Option<usize> {
        self.ring.prepare(many);
        let sent = send_many(&mut self.ring, packets, home);
        if sent < many {
            self.note_errors(home);
            home.counters.tx_full_drops.add((many - sent) as u64);
        }
        Some(sent)
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

/// Copies packets to the peer until there is no room, which is not counted; returns how many. One that the peer's buffers
/// cannot hold is dropped: it never will fit.
#[inline]
fn send_many<'p>(ring: &mut Sender, packets: impl Iterator<Item = &'p [u8]>, home: &TxHome) -> usize {
    let sent = ring.send_burst(packets);
    home.counters.packets.add(sent.packets);
    home.counters.bytes.add(sent.bytes);
    if sent.too_long > 0 {
        home.counters.too_long_drops.add(sent.too_long);
    }
    (sent.packets + sent.too_long) as usize // at most what was given
}

/// As [`send_many`], one packet.
///
/// # Errors
/// [`TxFull`], which is counted.
#[inline]
fn send_one(ring: &mut Sender, packet: &[u8], home: &TxHome) -> Result<(), TxFull> {
    if send_many(ring, core::iter::once(packet), home) == 1 { Ok(()) } else { home.full() }
}

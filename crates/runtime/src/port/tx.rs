//! The transmit side of a queue.

use std::sync::Arc;

use napier_ring::memif::remote::{SendError, Sender};
use napier_ring::memif::{C2sProducer, Publish, S2cProducer};
use napier_ring::{Frame, FramePool, FrameSorter, FrameTable};

use super::bell::Bell;
use super::counters::{FrameAccount, TxCounters};
use super::moved::{bring_home, build_in_frame, make_room, push_given};
use crate::capture::Tap;
use crate::link::LinkLine;
use crate::memif::Kick;
use crate::xdp::XskTxEnd;

/// A packet was not sent, and counted: the peer's ring is full, or no frame is free.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the transmit queue is full: the receiver is slower than the sender")]
pub(crate) struct TxFull;

/// A queue that packets go into. One claimant at a time.
pub(crate) struct TxQueue {
    end: TxEnd,
    table: Arc<FrameTable>,
    frame_bytes: usize,
    counters: Arc<TxCounters>,
    /// Brings the frames of senders home.
    sorter: Option<FrameSorter>,
    /// Brings frames home that were received and sent on by copying them.
    forwarded: Option<FrameSorter>,
    /// Errors of the ends before this one: bad descriptors, then indices.
    errors_before: (u64, u64),
    tap: Arc<Tap>,
    /// The tap is on; changed by a claimant.
    captures: bool,
    /// The peer is to be interrupted when the claim ends.
    bell: Option<Bell>,
}

/// Where packets go.
pub(crate) enum TxEnd {
    /// The client of a link: packets are built in frames of `pool`, or sent in frames of the region as they are.
    LinkClient {
        ring: C2sProducer,
        pool: FramePool,
        /// Frames that may be with the peer before it is asked for them.
        reclaim_at: u32,
        peer_irq: Arc<LinkLine>,
    },
    /// The server of a link: packets are built in the buffers that the client posted.
    LinkServer { ring: S2cProducer, slots: u32, peer_irq: Arc<LinkLine> },
    /// A memif peer in another process: packets are copied into memory that it can write. What is built is built in
    /// `scratch` first, for no peer may read there what it wrote.
    Remote { ring: Sender, scratch: Box<[u8]>, kick: Arc<Kick> },
    /// An AF_XDP socket: packets are built in its memory, or sent in frames of it as they are.
    Xsk(Box<XskTxEnd>),
    /// Nowhere: the peer is not there. Packets are refused as by a full ring.
    Detached,
}

impl TxQueue {
    /// A queue for packets of at most `frame_bytes`.
    pub(crate) fn new(end: TxEnd, table: Arc<FrameTable>, frame_bytes: u32) -> Self {
        let (frame_bytes, counters) = (frame_bytes as usize, Arc::default());
        Self {
            end,
            table,
            frame_bytes,
            counters,
            sorter: None,
            forwarded: None,
            errors_before: (0, 0),
            tap: Tap::new(),
            captures: false,
            bell: None,
        }
    }

    /// Whom the claimant is to interrupt when the claim has ended.
    #[inline]
    pub(crate) fn take_bell(&mut self) -> Option<Bell> {
        self.bell.take()
    }

    /// The claim has not ended after all.
    pub(crate) fn keep_bell(&mut self, bell: Option<Bell>) {
        self.bell = bell;
    }

    /// Packets go to `end` from now on. Returns the end that they went to before, with whatever it holds.
    pub(crate) fn attach(&mut self, end: TxEnd) -> TxEnd {
        if let Some(bell) = self.bell.take() {
            bell.ring();
        }
        self.errors_before = (self.counters.bad_descriptors.get(), self.counters.index_errors.get());
        std::mem::replace(&mut self.end, end)
    }

    /// Frames of senders will come; `pool` is one of theirs. At the client they go out as they are.
    pub(crate) fn expect_senders(&mut self, pool: &FramePool) {
        match &mut self.end {
            TxEnd::LinkClient { ring, .. } => ring.add_arena(pool.table(), pool.arena()),
            TxEnd::Xsk(end) => end.ring.add_arena(pool.table(), pool.arena()),
            _ => {}
        }
        self.sorter = Some(FrameSorter::new(pool));
    }

    /// Received frames will be sent on by copying them; `pool` is one of those that they come from.
    pub(crate) fn expect_forwarded(&mut self, pool: &FramePool) {
        self.forwarded = Some(FrameSorter::new(pool));
    }

    /// Builds a packet of at most `max_len` bytes where it will be sent from. `build` gets `max_len` bytes, which
    /// hold whatever was there before, and returns the packet's length; 0 sends nothing. The peer sees the packet
    /// after [`flush`](Self::flush).
    ///
    /// # Errors
    ///
    /// [`TxFull`]; `build` was not called, unless a peer in another process has spoilt its last buffers.
    ///
    /// # Panics
    ///
    /// If `max_len` is more than a frame, or `build` returns more than `max_len`.
    pub(crate) fn build(&mut self, max_len: usize, build: impl FnOnce(&mut [u8]) -> usize) -> Result<(), TxFull> {
        assert!(max_len <= self.frame_bytes, "a packet of {max_len} bytes for frames of {}", self.frame_bytes);
        let (tap, captures) = (&self.tap, self.captures);
        // It is called only when the packet will go out.
        let build = |buffer: &mut [u8]| {
            let length = build(&mut buffer[..max_len]);
            assert!(length <= max_len, "built a packet beyond its bound");
            if captures && length > 0 {
                tap.record(&buffer[..length]);
            }
            length
        };
        let length = match &mut self.end {
            TxEnd::LinkClient { ring, pool, .. } => {
                build_in_frame(ring, pool, &mut self.sorter, &self.counters, build)?
            }
            TxEnd::Xsk(end) => build_in_frame(&mut end.ring, &mut end.pool, &mut self.sorter, &self.counters, build)?,
            TxEnd::LinkServer { ring, .. } => ring.build_at_least(max_len, build).map_err(|_| {
                self.counters.tx_full_drops.add(1);
                TxFull
            })?,
            TxEnd::Remote { ring, scratch, .. } => {
                if !ring.has_room() {
                    self.counters.tx_full_drops.add(1);
                    // Perhaps there will be none any more: that is seen where it is counted.
                    self.note_ring_errors();
                    return Err(TxFull);
                }
                match build(scratch) {
                    0 => 0,
                    length => return copy_to_peer(ring, &scratch[..length], &self.counters),
                }
            }
            TxEnd::Detached => {
                self.counters.tx_full_drops.add(1);
                return Err(TxFull);
            }
        };
        if length > 0 {
            self.counters.packets.add(1);
            self.counters.bytes.add(length as u64);
        }
        Ok(())
    }

    /// Sends the first `len` bytes of a frame. A frame of this end's region goes out as it is; any other is copied
    /// and given back.
    ///
    /// # Errors
    ///
    /// The frame, if there is no room; that is counted.
    ///
    /// # Panics
    ///
    /// If `len` is 0 or more than a frame.
    pub(crate) fn give(&mut self, frame: Frame, len: u32) -> Result<(), Frame> {
        let bytes = len as usize;
        assert!((1..=self.frame_bytes).contains(&bytes), "a packet of {len} bytes for frames of {}", self.frame_bytes);
        match &mut self.end {
            TxEnd::LinkClient { ring, pool, .. } if ring.takes(frame.arena()) => {
                make_room(ring, pool, &mut self.sorter);
                return push_given(ring, frame, len, (&self.table, &self.counters, &self.tap));
            }
            TxEnd::Xsk(end) if end.ring.takes(frame.arena()) => {
                make_room(&mut end.ring, &mut end.pool, &mut self.sorter);
                return push_given(&mut end.ring, frame, len, (&self.table, &self.counters, &self.tap));
            }
            _ => {}
        }
        let copied = match &mut self.end {
            TxEnd::Remote { ring, .. } => {
                let packet = self.table.data(&frame, bytes);
                let copied = copy_to_peer(ring, packet, &self.counters);
                if self.captures && copied.is_ok() {
                    self.tap.record(packet);
                }
                copied
            }
            _ => {
                let table = self.table.clone();
                self.build(bytes, |buffer| {
                    buffer.copy_from_slice(table.data(&frame, bytes));
                    bytes
                })
            }
        };
        match copied {
            Ok(()) => {
                match (&mut self.forwarded, &mut self.sorter) {
                    (Some(sorter), _) if sorter.arena() == frame.arena() => sorter.push(frame),
                    (_, Some(sorter)) if sorter.arena() == frame.arena() => sorter.push(frame),
                    _ => self.table.give_back(frame),
                }
                Ok(())
            }
            Err(TxFull) => Err(frame),
        }
    }

    /// Refuses a packet as if the ring were full, and counts it: what others have left waits for room in front of it.
    #[cold]
    pub(crate) fn refuse<E>(&self, error: E) -> Result<(), E> {
        self.counters.tx_full_drops.add(1);
        Err(error)
    }

    /// Whether packets go nowhere: one is refused then, and counted.
    pub(crate) fn refuse_if_detached(&self) -> bool {
        let detached = matches!(&self.end, TxEnd::Detached);
        self.counters.tx_full_drops.add(u64::from(detached));
        detached
    }

    /// Whether a packet can be given now, as far as is known without a look at the peer.
    #[inline]
    pub(crate) fn may_have_room(&mut self) -> bool {
        match &mut self.end {
            TxEnd::LinkClient { ring, .. } => ring.free_slots() > 0,
            TxEnd::LinkServer { ring, .. } => ring.free_slots() > 0,
            TxEnd::Remote { ring, .. } => ring.has_room(),
            TxEnd::Xsk(end) => end.ring.free_slots() > 0,
            TxEnd::Detached => false,
        }
    }

    /// Packets in the ring that the peer has not finished with, as far as is known.
    pub(crate) fn in_flight(&mut self) -> u32 {
        match &mut self.end {
            TxEnd::LinkClient { ring, .. } => ring.in_flight(),
            TxEnd::Xsk(end) => end.ring.in_flight(),
            // A peer that takes a packet posts an empty buffer for it.
            TxEnd::LinkServer { ring, slots, .. } => slots.saturating_sub(ring.free_slots()),
            TxEnd::Remote { ring, .. } => ring.in_flight(),
            TxEnd::Detached => 0,
        }
    }

    /// Whether a [`flush`](Self::flush) tells nobody, but leaves a bell: the peer is in this process.
    #[inline]
    pub(crate) fn leaves_bell(&self) -> bool {
        matches!(&self.end, TxEnd::LinkClient { .. } | TxEnd::LinkServer { .. })
    }

    /// Shows the peer what was built and given. Where it wants to be interrupted, and shares this process, that is left to
    /// the end of the claim ([`take_bell`](Self::take_bell)): a wake-up that preempts the claimant would keep all others
    /// waiting for it.
    pub(crate) fn flush(&mut self) {
        if let TxEnd::Remote { ring, kick, .. } = &mut self.end {
            if ring.publish().peer_wants_interrupt {
                kick.ring();
                self.counters.kicks.add_shared(1);
            }
            self.send_home();
            self.note_ring_errors();
            return;
        }
        let (publish, peer_irq) = match &mut self.end {
            TxEnd::LinkClient { ring, pool, reclaim_at, peer_irq } => {
                let publish = ring.publish();
                if ring.in_flight() >= *reclaim_at {
                    ring.reclaim(|frame| bring_home(pool, &mut self.sorter, frame));
                }
                (publish, peer_irq)
            }
            TxEnd::LinkServer { ring, peer_irq, .. } => (ring.publish(), peer_irq),
            TxEnd::Xsk(end) => {
                let sorter = &mut self.sorter;
                end.flush(&self.counters, |pool, frame| bring_home(pool, sorter, frame));
                self.send_home();
                return self.note_ring_errors();
            }
            TxEnd::Remote { .. } | TxEnd::Detached => return,
        };
        let Publish { published, peer_wants_interrupt } = publish;
        if peer_wants_interrupt {
            if !peer_irq.is_announced() {
                Bell::keep(&mut self.bell, Bell::new(peer_irq, published, &self.counters));
            }
        } else if published > 0 {
            peer_irq.note_masked();
        }
        self.send_home();
        self.note_ring_errors();
    }

    /// Takes back the frames that the peer has read. It happens by itself when they are needed.
    pub(crate) fn reclaim(&mut self) {
        let sorter = &mut self.sorter;
        match &mut self.end {
            TxEnd::LinkClient { ring, pool, .. } => {
                ring.reclaim(|frame| bring_home(pool, sorter, frame));
            }
            TxEnd::Xsk(end) => end.reclaim(|pool, frame| bring_home(pool, sorter, frame)),
            TxEnd::Remote { .. } => self.note_ring_errors(),
            TxEnd::LinkServer { .. } | TxEnd::Detached => {}
        }
        self.send_home();
    }

    /// Kicks the peer again if a kick could not move what waits. `true` = packets wait still.
    pub(crate) fn kick_again(&mut self) -> bool {
        if !matches!(&self.end, TxEnd::Xsk(end) if end.owes_kick()) {
            return false;
        }
        self.flush();
        matches!(&self.end, TxEnd::Xsk(end) if end.owes_kick())
    }

    /// Frames that were read are their homes' again.
    #[inline]
    fn send_home(&mut self) {
        for sorter in [&mut self.sorter, &mut self.forwarded].into_iter().flatten() {
            sorter.flush();
        }
    }

    /// Whether a packet can be built now. Looks at the peer if it must.
    #[cfg(test)]
    pub(crate) fn has_room(&mut self) -> bool {
        match &mut self.end {
            TxEnd::LinkClient { ring, pool, .. } => {
                make_room(ring, pool, &mut self.sorter);
                ring.free_slots() > 0
            }
            TxEnd::LinkServer { ring, .. } => ring.free_slots() > 0,
            TxEnd::Remote { ring, .. } => ring.has_room(),
            TxEnd::Xsk(end) => {
                make_room(&mut end.ring, &mut end.pool, &mut self.sorter);
                end.ring.free_slots() > 0
            }
            TxEnd::Detached => false,
        }
    }

    /// Where this home's frames are. Without frames of its own (the server's side) all zero.
    pub(crate) fn account(&mut self) -> FrameAccount {
        match &mut self.end {
            TxEnd::LinkClient { ring, pool, .. } => FrameAccount {
                total: u64::from(pool.total()),
                pooled: pool.available() as u64,
                in_ring: u64::from(ring.in_flight()),
            },
            TxEnd::Xsk(end) => FrameAccount {
                total: u64::from(end.pool.total()),
                pooled: end.pool.available() as u64,
                in_ring: u64::from(end.ring.in_flight()),
            },
            TxEnd::LinkServer { .. } | TxEnd::Remote { .. } | TxEnd::Detached => FrameAccount::default(),
        }
    }

    /// The queue's counters.
    pub(crate) fn counters(&self) -> &Arc<TxCounters> {
        &self.counters
    }

    /// Looks whether somebody captures.
    pub(crate) fn look_at_tap(&mut self) {
        self.captures = self.tap.is_on();
    }

    /// Where what goes out can be captured.
    pub(crate) fn tap(&self) -> &Arc<Tap> {
        &self.tap
    }

    fn note_ring_errors(&self) {
        let (bad_descriptors, index_errors) = match &self.end {
            TxEnd::LinkClient { ring, .. } => (0, ring.index_errors()),
            TxEnd::LinkServer { ring, .. } => (ring.bad_descriptors(), ring.index_errors()),
            TxEnd::Remote { ring, .. } => (ring.bad_descriptors(), ring.index_errors()),
            TxEnd::Xsk(end) => (end.ring.bad_descriptors(), end.ring.index_errors()),
            TxEnd::Detached => return,
        };
        self.counters.bad_descriptors.set(self.errors_before.0 + bad_descriptors);
        self.counters.index_errors.set(self.errors_before.1 + index_errors);
    }
}

/// Copies a packet to a peer in another process. One that its buffers cannot hold is dropped: it never will fit.
#[inline]
fn copy_to_peer(ring: &mut Sender, packet: &[u8], counters: &TxCounters) -> Result<(), TxFull> {
    match ring.send(packet) {
        Ok(()) => {
            counters.packets.add(1);
            counters.bytes.add(packet.len() as u64);
            Ok(())
        }
        Err(SendError::TooLong) => {
            counters.too_long_drops.add(1);
            Ok(())
        }
        Err(SendError::Full) => {
            counters.tx_full_drops.add(1);
            Err(TxFull)
        }
    }
}

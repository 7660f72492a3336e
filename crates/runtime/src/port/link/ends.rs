//! The ends of a link's queues.

use std::sync::Arc;

use napier_ring::memif::{C2sConsumer, C2sProducer, Publish, S2cConsumer, S2cProducer};
use napier_ring::{Frame, FramePool};

use crate::port::{LinkLine, MovedTx, RxHome, RxRing, Tell, TxFull, TxHome, TxRing, take_copied};

/// The client's way: a packet is in one of the frames that it posted; a fresh one takes its place. Ends within one ring
/// size, for what is posted here is not published yet.
impl RxRing for S2cConsumer {
    /// All slots are filled with frames, and stay filled.
    fn begin(&mut self, pool: &mut FramePool) {
        while self.free_slots() > 0 {
            let Some(frame) = pool.alloc() else { panic!("a home has fewer frames than its ring slots") };
            assert!(self.post(frame).is_ok(), "a free slot refused a frame");
        }
    }

    #[inline]
    fn pending(&mut self) -> u32 {
        self.pending()
    }

    #[inline]
    fn receive(&mut self, home: &mut RxHome) -> Option<(Frame, u32)> {
        self.exchange(|| home.pool.alloc(), || home.counters.no_frame_drops.add(1))
    }

    #[inline]
    fn takes_many(&self) -> bool {
        true
    }

    #[inline]
    #[expect(clippy::redundant_closure, reason = "a closure by reference is called where it could be inline")]
    fn take_many(&mut self, max: u32, home: &mut RxHome, each: &mut impl FnMut(Frame, u32)) -> (u32, u64) {
        let RxHome { pool, counters, .. } = home;
        self.exchange_many(max, pool, || counters.no_frame_drops.add(1), |frame, len| each(frame, len))
    }

    #[inline]
    fn refill(&mut self, home: &mut RxHome) -> Option<u16> {
        home.counters.index_errors.set(self.index_errors());
        // An empty poll changes nothing.
        if self.publish_posts() == 0 {
            return None;
        }
        home.counters.bad_descriptors.set(self.bad_descriptors());
        Some(self.consumed())
    }

    fn in_ring(&self) -> u32 {
        self.posted()
    }
}

/// The server's way: a packet is copied out of the client's memory.
impl RxRing for C2sConsumer {
    #[inline]
    fn pending(&mut self) -> u32 {
        self.pending()
    }

    #[inline]
    fn receive(&mut self, home: &mut RxHome) -> Option<(Frame, u32)> {
        take_copied(home, |to| self.take_into(to))
    }

    #[inline]
    fn refill(&mut self, home: &mut RxHome) -> Option<u16> {
        self.release();
        home.counters.index_errors.set(self.index_errors());
        Some(self.consumed())
    }
}

/// The client's transmit end.
pub(crate) type ClientTx = MovedTx<PeerLine>;

/// The interrupt of a link's peer.
pub(crate) struct PeerLine(pub(super) Arc<LinkLine>);

/// The server's: packets are built in the buffers that the client posted.
pub(crate) struct ServerTx {
    pub(super) ring: S2cProducer,
    pub(super) slots: u32,
    pub(super) peer_irq: Arc<LinkLine>,
}

/// Leaves a bell for a peer that wants to be interrupted to the end of the claim: a wake-up that preempts the claimant would
/// keep all others waiting for it.
#[inline]
fn leave_bell(peer_irq: &Arc<LinkLine>, publish: Publish, home: &mut TxHome) {
    let Publish { published, peer_wants_interrupt } = publish;
    if peer_wants_interrupt {
        if !peer_irq.is_announced() {
            home.leave_bell(peer_irq, published);
        }
    } else if published > 0 {
        peer_irq.note_masked();
    }
}

impl Tell for PeerLine {
    type Ring = C2sProducer;
    const LEAVES_BELL: bool = true;

    #[inline]
    fn flush(end: &mut ClientTx, home: &mut TxHome) {
        let publish = end.ring.publish();
        end.reclaim_many(home);
        leave_bell(&end.tell.0, publish, home);
        home.note_errors(0, end.ring.index_errors());
    }
}

impl TxRing for ServerTx {
    #[inline]
    fn build(
        &mut self,
        max_len: usize,
        home: &mut TxHome,
        build: impl FnOnce(&mut [u8]) -> usize,
    ) -> Result<usize, TxFull> {
        self.ring.build_at_least(max_len, build).or_else(|_| home.full())
    }

    #[inline]
    fn may_have_room(&mut self) -> bool {
        self.ring.free_slots() > 0
    }

    /// A peer that takes a packet posts an empty buffer for it.
    #[inline]
    fn in_flight(&mut self) -> u32 {
        self.slots.saturating_sub(self.ring.free_slots())
    }

    #[inline]
    fn leaves_bell(&self) -> bool {
        true
    }

    #[inline]
    fn flush(&mut self, home: &mut TxHome) {
        let publish = self.ring.publish();
        leave_bell(&self.peer_irq, publish, home);
        home.note_errors(self.ring.bad_descriptors(), self.ring.index_errors());
    }
}

//! The transmit lock: the ring of a queue, and what others leave to its holder.
//!
//! | who | finds it free | finds it taken |
//! |---|---|---|
//! | a program | takes it | waits |
//! | a thread that works for others (`nowait`), to send without a discipline | takes it | leaves a copy of the frame; beyond [`LEFT_MAX`] it is refused as by a full ring |
//! | the same, to run the queue | takes it | leaves a note and ends as if the queue were stopped |
//! | a thread that owes the peer a kick | kicks | leaves a note |
//!
//! The holder works all that off before it lets go, oldest first; what the ring has no room for stays in front of
//! everything that is sent later. So packets of one flow keep their order: the thread that sends the later one has seen the earlier
//! one left, and no thread gets the lock before it was taken in.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};

use napier_core::time::Instant;
use napier_ring::{Owned, Owner, Release};

use super::limit::ByteLimit;
use super::{Mode, TxPath, kicks};
use crate::port::wait_for;
use crate::port::{Bell, Counter, TxEnd, TxQueue};
use napier_stack::device::TxError;
use napier_sys::clock::Clock;
use napier_sys::nowait;

/// Frames of a queue that were left to the holder of its transmit lock and have not gone into the ring.
pub(super) const LEFT_MAX: u64 = 256;

/// Looks at a taken lock before one who does not wait for it does something else.
pub(super) const LOOKS: u32 = 128;

type Frame = Box<[u8]>;
/// The lock.
pub(super) type WireLock = Owned<Wire, Frame>;

/// What the transmit lock protects.
pub(crate) struct Wire {
    pub(crate) queue: TxQueue,
    pub(super) limit: Option<ByteLimit>,
    /// Frames that others have left and the ring had no room for, oldest first.
    left: VecDeque<Frame>,
}

/// What is known of frames that were left, without the lock.
#[derive(Default)]
pub(super) struct LeftFrames {
    count: Counter,
    /// Because too many were.
    refused: Counter,
    /// Some wait for room in the ring, as a hint.
    some: AtomicBool,
}

impl LeftFrames {
    /// Frames that were left to the holder of the transmit lock.
    pub(super) fn count(&self) -> u64 {
        self.count.get()
    }

    /// Frames that could not be left because too many were.
    pub(super) fn refused(&self) -> u64 {
        self.refused.get()
    }

    /// Some wait for room in the ring, as a hint.
    #[inline]
    pub(super) fn any(&self) -> bool {
        self.some.load(Ordering::Relaxed)
    }
}

/// Room for one frame that will be left. A drop gives it back.
struct Reserved<'a>(&'a WireLock);

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.0.unreserve(1);
    }
}

/// The transmit lock in hand. A drop works off what others have left.
#[must_use = "the lock is free again as soon as this is dropped"]
pub(crate) struct OnWire<'a> {
    path: &'a TxPath,
    /// Gone only while it is dropped.
    owner: Option<Owner<'a, Wire, Frame>>,
    /// Frames of others that went into the ring meanwhile.
    worked_off: u64,
}

impl Wire {
    pub(super) fn new(queue: TxQueue) -> Self {
        Self { queue, limit: None, left: VecDeque::new() }
    }

    /// Takes back what the peer has read, for the senders and for the byte limit.
    pub(super) fn complete(&mut self, now: Instant) {
        self.queue.reclaim();
        if let Some(limit) = &mut self.limit {
            limit.completed(now, self.queue.in_flight());
        }
    }

    /// Whether the ring has room for a packet; looks at the peer only if it must.
    #[inline]
    pub(super) fn has_room(&mut self, now: Instant) -> bool {
        if self.queue.may_have_room() {
            return true;
        }
        self.complete(now);
        self.queue.may_have_room()
    }

    /// Bytes that may still go into the ring; without limits nothing is bulked.
    #[inline]
    pub(super) fn allowance(&self) -> i32 {
        self.limit.as_ref().map_or(0, ByteLimit::available)
    }

    /// Sends what others have left, as far as there is room, and gives how many frames that were.
    fn send_left(&mut self) -> u64 {
        let (now, before) = (Clock.now(), self.left.len());
        while let Some(frame) = self.left.pop_front() {
            let sent = self.has_room(now)
                && self.queue.build(frame.len(), |slot| {
                    slot.copy_from_slice(&frame);
                    frame.len()
                }) == Ok(());
            if !sent && !self.queue.refuse_if_detached() {
                self.left.push_front(frame);
                break;
            }
        }
        (before - self.left.len()) as u64
    }
}

impl<'a> OnWire<'a> {
    #[inline]
    fn new(path: &'a TxPath, owner: Owner<'a, Wire, Frame>) -> Self {
        Self { path, owner: Some(owner), worked_off: 0 }
    }

    /// What others have left goes first; false if some of it has to wait for room.
    #[inline]
    pub(crate) fn is_clear(&mut self) -> bool {
        self.left.is_empty() || self.clear()
    }

    #[cold]
    fn clear(&mut self) -> bool {
        self.worked_off += self.send_left();
        let (path, clear) = (self.path, self.left.is_empty());
        path.note_left(!clear);
        path.flush_or_defer(self);
        clear
    }
}

impl Deref for OnWire<'_> {
    type Target = Wire;

    #[inline]
    fn deref(&self) -> &Wire {
        self.owner.as_ref().expect("there until the drop")
    }
}

impl DerefMut for OnWire<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Wire {
        self.owner.as_mut().expect("there until the drop")
    }
}

impl Drop for OnWire<'_> {
    #[inline]
    fn drop(&mut self) {
        let Some(mut owner) = self.owner.take() else { return };
        let (bell, news) = (owner.queue.take_bell(), owner.queue.take_news());
        match owner.release(self.worked_off) {
            Release::Freed { .. } => {
                ring(bell);
                self.path.tell(news);
            }
            Release::Noted(mut owner) => {
                owner.queue.keep_bell(bell);
                owner.queue.keep_news(news);
                self.path.work_off(owner, self.worked_off);
            }
        }
    }
}

/// Interrupts the peer, when no thread waits for the lock any more: whom that wakes may take this thread's processor.
#[inline]
pub(super) fn ring(bell: Option<Bell>) {
    let Some(bell) = bell else { return };
    #[cfg(test)]
    super::hold::at(super::hold::Point::BeforeBell);
    kicks::ring_or_defer(bell);
}

impl TxPath {
    /// Takes the transmit lock, for one frame or one batch; waits for its holder. Not for a thread that works for
    /// others.
    #[inline]
    pub(crate) fn claim_wire(&self) -> OnWire<'_> {
        self.try_claim_wire().unwrap_or_else(|| self.wait_for_wire().0)
    }

    /// Takes the transmit lock if it is free.
    #[inline]
    pub(crate) fn try_claim_wire(&self) -> Option<OnWire<'_>> {
        self.wire.0.try_own().map(|owner| OnWire::new(self, owner))
    }

    /// Takes the transmit lock, or leaves a note: the holder kicks the peer, and schedules the queue.
    pub(super) fn claim_wire_or_note(&self) -> Option<OnWire<'_>> {
        self.wire.0.own_or_note().map(|owner| OnWire::new(self, owner))
    }

    /// Takes the transmit lock for who works for others and runs the queue, or sees to it that the queue is run again:
    /// the owner comes back by itself.
    pub(super) fn claim_wire_to_run(&self) -> Option<OnWire<'_>> {
        if self.mode() != Mode::Owner {
            return self.claim_wire_or_note();
        }
        // Who has it mostly takes back frames, which is over sooner than another turn.
        (0..LOOKS).find_map(|_| {
            let free = if self.wire.0.is_owned() { None } else { self.try_claim_wire() };
            if free.is_none() {
                std::hint::spin_loop();
            }
            free
        })
    }

    /// Waits for the transmit lock, and says how long that took in ticks.
    #[cold]
    pub(super) fn wait_for_wire(&self) -> (OnWire<'_>, u64) {
        // Only looks, so that the line stays with the thread that works under the lock.
        wait_for(|| if self.wire.0.is_owned() { None } else { self.try_claim_wire() })
    }

    /// Builds a packet in the ring and shows it to the peer: a queue without discipline. Who must not wait for the lock
    /// leaves the packet to its holder.
    ///
    /// # Errors
    /// There is no room; `build` was not called.
    #[inline]
    pub(crate) fn send_direct(&self, len_max: usize, build: &mut dyn FnMut(&mut [u8]) -> usize) -> Result<(), TxError> {
        let mut wire = match self.try_claim_wire() {
            Some(wire) => wire,
            None if nowait::may_wait() => self.wait_for_wire().0,
            None => return self.leave_frame(len_max, build),
        };
        #[cfg(test)]
        super::hold::at(super::hold::Point::UnderWire);
        if !wire.is_clear() || wire.queue.build(len_max, |slot| build(slot)).is_err() {
            return Err(TxError::Full);
        }
        self.flush_or_defer(&mut wire);
        Ok(())
    }

    #[cold]
    fn leave_frame(&self, len_max: usize, build: &mut dyn FnMut(&mut [u8]) -> usize) -> Result<(), TxError> {
        let lock = &self.wire.0;
        if !lock.reserve(1, LEFT_MAX) {
            self.left.refused.add_shared(1);
            return Err(TxError::Full);
        }
        // Until there is a frame: none was asked for, or `build` panics.
        let reserved = Reserved(lock);
        let mut frame = vec![0; len_max];
        let len = build(&mut frame);
        assert!(len <= len_max, "built a packet beyond its bound");
        if len == 0 {
            return Ok(());
        }
        frame.truncate(len);
        std::mem::forget(reserved);
        self.left.count.add_shared(1);
        if let Some(owner) = lock.post(frame.into_boxed_slice()) {
            self.work_off(owner, 0);
        }
        Ok(())
    }

    /// Does what others have left to the holder of the lock, and lets go of it. `weight`: of what was done before.
    #[cold]
    fn work_off<'a>(&'a self, mut owner: Owner<'a, Wire, Frame>, mut weight: u64) {
        let panics = std::thread::panicking();
        let (bell, news) = loop {
            let new = owner.messages();
            owner.left.extend(new);
            // Who panics, perhaps with the ring in hand, only keeps them: the thread that sends next sends them first, and the
            // watchdog looks.
            if !panics {
                weight += owner.send_left();
            }
            // Before it is free: who finds it free and some left tries again at once.
            self.note_left(!owner.left.is_empty());
            if !panics {
                self.flush_or_defer(&mut owner);
            }
            let (bell, news) = (owner.queue.take_bell(), owner.queue.take_news());
            match owner.release(weight) {
                Release::Noted(again) => {
                    owner = again;
                    owner.queue.keep_bell(bell);
                    owner.queue.keep_news(news);
                }
                Release::Freed { .. } => break (bell, news),
            }
        };
        if let Some(host) = self.shared.host.upgrade() {
            // The watchdog also schedules the queue.
            if panics || self.left.any() {
                self.watch(&*host, self.watchdog.recheck_at(Clock.now(), 0));
            }
            // A thread may have wanted to run the queue.
            if !panics && self.mode() != Mode::Noqueue && self.schedule() {
                self.raise(&*host);
            }
        }
        ring(bell);
        self.tell(news);
    }

    /// Some that were left wait for room, or none does any more; the caller holds the transmit lock.
    fn note_left(&self, some: bool) {
        let before = self.left.any();
        self.left.some.store(some, Ordering::Relaxed);
        if before && !some {
            self.watchdog.not_in_vain();
        }
    }

    /// Sends what others have left to a holder who found no room for it; true if some waits still.
    #[cold]
    pub(super) fn serve_left(&self) -> bool {
        self.left.any() && self.try_claim_wire().is_none_or(|mut wire| !wire.is_clear())
    }

    /// Publishes what was built, and tells the peer if it wants that: now, or when the thread may.
    #[inline]
    pub(crate) fn flush_or_defer(&self, wire: &mut Wire) {
        // A bell is kept until the lock is free, and longer if the thread may not ring then.
        if wire.queue.leaves_bell() || !kicks::deferred_flush(self) {
            wire.queue.flush();
        }
    }

    /// Kicks the peer if it wants that, now or by the thread that has the transmit lock.
    pub(super) fn kick(&self) {
        if let Some(mut wire) = self.claim_wire_or_note() {
            wire.queue.flush();
        }
    }

    /// Packets go to `end` from now on; what was left for the end before is refused. Returns that end.
    pub(crate) fn attach(&self, end: TxEnd) -> TxEnd {
        let mut wire = self.claim_wire();
        let before = wire.queue.attach(TxEnd::Detached);
        let _ = wire.is_clear();
        wire.queue.attach(end);
        before
    }
}

//! The transmit side of a queue.

mod burst;
mod ring;

use std::sync::Arc;

use napier_ring::{Frame, FramePool, FrameSorter, FrameTable};

use super::bell::Bell;
use super::counters::{FrameAccount, TxCounters};
use super::tx_completion::{Charges, ToTell, TxCompletion};
use super::{LinkLine, Tap, TxEnd};
pub(crate) use ring::{Given, TxRing};

/// A packet was not sent, and counted: the peer's ring is full, or no frame is free.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the transmit queue is full: the receiver is slower than the sender")]
pub(crate) struct TxFull;

/// A queue that packets go into. One claimant at a time.
pub(crate) struct TxQueue {
    end: TxEnd,
    home: TxHome,
    frame_bytes: usize,
    table: Arc<FrameTable>,
    /// Brings frames home that were received and sent on by copying them.
    forwarded: Option<FrameSorter>,
    tap: Arc<Tap>,
    /// The tap is on; changed by a claimant.
    captures: bool,
}

/// What an end needs of its queue. It stays when ends change; a packet gets it by one pointer.
pub(crate) struct TxHome {
    pub(crate) table: Arc<FrameTable>,
    /// Brings the frames of senders home.
    pub(crate) sorter: Option<TxCompletion>,
    pub(crate) counters: Arc<TxCounters>,
    pub(crate) tap: Arc<Tap>,
    /// The peer is to be interrupted when the claim ends.
    bell: Option<Bell>,
    /// Errors of the ends before this one: bad descriptors, then indices.
    errors_before: (u64, u64),
}

impl TxHome {
    /// There was no room.
    pub(crate) fn full<T>(&self) -> Result<T, TxFull> {
        self.counters.tx_full_drops.add(1);
        Err(TxFull)
    }

    /// What the end has counted of the peer's errors.
    #[inline]
    pub(crate) fn note_errors(&self, bad_descriptors: u64, index_errors: u64) {
        self.counters.bad_descriptors.set(self.errors_before.0 + bad_descriptors);
        self.counters.index_errors.set(self.errors_before.1 + index_errors);
    }

    /// Keeps a bell until the claim ends.
    pub(crate) fn leave_bell(&mut self, line: &Arc<LinkLine>, published: u32) {
        Bell::keep(&mut self.bell, Bell::new(line, published, &self.counters));
    }
}

impl TxQueue {
    /// Bytes of the longest packet.
    pub(crate) const fn frame_bytes(&self) -> usize {
        self.frame_bytes
    }

    /// A queue for packets of at most `frame_bytes`.
    pub(crate) fn new(end: TxEnd, table: Arc<FrameTable>, frame_bytes: u32) -> Self {
        let (counters, tap) = (Arc::default(), Tap::new());
        let home = TxHome {
            table: table.clone(),
            sorter: None,
            counters,
            tap: tap.clone(),
            bell: None,
            errors_before: (0, 0),
        };
        Self { end, home, frame_bytes: frame_bytes as usize, table, forwarded: None, tap, captures: false }
    }

    /// Whom the claimant is to interrupt when the claim has ended.
    #[inline]
    pub(crate) fn take_bell(&mut self) -> Option<Bell> {
        self.home.bell.take()
    }

    /// Which sockets the claimant is to tell when the claim has ended that they have room.
    #[inline]
    pub(crate) fn take_news(&mut self) -> ToTell {
        self.home.sorter.as_mut().map(TxCompletion::take_news).unwrap_or_default()
    }

    /// The claim has not ended after all.
    pub(crate) fn keep_news(&mut self, news: ToTell) {
        if let Some(sorter) = &mut self.home.sorter {
            sorter.keep_news(news);
        }
    }

    /// The claim has not ended after all.
    pub(crate) fn keep_bell(&mut self, bell: Option<Bell>) {
        self.home.bell = bell;
    }

    /// Packets go to `end` from now on. Returns the end that they went to before, with whatever it holds.
    pub(crate) fn attach(&mut self, end: TxEnd) -> TxEnd {
        if let Some(bell) = self.home.bell.take() {
            bell.ring();
        }
        let counters = &self.home.counters;
        self.home.errors_before = (counters.bad_descriptors.get(), counters.index_errors.get());
        std::mem::replace(&mut self.end, end)
    }

    /// Frames of senders will come; `pool` is one of theirs. At the client they go out as they are.
    pub(crate) fn expect_senders(&mut self, pool: &FramePool, charges: &Arc<Charges>) {
        on_end!(TxEnd, &mut self.end, end => end.expect_senders(pool));
        self.home.sorter = Some(TxCompletion::new(pool, charges));
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
        let (captures, tap) = (self.captures, &self.tap);
        // It is called only when the packet will go out.
        let build = |buffer: &mut [u8]| {
            let length = build(&mut buffer[..max_len]);
            assert!(length <= max_len, "built a packet beyond its bound");
            if captures && length > 0 {
                tap.record(&buffer[..length]);
            }
            length
        };
        let length = on_end!(TxEnd, &mut self.end, end => end.build(max_len, &mut self.home, build))?;
        if length > 0 {
            self.home.counters.packets.add(1);
            self.home.counters.bytes.add(length as u64);
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
        let frame = match on_end!(TxEnd, &mut self.end, end => end.give(frame, len, &mut self.home)) {
            Given::Sent => return Ok(()),
            Given::Full(frame) => return Err(frame),
            Given::Foreign(frame) => frame,
        };
        let packet = self.table.data(&frame, bytes);
        let copied = match on_end!(TxEnd, &mut self.end, end => end.copy(packet, &mut self.home)) {
            Some(copied) => {
                if self.captures && copied.is_ok() {
                    self.tap.record(packet);
                }
                copied
            }
            None => {
                let table = self.table.clone();
                self.build(bytes, |buffer| {
                    buffer.copy_from_slice(table.data(&frame, bytes));
                    bytes
                })
            }
        };
        match copied {
            Ok(()) => {
                match (&mut self.forwarded, &mut self.home.sorter) {
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
        self.home.counters.tx_full_drops.add(1);
        Err(error)
    }

    /// Whether packets go nowhere: one is refused then, and counted.
    pub(crate) fn refuse_if_detached(&self) -> bool {
        let detached = matches!(&self.end, TxEnd::Detached);
        self.home.counters.tx_full_drops.add(u64::from(detached));
        detached
    }

    /// Whether a packet can be given now, as far as is known without a look at the peer.
    #[inline]
    pub(crate) fn may_have_room(&mut self) -> bool {
        on_end!(TxEnd, &mut self.end, end => end.may_have_room())
    }

    /// Packets in the ring that the peer has not finished with, as far as is known.
    pub(crate) fn in_flight(&mut self) -> u32 {
        on_end!(TxEnd, &mut self.end, end => end.in_flight())
    }

    /// Whether a [`flush`](Self::flush) notifies no thread, but leaves a bell: the peer is in this process.
    #[inline]
    pub(crate) fn leaves_bell(&self) -> bool {
        on_end!(TxEnd, &self.end, end => end.leaves_bell())
    }

    /// Shows the peer what was built and given. Where it wants to be interrupted, and shares this process, that is left to
    /// the end of the claim ([`take_bell`](Self::take_bell)): a wake-up that preempts the claimant would keep all others
    /// waiting for it.
    pub(crate) fn flush(&mut self) {
        on_end!(TxEnd, &mut self.end, end => end.flush(&mut self.home));
        self.send_home();
    }

    /// Takes back the frames that the peer has read. It happens by itself when they are needed.
    pub(crate) fn reclaim(&mut self) {
        on_end!(TxEnd, &mut self.end, end => end.reclaim(&mut self.home));
        self.send_home();
    }

    /// Kicks the peer again if a kick could not move what waits. `true` = packets wait still.
    pub(crate) fn kick_again(&mut self) -> bool {
        if !on_end!(TxEnd, &self.end, end => end.owes_kick()) {
            return false;
        }
        self.flush();
        on_end!(TxEnd, &self.end, end => end.owes_kick())
    }

    /// Frames that were read are their homes' again.
    #[inline]
    fn send_home(&mut self) {
        self.home.sorter.iter_mut().for_each(TxCompletion::flush);
        self.forwarded.iter_mut().for_each(FrameSorter::flush);
    }

    /// Whether a packet can be built now. Looks at the peer if it must.
    #[cfg(test)]
    pub(crate) fn has_room(&mut self) -> bool {
        self.may_have_room() || {
            self.reclaim();
            self.may_have_room()
        }
    }

    /// Where this home's frames are. Without frames of its own (the server's side) all zero.
    pub(crate) fn account(&mut self) -> FrameAccount {
        on_end!(TxEnd, &mut self.end, end => end.account())
    }

    /// The queue's counters.
    pub(crate) fn counters(&self) -> &Arc<TxCounters> {
        &self.home.counters
    }

    /// Looks whether a capture is on.
    pub(crate) fn look_at_tap(&mut self) {
        self.captures = self.tap.is_on();
    }

    /// Where what goes out can be captured.
    pub(crate) fn tap(&self) -> &Arc<Tap> {
        &self.tap
    }
}

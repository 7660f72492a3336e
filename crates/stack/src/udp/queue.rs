//! The shared half of a socket, and its receive queue.
//!
//! A delivering NAPI owner pushes frames on a list that any number of owners may push to; readers take the whole list
//! and empty it in private. What a datagram says about itself is in its frame's meta word, so a reader looks at the
//! frame once, to copy it.
//!
//! # Accounting
//! A queued frame is charged with its *truesize*, the bytes that it keeps from its pool, as `sk_rmem_alloc` counts. The
//! rule is `net/ipv4/udp.c __udp_enqueue_schedule_skb`'s: a datagram is taken if it fits or if nothing is charged.
//! Charges are added once per socket and delivery round (see `pass`) and taken off when frames go home, so several
//! instances that deliver to one socket at the same time may exceed the limit by one round (8 frames) each.
//!
//! # Frames on the way home
//! A reader keeps up to [`RETURNS_MAX`] read frames while unread ones are left, and sends them home together. When
//! nothing is left to read, nothing is kept: an idle socket holds no frame.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicIsize, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use napier_core::family::SocketFamily;
use napier_core::sockopt::{SocketBusy, record_napi_id};
use napier_ring::{Exclusive, Frame, FrameFifo, FrameList, FrameTable, Remainder};

use crate::counters::{Counter, Counters};
use crate::event::Source;
use crate::options::{self, EgressOptions};
use crate::tables::demux::{Demuxed, Tuple};
use crate::tables::reuse::ReusePort;
use crate::udp::errors::SentErrors;
use crate::udp::paths::PathCache;
use crate::udp::sndbuf::SendBuffer;
use crate::udp::taken::{TAKEN_MAX, Taken};
use crate::udp::wishes::{Needs, Wishes};
use crate::wait::Nonblocking;
use crate::wait::park::Parker;
use crate::wire::Meta;
use crate::wire::addr::End;

/// Read frames that a reader keeps at most before it sends them home with one exchange per home.
const RETURNS_MAX: usize = 16;
/// Default of SO_RCVBUF in bytes. Source: `include/net/sock.h SK_RMEM_DEFAULT`, as on a machine with 4 KiB pages.
pub(crate) const RCVBUF_DEFAULT: usize = 212_992;

/// What the tables, the readers and the senders of one socket share, in lines by who writes to them.
#[repr(C, align(64))]
pub(crate) struct UdpInner {
    // Written for each delivery round, by instances and readers.
    pub(crate) list: FrameList,
    /// Bytes charged; below 0 for a moment when a reader is faster than the charge for what it read.
    charged: AtomicIsize,
    rcvbuf: AtomicUsize,
    /// The recorded NAPI id, valid or not.
    pub(crate) napi_id: AtomicU32,
    connected: AtomicBool,
    /// Bits of [`Needs`]; looked at for each packet, in this line, which is touched anyway.
    needs: AtomicU8,
    pub(crate) family: SocketFamily,
    pub(crate) parker: Parker,
    /// Threads that wait for room to send.
    pub(crate) send_parker: Parker,
    pub(crate) send_buffer: SendBuffer,
    pub(crate) source: Source,
    reader: CacheLine<Exclusive<Reader>>,
    /// Frames that a reader holds and has not read: "there is something to read" does not show in `list` then.
    private: Remainder,
    pub(crate) paths: CacheLine<Exclusive<PathCache>>,
    // Hardly ever written.
    pub(crate) ends: CacheLine<ArcSwap<Ends>>,
    /// Counts changes of `ends`, so that remembered paths notice.
    pub(crate) ends_epoch: AtomicU32,
    pub(crate) nonblocking: Nonblocking,
    /// The engine has stopped.
    pub(crate) stopped: AtomicBool,
    /// What was said of packets that were sent: the error of the next call; 0: nothing.
    pub(crate) told: AtomicI32,
    pub(crate) errors: SentErrors,
    /// 0: none.
    pub(crate) read_timeout_ns: AtomicU64,
    /// The busy-poll settings, all but the id: see `options`.
    pub(crate) busy: AtomicU64,
    pub(crate) egress: EgressOptions,
    pub(crate) wishes: Wishes,
    pub(crate) reuse: ReusePort,
    pub(crate) frames: Arc<FrameTable>,
    counters: Arc<Counters>,
}

/// Begins a cache line.
#[repr(align(64))]
pub(crate) struct CacheLine<T>(pub(crate) T);

impl<T> std::ops::Deref for CacheLine<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// Both ends of a socket.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Ends {
    pub(crate) tuple: Tuple,
    /// Interface of a link-local peer; 0: any.
    pub(crate) peer_scope: u32,
}

struct Reader {
    fifo: FrameFifo,
    returns: Vec<Frame>,
    /// Truesize of `returns`.
    returns_bytes: usize,
}

/// What one attempt to read gave.
pub(crate) enum Attempt<R> {
    Read(R),
    Empty,
    /// Another reader is at it.
    Contended,
}

impl UdpInner {
    pub(crate) fn new(
        frames: Arc<FrameTable>,
        counters: Arc<Counters>,
        reuse: ReusePort,
        (local, family): (End, SocketFamily),
        busy: SocketBusy,
        send_buffer: SendBuffer,
    ) -> Self {
        let list = FrameList::new();
        let fifo = list.take(&frames);
        let reader = Reader { fifo, returns: Vec::with_capacity(RETURNS_MAX), returns_bytes: 0 };
        Self {
            list,
            charged: AtomicIsize::new(0),
            rcvbuf: AtomicUsize::new(RCVBUF_DEFAULT),
            napi_id: AtomicU32::new(0),
            connected: AtomicBool::new(false),
            needs: AtomicU8::new(if family == SocketFamily::V6 { Needs::MAPPED } else { 0 }),
            family,
            private: Remainder::new(),
            parker: Parker::new(),
            send_parker: Parker::new(),
            send_buffer,
            source: Source::new(),
            reader: CacheLine(Exclusive::new(reader)),
            frames,
            counters,
            paths: CacheLine(Exclusive::new(PathCache::default())),
            nonblocking: Nonblocking::default(),
            stopped: AtomicBool::new(false),
            told: AtomicI32::new(0),
            errors: SentErrors::default(),
            read_timeout_ns: AtomicU64::new(0),
            busy: AtomicU64::new(options::pack(&busy)),
            egress: EgressOptions::default(),
            wishes: Wishes::default(),
            reuse,
            ends: CacheLine(ArcSwap::from_pointee(Ends { tuple: Tuple { local, peer: None }, peer_scope: 0 })),
            ends_epoch: AtomicU32::new(0),
        }
    }

    /// Whether a datagram of this truesize may join the queue, with `pending` bytes about to be charged.
    #[inline]
    pub(crate) fn has_room(&self, pending: usize, truesize: usize) -> bool {
        // Relaxed: a limit, not a hand-over.
        let charged = self.charged_bytes() + pending;
        charged == 0 || charged + truesize <= self.rcvbuf.load(Ordering::Relaxed)
    }

    /// Charges frames that `push` put or will put on the list.
    #[inline]
    pub(crate) fn charge(&self, bytes: usize) {
        // Relaxed: a limit, not a hand-over.
        self.charged.fetch_add(bytes.cast_signed(), Ordering::Relaxed);
    }

    /// Records the id of the receiving instance (`include/net/busy_poll.h sk_mark_napi_id`, `sk_mark_napi_id_once`).
    #[inline]
    pub(crate) fn record(&self, napi_id: u32) {
        // Relaxed: the id is a hint that orders nothing. The plain look first keeps the line unshared.
        let current = self.napi_id.load(Ordering::Relaxed);
        if current == napi_id {
            return;
        }
        let new = record_napi_id(current, napi_id, self.connected.load(Ordering::Relaxed));
        if new != current {
            // Of two instances that find the same id one may lose: then the other's packet is the later one.
            let _ = self.napi_id.compare_exchange(current, new, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    pub(crate) fn set_connected(&self) {
        // Relaxed: decides only how the next id is recorded.
        self.connected.store(true, Ordering::Relaxed);
    }

    /// Whether there is any of this to see to.
    #[inline]
    pub(crate) fn needs(&self, any: u8) -> bool {
        // Relaxed: a setting that orders nothing.
        self.needs.load(Ordering::Relaxed) & any != 0
    }

    pub(crate) fn set_needs(&self, what: u8, on: bool) {
        // Relaxed: see `needs`.
        if on {
            self.needs.fetch_or(what, Ordering::Relaxed);
        } else {
            self.needs.fetch_and(!what, Ordering::Relaxed);
        }
    }

    /// What it is bound to, as programs see it.
    pub(crate) fn own_addr(&self) -> SocketAddr {
        self.ends.load().tuple.local.shown(self.family, 0)
    }

    pub(crate) fn rcvbuf(&self) -> usize {
        self.rcvbuf.load(Ordering::Relaxed)
    }

    pub(crate) fn set_rcvbuf(&self, bytes: usize) {
        self.rcvbuf.store(bytes, Ordering::Relaxed);
    }

    /// Whether there is something to read.
    #[inline]
    pub(crate) fn has_data(&self) -> bool {
        !self.list.is_empty() || self.private.is_left()
    }

    /// Reads one datagram in place.
    pub(crate) fn read_one<R>(&self, read: impl FnOnce(Meta, &[u8]) -> R) -> Attempt<R> {
        let Some(mut reader) = self.reader.try_enter() else { return Attempt::Contended };
        let Some(frame) = self.next_frame(&mut reader) else { return Attempt::Empty };
        let meta = Meta::from_bits(self.frames.meta(&frame));
        let result = read(meta, self.frames.data(&frame, meta.payload().end));
        reader.returns.push(frame);
        reader.returns_bytes += meta.truesize();
        self.settle(&mut reader);
        Attempt::Read(result)
    }

    /// Reads one datagram in place, or all of a merged one, one after the other. `keep`: it stays the next.
    pub(crate) fn read_merged(&self, keep: bool, mut read: impl FnMut(Meta, &[u8])) -> Attempt<()> {
        let Some(mut reader) = self.reader.try_enter() else { return Attempt::Contended };
        let Some(mut frame) = self.next_frame(&mut reader) else { return Attempt::Empty };
        let mut kept = Vec::new();
        loop {
            let meta = Meta::from_bits(self.frames.meta(&frame));
            read(meta, self.frames.data(&frame, meta.payload().end));
            if keep {
                kept.push(frame);
            } else {
                reader.returns.push(frame);
                reader.returns_bytes += meta.truesize();
            }
            // A merged datagram came into the list as a whole, and is taken from it as a whole.
            let next = if meta.more() { reader.fifo.pop(&self.frames) } else { None };
            let Some(next) = next else { break };
            frame = next;
            if reader.returns.len() == RETURNS_MAX {
                self.send_home(&mut reader.returns);
                self.uncharge(std::mem::take(&mut reader.returns_bytes));
            }
        }
        if keep {
            kept.into_iter().rev().for_each(|frame| reader.fifo.put_back(&self.frames, frame));
            // As `settle`: another reader may sleep that looked while all of it was in hand.
            self.parker.hand_on(|| self.has_data());
        } else {
            self.settle(&mut reader);
        }
        Attempt::Read(())
    }

    /// Takes up to `max` datagrams out of the queue.
    pub(crate) fn take_many(&self, taken: &mut Taken<'_>, max: usize) -> Attempt<usize> {
        let Some(mut reader) = self.reader.try_enter() else { return Attempt::Contended };
        let mut count = 0;
        while count < max.min(TAKEN_MAX) {
            let Some(frame) = self.next_frame(&mut reader) else { break };
            taken.frames[count] = Some(frame);
            count += 1;
        }
        self.settle(&mut reader);
        if count == 0 { Attempt::Empty } else { Attempt::Read(count) }
    }

    #[inline]
    fn next_frame(&self, reader: &mut Reader) -> Option<Frame> {
        if reader.fifo.is_empty() {
            if self.list.is_empty() {
                return None;
            }
            self.refill(reader);
        }
        reader.fifo.pop(&self.frames)
    }

    fn refill(&self, reader: &mut Reader) {
        self.private.begin();
        reader.fifo = self.list.take(&self.frames);
    }

    /// After reading: tells whether something private is left, and sends read frames home if it is time.
    #[inline]
    fn settle(&self, reader: &mut Reader) {
        let drained = reader.fifo.is_empty();
        if drained {
            self.private.settle(false);
        }
        if drained || reader.returns.len() == RETURNS_MAX {
            self.send_home(&mut reader.returns);
            self.uncharge(std::mem::take(&mut reader.returns_bytes));
        }
        if !drained {
            // Another reader may sleep although unread datagrams are left: it looked while the list was not empty yet.
            self.parker.hand_on(|| self.has_data());
        }
    }

    fn send_home(&self, frames: &mut Vec<Frame>) {
        match frames.pop() {
            Some(only) if frames.is_empty() => self.frames.give_back(only),
            None => {}
            Some(last) => {
                let mut batch = self.frames.batch();
                batch.push(last);
                frames.drain(..).for_each(|frame| batch.push(frame));
            }
        }
    }

    pub(super) fn uncharge(&self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        // Relaxed: a limit, not a hand-over.
        self.charged.fetch_sub(bytes.cast_signed(), Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn charged_bytes(&self) -> usize {
        // Relaxed: a limit, not a hand-over.
        self.charged.load(Ordering::Relaxed).max(0).cast_unsigned()
    }
}

impl Demuxed for UdpInner {
    #[inline]
    fn recorded_napi(&self) -> &AtomicU32 {
        &self.napi_id
    }
}

impl Drop for UdpInner {
    fn drop(&mut self) {
        let frames = self.frames.clone();
        let mut batch = frames.batch();
        let mut bytes = 0;
        let mut unread = 0;
        let mut late = self.list.take(&frames);
        let reader = self.reader.0.get_mut();
        bytes += reader.returns_bytes;
        reader.returns.drain(..).for_each(|frame| batch.push(frame));
        while let Some(frame) = reader.fifo.pop(&frames).or_else(|| late.pop(&frames)) {
            bytes += Meta::from_bits(frames.meta(&frame)).truesize();
            unread += 1;
            batch.push(frame);
        }
        if unread > 0 {
            self.counters.add(Counter::UdpCloseDiscards, unread);
        }
        if !std::thread::panicking() {
            assert_eq!(bytes, self.charged_bytes(), "what a receive queue holds is what it was charged");
        }
    }
}

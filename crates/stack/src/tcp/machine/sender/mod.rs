//! The other direction: what the program writes.
//!
//! | time | runs | over: |
//! |---|---|---|
//! | `rto` | while something is under way; begins anew with each acknowledgement of something new, and when the first segment leaves | all that is old enough is lost, one segment leaves (RFC 6298) |
//! | `tail` | while something is under way and nothing is lost; begins anew with each new segment | a new segment, or the last one again (RFC 8985 section 7) |
//! | `reorder` | while a segment is later than those sent after it | it is lost (RFC 8985 section 6.2) |
//! | `persist` | while nothing is under way and the peer's window holds back what there is | a probe; the time doubles (RFC 9293 section 3.8.6.1) |
//!
//! The earliest counts; `rto` goes first where two are over.

mod acked;
mod output;
mod timers;

use napier_core::tcp::congestion::{Congestion, Control};
use napier_core::tcp::memory::LEAST;
use napier_core::tcp::rack::Rack;
use napier_core::tcp::recovery::Recovery;
use napier_core::tcp::rtt::RoundTrips;
use napier_core::tcp::sent::SentQueue;
use napier_core::tcp::seq::Seq;
use napier_core::tcp::space::send_limit;
use napier_core::time::{Deadline, Instant};

use super::Room;
use super::ring::ByteRing;
use crate::tcp::memory::Use;
pub(super) use acked::{Acknowledgement, Echo};

/// A probe of the tail that was sent (RFC 8985 section 7.3 `TLP.end_seq`, `TLP.is_retrans`).
#[derive(Copy, Clone, Debug)]
struct Tail {
    end: Seq,
    again: bool,
}

/// What a program may know of a sender.
pub(in crate::tcp) struct SenderView<'a> {
    pub(in crate::tcp) full: u32,
    pub(in crate::tcp) window: u32,
    pub(in crate::tcp) selective: bool,
    pub(in crate::tcp) sent: &'a SentQueue,
    pub(in crate::tcp) congestion: &'a Congestion,
    pub(in crate::tcp) trips: &'a RoundTrips,
    pub(in crate::tcp) reordered: bool,
}

/// What is known of the data that leaves.
#[derive(Debug)]
pub(in crate::tcp) struct Sender {
    /// SND.UNA.
    pub(super) una: Seq,
    /// SND.NXT: behind all that was ever sent.
    pub(super) next: Seq,
    /// The number of the first byte of the queue.
    base: Seq,
    /// The peer's, in bytes.
    pub(super) window: u32,
    /// Of the peer's window field.
    pub(super) scale: u8,
    /// The segment that the window is from: its number, and what it acknowledged (SND.WL1, SND.WL2).
    from: (Seq, Seq),
    /// The largest window of the peer.
    window_max: u32,
    /// Bytes behind 20 of header: as the path and the peer take them.
    pub(super) segment: u32,
    /// As the peer takes them.
    peer_segment: u32,
    /// Bytes of data in a full segment.
    full: u32,
    pub(super) queue: ByteRing,
    limit: u32,
    /// `limit` grows up to this.
    limit_max: u32,
    /// What it was before memory was refused; 0: it was not.
    uncut: u32,
    /// The program has closed.
    pub(super) closes: bool,
    pub(super) nodelay: bool,
    /// The peer takes and sends selective acknowledgements.
    pub(super) selective: bool,
    /// Without them: acknowledgements that repeat the last one.
    repeats: u8,
    /// The tail is to be sent, whatever the window of congestion says.
    tail_due: bool,
    /// A segment may be shorter than the peer's window would want it.
    forced: bool,
    /// The first segment is to be sent again, whatever is under way.
    again_due: bool,
    /// Behind the last segment that was not full (RFC 9293 section 3.7.4).
    short_end: Seq,
    /// The window of congestion held something back when so much was sent.
    limited_to: Option<Seq>,
    sent_at: Instant,
    pub(super) rto: Deadline,
    tail_at: Deadline,
    reorder: Deadline,
    persist: Deadline,
    tail: Option<Tail>,
    pub(super) sent: SentQueue,
    pub(super) congestion: Congestion,
    pub(super) trips: RoundTrips,
    pub(super) rack: Rack,
    pub(super) recovery: Recovery,
}

impl Sender {
    pub(super) fn new(now: Instant, first: Seq, segment: u32, room: Room, control: Control) -> Self {
        Self {
            una: first,
            next: first,
            base: first + 1,
            window: 0,
            scale: 0,
            from: (Seq(0), Seq(0)),
            window_max: 0,
            segment,
            peer_segment: u32::MAX,
            full: segment,
            queue: ByteRing::default(),
            limit: room.first,
            limit_max: room.max,
            uncut: 0,
            closes: false,
            nodelay: false,
            selective: false,
            repeats: 0,
            tail_due: false,
            forced: false,
            again_due: false,
            short_end: first,
            limited_to: None,
            sent_at: now,
            rto: Deadline::NEVER,
            tail_at: Deadline::NEVER,
            reorder: Deadline::NEVER,
            persist: Deadline::NEVER,
            tail: None,
            sent: SentQueue::default(),
            congestion: Congestion::new(control, segment),
            trips: RoundTrips::default(),
            rack: Rack::default(),
            recovery: Recovery::default(),
        }
    }

    /// The peer's window as its SYN or the acknowledgement of ours says it.
    pub(super) fn window_begins(&mut self, window: u32, seq: Seq, ack: Seq) {
        (self.window, self.window_max, self.from) = (window, window, (seq, ack));
    }

    /// The number behind the last byte that was written.
    #[inline]
    fn end(&self) -> Seq {
        self.base + self.queue.len() as u32
    }

    /// Our FIN has been acknowledged.
    #[inline]
    pub(super) fn fin_is_acknowledged(&self) -> bool {
        self.closes && self.una.is_after(self.end())
    }

    /// Bytes that the peer has not acknowledged, sent or not.
    #[inline]
    pub(in crate::tcp) fn unacknowledged(&self) -> usize {
        self.queue.len()
    }

    /// Bytes that were not sent.
    #[inline]
    pub(in crate::tcp) fn unsent(&self) -> u32 {
        self.end().beyond(self.next)
    }

    /// Something is to be sent that was not, the FIN too.
    #[inline]
    fn has_more(&self) -> bool {
        self.unsent() > 0 || self.closes && !self.next.is_after(self.end())
    }

    /// When something was sent last.
    pub(super) fn sent_at(&self) -> Instant {
        self.sent_at
    }

    /// Where the first byte to send is, or goes.
    #[inline]
    pub(in crate::tcp) fn address(&self) -> usize {
        self.queue.address(0)
    }

    /// SND.UNA and SND.NXT.
    pub(in crate::tcp) fn under_way(&self) -> (Seq, Seq) {
        (self.una, self.next)
    }

    /// What a program may know.
    pub(in crate::tcp) fn view(&self) -> SenderView<'_> {
        let Self { full, window, selective, ref sent, ref congestion, ref trips, ref rack, .. } = *self;
        SenderView { full, window, selective, sent, congestion, trips, reordered: rack.reordered }
    }

    /// Bytes that a program may have written and the peer not acknowledged.
    #[inline]
    pub(in crate::tcp) fn limit(&self) -> u32 {
        self.limit
    }

    pub(super) fn set_limit(&mut self, bytes: u32) {
        (self.limit, self.limit_max, self.uncut) = (bytes, bytes, 0);
    }

    /// A window that has grown wants more to send, unless memory is short.
    #[inline]
    fn make_room(&mut self) {
        if self.limit < self.limit_max {
            let window = self.congestion.window().min(self.window_max);
            let wanted = send_limit(self.limit, window).min(self.limit_max);
            if wanted > self.limit && self.queue.may_widen() {
                self.limit = wanted.max(std::mem::take(&mut self.uncut));
            }
        }
    }

    /// Takes as much of `data` as there is room for.
    #[inline]
    pub(super) fn write(&mut self, data: &[u8]) -> usize {
        let room = (self.limit as usize).saturating_sub(self.queue.len());
        let mut count = data.len().min(room);
        if count > 0 {
            if !self.queue.make_room(Use::Send, self.queue.len() + count, false) {
                count = self.lacks_memory(count);
            }
            self.queue.write(self.queue.len(), &data[..count]);
            self.queue.extend(count);
        }
        count
    }

    /// There is no memory for `count` bytes more. How many there is room for; if nothing is on its way, there is for some. The program waits for
    /// the others until the peer has acknowledged what is there: the buffer is what it has (`net/core/stream.c sk_stream_moderate_sndbuf`).
    #[cold]
    fn lacks_memory(&mut self, count: usize) -> usize {
        let len = self.queue.len();
        if len == 0 {
            self.queue.make_room(Use::Send, count.min(LEAST as usize), true);
        }
        let room = self.queue.room();
        self.uncut = self.uncut.max(self.limit);
        self.limit = self.limit.min(room as u32); // no buffer is larger
        count.min(room - len)
    }

    /// Segments of the path and of the peer have at most so many bytes, `options` of which are no data.
    pub(super) fn set_segment(&mut self, path: u32, peer: Option<u32>, options: u32) {
        self.peer_segment = peer.unwrap_or(self.peer_segment);
        let segment = path.min(self.peer_segment);
        let full = segment - options;
        if (segment, full) != (self.segment, self.full) {
            (self.segment, self.full) = (segment, full);
            self.congestion.set_segment(full, !self.trips.is_known());
        }
    }

    /// Segments that are longer than the path takes are sent again (RFC 1191 section 6.5). Whether there are.
    pub(super) fn resend_longer(&mut self, now: Instant) -> bool {
        if !self.sent.cut(self.full, self.end()) {
            return false;
        }
        self.recovery.resized(self.next);
        (self.tail, self.tail_at) = (None, Deadline::NEVER);
        self.restart(now);
        true
    }

    /// Nothing more leaves.
    pub(super) fn ends(&mut self) {
        self.rto = Deadline::NEVER;
        (self.tail_at, self.reorder, self.persist) = (Deadline::NEVER, Deadline::NEVER, Deadline::NEVER);
        (self.tail_due, self.again_due) = (false, false);
        self.sent = SentQueue::default();
        self.queue.clear();
        self.base = self.next;
        self.closes = false;
    }

    /// The program's data that a piece carries.
    #[inline]
    pub(in crate::tcp) fn bytes(&self, at: usize, len: usize) -> (&[u8], &[u8]) {
        self.queue.slices(at, len)
    }
}

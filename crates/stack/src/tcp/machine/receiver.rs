//! One direction: what the peer sends.

use napier_core::tcp::acks::Acks;
use napier_core::tcp::ranges::{Ranges, SackBlock};
use napier_core::tcp::seq::Seq;
use napier_core::tcp::space::{Space, field, offer, scale_for};
use napier_core::time::{Instant, Span};

use super::ring::ByteRing;
use super::segment::Inbound;
use super::{Room, SEGMENT_DEFAULT};
use crate::tcp::memory::Use;
use crate::wire::flag;

/// Header bytes beside data that a full segment may have: the longest options.
const OPTIONS_MAX: u32 = 40;

/// What is known of the data that comes.
#[derive(Debug)]
pub(in crate::tcp) struct Receiver {
    /// RCV.NXT.
    pub(super) next: Seq,
    /// What was acknowledged last.
    pub(super) told: Seq,
    /// Behind the last byte that the peer may send.
    edge: Seq,
    /// Of the window field of our segments.
    scale: u8,
    /// The peer's FIN has been taken.
    pub(super) ended: bool,
    /// The number of a FIN that came before data.
    fin: Option<Seq>,
    /// When data came last.
    seen: Instant,
    /// Data of the peer's full segments, as far as it was seen.
    segment: u32,
    /// The longest segment that we have asked for.
    asked: u32,
    pub(super) acks: Acks,
    /// The smoothed round trip, by what the peer echoes; zero: not known.
    rtt: Span,
    pub(super) queue: ByteRing,
    pub(super) ranges: Ranges,
    space: Space,
}

impl Receiver {
    pub(super) fn new(now: Instant, room: Room, asked: u32) -> Self {
        Self {
            next: Seq(0),
            told: Seq(0),
            edge: Seq(0),
            scale: scale_for(room.max),
            ended: false,
            fin: None,
            seen: now,
            segment: u32::from(SEGMENT_DEFAULT).min(asked),
            asked,
            acks: Acks::default(),
            rtt: Span::ZERO,
            queue: ByteRing::default(),
            ranges: Ranges::default(),
            space: Space::new(room.first, room.max, Seq(0), now),
        }
    }

    /// The peer's first byte is this. `scaled`: windows of our segments are scaled.
    pub(super) fn begins(&mut self, now: Instant, next: Seq, room: Room, scaled: bool) {
        (self.next, self.told, self.edge) = (next, next, next);
        self.scale = if scaled { scale_for(room.max) } else { 0 };
        let max = if scaled { room.max } else { room.max.min(u32::from(u16::MAX)) };
        self.space = Space::new(room.first.min(max), max, next, now);
        self.edge = offer(next, next, 0, self.space.limit(), self.asked);
    }

    /// The scale that our SYN names.
    pub(super) fn scale(&self) -> u8 {
        self.scale
    }

    /// Bytes to read.
    #[inline]
    pub(in crate::tcp) fn unread(&self) -> usize {
        self.queue.len()
    }

    /// Bytes that there is room for.
    pub(in crate::tcp) fn limit(&self) -> u32 {
        self.space.limit()
    }

    pub(super) fn set_limit(&mut self, bytes: u32) {
        self.space.fix(bytes);
    }

    /// RCV.NXT.
    #[inline]
    pub(in crate::tcp) fn next(&self) -> Seq {
        self.next
    }

    /// Bytes behind it that the peer may send.
    #[inline]
    pub(in crate::tcp) fn window(&self) -> u32 {
        self.edge.beyond(self.next)
    }

    /// Where the next byte goes.
    #[inline]
    pub(in crate::tcp) fn address(&self) -> usize {
        self.queue.address(self.queue.len())
    }

    /// Whether any of the numbers of a segment may be taken, or acknowledges as it is. Source: `net/ipv4/tcp_input.c tcp_sequence`: what
    /// ends where the last acknowledgement was is not too old.
    #[inline]
    pub(super) fn is_acceptable(&self, seg: &Inbound<'_>) -> bool {
        !seg.end().is_before(self.told) && !seg.seq.is_after(self.edge.later(self.next))
    }

    /// Takes what a segment carries. Bytes that came in order by it.
    #[inline]
    pub(super) fn take(&mut self, now: Instant, seg: &Inbound<'_>) -> u32 {
        self.seen = now;
        let mut payload = seg.payload;
        let mut start = seg.seq + u32::from(seg.has(flag::SYN));
        if self.ended {
            // RFC 9293 section 3.10.7.4: nothing comes behind a FIN.
            if seg.end() != seg.seq {
                self.acks.at_once();
            }
            return 0;
        }
        let begins = start;
        let old = self.next.beyond(start).min(payload.len() as u32);
        if old > 0 {
            self.ranges.came_twice(SackBlock { start, end: start + old });
            self.acks.at_once();
            payload = &payload[old as usize..];
            start += old;
        }
        let room = self.fin.unwrap_or(self.edge.later(self.next)).beyond(start) as usize;
        let cut = payload.len() > room;
        payload = &payload[..payload.len().min(room)];
        let before = self.next;
        if !payload.is_empty() {
            self.put(now, start, payload, seg.has(flag::PSH));
        }
        if cut {
            self.acks.at_once();
        } else if seg.has(flag::FIN) {
            let at = begins + seg.bytes();
            if at.is_before(self.next) {
                // It is old, or the peer contradicts itself.
                self.acks.at_once();
            } else {
                self.fin = Some(at);
            }
        }
        let bytes = self.next - before;
        if self.fin.is_some_and(|fin| fin == self.next) {
            self.next += 1;
            self.ended = true;
            self.acks.at_once();
        } else if self.fin.is_some() {
            self.acks.at_once();
        }
        bytes
    }

    /// Bytes that begin at `start`, not before what is expected.
    #[inline]
    fn put(&mut self, now: Instant, start: Seq, payload: &[u8], pushed: bool) {
        let len = payload.len() as u32;
        if start != self.next {
            // Behind a hole (RFC 5681 section 4.2).
            self.acks.out_of_order();
            let at = self.queue.len() + (start - self.next) as usize;
            if !self.queue.make_room(Use::OutOfOrder, at + payload.len(), false) {
                return self.lacks_memory();
            }
            if self.ranges.insert(SackBlock { start, end: start + len }) {
                self.queue.write(at, payload);
            }
            return;
        }
        // A program that has read everything may wait for this alone.
        let (end, forced) = (self.queue.len() + payload.len(), self.queue.is_empty());
        if !self.queue.make_room(Use::Receive, end, forced) {
            return self.lacks_memory();
        }
        let hole = !self.ranges.is_empty();
        self.queue.write(self.queue.len(), payload);
        let next = self.ranges.advance(start + len);
        self.queue.extend((next - self.next) as usize);
        self.next = next;
        if hole {
            return self.acks.out_of_order();
        }
        // What is pushed may be the whole of a question, but if it is as long as a segment can be.
        let longest = len + OPTIONS_MAX >= self.asked;
        let full = longest || !pushed;
        if full && len > self.segment {
            self.segment = len.min(self.asked);
        }
        self.acks.came(now, if full { len } else { 0 }, next - self.told, self.segment);
    }

    /// Bytes are dropped for want of memory; they come again. The peer is offered no more than what there is room for.
    #[cold]
    fn lacks_memory(&mut self) {
        self.acks.at_once();
        self.space.cut(self.queue.room() as u32); // no window is larger
    }

    /// A round trip took so long, by what the peer has echoed.
    #[inline]
    pub(super) fn sampled(&mut self, rtt: Span) {
        // A path's round trip without the queues that we make: the least counts, and is forgotten slowly.
        let slower = Span { ns: self.rtt.ns + self.rtt.ns / 8 };
        self.rtt = if self.rtt.is_zero() || rtt < self.rtt { rtt } else { rtt.min(slower) };
    }

    /// Copies out what there is.
    pub(super) fn copy_to(&self, buffer: &mut [u8]) -> usize {
        self.queue.copy_to(buffer)
    }

    /// The program has taken `count` bytes; `smoothed` is the sender's round trip. Whether the peer is to be told of the room at once.
    #[inline]
    pub(super) fn consume(&mut self, count: usize, smoothed: Span) -> bool {
        self.queue.consume(count);
        let ended = u32::from(self.ended);
        let taken = self.next - ended - self.queue.len() as u32;
        let rtt = if self.rtt.is_zero() { smoothed } else { self.rtt };
        // The clock is not read for each call: what is taken had come by then.
        self.space.took(self.seen, taken, rtt, self.segment, || self.queue.may_widen());
        if self.ended {
            return false;
        }
        let left = self.window();
        let edge = offer(self.next, self.edge, self.queue.len() as u32, self.space.limit(), self.segment);
        // Source: `net/ipv4/tcp.c __tcp_cleanup_rbuf`: it has doubled.
        edge.beyond(self.edge) > 0 && edge.beyond(self.next) >= 2 * left
    }

    /// An acknowledgement leaves: the window field that goes with it.
    #[inline]
    pub(super) fn tell(&mut self) -> u16 {
        let queued = self.queue.len() as u32;
        self.edge = offer(self.next, self.edge, queued, self.space.limit(), self.segment);
        self.told = self.next;
        self.acks.told();
        field(self.next, self.edge, self.scale)
    }

    /// The window field of a SYN, which is not scaled (RFC 7323 section 2.2).
    pub(super) fn tell_unscaled(&mut self) -> u16 {
        self.told = self.next;
        self.acks.told();
        u16::try_from(self.space.limit()).unwrap_or(u16::MAX)
    }
}

//! What leaves next.

use napier_core::tcp::seq::Seq;
use napier_core::time::{Deadline, Instant};

use super::{Sender, Tail};

/// A part of what the program has written, the FIN behind it too.
#[derive(Copy, Clone, Debug)]
pub(in crate::tcp::machine) struct Piece {
    pub(in crate::tcp::machine) seq: Seq,
    /// Where it begins in the queue.
    pub(in crate::tcp::machine) at: usize,
    pub(in crate::tcp::machine) len: usize,
    pub(in crate::tcp::machine) fin: bool,
    /// It was sent before.
    pub(in crate::tcp::machine) again: bool,
    /// Nothing is written behind it.
    pub(in crate::tcp::machine) last: bool,
}

impl Sender {
    /// The next piece, which leaves now: what is lost goes before what is new. `clock`: that of the timestamps.
    #[inline]
    pub(in crate::tcp::machine) fn next_piece(&mut self, now: Instant, clock: Option<u32>) -> Option<Piece> {
        if self.sent.lost() > 0 || self.tail_due || self.again_due {
            self.next_repair(now, clock)
        } else if self.has_more() {
            self.next_new(now, false)
        } else {
            None
        }
    }

    fn next_repair(&mut self, now: Instant, clock: Option<u32>) -> Option<Piece> {
        let forced = std::mem::take(&mut self.again_due);
        if self.sent.lost() > 0
            && let Some(lost) = self.sent.first_lost().copied()
        {
            let end = self.fitting(lost.start, lost.end);
            let fits = self.sent.pipe().saturating_add(end - lost.start) <= self.congestion.window();
            if !fits && !forced && self.sent.pipe() > 0 {
                self.limited_to = Some(self.next);
                return None;
            }
            return Some(self.send_again(now, lost.start, end, clock));
        }
        if std::mem::take(&mut self.tail_due) {
            return self.next_tail(now, clock);
        }
        if self.has_more() { self.next_new(now, false) } else { None }
    }

    /// A probe of the tail (RFC 8985 section 7.3).
    fn next_tail(&mut self, now: Instant, clock: Option<u32>) -> Option<Piece> {
        let new = if self.has_more() { self.next_new(now, true) } else { None };
        let piece = match new {
            Some(piece) => Some(piece),
            None => {
                let last = *self.sent.last().filter(|last| !last.fate.there)?;
                // The whole of it, with its FIN: what is behind a segment tells what was lost before it.
                let fits = self.fitting(last.start, last.end) == last.end;
                fits.then(|| self.send_again(now, last.start, last.end, clock))
            }
        };
        let again = piece.is_some_and(|piece| piece.again);
        self.tail = piece.map(|_| Tail { end: self.next, again });
        self.tail_at = Deadline::NEVER;
        self.rto = Deadline::after(now, self.trips.timeout());
        piece
    }

    /// Up to where a segment reaches that begins at `start`: the FIN needs no room.
    fn fitting(&self, start: Seq, end: Seq) -> Seq {
        let full = start + self.full;
        if end.earlier(self.end()).is_after(full) { full } else { end }
    }

    fn send_again(&mut self, now: Instant, start: Seq, end: Seq, clock: Option<u32>) -> Piece {
        self.sent.send_again(start, end, now);
        self.recovery.sent(end - start);
        self.recovery.sent_again(end - start, clock);
        self.sent_at = now;
        // Source: `net/ipv4/tcp_output.c tcp_xmit_retransmit_queue`: the first one has its whole time.
        if self.rto.is_never() || start == self.una {
            self.rto = Deadline::after(now, self.trips.timeout());
        }
        self.piece(start, end, true)
    }

    #[inline]
    fn piece(&self, start: Seq, end: Seq, again: bool) -> Piece {
        let data_end = self.end();
        let fin = end.is_after(data_end);
        let bytes_end = if fin { data_end } else { end };
        let (at, len) = ((start - self.base) as usize, (bytes_end - start) as usize);
        Piece { seq: start, at, len, fin, again, last: bytes_end == data_end }
    }

    /// New data, as far as the peer, the path and RFC 9293 sections 3.7.4 and 3.8.6.2.1 let it leave. `probe`: the path has nothing to say.
    #[inline]
    fn next_new(&mut self, now: Instant, probe: bool) -> Option<Piece> {
        if self.sent.is_full() {
            return None;
        }
        if self.sent.is_empty() {
            self.idles(now);
        }
        let unsent = self.unsent();
        let usable = (self.una + self.window).beyond(self.next);
        let len = unsent.min(self.full).min(usable);
        // The FIN needs a number of the window as well.
        let fin = self.closes && len == unsent && (len < usable || self.forced);
        if len == 0 && !fin {
            return None;
        }
        if len < self.full && !self.may_be_short(len, unsent, fin, probe) {
            return None;
        }
        let bytes = len + u32::from(fin);
        if !probe && self.sent.pipe().saturating_add(bytes) > self.congestion.window() && self.sent.pipe() > 0 {
            self.limited_to = Some(self.next);
            return None;
        }
        self.forced = false;
        let start = self.next;
        let end = start + bytes;
        self.sent.push(start, end, now);
        self.recovery.sent(bytes);
        self.next = end;
        self.sent_at = now;
        if len < self.full {
            self.short_end = end;
        }
        self.leaves(now);
        Some(self.piece(start, end, false))
    }

    fn may_be_short(&self, len: u32, unsent: u32, fin: bool, probe: bool) -> bool {
        if len < unsent {
            // The peer's window ends here. A sender waits until it is worth a segment, or half of what the peer has at most.
            return self.forced || len >= self.window_max / 2 && len > 0;
        }
        // Nagle, as Minshall has changed it: one short segment at a time. Source: `net/ipv4/tcp_output.c tcp_minshall_check`.
        fin || self.nodelay || probe || !self.short_end.is_after(self.una)
    }

    /// Nothing is under way: the window that was used before says little of the path (RFC 5681 section 4.1).
    #[inline]
    fn idles(&mut self, now: Instant) {
        let timeout = self.trips.timeout_once();
        if now - self.sent_at > timeout && self.trips.is_known() {
            self.congestion.idle(now - self.sent_at, timeout);
        }
    }
}

//! Which segments are lost, told by time (RFC 8985): a segment is, if one that was sent after it has been delivered, and as much time
//! has gone by as a late one may take.
//!
//! | what is known | how much later a segment may come than one sent after it (section 6.2 step 4) |
//! |---|---|
//! | segments never came out of order, and the repair has begun or three are there | not at all |
//! | else | a quarter of the least round trip |
//! | the peer got segments twice that were taken for lost | as many quarters as round trips in which that was, and one |
//! | in any case | at most a round trip |
//!
//! A tail of which no segment after it can tell is asked for: see [`probe_after`] (section 7).

use crate::tcp::sent::{Sent, SentQueue, is_sent_after};
use crate::tcp::seq::Seq;
use crate::time::{Deadline, Instant, Span};

/// Segments behind a hole that make it a loss where the order was never broken (RFC 5681 section 3.2).
const DUP_THRESH: u32 = 3;
/// Repairs for which a wider window is kept (section 6.2 step 4).
const PERSIST: u8 = 16;
/// How long a receiver may wait with the acknowledgement of a single segment. Source: `TCP_RTO_MIN`, which the kernel adds.
const DELAYED_MAX: Span = Span::from_ms(200);
/// Least of what is added to two round trips. Source: `include/net/tcp.h TCP_TIMEOUT_MIN_US`.
const PROBE_MIN: Span = Span::from_ms(2);

/// What is known of the newest segment that was delivered, and of the order on the path.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Rack {
    /// When the newest one was sent.
    sent_at: Instant,
    /// Where it ends.
    end: Seq,
    /// Its round trip; zero: none was delivered.
    rtt: Span,
    /// Behind all that was delivered.
    furthest: Option<Seq>,
    /// Segments have come out of order.
    pub reordered: bool,
    quarters: u8,
    persist: u8,
    /// When this is acknowledged, the next segment that came twice counts.
    round_end: Option<Seq>,
}

/// What is known when losses are looked for.
#[derive(Copy, Clone, Debug)]
pub struct Look {
    /// Now.
    pub now: Instant,
    /// The least round trip.
    pub least: Span,
    /// The smoothed one.
    pub smoothed: Span,
    /// A repair is under way.
    pub repairing: bool,
    /// Longest segment.
    pub segment: u32,
}

impl Rack {
    /// A segment was delivered: acknowledged, or told of selectively. `echo_is_older`: the timestamp that came back is from before it was
    /// sent again.
    #[inline]
    pub fn delivered(&mut self, sent: &Sent, now: Instant, least: Span, echo_is_older: bool) {
        let rtt = now - sent.at;
        if !sent.fate.ever_again {
            match self.furthest {
                Some(furthest) if sent.end.is_before(furthest) => self.reordered = true,
                _ => {}
            }
        }
        self.furthest = Some(self.furthest.map_or(sent.end, |furthest| furthest.later(sent.end)));
        // Step 2: which of its copies was delivered?
        if sent.fate.ever_again && (echo_is_older || rtt < least) {
            return;
        }
        if self.rtt.is_zero() || is_sent_after((sent.at, sent.end), (self.sent_at, self.end)) {
            (self.sent_at, self.end) = (sent.at, sent.end);
        }
        self.rtt = Span { ns: rtt.ns.max(1) };
    }

    /// The peer got a segment twice that was sent again. `acknowledged`, `sent`: ends of what is.
    pub fn came_twice(&mut self, acknowledged: Seq, sent: Seq) {
        if self.round_end.is_none_or(|end| !acknowledged.is_before(end)) {
            self.round_end = Some(sent);
            self.quarters = self.quarters.saturating_add(1);
            self.persist = PERSIST;
        }
    }

    /// A repair is over.
    pub fn repaired(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.quarters = 0;
        }
    }

    /// How much later a segment may come.
    #[must_use]
    pub fn window(&self, look: &Look, there: u32) -> Span {
        if !self.reordered && (look.repairing || there >= DUP_THRESH * look.segment) {
            return Span::ZERO;
        }
        let quarters = u64::from(self.quarters) + 1;
        Span { ns: (look.least.ns / 4).saturating_mul(quarters).min(look.smoothed.ns) }
    }

    /// Marks what is lost (step 5). When the next one will be, if nothing is heard of it.
    pub fn detect(&self, queue: &mut SentQueue, look: &Look) -> Deadline {
        if self.rtt.is_zero() {
            return Deadline::NEVER;
        }
        let patience = self.rtt + self.window(look, queue.there());
        let mut next = Deadline::NEVER;
        queue.lose_oldest(|sent| {
            if !is_sent_after((self.sent_at, self.end), (sent.at, sent.end)) {
                return false;
            }
            let ends = sent.at + patience;
            if ends > look.now {
                // Those that were sent later have their whole patience from then on.
                next = Deadline::at(ends);
            }
            ends <= look.now
        });
        next
    }

    /// The time of all that is under way ran out (section 6.3): the first is lost, and what was sent long enough ago.
    pub fn timed_out(&self, queue: &mut SentQueue, look: &Look) {
        let patience = self.rtt + self.window(look, queue.there());
        let first = queue.first().map(|first| first.start);
        queue.lose_each(|sent| Some(sent.start) == first || sent.at + patience <= look.now);
    }
}

/// How long after the last segment was sent the end of the tail is sent again (section 7.2). `single`: not more than one segment is
/// under way. Source: `net/ipv4/tcp_output.c tcp_schedule_loss_probe`.
#[inline]
#[must_use]
pub fn probe_after(smoothed: Span, single: bool) -> Span {
    if smoothed.is_zero() {
        return crate::tcp::rtt::RTO_FIRST;
    }
    Span { ns: smoothed.ns.saturating_mul(2) } + if single { DELAYED_MAX } else { PROBE_MIN }
}

#[cfg(test)]
#[path = "rack_tests.rs"]
mod tests;

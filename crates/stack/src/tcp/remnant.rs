//! What stays of a connection that waits out its end, once no program has it: 128 bytes in place of the whole of it. Linux has `struct
//! tcp_timewait_sock` there.
//!
//! What comes for it is judged by the rule that a whole connection has there too ([`PastConnection::on_late`]). It has no owner: what changes are numbers
//! that order nothing, so a poll, the thread of the timers and a program that opens a connection look at it at one time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use napier_core::tcp::seq::Seq;
use napier_core::tcp::time_wait::{LASTS, OnLate, PastConnection, Reuse};
use napier_core::time::{Instant, Span};

use super::flow::Flow;
use super::machine::{Departure, Inbound, Rest};
use crate::tables::Snapshot;
use crate::tables::path::Destination;

/// Between two answers to segments without data. Source: `net.ipv4.tcp_invalid_ratelimit`, `__tcp_oow_rate_limited`.
pub(super) const ANSWER_GAP: Span = Span::from_ms(500);

/// What a segment that came for it leads to.
#[derive(Copy, Clone, Debug)]
pub(super) enum AfterEnd {
    Nothing,
    /// This is sent.
    Departs(Departure),
    /// A new connection may begin in its place, with this first number.
    Reopens(Seq),
}

/// The rest of a connection.
pub(super) struct Remnant {
    pub(super) flow: Flow,
    rest: Rest,
    /// Interface of a link-local peer; 0: any.
    scope: u32,
    /// It is out of the table, or about to be.
    gone: AtomicBool,
    /// The end of its time, in ns.
    until: AtomicU64,
    /// When a segment without data was answered last, in ns; 0: never.
    answered: AtomicU64,
}

const _: () = assert!(size_of::<Remnant>() == 128);

// Relaxed, in all of it: each number stands for itself, and what does not change is published with the `Arc`.
impl Remnant {
    /// What stays of the connection of a flow until then.
    pub(super) fn new(flow: Flow, scope: u32, (rest, until): (Rest, Instant)) -> Arc<Self> {
        let (until, answered) = (AtomicU64::new(until.ns), AtomicU64::new(0));
        Arc::new(Self { flow, rest, scope, gone: AtomicBool::new(false), until, answered })
    }

    /// When its time is over; what comes may begin it anew.
    pub(super) fn until(&self) -> Instant {
        Instant { ns: self.until.load(Ordering::Relaxed) }
    }

    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// Ends it; false if another thread has.
    #[must_use = "who ends it takes it out of the table"]
    pub(super) fn ends(&self) -> bool {
        !self.gone.swap(true, Ordering::Relaxed)
    }

    /// The peer of the connection.
    pub(super) fn target(&self) -> Destination {
        Destination { dst: self.flow.peer, scope: self.scope }
    }

    /// A segment has come.
    pub(super) fn input(&self, now: Instant, seg: &Inbound<'_>, is_listened_to: impl FnOnce() -> bool) -> AfterEnd {
        let late = seg.as_late();
        match self.ended().on_late(now, &late) {
            OnLate::Ignore => AfterEnd::Nothing,
            OnLate::Again => {
                self.until.fetch_max((now + LASTS).ns, Ordering::Relaxed);
                AfterEnd::Departs(self.rest.answer(now))
            }
            OnLate::Reopen(first) if is_listened_to() => AfterEnd::Reopens(first),
            OnLate::Answer | OnLate::Reopen(_) => {
                // Two ends that disagree would answer each other for ever.
                let carries = late.end != late.seq && !late.opens;
                let answers = carries || self.may_answer(now);
                if answers { AfterEnd::Departs(self.rest.answer(now)) } else { AfterEnd::Nothing }
            }
        }
    }

    fn may_answer(&self, now: Instant) -> bool {
        let last = self.answered.load(Ordering::Relaxed);
        if last != 0 && now.ns < last.saturating_add(ANSWER_GAP.ns) {
            return false;
        }
        // Of threads that see the same one answers.
        self.answered.compare_exchange(last, now.ns.max(1), Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// The first number of a connection of ours in its place, if that may be opened now.
    pub(super) fn gives_way(&self, now: Instant, reuse: Reuse, snapshot: &Snapshot) -> Option<Seq> {
        self.ended().gives_way(now, reuse, self.target().is_in_process(snapshot))
    }

    fn ended(&self) -> &PastConnection {
        &self.rest.ended
    }
}

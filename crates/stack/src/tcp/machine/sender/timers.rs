//! The times of a sender.

use napier_core::tcp::rack::{Look, probe_after};
use napier_core::tcp::recovery::Phase;
use napier_core::time::{Deadline, Instant};

use super::Sender;

impl Sender {
    /// New data leaves.
    #[inline]
    pub(super) fn leaves(&mut self, now: Instant) {
        if self.rto.is_never() {
            self.rto = Deadline::after(now, self.trips.timeout());
        }
        self.persist = Deadline::NEVER;
        self.arm_tail(now);
    }

    /// Something new is acknowledged, or the path has changed: the time begins anew.
    #[inline]
    pub(super) fn restart(&mut self, now: Instant) {
        if self.sent.is_empty() {
            (self.rto, self.tail_at, self.reorder) = (Deadline::NEVER, Deadline::NEVER, Deadline::NEVER);
        } else {
            self.rto = Deadline::after(now, self.trips.timeout());
            self.arm_tail(now);
        }
    }

    /// RFC 8985 section 7.2. Source: `net/ipv4/tcp_output.c tcp_schedule_loss_probe`.
    #[inline]
    fn arm_tail(&mut self, now: Instant) {
        let quiet = self.recovery.phase() == Phase::Open && self.sent.there() == 0 && self.tail.is_none();
        self.tail_at = if self.selective && quiet {
            let wait = probe_after(self.trips.smoothed(), self.sent.len() == 1);
            Deadline::after(now, wait).earliest(self.rto)
        } else {
            Deadline::NEVER
        };
    }

    pub(super) fn look(&self, now: Instant) -> Look {
        Look {
            now,
            least: self.trips.least(),
            smoothed: self.trips.smoothed(),
            repairing: self.recovery.phase() != Phase::Open,
            segment: self.full,
        }
    }

    /// Looks for losses; whether there are new ones.
    pub(super) fn detect(&mut self, now: Instant) -> bool {
        let (pipe, before) = (self.sent.pipe(), self.sent.lost());
        let look = self.look(now);
        self.reorder = self.rack.detect(&mut self.sent, &look);
        if self.sent.lost() == before {
            return false;
        }
        self.loses(pipe);
        true
    }

    /// Something is lost. `flight`: what was under way before that was known.
    pub(super) fn loses(&mut self, flight: u32) {
        if self.recovery.phase() == Phase::Open {
            self.recovery.begins(&mut self.congestion, (self.una, self.next), flight);
            (self.tail, self.tail_at) = (None, Deadline::NEVER);
        }
    }

    /// The next time at which it wants to be asked.
    #[inline]
    pub(in crate::tcp::machine) fn next_at(&self) -> Deadline {
        self.rto.earliest(self.tail_at).earliest(self.reorder.earliest(self.persist))
    }

    /// What is over by now is done. Whether a probe is to be sent that carries nothing.
    pub(in crate::tcp::machine) fn on_timer(&mut self, now: Instant) -> bool {
        // Where the time of the tail is over as well, it is asked for before the window is given up.
        if self.rto.is_due(now) && !(self.tail_at.is_due(now) && self.tail.is_none()) {
            self.timed_out(now);
        } else {
            if self.reorder.is_due(now) && self.detect(now) {
                self.again_due = true;
            }
            if self.tail_at.is_due(now) {
                self.tail_at = Deadline::NEVER;
                self.tail_due = true;
                self.rto = Deadline::after(now, self.trips.timeout());
            }
        }
        if !self.persist.is_due(now) {
            return false;
        }
        self.trips.back_off();
        self.persist = Deadline::after(now, self.trips.timeout());
        // What fits leaves, however little it is.
        self.forced = self.window > 0;
        !self.forced
    }

    /// Nothing was heard of what is under way (RFC 6298 section 5).
    fn timed_out(&mut self, now: Instant) {
        (self.tail, self.tail_due, self.tail_at, self.reorder) = (None, false, Deadline::NEVER, Deadline::NEVER);
        if self.sent.first().is_none() {
            self.rto = Deadline::NEVER;
            return;
        }
        if self.sent.first().is_some_and(|first| first.fate.there) {
            // It had the first segment, and says no more that it has (RFC 2018 section 8).
            self.sent.forget_told();
        }
        let flight = self.sent.pipe();
        let look = self.look(now);
        self.rack.timed_out(&mut self.sent, &look);
        let again = self.trips.backoffs() > 0;
        let pipe = self.sent.pipe();
        self.recovery.timed_out(&mut self.congestion, (self.una, self.next), flight, pipe, again);
        self.repeats = 0;
        self.again_due = true;
        self.trips.back_off();
        self.rto = Deadline::after(now, self.trips.timeout());
    }

    /// Everything that may leave has left: a window that holds the rest back is asked for.
    #[inline]
    pub(in crate::tcp::machine) fn rests(&mut self, now: Instant) {
        if self.sent.is_empty() && self.has_more() {
            if self.persist.is_never() {
                self.persist = Deadline::after(now, self.trips.timeout());
            }
        } else {
            self.persist = Deadline::NEVER;
        }
    }
}

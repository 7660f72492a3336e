//! Requests as they leave and as they are answered.

use crate::machine::sim::LawResult;
use napier_core::time::Instant;

/// Requests as they leave and as they are answered.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct RequestTally {
    pub(crate) asked: u64,
    pub(crate) answered: u64,
    /// How long answered ones were out, together.
    pub(crate) sojourn_ns: u64,
    /// How long requests were out until `since`, by their number.
    pub(crate) area_ns: u64,
    pub(crate) since: Instant,
}

impl RequestTally {
    pub(crate) const fn new(now: Instant) -> Self {
        Self { asked: 0, answered: 0, sojourn_ns: 0, area_ns: 0, since: now }
    }

    /// Requests that are not answered yet.
    pub(crate) const fn out(&self) -> u64 {
        self.asked.saturating_sub(self.answered)
    }

    /// How long requests were out until now.
    pub(crate) fn area_ns(&self, now: Instant) -> u64 {
        self.area_ns + self.out() * (now - self.since).ns
    }

    pub(crate) fn go_on(&mut self, now: Instant) {
        (self.area_ns, self.since) = (self.area_ns(now), now);
    }

    /// A request leaves.
    pub(crate) fn asks(&mut self, now: Instant) {
        self.go_on(now);
        self.asked += 1;
    }

    /// One that left at `sent` is answered.
    pub(crate) fn is_answered(&mut self, now: Instant, sent: Instant) {
        self.go_on(now);
        self.answered += 1;
        self.sojourn_ns += (now - sent).ns;
    }

    /// Requests are conserved, and Little's law of all of the run until `now`; `sent` are those that are out by themselves.
    pub(crate) fn holds(&self, now: Instant, sent: impl Iterator<Item = Instant>) -> LawResult {
        let (mut out, mut ages_ns) = (0, 0);
        for sent in sent {
            out += 1;
            ages_ns += (now - sent).ns;
        }
        if self.asked != self.answered + out {
            return Err(format!(
                "requests are not conserved: {} were sent, {} are answered, {out} are out",
                self.asked, self.answered
            ));
        }
        let (by_number, by_themselves) = (self.area_ns(now), self.sojourn_ns + ages_ns);
        if by_number != by_themselves {
            return Err(format!(
                "Little's law: requests were out for {by_number} ns by their number and the clock, for {by_themselves} ns by themselves"
            ));
        }
        Ok(())
    }
}

//! Calls that wait no longer than the program has said by `SO_RCVTIMEO` and `SO_SNDTIMEO`.

use std::time::{Duration, Instant};

use napier_linux::process::HeldSocketCall;

/// Calls that are noted, those among them that have been answered meanwhile. Twice as many as may wait: so those that do not are let go.
const NOTED_MAX: usize = 2 * crate::limits::HELD_MAX;

/// The calls, and the sockets that they are about.
#[derive(Default)]
pub(super) struct Timed {
    calls: Vec<(Instant, u64, HeldSocketCall)>,
}

impl Timed {
    /// Notes one; a span that is beyond all time is none.
    pub(super) fn put(
        &mut self,
        (now, span): (Instant, Duration),
        token: u64,
        held: HeldSocketCall,
        is_waiting: impl Fn(&HeldSocketCall) -> bool,
    ) {
        let Some(until) = now.checked_add(span) else { return };
        if self.calls.len() >= NOTED_MAX {
            self.calls.retain(|(.., held)| is_waiting(held));
        }
        assert!(self.calls.len() < NOTED_MAX, "no more calls wait than may");
        self.calls.push((until, token, held));
    }

    /// When the first of them has waited long enough.
    pub(super) fn next(&self) -> Option<Instant> {
        self.calls.iter().map(|(until, ..)| *until).min()
    }

    /// Those that have waited long enough, which are not noted any more.
    pub(super) fn due(&mut self, now: Instant) -> Vec<(u64, HeldSocketCall)> {
        if self.next().is_none_or(|next| next > now) {
            return Vec::new();
        }
        let (due, left): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.calls).into_iter().partition(|(until, ..)| *until <= now);
        self.calls = left;
        due.into_iter().map(|(_, token, held)| (token, held)).collect()
    }
}

//! What of a scenario a live kernel shows: polls, timers, deliveries, returns, threads. Not masks, bits of the state word or the
//! count of deferrals, which nothing outside of the kernel can see.

use crate::{Action, Check, Kind, Scenario};

impl Kind {
    /// Whether a live kernel shows events of this kind, by a static tracepoint or by what a call returns.
    #[must_use]
    pub const fn is_shown_by_kernels(self) -> bool {
        matches!(
            self,
            Self::Poll
                | Self::TimerStart
                | Self::TimerFire
                | Self::TimerCancel
                | Self::Deliver
                | Self::Return
                | Self::KthreadStart
                | Self::KthreadStop
        )
    }
}

/// What a scenario expects and an executor did not look at, because it cannot or because the file says so. None of it has passed.
#[derive(Copy, Clone, PartialEq, Eq, Default, Debug)]
pub struct NotLookedAt {
    /// Expected events.
    pub events: usize,
    /// Things that steps `check` look at.
    pub checks: usize,
    /// Counters.
    pub counters: usize,
}

impl NotLookedAt {
    /// All together.
    #[must_use]
    pub const fn total(self) -> usize {
        self.events + self.checks + self.counters
    }
}

impl Scenario {
    /// The kinds of events that a run on a live kernel is judged by.
    #[must_use]
    pub fn watched_on_kernels(&self) -> Vec<Kind> {
        let watch = self.kernel.watch.as_ref().unwrap_or(&self.expect.watch);
        watch.iter().copied().filter(|kind| kind.is_shown_by_kernels()).collect()
    }

    /// Whether a live kernel shows this counter, or what it is counted from.
    #[must_use]
    pub fn is_counter_of_kernels(name: &str) -> bool {
        const SUFFIXES: [&str; 4] = [".polls", ".packets", ".timer_fires", ".delivered"];
        const WHOLE: [&str; 3] = ["busy_poll_rx_packets", "drops.no-socket", "drops.socket-full"];
        // The `.packets` of a queueing discipline has another name before it.
        let discipline = name.contains("/tx");
        WHOLE.contains(&name) || (!discipline && SUFFIXES.iter().any(|suffix| name.ends_with(suffix)))
    }

    /// What a run on a live kernel does not look at.
    #[must_use]
    pub fn not_looked_at_on_kernels(&self) -> NotLookedAt {
        let watched = self.watched_on_kernels();
        let events = self.expect.events.iter().filter(|expected| !watched.contains(&expected.kind)).count();
        let counters = self.expect.counters.iter().filter(|(name, _)| !Self::is_counter_of_kernels(name)).count();
        let checks = self.timeline.iter().map(|step| match &step.action {
            Action::Check(check) => check.hidden_in_kernels(),
            Action::CheckTx(_) | Action::CheckGroup(_) => 1,
            _ => 0,
        });
        NotLookedAt { events, checks: checks.sum(), counters }
    }
}

impl Check {
    /// How many of the things that it looks at no kernel shows: all but a thread and the recorded id of a socket.
    #[must_use]
    pub fn hidden_in_kernels(&self) -> usize {
        let given = [
            self.set.bits() != 0,
            self.clear.bits() != 0,
            self.defers_left.is_some(),
            self.masked.is_some(),
            self.armed.is_some(),
            self.listed.is_some(),
            self.pending.is_some(),
            self.held.is_some(),
            self.queued.is_some(),
            self.slot.is_some(),
        ];
        given.into_iter().filter(|given| *given).count()
    }
}

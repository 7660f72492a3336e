//! Whether work waits for a thread that gets no processor.

use crate::time::{Instant, Span};

/// How long work of a softirq CPU may wait for its thread before another thread does it.
pub const OVERDUE_AFTER: Span = Span::from_ms(10);

/// Whether the thread of a softirq CPU is being kept from its work: judged by looks from outside, some time apart.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Overdue {
    /// First look in a row that found the same work, and the thread's progress then.
    since: Option<(Instant, u64)>,
}

impl Overdue {
    /// Nothing seen yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { since: None }
    }

    /// One look: whether something waits for the thread, and how often the thread has done something up to now. True:
    /// [`OVERDUE_AFTER`] has gone by with work and without progress, and the caller is to take it over; the count begins
    /// anew.
    #[must_use = "true means that the work is to be taken over"]
    pub fn look(&mut self, now: Instant, waiting: bool, progress: u64) -> bool {
        let since = self.since.take().filter(|(_, before)| waiting && *before == progress);
        match since {
            Some((since, _)) if now - since >= OVERDUE_AFTER => true,
            Some(since) => {
                self.since = Some(since);
                false
            }
            None => {
                self.since = waiting.then_some((now, progress));
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Instant {
        Instant { ns: ms * 1_000_000 }
    }

    #[test]
    fn work_is_overdue_after_ten_ms_without_progress() {
        let mut overdue = Overdue::new();
        assert!(!overdue.look(ms(0), true, 7));
        assert!(!overdue.look(ms(9), true, 7));
        assert!(overdue.look(ms(10), true, 7));
        // Taken over: from the beginning.
        assert!(!overdue.look(ms(11), true, 7));
        assert!(!overdue.look(ms(20), true, 7));
        assert!(overdue.look(ms(21), true, 7));
    }

    #[test]
    fn progress_or_a_look_without_work_begins_anew() {
        let mut overdue = Overdue::new();
        assert!(!overdue.look(ms(0), true, 1));
        assert!(!overdue.look(ms(10), true, 2));
        assert!(!overdue.look(ms(19), true, 2));
        assert!(!overdue.look(ms(19), false, 2));
        assert!(!overdue.look(ms(29), true, 2));
        assert!(!overdue.look(ms(38), true, 2));
        assert!(overdue.look(ms(39), true, 2));
        assert!(!overdue.look(ms(99), false, 2));
        assert_eq!(overdue, Overdue::new());
    }
}

//! Threads of a group that are waited for, and whose processor another thread has: they go on on another one.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use napier_core::time::{Instant, Span};
use napier_sys::sched::{pin_thread, unpin_thread};

use super::{CpuPoller, Group, GroupMember};
use crate::threads::pass_on;

/// How long a turn of a thread that polls may take before it is helped on.
const STANDS: Span = Span::from_ms(10);

impl CpuPoller {
    /// Waits for its end.
    pub(super) fn join(&self) {
        let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        if !thread.is_finished() {
            // It ends though another thread may have its processor.
            unpin_thread(self.pid.load(Ordering::Relaxed));
        }
        if let Err(panic) = thread.join() {
            pass_on(panic);
        }
    }
}

/// A thread of a group that does not end its turn, for another one has its processor: it goes on elsewhere until this is dropped.
pub(super) struct Stands {
    since: Instant,
    elsewhere: Option<Arc<CpuPoller>>,
}

impl Stands {
    pub(super) const fn new(now: Instant) -> Self {
        Self { since: now, elsewhere: None }
    }

    pub(super) fn look(&mut self, group: &Group, member: &GroupMember, now: Instant) {
        if self.elsewhere.is_none() && now - self.since >= STANDS {
            self.elsewhere = group.poller(member.seat().cpu());
            self.elsewhere.iter().for_each(|poller| unpin_thread(poller.pid.load(Ordering::Relaxed)));
        }
    }
}

impl Drop for Stands {
    fn drop(&mut self) {
        let elsewhere = self.elsewhere.iter();
        elsewhere.for_each(|poller| pin_thread(poller.pid.load(Ordering::Relaxed), poller.cpu.0.into()));
    }
}

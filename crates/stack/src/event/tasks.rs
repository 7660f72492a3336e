//! Tasks that wait for one socket: a waker each way, which is called by who has news, without a context or a thread between.
//!
//! A socket that no task has waited for has none of this, and its deliveries look at nothing more (`source`). Each way:
//!
//! | the task | who has news |
//! |---|---|
//! | leaves its waker, says that it waits (`ring::DemandOnce`), looks again | publishes, fences, takes what was said, calls the waker |
//!
//! A waker is called once for each time that the task has said so. It stays where it is until another task or the socket's end takes its
//! place: a delivery drops no task, and a task that waits again allocates nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Waker;

use arc_swap::ArcSwapOption;
use napier_ring::DemandOnce;
use napier_sys::current;

use crate::event::interest::Interest;
use crate::host::{Host, Sleeper, Whom};
use crate::wait::deferred::{self, Work};
use crate::wait::park::this_cpu;

/// Both ways, by [`Whom`]'s number.
const WAYS: [Whom; 2] = [Whom::Reader, Whom::Writer];

/// The tasks that wait for a socket.
pub(super) struct Tasks {
    /// Which ways a task waits: bits by [`Whom`]'s number.
    waiting: DemandOnce,
    wakers: [ArcSwapOption<Waker>; 2],
    /// The processor where a task said last that it waits. A hint: it may run elsewhere next time.
    cpu: AtomicU32,
    /// Whose polls call. None: what has news is no packet.
    host: Option<Arc<dyn Host>>,
}

impl Tasks {
    pub(super) fn new(host: Option<Arc<dyn Host>>) -> Self {
        Self {
            waiting: DemandOnce::default(),
            wakers: [const { ArcSwapOption::const_empty() }; 2],
            cpu: AtomicU32::new(0),
            host,
        }
    }

    /// The task of `waker` waits this way, in place of one that did. It looks again after this.
    pub(super) fn wait(&self, way: Whom, waker: &Waker) {
        let place = &self.wakers[way as usize];
        if !place.load().as_ref().is_some_and(|there| there.will_wake(waker)) {
            place.store(Some(Arc::new(waker.clone())));
        }
        // Relaxed: a hint.
        self.cpu.store(this_cpu(), Ordering::Relaxed);
        self.waiting.want(bit(way));
    }

    /// Tells the tasks that `ready` conditions have come to hold. The caller has published them, with a full fence after that.
    pub(super) fn tell(self: &Arc<Self>, ready: Interest) {
        let ended = WAYS.into_iter().filter(|way| way.is_ended_by(ready)).fold(0, |bits, way| bits | bit(way));
        let told = self.waiting.take(ended);
        for way in WAYS.into_iter().filter(|way| told & bit(*way) != 0) {
            let polls = deferred::held(Work::Calls) > 0;
            // Relaxed: a hint.
            let shares_cpu = || self.cpu.load(Ordering::Relaxed) == this_cpu();
            let owes = |host: &Arc<dyn Host>| polls && host.owe_call(&|| Some(self.clone()), way, shares_cpu());
            if !self.host.as_ref().is_some_and(owes) {
                self.call(way);
            }
        }
    }

    /// No task waits for the socket any more.
    pub(super) fn close(&self) {
        self.wakers.iter().for_each(|place| place.store(None));
    }

    /// The task waits no more: it has found news, of which it was told or is not to be.
    pub(super) fn waits_no_more(&self, way: Whom) {
        let _ = self.waiting.take(bit(way));
    }

    /// As before a sleep: what was put off on this thread is done, for it may do nothing else of the engine for a while.
    pub(super) fn about_to_wait(&self, has_news: &dyn Fn() -> bool) {
        deferred::settle(Work::Calls);
        deferred::settle(Work::ExactTimers);
        if let Some(cpu) = self.host.as_ref().and_then(|host| host.prepare_to_wait(has_news)) {
            cpu.end();
        }
    }
}

impl Sleeper for Tasks {
    fn call(&self, way: Whom) {
        if let Some(waker) = &*self.wakers[way as usize].load() {
            current::count_wakeup();
            waker.wake_by_ref();
        }
    }
}

const fn bit(way: Whom) -> u32 {
    1 << way as u32
}

impl Whom {
    /// Whether `ready` ends the wait.
    pub(super) const fn is_ended_by(self, ready: Interest) -> bool {
        match self {
            Self::Reader => ready.ends_read_wait(),
            Self::Writer => ready.ends_write_wait(),
        }
    }
}

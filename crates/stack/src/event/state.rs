//! What a context consists of; shared by its handles, the sockets it watches and the deliveries under way.

use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use napier_core::event::{EpollParams, attach, busy_poll_on};
use napier_ring::ReadyQueue;

use crate::event::source::{Member, Subscriber};
use crate::event::stats::ContextCounters;
use crate::event::table::Table;
use crate::host::{ContextShown, Dependant, Host};
use crate::wait::park::{Parker, Sleeper, Whom};

static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);

/// Lock order: `table` of one context, then the writer lock of one source. Deliveries take neither.
pub(super) struct ContextState {
    number: u64,
    pub(super) queue: ReadyQueue,
    pub(super) parker: Parker,
    pub(super) host: Arc<dyn Host>,
    pub(super) counters: ContextCounters,
    pub(super) params: Params,
    /// The engine has stopped.
    stopped: AtomicBool,
    /// The instance to busy poll; not a valid id if there is none. Relaxed throughout: the last event wins, and a wait
    /// that sees an event has synchronised with its delivery on the ready list.
    napi_id: AtomicU32,
    table: Mutex<Table<Member>>,
}

/// The busy-polling parameters: stored one by one, as the kernel does (`fs/eventpoll.c` `ep_eventpoll_bp_ioctl`), so a
/// reader may see some of a change. Relaxed throughout: they order nothing.
#[derive(Default)]
pub(super) struct Params {
    busy_poll_usecs: AtomicU32,
    busy_poll_budget: AtomicU16,
    prefer_busy_poll: AtomicBool,
}

impl Params {
    pub(super) fn load(&self) -> EpollParams {
        EpollParams {
            busy_poll_usecs: self.busy_poll_usecs.load(Ordering::Relaxed),
            busy_poll_budget: self.busy_poll_budget.load(Ordering::Relaxed),
            prefer_busy_poll: self.prefer_busy_poll.load(Ordering::Relaxed),
        }
    }

    pub(super) fn store(&self, params: EpollParams) {
        self.busy_poll_usecs.store(params.busy_poll_usecs, Ordering::Relaxed);
        self.busy_poll_budget.store(params.busy_poll_budget, Ordering::Relaxed);
        self.prefer_busy_poll.store(params.prefer_busy_poll, Ordering::Relaxed);
    }
}

impl ContextState {
    pub(super) fn new(host: Arc<dyn Host>, members_max: u32) -> Self {
        Self {
            // Relaxed: a number of its own is all that is asked for.
            number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
            queue: ReadyQueue::new(members_max),
            parker: Parker::new(),
            host,
            counters: ContextCounters::default(),
            params: Params::default(),
            stopped: AtomicBool::new(false),
            napi_id: AtomicU32::new(0),
            table: Mutex::new(Table::new(members_max)),
        }
    }

    #[inline]
    pub(super) fn is_stopped(&self) -> bool {
        // Acquire: pairs with the Release in `engine_stops`.
        self.stopped.load(Ordering::Acquire)
    }

    pub(super) fn napi_id(&self) -> u32 {
        self.napi_id.load(Ordering::Relaxed)
    }

    pub(super) fn set_napi_id(&self, napi_id: u32) {
        self.napi_id.store(napi_id, Ordering::Relaxed);
    }

    /// Takes over the id of a member that was added or has news, if the context busy polls.
    #[inline]
    pub(super) fn attach(&self, member_napi_id: u32) {
        let params = self.params.load();
        let sysctl = self.host.sysctl_busy_poll();
        if !busy_poll_on(&params, sysctl) {
            return;
        }
        let current = self.napi_id();
        let next = attach(current, &params, sysctl, member_napi_id, self.host.first_napi_id());
        if next != current {
            self.set_napi_id(next);
        }
    }

    /// Queues a slot and wakes a wait. The caller has published the reason, with a full fence after that.
    #[inline]
    pub(super) fn offer(self: &Arc<Self>, slot: u32) {
        if self.queue.offer(slot) && self.parker.wake_told(&*self.host, &|| Some(self.clone()), Whom::Reader) {
            self.counters.wakes.0.add(1);
        }
    }

    /// Removes the member of a source that is being closed.
    pub(super) fn forget(&self, subscriber: &Arc<Subscriber>) {
        // Dropped after the lock is released: it may be the last reference to the socket.
        let _member = self.table().remove(subscriber.slot, |member| member.is(subscriber));
    }

    pub(super) fn table(&self) -> MutexGuard<'_, Table<Member>> {
        self.table.lock().expect("no change of the membership panics")
    }
}

impl Sleeper for ContextState {
    fn call(&self, _whom: Whom) {
        self.parker.call_owed();
    }
}

impl Dependant for ContextState {
    fn engine_stops(&self) {
        // Release: pairs with the Acquire in `is_stopped`.
        self.stopped.store(true, Ordering::Release);
    }

    fn end_waits(&self) {
        self.parker.wake_all();
    }

    fn event_context(&self) -> Option<ContextShown> {
        Some(ContextShown { number: self.number, napi_id: self.napi_id(), stats: self.counters.snapshot() })
    }
}

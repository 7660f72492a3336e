//! A socket and an engine that do what the test says and write down what they are asked.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use napier_core::busy::BusyParams;

use crate::event::source::sealed::{Watchable, Watched};
use crate::event::{EpollParamsRequest, Event, EventContext, Interest, Source, Timeout};
use crate::seams::Host;

/// The lowest valid id of the fake engine, and two ids.
pub(super) const FIRST_ID: u32 = 100;
pub(super) const N1: u32 = 101;
pub(super) const N2: u32 = 102;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Call {
    Busy(u32, BusyParams),
    Suspend(u32),
    Resume(u32),
}

type Action = Box<dyn FnOnce() + Send>;

/// An engine whose busy loop runs one scripted action per call.
#[derive(Default)]
pub(super) struct FakeEngine {
    calls: Mutex<Vec<Call>>,
    in_busy_loop: Mutex<Vec<Action>>,
    in_resume: Mutex<Vec<Action>>,
    pub(super) sysctl: AtomicU32,
    pub(super) unprivileged: AtomicU32,
}

impl FakeEngine {
    pub(super) fn context(self: &Arc<Self>) -> EventContext {
        EventContext::with_members_max(self.clone() as Arc<dyn Host>, 16)
    }

    /// What was asked since the last call of this.
    pub(super) fn calls(&self) -> Vec<Call> {
        std::mem::take(&mut *self.calls.lock().unwrap())
    }

    /// The next busy loop does this, once.
    pub(super) fn during_busy_loop(&self, action: impl FnOnce() + Send + 'static) {
        self.in_busy_loop.lock().unwrap().push(Box::new(action));
    }

    /// The next resume does this, once.
    pub(super) fn during_resume(&self, action: impl FnOnce() + Send + 'static) {
        self.in_resume.lock().unwrap().push(Box::new(action));
    }

    fn note(&self, call: Call, script: &Mutex<Vec<Action>>) {
        self.calls.lock().unwrap().push(call);
        let action = script.lock().unwrap().pop();
        if let Some(action) = action {
            action();
        }
    }
}

impl Host for FakeEngine {
    fn sysctl_busy_read(&self) -> u32 {
        0
    }

    fn sysctl_busy_poll(&self) -> u32 {
        self.sysctl.load(Ordering::Relaxed)
    }

    fn first_napi_id(&self) -> u32 {
        FIRST_ID
    }

    fn cap_net_admin(&self) -> bool {
        self.unprivileged.load(Ordering::Relaxed) == 0
    }

    fn busy_loop(&self, napi_id: u32, params: BusyParams, ready: &mut dyn FnMut() -> bool) {
        self.note(Call::Busy(napi_id, params), &self.in_busy_loop);
        ready();
    }

    fn suspend_irqs(&self, napi_id: u32) {
        self.note(Call::Suspend(napi_id), &Mutex::default());
    }

    fn resume_irqs(&self, napi_id: u32) {
        self.note(Call::Resume(napi_id), &self.in_resume);
    }
}

/// A socket of unconnected UDP's shape: a count of datagrams and a recorded id.
#[derive(Clone)]
pub(super) struct FakeSocket {
    owner: Arc<Owner>,
}

struct Owner {
    shared: Arc<Shared>,
}

#[derive(Default)]
pub(super) struct Shared {
    source: Source,
    pub(super) datagrams: AtomicU32,
    other_conditions: AtomicU32,
    napi_id: AtomicU32,
}

impl FakeSocket {
    pub(super) fn new() -> Self {
        Self { owner: Arc::new(Owner { shared: Arc::default() }) }
    }

    /// A socket that has received from this instance before.
    pub(super) fn of(napi_id: u32) -> Self {
        let socket = Self::new();
        socket.shared().napi_id.store(napi_id, Ordering::Relaxed);
        socket
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.owner.shared
    }

    /// What the owner of an instance does when a datagram has arrived.
    pub(super) fn deliver(&self, napi_id: u32) {
        self.shared().deliver(napi_id);
    }

    pub(super) fn receive(&self) -> bool {
        let take = |n: u32| n.checked_sub(1);
        self.shared().datagrams.try_update(Ordering::AcqRel, Ordering::Relaxed, take).is_ok()
    }

    pub(super) fn receive_all(&self) -> u32 {
        self.shared().datagrams.swap(0, Ordering::AcqRel)
    }

    pub(super) fn set_condition(&self, condition: Interest) {
        self.shared().other_conditions.fetch_or(condition.bits(), Ordering::Release);
        self.shared().source.notify(0, condition);
    }
}

impl Shared {
    pub(super) fn deliver(&self, napi_id: u32) {
        self.napi_id.store(napi_id, Ordering::Relaxed);
        self.datagrams.fetch_add(1, Ordering::Release);
        self.source.notify(napi_id, Interest::IN);
    }
}

impl Watched for Shared {
    fn source(&self) -> &Source {
        &self.source
    }

    fn ready(&self) -> Interest {
        let receive = match self.datagrams.load(Ordering::Acquire) {
            0 => Interest::NONE,
            _ => Interest::IN,
        };
        receive | Interest::from_bits(self.other_conditions.load(Ordering::Acquire))
    }

    fn napi_id(&self) -> u32 {
        self.napi_id.load(Ordering::Relaxed)
    }
}

impl Watchable for FakeSocket {
    fn watched(&self) -> Arc<dyn Watched> {
        self.owner.shared.clone()
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.shared.source.close();
    }
}

pub(super) fn params(usecs: u32, budget: u16, prefer: u8) -> EpollParamsRequest {
    EpollParamsRequest { busy_poll_usecs: usecs, busy_poll_budget: budget, prefer_busy_poll: prefer, pad: 0 }
}

/// The data words of what is ready now, in order, with room for `events_max`.
pub(super) fn poll_some(context: &EventContext, events_max: usize) -> Vec<u64> {
    let mut events = vec![Event::default(); events_max];
    let found = context.wait(&mut events, Timeout::Now).unwrap();
    events[..found].iter().map(|event| event.data).collect()
}

/// The data words of what is ready now.
pub(super) fn poll(context: &EventContext) -> Vec<u64> {
    poll_some(context, 64)
}

//! A socket that does what the test says.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::event::source::sealed::{Watchable, Watched};
use crate::event::{EpollParamsRequest, Event, EventContext, Interest, Source, Timeout};
use crate::host::Host;
use crate::testing::NAPI;
pub(super) use crate::testing::{Call, FIRST_ID, FakeEngine};

pub(super) const N1: u32 = NAPI;
pub(super) const N2: u32 = NAPI + 1;

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

    fn host(&self) -> Option<Arc<dyn Host>> {
        None
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

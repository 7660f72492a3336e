//! What name spaces know of their engine, and who hears of its end.
//!
//! The engine's instances own devices, devices are in name spaces, and name spaces call the engine: a circle. It is cut
//! here when the engine stops. A look at the engine costs a slow path one load; no packet makes it.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use arc_swap::ArcSwapOption;
use napier_core::busy::BusyParams;
use napier_core::time::Instant;
use napier_ring::FrameTable;

use super::{EngineInner, NR_CPUS, ThreadRole};
use crate::clock::Clock;
use crate::stack::seams::{Dependant, Host};

/// An engine as its name spaces see it, during its life and after.
pub(crate) struct EngineHost {
    frames: Arc<FrameTable>,
    engine: ArcSwapOption<EngineInner>,
}

impl EngineHost {
    pub(super) fn new(frames: Arc<FrameTable>) -> Self {
        Self { frames, engine: ArcSwapOption::empty() }
    }

    pub(super) fn begin(&self, engine: &Arc<EngineInner>) {
        self.engine.store(Some(engine.clone()));
    }

    /// Lets go of the engine.
    pub(super) fn end(&self) {
        self.engine.store(None);
    }
}

impl Host for EngineHost {
    fn frames(&self) -> &Arc<FrameTable> {
        &self.frames
    }

    fn clock(&self) -> &Clock {
        &Clock
    }

    fn busy_read_usecs(&self) -> u32 {
        self.engine.load().as_ref().map_or(0, |engine| engine.sysctl.busy_read())
    }

    fn first_napi_id(&self) -> u32 {
        NR_CPUS + 1
    }

    fn cap_net_admin(&self) -> bool {
        self.engine.load().as_ref().is_some_and(|engine| engine.may_administer())
    }

    fn thread_begins(&self, name: &str) {
        if let Some(engine) = &*self.engine.load() {
            engine.unpin_thread();
            crate::softirq::never_run_inline();
            engine.threads.register(ThreadRole::Program { name: name.to_owned() });
        }
    }

    fn oversee(&self, now: Instant) {
        if let Some(engine) = &*self.engine.load() {
            engine.oversee(now);
        }
    }

    fn busy_loop(&self, napi_id: u32, params: BusyParams, ready: &mut dyn FnMut() -> bool) {
        if let Some(engine) = &*self.engine.load() {
            engine.busy_loop(napi_id, params, ready);
        }
    }
}

/// The dependants of an engine; those that are gone are forgotten when as many have come since.
#[derive(Default)]
pub(super) struct Dependants(Mutex<Vec<Weak<dyn Dependant>>>);

impl Dependants {
    pub(super) fn add(&self, new: Weak<dyn Dependant>) {
        let mut all = self.lock();
        if all.len() == all.capacity() {
            all.retain(|one| one.strong_count() > 0);
            let room = all.len().max(8);
            all.reserve(room);
        }
        all.push(new);
    }

    pub(super) fn stop(&self) {
        // Not under the lock: what is told may drop what it holds.
        let all = std::mem::take(&mut *self.lock());
        let all: Vec<_> = all.iter().filter_map(Weak::upgrade).collect();
        all.iter().for_each(|one| one.engine_stops());
        all.iter().for_each(|one| one.end_waits());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Weak<dyn Dependant>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

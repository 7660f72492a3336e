//! What name spaces know of their engine, and who hears of its end.
//!
//! The engine's instances own devices, devices are in name spaces, and name spaces call the engine: a circle. It is cut
//! here when the engine stops. A look at the engine costs a slow path one load; no packet makes it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use arc_swap::ArcSwapOption;
use napier_core::busy::BusyParams;
use napier_core::tcp::memory::MemoryLimits;
use napier_core::time::Instant;

use super::{Engine, EngineInner};
use crate::bounds::NR_CPUS;
use crate::napi::Context;
use crate::threads::ThreadRole;
use crate::tx::PerThread;
use napier_stack::host::{
    Busy, ContextShown, Dependant, Host, HostSettings, IrqHandOver, Lifetime, Sleeper, Wait, Whom,
};

/// An engine as its name spaces see it, during its life and after.
#[derive(Default)]
pub(crate) struct EngineHost(ArcSwapOption<EngineInner>);

impl EngineHost {
    pub(super) fn begin(&self, engine: &Arc<EngineInner>) {
        self.0.store(Some(engine.clone()));
    }

    /// Lets go of the engine.
    pub(super) fn end(&self) {
        self.0.store(None);
    }

    fn engine<R>(&self, f: impl FnOnce(&EngineInner) -> R) -> Option<R> {
        self.0.load().as_deref().map(f)
    }
}

impl HostSettings for EngineHost {
    fn sysctl_busy_read(&self) -> u32 {
        self.engine(HostSettings::sysctl_busy_read).unwrap_or(0)
    }

    fn sysctl_busy_poll(&self) -> u32 {
        self.engine(HostSettings::sysctl_busy_poll).unwrap_or(0)
    }

    fn first_napi_id(&self) -> u32 {
        NR_CPUS + 1
    }

    fn cap_net_admin(&self) -> bool {
        self.engine(EngineInner::cap_net_admin).unwrap_or(false)
    }

    fn tcp_mem(&self) -> MemoryLimits {
        // An engine that has stopped has nothing to bound.
        self.engine(HostSettings::tcp_mem).unwrap_or(MemoryLimits::of_machine(0))
    }
}

impl Busy for EngineHost {
    fn busy_loop(&self, napi_id: u32, params: BusyParams, ready: &mut dyn FnMut() -> bool) {
        self.engine(|engine| engine.busy_loop(napi_id, params, ready));
    }

    fn suspend_irqs(&self, napi_id: u32) {
        self.engine(|engine| engine.suspend_irqs(napi_id));
    }

    fn resume_irqs(&self, napi_id: u32) {
        self.engine(|engine| engine.resume_irqs(napi_id));
    }
}

impl Wait for EngineHost {
    fn poll_deferred(&self) {
        self.engine(Wait::poll_deferred);
    }

    fn prepare_to_wait(&self, ready: &dyn Fn() -> bool) -> Option<Arc<dyn IrqHandOver>> {
        self.engine(|engine| engine.prepare_to_wait(ready)).flatten()
    }

    fn watchdog_tick(&self, now: Instant) {
        self.engine(|engine| engine.watchdog_tick(now));
    }

    fn owe_call(&self, sleeper: &dyn Fn() -> Option<Arc<dyn Sleeper>>, whom: Whom, shares_cpu: bool) -> bool {
        PerThread::owe_call(sleeper, whom, shares_cpu)
    }
}

impl Lifetime for EngineHost {
    fn add_dependant(&self, dependant: Weak<dyn Dependant>) {
        self.engine(|engine| engine.add_dependant(dependant));
    }

    fn thread_begins(&self, name: &str) {
        self.engine(|engine| engine.thread_begins(name));
    }
}

/// Here and below: as event contexts see it, which no instance owns.
impl HostSettings for EngineInner {
    fn sysctl_busy_read(&self) -> u32 {
        self.deliver.sysctl.busy_read()
    }

    fn sysctl_busy_poll(&self) -> u32 {
        self.deliver.sysctl.busy_poll.load(Ordering::Relaxed)
    }

    fn first_napi_id(&self) -> u32 {
        NR_CPUS + 1
    }

    fn cap_net_admin(&self) -> bool {
        Self::cap_net_admin(self)
    }

    fn tcp_mem(&self) -> MemoryLimits {
        self.deliver.sysctl.tcp_mem.unwrap_or_else(napier_stack::host::tcp_mem_of_machine)
    }
}

impl Busy for EngineInner {
    fn busy_loop(&self, napi_id: u32, params: BusyParams, ready: &mut dyn FnMut() -> bool) {
        self.deliver.busy_loop(napi_id, params, ready);
    }

    fn suspend_irqs(&self, napi_id: u32) {
        self.deliver.suspend_irqs(napi_id);
    }

    fn resume_irqs(&self, napi_id: u32) {
        self.deliver.resume_irqs(napi_id);
    }
}

impl Wait for EngineInner {
    fn poll_deferred(&self) {
        self.deliver.softirq.poll_deferred(&self.deliver);
    }

    fn prepare_to_wait(&self, ready: &dyn Fn() -> bool) -> Option<Arc<dyn IrqHandOver>> {
        self.deliver.softirq.prepare_to_wait(&self.deliver, ready)
    }

    fn watchdog_tick(&self, now: Instant) {
        self.deliver.watchdog.tick(Context::current(), &self.deliver, now);
    }

    fn owe_call(&self, sleeper: &dyn Fn() -> Option<Arc<dyn Sleeper>>, whom: Whom, shares_cpu: bool) -> bool {
        PerThread::owe_call(sleeper, whom, shares_cpu)
    }
}

impl Lifetime for EngineInner {
    fn add_dependant(&self, dependant: Weak<dyn Dependant>) {
        self.dependants.add(dependant);
    }

    fn thread_begins(&self, name: &str) {
        self.deliver.unpin_thread();
        Context::begin_duty();
        PerThread::begin_duty(&self.deliver.threads, ThreadRole::Program { name: name.to_owned() });
    }
}

impl From<&Engine> for Arc<dyn Host> {
    fn from(engine: &Engine) -> Self {
        engine.inner.clone()
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

    /// The event contexts that are there.
    pub(super) fn event_contexts(&self) -> Vec<ContextShown> {
        // Not under the lock: one that goes meanwhile goes here.
        let all: Vec<_> = self.lock().iter().filter_map(Weak::upgrade).collect();
        all.iter().filter_map(|one| one.event_context()).collect()
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

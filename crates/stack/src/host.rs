//! The port to the engine: what sockets and event contexts ask of it, and what it is told.
//!
//! It is called through a pointer: on the receive side once per event context that is notified, and when a socket found
//! nothing to read.

use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use napier_core::busy::BusyParams;
use napier_core::tcp::memory::MemoryLimits;
use napier_core::time::{Deadline, Instant};
use rustix::fd::OwnedFd;

/// The engine, as far as sockets and event contexts know it.
pub trait Host: HostSettings + Busy + Wait + Lifetime {}

impl<T: HostSettings + Busy + Wait + Lifetime> Host for T {}

/// What is asked when a socket or an event context is made or set up, and when a call begins.
pub trait HostSettings: Send + Sync {
    /// `net.core.busy_read` in µs: the busy time of new sockets.
    fn sysctl_busy_read(&self) -> u32;
    /// `net.core.busy_poll` in µs: the busy time of event contexts without one of their own; 0 = off.
    fn sysctl_busy_poll(&self) -> u32;
    /// The smallest number that names a NAPI instance (`include/net/busy_poll.h` `napi_id_valid`).
    fn first_napi_id(&self) -> u32;
    /// Whether the process may do what needs `CAP_NET_ADMIN`.
    fn cap_net_admin(&self) -> bool;
    /// `net.ipv4.tcp_mem` of name spaces that begin with TCP from now on.
    fn tcp_mem(&self) -> MemoryLimits {
        tcp_mem_of_machine()
    }
}

/// What Linux takes for `net.ipv4.tcp_mem` on this machine, or on one of 4 GiB if that is not known.
#[must_use]
pub fn tcp_mem_of_machine() -> MemoryLimits {
    MemoryLimits::of_machine(napier_sys::heap::machine_bytes().unwrap_or(4 << 30))
}

/// What a call that found nothing to read does of an instance.
pub trait Busy: Send + Sync {
    /// Polls the instance until `ready` says true or the limit has passed (`net/core/dev.c` `napi_busy_loop`); returns at
    /// once if there is none with this id.
    fn busy_loop(&self, napi_id: u32, params: BusyParams, ready: &mut dyn FnMut() -> bool);
    /// Arms the instance's timer with its suspend time-out (`net/core/dev.c` `napi_suspend_irqs`).
    fn suspend_irqs(&self, napi_id: u32);
    /// Schedules the instance if it has a suspend time-out (`net/core/dev.c` `napi_resume_irqs`).
    fn resume_irqs(&self, napi_id: u32);
}

/// What a thread does for the engine where it waits. It holds nothing there.
///
/// In this order: [`poll_deferred`](Self::poll_deferred) if it does not busy poll; and if it sleeps
/// [`prepare_to_wait`](Self::prepare_to_wait), by way of [`Parker::sleep_in`](crate::wait::park::Parker::sleep_in), or
/// before it sleeps outside.
pub trait Wait: Send + Sync {
    /// The calling thread has come for packets and will find no busy loop: what was deferred on its CPU is done now, if it is time.
    fn poll_deferred(&self) {}
    /// The calling thread is about to sleep unless `ready` (`kernel/sched/wait.c` `prepare_to_wait`): what was deferred so that it
    /// is not interrupted is done now, and may be for it. If it sleeps after that, and may work for a CPU meanwhile, that CPU;
    /// the caller [ends](IrqHandOver::end) that.
    fn prepare_to_wait(&self, ready: &dyn Fn() -> bool) -> Option<Arc<dyn IrqHandOver>> {
        let _ = ready;
        None
    }
    /// The calling thread has woken up or is about to sleep, and looks whether another thread of the engine is kept from its work.
    fn watchdog_tick(&self, now: Instant) {
        let _ = now;
    }
    /// The calling thread has taken the announcement of a sleeper in a poll, and owes it a call. True: it makes it when the poll is
    /// over ([`Work::Calls`](crate::wait::deferred::Work)). False: now. `shares_cpu`: the sleeper is on the calling thread's processor.
    fn owe_call(&self, sleeper: &dyn Fn() -> Option<Arc<dyn Sleeper>>, whom: Whom, shares_cpu: bool) -> bool {
        let _ = (sleeper, whom, shares_cpu);
        false
    }
}

/// Where threads sleep for what polls deliver.
pub trait Sleeper: Send + Sync {
    /// Calls one that sleeps there, if it still does. The caller has taken its announcement before.
    fn call(&self, whom: Whom);
}

/// Which of a socket's sleepers.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Whom {
    /// Who waits for something to receive, or for an event.
    Reader,
    /// Who waits for room to send.
    Writer,
}

/// Who is told when threads begin, and when the engine ends.
pub trait Lifetime: Send + Sync {
    /// Tells `dependant` when the engine ends.
    fn add_dependant(&self, dependant: Weak<dyn Dependant>) {
        let _ = dependant;
    }
    /// The calling thread begins to work for the engine, under this name.
    fn thread_begins(&self, name: &str) {
        let _ = name;
    }
}

/// A CPU whose interrupts and timers are handed over to a sleeping thread, instead of the CPU's own. One thread has it at a time.
pub trait IrqHandOver: Send + Sync {
    /// The event counter (`eventfd(2)`) that ends a [`sleep`](Self::sleep).
    fn bell(&self) -> &Arc<OwnedFd>;
    /// Sleeps until the CPU has something to do, another thread rings the bell or the deadline passes. Then calls `awake`, once,
    /// does what there is to do, and returns. May return early.
    fn sleep(&self, deadline: Deadline, awake: &mut dyn FnMut());
    /// The caller sleeps no more: the CPU's own thread takes what comes.
    fn end(&self);
}

/// Who writes down what sockets got.
pub trait Deliveries {
    /// The socket that is bound to `to` got `packets` datagrams from instance `napi_id`.
    fn delivered(&self, napi_id: u32, to: SocketAddr, packets: u32);
}

/// A reading of a context's counters. The numbers are read one by one, not at one instant.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct EventStats {
    /// Calls of `wait`.
    pub waits: u64,
    /// Events returned by `wait`.
    pub events: u64,
    /// Busy loops run before a sleep.
    pub busy_loops: u64,
    /// Times a wait went to sleep (or found work at the last look before it).
    pub sleeps: u64,
    /// Futex calls that deliveries made to wake a sleeping wait.
    pub wakes: u64,
}

napier_core::shown!(EventStats { waits, events, busy_loops, sleeps, wakes });

/// What can be seen of an event context from outside.
#[derive(Copy, Clone, Debug)]
pub struct ContextShown {
    /// 1 is the first context that the process made.
    pub number: u64,
    /// The instance that a wait would busy poll now, or 0.
    pub napi_id: u32,
    /// Its counters.
    pub stats: EventStats,
}

/// What has threads that wait for what only the engine can bring about.
pub trait Dependant: Send + Sync {
    /// No packet will come and nothing will be sent any more: waits that begin after this end at once.
    fn engine_stops(&self);
    /// Ends those that have begun. Comes when all dependants know, so that each wait ends for this reason.
    fn end_waits(&self);
    /// What can be seen of it, if it is an event context.
    fn event_context(&self) -> Option<ContextShown> {
        None
    }
}

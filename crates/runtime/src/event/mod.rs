//! Event contexts: waiting for many sockets at once, with the rules of `epoll(7)`.
//!
//! An [`EventContext`] is to Napier's sockets what an epoll descriptor is to the kernel's: members are added with an
//! [`Interest`] and a word of user data, [`EventContext::wait`] returns those that are ready. Level, edge and one-shot
//! reporting, the order of the ready list and the busy-polling parameters behave as in `fs/eventpoll.c`.
//!
//! ```no_run
//! use napier_runtime::{Engine, Event, EventContext, Interest, Timeout, UserEvent};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let engine = Engine::builder().start()?;
//! let context = EventContext::new(&engine);
//! let stop = UserEvent::new();
//! context.add(&stop, Interest::IN, 7)?;
//! stop.trigger();
//!
//! let mut events = [Event::default(); 64];
//! let ready = context.wait(&mut events, Timeout::Never)?;
//! assert_eq!((ready, events[0].data), (1, 7));
//! # Ok(())
//! # }
//! ```
//!
//! # What is different from epoll
//! * Contexts do not nest, and there is no `EPOLLEXCLUSIVE` or `EPOLLWAKEUP`: those bits are refused.
//! * The number of members is bounded when the context is made ([`EventContext::MEMBERS_DEFAULT`]).
//! * Signals do not end a wait; add a [`UserEvent`] and trigger it instead.
//!
//! # Cost
//! The thread that delivers a packet takes no lock and allocates nothing: per context that watches the socket it does
//! one push at most (none while the member is queued already), and one futex call at most (none while no thread sleeps).
//! A wait that finds events makes no system call, and takes one lock that only other waits and changes of the
//! membership of the same context take.

mod context;
mod errors;
mod interest;
mod queue;
mod source;
mod state;
mod stats;
mod table;
mod user;
mod wait;

use napier_core::busy::BusyParams;

pub use context::EventContext;
pub use errors::{AddError, DeleteError, ModifyError, WaitError};
pub use interest::{Event, Interest, Timeout};
pub use napier_core::event::{EpollParams, EpollParamsError, EpollParamsRequest};
pub use source::Pollable;
pub use stats::EventStats;
pub use user::UserEvent;

pub(crate) use source::Source;
pub(crate) use source::sealed::{Watchable, Watched};

use crate::clock::Clock;

/// What a context asks of the engine that it belongs to.
pub(crate) trait BusyPoller: Send + Sync {
    /// The clock that deadlines are measured with (`CLOCK_MONOTONIC`).
    fn clock(&self) -> &Clock;

    /// The engine-wide setting `busy_poll`, in units of 1.024 µs; 0 = off (`net.core.busy_poll`).
    fn sysctl_busy_poll(&self) -> u32;

    /// The lowest number that is a NAPI id (`include/net/busy_poll.h` `napi_id_valid`).
    fn first_napi_id(&self) -> u32;

    /// Whether the caller may ask for what the kernel reserves to `CAP_NET_ADMIN`.
    fn net_admin(&self) -> bool;

    /// Polls the instance until `ready` says true or the limit has passed (`net/core/dev.c` `napi_busy_loop`).
    /// An id that names nothing returns at once.
    fn busy_loop(&self, napi_id: u32, params: BusyParams, ready: &mut dyn FnMut() -> bool);

    /// The calling thread is about to sleep: it may do what somebody else is kept from doing.
    fn oversee(&self) {}

    /// Arms the instance's timer with its suspend time-out (`net/core/dev.c` `napi_suspend_irqs`).
    fn suspend_irqs(&self, napi_id: u32);

    /// Schedules the instance if it has a suspend time-out (`net/core/dev.c` `napi_resume_irqs`).
    fn resume_irqs(&self, napi_id: u32);
}

#[cfg(test)]
mod tests;

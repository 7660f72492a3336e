//! Event contexts: waiting for many sockets at once, with the rules of `epoll(7)`.
//!
//! An [`EventContext`] is to Napier's sockets what an epoll descriptor is to the kernel's: members are added with an
//! [`Interest`] and a word of user data, [`EventContext::wait`] returns those that are ready. Level, edge and one-shot
//! reporting, the order of the ready list and the busy-polling parameters behave as in `fs/eventpoll.c`.
//!
//! ```no_run
//! use napier_runtime::engine::Engine;
//! use napier_runtime::event::{Event, EventContext, Interest, Timeout, UserEvent};
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
//! # Beside descriptors of the kernel
//! A context has a [descriptor](EventContext::descriptor) that is readable when there may be something to report: a program with an event loop of its own puts
//! it into that loop, and calls [`wait`](EventContext::wait) with [`Timeout::Outside`] when it is readable, until that returns 0. So contexts nest in a kernel's `epoll(7)`.
//! The other way round, a [`JointContext`] has descriptors of the kernel as members.
//!
//! # Cost
//! The thread that delivers a packet takes no lock and allocates nothing: per context that watches the socket it does
//! one push at most (none while the member is queued already), and one futex call at most (none while no thread sleeps).
//! A wait that finds events makes no system call, and takes one lock that only other waits and changes of the
//! membership of the same context take.

mod context;
mod errors;
mod interest;
mod joint;
#[cfg(feature = "mio")]
mod mio;
mod source;
mod state;
mod stats;
mod table;
mod tasks;
mod user;
mod wait;

pub use crate::host::EventStats;
pub use context::EventContext;
pub use errors::{AddError, DeleteError, ModifyError, WaitError};
pub use interest::{Event, Interest, Timeout};
pub use joint::JointContext;
pub use napier_core::event::{EpollParams, EpollParamsError, EpollParamsRequest};
pub use source::Pollable;
pub use user::UserEvent;

pub(crate) use interest::STOPPED;
pub(crate) use source::Source;
pub(crate) use source::sealed::{Watchable, Watched};

#[cfg(test)]
mod tests;

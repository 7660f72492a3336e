//! What a context is told of its members.

use napier_runtime::event::{EventContext, Interest, Pollable};

use super::{Carries, Live, PosixSocket};
use crate::error::Failure;

/// A change of who is watched (`epoll_ctl(2)`).
#[derive(Copy, Clone, Debug)]
pub(crate) enum WatchChange {
    Add(Interest, u64),
    Modify(Interest, u64),
    Delete,
}

impl WatchChange {
    pub(crate) fn of<P: Pollable>(self, context: &EventContext, it: &P) -> Result<(), Failure> {
        // The sentence of the engine, with the number of epoll.
        let told = |text: String, error: std::io::Error| Failure::new(error.raw_os_error().unwrap_or(libc::EIO), text);
        match self {
            Self::Add(interest, data) => {
                context.add(it, interest, data).map_err(|error| told(error.to_string(), error.into()))
            }
            Self::Modify(interest, data) => {
                context.modify(it, interest, data).map_err(|error| told(error.to_string(), error.into()))
            }
            Self::Delete => context.delete(it).map_err(|error| told(error.to_string(), error.into())),
        }
    }
}

impl PosixSocket {
    /// Adds it to a context, or changes what it is watched for.
    pub(crate) fn watch(&self, context: &EventContext, how: WatchChange) -> Result<(), Failure> {
        let live = match (self.carries, self.live.get()) {
            (Carries::Stream, None) => {
                return Err(Failure::invalid("a stream is watched when it listens or connect has been called"));
            }
            (_, Some(live)) => live,
            (Carries::Datagrams, None) => self.live_or_bound()?,
        };
        match live {
            Live::Datagrams(socket) => how.of(context, socket),
            Live::Listener(listener) => how.of(context, listener),
            Live::Stream(stream) => how.of(context, stream),
        }
    }
}

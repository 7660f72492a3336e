//! What a context is told of its members.

use napier_runtime::event::{EventContext, Interest, Pollable};

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

//! A context in mio's event loop.

use std::io;
use std::os::fd::AsRawFd as _;

use ::mio::event::Source;
use ::mio::unix::SourceFd;
use ::mio::{Interest, Registry, Token};

use crate::event::context::EventContext;

/// As its [descriptor](EventContext::descriptor): wait with [`Timeout::Outside`](crate::event::Timeout::Outside) until that gives 0 before
/// `Poll::poll`, for mio tells edges. Only `Interest::READABLE` comes.
impl Source for EventContext {
    fn register(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        SourceFd(&self.descriptor()?.as_raw_fd()).register(registry, token, interests)
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        SourceFd(&self.descriptor()?.as_raw_fd()).reregister(registry, token, interests)
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        SourceFd(&self.descriptor()?.as_raw_fd()).deregister(registry)
    }
}

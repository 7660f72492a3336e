//! What all sockets have: a call that does not block, and the task that waits when it would.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};

use napier_runtime::event::Pollable;
use tokio::task::coop;

use crate::reactor::{Direction, Reactor, Watching};

/// A socket of the engine that a reactor watches. The socket goes first: its membership ends with it.
pub(crate) struct AsyncSocket<S> {
    pub(crate) socket: S,
    watching: Watching,
}

impl<S: Pollable> AsyncSocket<S> {
    /// Of a socket that does not block.
    pub(crate) fn new(reactor: &Reactor, socket: S) -> io::Result<Self> {
        let watching = reactor.watch(&socket)?;
        Ok(Self { socket, watching })
    }

    pub(crate) fn reactor(&self) -> &Reactor {
        self.watching.reactor()
    }

    /// Its reactor hands no events on any more.
    #[cfg(any(feature = "axum", feature = "quinn", feature = "tonic"))]
    pub(crate) fn has_ended(&self) -> bool {
        self.watching.has_ended()
    }

    /// Calls until it would not block.
    pub(crate) fn poll<R>(
        &self,
        cx: &mut Context<'_>,
        direction: Direction,
        mut call: impl FnMut(&S) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.watching.has_come();
        let turn = ready!(coop::poll_proceed(cx));
        let mut result = call(&self.socket);
        if would_block(&result) {
            self.watching.waiters().wait(direction, cx);
            // News that came before the waker was there has told nobody.
            result = call(&self.socket);
        }
        if would_block(&result) {
            if self.watching.has_ended() {
                return Poll::Ready(Err(io::Error::other(
                    "the reactor has ended: its engine has stopped, or its runtime is gone",
                )));
            }
            return Poll::Pending;
        }
        turn.made_progress();
        Poll::Ready(result)
    }

    /// As [`poll`](Self::poll).
    pub(crate) async fn wait<R>(
        &self,
        direction: Direction,
        mut call: impl FnMut(&S) -> io::Result<R>,
    ) -> io::Result<R> {
        poll_fn(|cx| self.poll(cx, direction, &mut call)).await
    }
}

fn would_block<R>(result: &io::Result<R>) -> bool {
    result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

//! What a program's calls do to a connection, each one attempt that never waits.

use std::io;
use std::sync::Arc;

use napier_core::time::Span;
use smoltcp::socket::tcp::State;

use super::super::counters::Counter;
use super::super::netns::Inner;
use super::super::seams::errno;
use super::conn::Conn;
use super::rules::{Cause, KeepAlive};
use super::workspace::smol_span;

/// What one attempt gave.
pub(super) enum Attempt {
    Done(usize),
    Failed(io::Error),
    /// Nothing to read, or no room to write, now.
    Wait,
}

impl Conn {
    /// Reads into `buffer`, or only looks. Source for the order of answers: `net/ipv4/tcp.c tcp_recvmsg_locked`.
    pub(super) fn read(self: &Arc<Self>, ns: &Inner, buffer: &mut [u8], peek: bool) -> Attempt {
        let mut core = self.lock();
        let queued = core.socket().recv_queue();
        if queued == 0 {
            let closed = core.live_state() == State::Closed;
            let attempt = match () {
                () if core.is_at_end() => Attempt::Done(0),
                () if core.error != 0 => Attempt::Failed(errno(core.take_error())),
                () if core.read_shut || closed => Attempt::Done(0),
                () => return Attempt::Wait,
            };
            self.publish_ready(&mut core);
            return attempt;
        }
        if peek {
            return Attempt::Done(core.socket().peek_slice(buffer).unwrap_or(0));
        }
        let count = core.socket().recv_slice(buffer).unwrap_or(0);
        core.read_since_sent += count;
        let left = queued - count;
        // smoltcp announces a window that has doubled; only what was read since the last segment can have done that.
        let capacity = core.socket().recv_capacity();
        if !core.dead && 2 * (left + core.read_since_sent) >= capacity + left {
            let now = ns.host.clock().now();
            core.drive(ns, now, None);
            let news = self.settle(ns, &mut core, now, Cause::Segment);
            drop(core);
            self.tell(ns, news);
        } else if left == 0 {
            self.publish_ready(&mut core);
        }
        Attempt::Done(count)
    }

    /// Writes as much of `data` as fits, and sends what may be sent.
    pub(super) fn write(self: &Arc<Self>, ns: &Inner, data: &[u8]) -> Attempt {
        let mut core = self.lock();
        if core.error != 0 {
            let error = core.take_error();
            self.publish_ready(&mut core);
            return Attempt::Failed(errno(error));
        }
        match core.live_state() {
            _ if core.write_shut => return Attempt::Failed(errno(libc::EPIPE)),
            State::Established | State::CloseWait => {}
            State::SynSent | State::SynReceived => return Attempt::Wait,
            _ => return Attempt::Failed(errno(libc::EPIPE)),
        }
        let count = core.socket().send_slice(data).unwrap_or(0);
        if count == 0 {
            self.publish_ready(&mut core);
            return if data.is_empty() { Attempt::Done(0) } else { Attempt::Wait };
        }
        let now = ns.host.clock().now();
        core.drive(ns, now, None);
        let news = self.settle(ns, &mut core, now, Cause::Segment);
        drop(core);
        self.tell(ns, news);
        Attempt::Done(count)
    }

    /// `shutdown`.
    ///
    /// # Errors
    /// ENOTCONN unless connected.
    pub(super) fn shutdown(self: &Arc<Self>, ns: &Inner, read: bool, write: bool) -> io::Result<()> {
        let mut core = self.lock();
        if matches!(core.live_state(), State::Closed | State::SynSent) {
            return Err(errno(libc::ENOTCONN));
        }
        core.read_shut |= read;
        let now = ns.host.clock().now();
        if write && !std::mem::replace(&mut core.write_shut, true) {
            core.socket().close();
            core.drive(ns, now, None);
        }
        let news = self.settle(ns, &mut core, now, Cause::Program);
        drop(core);
        self.tell(ns, news);
        Ok(())
    }

    /// The last handle is gone. Unread data, or a linger time of 0, resets the connection (RFC 2525 section 2.17).
    pub(super) fn close(self: &Arc<Self>, ns: &Inner) {
        self.source.close();
        let mut core = self.lock();
        let now = ns.host.clock().now();
        core.orphaned(now);
        let unread = core.socket().recv_queue() > 0;
        match core.live_state() {
            State::Closed => {}
            State::SynSent => core.abort(ns, now),
            State::TimeWait => {}
            _ if unread || core.reset_on_close => {
                ns.counters.count(Counter::TcpAbortOnClose);
                core.abort(ns, now);
            }
            _ => {
                core.socket().close();
                core.drive(ns, now, None);
            }
        }
        let news = self.settle(ns, &mut core, now, Cause::Program);
        drop(core);
        self.tell(ns, news);
    }

    /// Resets a connection that nobody has accepted.
    pub(super) fn reset(self: &Arc<Self>, ns: &Inner) {
        self.lock().reset_on_close = true;
        self.close(ns);
    }

    pub(super) fn set_nodelay(self: &Arc<Self>, ns: &Inner, nodelay: bool) {
        let mut core = self.lock();
        core.nagle = !nodelay;
        core.socket().set_nagle_enabled(!nodelay);
        let now = ns.host.clock().now();
        if !core.dead {
            core.drive(ns, now, None);
        }
        let news = self.settle(ns, &mut core, now, Cause::Program);
        drop(core);
        self.tell(ns, news);
    }

    pub(super) fn set_keepalive(self: &Arc<Self>, ns: &Inner, keep: Option<KeepAlive>) {
        let mut core = self.lock();
        core.keep = keep;
        // smoltcp begins with a probe at once.
        core.socket().set_keep_alive(keep.map(|keep| smol_span(keep.idle.max(Span { ns: 1000 }))));
        let now = ns.host.clock().now();
        let news = self.settle(ns, &mut core, now, Cause::Program);
        drop(core);
        self.tell(ns, news);
    }

    /// The pending error, taken.
    pub(super) fn take_error(&self) -> Option<io::Error> {
        let mut core = self.lock();
        let error = core.take_error();
        self.publish_ready(&mut core);
        (error != 0).then(|| errno(error))
    }

    /// Whether there is a peer.
    pub(super) fn is_connected(&self) -> bool {
        let mut core = self.lock();
        !matches!(core.live_state(), State::Closed | State::SynSent)
    }

    /// Interface of a link-local peer; 0: any.
    pub(super) fn scope(&self) -> u32 {
        self.lock().outlet.route.scope()
    }

    /// `None` while the handshake goes on.
    pub(super) fn connected(&self) -> Option<io::Result<()>> {
        let mut core = self.lock();
        match core.live_state() {
            State::SynSent | State::SynReceived => None,
            State::Closed if !core.is_at_end() => {
                let error = match core.take_error() {
                    0 => libc::ECONNABORTED,
                    error => error,
                };
                self.publish_ready(&mut core);
                Some(Err(errno(error)))
            }
            _ => Some(Ok(())),
        }
    }
}

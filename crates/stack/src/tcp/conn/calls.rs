//! What a program's calls do to a connection, each one attempt that never waits.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use napier_core::time::Span;
use napier_sys::clock::Clock;

use crate::errno::errno;
use crate::tcp::Tcp;
use crate::tcp::conn::{Conn, Note};
use crate::tcp::machine::TcpState;
use crate::tcp::rules::{self, Cause, Patience};

/// What one attempt gave.
pub(in crate::tcp) enum Attempt {
    Done(usize),
    Failed(io::Error),
    /// Nothing to read, or no room to write, now.
    Wait,
}

impl Conn {
    /// Reads into `buffer`, or only looks. Source for the order of answers: `net/ipv4/tcp.c tcp_recvmsg_locked`.
    pub(in crate::tcp) fn read(self: &Arc<Self>, tcp: &Tcp, buffer: &mut [u8], peek: bool) -> Attempt {
        let mut core = self.own(tcp);
        if core.machine.unread() == 0 {
            let closed = core.live_state() == TcpState::Closed;
            let attempt = match () {
                () if core.is_at_end() => Attempt::Done(0),
                () if core.error != 0 => Attempt::Failed(errno(core.take_error())),
                () if core.read_shut || closed => Attempt::Done(0),
                () => return Attempt::Wait,
            };
            core.publish_ready();
            return attempt;
        }
        if peek {
            return Attempt::Done(core.machine.peek(buffer));
        }
        let (count, tells) = core.machine.read(buffer);
        if tells && !core.dead {
            let now = Clock.now();
            core.drive(&tcp.tables, now);
            core.publish_buffers();
            core.settle(now, Cause::Segment);
        } else if core.machine.unread() == 0 {
            core.publish_ready();
        }
        Attempt::Done(count)
    }

    /// Writes as much of `data` as fits, and sends what may be sent.
    pub(in crate::tcp) fn write(self: &Arc<Self>, tcp: &Tcp, data: &[u8]) -> Attempt {
        let mut core = self.own(tcp);
        if core.error != 0 {
            let error = core.take_error();
            core.publish_ready();
            return Attempt::Failed(errno(error));
        }
        match core.live_state() {
            _ if core.write_shut => return Attempt::Failed(errno(libc::EPIPE)),
            TcpState::Established | TcpState::CloseWait => {}
            TcpState::SynSent | TcpState::SynReceived => return Attempt::Wait,
            _ => return Attempt::Failed(errno(libc::EPIPE)),
        }
        let count = core.machine.write(data);
        if count == 0 {
            core.publish_ready();
            return if data.is_empty() { Attempt::Done(0) } else { Attempt::Wait };
        }
        let now = Clock.now();
        core.drive(&tcp.tables, now);
        core.publish_buffers();
        core.settle(now, Cause::Segment);
        Attempt::Done(count)
    }

    /// `shutdown`.
    ///
    /// # Errors
    /// ENOTCONN unless connected.
    pub(in crate::tcp) fn shutdown(self: &Arc<Self>, tcp: &Tcp, read: bool, write: bool) -> io::Result<()> {
        let mut core = self.own(tcp);
        if matches!(core.live_state(), TcpState::Closed | TcpState::SynSent) {
            return Err(errno(libc::ENOTCONN));
        }
        core.read_shut |= read;
        let now = Clock.now();
        if write && !std::mem::replace(&mut core.write_shut, true) {
            core.machine.close();
            core.drive(&tcp.tables, now);
        }
        core.settle(now, Cause::Program);
        Ok(())
    }

    /// The last handle is gone. Unread data, or a linger time of 0, resets the connection (RFC 2525 section 2.17). With another one: how long
    /// the program waits for the peer, as long as the connection [lingers](Self::is_lingering).
    #[must_use = "the program may want to wait"]
    pub(in crate::tcp) fn close(self: &Arc<Self>, tcp: &Tcp) -> Option<Span> {
        self.source.close();
        let mut core = self.own(tcp);
        core.close();
        let lingers = !core.linger.is_zero() && rules::lingers(core.live_state());
        // Relaxed: the owner writes it, and the Release of what ends it shows all that there is to see.
        self.lingers.store(lingers, Ordering::Relaxed);
        lingers.then_some(core.linger)
    }

    /// Resets a connection that no program has accepted; never waits.
    pub(in crate::tcp) fn reset(self: &Arc<Self>, tcp: &Tcp) {
        self.source.close();
        self.leave(tcp, Note::Reset);
    }

    pub(in crate::tcp) fn set_nodelay(self: &Arc<Self>, tcp: &Tcp, nodelay: bool) {
        let mut core = self.own(tcp);
        core.machine.set_nodelay(nodelay);
        let now = Clock.now();
        if !core.dead {
            core.drive(&tcp.tables, now);
        }
        core.settle(now, Cause::Program);
    }

    pub(in crate::tcp) fn set_patience(self: &Arc<Self>, tcp: &Tcp, change: impl FnOnce(&mut Patience)) {
        let mut core = self.own(tcp);
        let mut patience = core.patience;
        change(&mut patience);
        let now = Clock.now();
        core.change_patience(patience, now);
        core.settle(now, Cause::Program);
    }

    /// The pending error, taken.
    pub(in crate::tcp) fn take_error(self: &Arc<Self>, tcp: &Tcp) -> Option<io::Error> {
        let mut core = self.own(tcp);
        let error = core.take_error();
        core.publish_ready();
        (error != 0).then(|| errno(error))
    }

    /// Whether there is a peer.
    pub(in crate::tcp) fn is_connected(self: &Arc<Self>, tcp: &Tcp) -> bool {
        let core = self.own(tcp);
        !matches!(core.live_state(), TcpState::Closed | TcpState::SynSent)
    }

    /// `None` while the handshake goes on.
    pub(in crate::tcp) fn connected(self: &Arc<Self>, tcp: &Tcp) -> Option<io::Result<()>> {
        let mut core = self.own(tcp);
        match core.live_state() {
            TcpState::SynSent | TcpState::SynReceived => None,
            TcpState::Closed if !core.is_at_end() => {
                let error = match core.take_error() {
                    0 => libc::ECONNABORTED,
                    error => error,
                };
                core.publish_ready();
                Some(Err(errno(error)))
            }
            _ => Some(Ok(())),
        }
    }
}

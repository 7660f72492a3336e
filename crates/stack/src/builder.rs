//! What has to be known before a socket is bound.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use napier_core::sockopt::SocketBusy;

use super::addr::End;
use super::demux::Place;
use super::netns::{Inner, NetNs};
use super::queue::UdpInner;
use super::seams::errno;
use super::socket::UdpSocket;

/// Whether and how several sockets share one address and port (SO_REUSEPORT).
///
/// All sockets of a place must have asked for the same. A datagram goes to one of them.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum ReusePort {
    /// The socket wants its place for itself.
    #[default]
    No,
    /// A flow always goes to the same socket, chosen by a hash of its addresses and ports.
    Hash,
    /// All that one NAPI instance receives goes to one socket: to the one whose recorded id (`SO_INCOMING_NAPI_ID`) is
    /// the instance's, else to the first that has none yet, else as by hash. With as many sockets as instances, each
    /// thread that reads one of them busy polls an instance of its own.
    ByNapi,
}

/// Makes a [`UdpSocket`] with what has to be known before it is bound.
#[derive(Copy, Clone, Debug, Default)]
pub struct UdpSocketBuilder {
    reuse: ReusePort,
    nonblocking: bool,
    rcvbuf_bytes: Option<i32>,
}

impl UdpSocketBuilder {
    /// Shares the place with other sockets that ask for the same.
    #[must_use]
    pub fn reuse_port(mut self, reuse: ReusePort) -> Self {
        self.reuse = reuse;
        self
    }

    /// As [`UdpSocket::set_nonblocking`].
    #[must_use]
    pub fn nonblocking(mut self, nonblocking: bool) -> Self {
        self.nonblocking = nonblocking;
        self
    }

    /// As setting [`SocketOption::RcvBuf`](super::SocketOption::RcvBuf), in bytes.
    #[must_use]
    pub fn rcvbuf(mut self, bytes: i32) -> Self {
        self.rcvbuf_bytes = Some(bytes);
        self
    }

    /// Binds. From here on the socket receives.
    ///
    /// # Errors
    /// `EADDRINUSE` if the place is taken, or no port is free for port 0; `EADDRNOTAVAIL` if the address is not one of
    /// the name space's (it must be there already) nor the wildcard; `EINVAL` if the place has sockets that share it in
    /// another way; `ESHUTDOWN` if the engine has stopped.
    pub fn bind(self, ns: &NetNs, addr: SocketAddr) -> io::Result<UdpSocket> {
        let local = own_end(addr)?;
        let inner = &ns.0;
        let writer = &mut inner.lock();
        inner.check_own(local)?;
        let local = writer.registry.claim(local, self.reuse)?;
        let busy = SocketBusy::new(inner.host.sysctl_busy_read());
        let send_buffer = writer.send_buffers.open(&inner.send_buffers);
        let (frames, counters) = (inner.frames.clone(), inner.counters.clone());
        let socket = Arc::new(UdpInner::new(frames, counters, self.reuse, local, busy, send_buffer));
        socket.send_buffer.belongs_to(&socket);
        socket.nonblocking.store(self.nonblocking, Ordering::Relaxed);
        if let Some(bytes) = self.rcvbuf_bytes {
            socket.ask_rcvbuf(bytes);
        }
        let place = Place { local, peer: None };
        inner.edit(writer, |s| s.demux.insert(place, &socket, self.reuse));
        Ok(UdpSocket::from_parts(socket, ns.clone()))
    }
}

/// The place that a program asks for.
pub(super) fn own_end(addr: SocketAddr) -> io::Result<End> {
    End::from_socket_addr(&addr).ok_or_else(|| errno(libc::EADDRNOTAVAIL))
}

impl Inner {
    /// Whether a socket may be bound to this address now.
    pub(super) fn check_own(&self, local: End) -> io::Result<()> {
        self.check_running()?;
        let is_own = local.addr.is_any() || self.snapshot.load().is_local(local.addr);
        if is_own { Ok(()) } else { Err(errno(libc::EADDRNOTAVAIL)) }
    }
}

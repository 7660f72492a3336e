//! How sockets are opened in a name space, which alone knows all protocols.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use napier_core::tcp::memory::MemoryLimits;
use napier_core::tcp::time_wait::Reuse as TimeWaitReuse;

use super::NetNs;
use crate::tcp::{TcpListener, TcpListenerBuilder, TcpStream, TcpStreamBuilder};
use crate::udp::{UdpSocket, UdpSocketBuilder};

/// `attempt` with the first address with which it succeeds, as `std::net` has it. A text is read here; a name is looked up by the system, over the
/// kernel's network.
///
/// # Errors
/// [`no_address`] if there is none; else what the last attempt gave.
pub(crate) fn first_of<R>(
    addrs: impl ToSocketAddrs,
    mut attempt: impl FnMut(SocketAddr) -> io::Result<R>,
) -> io::Result<R> {
    let mut last = no_address();
    for addr in addrs.to_socket_addrs()? {
        match attempt(addr) {
            Ok(made) => return Ok(made),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// What a call gives if what it was given is no address at all, in the words of `std::net` (`net/socket_addr`).
#[doc(hidden)]
#[must_use]
pub fn no_address() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "could not resolve to any addresses")
}

impl UdpSocket {
    /// Binds with default settings. `addr` is a [`SocketAddr`], or a text such as `"10.0.0.1:7"`, as in `std::net`.
    ///
    /// # Errors
    /// See [`UdpSocketBuilder::bind`].
    pub fn bind(ns: &NetNs, addr: impl ToSocketAddrs) -> io::Result<Self> {
        Self::builder().bind(ns, addr)
    }
}

impl UdpSocketBuilder {
    /// Binds. From here on the socket receives.
    ///
    /// # Errors
    /// `EADDRINUSE` if the place is taken, or no port is free for port 0; `EADDRNOTAVAIL` if the address is not one of
    /// the name space's (it must be there already) nor the wildcard; `EINVAL` if the place has sockets that share it in
    /// another way; `ESHUTDOWN` if the engine has stopped.
    pub fn bind(self, ns: &NetNs, addr: impl ToSocketAddrs) -> io::Result<UdpSocket> {
        first_of(addr, |addr| ns.0.udp.bind(self, addr))
    }
}

impl TcpListener {
    /// Binds and listens with default settings. `addr` as for [`UdpSocket::bind`].
    ///
    /// # Errors
    /// See [`TcpListenerBuilder::bind`].
    pub fn bind(ns: &NetNs, addr: impl ToSocketAddrs) -> io::Result<Self> {
        Self::builder().bind(ns, addr)
    }
}

impl TcpListenerBuilder {
    /// Binds and listens. Port 0 stands for any free port.
    ///
    /// # Errors
    /// As [`UdpSocketBuilder::bind`](crate::UdpSocketBuilder::bind); `EAGAIN` if the timer's thread cannot be started.
    pub fn bind(self, ns: &NetNs, addr: impl ToSocketAddrs) -> io::Result<TcpListener> {
        first_of(addr, |addr| ns.0.tcp()?.listen(self, addr))
    }
}

impl TcpStream {
    /// Connects with default settings, to the first of the addresses of `peer` that answers, and waits until that has succeeded or failed.
    ///
    /// # Errors
    /// See [`TcpStreamBuilder::connect`].
    pub fn connect(ns: &NetNs, peer: impl ToSocketAddrs) -> io::Result<Self> {
        Self::builder().connect(ns, peer)
    }
}

impl TcpStreamBuilder {
    /// Connects to `peer`.
    ///
    /// # Errors
    /// `ECONNREFUSED`, `ECONNRESET`, `ETIMEDOUT`, `EHOSTUNREACH` (no such neighbour), `ENETUNREACH`, `EADDRINUSE`,
    /// `EADDRNOTAVAIL`, `EINVAL` (port 0), `EACCES` (a broadcast address), `EAFNOSUPPORT`; `EAGAIN` if the timer's thread
    /// cannot be started.
    pub fn connect(self, ns: &NetNs, peer: impl ToSocketAddrs) -> io::Result<TcpStream> {
        first_of(peer, |peer| ns.0.tcp()?.connect(self, self.ends(peer)?))
    }
}

impl UdpSocket {
    /// Sends to and receives from `peer` only, from now on; may be called again with another peer. Datagrams that are in
    /// the queue already stay. A socket bound to the wildcard gets the address that packets to the peer carry.
    ///
    /// # Errors
    /// `ENETUNREACH` if no device's prefix holds the peer, `EAFNOSUPPORT` if it is of another family than the socket,
    /// `EINVAL` for port 0, `EACCES` for a broadcast address. See [`SendMeta`](crate::SendMeta) for addresses of two families.
    pub fn connect(&self, peer: impl ToSocketAddrs) -> io::Result<()> {
        first_of(peer, |peer| self.connect_to(peer))
    }
}

impl NetNs {
    /// Ends all TCP connections that go over an interface, without a word to their peers: for an interface whose peer is
    /// gone and has taken its ends of them along. Their programs get `ENETRESET`. Gives how many.
    ///
    /// A memif device does this by itself when its peer goes, see
    /// `MemifConfig::keep_connections`.
    pub fn tcp_drop(&self, ifindex: u32) -> usize {
        self.0.tcp.get().map_or(0, |tcp| tcp.link_lost(ifindex))
    }

    /// How much memory the buffers of all connections have together (`net.ipv4.tcp_mem`, in bytes; default as the engine's
    /// builder says). Where it is short windows and buffers grow no further, what idle connections keep is taken back, and one has no more than its
    /// share. Beyond the most nothing is given: segments are dropped and come again, writes wait, and what programs have closed is reset if it has much. A
    /// connection with nothing in its buffers goes on in any case.
    ///
    /// # Errors
    /// `EAGAIN` if the timer's thread cannot be started.
    pub fn set_tcp_mem(&self, limits: MemoryLimits) -> io::Result<()> {
        self.0.tcp()?.set_memory(limits);
        Ok(())
    }

    /// How many connections that their programs have closed may be in TIME-WAIT (default 16384, as `net.ipv4.tcp_max_tw_buckets`). Beyond this the
    /// oldest goes, where Linux ends the newest at once. Less is in force when the next one begins to wait.
    ///
    /// # Errors
    /// `EAGAIN` if the timer's thread cannot be started.
    pub fn set_tcp_max_tw_buckets(&self, connections: usize) -> io::Result<()> {
        self.0.tcp()?.set_max_tw_buckets(connections);
        Ok(())
    }

    /// Whether a connection that is opened may take the place of one in TIME-WAIT between the same ends whose peer has timestamps and has been
    /// silent for a second (`net.ipv4.tcp_tw_reuse`; default: over links within one process).
    ///
    /// # Errors
    /// `EAGAIN` if the timer's thread cannot be started.
    pub fn set_tcp_tw_reuse(&self, reuse: TimeWaitReuse) -> io::Result<()> {
        self.0.tcp()?.set_tw_reuse(reuse);
        Ok(())
    }

    /// How many connections there may be that the program has closed and the peer has not (default 16384, as
    /// `net.ipv4.tcp_max_orphans`). Beyond this the oldest is reset.
    ///
    /// # Errors
    /// `EAGAIN` if the timer's thread cannot be started.
    pub fn set_tcp_max_orphans(&self, connections: usize) -> io::Result<()> {
        self.0.tcp()?.set_max_orphans(connections);
        Ok(())
    }
}

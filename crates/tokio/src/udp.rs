//! UDP: datagrams.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::task::{Context, Poll, ready};

use napier_runtime::event::{Interest, Pollable as _};
use napier_runtime::socket::{self, MergedDatagram, NetNs, RecvMeta, SendMeta};
use tokio::io::ReadBuf;

use crate::reactor::{Direction, Reactor};
use crate::socket::AsyncSocket;

/// A UDP socket.
///
/// ```
/// use napier_tokio::{Reactor, UdpSocket};
///
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let (engine, device, peer) = napier_runtime::doc_link()?;
///     let reactor = Reactor::start(&engine)?;
///     let server = UdpSocket::bind(&reactor, device.netns(), "10.77.0.1:7")?;
///     let client = UdpSocket::bind(&reactor, peer.netns(), "10.77.0.2:0")?;
///     client.send_to(b"hello", "10.77.0.1:7".parse()?).await?;
///     let mut buffer = [0; 1500];
///     let (bytes, from) = server.recv_from(&mut buffer).await?;
///     server.send_to(&buffer[..bytes], from).await?;
///     assert_eq!(client.recv(&mut buffer).await?, 5);
///     Ok(())
/// }
/// ```
pub struct UdpSocket {
    watched: AsyncSocket<socket::UdpSocket>,
}

impl UdpSocket {
    /// A socket at `addr` of the name space `ns`: a [`SocketAddr`] or a text such as `"10.0.0.1:7"`. The look-up of a name blocks.
    ///
    /// # Errors
    /// As [`socket::UdpSocket::bind`]; as [`from_napier`](Self::from_napier).
    pub fn bind(reactor: &Reactor, ns: &NetNs, addr: impl ToSocketAddrs) -> io::Result<Self> {
        Self::from_napier(reactor, socket::UdpSocket::bind(ns, addr)?)
    }

    /// Of a socket of the engine, which does not block from now on.
    ///
    /// # Errors
    /// ENOSPC if the reactor watches as many sockets as it can.
    pub fn from_napier(reactor: &Reactor, socket: socket::UdpSocket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self { watched: AsyncSocket::new(reactor, socket)? })
    }

    /// Receives one datagram; gives its length (what does not fit is lost) and its sender.
    ///
    /// # Errors
    /// As [`socket::UdpSocket::recv_from`].
    pub async fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.watched.wait(Direction::Read, |socket| socket.recv_from(buffer)).await
    }

    /// As [`recv_from`](Self::recv_from).
    ///
    /// # Errors
    /// As there.
    pub fn poll_recv_from(&self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<SocketAddr>> {
        let call = |socket: &socket::UdpSocket| socket.recv_from(buffer.initialize_unfilled());
        let (bytes, from) = ready!(self.watched.poll(cx, Direction::Read, call))?;
        buffer.advance(bytes);
        Poll::Ready(Ok(from))
    }

    /// Receives one datagram, and all that there is to tell of it.
    ///
    /// # Errors
    /// As [`socket::UdpSocket::recv_msg`].
    pub async fn recv_msg(&self, buffer: &mut [u8]) -> io::Result<RecvMeta> {
        self.watched.wait(Direction::Read, |socket| socket.recv_msg(buffer)).await
    }

    /// Receives what was merged of one sender, if the socket has `UDP_GRO`.
    ///
    /// # Errors
    /// As [`socket::UdpSocket::recv_merged`].
    pub async fn recv_merged(&self, buffer: &mut [u8]) -> io::Result<MergedDatagram> {
        self.watched.wait(Direction::Read, |socket| socket.recv_merged(buffer)).await
    }

    /// Sends one datagram.
    ///
    /// # Errors
    /// As [`socket::UdpSocket::send_to`], but that it waits for room.
    pub async fn send_to(&self, payload: &[u8], to: SocketAddr) -> io::Result<usize> {
        self.watched.wait(Direction::Write, |socket| socket.send_to(payload, to)).await
    }

    /// As [`send_to`](Self::send_to).
    ///
    /// # Errors
    /// As there.
    pub fn poll_send_to(&self, cx: &mut Context<'_>, payload: &[u8], to: SocketAddr) -> Poll<io::Result<usize>> {
        self.watched.poll(cx, Direction::Write, |socket| socket.send_to(payload, to))
    }

    /// Sends one datagram as `meta` says.
    ///
    /// # Errors
    /// As [`socket::UdpSocket::send_msg`], but that it waits for room.
    pub async fn send_msg(&self, payload: &[u8], meta: &SendMeta) -> io::Result<usize> {
        self.watched.wait(Direction::Write, |socket| socket.send_msg(payload, meta)).await
    }

    /// Receives by `call`, which does not block.
    #[cfg(feature = "quinn")]
    pub(crate) fn poll_read<R>(
        &self,
        cx: &mut Context<'_>,
        call: impl FnMut(&socket::UdpSocket) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.watched.poll(cx, Direction::Read, call)
    }

    /// Waits until a datagram may be sent.
    ///
    /// # Errors
    /// The reactor has ended.
    pub fn poll_send_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.watched.poll(cx, Direction::Write, |socket| {
            let ready = socket.readiness();
            if ready.intersects(Interest::OUT) { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }
        })
    }

    /// No event comes any more.
    #[cfg(feature = "quinn")]
    pub(crate) fn has_ended(&self) -> bool {
        self.watched.has_ended()
    }

    /// Has a peer from now on.
    ///
    /// # Errors
    /// As [`socket::UdpSocket::connect`].
    pub fn connect(&self, peer: impl ToSocketAddrs) -> io::Result<()> {
        self.get_ref().connect(peer)
    }

    /// Receives one datagram of the peer.
    ///
    /// # Errors
    /// As [`recv_from`](Self::recv_from).
    pub async fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.watched.wait(Direction::Read, |socket| socket.recv(buffer)).await
    }

    /// Sends one datagram to the peer.
    ///
    /// # Errors
    /// EDESTADDRREQ if there is none; else as [`send_to`](Self::send_to).
    pub async fn send(&self, payload: &[u8]) -> io::Result<usize> {
        self.watched.wait(Direction::Write, |socket| socket.send(payload)).await
    }

    /// The own address.
    ///
    /// # Errors
    /// As [`socket::UdpSocket::local_addr`].
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.get_ref().local_addr()
    }

    /// The socket itself, for its settings.
    #[must_use]
    pub fn get_ref(&self) -> &socket::UdpSocket {
        &self.watched.socket
    }
}

impl fmt::Debug for UdpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UdpSocket").field("local_addr", &self.local_addr().ok()).finish_non_exhaustive()
    }
}

//! TCP: streams and listeners.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::{Shutdown, SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use napier_runtime::socket::{self, NetNs};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::reactor::{Direction, Reactor};
use crate::socket::AsyncSocket;

/// A TCP connection: [`AsyncRead`] and [`AsyncWrite`], which `tokio::io::split` divides.
///
/// ```
/// use napier_tokio::{Reactor, TcpListener, TcpStream};
/// use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
///
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let (engine, device, peer) = napier_runtime::doc_link()?;
///     let reactor = Reactor::start(&engine)?;
///     let listener = TcpListener::bind(&reactor, device.netns(), "10.77.0.1:80")?;
///     let mut asks = TcpStream::connect(&reactor, peer.netns(), "10.77.0.1:80").await?;
///     asks.write_all(b"hello").await?;
///     let (mut stream, _) = listener.accept().await?;
///     let mut hello = [0; 5];
///     stream.read_exact(&mut hello).await?;
///     assert_eq!(&hello, b"hello");
///     Ok(())
/// }
/// ```
pub struct TcpStream {
    watched: AsyncSocket<socket::TcpStream>,
}

impl TcpStream {
    /// Connects to the first of the addresses of `peer` that answers, from the name space `ns`: a [`SocketAddr`] or a text such as `"10.0.0.1:7"`.
    /// The look-up of a name blocks.
    ///
    /// # Errors
    /// As [`socket::TcpStream::connect`], but that it does not block; ECONNREFUSED, EHOSTUNREACH, ETIMEDOUT come after a while.
    pub async fn connect(reactor: &Reactor, ns: &NetNs, peer: impl ToSocketAddrs) -> io::Result<Self> {
        let mut last = socket::no_address();
        for peer in peer.to_socket_addrs()?.collect::<Vec<_>>() {
            match Self::connect_to(reactor, ns, peer).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    async fn connect_to(reactor: &Reactor, ns: &NetNs, peer: SocketAddr) -> io::Result<Self> {
        let stream = socket::TcpStream::builder().nonblocking(true).connect(ns, peer)?;
        let stream = Self::from_napier(reactor, stream)?;
        stream.watched.wait(Direction::Write, is_connected).await?;
        Ok(stream)
    }

    /// Of a connection of the engine, which does not block from now on.
    ///
    /// # Errors
    /// ENOSPC if the reactor watches as many sockets as it can; EEXIST never.
    pub fn from_napier(reactor: &Reactor, stream: socket::TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { watched: AsyncSocket::new(reactor, stream)? })
    }

    /// The connection itself, for its settings.
    #[must_use]
    pub fn get_ref(&self) -> &socket::TcpStream {
        &self.watched.socket
    }

    /// The own address.
    ///
    /// # Errors
    /// As [`socket::TcpStream::local_addr`].
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.get_ref().local_addr()
    }

    /// The address of the peer.
    ///
    /// # Errors
    /// As [`socket::TcpStream::peer_addr`].
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.get_ref().peer_addr()
    }

    /// `TCP_NODELAY`.
    ///
    /// # Errors
    /// As [`socket::TcpStream::set_nodelay`].
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.get_ref().set_nodelay(nodelay)
    }
}

/// EAGAIN while the handshake goes on.
fn is_connected(stream: &socket::TcpStream) -> io::Result<()> {
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    match stream.peer_addr() {
        Err(error) if error.kind() == io::ErrorKind::NotConnected => Err(io::ErrorKind::WouldBlock.into()),
        other => other.map(drop),
    }
}

impl AsyncRead for TcpStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let bytes = ready!(self.watched.poll(cx, Direction::Read, |stream| stream.recv(buffer.initialize_unfilled())))?;
        buffer.advance(bytes);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for TcpStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.watched.poll(cx, Direction::Write, |stream| stream.send(data))
    }

    /// Nothing is kept back.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(match self.get_ref().shutdown(Shutdown::Write) {
            // The peer was faster.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
            other => other,
        })
    }
}

impl fmt::Debug for TcpStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.watched.socket.fmt(f)
    }
}

/// A socket that takes connections.
///
/// ```
/// use napier_tokio::{Reactor, TcpListener, TcpStream};
///
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let (engine, device, peer) = napier_runtime::doc_link()?;
///     let reactor = Reactor::start(&engine)?;
///     let listener = TcpListener::bind(&reactor, device.netns(), "10.77.0.1:80")?;
///     let (taken, made) = tokio::join!(
///         listener.accept(), // one after the other, each with a task of its own: `tokio::spawn`
///         TcpStream::connect(&reactor, peer.netns(), "10.77.0.1:80"),
///     );
///     assert_eq!(taken?.1, made?.local_addr()?);
///     Ok(())
/// }
/// ```
pub struct TcpListener {
    watched: AsyncSocket<socket::TcpListener>,
}

impl TcpListener {
    /// Listens at `addr` of the name space `ns`.
    ///
    /// # Errors
    /// As [`socket::TcpListener::bind`]; as [`from_napier`](Self::from_napier).
    pub fn bind(reactor: &Reactor, ns: &NetNs, addr: impl ToSocketAddrs) -> io::Result<Self> {
        Self::from_napier(reactor, socket::TcpListener::bind(ns, addr)?)
    }

    /// Of a listener of the engine, which does not block from now on.
    ///
    /// # Errors
    /// ENOSPC if the reactor watches as many sockets as it can.
    pub fn from_napier(reactor: &Reactor, listener: socket::TcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self { watched: AsyncSocket::new(reactor, listener)? })
    }

    /// The next connection, with the address of its peer; it is watched by the listener's reactor.
    ///
    /// # Errors
    /// As [`socket::TcpListener::accept`]; ENOSPC if the reactor watches as many sockets as it can.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        poll_fn(|cx| self.poll_accept(cx)).await
    }

    /// As [`accept`](Self::accept).
    ///
    /// # Errors
    /// As there.
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        let (stream, peer) = ready!(self.watched.poll(cx, Direction::Read, |listener| listener.accept()))?;
        Poll::Ready(Ok((TcpStream::from_napier(self.watched.reactor(), stream)?, peer)))
    }

    /// No connection comes any more.
    #[cfg(any(feature = "axum", feature = "tonic"))]
    pub(crate) fn has_ended(&self) -> bool {
        self.watched.has_ended()
    }

    /// The own address.
    ///
    /// # Errors
    /// As [`socket::TcpListener::local_addr`].
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.get_ref().local_addr()
    }

    /// The listener itself, for its settings.
    #[must_use]
    pub fn get_ref(&self) -> &socket::TcpListener {
        &self.watched.socket
    }
}

impl fmt::Debug for TcpListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpListener").field("local_addr", &self.local_addr().ok()).finish_non_exhaustive()
    }
}

//! TCP sockets that listen.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use napier_core::time::Deadline;
use napier_sys::clock::Clock;

use super::Tcp;
use crate::errno::{errno, stopped};
use crate::event::{Watchable, Watched};
use crate::host::Host;
use crate::options::{self, OptionError, SocketOption};
use crate::tables::demux::Tuple;
use crate::tcp::builder::TcpListenerBuilder;
use crate::tcp::conn::Conn;
use crate::tcp::listener::ListenerInner;
use crate::tcp::stream::TcpStream;
use crate::wire::PROTO_TCP;

/// A TCP socket of a [`NetNs`](crate::NetNs) that waits for connections. May be used by several threads at once; dropping it closes
/// it and resets who has not been accepted.
///
/// ```no_run
/// use std::io::{Read as _, Write as _};
///
/// use napier_runtime::socket::{NetNs, TcpListener};
///
/// fn serve(ns: &NetNs) -> std::io::Result<()> {
///     let listener = TcpListener::bind(ns, "0.0.0.0:7")?;
///     loop {
///         let (stream, _peer) = listener.accept()?;
///         std::thread::spawn(move || -> std::io::Result<()> {
///             let mut buffer = [0; 4096];
///             loop {
///                 let len = (&stream).read(&mut buffer)?;
///                 if len == 0 {
///                     return Ok(());
///                 }
///                 (&stream).write_all(&buffer[..len])?;
///             }
///         });
///     }
/// }
/// ```
pub struct TcpListener {
    inner: Arc<ListenerInner<Conn>>,
    tcp: Arc<Tcp>,
}

impl TcpListener {
    /// For settings that must be known before.
    #[must_use]
    pub fn builder() -> TcpListenerBuilder {
        TcpListenerBuilder::default()
    }

    pub(super) fn from_parts(inner: Arc<ListenerInner<Conn>>, tcp: Arc<Tcp>) -> Self {
        Self { inner, tcp }
    }

    /// A connection that no program has accepted.
    #[cfg(test)]
    pub(super) fn first_waiting(&self) -> Option<std::sync::Arc<crate::tcp::conn::Conn>> {
        self.inner.first_waiting()
    }

    /// The next connection, and who it is from. It blocks, whatever the listener does, and has the listener's busy-poll
    /// settings.
    ///
    /// # Errors
    /// `EAGAIN` if there is none, in non-blocking mode; `ESHUTDOWN` if the engine has stopped.
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        loop {
            if let Some(conn) = self.inner.accept() {
                let stream = TcpStream::from_parts(conn, self.inner.family, self.tcp.clone());
                let peer = stream.peer();
                return Ok((stream, peer));
            }
            if self.inner.is_stopped() {
                return Err(stopped());
            }
            let nonblocking = self.inner.nonblocking.now();
            self.busy_poll(nonblocking);
            if self.inner.has_waiting() {
                continue;
            }
            if nonblocking {
                return Err(errno(libc::EAGAIN));
            }
            let has_news = || self.inner.has_waiting() || self.inner.is_stopped();
            self.inner.parker.wait_in(&*self.tcp.tables.host, has_news, Deadline::NEVER, &Clock);
        }
    }

    fn busy_poll(&self, nonblocking: bool) {
        let host = &*self.tcp.tables.host;
        let busy = self.inner.busy();
        if let Some(params) = busy.busy_params(nonblocking, host.first_napi_id()) {
            host.busy_loop(busy.napi_id, params, &mut || self.inner.has_waiting());
        }
    }

    /// The address that it listens on.
    ///
    /// # Errors
    /// None today.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.inner.local.shown(self.inner.family, 0))
    }

    /// Whether [`accept`](Self::accept) returns `EAGAIN` instead of waiting.
    ///
    /// # Errors
    /// None today.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.inner.nonblocking.set(nonblocking);
        Ok(())
    }

    /// Sets a busy-poll option.
    ///
    /// # Errors
    /// See the table at [`SocketOption`]; options that are no busy-poll option are [`OptionError::NotForTcp`].
    pub fn setsockopt(&self, option: SocketOption, value: i32) -> Result<(), OptionError> {
        let busy = option.busy().ok_or(OptionError::NotForTcp)?;
        Ok(options::set_busy(&self.inner.busy, busy, value, self.tcp.tables.host.cap_net_admin())?)
    }

    /// Reads a busy-poll option, or `SO_REUSEPORT`.
    ///
    /// # Errors
    /// As [`setsockopt`](Self::setsockopt).
    pub fn getsockopt(&self, option: SocketOption) -> Result<i32, OptionError> {
        match option.busy() {
            Some(busy) => Ok(self.inner.busy().get(busy, self.tcp.tables.host.first_napi_id())?),
            None if option == SocketOption::ReusePort => {
                Ok(i32::from(self.inner.reuse != crate::tables::reuse::ReusePort::No))
            }
            None => Err(OptionError::NotForTcp),
        }
    }
}

impl Watchable for TcpListener {
    fn watched(&self) -> Arc<dyn Watched> {
        self.inner.clone()
    }

    fn host(&self) -> Option<Arc<dyn Host>> {
        Some(self.tcp.tables.host.clone())
    }
}

impl Drop for TcpListener {
    fn drop(&mut self) {
        let (tcp, inner) = (&self.tcp, &self.inner);
        {
            let writer = &mut tcp.tables.lock();
            writer.ports(PROTO_TCP).release(inner.local, inner.reuse);
            tcp.edit_listeners(writer, |listeners| listeners.remove(Tuple { local: inner.local, peer: None }, inner));
        }
        inner.close().iter().for_each(|waiting| waiting.reset(tcp));
    }
}

impl std::fmt::Debug for TcpListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TcpListener").field("local", &self.inner.local).finish_non_exhaustive()
    }
}

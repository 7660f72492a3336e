//! TCP connections as programs use them.

mod info;
mod linger;
mod traits;

use std::io;
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use napier_core::family::SocketFamily;
use napier_core::time::{Deadline, Span};
use napier_sys::clock::Clock;

use super::Tcp;
use crate::errno::errno;
use crate::event::{Interest, Watchable, Watched};
use crate::host::Host;
use crate::options::{self, OptionError, PRIORITY_FREE_MAX, SocketOption};
use crate::tcp::builder::TcpStreamBuilder;
use crate::tcp::conn::calls::Attempt;
use crate::tcp::conn::{Conn, Memory};
use crate::tcp::rules::Cause;
use crate::tcp::settings::{Buffers, keep_alive, span_ns, user_timeout};

/// What ends a wait to read, and a wait to write or connect.
const READABLE: Interest = Interest::from_bits(Interest::IN.bits() | Interest::ERR.bits() | Interest::HUP.bits());
const WRITABLE: Interest = Interest::from_bits(Interest::OUT.bits() | Interest::ERR.bits() | Interest::HUP.bits());

/// A TCP connection of a [`NetNs`](crate::NetNs). May be used by several threads at once; dropping it closes it.
///
/// Calls behave as their namesakes of the kernel, and so do the error numbers ([`io::Error::raw_os_error`]). A send
/// builds its segments in the transmit ring before it returns; what does not fit into the peer's window goes out when
/// the peer has read. Closing with unread data, or with a linger time of 0, resets the connection; with a longer one it waits.
///
/// ```no_run
/// use std::io::{Read as _, Write as _};
///
/// use napier_runtime::socket::{NetNs, TcpStream};
///
/// fn ask(ns: &NetNs) -> std::io::Result<Vec<u8>> {
///     let stream = TcpStream::connect(ns, "10.0.0.2:7")?;
///     (&stream).write_all(b"question")?;
///     stream.shutdown(std::net::Shutdown::Write)?;
///     let mut answer = Vec::new();
///     (&stream).read_to_end(&mut answer)?;
///     Ok(answer)
/// }
/// ```
pub struct TcpStream {
    conn: Arc<Conn>,
    /// Where the connection's memory is, so that all of it can be asked for before any of it is read.
    memory: Memory,
    /// How addresses are shown.
    family: SocketFamily,
    tcp: Arc<Tcp>,
}

impl TcpStream {
    /// For settings that must be known before.
    #[must_use]
    pub fn builder() -> TcpStreamBuilder {
        TcpStreamBuilder::default()
    }

    pub(super) fn from_parts(conn: Arc<Conn>, family: SocketFamily, tcp: Arc<Tcp>) -> Self {
        Self { memory: conn.memory(), conn, family, tcp }
    }

    #[cfg(test)]
    pub(super) fn conn(&self) -> &Arc<Conn> {
        &self.conn
    }

    /// Waits until the handshake is over.
    pub(super) fn finish_connect(&self, timeout: Option<Duration>) -> io::Result<()> {
        let deadline = self.deadline(timeout.map_or(0, span_ns));
        loop {
            if let Some(result) = self.conn.connected(&self.tcp) {
                return result;
            }
            if !self.sleep(&self.conn.writer, WRITABLE, deadline) {
                return Err(errno(libc::ETIMEDOUT));
            }
        }
    }

    /// Receives what is there, at most `buffer.len()` bytes; waits if there is nothing. 0: the peer will send no more.
    ///
    /// # Errors
    /// `EAGAIN` if nothing came, in non-blocking mode or within the read timeout; `ECONNRESET`, `ETIMEDOUT`,
    /// `ECONNREFUSED` once.
    #[inline]
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.receive(buffer, false)
    }

    /// As [`recv`](Self::recv), but the bytes stay where they are.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.receive(buffer, true)
    }

    #[inline]
    fn receive(&self, buffer: &mut [u8], peek: bool) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let mut until = None;
        loop {
            // What there is has been published: a connection with nothing to read need not be owned to find that out.
            let attempt =
                if self.conn.is_ready(READABLE) { self.conn.read(&self.tcp, buffer, peek) } else { Attempt::Wait };
            match attempt {
                Attempt::Done(count) => return Ok(count),
                Attempt::Failed(error) => return Err(error),
                Attempt::Wait => {}
            }
            // Relaxed: this call looks once per turn.
            let nonblocking = self.conn.nonblocking.now();
            self.busy_poll(nonblocking);
            if self.conn.is_ready(READABLE) {
                continue;
            }
            let deadline = || self.deadline(self.conn.read_timeout_ns.load(Ordering::Relaxed));
            if nonblocking || !self.sleep(&self.conn.reader, READABLE, *until.get_or_insert_with(deadline)) {
                return Err(errno(libc::EAGAIN));
            }
        }
    }

    /// Sends `data`: all of it in blocking mode, as much as fits into the send buffer else.
    ///
    /// # Errors
    /// `EAGAIN` if nothing fits, in non-blocking mode or within the write timeout; `EPIPE` if the connection, or its
    /// sending half, is closed; a pending error as [`recv`](Self::recv). After an error that came when something had been
    /// taken, the number of bytes taken is the result, and the error is that of the next call.
    #[inline]
    pub fn send(&self, data: &[u8]) -> io::Result<usize> {
        self.memory.fetch();
        let mut sent = 0;
        let mut until = None;
        loop {
            match self.conn.write(&self.tcp, &data[sent..]) {
                Attempt::Done(count) => sent += count,
                Attempt::Failed(error) => return if sent > 0 { Ok(sent) } else { Err(error) },
                Attempt::Wait => {}
            }
            if sent == data.len() {
                return Ok(sent);
            }
            let nonblocking = self.conn.nonblocking.now();
            let deadline = || self.deadline(self.conn.write_timeout_ns.load(Ordering::Relaxed));
            if nonblocking || !self.sleep(&self.conn.writer, WRITABLE, *until.get_or_insert_with(deadline)) {
                return if sent > 0 { Ok(sent) } else { Err(errno(libc::EAGAIN)) };
            }
        }
    }

    /// Closes a half of the connection, or both. What was sent before still arrives.
    ///
    /// # Errors
    /// `ENOTCONN` unless connected.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        let (read, write) = match how {
            Shutdown::Read => (true, false),
            Shutdown::Write => (false, true),
            Shutdown::Both => (true, true),
        };
        self.conn.shutdown(&self.tcp, read, write)
    }

    /// The own address.
    ///
    /// # Errors
    /// None today.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.conn.flow.local.shown(self.family, 0))
    }

    /// The address of the peer.
    ///
    /// # Errors
    /// `ENOTCONN` if the connection is not established, or was ended by an error.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        match self.conn.is_connected(&self.tcp) {
            true => Ok(self.peer()),
            false => Err(errno(libc::ENOTCONN)),
        }
    }

    pub(super) fn peer(&self) -> SocketAddr {
        self.conn.flow.peer.shown(self.family, self.conn.scope)
    }

    /// The pending error (`SO_ERROR`), which is pending no more.
    ///
    /// # Errors
    /// None today.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        Ok(self.conn.take_error(&self.tcp))
    }

    /// Whether calls that find nothing to read, or no room to send, return `EAGAIN` instead of waiting.
    ///
    /// # Errors
    /// None today.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.conn.nonblocking.set(nonblocking);
        Ok(())
    }

    /// How long a blocking read sleeps before it returns `EAGAIN`; `None`: for ever. Busy polling is not counted.
    ///
    /// # Errors
    /// `EINVAL` for zero, as in `std`.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        set_timeout(&self.conn.read_timeout_ns, timeout)
    }

    /// As [`set_read_timeout`](Self::set_read_timeout), for sending.
    ///
    /// # Errors
    /// `EINVAL` for zero.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        set_timeout(&self.conn.write_timeout_ns, timeout)
    }

    /// `TCP_NODELAY`: send small segments although others are not acknowledged (default no, RFC 896).
    ///
    /// # Errors
    /// None today.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.conn.set_nodelay(&self.tcp, nodelay);
        Ok(())
    }

    /// Probes a silent peer (`SO_KEEPALIVE`, `TCP_KEEPIDLE`, `TCP_KEEPINTVL`, `TCP_KEEPCNT`): first after `idle`, then
    /// each `interval`; after `probes` of them without an answer the connection ends with `ETIMEDOUT`. `None`: no probes
    /// (the default). When it is switched on, the peer's idle time begins.
    ///
    /// # Errors
    /// `EINVAL` if a time is shorter than a millisecond or there are no probes.
    pub fn set_keepalive(&self, keep: Option<(Duration, Duration, u32)>) -> io::Result<()> {
        let keep = keep.map(keep_alive).transpose()?;
        self.conn.set_patience(&self.tcp, |patience| patience.keep = keep);
        Ok(())
    }

    /// `TCP_USER_TIMEOUT` (RFC 5482): how long sent data may stay unacknowledged before the connection ends with
    /// `ETIMEDOUT` (default 924 s, as `tcp_retries2` = 15). With keep-alive it takes the place of the number of probes.
    ///
    /// # Errors
    /// `EINVAL` for a time shorter than a millisecond.
    pub fn set_user_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        let user = timeout.map(user_timeout).transpose()?;
        self.conn.set_patience(&self.tcp, |patience| patience.user = user);
        Ok(())
    }

    /// Sets a busy-poll option, `SO_PRIORITY`, `SO_MAX_PACING_RATE`, or `SO_RCVBUF` and `SO_SNDBUF`: bytes, not doubled, as
    /// [`TcpStreamBuilder::rcvbuf`]; the buffer does not grow by itself any more.
    ///
    /// # Errors
    /// See the table at [`SocketOption`]; others are [`OptionError::NotForTcp`].
    pub fn setsockopt(&self, option: SocketOption, value: i32) -> Result<(), OptionError> {
        let cap_net_admin = self.tcp.tables.host.cap_net_admin();
        match (option.busy(), option) {
            (Some(busy), _) => return Ok(options::set_busy(&self.conn.busy, busy, value, cap_net_admin)?),
            (None, SocketOption::Priority) => {
                if !(0..=PRIORITY_FREE_MAX).contains(&value) && !cap_net_admin {
                    return Err(OptionError::Priority);
                }
                self.conn.own(&self.tcp).outlet.route.class.priority = value.cast_unsigned();
            }
            (None, SocketOption::RcvBuf | SocketOption::SndBuf) => self.set_buffer(option, value),
            (None, SocketOption::MaxPacingRate) => {
                self.conn.own(&self.tcp).outlet.route.class.pacing_rate = options::pacing_rate(value);
            }
            (None, _) => return Err(OptionError::NotForTcp),
        }
        Ok(())
    }

    /// Reads a busy-poll option, or `SO_RCVBUF` and `SO_SNDBUF` (bytes that fit now).
    ///
    /// # Errors
    /// As [`setsockopt`](Self::setsockopt).
    pub fn getsockopt(&self, option: SocketOption) -> Result<i32, OptionError> {
        match (option.busy(), option) {
            (Some(busy), _) => Ok(self.conn.busy().get(busy, self.tcp.tables.host.first_napi_id())?),
            (None, SocketOption::RcvBuf) => {
                let limit = self.conn.own(&self.tcp).machine.receiver.limit();
                Ok(i32::try_from(limit).expect("at most 6 MiB"))
            }
            (None, SocketOption::SndBuf) => {
                let limit = self.conn.own(&self.tcp).machine.sender.limit();
                Ok(i32::try_from(limit).expect("at most 4 MiB"))
            }
            (None, _) => Err(OptionError::NotForTcp),
        }
    }

    fn set_buffer(&self, option: SocketOption, value: i32) {
        let bytes = Buffers::clamp(value.max(0).unsigned_abs() as usize);
        let mut core = self.conn.own(&self.tcp);
        if option == SocketOption::RcvBuf {
            core.machine.set_receive_room(bytes);
        } else {
            core.machine.set_send_room(bytes);
        }
        core.publish_buffers();
        // There may be room to write now.
        core.settle(Clock.now(), Cause::Program);
    }

    fn deadline(&self, timeout_ns: u64) -> Deadline {
        match timeout_ns {
            0 => Deadline::NEVER,
            ns => Deadline::after(Clock.now(), Span { ns }),
        }
    }

    /// False if the time is up.
    fn sleep(&self, parker: &crate::wait::park::Parker, until: Interest, deadline: Deadline) -> bool {
        let ready = || self.conn.is_ready(until);
        parker.wait_in(&*self.tcp.tables.host, ready, deadline, &Clock)
    }

    fn busy_poll(&self, nonblocking: bool) {
        let host = &*self.tcp.tables.host;
        let busy = self.conn.busy();
        match busy.busy_params(nonblocking, host.first_napi_id()) {
            Some(params) => host.busy_loop(busy.napi_id, params, &mut || self.conn.is_ready(READABLE)),
            None => host.poll_deferred(),
        }
    }
}

fn set_timeout(slot: &AtomicU64, timeout: Option<Duration>) -> io::Result<()> {
    if timeout == Some(Duration::ZERO) {
        return Err(errno(libc::EINVAL));
    }
    // Relaxed: each call looks once.
    slot.store(timeout.map_or(0, span_ns), Ordering::Relaxed);
    Ok(())
}

impl Watchable for TcpStream {
    fn watched(&self) -> Arc<dyn Watched> {
        self.conn.clone()
    }

    fn host(&self) -> Option<Arc<dyn Host>> {
        Some(self.tcp.tables.host.clone())
    }
}

impl std::fmt::Debug for TcpStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let core = self.conn.own(&self.tcp);
        let state = core.live_state();
        let (unread, unsent) = (core.machine.unread(), core.machine.unacknowledged());
        let mut f = f.debug_struct("TcpStream");
        f.field("flow", &self.conn.flow).field("state", &state).field("unread", &unread).field("unsent", &unsent);
        f.finish_non_exhaustive()
    }
}

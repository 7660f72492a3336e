//! What a connection is made with, whichever side opens it, and how a program says so.

use std::io;
use std::time::Duration;

use napier_core::time::Span;

use super::congestion::{CongestionControl, control_for};
use super::machine::{Beginning, Room, TcpNumbers};
use super::outlet::route::Route;
use super::rules::{KeepAlive, Patience};
use crate::errno::errno;

/// Limits of what may be asked for. Source: as for `SO_RCVBUF`.
const BUFFER_MIN: usize = 2304;
const BUFFER_MAX: usize = 4 << 20;

/// Sizes of a connection's buffers, in bytes.
#[derive(Copy, Clone, Debug)]
pub(super) struct Buffers {
    pub(super) receive: Room,
    pub(super) send: Room,
}

/// The least time of keep-alive and of the user time-out.
const TIME_MIN: Duration = Duration::from_millis(1);

/// What a connection is made with, but for its ends.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct ConnSettings {
    pub(super) buffers: Buffers,
    pub(super) patience: Patience,
    /// `None`: as the device suggests.
    pub(super) congestion: Option<CongestionControl>,
}

impl Default for Buffers {
    fn default() -> Self {
        Self { receive: Room::RECEIVE, send: Room::SEND }
    }
}

impl Buffers {
    /// What a program gets that asks for so much.
    pub(super) fn clamp(bytes: usize) -> u32 {
        bytes.clamp(BUFFER_MIN, BUFFER_MAX) as u32
    }

    /// The same, as what a machine begins with.
    pub(super) fn fixed(bytes: usize) -> Room {
        Room::fixed(Self::clamp(bytes))
    }
}

impl ConnSettings {
    /// What a machine begins with.
    pub(super) fn beginning(&self, numbers: TcpNumbers, route: &Route) -> Beginning {
        Beginning {
            numbers,
            segment: route.segment(),
            receive: self.buffers.receive,
            send: self.buffers.send,
            control: control_for(self.congestion, route),
        }
    }
}

/// Times of keep-alive as they are given, checked.
pub(super) fn keep_alive((idle, interval, probes): (Duration, Duration, u32)) -> io::Result<KeepAlive> {
    if idle < TIME_MIN || interval < TIME_MIN || probes == 0 {
        return Err(errno(libc::EINVAL));
    }
    let span = |time| Span { ns: span_ns(time) };
    Ok(KeepAlive { idle: span(idle), interval: span(interval), probes })
}

/// A user time-out as it is given, checked.
pub(super) fn user_timeout(timeout: Duration) -> io::Result<Span> {
    if timeout < TIME_MIN { Err(errno(libc::EINVAL)) } else { Ok(Span { ns: span_ns(timeout) }) }
}

/// A time in nanoseconds; those that are too long are for ever.
pub(super) fn span_ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Methods of a builder that has [`ConnSettings`].
macro_rules! settings {
    ($($path:ident).+) => {
        /// Receive buffer of a connection in bytes (2304 bytes to 4 MiB). Not doubled: nothing but received bytes is in it.
        /// Without this it begins with 64 KiB and grows to 6 MiB, as the path and the program make use of it; with it, it stays
        /// as it is. Memory is taken when bytes come.
        #[must_use]
        pub fn rcvbuf(mut self, bytes: usize) -> Self {
            self.$($path).+.buffers.receive = $crate::tcp::settings::Buffers::fixed(bytes);
            self
        }

        /// Send buffer of a connection in bytes, as [`rcvbuf`](Self::rcvbuf); without this it grows to 4 MiB.
        #[must_use]
        pub fn sndbuf(mut self, bytes: usize) -> Self {
            self.$($path).+.buffers.send = $crate::tcp::settings::Buffers::fixed(bytes);
            self
        }

        /// How far the receive buffer of a connection grows by itself, in bytes (default 6 MiB; 2304 bytes to 6 MiB).
        #[must_use]
        pub fn rcvbuf_max(mut self, bytes: usize) -> Self {
            self.$($path).+.buffers.receive = $crate::tcp::machine::Room::RECEIVE.up_to(bytes);
            self
        }

        /// As [`rcvbuf_max`](Self::rcvbuf_max), for the send buffer (default 4 MiB, and no more).
        #[must_use]
        pub fn sndbuf_max(mut self, bytes: usize) -> Self {
            self.$($path).+.buffers.send = $crate::tcp::machine::Room::SEND.up_to(bytes);
            self
        }

        /// Which congestion control a connection has (`TCP_CONGESTION`; default
        /// [`CongestionControl::Cubic`](crate::CongestionControl::Cubic), but none over a link within one process).
        #[must_use]
        pub fn congestion(mut self, control: $crate::tcp::congestion::CongestionControl) -> Self {
            self.$($path).+.congestion = Some(control);
            self
        }

        /// As [`TcpStream::set_keepalive`](crate::TcpStream::set_keepalive).
        ///
        /// # Errors
        /// `EINVAL` if a time is shorter than a millisecond or there are no probes.
        pub fn keepalive(mut self, keep: Option<(Duration, Duration, u32)>) -> std::io::Result<Self> {
            self.$($path).+.patience.keep = keep.map($crate::tcp::settings::keep_alive).transpose()?;
            Ok(self)
        }

        /// As [`TcpStream::set_user_timeout`](crate::TcpStream::set_user_timeout); it bounds the handshake of a connection that is opened here too.
        ///
        /// # Errors
        /// `EINVAL` for a time shorter than a millisecond.
        pub fn user_timeout(mut self, timeout: Option<Duration>) -> std::io::Result<Self> {
            self.$($path).+.patience.user = timeout.map($crate::tcp::settings::user_timeout).transpose()?;
            Ok(self)
        }
    };
}
pub(super) use settings;

//! What sockets of all protocols are bound by.

use std::io;
use std::net::SocketAddr;

use napier_core::family::{NotReached, SocketFamily, To, over};
use napier_core::sockopt::SocketBusy;

use super::Tables;
use super::reuse::ReusePort;
use super::writer::Writing;
use crate::errno::errno;
use crate::wire::addr::{self, Addr, End};

/// What a program says before it binds a socket, whatever its protocol.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Binding {
    pub(crate) reuse: ReusePort,
    pub(crate) nonblocking: bool,
    /// `IPV6_V6ONLY`.
    pub(crate) only_v6: bool,
}

/// Methods of a builder that has a [`Binding`].
macro_rules! binding {
    ($binding:ident, $socket:ident) => {
        /// Shares the place with other sockets that ask for the same: see [`ReusePort`](crate::ReusePort). Of TCP listeners
        /// with [`ReusePort::ByNapi`](crate::ReusePort::ByNapi) each gets the connections of one NAPI instance.
        #[must_use]
        pub fn reuse_port(mut self, reuse: $crate::ReusePort) -> Self {
            self.$binding.reuse = reuse;
            self
        }

        #[doc = concat!("As [`", stringify!($socket), "::set_nonblocking`](crate::", stringify!($socket), "::set_nonblocking).")]
        #[must_use]
        pub fn nonblocking(mut self, nonblocking: bool) -> Self {
            self.$binding.nonblocking = nonblocking;
            self
        }

        /// Whether a socket that is bound to an IPv6 address takes IPv6 alone (`IPV6_V6ONLY`, default no as with
        /// `net.ipv6.bindv6only` = 0). One that is bound to `::` takes IPv4 too, from and to addresses such as `::ffff:10.0.0.1`.
        #[must_use]
        pub fn only_v6(mut self, only_v6: bool) -> Self {
            self.$binding.only_v6 = only_v6;
            self
        }
    };
}
pub(crate) use binding;

/// Whether a socket reaches an address, by the table of the core.
///
/// # Errors
/// EAFNOSUPPORT, ENETUNREACH.
pub(crate) fn check_reach(family: SocketFamily, own: Addr, to: To) -> io::Result<()> {
    over(family, own.bound(), to).map_err(|refused| match refused {
        NotReached::Family => errno(libc::EAFNOSUPPORT),
        NotReached::NoWay => errno(libc::ENETUNREACH),
    })
}

impl Binding {
    /// The place that a program asks for, and what the socket is made for.
    ///
    /// # Errors
    /// EINVAL for a mapped address and IPv6 alone (`net/ipv6/af_inet6.c __inet6_bind`).
    pub(crate) fn place(self, at: SocketAddr) -> io::Result<(End, SocketFamily)> {
        let end = End::from_socket_addr(&at);
        match (addr::to(&at), self.only_v6) {
            (To::V4, _) => Ok((end, SocketFamily::V4)),
            (To::Mapped, true) => Err(errno(libc::EINVAL)),
            (To::V6, true) if end.addr.is_any() => Ok((End { addr: Addr::ANY_V6_ONLY, ..end }, SocketFamily::V6Only)),
            (To::V6, true) => Ok((end, SocketFamily::V6Only)),
            (To::Mapped | To::V6, false) => Ok((end, SocketFamily::V6)),
        }
    }

    /// Claims a place of a protocol. Gives it with its port, and the busy-poll settings of a new socket.
    pub(crate) fn claim(
        self,
        tables: &Tables,
        writer: &mut Writing<'_>,
        protocol: u8,
        local: End,
    ) -> io::Result<(End, SocketBusy)> {
        tables.check_running()?;
        let is_own = local.addr.is_any() || tables.snapshot.load().is_local(local.addr);
        if !is_own {
            return Err(errno(libc::EADDRNOTAVAIL));
        }
        let local = writer.ports(protocol).claim(local, self.reuse)?;
        Ok((local, SocketBusy::new(tables.host.sysctl_busy_read())))
    }
}

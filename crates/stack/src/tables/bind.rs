//! What sockets of all protocols are bound by.

use std::io;
use std::net::SocketAddr;

use napier_core::sockopt::SocketBusy;

use super::Tables;
use super::reuse::ReusePort;
use super::writer::Writing;
use crate::errno::errno;
use crate::wire::addr::End;

/// What a program says before it binds a socket, whatever its protocol.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Binding {
    pub(crate) reuse: ReusePort,
    pub(crate) nonblocking: bool,
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
    };
}
pub(crate) use binding;

/// The place that a program asks for.
pub(crate) fn own_end(addr: SocketAddr) -> io::Result<End> {
    End::from_socket_addr(&addr).ok_or_else(|| errno(libc::EADDRNOTAVAIL))
}

impl Binding {
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

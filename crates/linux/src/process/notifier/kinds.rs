//! Which calls are held, and where it is noted which of them wait.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use crate::sys::held::Unanswered;

/// Where it is noted which calls of a program have no answer yet, for the keeper that lets them go on when the one that answers has ended. The latter
/// makes it and alone can write there; one for each program.
#[derive(Debug)]
pub struct HeldPage(pub(super) Unanswered);

impl HeldPage {
    /// Makes one.
    ///
    /// # Errors
    /// As `memfd_create(2)`; `InvalidInput` before Linux 5.1.
    pub fn make() -> io::Result<Self> {
        Unanswered::make().map(Self)
    }
}

/// What [`Program::start_held`](crate::process::Program::start_held) is given, in another process.
impl AsFd for HeldPage {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Which call is held.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum SocketCall {
    /// `socket`.
    Socket,
    /// `bind`.
    Bind,
    /// `listen`.
    Listen,
    /// `accept`.
    Accept,
    /// `accept4`.
    Accept4,
    /// `connect`.
    Connect,
    /// `getsockname`.
    GetSockName,
    /// `getpeername`.
    GetPeerName,
    /// `getsockopt`.
    GetSockOpt,
    /// `setsockopt`.
    SetSockOpt,
    /// `sendto` with an address, if that was asked for ([`HeldSends`]).
    SendTo,
}

/// Whether `sendto` with an address is held too. It is then for datagrams as well, each of which costs a held call: a filter sees that there is an
/// address, and not what kind of socket it is for.
#[derive(Copy, Clone, PartialEq, Eq, Default, Debug)]
pub enum HeldSends {
    /// Not.
    #[default]
    None,
    /// It is.
    Addressed,
}

impl SocketCall {
    const ALL: [(i64, Self); 11] = [
        (libc::SYS_socket, Self::Socket),
        (libc::SYS_bind, Self::Bind),
        (libc::SYS_listen, Self::Listen),
        (libc::SYS_accept, Self::Accept),
        (libc::SYS_accept4, Self::Accept4),
        (libc::SYS_connect, Self::Connect),
        (libc::SYS_getsockname, Self::GetSockName),
        (libc::SYS_getpeername, Self::GetPeerName),
        (libc::SYS_getsockopt, Self::GetSockOpt),
        (libc::SYS_setsockopt, Self::SetSockOpt),
        (libc::SYS_sendto, Self::SendTo),
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Socket => "socket",
            Self::Bind => "bind",
            Self::Listen => "listen",
            Self::Accept => "accept",
            Self::Accept4 => "accept4",
            Self::Connect => "connect",
            Self::GetSockName => "getsockname",
            Self::GetPeerName => "getpeername",
            Self::GetSockOpt => "getsockopt",
            Self::SetSockOpt => "setsockopt",
            Self::SendTo => "sendto",
        }
    }

    pub(super) fn of(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|(call, _)| *call == i64::from(number)).map(|(_, call)| call)
    }
}

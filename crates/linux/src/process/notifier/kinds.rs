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
    /// `recvfrom` with room for one byte.
    RecvFrom,
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
    const ALL: [(i64, Self); 12] = [
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
        (libc::SYS_recvfrom, Self::RecvFrom),
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
            Self::RecvFrom => "recvfrom",
            Self::SendTo => "sendto",
        }
    }

    pub(super) fn of(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|(call, _)| *call == i64::from(number)).map(|(_, call)| call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::seccomp::{MAKE_RING, OF_SOCKETS};

    #[test]
    fn the_profile_of_containers_holds_what_is_held_of_programs_that_are_started_here() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/kubernetes/engine-seccomp.json");
        let text = std::fs::read_to_string(path).expect("it is there");
        let profile: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let rules = profile["syscalls"].as_array().expect("rules");
        let names = |action: &str| -> Vec<&str> {
            let of_action = rules.iter().filter(|rule| rule["action"] == action);
            let mut names: Vec<&str> = of_action
                .flat_map(|rule| rule["names"].as_array().expect("names"))
                .flat_map(|name| name.as_str())
                .collect();
            names.sort_unstable();
            names.dedup();
            names
        };
        let held = OF_SOCKETS.into_iter().filter(|call| *call != MAKE_RING);
        let mut held: Vec<&str> = held.map(|call| SocketCall::of(call).expect("it is held").name()).collect();
        held.sort_unstable();
        assert_eq!(names("SCMP_ACT_NOTIFY"), held);
        assert_eq!(names("SCMP_ACT_ERRNO"), ["io_uring_setup"]);
        let ring = rules.iter().find(|rule| rule["names"][0] == "io_uring_setup").expect("a rule");
        assert_eq!(ring["errnoRet"], libc::ENOSYS);
        let domains: Vec<_> =
            rules.iter().filter(|rule| rule["names"][0] == "socket").map(|rule| &rule["args"][0]["value"]).collect();
        assert_eq!(domains, [libc::AF_INET, libc::AF_INET6]);
    }
}

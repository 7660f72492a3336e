//! A socket of the kernel beside one that is bound to a wildcard: connections over the kernel's interfaces, loopback's too, are for the same program
//! (`ip(7)`, `INADDR_ANY`).

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use napier_linux::process::Notifier;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{SocketFlags, acceptfrom_with, bind, listen};

use super::socket::{Backlogged, Listening, ProgramSocket};
use super::token::OF_TWIN;
use crate::relay::Far;
use crate::rules::datagrams::is_of_errors;

/// How often another port is chosen, if the kernel has given the one that the engine chose.
pub(super) const PORTS_MAX: usize = 16;

/// Binds a twin, as the thread `tid` would; `None` where the kernel refuses for another reason than that the address is taken.
///
/// # Errors
/// `EADDRINUSE`.
pub(super) fn twin_at(socket: &ProgramSocket, tid: u32, address: SocketAddr) -> Result<Option<OwnedFd>, i32> {
    let domain = if socket.is_v6 { libc::AF_INET6 } else { libc::AF_INET };
    let Ok(twin) = Notifier::kernel_socket(tid, domain, socket.kind() | libc::SOCK_NONBLOCK) else {
        return Ok(None);
    };
    let is_for_datagrams = socket.kind() == libc::SOCK_DGRAM;
    for set in socket.options.all().iter().filter(|set| !(is_for_datagrams && is_of_errors(set.level, set.name))) {
        // The program may: it was judged when it was set. What the kernel refuses programs go on without.
        let _ = Notifier::set_option(&twin, set.level, set.name, set.value());
    }
    match bind(&twin, &address) {
        Ok(()) => Ok(Some(twin)),
        Err(Errno::ADDRINUSE) => Err(libc::EADDRINUSE),
        Err(_) => Ok(None),
    }
}

/// Lets a twin listen, and watches it for the socket of this token.
pub(super) fn listen_at(epoll: &OwnedFd, twin: &OwnedFd, token: u64, backlog: usize) -> Result<(), i32> {
    let flags = EventFlags::IN | EventFlags::ET;
    let listens = listen(twin, i32::try_from(backlog).unwrap_or(i32::MAX));
    let watched = listens.and_then(|()| epoll::add(epoll, twin, EventData::new_u64(token | OF_TWIN), flags));
    watched.map_err(Errno::raw_os_error)
}

impl Listening {
    /// The next connection that has come, and from where.
    pub(super) fn next(&self) -> Option<(Backlogged, SocketAddr)> {
        if let Ok((stream, peer)) = self.listener.accept() {
            return Some((Backlogged::Engine(Far::Wire(stream)), peer));
        }
        if let Some(end) = self.near.accept() {
            let peer = end.peer();
            return Some((Backlogged::Engine(Far::Near(end, None)), peer));
        }
        let (twin, peer) = acceptfrom_with(self.twin.as_ref()?, SocketFlags::CLOEXEC).ok()?;
        let peer = SocketAddr::try_from(peer?).ok()?;
        Some((Backlogged::Kernel(twin), peer))
    }
}

//! Held calls: which socket they are about, and what the rules say of them.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use napier_linux::process::{Given, HeldSocketCall, Notifier, SocketCall, Watches};
use napier_ring::outbox::LIBRARY_LEVEL;
use napier_runtime::socket::{NetNs, TcpListener};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::net::sockopt::{Timeout, socket_timeout};

use super::rights::may_bind;
use super::socket::{Behind, Inode, ProgramSocket, inode, pair};
use super::twin::{PORTS_MAX, twin_at};
use super::{DatagramCalls, ServedProgram};
use crate::address::{self, ADDRESS_BYTES_MAX, WrittenAddress};
use crate::limits;
use crate::rules::options::KeptOptions;
use crate::rules::reach::Whose;
use crate::rules::{AskedOfSocket, Stage, Verdict, verdict};

/// Connections that may wait here, whatever a program asks for.
pub(super) const BACKLOG_MAX: i32 = 4096;

/// A call, the socket it is about, and a copy of the program's end, which must not outlive the answer.
pub(super) struct About {
    pub(super) held: HeldSocketCall,
    pub(super) token: u64,
    pub(super) copy: OwnedFd,
}

impl About {
    pub(super) fn blocks(&self) -> bool {
        !fcntl_getfl(&self.copy).is_ok_and(|flags| flags.contains(OFlags::NONBLOCK))
    }

    /// How long it may wait: the pair has what the program has set.
    pub(super) fn span(&self, which: Timeout) -> Option<Duration> {
        socket_timeout(&self.copy, which).ok().flatten()
    }
}

/// Whether this process lacks something: descriptors or memory.
fn is_lack(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM))
}

impl ServedProgram {
    /// Answers a call, or keeps it.
    pub(super) fn take(&mut self, held: HeldSocketCall) {
        self.shown.note(|counts| {
            counts.held += 1;
            counts.calls.one(held.what.map_or("others", SocketCall::name));
        });
        let Some(what) = held.what.filter(|_| held.tid() != 0) else {
            if held.what == Some(SocketCall::Socket) {
                self.shown.note(|counts| counts.left_to_kernel("of a process that the engine cannot see"));
            }
            return self.leave_to_kernel(held);
        };
        if what == SocketCall::Socket {
            return self.make(held);
        }
        if what == SocketCall::GetSockOpt && held.int(1) == LIBRARY_LEVEL {
            return self.of_library(held);
        }
        let Some(about) = self.about(held) else { return };
        if self.sockets.get(about.token).is_some_and(|socket| matches!(socket.behind, Behind::Datagrams(_))) {
            return DatagramCalls(self).take(what, about);
        }
        match what {
            SocketCall::Socket => unreachable!("it is of no socket yet"),
            SocketCall::Bind => self.bind(about),
            SocketCall::Listen => self.listen(about),
            SocketCall::Accept | SocketCall::Accept4 => self.accept(about),
            SocketCall::Connect => self.connect(about),
            SocketCall::GetSockName => self.name(&about),
            SocketCall::GetPeerName => self.peer_name(&about),
            SocketCall::GetSockOpt => self.get_option(&about),
            SocketCall::SetSockOpt => self.set_option(about),
            SocketCall::RecvFrom => self.receive(&about),
            SocketCall::SendTo => self.send_to(about),
        }
    }

    /// The socket that a call is about. What is none of the engine's goes on, but for the last question about one that has failed; what the
    /// program has asked before without hearing the answer gets it again.
    pub(super) fn about(&mut self, held: HeldSocketCall) -> Option<About> {
        let found = self.notifier.copy_of(held.tid(), held.int(0)).and_then(|copy| Ok((inode(&copy)?, copy)));
        if !self.notifier.is_waiting(&held) {
            return None;
        }
        let (inode, copy) = match found {
            Ok(found) => found,
            // Whose it is, is not known.
            Err(error) if is_lack(&error) => {
                self.shown.note(|counts| counts.over_limit(limits::DESCRIPTORS));
                self.answer(held, Err(libc::ENOBUFS));
                return None;
            }
            Err(_) => {
                self.leave_to_kernel(held);
                return None;
            }
        };
        let Some(token) = self.sockets.of_inode(inode) else {
            self.about_failed(held, inode);
            return None;
        };
        if let Some(error) = self.failed.remove(&token) {
            drop(copy);
            self.fail(token, error);
            self.about_failed(held, inode);
            return None;
        }
        let socket = self.sockets.get(token).expect("it is in the table");
        socket.seen = (held.tid(), held.int(0));
        if let Some((before, result)) = socket.unheard.take()
            && before.is_again(&held)
        {
            drop(copy);
            self.answer_of(token, held, result);
            return None;
        }
        Some(About { held, token, copy })
    }

    /// A call about a socket that is gone from here.
    fn about_failed(&mut self, held: HeldSocketCall, inode: Inode) {
        let is_error = (held.int(1), held.int(2)) == (libc::SOL_SOCKET, libc::SO_ERROR);
        match held.what {
            Some(SocketCall::GetSockOpt) if is_error && self.errors.has(inode) => {
                let error = self.errors.take(inode);
                self.tell_option(held, &error.to_ne_bytes());
            }
            Some(SocketCall::Connect) if self.errors.has(inode) => {
                // Source: `net/ipv4/af_inet.c` `__inet_stream_connect`.
                let error = self.errors.take(inode);
                self.answer(held, Err(if error == 0 { libc::ECONNABORTED } else { error }));
            }
            Some(SocketCall::GetPeerName) if self.errors.has(inode) => self.answer(held, Err(libc::ENOTCONN)),
            Some(SocketCall::SendTo) if self.errors.has(inode) => self.answer(held, Err(libc::EPIPE)),
            _ => self.leave_to_kernel(held),
        }
    }

    /// `socket`.
    fn make(&mut self, held: HeldSocketCall) {
        let (domain, kind, protocol) = (held.int(0), held.int(1), held.int(2));
        let flags = kind & (libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK);
        let is_tcp = kind & !flags == libc::SOCK_STREAM && [0, libc::IPPROTO_TCP].contains(&protocol);
        if !is_tcp {
            let why = if kind & !flags == libc::SOCK_DGRAM { "UDP" } else { "neither TCP nor UDP" };
            self.shown.note(|counts| counts.left_to_kernel(why));
            return self.leave_to_kernel(held);
        }
        if !(Notifier::is_in_this_namespace(held.tid()) && self.notifier.is_waiting(&held)) {
            self.shown.note(|counts| counts.left_to_kernel("made in another network namespace"));
            return self.leave_to_kernel(held);
        }
        if self.sockets.is_full() {
            self.shown.note(|counts| counts.over_limit(limits::SOCKETS));
            return self.answer(held, Err(libc::ENFILE));
        }
        let (theirs, own, inode) = match pair() {
            Ok(made) => made,
            Err(error) => return self.answer(held, Err(error.raw_os_error().unwrap_or(libc::ENFILE))),
        };
        let is_v6 = domain == libc::AF_INET6;
        let socket = ProgramSocket::new(own, inode, is_v6, KeptOptions::default(), held.tid());
        self.give(held, socket, theirs, flags);
    }

    /// Gives the program a socket, with these of `SOCK_CLOEXEC` and `SOCK_NONBLOCK`.
    pub(super) fn give(&mut self, held: HeldSocketCall, socket: ProgramSocket, theirs: OwnedFd, flags: i32) {
        match self.enter(socket) {
            // What was not given is closed on the program's side.
            Ok(token) => drop(self.hand(held, token, theirs, flags)),
            Err(error) => self.answer(held, Err(error.raw_os_error().unwrap_or(libc::ENFILE))),
        }
    }

    /// Gives the program the other end of a socket that was entered; whether it has it now.
    pub(super) fn hand(&mut self, held: HeldSocketCall, token: u64, theirs: OwnedFd, flags: i32) -> bool {
        let is_set = flags & libc::SOCK_NONBLOCK == 0 || fcntl_setfl(&theirs, OFlags::NONBLOCK).is_ok();
        if !is_set {
            self.remove(token);
            self.answer(held, Err(libc::ENFILE));
            return false;
        }
        let given = self.notifier.give(held, &theirs, flags & libc::SOCK_CLOEXEC != 0);
        drop(theirs);
        let Ok(Given::Heard(number)) = given else {
            self.shown.note(|counts| counts.unheard += u64::from(matches!(given, Ok(Given::Gone))));
            return false;
        };
        self.sockets.get(token).expect("it was entered").seen = (held.tid(), number);
        self.show(token);
        true
    }

    /// The address that a call names, for a socket of a domain.
    pub(super) fn address(&mut self, held: &HeldSocketCall, is_v6: bool) -> Result<WrittenAddress, i32> {
        self.address_at(held, (held.argument(1), held.int(2)), is_v6)
    }

    /// The same, where it stands and how long it is.
    pub(super) fn address_at(
        &mut self,
        held: &HeldSocketCall,
        (at, len): (u64, i32),
        is_v6: bool,
    ) -> Result<WrittenAddress, i32> {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        if len > ADDRESS_BYTES_MAX {
            return Err(libc::EINVAL);
        }
        let mut bytes = [0; ADDRESS_BYTES_MAX];
        self.notifier.read(held, at, &mut bytes[..len]).map_err(|_| libc::EFAULT)?;
        address::read(&bytes[..len], is_v6)
    }

    fn bind(&mut self, about: About) {
        let About { held, token, .. } = about;
        let socket = self.sockets.get(token).expect("it was found");
        let (stage, is_v6) = (socket.stage(), socket.is_v6);
        let written = self.address(&held, is_v6);
        if !self.notifier.is_waiting(&held) {
            return;
        }
        let address = match written {
            Ok(WrittenAddress::Address(address)) => address,
            // As if it were the wildcard (`net/ipv4/af_inet.c` `__inet_bind`).
            Ok(WrittenAddress::Unspecified) if !is_v6 => SocketAddr::from(([0, 0, 0, 0], 0)),
            Ok(WrittenAddress::Unspecified) => return self.answer(held, Err(libc::EAFNOSUPPORT)),
            Err(error) => return self.answer(held, Err(error)),
        };
        match verdict(stage, AskedOfSocket::Bind(self.offer.reach.of_own(address))) {
            Verdict::Act => {
                let result = self.place(token, address, &held);
                drop(about.copy);
                self.answer_of(token, held, result.map(|()| 0));
                self.show(token);
            }
            Verdict::HandOver => {
                // What it has just closed has the port no more.
                self.look_for_closed(self.sockets.twins_at(address.port()));
                let why = self.offer.reach.why_left_own(address.ip());
                self.hand_over(about, why);
            }
            Verdict::Done | Verdict::Wait => self.answer(held, Ok(0)),
            Verdict::Refuse(error) => self.answer(held, Err(error)),
        }
    }

    /// Takes a place for a socket.
    fn place(&mut self, token: u64, address: SocketAddr, held: &HeldSocketCall) -> Result<(), i32> {
        may_bind(self, held, address.port())?;
        let is_wildcard = address.ip().is_unspecified();
        let make = ProgramSocket::listener;
        let (listener, twin) = self.with_twin((token, address, held.tid()), make, TcpListener::local_addr)?;
        let socket = self.sockets.get(token).ok_or(libc::EBADF)?;
        socket.behind = Behind::Place { listener, is_any: is_wildcard && address.port() == 0, twin };
        Ok(())
    }

    /// A place of the engine and, for a wildcard, its twin at the same port, for the socket of this token and a thread.
    ///
    /// # Errors
    /// Of `errno(3)`.
    pub(super) fn with_twin<T>(
        &mut self,
        (token, address, tid): (u64, SocketAddr, u32),
        make: impl Fn(&ProgramSocket, &NetNs, SocketAddr) -> io::Result<T>,
        local: impl Fn(&T) -> io::Result<SocketAddr>,
    ) -> Result<(T, Option<OwnedFd>), i32> {
        let make_both = |served: &mut Self| {
            for _ in 0..PORTS_MAX {
                let socket = served.sockets.get(token).ok_or(libc::EBADF)?;
                let made = make(socket, &served.offer.netns, address);
                let made = made.map_err(|error| error.raw_os_error().unwrap_or(libc::EADDRNOTAVAIL))?;
                if !address.ip().is_unspecified() {
                    return Ok((made, None));
                }
                let port = local(&made).map_or(address.port(), |local| local.port());
                match twin_at(socket, tid, SocketAddr::new(address.ip(), port)) {
                    Ok(twin) => return Ok((made, twin)),
                    // The engine chose one that the kernel has given.
                    Err(libc::EADDRINUSE) if address.port() == 0 => {}
                    Err(error) => return Err(error),
                }
            }
            Err(libc::EADDRINUSE)
        };
        match make_both(self) {
            // The program may have closed what has the place, and this thread not have heard of it.
            Err(libc::EADDRINUSE) => {
                self.look_for_closed(self.sockets.unconnected());
                make_both(self)
            }
            other => other,
        }
    }

    fn listen(&mut self, about: About) {
        let About { held, token, .. } = about;
        let backlog = usize::try_from(held.int(1).clamp(1, BACKLOG_MAX)).expect("it is at least 1");
        let socket = self.sockets.get(token).expect("it was found");
        let (stage, is_v6) = (socket.stage(), socket.is_v6);
        match verdict(stage, AskedOfSocket::Listen) {
            Verdict::Act => {}
            Verdict::Refuse(error) => return self.answer(held, Err(error)),
            Verdict::Done | Verdict::Wait | Verdict::HandOver => return self.answer(held, Ok(0)),
        }
        if stage == Stage::Fresh {
            let any = if is_v6 { SocketAddr::from(([0_u16; 8], 0)) } else { SocketAddr::from(([0; 4], 0)) };
            if let Err(error) = self.place(token, any, &held) {
                return self.answer(held, Err(error));
            }
        }
        let result = self.begin_to_listen(token, backlog);
        if stage != Stage::Listening && result.is_ok() {
            self.shown.note(|counts| counts.listened += 1);
        }
        drop(about.copy);
        self.answer_of(token, held, result.map(|()| 0));
        self.take_connections(token);
        self.show(token);
    }

    /// Puts a socket of the kernel in the place of this one, with what was set on it, and lets the call go on with that.
    pub(super) fn hand_over(&mut self, about: About, why: &'static str) {
        let About { held, token, copy } = about;
        let socket = self.sockets.get(token).expect("it was found");
        let (is_v6, options, (_, inode)) = (socket.is_v6, socket.options.clone(), socket.inode);
        let kind = socket.kind();
        let domain = if is_v6 { libc::AF_INET6 } else { libc::AF_INET };
        let flags = if fcntl_getfl(&copy).is_ok_and(|flags| flags.contains(OFlags::NONBLOCK)) {
            libc::SOCK_NONBLOCK
        } else {
            0
        };
        // One that is bound to a wildcard has one, with the port.
        let made = match socket.twin() {
            Some(twin) => {
                let wanted = if flags == 0 { OFlags::empty() } else { OFlags::NONBLOCK };
                fcntl_setfl(twin, wanted).map_err(io::Error::from).and_then(|()| twin.try_clone())
            }
            None => Notifier::kernel_socket(held.tid(), domain, kind | flags),
        };
        let close_on_exec = Notifier::closes_on_exec(held.tid(), held.int(0));
        // Programs that block watch nothing that they wait for themselves.
        let watches = if flags == 0 { Watches::default() } else { self.notifier.watches(&held, held.int(0), inode) };
        if !self.notifier.is_waiting(&held) {
            return;
        }
        let replaced = made.and_then(|made| {
            for set in options.all() {
                // The program may: it was judged when it was set. What the kernel refuses now it would have refused then; programs go on without most options.
                let _ = Notifier::set_option(&made, set.level, set.name, set.value());
            }
            let given = self.notifier.replace(&held, held.int(0), &made, close_on_exec)?;
            Ok((given, made))
        });
        match replaced {
            Ok((Given::Heard(_), made)) => {
                // Before the call goes on, as if they had watched it from the beginning.
                let moved = watches.move_to(held.int(0), &copy, &made).unwrap_or(0);
                drop(made);
                self.shown.note(|counts| {
                    counts.left_to_kernel(why);
                    counts.watches_moved += moved as u64;
                });
                self.leave_to_kernel(held);
                drop(copy);
                self.remove(token);
            }
            Ok((Given::Gone | Given::Refused(_), _)) => self.shown.note(|counts| counts.unheard += 1),
            Err(error) => self.answer(held, Err(error.raw_os_error().unwrap_or(libc::ENFILE))),
        }
    }

    /// Whose a destination is.
    pub(super) fn side_of(&self, peer: SocketAddr) -> Whose {
        self.offer.reach.of_peer(peer.ip())
    }
}

//! Calls on sockets for datagrams, which only the library in a program asks for.

use std::net::SocketAddr;

use napier_linux::process::{HeldSocketCall, Notifier, SocketCall};
use napier_ring::record::{STATE_BOUND, STATE_CONNECTED};
use napier_runtime::socket::UdpSocket;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::net::SocketType;

use super::calls::About;
use super::connect::WATCHED;
use super::rights::{may_bind, may_set};
use super::settings::NO_OPTION;
use super::socket::{Behind, ProgramSocket, pair_of};
use super::token::OF_TWIN;
use super::{DatagramCalls, ServedProgram};
use crate::address::WrittenAddress;
use crate::datagrams::{DatagramCounts, DatagramFlow, DatagramTurn, Datagrams, RECORD_BYTES};
use crate::limits;
use crate::rules::datagrams::{DatagramRule, is_of_errors, rule, told};
use crate::rules::options::{KeptOptions, name_of};
use crate::rules::reach::Whose;

/// What a twin is watched for.
const TWIN_WATCHED: EventFlags = EventFlags::IN.union(EventFlags::ET);

impl DatagramCalls<'_> {
    /// `socket`, as the library asks for it.
    pub(super) fn make(&mut self, held: HeldSocketCall) {
        let (domain, kind) = (held.int(3), held.int(4));
        let flags = kind & (libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK);
        let is_asked = [libc::AF_INET, libc::AF_INET6].contains(&domain) && kind & !flags == libc::SOCK_DGRAM;
        // It makes one of the kernel then, which is counted there.
        if !(is_asked && Notifier::is_in_this_namespace(held.tid()) && self.0.notifier.is_waiting(&held)) {
            return self.0.answer(held, Err(libc::ENOPROTOOPT));
        }
        if self.0.sockets.is_full() {
            self.0.shown.note(|counts| counts.over_limit(limits::SOCKETS));
            return self.0.answer(held, Err(libc::ENFILE));
        }
        let (theirs, own, inode) = match pair_of(SocketType::SEQPACKET) {
            Ok(made) => made,
            Err(error) => return self.0.answer(held, Err(error.raw_os_error().unwrap_or(libc::ENFILE))),
        };
        if self.0.record.is_empty() {
            self.0.record = vec![0; RECORD_BYTES];
        }
        let is_v6 = domain == libc::AF_INET6;
        let mut socket = ProgramSocket::new(own, inode, is_v6, KeptOptions::default(), held.tid());
        socket.behind = Behind::Datagrams(Box::new(Datagrams::new(is_v6)));
        self.0.shown.note(|counts| counts.datagram_sockets += 1);
        // A program that does not know the library's heads must never have it.
        self.0.give(held, socket, theirs, flags | libc::SOCK_CLOEXEC);
    }

    /// A call on one.
    pub(super) fn take(&mut self, what: SocketCall, about: About) {
        match what {
            SocketCall::Bind => self.bind(about),
            SocketCall::Connect => self.connect(about),
            SocketCall::GetSockName => self.0.name(&about),
            SocketCall::GetPeerName => {
                let socket = self.0.sockets.get(about.token).expect("it was found");
                let (is_v6, peer) = (socket.is_v6, socket.peer().ok_or(libc::ENOTCONN));
                let written = peer.and_then(|peer| self.0.write_address(&about.held, peer, is_v6));
                self.0.answer(about.held, written.map(|()| 0));
            }
            SocketCall::GetSockOpt => self.get_option(&about),
            SocketCall::SetSockOpt => self.set_option(about),
            // As they are for what they are: heads, which the library takes off.
            SocketCall::RecvFrom | SocketCall::SendTo => self.0.leave_to_kernel(about.held),
            SocketCall::Socket | SocketCall::Listen | SocketCall::Accept | SocketCall::Accept4 => {
                self.0.answer(about.held, Err(libc::EOPNOTSUPP));
            }
        }
    }

    fn of(&mut self, token: u64) -> Option<&mut Datagrams> {
        match &mut self.0.sockets.get(token)?.behind {
            Behind::Datagrams(datagrams) => Some(datagrams),
            Behind::Nothing
            | Behind::Place { .. }
            | Behind::Listener(_)
            | Behind::Handshake { .. }
            | Behind::Connection(_) => None,
        }
    }

    fn bind(&mut self, about: About) {
        let About { held, token, .. } = about;
        let socket = self.0.sockets.get(token).expect("it was found");
        let (is_v6, is_bound) = (socket.is_v6, socket.local().is_some());
        let written = self.0.address(&held, is_v6);
        if !self.0.notifier.is_waiting(&held) {
            return;
        }
        let address = match written {
            Ok(WrittenAddress::Address(address)) => address,
            Ok(WrittenAddress::Unspecified) if !is_v6 => SocketAddr::from(([0, 0, 0, 0], 0)),
            Ok(WrittenAddress::Unspecified) => return self.0.answer(held, Err(libc::EAFNOSUPPORT)),
            Err(error) => return self.0.answer(held, Err(error)),
        };
        if is_bound {
            return self.0.answer(held, Err(libc::EINVAL));
        }
        if self.0.offer.reach.of_own(address) == Whose::Kernel {
            // What it has just closed has the port no more.
            self.0.look_for_closed(self.0.sockets.twins_at(address.port()));
            let why = self.0.offer.reach.why_left_own(address.ip());
            return self.0.hand_over(about, why);
        }
        let result = may_bind(self.0, &held, address.port()).and_then(|()| self.place(token, address, &held));
        drop(about.copy);
        self.0.answer_of(token, held, result.map(|()| 0));
        self.pump(token);
        self.0.show(token);
    }

    /// Takes an address at the engine and, for a wildcard, the same of the kernel.
    fn place(&mut self, token: u64, address: SocketAddr, held: &HeldSocketCall) -> Result<(), i32> {
        let make = ProgramSocket::for_datagrams;
        let (socket, twin) = self.0.with_twin((token, address, held.tid()), make, UdpSocket::local_addr)?;
        if self.0.carrier.context.add(&socket, WATCHED, token).is_err() {
            self.0.shown.note(|counts| counts.over_limit(limits::WATCHED));
            return Err(libc::ENOBUFS);
        }
        let is_watched = |twin: &rustix::fd::OwnedFd| {
            epoll::add(&self.0.carrier.epoll, twin, EventData::new_u64(token | OF_TWIN), TWIN_WATCHED).is_ok()
        };
        let twin = twin.filter(is_watched);
        let of = self.0.sockets.get(token).ok_or(libc::EBADF)?;
        of.options.apply_to_datagrams(&socket);
        let (_, only_v6) = of.shares();
        let port = socket.local_addr().map_or(address.port(), |local| local.port());
        let bound = SocketAddr::new(address.ip(), port);
        let near = self.0.offer.near_datagrams.bind(bound, only_v6, token, &self.0.bell);
        let datagrams = self.of(token).ok_or(libc::EBADF)?;
        (datagrams.bound, datagrams.near) = (Some(bound), Some(near));
        (datagrams.socket, datagrams.twin, datagrams.peer) = (Some(socket), twin, None);
        Ok(())
    }

    fn connect(&mut self, about: About) {
        let held = about.held;
        let is_v6 = self.0.sockets.get(about.token).expect("it was found").is_v6;
        let written = self.0.address(&held, is_v6);
        if !self.0.notifier.is_waiting(&held) {
            return;
        }
        let peer = match written {
            Ok(WrittenAddress::Address(peer)) => peer,
            Ok(WrittenAddress::Unspecified) => return self.dissolve(about),
            Err(error) => return self.0.answer(held, Err(error)),
        };
        if self.0.offer.reach.of_datagram(peer.ip()) == Whose::Kernel {
            let why = self.0.offer.reach.why_left_peer(peer.ip());
            return if self.may_hand_over(about.token) {
                self.give_back(about, why)
            } else {
                self.0.answer(held, Err(libc::ENETUNREACH))
            };
        }
        let result = self.connect_to(about.token, peer, &held);
        drop(about.copy);
        self.0.answer_of(about.token, held, result.map(|()| 0));
        self.pump(about.token);
        self.0.show(about.token);
    }

    fn connect_to(&mut self, token: u64, peer: SocketAddr, held: &HeldSocketCall) -> Result<(), i32> {
        let is_bound = self.of(token).is_some_and(|datagrams| datagrams.socket.is_some());
        if !is_bound {
            let any = if peer.is_ipv6() { SocketAddr::from(([0_u16; 8], 0)) } else { SocketAddr::from(([0; 4], 0)) };
            self.place(token, any, held)?;
        }
        let is_near = self.0.offer.reach.is_own(peer.ip());
        self.of(token).ok_or(libc::EBADF)?.connect(peer, is_near)
    }

    /// `connect` with `AF_UNSPEC`: the address stays, the peer goes.
    fn dissolve(&mut self, about: About) {
        let (token, held) = (about.token, about.held);
        let Some(datagrams) = self.of(token) else { return self.0.answer(held, Err(libc::EBADF)) };
        let bound = datagrams.bound.filter(|_| datagrams.peer.is_some());
        if bound.is_some() {
            // The port is free for a moment; only the engine's own choice of ports could take it.
            (datagrams.socket, datagrams.near, datagrams.peer) = (None, None, None);
        }
        let result = bound.map_or(Ok(()), |bound| self.place(token, bound, &held));
        drop(about.copy);
        self.0.answer_of(token, held, result.map(|()| 0));
        self.0.show(token);
    }

    /// Whether a socket of the kernel can take the place of this one: it has no address, or its twin has the same.
    fn may_hand_over(&mut self, token: u64) -> bool {
        self.of(token).is_some_and(|datagrams| datagrams.socket.is_none() || datagrams.twin.is_some())
    }

    /// Puts the kernel's socket in the place of this one.
    fn give_back(&mut self, about: About, why: &'static str) {
        let ServedProgram { sockets, carrier, .. } = &mut *self.0;
        if let Some(twin) = sockets.get(about.token).and_then(|socket| socket.twin()) {
            // The program has it from here on.
            let _ = epoll::delete(&carrier.epoll, twin);
        }
        let token = about.token;
        self.0.hand_over(about, why);
        // The call may not wait any more: then all is as it was.
        let ServedProgram { sockets, carrier, .. } = &mut *self.0;
        if let Some(twin) = sockets.get(token).and_then(|socket| socket.twin()) {
            let _ = epoll::add(&carrier.epoll, twin, EventData::new_u64(token | OF_TWIN), TWIN_WATCHED);
        }
    }

    /// Tells the library what is known of a socket; it is about to send a datagram where the call's arguments say, if they do.
    pub(super) fn tell_state(&mut self, about: About) {
        let (held, token) = (about.held, about.token);
        let socket = self.0.sockets.get(token).expect("it was found");
        let is_v6 = socket.is_v6;
        let Some(datagrams) = self.of(token) else { return self.0.answer(held, Err(libc::ENOPROTOOPT)) };
        if datagrams.socket.is_none() && held.argument(3) != 0 {
            return self.begin_to_send(about, is_v6);
        }
        let bits = [(datagrams.socket.is_some(), STATE_BOUND), (datagrams.peer.is_some(), STATE_CONNECTED)];
        let state = bits.iter().filter(|(is_so, _)| *is_so).map(|(_, bit)| bit).sum();
        self.0.answer(held, Ok(state));
    }

    /// The first datagram of a socket without an address says whose it is.
    fn begin_to_send(&mut self, about: About, is_v6: bool) {
        let (held, token) = (about.held, about.token);
        let at = (held.argument(3), held.int(4));
        let written = self.0.address_at(&held, at, is_v6);
        let written = if written == Err(libc::EAFNOSUPPORT) && is_v6 {
            // Of IPv4, which such a socket sends to as well (`net/ipv6/udp.c udpv6_sendmsg`).
            self.0.address_at(&held, at, false)
        } else {
            written
        };
        if !self.0.notifier.is_waiting(&held) {
            return;
        }
        let to = match written {
            Ok(WrittenAddress::Address(to)) => to,
            Ok(WrittenAddress::Unspecified) => return self.0.answer(held, Err(libc::EAFNOSUPPORT)),
            Err(error) => return self.0.answer(held, Err(error)),
        };
        if self.0.offer.reach.of_datagram(to.ip()) == Whose::Kernel {
            let why = self.0.offer.reach.why_left_peer(to.ip());
            return self.give_back(about, why);
        }
        let any = if is_v6 { SocketAddr::from(([0_u16; 8], 0)) } else { SocketAddr::from(([0; 4], 0)) };
        let result = self.place(token, any, &held);
        drop(about.copy);
        self.0.answer(held, result.map(|()| STATE_BOUND));
        self.0.show(token);
    }

    fn set_option(&mut self, about: About) {
        let held = about.held;
        let (level, name, len) = (held.int(1), held.int(2), held.int(4));
        let is_shared = self.0.offer.for_all_users && (level, name) == (libc::SOL_SOCKET, libc::SO_REUSEPORT);
        match if is_shared { DatagramRule::Refuse(libc::ENOPROTOOPT) } else { rule(level, name) } {
            DatagramRule::Kernel => return self.leave_option(about),
            DatagramRule::Refuse(error) => {
                self.0.shown.note(|counts| counts.refused(name_of(level, name)));
                return self.0.answer(held, Err(error));
            }
            DatagramRule::Told => return self.0.answer(held, Err(libc::ENOPROTOOPT)),
            DatagramRule::OfPair | DatagramRule::Engine | DatagramRule::Kept => {}
        }
        let Ok(len) = usize::try_from(len) else { return self.0.answer(held, Err(libc::EINVAL)) };
        let mut value = [0; KeptOptions::VALUE_BYTES_MAX];
        let len = len.min(KeptOptions::VALUE_BYTES_MAX);
        if self.0.notifier.read(&held, held.argument(3), &mut value[..len]).is_err() {
            return self.0.answer(held, Err(libc::EFAULT));
        }
        if !self.0.notifier.is_waiting(&held) {
            return;
        }
        // A byte does for an int there (`net/ipv4/ip_sockglue.c do_ip_setsockopt`).
        let len = if level == libc::IPPROTO_IP && (1..4).contains(&len) { 4 } else { len };
        let value = &value[..len];
        if rule(level, name) == DatagramRule::OfPair
            && let Err(error) = Notifier::set_option(&about.copy, level, name, value)
        {
            return self.0.answer(held, Err(error.raw_os_error().unwrap_or(libc::EINVAL)));
        }
        let socket = self.0.sockets.get(about.token).expect("it was found");
        let before = socket.options.int(level, name);
        if let Err(error) = may_set(self.0, &held, (level, name), before, value) {
            return self.0.answer(held, Err(error));
        }
        let socket = self.0.sockets.get(about.token).expect("it was found");
        let noted = socket.options.note(level, name, value);
        let (tells, hears, options) = (socket.options.tells(), socket.options.hears(), socket.options.clone());
        if let Some(twin) = socket.twin().filter(|_| !is_of_errors(level, name)) {
            // What it refuses programs go on without.
            let _ = Notifier::set_option(twin, level, name, value);
        }
        if let Some(datagrams) = self.of(about.token) {
            (datagrams.tells, datagrams.hears) = (tells, hears);
            datagrams.socket.iter().for_each(|socket| options.apply_to_datagrams(socket));
        }
        self.0.answer(held, noted.map(|()| 0));
    }

    /// An option that the kernel's sockets alone have: the kernel judges it, but that what no program gets without a capability does not cost it the engine's.
    fn leave_option(&mut self, about: About) {
        let held = about.held;
        let option = (held.int(1), held.int(2));
        let may = may_set(self.0, &held, option, 0, &[0; 4]);
        let error = match may {
            Ok(()) if self.may_hand_over(about.token) => return self.give_back(about, NO_OPTION),
            Ok(()) => libc::ENOPROTOOPT,
            Err(error) => error,
        };
        self.0.shown.note(|counts| counts.refused(name_of(option.0, option.1)));
        self.0.answer(held, Err(error));
    }

    fn get_option(&mut self, about: &About) {
        let held = about.held;
        let (level, name) = (held.int(1), held.int(2));
        match rule(level, name) {
            DatagramRule::OfPair => return self.0.leave_to_kernel(held),
            DatagramRule::Kernel | DatagramRule::Refuse(_) => {
                self.0.shown.note(|counts| counts.refused(name_of(level, name)));
                return self.0.answer(held, Err(libc::ENOPROTOOPT));
            }
            DatagramRule::Engine | DatagramRule::Kept | DatagramRule::Told => {}
        }
        let socket = self.0.sockets.get(about.token).expect("it was found");
        if (level, name) == (libc::SOL_SOCKET, libc::SO_LINGER) {
            let value = socket.options.linger();
            return self.0.tell_option(held, &value);
        }
        let value = told(level, name, socket.is_v6, &socket.options);
        self.0.tell_option(held, &value.to_ne_bytes());
    }

    /// Lets what a program sent before its end leave, as far as there is room.
    pub(super) fn drain(&mut self, token: u64) {
        /// A pair has room for a few hundred (`net.core.wmem_default`).
        const TURNS: usize = 16;
        for _ in 0..TURNS {
            self.pump(token);
        }
    }

    /// Moves datagrams of a socket, if it is one for them.
    pub(super) fn pump(&mut self, token: u64) {
        let Some(socket) = self.0.sockets.get(token) else { return };
        let Behind::Datagrams(datagrams) = &mut socket.behind else { return };
        let mut turn = DatagramTurn {
            own: &socket.own,
            record: &mut self.0.record,
            reach: &self.0.offer.reach,
            left_bytes: &mut self.0.left_bytes,
            counts: DatagramCounts::default(),
        };
        let flow = datagrams.pump(&mut turn);
        let DatagramCounts { moved, lost } = turn.counts;
        self.0.shown.datagrams(moved);
        self.0.share.spend(u32::try_from(moved.iter().sum::<u64>()).unwrap_or(u32::MAX));
        if !lost.is_empty() {
            self.0.shown.note(|counts| lost.into_iter().for_each(|why| counts.lost(why)));
        }
        match flow {
            DatagramFlow::Idle => {}
            DatagramFlow::More if self.0.again.contains(&token) => {}
            DatagramFlow::More => self.0.again.push_back(token),
            DatagramFlow::Closed => self.0.remove(token),
        }
    }
}

//! Names and options of sockets, and what the library of the fast door asks for.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use napier_linux::process::{Given, HeldSocketCall, Notifier};
use napier_ring::outbox::{ASK_LOOK, ASK_MEMORY, ASK_RING};
use napier_ring::record::{ASK_DATAGRAMS, ASK_STATE};
use napier_runtime::socket::{MtuDiscovery, SocketOption, TcpInfo, TcpStream, UdpSocket};
use rustix::net::sockopt::set_socket_send_buffer_size;

use super::calls::About;
use super::rights::may_set;
use super::socket::Behind;
use super::{DatagramCalls, ServedProgram};
use crate::address;
use crate::limits;
use crate::near::{NearEnd, locked};
use crate::relay::Far;
use crate::rules::options::{KeptOptions, OptionRule, is_of_pair, name_of, rule};
use crate::rules::{AskedOfSocket, Stage, Verdict, verdict};

/// Why a socket is the kernel's.
pub(super) const NO_OPTION: &str = "an option that the engine does not have";
/// What buffers have before they grow, in bytes, doubled as the kernel tells it. Source: `net/ipv4/tcp.c tcp_init`, `tcp_wmem`, `tcp_rmem`.
const SNDBUF_BYTES: i32 = 16_384;
const RCVBUF_BYTES: i32 = 131_072;
/// `sizeof(struct tcp_info)` up to `tcpi_total_retrans`, which all kernels have.
const INFO_BYTES: usize = 104;

impl KeptOptions {
    /// Sets on what a connection's bytes are for what was set on its socket.
    pub(super) fn apply_to(&self, far: &Far) {
        far.stream().into_iter().for_each(|stream| self.apply(stream));
        far.near().into_iter().for_each(|end| self.apply_near(end));
    }

    fn apply_near(&self, end: &NearEnd) {
        end.set_reset(self.resets_on_close());
        self.buffer(libc::SO_SNDBUF).into_iter().for_each(|bytes| end.bound(bytes));
    }

    /// Lets no more wait for a program than its buffer for receiving has room for, in the end of the pair that is the engine's.
    pub(super) fn apply_to_own(&self, own: &OwnedFd) {
        if let Some(bytes) = self.buffer(libc::SO_RCVBUF) {
            // It is as it was, at worst.
            let _ = set_socket_send_buffer_size(own, bytes);
        }
    }

    /// Sets on another pair's end what was set on that of this socket.
    pub(super) fn apply_to_pair(&self, theirs: &OwnedFd) {
        for set in self.of_pair() {
            // The other end took it.
            let _ = Notifier::set_option(theirs, set.level, set.name, set.value());
        }
    }

    /// Sets on a socket for datagrams what was set on its program's.
    pub(super) fn apply_to_datagrams(&self, socket: &UdpSocket) {
        let int = |level, name| self.int(level, name);
        let byte = |level, name| u8::try_from(int(level, name)).ok();
        // Values that it does not take leave it as it is by default; so do those that were never set.
        let _ = byte(libc::IPPROTO_IP, libc::IP_TOS).map(|tos| socket.set_tos(tos));
        let _ = byte(libc::IPPROTO_IPV6, libc::IPV6_TCLASS).map(|class| socket.set_tclass_v6(class));
        let _ = byte(libc::IPPROTO_IP, libc::IP_TTL).map(|ttl| socket.set_ttl(ttl.into()));
        let _ = byte(libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS).map(|hops| socket.set_unicast_hops_v6(hops.into()));
        socket.set_recverr(self.hears());
        let discovery = [(libc::IPPROTO_IP, libc::IP_MTU_DISCOVER), (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER)];
        if let Some((level, name)) = discovery.iter().find(|(level, name)| self.is_set(*level, *name)) {
            let wanted = match int(*level, *name) {
                libc::IP_PMTUDISC_DONT => MtuDiscovery::Dont,
                libc::IP_PMTUDISC_DO => MtuDiscovery::Do,
                libc::IP_PMTUDISC_PROBE => MtuDiscovery::Probe,
                _ => MtuDiscovery::Want,
            };
            let _ = socket.set_mtu_discovery(wanted);
        }
        for (option, bytes) in self.buffers() {
            let _ = socket.setsockopt(option, bytes);
        }
    }

    /// Sets on a connection what was set on its socket.
    pub(super) fn apply(&self, stream: &TcpStream) {
        // Values were checked when they were set; what the connection does not take is left as it is by default.
        let _ = stream.set_nodelay(self.nodelay());
        let _ = stream.set_keepalive(self.keepalive());
        let _ = stream.set_user_timeout(self.user_timeout());
        let _ = stream.set_linger(self.resets_on_close().then_some(Duration::ZERO));
        for (option, bytes) in self.buffers() {
            let _ = stream.setsockopt(option, bytes);
        }
    }

    /// The lengths of buffers that were asked for.
    fn buffers(&self) -> impl Iterator<Item = (SocketOption, i32)> {
        let both = [(libc::SO_RCVBUF, SocketOption::RcvBuf), (libc::SO_SNDBUF, SocketOption::SndBuf)];
        let of = |bytes| i32::try_from(bytes).unwrap_or(i32::MAX);
        both.into_iter().filter_map(move |(name, option)| Some((option, of(self.buffer(name)?))))
    }
}

impl ServedProgram {
    pub(super) fn name(&mut self, about: &About) {
        let socket = self.sockets.get(about.token).expect("it was found");
        let is_v6 = socket.is_v6;
        let any = if is_v6 { SocketAddr::from(([0_u16; 8], 0)) } else { SocketAddr::from(([0; 4], 0)) };
        let local = socket.local().unwrap_or(any);
        let written = self.write_address(&about.held, local, is_v6);
        self.answer(about.held, written.map(|()| 0));
    }

    /// `recvfrom` with room for a byte, by which Python's `ssl` looks whether a socket has no connection: the pair has one in any case, and what a listener
    /// has there is not the program's. Source: `net/ipv4/tcp.c` `tcp_recvmsg_locked`.
    pub(super) fn receive(&mut self, about: &About) {
        let socket = self.sockets.get(about.token).expect("it was found");
        match verdict(socket.stage(), AskedOfSocket::Receive) {
            Verdict::Refuse(error) => self.answer(about.held, Err(error)),
            Verdict::Act | Verdict::Done | Verdict::Wait | Verdict::HandOver => self.leave_to_kernel(about.held),
        }
    }

    pub(super) fn peer_name(&mut self, about: &About) {
        let socket = self.sockets.get(about.token).expect("it was found");
        let is_v6 = socket.is_v6;
        let peer = match verdict(socket.stage(), AskedOfSocket::PeerName) {
            Verdict::Refuse(error) => Err(error),
            Verdict::Act | Verdict::Done | Verdict::Wait | Verdict::HandOver => socket.peer().ok_or(libc::ENOTCONN),
        };
        let written = peer.and_then(|peer| self.write_address(&about.held, peer, is_v6));
        self.answer(about.held, written.map(|()| 0));
    }

    /// Writes an address where the second argument points to, as long as the third one's int lets it be, and its whole length there. Where the
    /// second is null nothing is asked for. Source: `net/socket.c move_addr_to_user`.
    pub(super) fn write_address(&mut self, held: &HeldSocketCall, address: SocketAddr, is_v6: bool) -> Result<(), i32> {
        let (at, len_at) = (held.argument(1), held.argument(2));
        if at == 0 {
            return Ok(());
        }
        let (bytes, len) = address::write(address, is_v6);
        self.write_with_len(held, (at, &bytes[..len]), len_at, |_| len)
    }

    pub(super) fn set_option(&mut self, about: About) {
        let held = about.held;
        let (level, name, len) = (held.int(1), held.int(2), held.int(4));
        // Connections to a port that is shared go to any of those that share it: to another user's program, too.
        let is_shared = self.offer.for_all_users && (level, name) == (libc::SOL_SOCKET, libc::SO_REUSEPORT);
        match if is_shared { OptionRule::Refuse(libc::ENOPROTOOPT) } else { rule(level, name) } {
            OptionRule::Refuse(error) => {
                self.shown.note(|counts| counts.refused(name_of(level, name)));
                return self.answer(held, Err(error));
            }
            OptionRule::Told => return self.answer(held, Err(libc::ENOPROTOOPT)),
            OptionRule::Kernel => return self.leave_option(about),
            OptionRule::OfPair | OptionRule::Engine | OptionRule::Kept => {}
        }
        let Ok(len) = usize::try_from(len) else { return self.answer(held, Err(libc::EINVAL)) };
        let mut value = [0; KeptOptions::VALUE_BYTES_MAX];
        // Longer ones are cut, as the kernel does with ints.
        let value = &mut value[..len.min(KeptOptions::VALUE_BYTES_MAX)];
        if self.notifier.read(&held, held.argument(3), value).is_err() {
            return self.answer(held, Err(libc::EFAULT));
        }
        if !self.notifier.is_waiting(&held) {
            return;
        }
        let socket = self.sockets.get(about.token).expect("it was found");
        let before = socket.options.int(level, name);
        if let Err(error) = may_set(self, &held, (level, name), before, value) {
            return self.answer(held, Err(error));
        }
        let socket = self.sockets.get(about.token).expect("it was found");
        // While a handshake goes on the program's end is full, and stays so.
        let is_filled = name == libc::SO_SNDBUF && matches!(socket.behind, Behind::Handshake { .. });
        if is_of_pair(level, name)
            && !is_filled
            && let Err(error) = Notifier::set_option(&about.copy, level, name, value)
        {
            return self.answer(held, Err(error.raw_os_error().unwrap_or(libc::EINVAL)));
        }
        // Those of the pair, too: they go along with what comes from this socket.
        let noted = socket.options.note(level, name, value);
        if let Some(twin) = socket.twin() {
            // Connections that come there have it from there.
            let _ = Notifier::set_option(twin, level, name, value);
        }
        if noted.is_ok() {
            socket.stream().into_iter().for_each(|stream| set_one(&socket.options, stream, level, name));
            socket.near().into_iter().for_each(|end| socket.options.apply_near(end));
            // What a listener has there are no bytes.
            if name == libc::SO_RCVBUF && !matches!(socket.behind, Behind::Listener(_)) {
                socket.options.apply_to_own(&socket.own);
            }
        }
        self.answer(held, noted.map(|()| 0));
    }

    /// An option that the kernel's sockets alone have: a program that may have it gets one, if this has no address yet.
    fn leave_option(&mut self, about: About) {
        let held = about.held;
        let option = (held.int(1), held.int(2));
        let is_fresh = self.sockets.get(about.token).is_some_and(|socket| socket.stage() == Stage::Fresh);
        let may = may_set(self, &held, option, 0, &[0; 4]);
        match may.and(if is_fresh { Ok(()) } else { Err(libc::EPERM) }) {
            Ok(()) => self.hand_over(about, NO_OPTION),
            Err(error) => {
                self.shown.note(|counts| counts.refused(name_of(option.0, option.1)));
                self.answer(held, Err(error));
            }
        }
    }

    pub(super) fn get_option(&mut self, about: &About) {
        let held = about.held;
        let (level, name) = (held.int(1), held.int(2));
        match rule(level, name) {
            OptionRule::OfPair => return self.leave_to_kernel(held),
            OptionRule::Refuse(error) => {
                self.shown.note(|counts| counts.refused(name_of(level, name)));
                return self.answer(held, Err(error));
            }
            OptionRule::Engine | OptionRule::Kept | OptionRule::Told | OptionRule::Kernel => {}
        }
        let socket = self.sockets.get(about.token).expect("it was found");
        let int = match (level, name) {
            (libc::SOL_SOCKET, libc::SO_ERROR) => 0,
            (libc::SOL_SOCKET, libc::SO_DOMAIN) if socket.is_v6 => libc::AF_INET6,
            (libc::SOL_SOCKET, libc::SO_DOMAIN) => libc::AF_INET,
            (libc::SOL_SOCKET, libc::SO_PROTOCOL) => libc::IPPROTO_TCP,
            (libc::SOL_SOCKET, libc::SO_TYPE) => libc::SOCK_STREAM,
            (libc::SOL_SOCKET, libc::SO_ACCEPTCONN) => i32::from(matches!(socket.behind, Behind::Listener(_))),
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => buffer(socket.options.buffer(name), SNDBUF_BYTES),
            (libc::SOL_SOCKET, libc::SO_RCVBUF) => buffer(socket.options.buffer(name), RCVBUF_BYTES),
            (libc::SOL_SOCKET, libc::SO_LINGER) => {
                let value = socket.options.linger();
                return self.tell_option(held, &value);
            }
            (libc::IPPROTO_TCP, libc::TCP_INFO) => {
                let state = tcp_state(&socket.behind);
                let value = info(state, socket.stream().map(TcpStream::info).as_ref());
                return self.tell_option(held, &value);
            }
            (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => {
                socket.stream().map_or(536, |stream| i32::try_from(stream.info().segment).unwrap_or(i32::MAX))
            }
            _ => socket.options.int(level, name),
        };
        self.tell_option(held, &int.to_ne_bytes());
    }

    /// `getsockopt` of the library in a program, which asks for the fast door.
    pub(super) fn of_library(&mut self, held: HeldSocketCall) {
        match held.int(2) {
            ASK_MEMORY => self.give_memory(held),
            ASK_RING => {
                if let Some(about) = self.about(held) {
                    self.give_ring(about);
                }
            }
            ASK_DATAGRAMS => DatagramCalls(self).make(held),
            ASK_STATE => {
                if let Some(about) = self.about(held) {
                    DatagramCalls(self).tell_state(about);
                }
            }
            // The turn looks at them.
            ASK_LOOK => self.answer(held, Ok(0)),
            _ => self.answer(held, Err(libc::ENOPROTOOPT)),
        }
    }

    fn give_memory(&mut self, held: HeldSocketCall) {
        let process = Notifier::process_of(held.tid());
        if !self.notifier.is_waiting(&held) {
            return;
        }
        let made =
            process.ok_or_else(|| io::ErrorKind::NotFound.into()).and_then(|process| locked(&self.rings).make(process));
        match made {
            Ok(file) => {
                self.carrier.look_at(self.sockets.program(), &self.rings);
                let given = self.notifier.give(held, &file, true);
                self.shown.note(|counts| counts.unheard += u64::from(matches!(given, Ok(Given::Gone))));
            }
            Err(_) => {
                self.shown.note(|counts| counts.over_limit(limits::RINGS));
                self.answer(held, Err(libc::ENOBUFS));
            }
        }
    }

    fn give_ring(&mut self, about: About) {
        let (held, token) = (about.held, about.token);
        let given = locked(&self.rings).give((held.argument(3), held.argument(4)), token, &mut self.sockets);
        if given.is_ok() {
            self.shown.note(|counts| counts.fast += 1);
        }
        drop(about.copy);
        self.answer_of(token, held, given.map(|()| 0));
        self.show(token);
        self.pump(token);
    }

    /// Answers `getsockopt` with a value, cut to the room that the program has for it.
    pub(super) fn tell_option(&mut self, held: HeldSocketCall, value: &[u8]) {
        let written = self.write_with_len(&held, (held.argument(3), value), held.argument(4), |count| count);
        self.answer(held, written.map(|()| 0));
    }

    /// Writes a value, cut to the room that the int at `len_at` gives, and there what is told of so many bytes. `EINTR`: the call does not wait
    /// any more, and what it would have had is another's.
    fn write_with_len(
        &self,
        held: &HeldSocketCall,
        (at, value): (u64, &[u8]),
        len_at: u64,
        told: impl Fn(usize) -> usize,
    ) -> Result<(), i32> {
        let mut room = [0; 4];
        let read = self.notifier.read(held, len_at, &mut room);
        // What was read was of the thread whose memory this is.
        let memory = self.notifier.memory_of(held).map_err(|error| match error.raw_os_error() {
            Some(libc::EINTR) => libc::EINTR,
            _ => libc::EFAULT,
        })?;
        read.map_err(|_| libc::EFAULT)?;
        let room = usize::try_from(i32::from_ne_bytes(room)).map_err(|_| libc::EINVAL)?;
        let count = value.len().min(room);
        let len = i32::try_from(told(count)).expect("values are short").to_ne_bytes();
        let written = memory.write(at, &value[..count]).and_then(|()| memory.write(len_at, &len));
        // The memory of a process that has ended meanwhile takes nothing.
        let error = if self.notifier.is_waiting(held) { libc::EFAULT } else { libc::EINTR };
        written.map_err(|_| error)
    }
}

/// Sets on a connection what has just been set on its socket.
fn set_one(options: &KeptOptions, stream: &TcpStream, level: i32, name: i32) {
    let _ = match (level, name) {
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) => stream.set_nodelay(options.nodelay()),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE | libc::TCP_KEEPINTVL | libc::TCP_KEEPCNT)
        | (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => stream.set_keepalive(options.keepalive()),
        (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT) => stream.set_user_timeout(options.user_timeout()),
        (libc::SOL_SOCKET, libc::SO_LINGER) => stream.set_linger(options.resets_on_close().then_some(Duration::ZERO)),
        (libc::SOL_SOCKET, libc::SO_RCVBUF | libc::SO_SNDBUF) => {
            options.apply(stream);
            Ok(())
        }
        _ => Ok(()),
    };
}

/// As the kernel tells it: twice what was asked for.
fn buffer(asked: Option<usize>, default: i32) -> i32 {
    asked.map_or(default, |bytes| i32::try_from(bytes.saturating_mul(2)).unwrap_or(i32::MAX))
}

/// `TCP_ESTABLISHED` and its like. Source: `include/net/tcp_states.h`.
const fn tcp_state(behind: &Behind) -> u8 {
    match behind {
        Behind::Connection(_) => 1,
        Behind::Handshake { .. } => 2,
        Behind::Nothing | Behind::Place { .. } | Behind::Datagrams(_) => 7,
        Behind::Listener(_) => 10,
    }
}

/// `struct tcp_info`. Source: `include/uapi/linux/tcp.h`.
fn info(state: u8, info: Option<&TcpInfo>) -> [u8; INFO_BYTES] {
    let mut bytes = [0; INFO_BYTES];
    bytes[0] = state;
    let Some(info) = info else { return bytes };
    bytes[4] = u8::try_from(info.timeouts).unwrap_or(u8::MAX);
    // TCPI_OPT_TIMESTAMPS, TCPI_OPT_SACK
    bytes[5] = u8::from(info.timestamps) | u8::from(info.selective_acknowledgements) << 1;
    let us = |time: Duration| u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
    let segments = |bytes: u32| bytes / info.segment.max(1);
    let words = [
        (0, us(info.retransmission_timeout)),
        (2, info.segment),
        (3, info.segment),
        (4, segments(u32::try_from(info.unacknowledged).unwrap_or(u32::MAX))),
        (5, segments(info.selectively_acknowledged)),
        (6, segments(info.lost)),
        (15, us(info.rtt)),
        (16, us(info.rtt_deviation)),
        (17, segments(info.slow_start_threshold)),
        (18, segments(info.congestion_window)),
        (19, info.segment),
    ];
    for (at, word) in words {
        bytes[8 + 4 * at..12 + 4 * at].copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

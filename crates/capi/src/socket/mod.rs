//! A socket as POSIX has it: it is there before it has an address, while those of the engine are made with one.
//!
//! | before | call | after |
//! |---|---|---|
//! | new, datagrams | bind, connect, send, add to a context | lives |
//! | new, stream | bind | keeps the address |
//! | new or bound, stream | listen | lives, listens |
//! | new or bound, stream | connect | opens; lives, or as before if it failed |
//! | lives | bind, listen | EINVAL |
//!
//! What lives is read without a lock.

mod setting;
mod value;
mod watch;

use std::ffi::c_int;
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use napier_runtime::socket::{NetNs, ReusePort, TcpListener, TcpStream, UdpSocket};

use crate::control::ControlKinds;
use crate::engine::SocketOptions;
use crate::error::Failure;
pub(crate) use setting::SocketSetting;
use setting::{Keep, SETTINGS_MAX};
pub(crate) use watch::WatchChange;

/// What a socket carries.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Carries {
    Datagrams,
    Stream,
}

/// A socket of C.
pub(crate) struct PosixSocket {
    netns: NetNs,
    domain: c_int,
    carries: Carries,
    nonblocking: AtomicBool,
    /// What it wants to be told of each datagram, a [`ControlKinds`].
    told: AtomicU32,
    live: OnceLock<Live>,
    before: Mutex<Before>,
}

/// A socket of the engine.
pub(crate) enum Live {
    Datagrams(UdpSocket),
    Listener(TcpListener),
    Stream(TcpStream),
}

/// What was said before the socket lives, and what goes to those that it accepts.
#[derive(Clone)]
struct Before {
    opening: bool,
    local: Option<SocketAddr>,
    reuse: bool,
    only_v6: bool,
    settings: Vec<SocketSetting>,
    keep: Keep,
}

impl PosixSocket {
    /// A new one, as `socket(2)` makes it.
    pub(crate) fn new(
        netns: &NetNs,
        (domain, kind, protocol): (c_int, c_int, c_int),
        options: SocketOptions,
    ) -> Result<Self, Failure> {
        if ![libc::AF_INET, libc::AF_INET6].contains(&domain) {
            return Err(Failure::new(libc::EAFNOSUPPORT, "the domain is AF_INET or AF_INET6"));
        }
        // Descriptors of the kernel are what SOCK_CLOEXEC is about.
        let (kind, flags) = (kind & 0xf, kind & !0xf);
        if flags & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) != 0 {
            return Err(Failure::invalid("the type has other flags than SOCK_NONBLOCK and SOCK_CLOEXEC"));
        }
        let carries = match (kind, protocol) {
            (libc::SOCK_DGRAM, 0 | libc::IPPROTO_UDP) => Carries::Datagrams,
            (libc::SOCK_STREAM, 0 | libc::IPPROTO_TCP) => Carries::Stream,
            _ => {
                return Err(Failure::new(
                    libc::EPROTONOSUPPORT,
                    "there are SOCK_DGRAM over UDP and SOCK_STREAM over TCP",
                ));
            }
        };
        let settings = options.into_iter().map(|(option, value)| SocketSetting::Engine(option, value)).collect();
        let keep = Keep::default();
        let before = Before { opening: false, local: None, reuse: false, only_v6: false, settings, keep };
        Ok(Self {
            netns: netns.clone(),
            domain,
            carries,
            nonblocking: AtomicBool::new(flags & libc::SOCK_NONBLOCK != 0),
            told: AtomicU32::new(0),
            live: OnceLock::new(),
            before: Mutex::new(before),
        })
    }

    pub(crate) const fn domain(&self) -> c_int {
        self.domain
    }

    pub(crate) const fn carries(&self) -> Carries {
        self.carries
    }

    pub(crate) fn is_nonblocking(&self) -> bool {
        // Relaxed: each call looks once.
        self.nonblocking.load(Ordering::Relaxed)
    }

    pub(crate) fn set_nonblocking(&self, on: bool) -> Result<(), Failure> {
        // Under the lock: what comes to life meanwhile has one or the other, and is told of the other.
        let before = self.before();
        self.nonblocking.store(on, Ordering::Relaxed);
        if let Some(live) = self.live.get() {
            live.set_nonblocking(on)?;
        }
        drop(before);
        Ok(())
    }

    /// What it wants to be told of each datagram.
    #[inline]
    pub(crate) fn told(&self) -> ControlKinds {
        // Relaxed: each call looks once.
        ControlKinds::from_bits(self.told.load(Ordering::Relaxed))
    }

    /// The socket of the engine, if there is one.
    #[inline]
    pub(crate) fn live(&self) -> Option<&Live> {
        self.live.get()
    }

    /// The same, with an address that the system chooses for one that has none and carries datagrams
    /// (`net/ipv4/af_inet.c inet_autobind`).
    #[inline]
    pub(crate) fn live_or_bound(&self) -> Result<&Live, Failure> {
        match self.live.get() {
            Some(live) => Ok(live),
            None => self.bound(),
        }
    }

    #[cold]
    fn bound(&self) -> Result<&Live, Failure> {
        if self.carries == Carries::Stream {
            return Err(Failure::of(libc::ENOTCONN));
        }
        let mut before = self.before();
        if self.live.get().is_none() {
            self.bind_datagrams(&mut before, self.any())?;
        }
        self.live.get().ok_or_else(|| Failure::of(libc::EINVAL))
    }

    fn any(&self) -> SocketAddr {
        match self.domain {
            libc::AF_INET => (Ipv4Addr::UNSPECIFIED, 0).into(),
            _ => (Ipv6Addr::UNSPECIFIED, 0).into(),
        }
    }

    /// `bind(2)`.
    pub(crate) fn bind(&self, at: SocketAddr) -> Result<(), Failure> {
        self.check_family(at)?;
        let mut before = self.before();
        if self.live.get().is_some() || before.local.is_some() || before.opening {
            return Err(Failure::invalid("the socket has an address already"));
        }
        match self.carries {
            Carries::Datagrams => self.bind_datagrams(&mut before, at),
            Carries::Stream => {
                before.local = Some(at);
                Ok(())
            }
        }
    }

    fn bind_datagrams(&self, before: &mut Before, at: SocketAddr) -> Result<(), Failure> {
        let builder = UdpSocket::builder().nonblocking(self.is_nonblocking());
        let socket = builder.reuse_port(before.reuse()).only_v6(before.only_v6).bind(&self.netns, at)?;
        self.come_to_life(before, Live::Datagrams(socket))
    }

    /// `listen(2)`; no more than once.
    pub(crate) fn listen(&self, backlog: c_int) -> Result<(), Failure> {
        if self.carries == Carries::Datagrams {
            return Err(Failure::of(libc::EOPNOTSUPP));
        }
        let mut before = self.before();
        if self.live.get().is_some() || before.opening {
            return Err(Failure::invalid("the socket listens already, or is connected"));
        }
        let builder = TcpListener::builder().nonblocking(self.is_nonblocking()).reuse_port(before.reuse());
        // A negative one is the most (`net/ipv4/af_inet.c __inet_listen_sk`).
        let builder = builder.backlog(usize::try_from(backlog).map_or(4096, |backlog| backlog.min(4096)));
        let listener = builder.only_v6(before.only_v6).bind(&self.netns, before.local.unwrap_or_else(|| self.any()))?;
        self.come_to_life(&mut before, Live::Listener(listener))
    }

    /// `accept(2)`: the connection has the settings of the listener, and the address of its peer.
    pub(crate) fn accept(&self, nonblocking: bool) -> Result<(Self, SocketAddr), Failure> {
        let Some(Live::Listener(listener)) = self.live.get() else {
            return Err(Failure::invalid("the socket does not listen"));
        };
        let (stream, peer) = listener.accept()?;
        let before = self.before().clone();
        let accepted = Self {
            netns: self.netns.clone(),
            domain: self.domain,
            carries: Carries::Stream,
            nonblocking: AtomicBool::new(nonblocking),
            told: AtomicU32::new(0),
            live: OnceLock::new(),
            before: Mutex::new(before),
        };
        stream.set_nonblocking(nonblocking)?;
        let (own, live) = (accepted.before(), Live::Stream(stream));
        for setting in &own.settings {
            // What the listener was allowed once and this thread is not is no reason to lose a connection.
            let _ = live.apply(*setting, own.keep);
        }
        drop(own);
        accepted.live.set(live).map_err(|_| Failure::of(libc::EINVAL))?;
        Ok((accepted, peer))
    }

    /// `connect(2)`.
    pub(crate) fn connect(&self, peer: SocketAddr) -> Result<(), Failure> {
        self.check_family(peer)?;
        match (self.carries, self.live.get()) {
            (Carries::Datagrams, _) => {
                let Live::Datagrams(socket) = self.live_or_bound()? else { return Err(Failure::of(libc::EINVAL)) };
                Ok(socket.connect(peer)?)
            }
            (Carries::Stream, None) => self.open(peer),
            (Carries::Stream, Some(Live::Stream(stream))) => Err(match stream.take_error()? {
                Some(error) => error.into(),
                None if stream.peer_addr().is_ok() => Failure::of(libc::EISCONN),
                None => Failure::of(libc::EALREADY),
            }),
            (Carries::Stream, Some(_)) => Err(Failure::of(libc::EISCONN)),
        }
    }

    fn open(&self, peer: SocketAddr) -> Result<(), Failure> {
        let mut before = self.before();
        if before.opening || self.live.get().is_some() {
            return Err(Failure::of(libc::EALREADY));
        }
        let mut builder = TcpStream::builder();
        if let Some(local) = before.local {
            builder = builder.local(local);
        }
        if self.is_nonblocking() {
            let stream = builder.nonblocking(true).connect(&self.netns, peer)?;
            self.come_to_life(&mut before, Live::Stream(stream))?;
            return Err(Failure::of(libc::EINPROGRESS));
        }
        let limit = before.settings.iter().find_map(|setting| match setting {
            SocketSetting::SendTime(time) => *time,
            _ => None,
        });
        if let Some(limit) = limit {
            builder = builder.connect_timeout(limit);
        }
        // Not under the lock: it waits.
        before.opening = true;
        drop(before);
        let opening = Opening(self);
        let stream = builder.connect(&self.netns, peer)?;
        let mut before = self.before();
        let result = self.come_to_life(&mut before, Live::Stream(stream));
        drop(before);
        drop(opening);
        result
    }

    /// The socket of the engine is there: what was set before goes to it.
    fn come_to_life(&self, before: &mut Before, live: Live) -> Result<(), Failure> {
        live.set_nonblocking(self.is_nonblocking())?;
        for setting in &before.settings {
            live.apply(*setting, before.keep)?;
        }
        self.live.set(live).map_err(|_| Failure::of(libc::EINVAL))
    }

    /// `shutdown(2)`.
    pub(crate) fn shutdown(&self, how: c_int) -> Result<(), Failure> {
        let how = match how {
            libc::SHUT_RD => Shutdown::Read,
            libc::SHUT_WR => Shutdown::Write,
            libc::SHUT_RDWR => Shutdown::Both,
            _ => return Err(Failure::of(libc::EINVAL)),
        };
        match (self.carries, self.live.get()) {
            (Carries::Stream, Some(Live::Stream(stream))) => Ok(stream.shutdown(how)?),
            (Carries::Stream, _) => Err(Failure::of(libc::ENOTCONN)),
            (Carries::Datagrams, _) => {
                Err(Failure::new(libc::EOPNOTSUPP, "a socket of datagrams is closed as a whole"))
            }
        }
    }

    /// The own address, or the one that it will have.
    pub(crate) fn local_addr(&self) -> Result<SocketAddr, Failure> {
        match self.live.get() {
            Some(Live::Datagrams(socket)) => Ok(socket.local_addr()?),
            Some(Live::Listener(listener)) => Ok(listener.local_addr()?),
            Some(Live::Stream(stream)) => Ok(stream.local_addr()?),
            None => Ok(self.before().local.unwrap_or_else(|| self.any())),
        }
    }

    pub(crate) fn peer_addr(&self) -> Result<SocketAddr, Failure> {
        match self.live.get() {
            Some(Live::Datagrams(socket)) => Ok(socket.peer_addr()?),
            Some(Live::Stream(stream)) => Ok(stream.peer_addr()?),
            Some(Live::Listener(_)) | None => Err(Failure::of(libc::ENOTCONN)),
        }
    }

    /// Sets one now or, if the socket does not live yet, when it does.
    pub(crate) fn set(&self, setting: SocketSetting) -> Result<(), Failure> {
        let mut before = self.before();
        let lives = self.live.get();
        match setting {
            SocketSetting::ReusePort(_) | SocketSetting::OnlyV6(_) if lives.is_some() || before.local.is_some() => {
                return Err(Failure::invalid("SO_REUSEPORT and IPV6_V6ONLY are set before the socket is bound"));
            }
            SocketSetting::ReusePort(on) => before.reuse = on,
            _ if setting.is_of_v6() && self.domain != libc::AF_INET6 => return Err(Failure::of(libc::ENOPROTOOPT)),
            SocketSetting::OnlyV6(on) => before.only_v6 = on,
            _ => {
                setting.check(self.carries)?;
                let mut keep = before.keep;
                keep.note(setting);
                if let Some(live) = lives {
                    live.apply(setting, keep)?;
                }
                before.keep = keep;
                before.remember(setting)?;
                // Under the lock: of two that are set at one time both count.
                self.told.store(setting.tells(self.told()).bits(), Ordering::Relaxed);
            }
        }
        Ok(())
    }

    fn check_family(&self, address: SocketAddr) -> Result<(), Failure> {
        match (self.domain, address) {
            (libc::AF_INET, SocketAddr::V6(_)) | (libc::AF_INET6, SocketAddr::V4(_)) => {
                Err(Failure::new(libc::EAFNOSUPPORT, "the address is of another family than the socket"))
            }
            _ => Ok(()),
        }
    }

    fn before(&self) -> MutexGuard<'_, Before> {
        self.before.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time of a connect that waits.
struct Opening<'a>(&'a PosixSocket);

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        self.0.before().opening = false;
    }
}

impl Before {
    fn reuse(&self) -> ReusePort {
        if self.reuse { ReusePort::Hash } else { ReusePort::No }
    }

    /// Of each kind the last one counts.
    fn remember(&mut self, setting: SocketSetting) -> Result<(), Failure> {
        self.settings.retain(|other| !other.is_same_kind(setting));
        if self.settings.len() == SETTINGS_MAX {
            return Err(Failure::of(libc::ENOBUFS));
        }
        self.settings.push(setting);
        Ok(())
    }
}

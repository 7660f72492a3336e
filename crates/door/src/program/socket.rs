//! The sockets of a program, by the inode of its end of the pair: numbers, duplicates and processes that inherit do not matter.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use napier_linux::process::{HeldSocketCall, Notifier};
use napier_runtime::socket::{NetNs, ReusePort, TcpListener, TcpStream, UdpSocket};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::send::Sends;
use super::token;
use crate::datagrams::Datagrams;
use crate::limits::SOCKETS_MAX;
use crate::near::{NearEnd, NearListener};
use crate::relay::{Far, Relay};
use crate::rules::Stage;
use crate::rules::options::KeptOptions;

/// Connections that may wait in the engine, whatever a program asks for; as many as it asks for wait here, within bounds.
const ENGINE_BACKLOG: usize = 256;

/// What stands behind a program's socket.
pub(super) enum Behind {
    Nothing,
    /// A listener of the engine keeps the place: connections that come before `listen` wait in it.
    Place {
        listener: TcpListener,
        is_any: bool,
        /// Of a wildcard.
        twin: Option<OwnedFd>,
    },
    Listener(Box<Listening>),
    Handshake {
        stream: TcpStream,
        /// Bytes that keep the program's end from being writable.
        filled: usize,
        /// Calls that are answered when it is over.
        waits: Vec<HeldSocketCall>,
    },
    Connection(Box<Relay>),
    /// Of UDP.
    Datagrams(Box<Datagrams>),
}

/// A connection that waits.
pub(super) enum Backlogged {
    Engine(Far),
    /// It came over an interface of the kernel, and stays there.
    Kernel(OwnedFd),
}

/// A socket that listens.
pub(super) struct Listening {
    pub(super) listener: TcpListener,
    /// What programs on this engine open comes here.
    pub(super) near: NearListener,
    /// Of a wildcard: what listens at the kernel's interfaces.
    pub(super) twin: Option<OwnedFd>,
    /// Connections that may wait here.
    pub(super) backlog: usize,
    pub(super) waiting: VecDeque<(Backlogged, SocketAddr)>,
    /// Bytes in the pair, one for each of the first of them: it has room for a few hundred, so at most as many as wait.
    pub(super) announced: usize,
    /// `accept` calls without a connection yet, the oldest first.
    pub(super) accepts: VecDeque<HeldSocketCall>,
}

/// A socket of a program.
pub(super) struct ProgramSocket {
    /// The engine's end of the pair.
    pub(super) own: OwnedFd,
    pub(super) inode: Inode,
    pub(super) is_v6: bool,
    pub(super) options: KeptOptions,
    pub(super) behind: Behind,
    /// Thread and number by which it was seen last.
    pub(super) seen: (u32, i32),
    /// A call whose answer the program did not hear, and that answer: it will be made again.
    pub(super) unheard: Option<(HeldSocketCall, Result<i32, i32>)>,
    /// Calls that wait for room.
    pub(super) sends: Sends,
}

impl ProgramSocket {
    /// One that the program has had no number of yet; `tid`: its thread that made the call.
    pub(super) fn new(own: OwnedFd, inode: Inode, is_v6: bool, options: KeptOptions, tid: u32) -> Self {
        let (behind, sends) = (Behind::Nothing, Sends::default());
        Self { own, inode, is_v6, options, behind, seen: (tid, -1), unheard: None, sends }
    }

    /// Whether what it has is for its carrier: bytes.
    pub(super) const fn is_carried(&self) -> bool {
        matches!(self.behind, Behind::Connection(_) | Behind::Datagrams(_))
    }

    pub(super) const fn stage(&self) -> Stage {
        match &self.behind {
            // The table is of TCP.
            Behind::Nothing | Behind::Datagrams(_) => Stage::Fresh,
            // A twin has the port as well: the kernel can send from it.
            Behind::Place { is_any, twin, .. } => Stage::Bound { is_any: *is_any || twin.is_some() },
            Behind::Listener(_) => Stage::Listening,
            Behind::Handshake { .. } => Stage::Connecting,
            Behind::Connection(_) => Stage::Connected,
        }
    }

    pub(super) fn local(&self) -> Option<SocketAddr> {
        match &self.behind {
            Behind::Nothing => None,
            Behind::Place { listener, .. } => listener.local_addr().ok(),
            Behind::Listener(listening) => listening.listener.local_addr().ok(),
            Behind::Handshake { stream, .. } => stream.local_addr().ok(),
            Behind::Connection(relay) => relay.far.local(),
            Behind::Datagrams(datagrams) => datagrams.local(),
        }
    }

    /// The other end of a connection.
    pub(super) fn peer(&self) -> Option<SocketAddr> {
        match &self.behind {
            Behind::Connection(relay) => relay.far.peer(),
            Behind::Handshake { stream, .. } => stream.peer_addr().ok(),
            Behind::Datagrams(datagrams) => datagrams.peer,
            Behind::Nothing | Behind::Place { .. } | Behind::Listener(_) => None,
        }
    }

    /// What a connection to another program on the engine has on this side.
    pub(super) fn near(&self) -> Option<&NearEnd> {
        match &self.behind {
            Behind::Connection(relay) => relay.far.near(),
            Behind::Nothing
            | Behind::Place { .. }
            | Behind::Listener(_)
            | Behind::Handshake { .. }
            | Behind::Datagrams(_) => None,
        }
    }

    /// Takes a call out of those that wait; the error that it gets if it has waited too long. Source: `net/ipv4/inet_connection_sock.c`
    /// `inet_csk_wait_for_connect`, `net/ipv4/af_inet.c` `__inet_stream_connect`, `net/core/stream.c` `sk_stream_wait_memory`.
    pub(super) fn take_waiting(&mut self, held: &HeldSocketCall) -> Option<i32> {
        let is_it = |other: &HeldSocketCall| other.is_same(held);
        if let Some(at) = self.sends.0.iter().position(is_it) {
            self.sends.0.remove(at);
            return Some(libc::EAGAIN);
        }
        match &mut self.behind {
            Behind::Listener(listening) => {
                let at = listening.accepts.iter().position(is_it)?;
                listening.accepts.remove(at);
                Some(libc::EAGAIN)
            }
            Behind::Handshake { waits, .. } => {
                waits.remove(waits.iter().position(is_it)?);
                Some(libc::EINPROGRESS)
            }
            Behind::Nothing | Behind::Place { .. } | Behind::Connection(_) | Behind::Datagrams(_) => None,
        }
    }

    /// A place at the engine, with what was set on this.
    pub(super) fn listener(&self, netns: &NetNs, address: SocketAddr) -> io::Result<TcpListener> {
        let (reuse, only_v6) = self.shares();
        let mut builder =
            TcpListener::builder().backlog(ENGINE_BACKLOG).reuse_port(reuse).only_v6(only_v6).nonblocking(true);
        if let Some(bytes) = self.options.buffer(libc::SO_RCVBUF) {
            builder = builder.rcvbuf(bytes);
        }
        if let Some(bytes) = self.options.buffer(libc::SO_SNDBUF) {
            builder = builder.sndbuf(bytes);
        }
        builder.bind(netns, address)
    }

    /// Whether others may have the same port, and whether it is for IPv6 alone.
    pub(super) fn shares(&self) -> (ReusePort, bool) {
        let reuse = if self.options.reuse_port() { ReusePort::Hash } else { ReusePort::No };
        (reuse, self.is_v6 && self.options.only_v6())
    }

    /// The engine's socket for datagrams.
    pub(super) fn for_datagrams(&self, netns: &NetNs, address: SocketAddr) -> io::Result<UdpSocket> {
        let (reuse, only_v6) = self.shares();
        UdpSocket::builder().reuse_port(reuse).only_v6(only_v6).nonblocking(true).bind(netns, address)
    }

    /// What the kernel calls its type.
    pub(super) const fn kind(&self) -> i32 {
        if matches!(self.behind, Behind::Datagrams(_)) { libc::SOCK_DGRAM } else { libc::SOCK_STREAM }
    }

    pub(super) fn twin(&self) -> Option<&OwnedFd> {
        match &self.behind {
            Behind::Place { twin, .. } => twin.as_ref(),
            Behind::Listener(listening) => listening.twin.as_ref(),
            Behind::Datagrams(datagrams) => datagrams.twin.as_ref(),
            Behind::Nothing | Behind::Handshake { .. } | Behind::Connection(_) => None,
        }
    }

    pub(super) fn stream(&self) -> Option<&TcpStream> {
        match &self.behind {
            Behind::Handshake { stream, .. } => Some(stream),
            Behind::Connection(relay) => relay.far.stream(),
            Behind::Nothing | Behind::Place { .. } | Behind::Listener(_) | Behind::Datagrams(_) => None,
        }
    }
}

/// A new pair: the program's end, the engine's, and the inode of the former.
pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd, Inode)> {
    pair_of(SocketType::STREAM)
}

/// Whether files come along with bytes (Linux 6.16): what is not asked for is closed by who receives, and the last end of a file may take long
/// (`SO_LINGER`). Source: `include/uapi/asm-generic/socket.h`.
const SO_PASSRIGHTS: i32 = 83;

/// The same of another type.
pub(super) fn pair_of(kind: SocketType) -> io::Result<(OwnedFd, OwnedFd, Inode)> {
    let (theirs, own) = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    let inode = inode(&theirs)?;
    // Older kernels do not know it.
    let _ = Notifier::set_option(&own, libc::SOL_SOCKET, SO_PASSRIGHTS, &0_i32.to_ne_bytes());
    Ok((theirs, own, inode))
}

/// File system and number of an inode.
pub(super) type Inode = (u64, u64);

/// The inode of an open file; sockets have numbers of a counter, so none is another's soon. Source: `fs/inode.c get_next_ino`.
pub(super) fn inode(file: impl AsFd) -> io::Result<Inode> {
    let found = rustix::fs::fstat(file)?;
    Ok((found.st_dev, found.st_ino))
}

/// The sockets by token: place and generation, so that an event of one that is gone reaches no other.
#[derive(Default)]
pub(super) struct Sockets {
    /// Of the program, at its carrier.
    number: u16,
    places: Vec<(u32, Option<ProgramSocket>)>,
    free: Vec<u32>,
    by_inode: HashMap<Inode, u64>,
}

impl Sockets {
    pub(super) fn of_program(number: u16) -> Self {
        Self { number, ..Self::default() }
    }

    /// The program's number at its carrier.
    pub(super) const fn program(&self) -> u16 {
        self.number
    }

    pub(super) fn is_full(&self) -> bool {
        self.by_inode.len() >= SOCKETS_MAX
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_inode.is_empty()
    }

    pub(super) fn insert(&mut self, socket: ProgramSocket) -> u64 {
        let inode = socket.inode;
        let at = self.free.pop().unwrap_or_else(|| {
            self.places.push((0, None));
            u32::try_from(self.places.len() - 1).expect("at most SOCKETS_MAX")
        });
        let place = &mut self.places[at as usize];
        place.1 = Some(socket);
        let token = token::of(place.0, self.number, at);
        self.by_inode.insert(inode, token);
        token
    }

    pub(super) fn get(&mut self, token: u64) -> Option<&mut ProgramSocket> {
        let place = self.places.get_mut(token::place(token))?;
        if u64::from(place.0) == token >> 32 { place.1.as_mut() } else { None }
    }

    pub(super) fn of_inode(&self, inode: Inode) -> Option<u64> {
        self.by_inode.get(&inode).copied()
    }

    pub(super) fn remove(&mut self, token: u64) -> Option<ProgramSocket> {
        let at = token::place(token);
        let place = self.places.get_mut(at)?;
        if u64::from(place.0) != token >> 32 {
            return None;
        }
        let socket = place.1.take()?;
        place.0 = (place.0 + 1) % token::GENERATIONS;
        self.free.push(at as u32);
        self.by_inode.remove(&socket.inode);
        Some(socket)
    }

    /// The tokens of all without a connection.
    pub(super) fn unconnected(&self) -> Vec<u64> {
        self.tokens(|socket| !matches!(socket.behind, Behind::Connection(_)))
    }

    /// The tokens of those that listen at a port.
    pub(super) fn listening_at(&self, port: u16) -> Vec<u64> {
        self.tokens(|socket| matches!(&socket.behind, Behind::Listener(listening) if listening.near.port() == port))
    }

    /// The tokens of those that have a port at the kernel, too.
    pub(super) fn twins_at(&self, port: u16) -> Vec<u64> {
        let is_at = |socket: &ProgramSocket| socket.local().is_some_and(|local| local.port() == port);
        self.tokens(|socket| socket.twin().is_some() && is_at(socket))
    }

    /// The tokens of connections with bytes of the program that the engine does not take.
    pub(super) fn stuck(&self) -> Vec<u64> {
        self.tokens(|socket| matches!(&socket.behind, Behind::Connection(relay) if relay.has_unsent()))
    }

    fn tokens(&self, is_one: impl Fn(&ProgramSocket) -> bool) -> Vec<u64> {
        let all = self.by_inode.values().copied();
        let socket = |token: &u64| self.places[token::place(*token)].1.as_ref();
        all.filter(|token| socket(token).is_some_and(&is_one)).collect()
    }
}

/// Errors of sockets that are gone, for the program's next question: the last few.
#[derive(Default)]
pub(super) struct LastErrors {
    errors: VecDeque<(Inode, i32)>,
}

impl LastErrors {
    /// Older ones are forgotten.
    const MAX: usize = 256;

    pub(super) fn put(&mut self, inode: Inode, error: i32) {
        if self.errors.len() >= Self::MAX {
            self.errors.pop_front();
        }
        self.errors.push_back((inode, error));
    }

    /// Whether there is one, which stays.
    pub(super) fn has(&self, inode: Inode) -> bool {
        self.errors.iter().any(|(of, _)| *of == inode)
    }

    /// The error, told once: 0 from then on.
    pub(super) fn take(&mut self, inode: Inode) -> i32 {
        let found = self.errors.iter_mut().find(|(of, _)| *of == inode);
        found.map_or(0, |(_, error)| std::mem::take(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket() -> ProgramSocket {
        let (_theirs, own, inode) = pair().expect("a pair");
        ProgramSocket::new(own, inode, false, KeptOptions::default(), 0)
    }

    #[test]
    fn a_token_of_one_that_is_gone_names_no_other() {
        let mut sockets = Sockets::of_program(u16::MAX);
        let first = sockets.insert(socket());
        let inode = sockets.get(first).expect("there").inode;
        assert_eq!(sockets.of_inode(inode), Some(first));
        assert!(sockets.remove(first).is_some() && sockets.remove(first).is_none());
        let second = sockets.insert(socket());
        assert_eq!(token::place(second), token::place(first), "the place is used again");
        assert!(sockets.get(first).is_none() && sockets.get(second).is_some());
        assert_eq!(sockets.of_inode(inode), None);
    }

    #[test]
    fn an_error_is_told_once_and_the_oldest_is_forgotten() {
        let mut errors = LastErrors::default();
        for inode in 0..=LastErrors::MAX as u64 {
            errors.put((0, inode), libc::ECONNREFUSED);
        }
        assert!(!errors.has((0, 0)) && errors.has((0, 1)) && !errors.has((1, 1)));
        assert_eq!([(0, 1), (0, 1), (0, 0)].map(|inode| errors.take(inode)), [libc::ECONNREFUSED, 0, 0]);
    }
}

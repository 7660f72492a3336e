//! Connections between programs on one engine, by its own addresses: nothing of them is on the wire. Each is a pair of Unix sockets between two
//! relays, so that each program keeps the pair that it has anyway, whose end is heard of.
//!
//! ```text
//! program <==pair==> relay <==pair==> relay <==pair==> program
//!                    carrier of one   carrier of the other
//! ```
//!
//! One lock is held at a time, and none while an end is dropped.

use std::cell::Cell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use rustix::net::sockopt::set_socket_send_buffer_size;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, recv, send, shutdown, socketpair,
};

use crate::limits::BYTES_MAX;

/// Ports that are given to those that open a connection and have none. Source: `ip-sysctl`, `ip_local_port_range`.
const PORTS: RangeInclusive<u16> = 32_768..=60_999;
/// Connections that may wait at a listener beside those that its program has asked for, as many as in the engine.
const WAITING_MAX: usize = 256;

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is in there is whole after each statement.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// The listeners of all programs of an engine, and the connections between them.
#[derive(Default)]
pub(crate) struct Near {
    table: Mutex<NearTable>,
}

#[derive(Default)]
struct NearTable {
    /// By port.
    listening: HashMap<u16, Vec<Arc<NearPlace>>>,
    /// Who opened a connection, and where to, of all that there are.
    open: HashSet<(SocketAddr, SocketAddr)>,
    /// Listeners of one port are taken in turn, and so are ports.
    turn: usize,
    next: usize,
}

/// A listener.
struct NearPlace {
    address: SocketAddr,
    only_v6: bool,
    waiting: Mutex<VecDeque<NearEnd>>,
    token: u64,
    bell: Arc<NearBell>,
}

impl NearPlace {
    /// How well it is meant by an address, as the kernel weighs it: an address before a wildcard. Source: `net/ipv4/inet_hashtables.c` `compute_score`.
    fn suits(&self, to: IpAddr) -> Option<u8> {
        match self.address.ip() {
            own if own == to => Some(1),
            own if own.is_unspecified() && own.is_ipv4() == to.is_ipv4() => Some(0),
            own if own.is_unspecified() && own.is_ipv6() && !self.only_v6 => Some(0),
            _ => None,
        }
    }
}

impl NearTable {
    fn find(&mut self, to: SocketAddr) -> Option<Arc<NearPlace>> {
        let all = self.listening.get(&to.port())?;
        let best = all.iter().filter_map(|place| place.suits(to.ip())).max()?;
        let these: Vec<_> = all.iter().filter(|place| place.suits(to.ip()) == Some(best)).collect();
        self.turn = self.turn.wrapping_add(1);
        Some(these[self.turn % these.len()].clone())
    }

    /// Notes a connection; from where, if there is a port.
    fn open(&mut self, from: Option<SocketAddr>, to: SocketAddr) -> Option<SocketAddr> {
        let ip = from.map(|from| from.ip()).filter(|ip| !ip.is_unspecified()).unwrap_or(to.ip());
        let port = from.map_or(0, |from| from.port());
        let mut is_new = |port| {
            let from = SocketAddr::new(ip, port);
            (from != to && self.open.insert((from, to))).then_some(from)
        };
        if port != 0 {
            return is_new(port);
        }
        // Each once, at most.
        let found = (0..PORTS.len()).map(|at| self.next.wrapping_add(at) % PORTS.len());
        let found = found.map(|at| PORTS.start() + u16::try_from(at).expect("fewer than ports")).find_map(&mut is_new);
        self.next = self.next.wrapping_add(1);
        found
    }
}

impl Near {
    /// Takes connections to an address, which are told by the bell with this token.
    pub(crate) fn listen(
        self: &Arc<Self>,
        address: SocketAddr,
        only_v6: bool,
        token: u64,
        bell: &Arc<NearBell>,
    ) -> NearListener {
        let (address, waiting, bell) = (plain(address), Mutex::default(), bell.clone());
        let place = Arc::new(NearPlace { address, only_v6, waiting, token, bell });
        locked(&self.table).listening.entry(address.port()).or_default().push(place.clone());
        NearListener { near: self.clone(), place }
    }

    /// Opens a connection from an address that the socket is bound to, if it is; or an error of `errno(3)`.
    pub(crate) fn connect(self: &Arc<Self>, from: Option<SocketAddr>, to: SocketAddr) -> Result<NearEnd, i32> {
        let to = plain(to);
        let (place, from) = {
            let mut table = locked(&self.table);
            let place = table.find(to).ok_or(libc::ECONNREFUSED)?;
            (place, table.open(from.map(plain), to).ok_or(libc::EADDRNOTAVAIL)?)
        };
        let shared = Arc::new(NearShared { near: self.clone(), from, to, were_reset: Default::default() });
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let made = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None);
        let (one, other) = made.map_err(rustix::io::Errno::raw_os_error)?;
        let end = |fd, has_opened| NearEnd { fd, has_opened, resets: Cell::new(false), shared: shared.clone() };
        let (opened, mut taken) = (end(one, true), Some(end(other, false)));
        {
            let mut waiting = locked(&place.waiting);
            if waiting.len() < WAITING_MAX {
                waiting.extend(taken.take());
            }
        }
        // Its SYNs would not be answered (`net/ipv4/tcp_input.c tcp_conn_request`), and it would hear so much later.
        if taken.is_some() {
            return Err(libc::ETIMEDOUT);
        }
        place.bell.ring(place.token);
        Ok(opened)
    }
}

/// Of a listener: what comes to it from programs of its engine. It takes none any more when it is dropped.
pub(crate) struct NearListener {
    near: Arc<Near>,
    place: Arc<NearPlace>,
}

impl NearListener {
    pub(crate) fn port(&self) -> u16 {
        self.place.address.port()
    }

    /// The next one.
    pub(crate) fn accept(&self) -> Option<NearEnd> {
        locked(&self.place.waiting).pop_front()
    }
}

impl Drop for NearListener {
    fn drop(&mut self) {
        {
            let mut table = locked(&self.near.table);
            let port = self.place.address.port();
            if let Some(all) = table.listening.get_mut(&port) {
                all.retain(|place| !Arc::ptr_eq(place, &self.place));
                if all.is_empty() {
                    table.listening.remove(&port);
                }
            }
        }
        // One that comes in this moment ends with the place.
        let left = std::mem::take(&mut *locked(&self.place.waiting));
        left.iter().for_each(|end| end.set_reset(true));
    }
}

/// By which a program's thread hears which of its listeners have something.
pub(crate) struct NearBell {
    fd: OwnedFd,
    rung: Mutex<HashSet<u64>>,
    /// Bytes of datagrams that wait at all sockets of the program.
    waiting_bytes: AtomicUsize,
}

impl NearBell {
    pub(crate) fn new() -> io::Result<Self> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { fd, rung: Mutex::default(), waiting_bytes: AtomicUsize::new(0) })
    }

    /// Whether there is room for so many bytes more, which are counted then. Relaxed, here and below: a figure.
    pub(crate) fn has_room_for(&self, bytes: usize) -> bool {
        let more = |waiting: usize| waiting.checked_add(bytes).filter(|all| *all <= BYTES_MAX);
        self.waiting_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// So many do not wait any more.
    pub(crate) fn have_left(&self, bytes: usize) {
        self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(crate) fn ring(&self, token: u64) {
        locked(&self.rung).insert(token);
        // If it has no room it is readable.
        let _ = rustix::io::write(&self.fd, &1_u64.to_ne_bytes());
    }

    /// The listeners, told once.
    pub(crate) fn heard(&self) -> HashSet<u64> {
        // Before: what rings meanwhile is heard of again.
        let _ = rustix::io::read(&self.fd, &mut [0_u8; 8]);
        std::mem::take(&mut *locked(&self.rung))
    }
}

impl AsFd for NearBell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Of both ends of a connection.
struct NearShared {
    near: Arc<Near>,
    from: SocketAddr,
    to: SocketAddr,
    /// Whether the end that took it, and the one that opened it, were closed by a reset.
    were_reset: [AtomicBool; 2],
}

impl Drop for NearShared {
    fn drop(&mut self) {
        locked(&self.near.table).open.remove(&(self.from, self.to));
    }
}

/// One end of a connection. It does not block.
pub(crate) struct NearEnd {
    fd: OwnedFd,
    has_opened: bool,
    resets: Cell<bool>,
    shared: Arc<NearShared>,
}

impl NearEnd {
    pub(crate) fn local(&self) -> SocketAddr {
        if self.has_opened { self.shared.from } else { self.shared.to }
    }

    pub(crate) fn peer(&self) -> SocketAddr {
        if self.has_opened { self.shared.to } else { self.shared.from }
    }

    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(&self.fd, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?)
    }

    /// 0: the other end sends no more.
    pub(crate) fn recv(&self, into: &mut [u8]) -> io::Result<usize> {
        match recv(&self.fd, into, RecvFlags::DONTWAIT)?.0 {
            // Acquire: with the Release of the other end's drop, before its descriptor was closed.
            0 if self.shared.were_reset[usize::from(!self.has_opened)].load(Ordering::Acquire) => {
                Err(rustix::io::Errno::CONNRESET.into())
            }
            count => Ok(count),
        }
    }

    pub(crate) fn end_sending(&self) {
        // The other end may be gone.
        let _ = shutdown(&self.fd, Shutdown::Write);
    }

    /// How many bytes may be on their way to the other end, as the kernel counts them.
    pub(crate) fn bound(&self, bytes: usize) {
        // It is as it was, at worst.
        let _ = set_socket_send_buffer_size(&self.fd, bytes);
    }

    /// Whether the other end gets `ECONNRESET` when this one is dropped.
    pub(crate) fn set_reset(&self, resets: bool) {
        self.resets.set(resets);
    }
}

impl AsFd for NearEnd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for NearEnd {
    fn drop(&mut self) {
        if self.resets.get() {
            // Release: see `recv`.
            self.shared.were_reset[usize::from(self.has_opened)].store(true, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests;

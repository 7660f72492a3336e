//! Datagrams of one socket of a program, both ways: each message of the pair is a head (`napier_ring::record`) and a payload. A head is what a program's
//! library says, or what else has that end: nothing in it is believed.
//!
//! ```text
//! program <==pair, SOCK_SEQPACKET==> Datagrams <--> a UDP socket of the engine
//!                                        \--------> its twin, one of the kernel, if it is bound to a wildcard
//! ```
//!
//! One datagram is left over at most, if the engine's socket has no room for it; what comes stays in the sockets' own queues until the pair takes it.

mod beside;
mod heads;

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use napier_ring::record::{HAS_OWN, HAS_PEER, HAS_TOS, HAS_TTL, HEAD_BYTES, PAYLOAD_BYTES_MAX, RecordHead, RecordKind};
use napier_runtime::socket::{RecvMeta, SendMeta, UdpSocket};
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send, sendto};

pub(crate) use heads::address_of;
use heads::{bytes_of, ip_of, is_over, peer_of, tell};

use crate::limits::BYTES_MAX;
use crate::near_datagrams::NearSocket;
use crate::rules::reach::{Reach, Whose};

/// Bytes that a message may have, and one more, which tells a longer one.
pub(crate) const RECORD_BYTES: usize = HEAD_BYTES + PAYLOAD_BYTES_MAX + 1;
/// Datagrams of each way that are moved before others have their turn.
const TURN_MAX: usize = 64;

/// Why datagrams of a program are lost in the door, by the names that are shown.
const NO_HEAD: &str = "written past the library";
const UNBOUND: &str = "sent before it has an address";
const NO_ROOM: &str = "more than bytes in the door (64 MiB)";
const REFUSED: &str = "that cannot be sent there";
const NO_MEMORY: &str = "for which the system had no memory";
const NO_WAY: &str = "to an address that is not the engine's";

/// How it goes on.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum DatagramFlow {
    /// With the next event.
    Idle,
    /// At once, after others.
    More,
    /// The program has closed its socket.
    Closed,
}

/// What a turn came to.
#[derive(Default, Debug)]
pub(crate) struct DatagramCounts {
    /// Datagrams that left, and that the program got.
    pub(crate) moved: [u64; 2],
    pub(crate) lost: Vec<&'static str>,
}

/// What a turn needs of its program's thread.
pub(crate) struct DatagramTurn<'t> {
    pub(crate) own: &'t OwnedFd,
    /// Of [`RECORD_BYTES`].
    pub(crate) record: &'t mut [u8],
    pub(crate) reach: &'t Reach,
    /// Bytes that are left over, of all sockets of the program.
    pub(crate) left_bytes: &'t mut usize,
    pub(crate) counts: DatagramCounts,
}

/// A socket for datagrams.
pub(crate) struct Datagrams {
    is_v6: bool,
    /// Once it has an address.
    pub(crate) socket: Option<UdpSocket>,
    /// The address as it was asked for, with its port.
    pub(crate) bound: Option<SocketAddr>,
    /// Of a wildcard, as long as it has no peer.
    pub(crate) twin: Option<OwnedFd>,
    pub(crate) peer: Option<SocketAddr>,
    /// What programs on this engine send by its own addresses.
    pub(crate) near: Option<NearSocket>,
    /// What programs want to be told of each datagram: flags of heads.
    pub(crate) tells: u16,
    /// They want to be told of errors (`IP_RECVERR`).
    pub(crate) hears: bool,
    /// A message that the engine had no room for.
    left: Option<Box<[u8]>>,
    /// The pair takes no more until an event says so.
    is_full: bool,
    /// The program has closed its end.
    is_over: bool,
    /// Its peer is another program on the engine.
    is_near: bool,
}

impl Datagrams {
    pub(crate) const fn new(is_v6: bool) -> Self {
        Self {
            is_v6,
            socket: None,
            bound: None,
            twin: None,
            peer: None,
            near: None,
            tells: 0,
            hears: false,
            left: None,
            is_full: false,
            is_over: false,
            is_near: false,
        }
    }

    pub(crate) fn local(&self) -> Option<SocketAddr> {
        let local = self.socket.as_ref()?.local_addr().ok()?;
        let of_peer = self.peer.filter(|_| self.is_near && local.ip().is_unspecified());
        Some(of_peer.map_or(local, |peer| SocketAddr::new(peer.ip(), local.port())))
    }

    /// Hears a peer alone from now on, and nothing that arrives at the kernel.
    ///
    /// # Errors
    /// Of `errno(3)`.
    pub(crate) fn connect(&mut self, peer: SocketAddr, is_near: bool) -> Result<(), i32> {
        // By port 0 programs ask which address leads there; nothing is sent to it.
        let there = if peer.port() == 0 { SocketAddr::new(peer.ip(), 1) } else { peer };
        if let Some(socket) = self.socket.as_ref().filter(|_| !is_near) {
            socket.connect(there).map_err(|error| error.raw_os_error().unwrap_or(libc::ENETUNREACH))?;
        }
        (self.peer, self.twin, self.is_near) = (Some(peer), None, is_near);
        self.near.iter().for_each(|near| near.connect(Some(peer)));
        Ok(())
    }

    pub(crate) const fn state(&self) -> &'static str {
        match (&self.socket, self.peer) {
            (None, _) => "fresh",
            (Some(_), None) => "bound",
            (Some(_), Some(_)) => "connected",
        }
    }

    /// What the last event of the pair said.
    pub(crate) fn pair_says(&mut self, events: EventFlags) {
        self.is_full &= !events.contains(EventFlags::OUT);
        self.is_over |= events.contains(EventFlags::HUP);
    }

    /// Bytes that are left over, which are forgotten.
    pub(crate) fn forget_left(&mut self) -> usize {
        self.left.take().map_or(0, |left| left.len())
    }

    /// Moves datagrams both ways.
    pub(crate) fn pump(&mut self, turn: &mut DatagramTurn<'_>) -> DatagramFlow {
        let out = self.outward(turn);
        if out == DatagramFlow::Closed || self.is_over {
            // What it sent before leaves still.
            return out;
        }
        let into = [self.inward(turn), self.inward_of_twin(turn), self.inward_of_near(turn)];
        if into.contains(&DatagramFlow::Closed) {
            return DatagramFlow::Closed;
        }
        let has_more = out == DatagramFlow::More || into.contains(&DatagramFlow::More);
        if has_more { DatagramFlow::More } else { DatagramFlow::Idle }
    }

    /// What the program sends.
    fn outward(&mut self, turn: &mut DatagramTurn<'_>) -> DatagramFlow {
        if let Some(left) = self.left.take() {
            *turn.left_bytes -= left.len();
            turn.record[..left.len()].copy_from_slice(&left);
            if !self.send_or_keep(turn, left.len()) {
                return DatagramFlow::Idle;
            }
        }
        for _ in 0..TURN_MAX {
            let len = match recv(turn.own, &mut *turn.record, RecvFlags::DONTWAIT) {
                // An empty message and the end look the same.
                Ok((0, _)) if is_over(turn.own) => return DatagramFlow::Closed,
                Ok((len, _)) => len,
                Err(Errno::AGAIN) => return DatagramFlow::Idle,
                // Told once, with what was sent before still to be read.
                Err(Errno::INTR | Errno::CONNRESET) => continue,
                Err(_) => return DatagramFlow::Closed,
            };
            if !self.send_or_keep(turn, len) {
                return DatagramFlow::Idle;
            }
        }
        DatagramFlow::More
    }

    /// Sends the message in the record; false: it is left over, for the engine's socket has no room.
    fn send_or_keep(&mut self, turn: &mut DatagramTurn<'_>, len: usize) -> bool {
        let message = &turn.record[..len];
        let head = RecordHead::from_bytes(message).filter(|head| head.kind == RecordKind::Datagram);
        let Some(head) = head.filter(|_| len < RECORD_BYTES) else {
            turn.counts.lost.push(NO_HEAD);
            return true;
        };
        match self.send(&head, &message[HEAD_BYTES..], turn.reach, turn.own) {
            Ok(()) => turn.counts.moved[0] += 1,
            Err(NotSent::NoRoom) if turn.left_bytes.saturating_add(len) <= BYTES_MAX => {
                *turn.left_bytes += len;
                self.left = Some(message.into());
                return false;
            }
            Err(NotSent::NoRoom) => turn.counts.lost.push(NO_ROOM),
            Err(NotSent::Lost(why, error)) => {
                turn.counts.lost.push(why);
                self.tell_of(turn.own, error);
            }
            Err(NotSent::Told(error)) if !self.tell_of(turn.own, error) => turn.counts.lost.push(REFUSED),
            Err(NotSent::Told(_)) => {}
        }
        true
    }

    /// Who has no peer hears of errors only if it asks: what it answers to is what a peer has said (`net/ipv4/udp.c __udp4_lib_err`).
    fn tell_of(&self, own: &OwnedFd, error: i32) -> bool {
        let is_told = self.peer.is_some() || self.hears;
        if is_told {
            tell(own, error);
        }
        is_told
    }

    fn send(&self, head: &RecordHead, payload: &[u8], reach: &Reach, own: &OwnedFd) -> Result<(), NotSent> {
        let Some(socket) = &self.socket else { return Err(NotSent::Lost(UNBOUND, libc::EDESTADDRREQ)) };
        let to = if head.has(HAS_PEER) {
            Some(address_of(&head.peer, self.is_v6).ok_or(NotSent::Told(libc::EAFNOSUPPORT))?)
        } else {
            None
        };
        let Some(goes_to) = to.or(self.peer) else { return Err(NotSent::Told(libc::EDESTADDRREQ)) };
        if goes_to.port() == 0 {
            return Err(NotSent::Told(libc::EINVAL));
        }
        if reach.of_datagram(goes_to.ip()) == Whose::Kernel {
            let Some(twin) = &self.twin else { return Err(NotSent::Lost(NO_WAY, libc::ENETUNREACH)) };
            return match sendto(twin, payload, SendFlags::DONTWAIT | SendFlags::NOSIGNAL, &goes_to) {
                // The kernel's queue is full, which its own callers wait for.
                Ok(_) | Err(Errno::AGAIN) => Ok(()),
                Err(error) => Err(NotSent::Told(error.raw_os_error())),
            };
        }
        if let Some(near) = self.near.as_ref().filter(|_| reach.is_own(goes_to.ip())) {
            return near.send(goes_to, payload).map_err(NotSent::Told);
        }
        let mut meta = to.map_or_else(SendMeta::default, SendMeta::to);
        if head.has(HAS_OWN) {
            meta = meta.src_ip(ip_of(head.peer.is_v6, &head.own)).ifindex(head.ifindex);
        }
        if head.has(HAS_TOS) {
            meta = meta.tos(head.tos);
        }
        if head.has(HAS_TTL) {
            meta = meta.ttl(head.ttl);
        }
        if let Ok(Some(error)) = socket.take_error() {
            // Of an earlier one: it is no answer to this one, which would not be sent.
            tell(own, error.raw_os_error().unwrap_or(libc::EIO));
        }
        match socket.send_msg(payload, &meta) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(NotSent::NoRoom),
            Err(error) => Err(NotSent::Told(error.raw_os_error().unwrap_or(libc::EIO))),
        }
    }

    /// What arrives at the engine's socket.
    fn inward(&mut self, turn: &mut DatagramTurn<'_>) -> DatagramFlow {
        for _ in 0..TURN_MAX {
            let Some(socket) = self.socket.as_ref().filter(|_| !self.is_full && !self.is_near) else {
                return DatagramFlow::Idle;
            };
            // It stays where it is until the pair has taken it.
            let meta = match socket.peek_msg(&mut turn.record[HEAD_BYTES..]) {
                Ok(meta) => meta,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return DatagramFlow::Idle,
                Err(error) => {
                    tell(turn.own, error.raw_os_error().unwrap_or(libc::EIO));
                    if error.raw_os_error() == Some(libc::ESHUTDOWN) {
                        return DatagramFlow::Idle;
                    }
                    continue;
                }
            };
            match self.hand_in(turn, &self.head_of(&meta), meta.len) {
                Ok(()) => {}
                Err(flow) => return flow,
            }
            let Some(socket) = &self.socket else { return DatagramFlow::Idle };
            // An error that came meanwhile is told first: then once more.
            for _ in 0..2 {
                match socket.recv(&mut []) {
                    Ok(_) => break,
                    Err(error) => tell(turn.own, error.raw_os_error().unwrap_or(libc::EIO)),
                }
            }
        }
        DatagramFlow::More
    }

    /// Gives the program a payload that stands in the record.
    fn hand_in(&mut self, turn: &mut DatagramTurn<'_>, head: &RecordHead, len: usize) -> Result<(), DatagramFlow> {
        turn.record[..HEAD_BYTES].copy_from_slice(&head.to_bytes());
        let message = &turn.record[..HEAD_BYTES + len];
        match send(turn.own, message, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(_) => {
                turn.counts.moved[1] += 1;
                Ok(())
            }
            Err(Errno::AGAIN) => {
                self.is_full = true;
                Err(DatagramFlow::Idle)
            }
            // No event would say that there is some.
            Err(Errno::NOBUFS | Errno::NOMEM) => {
                turn.counts.lost.push(NO_MEMORY);
                Ok(())
            }
            // It has closed its end, or that half of it.
            Err(_) if is_over(turn.own) => Err(DatagramFlow::Closed),
            Err(_) => Ok(()),
        }
    }

    fn head_of(&self, meta: &RecvMeta) -> RecordHead {
        let mut head = RecordHead::new(RecordKind::Datagram);
        (head.flags, head.peer) = (HAS_PEER | self.tells, peer_of(meta.from));
        (head.own, head.ifindex) = (bytes_of(meta.dst_ip), meta.ifindex);
        (head.tos, head.ttl) = (meta.tos, meta.ttl);
        head
    }
}

/// Why a datagram was not sent.
enum NotSent {
    NoRoom,
    /// The door has no way for it.
    Lost(&'static str, i32),
    Told(i32),
}

#[cfg(test)]
#[path = "datagrams_tests.rs"]
mod tests;

//! Datagrams of one socket of a program, both ways: each message of the pair is a head (`napier_ring::record`) and a payload. A head is what a program's
//! library says, or what else has that end: nothing in it is believed.
//!
//! ```text
//! program <==pair, SOCK_SEQPACKET==> Datagrams <--> a UDP socket of the engine
//!                                        \--------> its twin, one of the kernel, if it is bound to a wildcard
//! ```
//!
//! One datagram is left over at most, if the engine's socket has no room for it; what comes stays in the sockets' own queues until the pair takes it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, OwnedFd};

use napier_ring::record::{
    HAS_OWN, HAS_PEER, HAS_TOS, HAS_TTL, HEAD_BYTES, PAYLOAD_BYTES_MAX, RecordHead, RecordKind, RecordPeer,
};
use napier_runtime::socket::{RecvMeta, SendMeta, UdpSocket};
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, recvfrom, send, sendto};

use crate::limits::BYTES_MAX;
use crate::rules::reach::{Reach, Whose};

/// Bytes that a message may have, and one more, which tells a longer one.
pub(crate) const RECORD_BYTES: usize = HEAD_BYTES + PAYLOAD_BYTES_MAX + 1;
/// Datagrams of each way that are moved before others have their turn.
const TURN_MAX: usize = 64;

/// Why datagrams of a program are lost in the door, by the names that are shown.
const NO_HEAD: &str = "written past the library";
const UNBOUND: &str = "sent before it has an address";
const NO_ROOM: &str = "more than bytes in the door (64 MiB)";
const OWN_ADDRESS: &str = "to the engine's own address";
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
    /// What programs want to be told of each datagram: flags of heads.
    pub(crate) tells: u16,
    /// A message that the engine had no room for.
    left: Option<Box<[u8]>>,
    /// The pair takes no more until an event says so.
    is_full: bool,
    /// The program has closed its end.
    is_over: bool,
}

impl Datagrams {
    pub(crate) const fn new(is_v6: bool) -> Self {
        Self {
            is_v6,
            socket: None,
            bound: None,
            twin: None,
            peer: None,
            tells: 0,
            left: None,
            is_full: false,
            is_over: false,
        }
    }

    pub(crate) fn local(&self) -> Option<SocketAddr> {
        self.socket.as_ref()?.local_addr().ok()
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
        let into = [self.inward(turn), self.inward_of_twin(turn)];
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
                tell(turn.own, error);
            }
            Err(NotSent::Told(error)) => tell(turn.own, error),
        }
        true
    }

    fn send(&self, head: &RecordHead, payload: &[u8], reach: &Reach, own: &OwnedFd) -> Result<(), NotSent> {
        let Some(socket) = &self.socket else { return Err(NotSent::Lost(UNBOUND, libc::EDESTADDRREQ)) };
        let to = if head.has(HAS_PEER) { Some(self.address(&head.peer)?) } else { None };
        let Some(goes_to) = to.or(self.peer) else { return Err(NotSent::Told(libc::EDESTADDRREQ)) };
        if reach.of_datagram(goes_to.ip()) == Whose::Kernel {
            let Some(twin) = &self.twin else { return Err(NotSent::Lost(NO_WAY, libc::ENETUNREACH)) };
            return match sendto(twin, payload, SendFlags::DONTWAIT | SendFlags::NOSIGNAL, &goes_to) {
                // The kernel's queue is full, which its own callers wait for.
                Ok(_) | Err(Errno::AGAIN) => Ok(()),
                Err(error) => Err(NotSent::Told(error.raw_os_error())),
            };
        }
        if reach.is_own(goes_to.ip()) {
            return Err(NotSent::Lost(OWN_ADDRESS, libc::EHOSTUNREACH));
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

    /// An address of a head, for a socket of this domain.
    fn address(&self, peer: &RecordPeer) -> Result<SocketAddr, NotSent> {
        let ip = ip_of(peer.is_v6, &peer.address);
        match ip {
            IpAddr::V4(four) if self.is_v6 => Ok(SocketAddr::new(four.to_ipv6_mapped().into(), peer.port)),
            IpAddr::V4(_) => Ok(SocketAddr::new(ip, peer.port)),
            IpAddr::V6(six) if self.is_v6 => Ok(SocketAddrV6::new(six, peer.port, 0, peer.scope).into()),
            IpAddr::V6(_) => Err(NotSent::Told(libc::EAFNOSUPPORT)),
        }
    }

    /// What arrives at the engine's socket.
    fn inward(&mut self, turn: &mut DatagramTurn<'_>) -> DatagramFlow {
        for _ in 0..TURN_MAX {
            let Some(socket) = self.socket.as_ref().filter(|_| !self.is_full) else { return DatagramFlow::Idle };
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
            // Again if there is an error to be told first.
            while let Err(error) = socket.recv(&mut []) {
                if [Some(libc::EAGAIN), Some(libc::ESHUTDOWN)].contains(&error.raw_os_error()) {
                    break;
                }
                tell(turn.own, error.raw_os_error().unwrap_or(libc::EIO));
            }
        }
        DatagramFlow::More
    }

    /// What arrives at the twin.
    fn inward_of_twin(&mut self, turn: &mut DatagramTurn<'_>) -> DatagramFlow {
        for _ in 0..TURN_MAX {
            let Some(twin) = self.twin.as_ref().filter(|_| !self.is_full) else { return DatagramFlow::Idle };
            let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
            let (len, from) = match recvfrom(twin, &mut turn.record[HEAD_BYTES..], flags) {
                Ok((len, _, from)) => (len, from),
                Err(Errno::AGAIN) => return DatagramFlow::Idle,
                // Told once: an error of a datagram that the twin has sent.
                Err(Errno::INTR) => continue,
                Err(error) => {
                    tell(turn.own, error.raw_os_error());
                    continue;
                }
            };
            let from = from.and_then(|from| SocketAddr::try_from(from).ok());
            let mut head = RecordHead::new(RecordKind::Datagram);
            if let Some(from) = from {
                (head.flags, head.peer) = (HAS_PEER, peer_of(from));
            }
            match self.hand_in(turn, &head, len.min(PAYLOAD_BYTES_MAX)) {
                Ok(()) => {}
                Err(flow) => return flow,
            }
            if let Some(twin) = &self.twin {
                let _ = recv(twin, &mut [0_u8; 0], RecvFlags::DONTWAIT);
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
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => {
                self.is_full = true;
                Err(DatagramFlow::Idle)
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

/// Tells the program's next call that receives of an error; it hears nothing if the pair is full.
fn tell(own: &OwnedFd, error: i32) {
    let errno = u16::try_from(error).unwrap_or(libc::EIO as u16);
    let head = RecordHead { errno, ..RecordHead::new(RecordKind::Error) };
    let _ = send(own, &head.to_bytes(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
}

/// Why a datagram was not sent.
enum NotSent {
    NoRoom,
    /// The door has no way for it.
    Lost(&'static str, i32),
    Told(i32),
}

/// Whether the program has closed its end.
pub(crate) fn is_over(own: impl AsFd) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut asked = [PollFd::new(&own, PollFlags::RDHUP)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut asked, Some(&now)).is_ok_and(|_| asked[0].revents().contains(PollFlags::HUP))
}

fn ip_of(is_v6: bool, bytes: &[u8; 16]) -> IpAddr {
    if is_v6 {
        return Ipv6Addr::from(*bytes).into();
    }
    Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]).into()
}

fn bytes_of(ip: IpAddr) -> [u8; 16] {
    let mut bytes = [0; 16];
    match ip {
        IpAddr::V4(four) => bytes[..4].copy_from_slice(&four.octets()),
        IpAddr::V6(six) => bytes = six.octets(),
    }
    bytes
}

fn peer_of(from: SocketAddr) -> RecordPeer {
    let scope = if let SocketAddr::V6(six) = from { six.scope_id() } else { 0 };
    RecordPeer { is_v6: from.is_ipv6(), port: from.port(), scope, address: bytes_of(from.ip()) }
}

#[cfg(test)]
#[path = "datagrams_tests.rs"]
mod tests;

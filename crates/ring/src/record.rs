//! Datagrams between a program and its engine: each message of their pair (`SOCK_SEQPACKET`) is a head and the payload. What a head says to the other
//! side is what addresses and control messages say to the kernel.
//!
//! ```text
//! 0      4      6       8        10     12      16          32          48        52    53    54      56
//! | magic | kind | flags | family | port | scope | address   | own address | ifindex | tos | ttl | errno | payload ...
//!                        \------ the peer's ----------------/
//! ```
//!
//! All in the byte order of the machine, which both sides are on, but the port and the addresses, which are as on the wire.
//!
//! This file is part of `ring` and of the library in the program (`crates/preload/sockets`).

/// Bytes of a head.
pub const HEAD_BYTES: usize = 56;
/// Longest payload. Source: RFC 768, and what `struct iphdr` leaves of a packet of IPv4; over IPv6 it is 20 bytes more, which no program may send here.
pub const PAYLOAD_BYTES_MAX: usize = 65_507;
/// What a head begins with.
const MAGIC: u32 = 0x4e41_5044;

/// A socket for datagrams: value and length are its domain and its type. Its descriptor is what the call returns.
pub const ASK_DATAGRAMS: i32 = 4;
/// Whether a socket is still one, and in which state: [`STATE_BOUND`] and [`STATE_CONNECTED`]. Value and length are the destination of the datagram that
/// the program is about to send, if it names one.
pub const ASK_STATE: i32 = 5;
/// It has an address.
pub const STATE_BOUND: i32 = 1;
/// It has a peer.
pub const STATE_CONNECTED: i32 = 2;

/// What of a head is meant.
pub const HAS_PEER: u16 = 1;
/// The own address and the interface: `IP_PKTINFO`, `IPV6_PKTINFO`.
pub const HAS_OWN: u16 = 2;
/// The byte of service: `IP_TOS`, `IPV6_TCLASS`.
pub const HAS_TOS: u16 = 4;
/// `IP_TTL`, `IPV6_HOPLIMIT`.
pub const HAS_TTL: u16 = 8;
const ALL_FLAGS: u16 = 15;

/// What a message is.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum RecordKind {
    /// A datagram.
    Datagram = 1,
    /// From the engine: what became of one, for the next call that receives.
    Error = 2,
}

/// An address of the peer, as sockets of both families write it.
#[derive(Copy, Clone, PartialEq, Eq, Default, Debug)]
pub struct RecordPeer {
    /// Whether it is of IPv6; else the first four bytes of the address are it.
    pub is_v6: bool,
    /// As a number.
    pub port: u16,
    /// `sin6_scope_id`.
    pub scope: u32,
    /// As on the wire.
    pub address: [u8; 16],
}

/// A head.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct RecordHead {
    /// What follows.
    pub kind: RecordKind,
    /// Which of the fields below are meant.
    pub flags: u16,
    /// Where it comes from, or goes to.
    pub peer: RecordPeer,
    /// The address of this machine, of the peer's family.
    pub own: [u8; 16],
    /// The interface.
    pub ifindex: u32,
    /// The byte of service.
    pub tos: u8,
    /// Hops.
    pub ttl: u8,
    /// Of [`RecordKind::Error`].
    pub errno: u16,
}

/// Those of `struct sockaddr`. Source: `include/linux/socket.h`.
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;

impl RecordHead {
    /// One that says nothing but what it is.
    #[must_use]
    pub const fn new(kind: RecordKind) -> Self {
        let peer = RecordPeer { is_v6: false, port: 0, scope: 0, address: [0; 16] };
        Self { kind, flags: 0, peer, own: [0; 16], ifindex: 0, tos: 0, ttl: 0, errno: 0 }
    }

    /// Whether a field is meant.
    #[must_use]
    pub const fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// As it stands in a message.
    #[must_use]
    pub fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        let family = if self.peer.is_v6 { AF_INET6 } else { AF_INET };
        bytes[0..4].copy_from_slice(&MAGIC.to_ne_bytes());
        bytes[4..6].copy_from_slice(&(self.kind as u16).to_ne_bytes());
        bytes[6..8].copy_from_slice(&self.flags.to_ne_bytes());
        bytes[8..10].copy_from_slice(&family.to_ne_bytes());
        bytes[10..12].copy_from_slice(&self.peer.port.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.peer.scope.to_ne_bytes());
        bytes[16..32].copy_from_slice(&self.peer.address);
        bytes[32..48].copy_from_slice(&self.own);
        bytes[48..52].copy_from_slice(&self.ifindex.to_ne_bytes());
        bytes[52] = self.tos;
        bytes[53] = self.ttl;
        bytes[54..56].copy_from_slice(&self.errno.to_ne_bytes());
        bytes
    }

    /// The head that a message begins with; `None` if it is none.
    #[must_use]
    pub fn from_bytes(message: &[u8]) -> Option<Self> {
        let bytes: &[u8; HEAD_BYTES] = message.get(..HEAD_BYTES)?.try_into().ok()?;
        let half = |at: usize| [bytes[at], bytes[at + 1]];
        let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let sixteen = |at: usize| core::array::from_fn(|nth| bytes[at + nth]);
        if word(0) != MAGIC {
            return None;
        }
        let kind = match u16::from_ne_bytes(half(4)) {
            1 => RecordKind::Datagram,
            2 => RecordKind::Error,
            _ => return None,
        };
        let flags = u16::from_ne_bytes(half(6));
        let is_v6 = match u16::from_ne_bytes(half(8)) {
            AF_INET => false,
            AF_INET6 => true,
            _ => return None,
        };
        if flags & !ALL_FLAGS != 0 {
            return None;
        }
        let peer = RecordPeer { is_v6, port: u16::from_be_bytes(half(10)), scope: word(12), address: sixteen(16) };
        let errno = u16::from_ne_bytes(half(54));
        Some(Self { kind, flags, peer, own: sixteen(32), ifindex: word(48), tos: bytes[52], ttl: bytes[53], errno })
    }
}

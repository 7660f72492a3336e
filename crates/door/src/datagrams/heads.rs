//! Addresses in heads, and what is said to a program without a datagram.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, OwnedFd};

use napier_ring::record::{RecordHead, RecordKind, RecordPeer};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SendFlags, send};

/// An address of a head, for a socket of a domain; `None`: it has none of that family.
pub(crate) fn address_of(peer: &RecordPeer, is_v6: bool) -> Option<SocketAddr> {
    match ip_of(peer.is_v6, &peer.address) {
        IpAddr::V4(four) if is_v6 => Some(SocketAddr::new(four.to_ipv6_mapped().into(), peer.port)),
        IpAddr::V4(four) => Some(SocketAddr::new(four.into(), peer.port)),
        IpAddr::V6(six) if is_v6 => Some(SocketAddrV6::new(six, peer.port, 0, peer.scope).into()),
        IpAddr::V6(_) => None,
    }
}

pub(super) fn ip_of(is_v6: bool, bytes: &[u8; 16]) -> IpAddr {
    if is_v6 {
        return Ipv6Addr::from(*bytes).into();
    }
    Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]).into()
}

pub(super) fn bytes_of(ip: IpAddr) -> [u8; 16] {
    let mut bytes = [0; 16];
    match ip {
        IpAddr::V4(four) => bytes[..4].copy_from_slice(&four.octets()),
        IpAddr::V6(six) => bytes = six.octets(),
    }
    bytes
}

pub(super) fn peer_of(from: SocketAddr) -> RecordPeer {
    let scope = if let SocketAddr::V6(six) = from { six.scope_id() } else { 0 };
    RecordPeer { is_v6: from.is_ipv6(), port: from.port(), scope, address: bytes_of(from.ip()) }
}

/// Tells the program's next call that receives of an error; it hears nothing if the pair is full.
pub(super) fn tell(own: &OwnedFd, error: i32) {
    let errno = u16::try_from(error).unwrap_or(libc::EIO as u16);
    let head = RecordHead { errno, ..RecordHead::new(RecordKind::Error) };
    let _ = send(own, &head.to_bytes(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
}

/// Whether the program has closed its end, or the writing half of it, which only what goes past its library does.
pub(super) fn is_over(own: impl AsFd) -> bool {
    let mut asked = [PollFd::new(&own, PollFlags::RDHUP)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut asked, Some(&now)).is_ok_and(|_| asked[0].revents().intersects(PollFlags::HUP | PollFlags::RDHUP))
}

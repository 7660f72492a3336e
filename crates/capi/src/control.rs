//! Control messages of sendmsg(2) and recvmsg(2), laid out as the kernel has them (`include/linux/socket.h struct cmsghdr`): length, level, kind,
//! data, the next one where the next word begins.
//!
//! | what a socket asked for | what goes with a datagram |
//! |---|---|
//! | `SO_TIMESTAMP`, `SO_TIMESTAMPNS` | when a poll took it, as `struct timeval` or `struct timespec` |
//! | `UDP_GRO` | the bytes of each that was merged, an int |
//! | `IP_PKTINFO`, `IP_RECVTTL`, `IP_RECVTOS` | of one over IPv4: `struct in_pktinfo`, an int, a byte |
//! | `IPV6_RECVPKTINFO` | `struct in6_pktinfo`; of one over IPv4 too, with a mapped address |
//! | `IPV6_RECVHOPLIMIT`, `IPV6_RECVTCLASS` | of one over IPv6: an int each |
//!
//! In this order. Source: `net/socket.c __sock_recv_timestamp`, `net/ipv4/udp.c udp_recvmsg`, `net/ipv4/ip_sockglue.c ip_cmsg_recv_offset`,
//! `net/ipv6/datagram.c ip6_datagram_recv_ctl`.

use std::ffi::c_int;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, UNIX_EPOCH};

use napier_runtime::socket::{RecvMeta, SendMeta};

use crate::error::Failure;

/// Where the data begins.
const HEAD: usize = size_of::<usize>() + 2 * size_of::<c_int>();

/// What a socket has asked to be told of each datagram.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ControlKinds(u32);

impl ControlKinds {
    pub(crate) const PACKET_INFO: Self = Self(1);
    pub(crate) const HOPS: Self = Self(2);
    pub(crate) const SERVICE: Self = Self(4);
    pub(crate) const PACKET_INFO_V6: Self = Self(8);
    pub(crate) const HOPS_V6: Self = Self(16);
    pub(crate) const CLASS_V6: Self = Self(32);
    /// Time stamps in microseconds, and in nanoseconds.
    pub(crate) const MICROS: Self = Self(64);
    pub(crate) const NANOS: Self = Self(128);
    pub(crate) const MERGED: Self = Self(256);

    /// The bit that an option sets.
    pub(crate) const fn of_option(level: c_int, name: c_int) -> Option<Self> {
        Some(match (level, name) {
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => Self::PACKET_INFO,
            (libc::IPPROTO_IP, libc::IP_RECVTTL) => Self::HOPS,
            (libc::IPPROTO_IP, libc::IP_RECVTOS) => Self::SERVICE,
            (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO) => Self::PACKET_INFO_V6,
            (libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT) => Self::HOPS_V6,
            (libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS) => Self::CLASS_V6,
            (libc::SOL_SOCKET, libc::SO_TIMESTAMP) => Self::MICROS,
            (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS) => Self::NANOS,
            _ => return None,
        })
    }

    pub(crate) const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    pub(crate) const fn bits(self) -> u32 {
        self.0
    }

    pub(crate) const fn is_nothing(self) -> bool {
        self.0 == 0
    }

    pub(crate) const fn has(self, one: Self) -> bool {
        self.0 & one.0 != 0
    }

    /// It is of level `IPPROTO_IPV6`.
    pub(crate) const fn is_of_v6(self) -> bool {
        self.0 & (Self::PACKET_INFO_V6.0 | Self::HOPS_V6.0 | Self::CLASS_V6.0) != 0
    }

    /// With one or without. There are stamps of one kind at a time, and none after either is switched off (`net/core/sock.c
    /// __sock_set_timestamps`).
    pub(crate) const fn with(self, one: Self, on: bool) -> Self {
        let stamps = Self::MICROS.0 | Self::NANOS.0;
        let before = if one.0 & stamps != 0 { self.0 & !stamps } else { self.0 & !one.0 };
        Self(if on { before | one.0 } else { before })
    }
}

/// Room for control messages, and how much of it is used. What does not fit is cut, as by `net/core/scm.c put_cmsg`.
struct ControlRoom<'a> {
    bytes: &'a mut [u8],
    used: usize,
    cut: bool,
}

impl ControlRoom<'_> {
    /// One message with these parts, one behind the other.
    fn put(&mut self, level: c_int, kind: c_int, data: &[&[u8]]) {
        let left = &mut self.bytes[self.used..];
        if left.len() < HEAD {
            self.cut = true;
            return;
        }
        let wanted: usize = data.iter().map(|part| part.len()).sum();
        let end = HEAD + wanted.min(left.len() - HEAD);
        self.cut |= end < HEAD + wanted;
        let head = [&end.to_ne_bytes()[..], &level.to_ne_bytes(), &kind.to_ne_bytes()];
        let mut at = 0;
        for part in head.iter().chain(data) {
            let fits = part.len().min(end - at);
            left[at..at + fits].copy_from_slice(&part[..fits]);
            at += fits;
        }
        self.used += aligned(end).min(left.len());
    }

    fn put_int(&mut self, level: c_int, kind: c_int, value: c_int) {
        self.put(level, kind, &[&value.to_ne_bytes()]);
    }

    /// A `struct timeval` or `struct timespec`.
    fn put_time(&mut self, kind: c_int, since: Duration, rest: u32) {
        let seconds = since.as_secs().cast_signed();
        self.put(libc::SOL_SOCKET, kind, &[&seconds.to_ne_bytes(), &i64::from(rest).to_ne_bytes()]);
    }
}

/// `CMSG_ALIGN`.
const fn aligned(bytes: usize) -> usize {
    bytes.next_multiple_of(size_of::<usize>())
}

/// Writes what goes with a datagram. How much of `room` that took, and whether something was cut.
pub(crate) fn tell(room: &mut [u8], told: ControlKinds, meta: &RecvMeta) -> (usize, bool) {
    let mut room = ControlRoom { bytes: room, used: 0, cut: false };
    if let Some(since) = meta.received.and_then(|at| at.duration_since(UNIX_EPOCH).ok()) {
        if told.has(ControlKinds::MICROS) {
            room.put_time(libc::SO_TIMESTAMP, since, since.subsec_micros());
        } else if told.has(ControlKinds::NANOS) {
            room.put_time(libc::SO_TIMESTAMPNS, since, since.subsec_nanos());
        }
    }
    if told.has(ControlKinds::MERGED) && meta.segments > 1 {
        room.put_int(libc::SOL_UDP, libc::UDP_GRO, meta.segment_len as c_int); // a datagram
    }
    let to = match meta.dst_ip {
        IpAddr::V4(v4) => Some(v4),
        IpAddr::V6(v6) => v6.to_ipv4_mapped(),
    };
    let ifindex = meta.ifindex;
    if told.has(ControlKinds::PACKET_INFO_V6) {
        let to = match meta.dst_ip {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        room.put(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &[&to.octets(), &ifindex.to_ne_bytes()]);
    }
    if let Some(to) = to {
        if told.has(ControlKinds::PACKET_INFO) {
            room.put(libc::IPPROTO_IP, libc::IP_PKTINFO, &[&ifindex.to_ne_bytes(), &to.octets(), &to.octets()]);
        }
        if told.has(ControlKinds::HOPS) {
            room.put_int(libc::IPPROTO_IP, libc::IP_TTL, meta.ttl.into());
        }
        if told.has(ControlKinds::SERVICE) {
            room.put(libc::IPPROTO_IP, libc::IP_TOS, &[&[meta.tos]]);
        }
    } else {
        if told.has(ControlKinds::HOPS_V6) {
            room.put_int(libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT, meta.ttl.into());
        }
        if told.has(ControlKinds::CLASS_V6) {
            room.put_int(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, meta.tos.into());
        }
    }
    (room.used, room.cut)
}

/// What a program wants of one datagram. Source: `net/ipv4/udp.c udp_cmsg_send`, `net/ipv4/ip_sockglue.c ip_cmsg_send`, `net/ipv6/datagram.c
/// ip6_datagram_send_ctl`. What is not known is refused, where the kernel passes over what is of another level.
pub(crate) fn wishes(mut control: &[u8], to: Option<SocketAddr>) -> Result<SendMeta, Failure> {
    let mut meta = to.map_or_else(SendMeta::default, SendMeta::to);
    // As `CMSG_FIRSTHDR` and `CMSG_NXTHDR`: less than a head is nothing.
    while let Some((head, _)) = control.split_at_checked(HEAD) {
        let (len, rest) = head.split_at(size_of::<usize>());
        let len = usize::from_ne_bytes(len.try_into().expect("a word"));
        let int = |at: usize| c_int::from_ne_bytes(rest[at..at + 4].try_into().expect("an int"));
        let Some(data) = control.get(HEAD..len) else {
            return Err(Failure::invalid("a control message is longer than msg_controllen, or shorter than its head"));
        };
        meta = wish(meta, (int(0), int(4)), data)?;
        control = control.get(aligned(len)..).unwrap_or(&[]);
    }
    Ok(meta)
}

fn wish(meta: SendMeta, (level, kind): (c_int, c_int), data: &[u8]) -> Result<SendMeta, Failure> {
    let invalid =
        || Failure::invalid(format!("the control message {kind} of level {level} has a value that cannot be"));
    let number = || data.try_into().map(c_int::from_ne_bytes).map_err(|_| invalid());
    let byte = |value: c_int| u8::try_from(value).map_err(|_| invalid());
    Ok(match (level, kind) {
        (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
            let info: [u8; 12] = data.try_into().map_err(|_| invalid())?;
            let word = |at: usize| [info[at], info[at + 1], info[at + 2], info[at + 3]];
            let meta = meta.ifindex(u32::from_ne_bytes(word(0)));
            // The address of the header is for those that receive.
            let own = Ipv4Addr::from(word(4));
            if own.is_unspecified() { meta } else { meta.src_ip(own.into()) }
        }
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
            let (own, ifindex) = data.split_first_chunk::<16>().ok_or_else(invalid)?;
            let meta = meta.ifindex(ifindex.try_into().map(u32::from_ne_bytes).map_err(|_| invalid())?);
            let own = Ipv6Addr::from(*own);
            if own.is_unspecified() { meta } else { meta.src_ip(own.into()) }
        }
        // An int, or a byte.
        (libc::IPPROTO_IP, libc::IP_TOS) => match data {
            [tos] => meta.tos(*tos),
            _ => meta.tos(byte(number()?)?),
        },
        (libc::IPPROTO_IP, libc::IP_TTL) => match byte(number()?)? {
            0 => return Err(invalid()),
            hops => meta.ttl(hops),
        },
        // -1: as the socket has it.
        (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => match number()? {
            -1 => meta,
            class => meta.tos(byte(class)?),
        },
        (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => match number()? {
            -1 => meta,
            hops => match byte(hops)? {
                0 => return Err(invalid()),
                hops => meta.ttl(hops),
            },
        },
        (libc::SOL_UDP, libc::UDP_SEGMENT) => {
            meta.segment_bytes(data.try_into().map(u16::from_ne_bytes).map_err(|_| invalid())?)
        }
        _ => {
            return Err(Failure::invalid(format!(
                "the control message {kind} of level {level} is not there: napier_socket(3) has a list"
            )));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_of_one_kind() {
        let none = ControlKinds::default();
        let micros = none.with(ControlKinds::MICROS, true);
        assert!(micros.has(ControlKinds::MICROS) && !micros.has(ControlKinds::NANOS));
        let nanos = micros.with(ControlKinds::NANOS, true).with(ControlKinds::HOPS, true);
        assert!(!nanos.has(ControlKinds::MICROS) && nanos.has(ControlKinds::NANOS) && nanos.has(ControlKinds::HOPS));
        assert_eq!(nanos.with(ControlKinds::MICROS, false), none.with(ControlKinds::HOPS, true));
        assert_eq!(nanos.with(ControlKinds::SERVICE, false), nanos);
    }

    #[test]
    fn what_does_not_fit_is_cut() {
        // ControlRoom, and what a message of four bytes makes of it: used, cut.
        let rows = [
            (0, (0, true)),
            (15, (0, true)),
            (16, (16, true)),
            (18, (18, true)),
            (20, (20, false)),
            (24, (24, false)),
            (40, (24, false)),
        ];
        for (bytes, expected) in rows {
            let mut bytes = vec![0; bytes];
            let mut room = ControlRoom { bytes: &mut bytes, used: 0, cut: false };
            room.put_int(1, 2, 3);
            assert_eq!((room.used, room.cut), expected);
        }
    }

    fn message(level: c_int, kind: c_int, data: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; aligned(HEAD + data.len())];
        let mut room = ControlRoom { bytes: &mut bytes, used: 0, cut: false };
        room.put(level, kind, &[data]);
        bytes
    }

    #[test]
    fn wishes_are_read_or_refused() {
        let (ip, v6, udp) = (libc::IPPROTO_IP, libc::IPPROTO_IPV6, libc::SOL_UDP);
        let int = |value: c_int| value.to_ne_bytes().to_vec();
        let reads = |bytes: &[u8]| wishes(bytes, None).map(|meta| format!("{meta:?}")).map_err(|error| error.number());
        let is = |meta: SendMeta| Ok(format!("{meta:?}"));
        let plain = SendMeta::default();
        assert_eq!(reads(&[]), is(plain));
        assert_eq!(reads(&[0; 15]), is(plain));
        for (level, kind, data, expected) in [
            (ip, libc::IP_TOS, vec![8], is(plain.tos(8))),
            (ip, libc::IP_TOS, int(255), is(plain.tos(255))),
            (ip, libc::IP_TOS, int(256), Err(libc::EINVAL)),
            (ip, libc::IP_TOS, vec![1, 2], Err(libc::EINVAL)),
            (ip, libc::IP_TTL, int(1), is(plain.ttl(1))),
            (ip, libc::IP_TTL, int(0), Err(libc::EINVAL)),
            (ip, libc::IP_TTL, vec![9], Err(libc::EINVAL)),
            (v6, libc::IPV6_TCLASS, int(-1), is(plain)),
            (v6, libc::IPV6_TCLASS, int(-2), Err(libc::EINVAL)),
            (v6, libc::IPV6_TCLASS, int(3), is(plain.tos(3))),
            (v6, libc::IPV6_HOPLIMIT, int(-1), is(plain)),
            (v6, libc::IPV6_HOPLIMIT, int(0), Err(libc::EINVAL)),
            (v6, libc::IPV6_HOPLIMIT, int(64), is(plain.ttl(64))),
            (udp, libc::UDP_SEGMENT, vec![0xe8, 3], is(plain.segment_bytes(u16::from_ne_bytes([0xe8, 3])))),
            (udp, libc::UDP_SEGMENT, int(1000), Err(libc::EINVAL)),
            (udp, libc::UDP_GRO, int(1), Err(libc::EINVAL)),
            (libc::SOL_SOCKET, 2, int(1), Err(libc::EINVAL)),
            (ip, libc::IP_PKTINFO, vec![0; 11], Err(libc::EINVAL)),
            (v6, libc::IPV6_PKTINFO, vec![0; 16], Err(libc::EINVAL)),
        ] {
            assert_eq!(reads(&message(level, kind, &data)), expected, "{level} {kind} {data:?}");
        }
        let own = [3_u32.to_ne_bytes(), [10, 0, 0, 1], [9; 4]].concat();
        let two = [message(ip, libc::IP_PKTINFO, &own), message(ip, libc::IP_TTL, &int(5))].concat();
        assert_eq!(reads(&two), is(plain.ifindex(3).src_ip([10, 0, 0, 1].into()).ttl(5)));
        let own = [&Ipv6Addr::LOCALHOST.octets()[..], &4_u32.to_ne_bytes()].concat();
        assert_eq!(
            reads(&message(v6, libc::IPV6_PKTINFO, &own)),
            is(plain.ifindex(4).src_ip(Ipv6Addr::LOCALHOST.into()))
        );
        // Longer than there is, and shorter than a head.
        for len in [0, 15, 25, usize::MAX] {
            let mut bad = message(ip, libc::IP_TTL, &int(5));
            bad[..size_of::<usize>()].copy_from_slice(&len.to_ne_bytes());
            assert_eq!(reads(&bad), Err(libc::EINVAL), "{len}");
        }
    }
}

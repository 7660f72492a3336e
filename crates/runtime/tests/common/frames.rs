//! Frames that tests make and look at by hand.

use std::net::{IpAddr, SocketAddr};

/// Bytes of an Ethernet header.
pub(crate) const ETH: usize = 14;

/// Turns a UDP frame round: addresses and ports change places, which leaves every checksum right.
pub(crate) fn turn_round(frame: &mut [u8]) {
    swap(frame, 0, 6, 6);
    let udp = match frame[ETH] >> 4 {
        4 => {
            swap(frame, ETH + 12, ETH + 16, 4);
            ETH + 20
        }
        _ => {
            swap(frame, ETH + 8, ETH + 24, 16);
            ETH + 40
        }
    };
    swap(frame, udp, udp + 2, 2);
}

fn swap(frame: &mut [u8], left: usize, right: usize, len: usize) {
    let (head, tail) = frame.split_at_mut(right);
    head[left..left + len].swap_with_slice(&mut tail[..len]);
}

/// Whether a frame is a UDP datagram, over IPv4 without options or IPv6 without extension headers.
pub(crate) fn is_udp(frame: &[u8]) -> bool {
    match frame.get(12..14) {
        Some([0x08, 0x00]) => frame[ETH + 9] == 17,
        Some([0x86, 0xdd]) => frame[ETH + 6] == 17,
        _ => false,
    }
}

/// Writes an Ethernet header and an IP header for `len` bytes of `protocol`; returns where those bytes begin.
pub(crate) fn ip_head(
    frame: &mut [u8],
    macs: ([u8; 6], [u8; 6]),
    ips: (IpAddr, IpAddr),
    protocol: u8,
    len: usize,
) -> usize {
    frame[..6].copy_from_slice(&macs.1);
    frame[6..12].copy_from_slice(&macs.0);
    let ip = &mut frame[ETH..];
    match ips {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let total = u16::try_from(20 + len).unwrap().to_be_bytes();
            ip[..20].copy_from_slice(&[
                0x45, 0, total[0], total[1], 0, 0, 0x40, 0, 64, protocol, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            ]);
            ip[12..16].copy_from_slice(&src.octets());
            ip[16..20].copy_from_slice(&dst.octets());
            let checksum = checksum(&[&ip[..20]]);
            ip[10..12].copy_from_slice(&checksum);
            frame[12..14].copy_from_slice(&[0x08, 0x00]);
            ETH + 20
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let len = u16::try_from(len).unwrap().to_be_bytes();
            ip[..8].copy_from_slice(&[0x60, 0, 0, 0, len[0], len[1], protocol, 255]);
            ip[8..24].copy_from_slice(&src.octets());
            ip[24..40].copy_from_slice(&dst.octets());
            frame[12..14].copy_from_slice(&[0x86, 0xdd]);
            ETH + 40
        }
        _ => panic!("both ends are of one kind"),
    }
}

/// Builds a UDP datagram and returns the frame's length.
pub(crate) fn udp(frame: &mut [u8], macs: ([u8; 6], [u8; 6]), ends: (SocketAddr, SocketAddr), payload: &[u8]) -> usize {
    let len = 8 + payload.len();
    let at = ip_head(frame, macs, (ends.0.ip(), ends.1.ip()), 17, len);
    let head = &mut frame[at..at + len];
    head[..2].copy_from_slice(&ends.0.port().to_be_bytes());
    head[2..4].copy_from_slice(&ends.1.port().to_be_bytes());
    head[4..6].copy_from_slice(&u16::try_from(len).unwrap().to_be_bytes());
    head[6..8].fill(0);
    head[8..].copy_from_slice(payload);
    let sum = match pseudo_checksum((ends.0.ip(), ends.1.ip()), 17, head) {
        [0, 0] => [0xff, 0xff],
        sum => sum,
    };
    frame[at + 6..at + 8].copy_from_slice(&sum);
    at + len
}

/// The checksum of `body` with its pseudo header (RFC 768, RFC 8200 section 8.1).
pub(crate) fn pseudo_checksum(ips: (IpAddr, IpAddr), protocol: u8, body: &[u8]) -> [u8; 2] {
    let tail = [u8::try_from(body.len() >> 8).unwrap(), body.len() as u8, 0, protocol];
    match ips {
        (IpAddr::V4(src), IpAddr::V4(dst)) => checksum(&[&src.octets(), &dst.octets(), &tail, body]),
        (IpAddr::V6(src), IpAddr::V6(dst)) => checksum(&[&src.octets(), &dst.octets(), &tail, body]),
        _ => panic!("both ends are of one kind"),
    }
}

/// The Internet checksum (RFC 1071) of parts, all but the last of which have an even length.
pub(crate) fn checksum(parts: &[&[u8]]) -> [u8; 2] {
    let mut sum = 0_u32;
    for part in parts {
        for word in part.chunks(2) {
            sum += u32::from(word[0]) << 8 | word.get(1).map_or(0, |low| u32::from(*low));
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

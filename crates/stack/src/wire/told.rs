//! ICMP errors that are sent (RFC 792, RFC 4443 section 3): the IP packet, with what it quotes.

use napier_core::icmp::answers::bytes_max;

use crate::wire::addr::Addr;
use crate::wire::checksum::Sum;
use crate::wire::template::TTL;
use crate::wire::{IPV4_LEN, IPV6_LEN, PROTO_ICMP, PROTO_ICMPV6};

/// Header of an error.
const ICMP_LEN: usize = 8;
/// Precedence "internetwork control", which errors have (RFC 1812 section 4.3.2.5).
const INTERNET_CONTROL: u8 = 0xc0;
const TOS_MASK: u8 = 0x1e;

/// Bytes of the IP packet with an error about `about`, an IP packet or its beginning.
pub(crate) fn error_len(about: &[u8]) -> usize {
    let v4 = about[0] >> 4 == 4;
    (head_len(v4) + about.len()).min(bytes_max(v4))
}

fn head_len(v4: bool) -> usize {
    ICMP_LEN + if v4 { IPV4_LEN } else { IPV6_LEN }
}

/// Writes the IP packet with an error about `about` from its destination to its source. `packet`: as long as [`error_len`] says, and zeroed.
pub(crate) fn write_error(packet: &mut [u8], (kind, code): (u8, u8), about: &[u8]) {
    let v4 = about[0] >> 4 == 4;
    let len = packet.len();
    let (ip, icmp) = packet.split_at_mut(head_len(v4) - ICMP_LEN);
    icmp[..2].copy_from_slice(&[kind, code]);
    let quoted = icmp.len() - ICMP_LEN;
    icmp[ICMP_LEN..].copy_from_slice(&about[..quoted]);
    let bytes = |len: usize| u16::try_from(len).expect("at most 1280 bytes").to_be_bytes();
    let pseudo = if v4 {
        ip[..2].copy_from_slice(&[0x45, about[1] & TOS_MASK | INTERNET_CONTROL]);
        ip[2..4].copy_from_slice(&bytes(len));
        ip[6..10].copy_from_slice(&[0x40, 0, TTL, PROTO_ICMP]);
        ip[12..16].copy_from_slice(&about[16..20]);
        ip[16..20].copy_from_slice(&about[12..16]);
        let sum = Sum::ZERO.bytes(ip).field();
        ip[10..12].copy_from_slice(&sum);
        Sum::ZERO
    } else {
        ip[0] = 0x60;
        ip[4..6].copy_from_slice(&bytes(icmp.len()));
        ip[6..8].copy_from_slice(&[PROTO_ICMPV6, TTL]);
        ip[8..24].copy_from_slice(&about[24..40]);
        ip[24..40].copy_from_slice(&about[8..24]);
        let len = u16::from_be_bytes(bytes(icmp.len()));
        Sum::ZERO.bytes(&ip[8..40]).number(len).number(u16::from(PROTO_ICMPV6))
    };
    let sum = pseudo.bytes(icmp).field();
    icmp[2..4].copy_from_slice(&sum);
}

/// Source and destination of an IP packet, or of its beginning; `None`: its header is not whole.
pub(crate) fn ends_of(packet: &[u8]) -> Option<(Addr, Addr)> {
    if packet.first()? >> 4 == 4 {
        let head = packet.first_chunk::<IPV4_LEN>()?;
        return Some((Addr::v4(*head[12..].first_chunk()?), Addr::v4(*head[16..].first_chunk()?)));
    }
    let head = packet.first_chunk::<IPV6_LEN>()?;
    Some((Addr::v6(*head[8..].first_chunk()?), Addr::v6(*head[24..].first_chunk()?)))
}

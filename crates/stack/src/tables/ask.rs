//! What the stack itself says to neighbours: questions for them (RFC 826, RFC 4861 section 7.2.2), and the frame around an answer.

use std::net::{IpAddr, Ipv6Addr};

use napier_core::fragments::{BYTES_MAX, cuts};
use smoltcp::phy::{Checksum, ChecksumCapabilities};
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr, Icmpv6Packet,
    Icmpv6Repr, IpProtocol, Ipv6Packet, Ipv6Repr, NdiscRepr,
};

use super::neighbour::Key;
use super::{Interface, Tables};
use crate::counters::Counter;
use crate::device::{MTU, PacketClass};
use crate::wire::addr::Addr;
use crate::wire::fragment::{HEADER_LEN_V6, head_len, write};
use crate::wire::{ETH_LEN, ETHERTYPE_IPV4, IPV4_LEN, IPV6_LEN};

/// RFC 4861 section 7.1: anything else has passed a router and is not about this link.
pub(crate) const ND_HOP_LIMIT: u8 = 255;

impl Tables {
    /// Asks for a neighbour: all, or the station that it was.
    pub(crate) fn probe(&self, key: Key, at: Option<[u8; 6]>) {
        let interface = self.snapshot.load().interface(key.ifindex).cloned();
        match (interface, at) {
            (Some(interface), None) => probe(self, &interface, key.addr),
            (Some(interface), Some(mac)) => probe_at(self, &interface, key.addr, mac),
            (None, _) => {}
        }
    }
}

/// Asks all for a neighbour: ARP request or neighbour solicitation.
fn probe(ns: &Tables, interface: &Interface, addr: Addr) {
    let to = match addr.ip() {
        IpAddr::V4(_) => EthernetAddress::BROADCAST,
        IpAddr::V6(target) => {
            let [.., a, b, c, d] = solicited_node(target).octets();
            EthernetAddress([0x33, 0x33, a, b, c, d])
        }
    };
    ask(ns, interface, addr, to, false);
}

/// Asks a neighbour whether it is still where it was.
fn probe_at(ns: &Tables, interface: &Interface, addr: Addr, mac: [u8; 6]) {
    ask(ns, interface, addr, EthernetAddress(mac), true);
}

fn ask(ns: &Tables, interface: &Interface, addr: Addr, to: EthernetAddress, known: bool) {
    let own = interface.addresses.iter().find(|(own, prefix_len)| addr.in_prefix(*own, *prefix_len));
    let Some((own, _)) = own else { return };
    let us = EthernetAddress(interface.mac);
    match (own.ip(), addr.ip()) {
        (IpAddr::V4(own), IpAddr::V4(target)) => {
            let question = ArpRepr::EthernetIpv4 {
                operation: ArpOperation::Request,
                source_hardware_addr: us,
                source_protocol_addr: own,
                target_hardware_addr: EthernetAddress([0; 6]),
                target_protocol_addr: target,
            };
            emit(ns, interface, to, EthernetProtocol::Arp, question.buffer_len(), |body| {
                question.emit(&mut ArpPacket::new_unchecked(body));
            });
        }
        (IpAddr::V6(own), IpAddr::V6(target)) => {
            let question =
                Icmpv6Repr::Ndisc(NdiscRepr::NeighborSolicit { target_addr: target, lladdr: Some(us.into()) });
            let dst = if known { target } else { solicited_node(target) };
            emit_v6(ns, interface, to, (own, dst, ND_HOP_LIMIT), &question);
        }
        _ => return,
    }
    ns.counters.count(Counter::NeighProbes);
}

/// The group that a station with this address listens to (RFC 4291 section 2.7.1).
pub(crate) fn solicited_node(addr: Ipv6Addr) -> Ipv6Addr {
    let prefix = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 0).to_bits();
    Ipv6Addr::from_bits(prefix | addr.to_bits() & 0xff_ffff)
}

/// Builds and transmits an ICMPv6 message; true if it went out.
pub(crate) fn emit_v6(
    ns: &Tables,
    interface: &Interface,
    to: EthernetAddress,
    (src, dst, hop_limit): (Ipv6Addr, Ipv6Addr, u8),
    message: &Icmpv6Repr<'_>,
) -> bool {
    let header = Ipv6Repr {
        src_addr: src,
        dst_addr: dst,
        next_header: IpProtocol::Icmpv6,
        payload_len: message.buffer_len(),
        hop_limit,
    };
    let len = header.buffer_len() + message.buffer_len();
    emit(ns, interface, to, EthernetProtocol::Ipv6, len, |body| {
        let mut packet = Ipv6Packet::new_unchecked(body);
        header.emit(&mut packet);
        message.emit(&src, &dst, &mut Icmpv6Packet::new_unchecked(packet.payload_mut()), &computed());
    })
}

/// Builds and transmits one frame, or the fragments of a packet that is too long for one; true if it went out. `body` gets exactly
/// `len` zeroed bytes.
pub(crate) fn emit(
    ns: &Tables,
    interface: &Interface,
    to: EthernetAddress,
    ethertype: EthernetProtocol,
    len: usize,
    body: impl Fn(&mut [u8]),
) -> bool {
    let header = EthernetRepr { src_addr: EthernetAddress(interface.mac), dst_addr: to, ethertype };
    if len > interface.mtu.min(MTU as usize) {
        let mut whole = vec![0; ETH_LEN + len];
        header.emit(&mut EthernetFrame::new_unchecked(&mut whole[..]));
        body(&mut whole[ETH_LEN..]);
        return emit_pieces(ns, interface, &whole);
    }
    // Built before a slot is claimed: should it panic, no slot is lost.
    let mut frame = [0; ETH_LEN + MTU as usize];
    let frame = &mut frame[..ETH_LEN + len];
    header.emit(&mut EthernetFrame::new_unchecked(&mut *frame));
    body(&mut frame[ETH_LEN..]);
    let sent = interface.egress.transmit(&PacketClass::of_flow(0), frame.len(), &mut |slot| {
        slot[..frame.len()].copy_from_slice(frame);
        frame.len()
    });
    if sent.is_err() {
        ns.counters.count(Counter::ReplyTxDrops);
    }
    sent.is_ok()
}

/// Transmits a packet that is too long for one frame.
#[cold]
fn emit_pieces(ns: &Tables, interface: &Interface, whole: &[u8]) -> bool {
    let (head, room, dst) = match *whole[12..].first_chunk().expect("an Ethernet header") {
        ETHERTYPE_IPV4 => (IPV4_LEN, IPV4_LEN, whole[30..].first_chunk().map(|dst| Addr::v4(*dst))),
        _ => (IPV6_LEN, IPV6_LEN + HEADER_LEN_V6, whole[38..].first_chunk().map(|dst| Addr::v6(*dst))),
    };
    let room = interface.mtu.min(MTU as usize).saturating_sub(room);
    let bytes = u32::try_from(whole.len() - ETH_LEN - head).unwrap_or(u32::MAX);
    let class = PacketClass::of_flow(0);
    let id = ns.ident(dst.expect("an IP header"));
    let front = head_len(head == IPV4_LEN);
    let sent = bytes <= BYTES_MAX && room >= 8 && {
        cuts(bytes, room as u32).all(|piece| {
            let len = front + piece.len as usize;
            interface.egress.transmit(&class, len, &mut |slot| write(slot, whole, piece, id)).is_ok()
        })
    };
    if !sent {
        ns.counters.count(Counter::ReplyTxDrops);
    }
    sent
}

/// Checksums are verified here (with a counter of their own) and computed by smoltcp.
pub(crate) fn computed() -> ChecksumCapabilities {
    let mut caps = ChecksumCapabilities::default();
    caps.icmpv4 = Checksum::Both;
    caps
}

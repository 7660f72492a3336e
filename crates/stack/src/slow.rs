//! What is rare: ARP (RFC 826), neighbour discovery (RFC 4861 section 7), echo (RFC 792, RFC 4443 section 4), taken
//! apart and put together with `smoltcp::wire`.
//!
//! Answers go back to the Ethernet address that asked. No answer is sent to a group, and none about a group.

use std::net::{IpAddr, Ipv6Addr};

use smoltcp::phy::{Checksum, ChecksumCapabilities};
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr, Icmpv4Packet,
    Icmpv4Repr, Icmpv6Message, Icmpv6Packet, Icmpv6Repr, IpProtocol, Ipv4Packet, Ipv4Repr, Ipv6Packet, Ipv6Repr,
    NdiscNeighborFlags, NdiscRepr, RawHardwareAddress,
};

use super::addr::Addr;
use super::counters::Counter;
use super::neighbour::Key;
use super::netns::{Inner, Interface};
use super::pass::RxPass;
use super::seams::{MTU, PacketClass};
use super::template::TTL;
use super::wire::{ETH_LEN, Packet};

/// RFC 4861 section 7.1: anything else has passed a router and is not about this link.
const ND_HOP_LIMIT: u8 = 255;

/// Handles a packet that is not UDP. `frame` is the whole frame.
#[cold]
pub(super) fn receive(pass: &RxPass<'_>, frame: &[u8], packet: &Packet) {
    #[cfg(any(test, feature = "fuzzing"))]
    super::in_hand::injected::fault(frame);
    match *packet {
        Packet::Udp(_) | Packet::Tcp(_) => unreachable!("both have a path of their own"),
        Packet::Arp => arp(pass, &frame[ETH_LEN..]),
        Packet::Icmp { src, dst, at, end } => {
            pass.ns.counters.count(Counter::IpInReceives);
            if !pass.snapshot.is_local(dst) {
                return pass.ns.counters.count(Counter::IpInAddrErrors);
            }
            pass.ns.counters.count(Counter::IpInDelivers);
            icmp(pass, frame, src, dst, &frame[at..end]);
        }
        Packet::Icmpv6 { src, dst, hop_limit, at, end } => {
            pass.ns.counters.count(Counter::Ip6InReceives);
            if !pass.snapshot.is_local(dst) && !is_our_group(pass, dst) {
                return pass.ns.counters.count(Counter::Ip6InAddrErrors);
            }
            pass.ns.counters.count(Counter::Ip6InDelivers);
            icmpv6(pass, frame, Message { src, dst, hop_limit }, &frame[at..end]);
        }
    }
}

/// All nodes, or the solicited-node group of one of our addresses (RFC 4291 section 2.7.1): the low 24 bits are alike.
fn is_our_group(pass: &RxPass<'_>, dst: Addr) -> bool {
    let IpAddr::V6(group) = dst.ip() else { return false };
    group == Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1)
        || pass.snapshot.locals.iter().any(|own| match own.ip() {
            IpAddr::V6(own) => solicited_node(own) == group,
            IpAddr::V4(_) => false,
        })
}

fn solicited_node(addr: Ipv6Addr) -> Ipv6Addr {
    let prefix = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 0).to_bits();
    Ipv6Addr::from_bits(prefix | addr.to_bits() & 0xff_ffff)
}

fn arp(pass: &RxPass<'_>, body: &[u8]) {
    let (ns, interface) = (pass.ns, pass.interface);
    ns.counters.count(Counter::ArpInPkts);
    let parsed = ArpPacket::new_checked(body).and_then(|packet| ArpRepr::parse(&packet));
    let Ok(ArpRepr::EthernetIpv4 {
        operation,
        source_hardware_addr: sha,
        source_protocol_addr: spa,
        target_protocol_addr: tpa,
        ..
    }) = parsed
    else {
        return ns.counters.count(Counter::ArpInIgnored);
    };
    let for_us = interface.addresses.iter().any(|(own, _)| own.as_v4() == Some(tpa));
    if !for_us || !matches!(operation, ArpOperation::Request | ArpOperation::Reply) {
        return ns.counters.count(Counter::ArpInIgnored);
    }
    let request = operation == ArpOperation::Request;
    // RFC 5227 section 1.1: a sender 0.0.0.0 only probes whether an address is free.
    let key = Key { ifindex: interface.ifindex, addr: Addr::v4(spa.octets()) };
    if on_link(interface, key.addr) {
        ns.learn(pass.snapshot, key, sha.0, request);
    }
    if request {
        let answer = ArpRepr::EthernetIpv4 {
            operation: ArpOperation::Reply,
            source_hardware_addr: EthernetAddress(interface.mac),
            source_protocol_addr: tpa,
            target_hardware_addr: sha,
            target_protocol_addr: spa,
        };
        if emit(ns, interface, sha, EthernetProtocol::Arp, answer.buffer_len(), |body| {
            answer.emit(&mut ArpPacket::new_unchecked(body));
        }) {
            ns.counters.count(Counter::ArpOutReplies);
        }
    }
}

/// Whether an address lies in a prefix of the device: nobody else's word is taken for where it is.
fn on_link(interface: &Interface, addr: Addr) -> bool {
    interface.addresses.iter().any(|(own, prefix_len)| addr.in_prefix(*own, *prefix_len))
}

fn icmp(pass: &RxPass<'_>, frame: &[u8], src: Addr, dst: Addr, body: &[u8]) {
    let (ns, interface) = (pass.ns, pass.interface);
    ns.counters.count(Counter::IcmpInMsgs);
    let Ok(packet) = Icmpv4Packet::new_checked(body) else { return ns.counters.count(Counter::IcmpInErrors) };
    if !packet.verify_checksum() {
        ns.counters.count(Counter::IcmpInErrors);
        return ns.counters.count(Counter::IcmpInCsumErrors);
    }
    let Ok(Icmpv4Repr::EchoRequest { ident, seq_no, data }) = Icmpv4Repr::parse(&packet, &computed()) else { return };
    ns.counters.count(Counter::IcmpInEchos);
    let (Some(us), Some(them)) = (dst.as_v4(), src.as_v4()) else { return };
    if src.is_group() || src.is_any() {
        return;
    }
    let answer = Icmpv4Repr::EchoReply { ident, seq_no, data };
    let header = Ipv4Repr {
        src_addr: us,
        dst_addr: them,
        next_header: IpProtocol::Icmp,
        payload_len: answer.buffer_len(),
        hop_limit: TTL,
    };
    let len = header.buffer_len() + answer.buffer_len();
    if emit(ns, interface, sender(frame), EthernetProtocol::Ipv4, len, |body| {
        let mut packet = Ipv4Packet::new_unchecked(body);
        header.emit(&mut packet, &computed());
        answer.emit(&mut Icmpv4Packet::new_unchecked(packet.payload_mut()), &computed());
    }) {
        ns.counters.count(Counter::IcmpOutEchoReps);
    }
}

/// The IPv6 header around an ICMPv6 message.
struct Message {
    src: Addr,
    dst: Addr,
    hop_limit: u8,
}

fn icmpv6(pass: &RxPass<'_>, frame: &[u8], message: Message, body: &[u8]) {
    let counters = &pass.ns.counters;
    counters.count(Counter::Icmp6InMsgs);
    let (IpAddr::V6(src), IpAddr::V6(dst)) = (message.src.ip(), message.dst.ip()) else { return };
    let Ok(packet) = Icmpv6Packet::new_checked(body) else { return counters.count(Counter::Icmp6InErrors) };
    if !packet.verify_checksum(&src, &dst) {
        counters.count(Counter::Icmp6InErrors);
        return counters.count(Counter::Icmp6InCsumErrors);
    }
    let discovery = matches!(packet.msg_type(), Icmpv6Message::NeighborSolicit | Icmpv6Message::NeighborAdvert);
    let valid = !discovery || message.hop_limit == ND_HOP_LIMIT && packet.msg_code() == 0;
    let Some(repr) = Icmpv6Repr::parse(&src, &dst, &packet, &computed()).ok().filter(|_| valid) else {
        return counters.count(Counter::Icmp6InErrors);
    };
    match repr {
        Icmpv6Repr::EchoRequest { ident, seq_no, data } => {
            counters.count(Counter::Icmp6InEchos);
            // RFC 4443 section 4.2 would have us answer a group too; nobody needs it on a link of two.
            if pass.snapshot.is_local(message.dst) && !message.src.is_any() {
                let answer = Icmpv6Repr::EchoReply { ident, seq_no, data };
                if emit_v6(pass.ns, pass.interface, sender(frame), (dst, src, TTL), &answer) {
                    counters.count(Counter::Icmp6OutEchoReplies);
                }
            }
        }
        Icmpv6Repr::Ndisc(NdiscRepr::NeighborSolicit { target_addr, lladdr }) => {
            counters.count(Counter::Icmp6InNeighborSolicits);
            solicited(pass, frame, src, target_addr, lladdr);
        }
        Icmpv6Repr::Ndisc(NdiscRepr::NeighborAdvert { target_addr, lladdr, .. }) => {
            counters.count(Counter::Icmp6InNeighborAdverts);
            if let Some(mac) = lladdr.and_then(ethernet) {
                let key = Key { ifindex: pass.interface.ifindex, addr: Addr::v6(target_addr.octets()) };
                pass.ns.learn(pass.snapshot, key, mac.0, false);
            }
        }
        _ => {}
    }
}

/// Answers a neighbour solicitation (RFC 4861 section 7.2.3, 7.2.4).
fn solicited(pass: &RxPass<'_>, frame: &[u8], src: Ipv6Addr, target: Ipv6Addr, lladdr: Option<RawHardwareAddress>) {
    let (ns, interface) = (pass.ns, pass.interface);
    if !interface.addresses.iter().any(|(own, _)| own.ip() == IpAddr::V6(target)) {
        return;
    }
    // From `::` somebody asks whether the address is free (RFC 4862 section 5.4.3): all nodes get the answer.
    let duplicate_check = src.is_unspecified();
    let key = Key { ifindex: interface.ifindex, addr: Addr::v6(src.octets()) };
    if let Some(mac) = lladdr.and_then(ethernet).filter(|_| !duplicate_check && on_link(interface, key.addr)) {
        ns.learn(pass.snapshot, key, mac.0, true);
    }
    let flags = if duplicate_check { NdiscNeighborFlags::empty() } else { NdiscNeighborFlags::SOLICITED };
    let answer = Icmpv6Repr::Ndisc(NdiscRepr::NeighborAdvert {
        flags: flags | NdiscNeighborFlags::OVERRIDE,
        target_addr: target,
        lladdr: Some(EthernetAddress(interface.mac).into()),
    });
    let (to, mac) = if duplicate_check {
        (Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1), EthernetAddress([0x33, 0x33, 0, 0, 0, 1]))
    } else {
        (src, sender(frame))
    };
    if emit_v6(ns, interface, mac, (target, to, ND_HOP_LIMIT), &answer) {
        ns.counters.count(Counter::Icmp6OutNeighborAdverts);
    }
}

/// Asks for a neighbour: ARP request or neighbour solicitation.
pub(super) fn probe(ns: &Inner, interface: &Interface, addr: Addr) {
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
            emit(ns, interface, EthernetAddress::BROADCAST, EthernetProtocol::Arp, question.buffer_len(), |body| {
                question.emit(&mut ArpPacket::new_unchecked(body));
            });
        }
        (IpAddr::V6(own), IpAddr::V6(target)) => {
            let group = solicited_node(target);
            let [.., a, b, c, d] = group.octets();
            let question =
                Icmpv6Repr::Ndisc(NdiscRepr::NeighborSolicit { target_addr: target, lladdr: Some(us.into()) });
            let to = EthernetAddress([0x33, 0x33, a, b, c, d]);
            emit_v6(ns, interface, to, (own, group, ND_HOP_LIMIT), &question);
        }
        _ => return,
    }
    ns.counters.count(Counter::NeighProbes);
}

fn emit_v6(
    ns: &Inner,
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

/// Builds and transmits one frame; true if it went out. `body` gets exactly `len` zeroed bytes.
fn emit(
    ns: &Inner,
    interface: &Interface,
    to: EthernetAddress,
    ethertype: EthernetProtocol,
    len: usize,
    body: impl Fn(&mut [u8]),
) -> bool {
    if len > interface.mtu.min(MTU as usize) {
        ns.counters.count(Counter::ReplyTxDrops);
        return false;
    }
    let header = EthernetRepr { src_addr: EthernetAddress(interface.mac), dst_addr: to, ethertype };
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

/// The station that sent a frame.
fn sender(frame: &[u8]) -> EthernetAddress {
    EthernetAddress::from_bytes(&frame[6..12])
}

fn ethernet(lladdr: RawHardwareAddress) -> Option<EthernetAddress> {
    let bytes: [u8; 6] = lladdr.as_bytes().try_into().ok()?;
    Some(EthernetAddress(bytes))
}

/// Checksums are verified here (with a counter of their own) and computed by smoltcp.
fn computed() -> ChecksumCapabilities {
    let mut caps = ChecksumCapabilities::default();
    caps.icmpv4 = Checksum::Both;
    caps
}

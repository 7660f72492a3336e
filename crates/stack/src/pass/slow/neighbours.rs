//! Neighbours: what they say of themselves, and what is asked and answered. What is believed of it is in
//! [`napier_core::neighbour`].

use std::net::{IpAddr, Ipv6Addr};

use napier_core::neighbour::{Force, Word};
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetProtocol, Icmpv6Repr, NdiscNeighborFlags, NdiscRepr,
    RawHardwareAddress,
};

use super::{Incoming, sender};
use crate::counters::Counter;
use crate::tables::ask::{ND_HOP_LIMIT, emit, emit_v6, solicited_node};
use crate::tables::neighbour::{Key, Said};
use crate::tables::{Interface, Snapshot};
use crate::wire::ETH_LEN;
use crate::wire::addr::Addr;

/// All nodes, or the solicited-node group of one of our addresses (RFC 4291 section 2.7.1): the low 24 bits are alike.
pub(super) fn is_our_group(snapshot: &Snapshot, dst: Addr) -> bool {
    let IpAddr::V6(group) = dst.ip() else { return false };
    group == Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1)
        || snapshot.devices.locals().iter().any(|own| match own.ip() {
            IpAddr::V6(own) => solicited_node(own) == group,
            IpAddr::V4(_) => false,
        })
}

/// Whether an address lies in a prefix of the device: no other station's word is taken for where it is.
fn on_link(interface: &Interface, addr: Addr) -> bool {
    interface.addresses.iter().any(|(own, prefix_len)| addr.in_prefix(*own, *prefix_len))
}

impl Incoming<'_> {
    /// A neighbour at `addr` has said that it is at `mac`.
    fn heard(&self, addr: Addr, mac: [u8; 6], word: Word, force: Force) {
        let key = Key { ifindex: self.interface.ifindex, addr };
        if on_link(self.interface, addr) {
            self.tables.heard(self.snapshot, Said { key, mac, word, force });
        }
    }
}

/// Source: `net/ipv4/arp.c arp_process`.
///
/// | packet | word | against another address |
/// |---|---|---|
/// | a request for an address of ours | asks for us | overrides |
/// | of a station for its own address, as request or as reply ("gratuitous", RFC 5227 section 3) | tells all | overrides |
/// | a reply to us | an answer | overrides, but for a second after a change |
/// | a reply to all | tells all | the same |
/// | a request for another station | tells all; counted as `ArpInIgnored` too | the same |
pub(super) fn arp(msg: Incoming<'_>, frame: &[u8]) {
    let Incoming { tables, interface, .. } = msg;
    msg.count(Counter::ArpInPkts);
    let parsed = ArpPacket::new_checked(&frame[ETH_LEN..]).and_then(|packet| ArpRepr::parse(&packet));
    let Ok(ArpRepr::EthernetIpv4 {
        operation: operation @ (ArpOperation::Request | ArpOperation::Reply),
        source_hardware_addr: sha,
        source_protocol_addr: spa,
        target_hardware_addr: tha,
        target_protocol_addr: tpa,
    }) = parsed
    else {
        return msg.count(Counter::ArpInIgnored);
    };
    let request = operation == ArpOperation::Request;
    let for_us = interface.addresses.iter().any(|(own, _)| own.as_v4() == Some(tpa));
    let of_itself = spa == tpa && (request || tha == sha);
    let to_us = frame[..6] == interface.mac;
    // RFC 5227 section 1.1: a sender 0.0.0.0 only probes whether an address is free.
    let addr = Addr::v4(spa.octets());
    let (word, force) = match () {
        () if for_us && request => (Word::AskedUs, Force::Overrides),
        () if of_itself => (Word::Announced, Force::Overrides),
        () if !request && to_us => (Word::Answer, Force::Weak),
        () if !request => (Word::Announced, Force::Weak),
        () => {
            msg.count(Counter::ArpInIgnored);
            (Word::Announced, Force::Weak)
        }
    };
    msg.heard(addr, sha.0, word, force);
    if !for_us || !request || msg.beside {
        return;
    }
    let answer = ArpRepr::EthernetIpv4 {
        operation: ArpOperation::Reply,
        source_hardware_addr: EthernetAddress(interface.mac),
        source_protocol_addr: tpa,
        target_hardware_addr: sha,
        target_protocol_addr: spa,
    };
    if emit(tables, interface, sha, EthernetProtocol::Arp, answer.buffer_len(), |body| {
        answer.emit(&mut ArpPacket::new_unchecked(body));
    }) {
        tables.counters.count(Counter::ArpOutReplies);
    }
}

/// Answers a neighbour solicitation (RFC 4861 section 7.2.3, 7.2.4).
pub(super) fn solicited(
    msg: Incoming<'_>,
    frame: &[u8],
    src: Ipv6Addr,
    target: Ipv6Addr,
    lladdr: Option<RawHardwareAddress>,
) {
    let Incoming { tables, interface, .. } = msg;
    if !interface.addresses.iter().any(|(own, _)| own.ip() == IpAddr::V6(target)) {
        return;
    }
    // From `::` somebody asks whether the address is free (RFC 4862 section 5.4.3): all nodes get the answer.
    let duplicate_check = src.is_unspecified();
    if let Some(mac) = lladdr.and_then(ethernet).filter(|_| !duplicate_check) {
        msg.heard(Addr::v6(src.octets()), mac.0, Word::AskedUs, Force::Overrides);
    }
    if msg.beside {
        return;
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
    if emit_v6(tables, interface, mac, (target, to, ND_HOP_LIMIT), &answer) {
        tables.counters.count(Counter::Icmp6OutNeighborAdverts);
    }
}

/// A neighbour advertisement (RFC 4861 section 7.2.5; `net/ipv6/ndisc.c ndisc_recv_na`).
pub(super) fn advertised(
    msg: Incoming<'_>,
    flags: NdiscNeighborFlags,
    dst: Addr,
    target: Ipv6Addr,
    lladdr: Option<RawHardwareAddress>,
) {
    let solicited = flags.contains(NdiscNeighborFlags::SOLICITED);
    // RFC 4861 section 7.1.2: an answer goes to the one that asked.
    if solicited && dst.is_group() {
        return msg.count(Counter::Icmp6InErrors);
    }
    let addr = Addr::v6(target.octets());
    // Who was asked at its address need not repeat it.
    let known = || msg.snapshot.neighbours.get(Key { ifindex: msg.interface.ifindex, addr }).map(|known| known.mac);
    let Some(mac) = lladdr.and_then(ethernet).map(|mac| mac.0).or_else(known) else { return };
    let force = if flags.contains(NdiscNeighborFlags::OVERRIDE) { Force::Overrides } else { Force::Doubts };
    msg.heard(addr, mac, if solicited { Word::Answer } else { Word::Announced }, force);
}

/// A router says where it is (RFC 4861 section 6.3.4).
pub(super) fn of_router(msg: Incoming<'_>, src: Ipv6Addr, lladdr: Option<RawHardwareAddress>) {
    if let Some(mac) = lladdr.and_then(ethernet) {
        msg.heard(Addr::v6(src.octets()), mac.0, Word::Announced, Force::Overrides);
    }
}

fn ethernet(lladdr: RawHardwareAddress) -> Option<EthernetAddress> {
    let bytes: [u8; 6] = lladdr.as_bytes().try_into().ok()?;
    Some(EthernetAddress(bytes))
}

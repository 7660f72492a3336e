//! ARP, neighbour discovery and echo, byte by byte as smoltcp reads them.

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr, Icmpv4Packet,
    Icmpv4Repr, Icmpv6Packet, Icmpv6Repr, IpProtocol, Ipv4Address, Ipv4Packet, Ipv4Repr, Ipv6Address, Ipv6Packet,
    Ipv6Repr, NdiscNeighborFlags, NdiscRepr,
};

use crate::testing::{IFINDEX, OUR_MAC, PEER_MAC, Rig};

const OURS: Ipv4Address = Ipv4Address::new(10, 0, 0, 1);
const PEER: Ipv4Address = Ipv4Address::new(10, 0, 0, 2);
const OURS_6: Ipv6Address = Ipv6Address::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
const PEER_6: Ipv6Address = Ipv6Address::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);
const SOLICITED: Ipv6Address = Ipv6Address::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 1);

fn frame(dst: [u8; 6], ethertype: EthernetProtocol, len: usize, fill: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut frame = vec![0; 14 + len];
    let header = EthernetRepr { src_addr: EthernetAddress(PEER_MAC), dst_addr: EthernetAddress(dst), ethertype };
    header.emit(&mut EthernetFrame::new_unchecked(&mut frame[..]));
    fill(&mut frame[14..]);
    frame
}

fn arp(operation: ArpOperation, spa: Ipv4Address, tpa: Ipv4Address) -> Vec<u8> {
    let repr = ArpRepr::EthernetIpv4 {
        operation,
        source_hardware_addr: EthernetAddress(PEER_MAC),
        source_protocol_addr: spa,
        target_hardware_addr: EthernetAddress([0; 6]),
        target_protocol_addr: tpa,
    };
    frame([0xff; 6], EthernetProtocol::Arp, repr.buffer_len(), |body| {
        repr.emit(&mut ArpPacket::new_unchecked(body));
    })
}

fn icmp4(dst: Ipv4Address, repr: &Icmpv4Repr<'_>) -> Vec<u8> {
    let caps = ChecksumCapabilities::default();
    let ip = Ipv4Repr {
        src_addr: PEER,
        dst_addr: dst,
        next_header: IpProtocol::Icmp,
        payload_len: repr.buffer_len(),
        hop_limit: 9,
    };
    frame(OUR_MAC, EthernetProtocol::Ipv4, ip.buffer_len() + repr.buffer_len(), |body| {
        let mut packet = Ipv4Packet::new_unchecked(body);
        ip.emit(&mut packet, &caps);
        repr.emit(&mut Icmpv4Packet::new_unchecked(packet.payload_mut()), &caps);
    })
}

fn icmp6(src: Ipv6Address, dst: Ipv6Address, hop_limit: u8, repr: &Icmpv6Repr<'_>) -> Vec<u8> {
    let caps = ChecksumCapabilities::default();
    let ip = Ipv6Repr {
        src_addr: src,
        dst_addr: dst,
        next_header: IpProtocol::Icmpv6,
        payload_len: repr.buffer_len(),
        hop_limit,
    };
    let mac = if dst.is_multicast() { [0x33, 0x33, 0xff, 0, 0, 1] } else { OUR_MAC };
    frame(mac, EthernetProtocol::Ipv6, ip.buffer_len() + repr.buffer_len(), |body| {
        let mut packet = Ipv6Packet::new_unchecked(body);
        ip.emit(&mut packet);
        repr.emit(&src, &dst, &mut Icmpv6Packet::new_unchecked(packet.payload_mut()), &caps);
    })
}

/// The one frame that was sent, its addresses checked.
fn answer(rig: &Rig, to: [u8; 6], ethertype: EthernetProtocol) -> Vec<u8> {
    let mut sent = rig.sent();
    assert_eq!(sent.len(), 1);
    let frame = sent.remove(0);
    let ethernet = EthernetFrame::new_checked(&frame[..]).unwrap();
    assert_eq!((ethernet.src_addr().0, ethernet.dst_addr().0, ethernet.ethertype()), (OUR_MAC, to, ethertype));
    frame[14..].to_vec()
}

/// What an ICMPv6 answer says, its checksum and addresses checked.
fn answer_6(rig: &Rig, to: [u8; 6], src: Ipv6Address, dst: Ipv6Address, hop_limit: u8) -> Vec<u8> {
    let body = answer(rig, to, EthernetProtocol::Ipv6);
    let packet = Ipv6Packet::new_checked(&body[..]).unwrap();
    assert_eq!((packet.src_addr(), packet.dst_addr(), packet.hop_limit()), (src, dst, hop_limit));
    packet.payload().to_vec()
}

fn read_6<'a>(src: Ipv6Address, dst: Ipv6Address, body: &'a [u8]) -> Icmpv6Repr<'a> {
    let packet = Icmpv6Packet::new_checked(body).unwrap();
    Icmpv6Repr::parse(&src, &dst, &packet, &ChecksumCapabilities::default()).unwrap()
}

#[test]
fn an_arp_request_is_answered_and_learnt() {
    let mut rig = Rig::new();
    rig.inject(&arp(ArpOperation::Request, PEER, OURS));
    let body = answer(&rig, PEER_MAC, EthernetProtocol::Arp);
    let repr = ArpRepr::parse(&ArpPacket::new_checked(&body[..]).unwrap()).unwrap();
    let want = ArpRepr::EthernetIpv4 {
        operation: ArpOperation::Reply,
        source_hardware_addr: EthernetAddress(OUR_MAC),
        source_protocol_addr: OURS,
        target_hardware_addr: EthernetAddress(PEER_MAC),
        target_protocol_addr: PEER,
    };
    assert_eq!(repr, want);
    assert_eq!(rig.ns.neighbour(IFINDEX, PEER.into()), Some(PEER_MAC));
    assert_eq!((rig.ns.counters().arp_in_pkts, rig.ns.counters().arp_out_replies), (1, 1));
    rig.assert_home(0);
}

#[test]
fn arp_that_is_not_about_us_is_ignored() {
    let mut rig = Rig::new();
    rig.inject(&arp(ArpOperation::Request, PEER, Ipv4Address::new(10, 0, 0, 7)));
    rig.inject(&arp(ArpOperation::Reply, PEER, OURS));
    let mut short = arp(ArpOperation::Request, PEER, OURS);
    short.truncate(30);
    rig.inject(&short);
    assert_eq!(rig.ns.neighbour(IFINDEX, PEER.into()), None, "an answer that nobody asked for");
    // Neither an address of another network nor our own is learnt; the first question is still answered.
    rig.inject(&arp(ArpOperation::Request, Ipv4Address::new(10, 7, 0, 7), OURS));
    rig.inject(&arp(ArpOperation::Request, OURS, OURS));
    rig.inject(&arp(ArpOperation::Request, Ipv4Address::UNSPECIFIED, OURS));
    assert_eq!(rig.ns.neighbour(IFINDEX, "10.7.0.7".parse().unwrap()), None);
    assert_eq!(rig.ns.neighbour(IFINDEX, OURS.into()), None);
    assert_eq!((rig.ns.counters().arp_in_ignored, rig.sent().len()), (2, 3));
    rig.assert_home(0);
}

#[test]
fn a_neighbour_that_moves_is_followed_unless_it_is_permanent() {
    let mut rig = Rig::new();
    rig.inject(&arp(ArpOperation::Request, PEER, OURS));
    let mut moved = arp(ArpOperation::Reply, PEER, OURS);
    moved[22..28].copy_from_slice(&[2, 9, 9, 9, 9, 9]);
    // Not within a second of what it said first.
    let begun = std::time::Instant::now();
    while rig.ns.neighbour(IFINDEX, PEER.into()) != Some([2, 9, 9, 9, 9, 9]) {
        assert!(begun.elapsed() < std::time::Duration::from_secs(20), "the move was never believed");
        rig.inject(&moved);
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    rig.ns.neighbour_add(IFINDEX, PEER.into(), [2, 8, 8, 8, 8, 8]).unwrap();
    rig.inject(&moved);
    assert_eq!(rig.ns.neighbour(IFINDEX, PEER.into()), Some([2, 8, 8, 8, 8, 8]));
    let mut group = arp(ArpOperation::Request, Ipv4Address::new(10, 0, 0, 5), OURS);
    group[22] = 1;
    rig.inject(&group);
    assert_eq!(rig.ns.neighbour(IFINDEX, "10.0.0.5".parse().unwrap()), None, "a group is no station");
}

#[test]
fn echo_over_ipv4() {
    let mut rig = Rig::new();
    let request = Icmpv4Repr::EchoRequest { ident: 7, seq_no: 9, data: b"how are you" };
    rig.inject(&icmp4(OURS, &request));
    let body = answer(&rig, PEER_MAC, EthernetProtocol::Ipv4);
    let packet = Ipv4Packet::new_checked(&body[..]).unwrap();
    assert!(packet.verify_checksum());
    assert_eq!((packet.src_addr(), packet.dst_addr()), (OURS, PEER));
    let icmp = Icmpv4Packet::new_checked(packet.payload()).unwrap();
    let caps = ChecksumCapabilities::default();
    assert_eq!(
        Icmpv4Repr::parse(&icmp, &caps),
        Ok(Icmpv4Repr::EchoReply { ident: 7, seq_no: 9, data: b"how are you" })
    );
    let mut bad = icmp4(OURS, &request);
    *bad.last_mut().unwrap() ^= 1;
    rig.inject(&bad);
    rig.inject(&icmp4(Ipv4Address::new(10, 0, 0, 255), &request));
    rig.inject(&icmp4(OURS, &Icmpv4Repr::EchoReply { ident: 1, seq_no: 1, data: b"" }));
    assert!(rig.sent().is_empty());
    let counters = rig.ns.counters();
    assert_eq!((counters.icmp_in_msgs, counters.icmp_in_echos, counters.icmp_out_echo_reps), (3, 1, 1));
    assert_eq!((counters.icmp_in_csum_errors, counters.icmp_in_errors, counters.ip_in_addr_errors), (1, 1, 1));
    rig.assert_home(0);
}

#[test]
fn echo_over_ipv6() {
    let mut rig = Rig::new();
    let request = Icmpv6Repr::EchoRequest { ident: 7, seq_no: 9, data: b"how are you" };
    rig.inject(&icmp6(PEER_6, OURS_6, 64, &request));
    let body = answer_6(&rig, PEER_MAC, OURS_6, PEER_6, 64);
    let want = Icmpv6Repr::EchoReply { ident: 7, seq_no: 9, data: b"how are you" };
    assert_eq!(read_6(OURS_6, PEER_6, &body), want);
    let mut bad = icmp6(PEER_6, OURS_6, 64, &request);
    *bad.last_mut().unwrap() ^= 1;
    rig.inject(&bad);
    assert!(rig.sent().is_empty());
    let counters = rig.ns.counters();
    assert_eq!((counters.icmp6_in_echos, counters.icmp6_out_echo_replies, counters.icmp6_in_csum_errors), (1, 1, 1));
}

#[test]
fn a_neighbour_solicitation_is_answered_and_learnt() {
    let mut rig = Rig::new();
    let lladdr = Some(EthernetAddress(PEER_MAC).into());
    let solicit = Icmpv6Repr::Ndisc(NdiscRepr::NeighborSolicit { target_addr: OURS_6, lladdr });
    for dst in [SOLICITED, OURS_6] {
        rig.inject(&icmp6(PEER_6, dst, 255, &solicit));
        let body = answer_6(&rig, PEER_MAC, OURS_6, PEER_6, 255);
        let want = Icmpv6Repr::Ndisc(NdiscRepr::NeighborAdvert {
            flags: NdiscNeighborFlags::SOLICITED | NdiscNeighborFlags::OVERRIDE,
            target_addr: OURS_6,
            lladdr: Some(EthernetAddress(OUR_MAC).into()),
        });
        assert_eq!(read_6(OURS_6, PEER_6, &body), want);
    }
    assert_eq!(rig.ns.neighbour(IFINDEX, PEER_6.into()), Some(PEER_MAC));
    assert_eq!(rig.ns.counters().icmp6_out_neighbor_advertisements, 2);
    rig.assert_home(0);
}

#[test]
fn a_duplicate_check_is_answered_to_all() {
    let mut rig = Rig::new();
    let solicit = Icmpv6Repr::Ndisc(NdiscRepr::NeighborSolicit { target_addr: OURS_6, lladdr: None });
    rig.inject(&icmp6(Ipv6Address::UNSPECIFIED, SOLICITED, 255, &solicit));
    let all = Ipv6Address::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    let body = answer_6(&rig, [0x33, 0x33, 0, 0, 0, 1], OURS_6, all, 255);
    let Icmpv6Repr::Ndisc(NdiscRepr::NeighborAdvert { flags, .. }) = read_6(OURS_6, all, &body) else {
        panic!("an advertisement");
    };
    assert_eq!(flags, NdiscNeighborFlags::OVERRIDE);
}

#[test]
fn neighbour_discovery_from_beyond_the_link_is_refused() {
    let mut rig = Rig::new();
    let lladdr = Some(EthernetAddress(PEER_MAC).into());
    let solicit = Icmpv6Repr::Ndisc(NdiscRepr::NeighborSolicit { target_addr: OURS_6, lladdr });
    rig.inject(&icmp6(PEER_6, OURS_6, 64, &solicit));
    let other = Icmpv6Repr::Ndisc(NdiscRepr::NeighborSolicit { target_addr: PEER_6, lladdr });
    rig.inject(&icmp6(PEER_6, OURS_6, 255, &other));
    let unasked = NdiscRepr::NeighborAdvert { flags: NdiscNeighborFlags::OVERRIDE, target_addr: PEER_6, lladdr };
    rig.inject(&icmp6(PEER_6, OURS_6, 255, &Icmpv6Repr::Ndisc(unasked)));
    assert!(rig.sent().is_empty());
    assert_eq!(rig.ns.neighbour(IFINDEX, PEER_6.into()), None);
    assert_eq!(rig.ns.counters().icmp6_in_errors, 1);
    rig.assert_home(0);
}

#[test]
fn an_answer_that_does_not_fit_into_the_ring_is_counted() {
    let mut rig = Rig::new();
    rig.device.full.store(true, std::sync::atomic::Ordering::Relaxed);
    rig.inject(&arp(ArpOperation::Request, PEER, OURS));
    assert_eq!((rig.ns.counters().reply_tx_drops, rig.ns.counters().arp_out_replies), (1, 0));
}

//! Neighbours that move, with a word and without one, and how long they are believed.

use std::net::IpAddr;

use napier_core::neighbour::{LOCKTIME, Nud};
use napier_core::time::{Instant, Span};
use napier_sys::clock::Clock;
use smoltcp::wire::{ArpOperation, Ipv4Address};

use crate::UdpSocket;
use crate::tables::neighbour::Key;
use crate::testing::{self, IFINDEX, PEER_MAC, Rig, at};
use crate::wire::addr::Addr;

const OURS: Ipv4Address = Ipv4Address::new(10, 0, 0, 1);
const PEER: Ipv4Address = Ipv4Address::new(10, 0, 0, 2);
const NEW_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0x99];

fn peer() -> IpAddr {
    IpAddr::from(PEER.octets())
}

fn nud(rig: &Rig) -> Option<Nud> {
    let key = Key { ifindex: IFINDEX, addr: Addr::from_ip(peer()) };
    rig.ns.tables().snapshot.load().neighbours.get(key).map(|known| known.nud)
}

/// An ARP packet from the new place of the peer, to all or to us.
fn arp(operation: ArpOperation, mac: [u8; 6], target: Ipv4Address, to_all: bool) -> Vec<u8> {
    let mut frame = testing::arp(operation, PEER, mac, target);
    if to_all {
        frame[..6].copy_from_slice(&[0xff; 6]);
    }
    // A station that speaks of itself gives its own Ethernet address as the target's.
    if target == PEER {
        frame[32..38].copy_from_slice(&mac);
    }
    frame
}

/// A name space that has asked for the peer, and a socket that sends to it.
fn learnt() -> (Rig, UdpSocket) {
    let mut rig = Rig::new();
    let socket = UdpSocket::bind(&rig.ns, at("10.0.0.1:9")).unwrap();
    socket.send_to(b"x", at("10.0.0.2:7")).unwrap();
    rig.inject(&arp(ArpOperation::Reply, PEER_MAC, OURS, false));
    assert!(matches!(nud(&rig), Some(Nud::Reachable { .. })));
    let _ = rig.sent();
    (rig, socket)
}

/// Where the next datagram goes.
fn goes_to(rig: &Rig, socket: &UdpSocket) -> [u8; 6] {
    socket.send_to(b"x", at("10.0.0.2:7")).unwrap();
    let sent = rig.sent();
    sent.iter().find(|frame| frame[12..14] == [8, 0]).expect("it left")[..6].try_into().unwrap()
}

fn later(rig: &Rig, secs: u64) -> Instant {
    let now = Clock.now() + Span::from_secs(secs);
    rig.ns.tables().lock().age(now);
    now
}

#[test]
fn a_neighbour_that_says_where_it_is_now_is_believed_at_once() {
    use ArpOperation::{Reply, Request};
    for (what, frame) in [
        ("gratuitous request", arp(Request, NEW_MAC, PEER, true)),
        ("gratuitous reply", arp(Reply, NEW_MAC, PEER, true)),
        ("request for us", arp(Request, NEW_MAC, OURS, false)),
    ] {
        let (mut rig, socket) = learnt();
        assert_eq!(goes_to(&rig, &socket), PEER_MAC);
        rig.inject(&frame);
        let _ = rig.sent();
        assert_eq!(goes_to(&rig, &socket), NEW_MAC, "{what}");
        // Within a second of the last change as well.
        let back = [&frame[..6], &PEER_MAC, &frame[12..22], &PEER_MAC, &frame[28..]].concat();
        let mut back = back;
        if frame[32..38] == NEW_MAC {
            back[32..38].copy_from_slice(&PEER_MAC);
        }
        rig.inject(&back);
        let _ = rig.sent();
        assert_eq!(goes_to(&rig, &socket), PEER_MAC, "{what}");
        assert_eq!(rig.ns.counters().neigh_changes_ignored, 0);
    }
}

#[test]
fn of_several_that_answer_the_first_is_kept_for_a_while() {
    let (mut rig, socket) = learnt();
    let begun = Clock.now();
    rig.inject(&arp(ArpOperation::Reply, NEW_MAC, OURS, false));
    if Clock.now() < begun + Span::from_ns(LOCKTIME.ns / 2) {
        assert_eq!(goes_to(&rig, &socket), PEER_MAC);
        assert_eq!(rig.ns.counters().neigh_changes_ignored, 1);
    }
}

#[test]
fn an_advertisement_to_all_moves_a_neighbour_and_learns_none() {
    let mut rig = Rig::new();
    let socket = UdpSocket::bind(&rig.ns, at("[fd00::1]:9")).unwrap();
    let frame = advertisement(NEW_MAC, 0x20);
    let ns = rig.ns.clone();
    let known = || ns.neighbour(IFINDEX, at("[fd00::2]:7").ip());
    rig.inject(&frame);
    assert_eq!(known(), None, "nobody asked");
    socket.send_to(b"x", at("[fd00::2]:7")).unwrap();
    rig.inject(&frame);
    assert_eq!(known(), Some(NEW_MAC));
    // Without the override flag it only makes doubtful what is known.
    rig.inject(&advertisement(PEER_MAC, 0));
    assert_eq!(known(), Some(NEW_MAC));
    rig.inject(&advertisement(PEER_MAC, 0x20));
    assert_eq!(known(), Some(PEER_MAC));
}

/// A neighbour advertisement of fd00::2 to all nodes.
fn advertisement(mac: [u8; 6], flags: u8) -> Vec<u8> {
    use smoltcp::phy::ChecksumCapabilities;
    use smoltcp::wire::{EthernetAddress, Icmpv6Packet, Icmpv6Repr, NdiscNeighborFlags, NdiscRepr};
    let (src, dst) = ("fd00::2".parse().unwrap(), "ff02::1".parse().unwrap());
    let repr = Icmpv6Repr::Ndisc(NdiscRepr::NeighborAdvert {
        flags: NdiscNeighborFlags::from_bits_truncate(flags),
        target_addr: src,
        lladdr: Some(EthernetAddress(mac).into()),
    });
    let mut body = vec![0; repr.buffer_len()];
    let caps = ChecksumCapabilities::default();
    repr.emit(&src, &dst, &mut Icmpv6Packet::new_unchecked(&mut body[..]), &caps);
    let len = (body.len() as u16).to_be_bytes();
    let head = [&[0x33, 0x33, 0, 0, 0, 1][..], &mac, &[0x86, 0xdd, 0x60, 0, 0, 0, len[0], len[1], 58, 255]].concat();
    [head, src.octets().to_vec(), dst.octets().to_vec(), body].concat()
}

#[test]
fn what_is_heard_beside_the_kernel_is_learnt_and_not_answered() {
    let (rig, socket) = learnt();
    let before = rig.ns.counters();
    rig.ns.hear(IFINDEX, &arp(ArpOperation::Request, NEW_MAC, PEER, true));
    assert_eq!(goes_to(&rig, &socket), NEW_MAC);
    rig.ns.hear(IFINDEX, &arp(ArpOperation::Request, PEER_MAC, OURS, false));
    assert_eq!(rig.sent().len(), 0, "the kernel answers");
    assert_eq!(goes_to(&rig, &socket), PEER_MAC);
    rig.ns.hear(IFINDEX, b"short");
    rig.ns.hear(IFINDEX + 1, &arp(ArpOperation::Request, NEW_MAC, OURS, false));
    assert_eq!(goes_to(&rig, &socket), PEER_MAC);
    assert_eq!(rig.ns.counters().arp_in_pkts, before.arp_in_pkts);
}

#[test]
fn a_neighbour_that_is_used_is_asked_and_stays() {
    let (mut rig, socket) = learnt();
    let _ = later(&rig, 46);
    assert_eq!(nud(&rig), Some(Nud::Stale));
    let _ = later(&rig, 1000);
    assert_eq!(rig.sent().len(), 0, "nobody uses it, so nobody is asked");
    assert_eq!(goes_to(&rig, &socket), PEER_MAC, "nor does a packet wait");
    assert!(matches!(nud(&rig), Some(Nud::Delay { .. })));
    let _ = later(&rig, 6);
    let question = rig.sent();
    assert_eq!((question.len(), &question[0][..6]), (1, &PEER_MAC[..]), "it is asked where it was");
    rig.inject(&arp(ArpOperation::Reply, PEER_MAC, OURS, false));
    assert!(matches!(nud(&rig), Some(Nud::Reachable { .. })));
    assert_eq!(rig.ns.counters().neigh_res_failed, 0);
}

#[test]
fn a_neighbour_that_has_gone_without_a_word_is_asked_for_anew() {
    let (mut rig, socket) = learnt();
    let _ = later(&rig, 46);
    assert_eq!(goes_to(&rig, &socket), PEER_MAC);
    for secs in [6, 8, 10, 12] {
        let _ = later(&rig, secs);
    }
    assert_eq!(nud(&rig), None);
    let counters = rig.ns.counters();
    assert_eq!((counters.neigh_res_failed, counters.neigh_probes), (1, 1 + 3));
    let _ = rig.sent();
    socket.send_to(b"found", at("10.0.0.2:7")).unwrap();
    let question = rig.sent();
    assert_eq!((question.len(), &question[0][..6]), (1, &[0xff; 6][..]), "everybody is asked");
    rig.inject(&arp(ArpOperation::Reply, NEW_MAC, OURS, false));
    assert_eq!(rig.sent()[0][..6], NEW_MAC, "what waited has left");
    assert_eq!(goes_to(&rig, &socket), NEW_MAC);
}

/// The thread does by itself what the tests above do by hand.
#[test]
fn the_thread_sees_to_what_has_ended() {
    let (rig, socket) = learnt();
    let key = Key { ifindex: IFINDEX, addr: Addr::from_ip(peer()) };
    let now = Clock.now();
    {
        let writing = rig.ns.tables().lock();
        let known = rig.ns.tables().snapshot.load().neighbours.get(key).unwrap();
        let ended = crate::tables::neighbour::Neighbour { nud: Nud::Reachable { until: now }, ..known };
        rig.ns.tables().edit(&writing, |s| s.neighbours = s.neighbours.with(key, ended).0);
        rig.ns.tables().ageing.ask(ended.nud.ends());
    }
    napier_testkit::eventually("it is stale", || nud(&rig) == Some(Nud::Stale));
    assert_eq!(goes_to(&rig, &socket), PEER_MAC);
    assert!(matches!(nud(&rig), Some(Nud::Delay { .. })));
}

#[test]
fn a_permanent_neighbour_is_neither_asked_nor_moved() {
    let mut rig = Rig::new();
    rig.know_peers();
    let socket = UdpSocket::bind(&rig.ns, at("10.0.0.1:9")).unwrap();
    rig.inject(&arp(ArpOperation::Request, NEW_MAC, PEER, true));
    let _ = later(&rig, 10_000);
    assert_eq!(goes_to(&rig, &socket), PEER_MAC);
    assert_eq!(rig.ns.counters().neigh_probes, 0);
}

#[test]
fn a_connection_uses_its_neighbour_too() {
    let (mut rig, _socket) = learnt();
    let stream = crate::TcpStream::builder().nonblocking(true).connect(&rig.ns, at("10.0.0.2:7")).unwrap();
    let _ = later(&rig, 46);
    assert_eq!(nud(&rig), Some(Nud::Stale));
    drop(stream);
    let stream = crate::TcpStream::builder().nonblocking(true).connect(&rig.ns, at("10.0.0.2:7")).unwrap();
    assert!(matches!(nud(&rig), Some(Nud::Delay { .. })), "what it sends is a use");
    rig.inject(&arp(ArpOperation::Request, NEW_MAC, PEER, true));
    let _ = rig.sent();
    // Its segments go to the new place as soon as there is one: here the reset of a SYN|ACK that it does not expect.
    drop(stream);
    assert_eq!(rig.ns.neighbour(IFINDEX, peer()), Some(NEW_MAC));
}

#[test]
fn one_packet_finds_a_neighbour_whose_first_answer_was_lost() {
    let mut rig = Rig::new();
    let socket = UdpSocket::bind(&rig.ns, at("10.0.0.1:9")).unwrap();
    socket.send_to(b"alone", at("10.0.0.2:7")).unwrap();
    let asked = || rig.sent().iter().filter(|frame| frame[12..14] == [8, 6]).count();
    let mut questions = asked();
    napier_testkit::eventually("the thread asks again", || {
        questions += asked();
        questions >= 2
    });
    rig.inject(&arp(ArpOperation::Reply, PEER_MAC, OURS, false));
    let sent = rig.sent();
    assert_eq!(sent.last().expect("what waited")[..6], PEER_MAC);
    assert_eq!(rig.ns.counters().neigh_unresolved_discards, 0);
}

#[test]
fn what_waits_for_a_neighbour_that_is_not_there_is_given_up() {
    let mut rig = Rig::new();
    let socket = UdpSocket::bind(&rig.ns, at("10.0.0.1:9")).unwrap();
    socket.send_to(b"lost", at("10.0.0.2:7")).unwrap();
    for secs in [2, 4, 6] {
        let _ = later(&rig, secs);
    }
    let counters = rig.ns.counters();
    assert_eq!((counters.neigh_probes, counters.neigh_unresolved_discards), (3, 1));
    rig.inject(&arp(ArpOperation::Reply, PEER_MAC, OURS, false));
    assert!(nud(&rig).is_some(), "a late answer is still one to a question");
}

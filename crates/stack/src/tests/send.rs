//! From the caller's bytes to the frame.

use std::sync::atomic::Ordering::Relaxed;

use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, Icmpv6Packet, Icmpv6Repr, Ipv6Packet,
    NdiscNeighborFlags, NdiscRepr,
};

use crate::testing::{IFINDEX, OUR_MAC, PEER_MAC, Rig, at, device, udp_frame};
use crate::{MtuDiscovery, NeighbourError, UdpSocket};

fn code<T: std::fmt::Debug>(result: std::io::Result<T>) -> i32 {
    result.expect_err("refused").raw_os_error().expect("a number")
}

fn rig() -> Rig {
    let rig = Rig::new();
    rig.know_peers();
    rig
}

#[test]
fn frames_are_those_of_smoltcp() {
    let rig = rig();
    for (own, peer) in [("10.0.0.1:9", "10.0.0.2:77"), ("[fd00::1]:9", "[fd00::2]:77")] {
        let any = if own.starts_with('1') { "0.0.0.0:9" } else { "[::]:9" };
        let socket = UdpSocket::bind(&rig.ns, at(any)).unwrap();
        let want = udp_frame(at(own), at(peer), OUR_MAC, PEER_MAC, b"hello");
        assert_eq!(socket.send_to(b"hello", at(peer)).unwrap(), 5);
        assert_eq!(socket.send_to(b"hello", at(peer)).unwrap(), 5);
        let built = socket.send_with(Some(at(peer)), 100, |slot| {
            assert_eq!(slot.len(), 100);
            slot[..5].copy_from_slice(b"hello");
            5
        });
        assert_eq!(built.unwrap(), 5);
        assert_eq!(code(socket.send(b"hello")), libc::EDESTADDRREQ);
        socket.connect(at(peer)).unwrap();
        assert_eq!(socket.send(b"hello").unwrap(), 5);
        assert_eq!(socket.send(b"hello").unwrap(), 5);
        assert_eq!(rig.sent(), vec![want; 5]);
        let hash = 9 << 16 | 77;
        assert_eq!(std::mem::take(&mut *rig.device.hashes.lock().unwrap()), [hash; 5]);
    }
    assert_eq!((rig.ns.counters().udp_out_datagrams, rig.ns.counters().udp6_out_datagrams), (5, 5));
}

#[test]
fn a_connected_socket_may_send_to_others() {
    let rig = rig();
    let socket = UdpSocket::bind(&rig.ns, at("10.0.0.1:9")).unwrap();
    socket.connect(at("10.0.0.2:7")).unwrap();
    socket.send(b"a").unwrap();
    socket.send_to(b"b", at("10.0.0.3:8")).unwrap();
    socket.send(b"a").unwrap();
    let to = |peer, payload: &[u8]| udp_frame(at("10.0.0.1:9"), at(peer), OUR_MAC, PEER_MAC, payload);
    assert_eq!(rig.sent(), [to("10.0.0.2:7", b"a"), to("10.0.0.3:8", b"b"), to("10.0.0.2:7", b"a")]);
    socket.connect(at("10.0.0.3:8")).unwrap();
    socket.send(b"c").unwrap();
    assert_eq!(rig.sent(), [to("10.0.0.3:8", b"c")]);
}

#[test]
fn more_destinations_than_a_socket_remembers() {
    let rig = rig();
    let socket = UdpSocket::bind(&rig.ns, at("10.0.0.1:9")).unwrap();
    for _ in 0..2 {
        for port in 1..100 {
            let peer = format!("10.0.0.2:{port}");
            socket.send_to(b"x", at(&peer)).unwrap();
            assert_eq!(rig.sent(), [udp_frame(at("10.0.0.1:9"), at(&peer), OUR_MAC, PEER_MAC, b"x")]);
        }
    }
}

#[test]
fn errors() {
    let rig = rig();
    let socket = UdpSocket::bind(&rig.ns, at("0.0.0.0:9")).unwrap();
    let send = |peer: &str, len: usize| socket.send_to(&vec![0; len], at(peer));
    socket.set_mtu_discovery(MtuDiscovery::Do).unwrap();
    assert_eq!(send("10.0.0.2:1", 1472).unwrap(), 1472);
    assert_eq!(code(send("10.0.0.2:1", 1473)), libc::EMSGSIZE);
    assert_eq!(code(send("10.0.0.2:0", 1)), libc::EINVAL);
    assert_eq!(code(send("10.0.0.255:1", 1)), libc::EACCES);
    assert_eq!(code(send("10.9.9.9:1", 1)), libc::ENETUNREACH);
    assert_eq!(code(send("[fd00::2]:1", 1)), libc::EAFNOSUPPORT);
    let v6 = UdpSocket::builder().only_v6(true).bind(&rig.ns, at("[::]:9")).unwrap();
    v6.set_mtu_discovery(MtuDiscovery::Probe).unwrap();
    assert_eq!(v6.send_to(&[0; 1452], at("[fd00::2]:1")).unwrap(), 1452);
    assert_eq!(code(v6.send_to(&[0; 1453], at("[fd00::2]:1"))), libc::EMSGSIZE);
    assert_eq!(rig.sent().len(), 2);
    rig.device.full.store(true, Relaxed);
    assert_eq!(code(send("10.0.0.2:1", 1)), libc::ENOBUFS);
    socket.set_nonblocking(true).unwrap();
    assert_eq!(code(send("10.0.0.2:1", 1)), libc::EAGAIN);
    rig.device.down.store(true, Relaxed);
    assert_eq!(code(send("10.0.0.2:1", 1)), libc::ENETDOWN);
    assert_eq!(rig.ns.counters().udp_sndbuf_errors, 2);
}

#[test]
#[should_panic(expected = "longer than the slice")]
fn a_builder_that_overruns_panics() {
    let rig = rig();
    let socket = UdpSocket::bind(&rig.ns, at("0.0.0.0:9")).unwrap();
    let _ = socket.send_with(Some(at("10.0.0.2:1")), 4, |_| 5);
}

#[test]
fn the_longest_prefix_and_the_scope_choose_the_device() {
    let rig = Rig::new();
    let near = device(4, &[("10.0.0.129", 25), ("fe80::9", 64)]);
    rig.ns.device_add(near.clone()).unwrap();
    for addr in ["10.0.0.200", "fe80::2"] {
        rig.ns.neighbour_add(4, addr.parse().unwrap(), PEER_MAC).unwrap();
    }
    rig.ns.neighbour_add(IFINDEX, "10.0.0.100".parse().unwrap(), PEER_MAC).unwrap();
    let sent = |wanted: &str, from: &str| {
        let frames = [rig.sent(), std::mem::take(&mut *near.sent.lock().unwrap())];
        let want = udp_frame(at(from), at(wanted), OUR_MAC, PEER_MAC, b"x");
        frames.map(|f| f == [want.clone()])
    };
    let v4 = UdpSocket::bind(&rig.ns, at("0.0.0.0:9")).unwrap();
    v4.send_to(b"x", at("10.0.0.200:1")).unwrap();
    assert_eq!(sent("10.0.0.200:1", "10.0.0.129:9"), [false, true]);
    v4.send_to(b"x", at("10.0.0.100:1")).unwrap();
    assert_eq!(sent("10.0.0.100:1", "10.0.0.1:9"), [true, false]);
    let v6 = UdpSocket::builder().only_v6(true).bind(&rig.ns, at("[::]:9")).unwrap();
    v6.send_to(b"x", at("[fe80::2%4]:1")).unwrap();
    assert_eq!(sent("[fe80::2]:1", "[fe80::9]:9"), [false, true]);
    // The device goes: its paths are forgotten at once.
    rig.ns.device_del(4).unwrap();
    assert_eq!(code(v6.send_to(b"x", at("[fe80::2%4]:1"))), libc::ENETUNREACH);
    v4.send_to(b"x", at("10.0.0.200:1")).unwrap();
    assert_eq!(near.sent.lock().unwrap().len(), 0);
}

#[test]
fn an_unknown_neighbour_is_asked_and_gets_what_waited() {
    let mut rig = Rig::new();
    let socket = UdpSocket::bind(&rig.ns, at("10.0.0.1:9")).unwrap();
    socket.send_to(b"first", at("10.0.0.2:7")).unwrap();
    socket.send_to(b"second", at("10.0.0.2:7")).unwrap();
    let mut sent = rig.sent();
    assert_eq!(sent.len(), 1, "one question, no datagram");
    let question = sent.remove(0);
    assert_eq!(question[..6], [0xff; 6]);
    let ArpRepr::EthernetIpv4 { operation, source_protocol_addr, target_protocol_addr, .. } =
        ArpRepr::parse(&ArpPacket::new_checked(&question[14..]).unwrap()).unwrap()
    else {
        panic!("ARP");
    };
    assert_eq!(operation, ArpOperation::Request);
    assert_eq!((source_protocol_addr.octets(), target_protocol_addr.octets()), ([10, 0, 0, 1], [10, 0, 0, 2]));
    let reply = ArpRepr::EthernetIpv4 {
        operation: ArpOperation::Reply,
        source_hardware_addr: EthernetAddress(PEER_MAC),
        source_protocol_addr: target_protocol_addr,
        target_hardware_addr: EthernetAddress(OUR_MAC),
        target_protocol_addr: source_protocol_addr,
    };
    let mut frame = vec![0; 42];
    frame[..6].copy_from_slice(&OUR_MAC);
    frame[12..14].copy_from_slice(&[8, 6]);
    reply.emit(&mut ArpPacket::new_unchecked(&mut frame[14..]));
    rig.inject(&frame);
    let to_peer = |payload: &[u8]| udp_frame(at("10.0.0.1:9"), at("10.0.0.2:7"), OUR_MAC, PEER_MAC, payload);
    assert_eq!(rig.sent(), [to_peer(b"first"), to_peer(b"second")]);
    socket.send_to(b"third", at("10.0.0.2:7")).unwrap();
    assert_eq!(rig.sent(), [to_peer(b"third")]);
    let counters = rig.ns.counters();
    assert_eq!((counters.neigh_probes, counters.neigh_unresolved_discards), (1, 0));
    rig.assert_home(0);
}

#[test]
fn neighbour_discovery_asks_by_the_solicited_node_group() {
    let mut rig = Rig::new();
    let socket = UdpSocket::bind(&rig.ns, at("[::]:9")).unwrap();
    socket.connect(at("[fd00::abc:2]:7")).unwrap();
    socket.send(b"x").unwrap();
    let question = rig.sent().remove(0);
    let ethernet = EthernetFrame::new_checked(&question[..]).unwrap();
    assert_eq!(ethernet.dst_addr().0, [0x33, 0x33, 0xff, 0xbc, 0, 2]);
    let packet = Ipv6Packet::new_checked(ethernet.payload()).unwrap();
    assert_eq!(packet.dst_addr(), "ff02::1:ffbc:2".parse::<std::net::Ipv6Addr>().unwrap());
    assert_eq!(packet.hop_limit(), 255);
    let caps = smoltcp::phy::ChecksumCapabilities::default();
    let icmp = Icmpv6Packet::new_checked(packet.payload()).unwrap();
    let repr = Icmpv6Repr::parse(&packet.src_addr(), &packet.dst_addr(), &icmp, &caps).unwrap();
    let target_addr = "fd00::abc:2".parse().unwrap();
    let lladdr = Some(EthernetAddress(OUR_MAC).into());
    assert_eq!(repr, Icmpv6Repr::Ndisc(NdiscRepr::NeighborSolicit { target_addr, lladdr }));
    // The answer.
    let lladdr = Some(EthernetAddress(PEER_MAC).into());
    let advert =
        Icmpv6Repr::Ndisc(NdiscRepr::NeighborAdvert { flags: NdiscNeighborFlags::SOLICITED, target_addr, lladdr });
    let mut frame = vec![0; 54 + advert.buffer_len()];
    frame[..6].copy_from_slice(&OUR_MAC);
    frame[12..14].copy_from_slice(&[0x86, 0xdd]);
    let ip = smoltcp::wire::Ipv6Repr {
        src_addr: target_addr,
        dst_addr: packet.src_addr(),
        next_header: smoltcp::wire::IpProtocol::Icmpv6,
        payload_len: advert.buffer_len(),
        hop_limit: 255,
    };
    let mut out = Ipv6Packet::new_unchecked(&mut frame[14..]);
    ip.emit(&mut out);
    advert.emit(&ip.src_addr, &ip.dst_addr, &mut Icmpv6Packet::new_unchecked(out.payload_mut()), &caps);
    rig.inject(&frame);
    assert_eq!(rig.sent(), [udp_frame(at("[fd00::1]:9"), at("[fd00::abc:2]:7"), OUR_MAC, PEER_MAC, b"x")]);
}

#[test]
fn a_new_neighbour_address_reaches_connected_sockets() {
    let rig = rig();
    let socket = UdpSocket::bind(&rig.ns, at("10.0.0.1:9")).unwrap();
    socket.connect(at("10.0.0.2:7")).unwrap();
    socket.send(b"x").unwrap();
    rig.ns.neighbour_add(IFINDEX, "10.0.0.2".parse().unwrap(), [2, 7, 7, 7, 7, 7]).unwrap();
    socket.send(b"x").unwrap();
    assert_eq!(rig.sent()[1][..6], [2, 7, 7, 7, 7, 7]);
    rig.ns.neighbour_del(IFINDEX, "10.0.0.2".parse().unwrap()).unwrap();
    socket.send(b"x").unwrap();
    assert_eq!(rig.sent()[0][12..14], [8, 6], "asked for");
    rig.ns.neighbour_add(IFINDEX, "10.0.0.2".parse().unwrap(), PEER_MAC).unwrap();
    assert_eq!(rig.sent(), [udp_frame(at("10.0.0.1:9"), at("10.0.0.2:7"), OUR_MAC, PEER_MAC, b"x")]);
}

#[test]
fn neighbours_that_cannot_be_are_refused() {
    let rig = Rig::new();
    let add = |ifindex, addr: &str, mac| rig.ns.neighbour_add(ifindex, addr.parse().unwrap(), mac);
    assert_eq!(add(99, "10.0.0.2", PEER_MAC), Err(NeighbourError::NoDevice { ifindex: 99 }));
    assert!(matches!(add(IFINDEX, "224.0.0.1", PEER_MAC), Err(NeighbourError::NotUnicast { .. })));
    assert!(add(IFINDEX, "10.0.0.2", [0xff; 6]).unwrap_err().to_string().contains("ff:ff:ff:ff:ff:ff"));
    let missing = rig.ns.neighbour_del(IFINDEX, "10.0.0.2".parse().unwrap());
    assert!(matches!(missing, Err(NeighbourError::NotFound { ifindex: IFINDEX, .. })));
}

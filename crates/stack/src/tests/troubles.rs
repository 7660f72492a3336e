//! What is said about the packets of others.

use napier_core::fragments::expires_after;
use napier_core::icmp::answers::Trouble;
use napier_sys::clock::Clock;
use smoltcp::wire::{EthernetAddress, EthernetFrame, Icmpv4Packet, Icmpv6Packet, Ipv4Packet, Ipv6Packet};

use super::fragments::{V4, V6, payload, pieces};
use super::receive::open;
use crate::tables::answer::tell_sender;
use crate::testing::{OUR_MAC, PEER_MAC, Rig, at, udp, udp_frame};
use crate::wire::checksum::Sum;

/// Type, code and what is quoted by an error that goes back to the peer: all of it is looked at.
fn error(frame: &[u8]) -> (u8, u8, Vec<u8>) {
    let ethernet = EthernetFrame::new_checked(frame).unwrap();
    assert_eq!((ethernet.src_addr(), ethernet.dst_addr()), (EthernetAddress(OUR_MAC), EthernetAddress(PEER_MAC)));
    let (body, v4) = (ethernet.payload(), frame[12..14] == [8, 0]);
    let icmp = if v4 {
        let ip = Ipv4Packet::new_checked(body).unwrap();
        assert!(ip.verify_checksum());
        assert_eq!((ip.src_addr().to_string(), ip.dst_addr().to_string()), ("10.0.0.1".into(), "10.0.0.2".into()));
        assert!(ip.total_len() <= 576);
        assert!(Icmpv4Packet::new_checked(ip.payload()).unwrap().verify_checksum());
        ip.payload().to_vec()
    } else {
        let ip = Ipv6Packet::new_checked(body).unwrap();
        let (src, dst) = (ip.src_addr(), ip.dst_addr());
        assert_eq!((src.to_string(), dst.to_string()), ("fd00::1".into(), "fd00::2".into()));
        assert!(ip.total_len() <= 1280);
        assert!(Icmpv6Packet::new_checked(ip.payload()).unwrap().verify_checksum(&src, &dst));
        ip.payload().to_vec()
    };
    assert_eq!(icmp[4..8], [0; 4]);
    (icmp[0], icmp[1], icmp[8..].to_vec())
}

#[test]
fn a_datagram_that_no_socket_takes_is_answered() {
    let mut rig = Rig::new();
    for (peer, own, told, most) in [(V4.0, V4.1, (3, 3), 548), (V6.0, V6.1, (1, 4), 1232)] {
        for len in [0, 9, 1400] {
            let frame = udp(peer, own, &payload(len));
            rig.inject(&frame);
            let sent = rig.sent();
            let (kind, code, quoted) = error(&sent[0]);
            assert_eq!((sent.len(), (kind, code)), (1, told));
            assert_eq!(quoted, frame[14..].iter().copied().take(most).collect::<Vec<_>>());
        }
    }
    let c = rig.ns.counters();
    assert_eq!((c.icmp_out_dest_unreachs, c.icmp6_out_dest_unreachs), (3, 3));
    assert_eq!((c.udp_no_ports, c.udp6_no_ports), (3, 3));
    // A socket there, and then none again.
    let socket = open(&rig, V4.1);
    rig.inject(&udp(V4.0, V4.1, b"x"));
    assert!(rig.sent().is_empty());
    drop(socket);
    // One that came in pieces is answered as a whole.
    let whole = udp(V4.0, V4.1, &payload(2000));
    pieces(&whole, 7, 1480).iter().for_each(|frame| rig.inject(frame));
    let (kind, code, quoted) = error(&rig.sent()[0]);
    assert_eq!((kind, code, &quoted[20..]), (3, 3, &whole[34..34 + 528]));
    rig.assert_home(0);
}

#[test]
fn a_datagram_for_another_interface_of_its_socket_is_answered() {
    let mut rig = Rig::new();
    rig.ns.device_add(crate::testing::device(4, &[("10.1.0.1", 24)])).unwrap();
    let socket = open(&rig, "0.0.0.0:9");
    socket.bind_interface(4).unwrap();
    rig.inject(&udp(V4.0, V4.1, b"x"));
    assert_eq!(error(&rig.sent()[0]).0, 3);
}

#[test]
fn what_is_not_of_one_station_for_one_of_our_ports_is_not_answered() {
    let mut rig = Rig::new();
    let own = at("10.0.0.1:9");
    let from = |src: &str, src_mac, dst_mac| udp_frame(at(src), own, src_mac, dst_mac, b"x");
    for (src, src_mac, dst_mac) in [
        ("10.0.0.2:7", PEER_MAC, [0xff; 6]),
        ("10.0.0.2:7", PEER_MAC, [1, 0, 94, 0, 0, 1]),
        ("10.0.0.2:7", [1, 0, 0, 0, 0, 2], OUR_MAC),
        ("10.0.0.2:7", [0; 6], OUR_MAC),
        ("10.0.0.255:7", PEER_MAC, OUR_MAC),
        ("255.255.255.255:7", PEER_MAC, OUR_MAC),
        ("240.0.0.1:7", PEER_MAC, OUR_MAC),
        ("0.0.0.0:7", PEER_MAC, OUR_MAC),
        ("127.0.0.1:7", PEER_MAC, OUR_MAC),
        ("10.0.0.1:7", PEER_MAC, OUR_MAC),
    ] {
        rig.inject(&from(src, src_mac, dst_mac));
        assert!(rig.sent().is_empty(), "{src} {src_mac:?} {dst_mac:?}");
    }
    for src in ["[::]:7", "[fd00::1]:7"] {
        rig.inject(&udp(src, V6.1, b"x"));
    }
    for dst in ["10.0.0.255:9", "224.0.0.1:9", "10.0.0.9:9"] {
        rig.inject(&udp("10.0.0.2:7", dst, b"x"));
    }
    let mut wrong = udp(V4.0, V4.1, b"payload");
    *wrong.last_mut().unwrap() ^= 1;
    rig.inject(&wrong);
    assert!(rig.sent().is_empty());
    let c = rig.ns.counters();
    assert_eq!((c.icmp_out_dest_unreachs, c.icmp_out_rate_limit_host, c.icmp_out_rate_limit_global), (0, 0, 0));
    rig.inject(&from("10.0.0.2:7", PEER_MAC, OUR_MAC));
    assert_eq!(rig.sent().len(), 1);
}

#[test]
fn errors_have_a_limit_and_are_counted_beyond_it() {
    let mut rig = Rig::new();
    (0..2000).for_each(|_| rig.inject(&udp(V4.0, V4.1, b"")));
    let c = rig.ns.counters();
    let (sent, limited) = (c.icmp_out_dest_unreachs, c.icmp_out_rate_limit_host + c.icmp_out_rate_limit_global);
    assert_eq!((sent + limited, rig.sent().len() as u64), (2000, sent));
    assert!(sent >= 6 && limited > 1000, "{sent} {limited}");
    rig.assert_home(0);
}

#[test]
fn a_packet_whose_rest_does_not_come_is_told_of_if_it_has_begun() {
    for ((peer, own), told, most) in [(V4, (11, 1), 548), (V6, (3, 1), 1232)] {
        let mut rig = Rig::new();
        let all = pieces(&udp(peer, own, &payload(3000)), 7, 1480);
        rig.inject(&all[0]);
        // Of these the first has not come.
        let other = pieces(&udp(peer, own, &payload(3000)), 8, 1480);
        rig.inject(&other[1]);
        let (tables, late) = (rig.ns.tables(), Clock.now() + expires_after(false) + expires_after(false));
        let overdue = tables.reassembly.age(&tables.counters, late);
        assert_eq!(overdue.len(), 1);
        let devices = tables.snapshot.load().devices.clone();
        let interface = devices.interface(overdue[0].ifindex).unwrap();
        tell_sender(tables, (&devices, interface), &overdue[0].frame, Trouble::NotWhole, late);
        let sent = rig.sent();
        let (kind, code, quoted) = error(&sent[0]);
        assert_eq!((sent.len(), (kind, code)), (1, told));
        assert_eq!(quoted, all[0][14..].iter().copied().take(most).collect::<Vec<_>>());
        assert!(tables.reassembly.age(&tables.counters, late).is_empty(), "once");
        let c = rig.ns.counters();
        assert_eq!(c.icmp_out_time_excds + c.icmp6_out_time_excds, 1);
    }
}

#[test]
fn errors_are_not_told_of() {
    let rig = Rig::new();
    let tables = rig.ns.tables();
    let devices = tables.snapshot.load().devices.clone();
    let interface = devices.interface(crate::testing::IFINDEX).unwrap();
    let mut frame = udp(V4.0, V4.1, &[0; 40]);
    for (protocol, kind, expected) in [(17, 3, 1), (1, 8, 1), (1, 3, 0), (1, 11, 0), (1, 255, 0)] {
        (frame[23], frame[34]) = (protocol, kind);
        frame[24..26].fill(0);
        let sum = Sum::ZERO.bytes(&frame[14..34]).field();
        frame[24..26].copy_from_slice(&sum);
        tell_sender(tables, (&devices, interface), &frame, Trouble::NotWhole, Clock.now());
        assert_eq!(rig.sent().len(), expected, "{protocol} {kind}");
    }
    // Nor what is cut anywhere.
    (14..34).for_each(|len| tell_sender(tables, (&devices, interface), &frame[..len], Trouble::NotWhole, Clock.now()));
    assert!(rig.sent().is_empty());
}

//! Packets that are sent in pieces.

use napier_sys::clock::Clock;

use super::fragments::{V4, V6, counted, payload, pieces};
use super::receive::open;
use crate::testing::{IFINDEX, PEER_MAC, Rig, at, udp};
use crate::wire::checksum::Sum;
use crate::wire::fragment::Fragment;
use crate::{MtuDiscovery, UdpSocket};

#[test]
fn an_echo_that_is_too_long_for_a_packet_is_answered_in_pieces() {
    let mut rig = Rig::new();
    for (peer, own, protocol, at_, request, answer) in
        [("10.0.0.2:8", "10.0.0.1:0", 23, 34, 8, 0), ("[fd00::2]:8", "[fd00::1]:0", 20, 54, 128, 129)]
    {
        let mut frame = udp(peer, own, &payload(3000));
        frame[protocol] = if at_ == 34 { 1 } else { 58 };
        frame[at_..at_ + 8].copy_from_slice(&[request, 0, 0, 0, 0, 1, 0, 1]);
        let len = (frame.len() - at_) as u16;
        let begin = if at_ == 34 { Sum::ZERO } else { Sum::ZERO.bytes(&frame[22..54]).number(58).number(len) };
        let sum = begin.bytes(&frame[at_..]).field();
        frame[at_ + 2..at_ + 4].copy_from_slice(&sum);
        pieces(&frame, 7, 1200).iter().for_each(|frame| rig.inject(frame));
        let sent = rig.sent();
        assert_eq!(sent.len(), 3, "{peer}");
        let tables = rig.ns.tables();
        let mut whole = Vec::new();
        for frame in &sent {
            let fragment = Fragment::read(frame, at_, frame.len(), IFINDEX).unwrap();
            whole.extend(tables.reassembly.take(&rig.host.frames, &tables.counters, (frame, fragment), Clock.now()));
        }
        let (whole, len) = whole.pop().expect("they fit together");
        let bytes = rig.host.frames.data(&whole, len as usize);
        assert_eq!((bytes.len(), bytes[at_]), (at_ + 8 + 3000, answer));
        assert!(bytes[at_ + 8..] == payload(3000)[..]);
        rig.host.frames.give_back(whole);
    }
    rig.assert_home(0);
}

#[test]
fn long_datagrams_are_cut_and_read_again() {
    for (peer, own) in [V4, V6] {
        let mut rig = Rig::new();
        rig.know_peers();
        let sender = UdpSocket::bind(&rig.ns, at(own)).unwrap();
        for len in [1472, 1473, 2952, 9000, 65_507] {
            let bytes = payload(len);
            assert_eq!(sender.send_to(&bytes, at(peer)).unwrap(), len);
            let sent = rig.sent();
            let body = if own == V4.1 { 1480 } else { 1448 };
            let expected = if len == 1472 && own == V4.1 { 1 } else { (len + 8).div_ceil(body) };
            assert_eq!(sent.len(), expected, "{len}");
            assert!(sent.iter().all(|frame| frame.len() <= 1514 && frame[..6] == PEER_MAC));
            for frame in sent {
                rig.inject(&returned(frame));
            }
            // No socket has that port, and the sender is told so.
            let _ = rig.sent();
        }
        assert_eq!(counted(&rig, own == V4.1).2, 0);
        let c = rig.ns.counters();
        let (cut, pieces) =
            if own == V4.1 { (c.ip_frag_oks, c.ip_frag_creates) } else { (c.ip6_frag_oks, c.ip6_frag_creates) };
        assert_eq!(counted(&rig, own == V4.1), (pieces, cut, 0));
    }
}

/// A frame of ours as if the peer had sent it: addresses change places, ports stay.
fn returned(mut frame: Vec<u8>) -> Vec<u8> {
    let (from, len) = if frame[14] >> 4 == 4 { (26, 4) } else { (22, 16) };
    let (src, dst) = (frame[from..from + len].to_vec(), frame[from + len..from + 2 * len].to_vec());
    frame[from..from + len].copy_from_slice(&dst);
    frame[from + len..from + 2 * len].copy_from_slice(&src);
    let (to, at) = (frame[..6].to_vec(), frame[6..12].to_vec());
    frame[..6].copy_from_slice(&at);
    frame[6..12].copy_from_slice(&to);
    frame
}

#[test]
fn what_comes_back_is_what_was_sent() {
    for (peer, own) in [V4, V6] {
        let mut rig = Rig::new();
        rig.know_peers();
        let sender = UdpSocket::bind(&rig.ns, at(own)).unwrap();
        let receiver = open(&rig, &own.replace(":9", ":77"));
        for len in [1473, 9000, 65_507] {
            let bytes = payload(len);
            sender.send_to(&bytes, at(peer)).unwrap();
            let mut sent = rig.sent();
            sent.reverse();
            sent.into_iter().for_each(|frame| rig.inject(&returned(frame)));
            let mut buffer = vec![0; 1 << 16];
            assert_eq!(receiver.recv_from(&mut buffer).unwrap(), (len, at(&peer.replace(":77", ":9"))));
            assert!(buffer[..len] == bytes[..]);
        }
        rig.assert_home(0);
    }
}

#[test]
fn pieces_wait_for_a_neighbour_together() {
    let mut rig = Rig::new();
    let socket = UdpSocket::bind(&rig.ns, at("10.0.0.1:9")).unwrap();
    socket.send_to(&payload(4000), at("10.0.0.2:77")).unwrap();
    assert_eq!(rig.sent().len(), 1, "the question");
    let us = smoltcp::wire::Ipv4Address::new(10, 0, 0, 1);
    let them = smoltcp::wire::Ipv4Address::new(10, 0, 0, 2);
    rig.inject(&crate::testing::arp(smoltcp::wire::ArpOperation::Reply, them, PEER_MAC, us));
    assert_eq!(rig.sent().len(), 3);
    assert_eq!((rig.ns.counters().ip_frag_creates, rig.ns.counters().neigh_unresolved_discards), (3, 0));
}

#[test]
fn a_datagram_that_is_built_in_place_may_turn_out_short() {
    let rig = Rig::new();
    rig.know_peers();
    let socket = UdpSocket::bind(&rig.ns, at("10.0.0.1:9")).unwrap();
    let built = socket.send_with(Some(at("10.0.0.2:77")), 9000, |slot| {
        assert_eq!(slot.len(), 9000);
        slot[..3].copy_from_slice(b"abc");
        3
    });
    assert_eq!(
        (built.unwrap(), rig.sent()),
        (
            3,
            vec![crate::testing::udp_frame(
                at("10.0.0.1:9"),
                at("10.0.0.2:77"),
                crate::testing::OUR_MAC,
                PEER_MAC,
                b"abc",
            )]
        )
    );
    let code = |len| socket.send_to(&vec![0; len], at("10.0.0.2:77")).err().and_then(|error| error.raw_os_error());
    assert_eq!([code(65_507), code(65_508)], [None, Some(libc::EMSGSIZE)]);
    socket.set_mtu_discovery(MtuDiscovery::Do).unwrap();
    assert_eq!(code(1473), Some(libc::EMSGSIZE));
    assert_eq!(socket.mtu_discovery().unwrap(), MtuDiscovery::Do);
    // A device that takes nothing: no piece is sent, and the whole is an error.
    socket.set_mtu_discovery(MtuDiscovery::Want).unwrap();
    socket.set_nonblocking(true).unwrap();
    rig.device.full.store(true, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(code(4000), Some(libc::EAGAIN));
    assert_eq!(rig.ns.counters().ip_frag_fails, 1);
    // One that takes the first: to send the whole again is of no use.
    rig.device.full.store(false, std::sync::atomic::Ordering::Relaxed);
    rig.sent();
    rig.device.full_after.store(1, std::sync::atomic::Ordering::Relaxed);
    socket.inner().send_buffer.want_nothing();
    assert_eq!((code(4000), code(4000), rig.sent().len()), (Some(libc::ENOBUFS), Some(libc::EAGAIN), 1));
}

//! What routers and hosts say of datagrams.

use std::net::IpAddr;

use napier_testkit::eventually;

use crate::testing::{IFINDEX, Rig, at, icmp_error, udp};
use crate::{MtuDiscovery, SocketOption, UdpSocket};

fn code<T: std::fmt::Debug>(result: std::io::Result<T>) -> Option<i32> {
    result.err().map(|error| error.raw_os_error().expect("a number"))
}

/// A socket that has sent one datagram, and the frame.
fn sender(rig: &Rig, own: &str, peer: &str, connected: bool) -> (UdpSocket, Vec<u8>) {
    let socket = UdpSocket::bind(&rig.ns, at(own)).unwrap();
    socket.set_nonblocking(true).unwrap();
    if connected {
        socket.connect(at(peer)).unwrap();
        socket.send(b"question").unwrap();
    } else {
        socket.send_to(b"question", at(peer)).unwrap();
    }
    let frame = rig.sent().remove(0);
    (socket, frame)
}

#[test]
fn a_connected_socket_hears_of_refusals() {
    let mut rig = Rig::new();
    rig.know_peers();
    for (own, peer, message, expected) in [
        ("10.0.0.1:9", "10.0.0.2:7", [3, 3], libc::ECONNREFUSED),
        ("10.0.0.1:9", "10.0.0.2:7", [3, 13], libc::EHOSTUNREACH),
        ("[fd00::1]:9", "[fd00::2]:7", [1, 4], libc::ECONNREFUSED),
        ("[fd00::1]:9", "[fd00::2]:7", [1, 1], libc::EACCES),
    ] {
        let (socket, frame) = sender(&rig, own, peer, true);
        let error = icmp_error(message, [0; 4], &frame);
        rig.inject(&error);
        // What has come can be read afterwards.
        rig.inject(&udp(peer, own, b"answer"));
        assert_eq!(code(socket.recv(&mut [0; 9])), Some(expected), "{message:?}");
        assert_eq!(socket.recv(&mut [0; 9]).unwrap(), 6);
        rig.inject(&error);
        assert_eq!(code(socket.send(b"again")), Some(expected));
        assert_eq!(socket.send(b"again").unwrap(), 5);
        rig.inject(&error);
        assert_eq!(socket.take_error().unwrap().unwrap().raw_os_error(), Some(expected));
        assert!(socket.take_error().unwrap().is_none());
        let _ = rig.sent();
    }
    rig.assert_home(0);
}

#[test]
fn passing_trouble_and_unconnected_sockets_hear_nothing() {
    let mut rig = Rig::new();
    rig.know_peers();
    let (socket, frame) = sender(&rig, "10.0.0.1:9", "10.0.0.2:7", true);
    for soft in [[3, 0], [3, 1], [11, 0]] {
        rig.inject(&icmp_error(soft, [0; 4], &frame));
    }
    assert!(socket.take_error().unwrap().is_none());
    // Unless it wants to hear all.
    socket.set_recverr(true);
    rig.inject(&icmp_error([3, 1], [0; 4], &frame));
    assert_eq!(code(socket.recv(&mut [0; 9])), Some(libc::EHOSTUNREACH));
    let (socket, frame) = sender(&rig, "10.0.0.1:10", "10.0.0.2:7", false);
    rig.inject(&icmp_error([3, 3], [0; 4], &frame));
    assert!(socket.take_error().unwrap().is_none());
    socket.set_recverr(true);
    rig.inject(&icmp_error([3, 3], [0; 4], &frame));
    assert_eq!(code(socket.send_to(b"x", at("10.0.0.2:7"))), Some(libc::ECONNREFUSED));
    let counters = rig.ns.counters();
    assert_eq!((counters.icmp_in_dest_unreachs, counters.icmp_in_time_excds, counters.icmp_in_errors), (5, 1, 0));
    // A packet that nobody here has sent.
    let mut foreign = frame.clone();
    foreign[14 + 20 + 1] ^= 0xff;
    rig.inject(&icmp_error([3, 3], [0; 4], &foreign));
    assert_eq!(rig.ns.counters().icmp_in_errors, 1);
}

#[test]
fn a_blocked_receive_is_woken_by_a_refusal() {
    let mut rig = Rig::new();
    rig.know_peers();
    let (socket, frame) = sender(&rig, "10.0.0.1:9", "10.0.0.2:7", true);
    socket.set_nonblocking(false).unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| code(socket.recv(&mut [0; 9])));
        std::thread::sleep(std::time::Duration::from_millis(20));
        rig.inject(&icmp_error([3, 3], [0; 4], &frame));
        eventually("it is woken", || waits.is_finished());
        assert_eq!(waits.join().unwrap(), Some(libc::ECONNREFUSED));
    });
}

#[test]
fn an_event_context_sees_the_error() {
    let mut rig = Rig::new();
    rig.know_peers();
    let (socket, frame) = sender(&rig, "10.0.0.1:9", "10.0.0.2:7", true);
    use crate::event::{Interest, Watchable};
    assert!(!socket.watched().ready().intersects(Interest::ERR));
    rig.inject(&icmp_error([3, 3], [0; 4], &frame));
    assert!(socket.watched().ready().intersects(Interest::ERR));
    let _ = socket.take_error();
    assert!(!socket.watched().ready().intersects(Interest::ERR));
}

#[test]
fn a_datagram_that_is_too_long_for_the_path_is_refused() {
    let mut rig = Rig::new();
    rig.know_peers();
    for (own, peer, too_big, most) in [
        ("0.0.0.0:9", "10.0.0.2:7", ([3, 4], [0, 0, 4, 0xb0]), 1200 - 28),
        ("[::]:9", "[fd00::2]:7", ([2, 0], [0, 0, 5, 0]), 1280 - 48),
    ] {
        let socket = UdpSocket::builder().only_v6(true).bind(&rig.ns, at(own)).unwrap();
        socket.set_mtu_discovery(MtuDiscovery::Do).unwrap();
        socket.send_to(&[1; 1400], at(peer)).unwrap();
        let frame = rig.sent().remove(0);
        let (message, rest) = too_big;
        rig.inject(&icmp_error(message, rest, &frame));
        assert_eq!(code(socket.send_to(&vec![1; most + 1], at(peer))), Some(libc::EMSGSIZE));
        assert_eq!(socket.send_to(&vec![1; most], at(peer)).unwrap(), most);
        // Another host is another path.
        let other = peer.replace("0.2:", "0.3:");
        if other != peer {
            assert_eq!(socket.send_to(&[1; 1400], at(&other)).unwrap(), 1400);
        }
        let _ = rig.sent();
    }
    assert_eq!(rig.ns.counters().path_mtu_lowered, 2);
}

#[test]
fn what_others_forge_costs_a_bounded_number_of_changes() {
    use std::sync::atomic::Ordering;
    let mut rig = Rig::new();
    rig.know_peers();
    let socket = UdpSocket::bind(&rig.ns, at("10.0.0.1:9")).unwrap();
    socket.send_to(&[1; 1400], at("10.0.0.2:7")).unwrap();
    let mut frame = rig.sent().remove(0);
    let (before, begun) = (rig.ns.tables().generation.load(Ordering::Relaxed), std::time::Instant::now());
    for number in 0..5000_u32 {
        let [_, _, c, d] = number.to_be_bytes();
        frame[14 + 18..14 + 20].copy_from_slice(&[c, d]);
        rig.inject(&icmp_error([3, 4], [0, 0, 4, 0xb0], &frame));
    }
    let changes = rig.ns.tables().generation.load(Ordering::Relaxed) - before;
    let most = 256 + 100 * (begun.elapsed().as_secs() + 1);
    assert!(changes <= most, "{changes} changes");
}

#[test]
fn every_message_is_acted_on_or_counted() {
    let mut rig = Rig::new();
    rig.know_peers();
    let (_socket, frame) = sender(&rig, "10.0.0.1:9", "10.0.0.2:7", false);
    for kind in 0..=255 {
        rig.inject(&icmp_error([kind, 0], [0; 4], &frame));
    }
    let c = rig.ns.counters();
    let named = [
        c.icmp_in_echos,
        c.icmp_in_echo_reps,
        c.icmp_in_dest_unreachs,
        c.icmp_in_time_excds,
        c.icmp_in_parm_probs,
        c.icmp_in_redirects,
        c.icmp_in_others,
    ];
    assert_eq!(c.icmp_in_msgs, 256);
    assert_eq!(named.iter().sum::<u64>(), 256, "{named:?}");
    assert_eq!(named[..6], [1; 6]);
    let _ = rig.sent();
    let (_socket, frame) = sender(&rig, "[fd00::1]:9", "[fd00::2]:7", false);
    for kind in 0..=255 {
        rig.inject(&icmp_error([kind, 0], [0; 4], &frame));
    }
    let c = rig.ns.counters();
    let named = [
        c.icmp6_in_echos,
        c.icmp6_in_echo_replies,
        c.icmp6_in_dest_unreachs,
        c.icmp6_in_pkt_too_bigs,
        c.icmp6_in_time_excds,
        c.icmp6_in_parm_problems,
        c.icmp6_in_neighbor_solicits,
        c.icmp6_in_neighbor_advertisements,
        c.icmp6_in_router_advertisements,
        c.icmp6_in_redirects,
        c.icmp6_in_others,
    ];
    assert_eq!((c.icmp6_in_msgs, named.iter().sum::<u64>()), (256, 256), "{named:?}");
    assert_eq!(named[..10], [1; 10]);
}

#[test]
fn a_device_that_takes_other_packets_now() {
    let rig = Rig::new();
    rig.know_peers();
    let socket = UdpSocket::bind(&rig.ns, at("10.0.0.1:9")).unwrap();
    socket.setsockopt(SocketOption::SndBuf, 1 << 20).unwrap();
    socket.set_mtu_discovery(MtuDiscovery::Do).unwrap();
    assert_eq!(socket.send_to(&[1; 1472], at("10.0.0.2:7")).unwrap(), 1472);
    rig.device.mtu.store(1300, std::sync::atomic::Ordering::Relaxed);
    rig.ns.device_changed(IFINDEX);
    assert_eq!(code(socket.send_to(&[1; 1273], at("10.0.0.2:7"))), Some(libc::EMSGSIZE));
    assert_eq!(socket.send_to(&[1; 1272], at("10.0.0.2:7")).unwrap(), 1272);
    assert_eq!(rig.ns.neighbour(IFINDEX, "10.0.0.2".parse::<IpAddr>().unwrap()), Some(crate::testing::PEER_MAC));
}

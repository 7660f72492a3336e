//! Sockets of both families, and which sockets are in each other's way.

use std::io::ErrorKind;
use std::net::SocketAddr;

use super::receive::open;
use crate::testing::{NAPI, OUR_MAC, PEER_MAC, Rig, at, udp, udp_frame};
use crate::wire::checksum::Sum;
use crate::{MtuDiscovery, ReusePort, SendMeta, TcpListener, UdpSocket};

fn code<T: std::fmt::Debug>(result: std::io::Result<T>) -> i32 {
    result.expect_err("refused").raw_os_error().expect("a number")
}

fn only(rig: &Rig, addr: &str) -> UdpSocket {
    UdpSocket::builder().nonblocking(true).only_v6(true).bind(&rig.ns, at(addr)).expect("a socket")
}

#[test]
fn a_socket_on_all_addresses_hears_both_families() {
    let mut rig = Rig::new();
    rig.know_peers();
    let socket = open(&rig, "[::]:9");
    assert_eq!((socket.local_addr().unwrap(), socket.only_v6().unwrap()), (at("[::]:9"), false));
    rig.inject_from(NAPI, &[&udp("10.0.0.2:7", "10.0.0.1:9", b"four"), &udp("[fd00::2]:7", "[fd00::1]:9", b"six")]);
    let mut buffer = [0; 16];
    assert_eq!(socket.recv_from(&mut buffer).unwrap(), (4, at("[::ffff:10.0.0.2]:7")));
    assert_eq!(socket.recv_from(&mut buffer).unwrap(), (3, at("[fd00::2]:7")));
    rig.inject_from(NAPI, &[&udp("10.0.0.2:7", "10.0.0.1:9", b"four"), &udp("[fd00::2]:7", "[fd00::1]:9", b"six")]);
    let mut from = Vec::new();
    assert_eq!(socket.recv_batch(8, &mut |_, sender| from.push(sender)).unwrap(), 2);
    assert_eq!(from, [at("[::ffff:10.0.0.2]:7"), at("[fd00::2]:7")]);
    rig.inject(&udp("10.0.0.2:7", "10.0.0.1:9", b"four"));
    let meta = socket.recv_msg(&mut buffer).unwrap();
    assert_eq!((meta.from, meta.dst_ip), (at("[::ffff:10.0.0.2]:7"), at("[::ffff:10.0.0.1]:9").ip()));
    // Answers go back by what the sender is called, mapped or plain.
    for to in ["[::ffff:10.0.0.2]:7", "10.0.0.2:7", "[fd00::2]:7"] {
        socket.send_to(b"answer", at(to)).unwrap();
    }
    let kinds: Vec<_> = rig.sent().iter().map(|frame| frame[14] >> 4).collect();
    assert_eq!(kinds, [4, 4, 6]);
    rig.assert_home(0);
}

#[test]
fn a_socket_of_the_family_itself_is_asked_first() {
    let mut rig = Rig::new();
    let builder = || UdpSocket::builder().nonblocking(true).reuse_port(ReusePort::Hash);
    let both = builder().bind(&rig.ns, at("[::]:9")).unwrap();
    let six = builder().only_v6(true).bind(&rig.ns, at("[::]:9")).unwrap();
    let four = builder().bind(&rig.ns, at("0.0.0.0:9")).unwrap();
    let count = |socket: &UdpSocket| std::iter::from_fn(|| socket.recv(&mut []).ok()).count();
    let (packet4, packet6) = (udp("10.0.0.2:7", "10.0.0.1:9", b""), udp("[fd00::2]:7", "[fd00::1]:9", b""));
    rig.inject_from(NAPI, &[&packet4, &packet6]);
    assert_eq!([&four, &both, &six].map(count), [1, 1, 0]);
    drop(four);
    rig.inject_from(NAPI, &[&packet4]);
    assert_eq!([&both, &six].map(count), [1, 0]);
    drop(both);
    rig.inject_from(NAPI, &[&packet4, &packet6]);
    assert_eq!((count(&six), rig.ns.counters().udp_no_ports), (1, 1));
}

#[test]
fn places_that_meet_are_refused_as_the_kernel_refuses_them() {
    let rig = Rig::new();
    let bind = |addr: &str, v6: bool| UdpSocket::builder().only_v6(v6).bind(&rig.ns, at(addr));
    // First, second, whether they meet.
    for (first, second, meet) in [
        (("[::]:9", false), ("0.0.0.0:9", false), true),
        (("[::]:9", false), ("10.0.0.1:9", false), true),
        (("[::]:9", false), ("[fd00::1]:9", false), true),
        (("[::]:9", false), ("[::]:9", true), true),
        (("[::]:9", true), ("0.0.0.0:9", false), false),
        (("[::]:9", true), ("10.0.0.1:9", false), false),
        (("[::]:9", true), ("[fd00::1]:9", false), true),
        (("[::ffff:10.0.0.1]:9", false), ("10.0.0.1:9", false), true),
        (("[::ffff:10.0.0.1]:9", false), ("0.0.0.0:9", false), true),
        (("[::ffff:10.0.0.1]:9", false), ("[fd00::1]:9", false), false),
        (("[fd00::1]:9", false), ("0.0.0.0:9", false), false),
    ] {
        for (a, b) in [(first, second), (second, first)] {
            let _taken = bind(a.0, a.1).unwrap();
            let result = bind(b.0, b.1);
            assert_eq!(result.is_err(), meet, "{a:?} {b:?}");
            if meet {
                assert_eq!(code(result), libc::EADDRINUSE);
            }
        }
    }
    assert_eq!(code(bind("[::ffff:10.0.0.1]:9", true)), libc::EINVAL);
}

#[test]
fn who_reaches_whom() {
    let rig = Rig::new();
    rig.know_peers();
    let (four, both, six) = (open(&rig, "10.0.0.1:1"), open(&rig, "[::]:2"), only(&rig, "[::]:3"));
    let (mapped, one) = (open(&rig, "[::ffff:10.0.0.1]:4"), open(&rig, "[fd00::1]:5"));
    let peers = ["10.0.0.2:7", "[::ffff:10.0.0.2]:7", "[fd00::2]:7"];
    let (family, no_way) = (libc::EAFNOSUPPORT, libc::ENETUNREACH);
    for (socket, expected) in [
        (&four, [0, family, family]),
        (&both, [0, 0, 0]),
        (&six, [no_way, no_way, 0]),
        (&mapped, [0, 0, family]),
        (&one, [no_way, no_way, 0]),
    ] {
        let got =
            peers.map(|peer| socket.send_to(b"x", at(peer)).map_or_else(|error| error.raw_os_error().unwrap(), |_| 0));
        assert_eq!(got, expected, "{socket:?}");
        let result =
            peers.map(|peer| socket.connect(at(peer)).map_or_else(|error| error.raw_os_error().unwrap(), |_| 0));
        // Of a socket that has connected once, the address stays.
        assert_eq!(result[0], expected[0], "{socket:?}");
    }
    assert_eq!(mapped.local_addr().unwrap(), at("[::ffff:10.0.0.1]:4"));
    assert_eq!(both.peer_addr().unwrap(), at("[::ffff:10.0.0.2]:7"));
    assert_eq!(code(four.only_v6()), libc::EOPNOTSUPP);
}

#[test]
fn a_listener_on_all_addresses_hears_both_families() {
    let mut rig = Rig::new();
    rig.know_peers();
    let listener = TcpListener::builder().nonblocking(true).bind(&rig.ns, at("[::]:80")).unwrap();
    assert_eq!(listener.local_addr().unwrap(), at("[::]:80"));
    assert_eq!(code(TcpListener::bind(&rig.ns, at("0.0.0.0:80"))), libc::EADDRINUSE);
    let _other = TcpListener::builder().only_v6(true).bind(&rig.ns, at("[::]:81")).unwrap();
    let _four = TcpListener::bind(&rig.ns, at("0.0.0.0:81")).unwrap();
    for (peer, own, shown) in [
        ("10.0.0.2:5000", "10.0.0.1:80", "[::ffff:10.0.0.2]:5000"),
        ("[fd00::2]:5000", "[fd00::1]:80", "[fd00::2]:5000"),
    ] {
        let (stream, from) = handshake(&mut rig, &listener, peer, own);
        assert_eq!((from, stream.peer_addr().unwrap()), (at(shown), at(shown)));
        assert_eq!(stream.local_addr().unwrap().ip(), at(&shown.replace("2]", "1]")).ip());
    }
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
}

/// A segment without payload, of either family.
fn segment(src: SocketAddr, dst: SocketAddr, (seq, ack): (u32, u32), flags: u8) -> Vec<u8> {
    let mut frame = udp_frame(src, dst, PEER_MAC, OUR_MAC, &[0; 12]);
    let (protocol, at, addresses) = if src.is_ipv4() { (23, 34, 26..34) } else { (20, 54, 22..54) };
    frame[protocol] = 6;
    let tcp = &mut frame[at..];
    tcp[4..8].copy_from_slice(&seq.to_be_bytes());
    tcp[8..12].copy_from_slice(&ack.to_be_bytes());
    tcp[12..20].copy_from_slice(&[0x50, flags, 0x40, 0, 0, 0, 0, 0]);
    let sum = Sum::ZERO.bytes(&frame[addresses]).number(6).number(20).bytes(&frame[at..]).field();
    frame[at + 16..at + 18].copy_from_slice(&sum);
    if src.is_ipv4() {
        frame[24..26].fill(0);
        let sum = Sum::ZERO.bytes(&frame[14..34]).field();
        frame[24..26].copy_from_slice(&sum);
    }
    frame
}

/// A SYN and the last segment of the handshake.
fn handshake(rig: &mut Rig, listener: &TcpListener, peer: &str, own: &str) -> (crate::TcpStream, SocketAddr) {
    let _ = rig.sent();
    rig.inject(&segment(at(peer), at(own), (1000, 0), 2));
    let answer = rig.sent().remove(0);
    let tcp = if own.starts_with('[') { 54 } else { 34 };
    let number = u32::from_be_bytes(answer[tcp + 4..tcp + 8].try_into().unwrap());
    rig.inject(&segment(at(peer), at(own), (1001, number.wrapping_add(1)), 16));
    listener.accept().expect("established")
}

#[test]
fn settings_that_mean_another_family_change_nothing() {
    let rig = Rig::new();
    rig.know_peers();
    let socket = open(&rig, "[::]:9");
    socket.set_tos(0x10).unwrap();
    socket.set_tclass_v6(0x20).unwrap();
    socket.set_mtu_discovery(MtuDiscovery::Dont).unwrap();
    socket.send_to(b"x", at("10.0.0.2:7")).unwrap();
    socket.send_to(b"x", at("[fd00::2]:7")).unwrap();
    socket.send_msg(b"x", &SendMeta::to(at("10.0.0.2:7")).tos(3)).unwrap();
    let sent = rig.sent();
    assert_eq!([sent[0][15], sent[2][15]], [0x10, 3]);
    assert_eq!((sent[1][14], sent[1][15]), (0x62, 0));
    assert_eq!(sent[0][20], 0, "it may be cut");
}

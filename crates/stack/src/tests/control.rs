//! What is told of a datagram beside its bytes, and what one may want of it.

use std::io::ErrorKind;
use std::time::{Duration, SystemTime};

use super::receive::open;
use crate::testing::{IFINDEX, NAPI, OUR_MAC, PEER_MAC, Rig, at, device, icmp_error, udp, udp_frame};
use crate::wire::checksum::Sum;
use crate::{MtuDiscovery, SendMeta, SocketOption, UdpSocket};

fn code<T: std::fmt::Debug>(result: std::io::Result<T>) -> i32 {
    result.expect_err("refused").raw_os_error().expect("a number")
}

/// The frame with this class and so many hops.
fn marked(mut frame: Vec<u8>, tos: u8, hops: u8) -> Vec<u8> {
    if frame[14] >> 4 == 4 {
        (frame[15], frame[22]) = (tos, hops);
        frame[24..26].fill(0);
        let sum = Sum::ZERO.bytes(&frame[14..34]).field();
        frame[24..26].copy_from_slice(&sum);
    } else {
        (frame[14], frame[15], frame[21]) = (0x60 | tos >> 4, tos << 4, hops);
    }
    frame
}

#[test]
fn all_that_there_is_to_tell() {
    let mut rig = Rig::new();
    for (own, peer) in [("10.0.0.1:9", "10.0.0.2:77"), ("[fd00::1]:9", "[fd00::2]:77"), ("[fe80::1]:9", "[fe80::2]:77")]
    {
        let socket = open(&rig, own);
        rig.inject_from(NAPI, &[&marked(udp(peer, own, b"whole"), 0xbb, 7), &udp(peer, own, b"longer")]);
        let mut buffer = [0; 5];
        let meta = socket.recv_msg(&mut buffer).unwrap();
        assert_eq!((meta.len, meta.whole_len, meta.is_truncated()), (5, 5, false));
        assert_eq!((meta.tos, meta.ecn(), meta.ttl, meta.ifindex), (0xbb, 3, 7, IFINDEX));
        assert_eq!((meta.from.port(), meta.from.ip(), meta.dst_ip), (77, at(peer).ip(), at(own).ip()));
        assert_eq!((meta.segments, meta.segment_len, meta.received), (1, 5, None));
        let meta = socket.recv_msg(&mut buffer).unwrap();
        assert_eq!((meta.len, meta.whole_len, meta.is_truncated(), &buffer), (5, 6, true, b"longe"));
        assert_eq!((meta.tos, meta.ttl), (0, 64));
        assert_eq!(socket.recv_msg(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
    }
    rig.assert_home(0);
}

#[test]
fn what_is_peeked_at_stays_and_is_charged_once() {
    let mut rig = Rig::new();
    let socket = open(&rig, "10.0.0.1:9");
    assert_eq!(socket.peek(&mut []).unwrap_err().kind(), ErrorKind::WouldBlock);
    rig.inject_from(NAPI, &[&udp("10.0.0.2:7", "10.0.0.1:9", b"first"), &udp("10.0.0.3:7", "10.0.0.1:9", b"second")]);
    let mut buffer = [0; 16];
    for _ in 0..3 {
        assert_eq!(socket.peek_from(&mut buffer).unwrap(), (5, at("10.0.0.2:7")));
        assert_eq!(socket.peek(&mut buffer[..2]).unwrap(), 2);
    }
    assert_eq!(socket.recv_from(&mut buffer).unwrap(), (5, at("10.0.0.2:7")));
    assert_eq!(socket.peek_msg(&mut buffer).unwrap().from, at("10.0.0.3:7"));
    // The last of them: what comes afterwards is behind it.
    rig.inject(&udp("10.0.0.4:7", "10.0.0.1:9", b"third"));
    assert_eq!(socket.recv_from(&mut buffer).unwrap(), (6, at("10.0.0.3:7")));
    assert_eq!(socket.recv_from(&mut buffer).unwrap(), (5, at("10.0.0.4:7")));
    assert_eq!(socket.inner().charged_bytes(), 0);
    rig.assert_home(0);
    rig.inject(&udp("10.0.0.2:7", "10.0.0.1:9", b"left"));
    socket.peek(&mut buffer).unwrap();
    drop(socket);
    rig.assert_home(0);
    assert_eq!(rig.ns.counters().udp_close_discards, 1);
}

#[test]
fn a_datagram_tells_when_it_came_if_the_socket_asks() {
    let mut rig = Rig::new();
    let socket = open(&rig, "10.0.0.1:9");
    let packet = udp("10.0.0.2:7", "10.0.0.1:9", b"x");
    rig.inject(&packet);
    socket.set_timestamps(true).unwrap();
    let before = SystemTime::now();
    rig.inject(&packet);
    let (first, second) = (socket.recv_msg(&mut [0]).unwrap(), socket.recv_msg(&mut [0]).unwrap());
    assert_eq!(first.received, None, "it came before");
    let received = second.received.expect("asked for");
    // The clock may be set meanwhile, but hardly by a day.
    let late = received.duration_since(before).unwrap_or_default();
    assert!(received + Duration::from_secs(86_400) > before && late < Duration::from_secs(86_400));
    assert_eq!(second.from, at("10.0.0.2:7"));
    socket.set_timestamps(false).unwrap();
    rig.inject(&packet);
    assert_eq!(socket.recv_msg(&mut [0]).unwrap().received, None);
}

#[test]
fn a_batch_tells_the_same() {
    let mut rig = Rig::new();
    let socket = open(&rig, "10.0.0.1:9");
    rig.inject_from(
        NAPI,
        &[&marked(udp("10.0.0.2:7", "10.0.0.1:9", b"first"), 2, 9), &udp("10.0.0.2:8", "10.0.0.1:9", b"")],
    );
    let mut seen = Vec::new();
    let count = socket
        .recv_batch_msg(8, &mut |bytes, meta| seen.push((bytes.len(), meta.whole_len, meta.tos, meta.from.port())));
    assert_eq!((count.unwrap(), seen), (2, vec![(5, 5, 2, 7), (0, 0, 0, 8)]));
    assert_eq!(socket.recv_batch_msg(0, &mut |_, _| panic!("nothing asked for")).unwrap(), 0);
}

#[test]
fn packets_are_as_the_socket_wants_them() {
    let rig = Rig::new();
    rig.know_peers();
    let socket = UdpSocket::bind(&rig.ns, at("10.0.0.1:9")).unwrap();
    let send = || {
        socket.send_to(b"x", at("10.0.0.2:7")).unwrap();
        let frame = rig.sent().remove(0);
        assert!(Sum::ZERO.bytes(&frame[14..34]).is_valid());
        (frame[15], frame[22])
    };
    assert_eq!(send(), (0, 64));
    socket.set_tos(0xb8).unwrap();
    socket.set_ttl(3).unwrap();
    assert_eq!((send(), send()), ((0xb8, 3), (0xb8, 3)), "what is remembered of the way is made anew");
    assert_eq!((socket.tos().unwrap(), socket.ttl().unwrap()), (0xb8, 3));
    assert_eq!([0, 256].map(|ttl| code(socket.set_ttl(ttl))), [libc::EINVAL; 2]);
    let six = UdpSocket::bind(&rig.ns, at("[fd00::1]:9")).unwrap();
    six.set_tclass_v6(0xb8).unwrap();
    six.set_unicast_hops_v6(5).unwrap();
    six.send_to(b"x", at("[fd00::2]:7")).unwrap();
    let frame = rig.sent().remove(0);
    assert_eq!((frame[14], frame[15], frame[21]), (0x6b, 0x80, 5));
    assert_eq!((six.tclass_v6().unwrap(), six.unicast_hops_v6().unwrap()), (0xb8, 5));
}

#[test]
fn one_datagram_may_be_different() {
    let rig = Rig::new();
    rig.know_peers();
    rig.ns.device_add(device(4, &[("10.1.0.1", 24)])).unwrap();
    let socket = UdpSocket::bind(&rig.ns, at("0.0.0.0:9")).unwrap();
    let meta = SendMeta::to(at("10.0.0.2:7")).src_ip(at("10.1.0.1:0").ip()).tos(1).ttl(2);
    socket.send_msg(b"hello", &meta).unwrap();
    let want = marked(udp_frame(at("10.1.0.1:9"), at("10.0.0.2:7"), OUR_MAC, PEER_MAC, b"hello"), 1, 2);
    assert_eq!(rig.sent(), [want]);
    // The next is as before.
    socket.send_to(b"hello", at("10.0.0.2:7")).unwrap();
    assert_eq!(rig.sent(), [udp_frame(at("10.0.0.1:9"), at("10.0.0.2:7"), OUR_MAC, PEER_MAC, b"hello")]);
    let foreign = SendMeta::to(at("10.0.0.2:7")).src_ip(at("10.0.0.9:0").ip());
    assert_eq!(code(socket.send_msg(b"x", &foreign)), libc::EINVAL);
    let six = SendMeta::to(at("10.0.0.2:7")).src_ip(at("[fd00::1]:0").ip());
    assert_eq!(code(socket.send_msg(b"x", &six)), libc::EINVAL);
    assert_eq!(code(socket.send_msg(b"x", &SendMeta::to(at("10.0.0.2:7")).ttl(0))), libc::EINVAL);
    assert_eq!(code(socket.send_msg(b"x", &SendMeta::to(at("10.0.0.2:7")).ifindex(4))), libc::ENETUNREACH);
    assert_eq!(code(socket.send_msg(b"x", &SendMeta::default().tos(1))), libc::EDESTADDRREQ);
    socket.connect(at("10.0.0.2:7")).unwrap();
    assert_eq!(socket.send_msg(b"x", &SendMeta::default().tos(1)).unwrap(), 1);
    assert_eq!(socket.send_msg(b"x", &SendMeta::default()).unwrap(), 1);
}

#[test]
fn a_socket_of_one_interface() {
    let mut rig = Rig::new();
    rig.know_peers();
    rig.ns.device_add(device(4, &[("10.1.0.1", 24)])).unwrap();
    let socket = open(&rig, "0.0.0.0:9");
    assert_eq!(code(socket.bind_interface(9)), libc::ENODEV);
    socket.bind_interface(4).unwrap();
    rig.inject(&udp("10.0.0.2:7", "10.0.0.1:9", b"x"));
    assert_eq!(socket.recv(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(rig.ns.counters().udp_no_ports, 1);
    assert_eq!(code(socket.send_to(b"x", at("10.0.0.2:7"))), libc::ENETUNREACH);
    socket.bind_interface(0).unwrap();
    rig.inject(&udp("10.0.0.2:7", "10.0.0.1:9", b"x"));
    assert_eq!(socket.recv(&mut [0]).unwrap(), 1);
    socket.send_to(b"x", at("10.0.0.2:7")).unwrap();
    rig.assert_home(0);
}

#[test]
fn errors_are_kept_with_who_said_so() {
    let mut rig = Rig::new();
    rig.know_peers();
    let socket = UdpSocket::builder().nonblocking(true).bind(&rig.ns, at("10.0.0.1:9")).unwrap();
    socket.send_to(b"x", at("10.0.0.2:7")).unwrap();
    let frame = rig.sent().remove(0);
    rig.inject(&icmp_error([3, 3], [0; 4], &frame));
    assert_eq!(code(socket.recv_error()), libc::EAGAIN, "only a socket that asks has a queue");
    socket.set_recverr(true);
    rig.inject(&icmp_error([3, 1], [0; 4], &frame));
    rig.inject(&icmp_error([3, 3], [0; 4], &frame));
    let first = socket.recv_error().unwrap();
    assert_eq!((first.errno, first.icmp, first.mtu), (libc::EHOSTUNREACH, (3, 1), 0));
    assert_eq!((first.by, first.to), (Some(at("10.0.0.254:0").ip()), at("10.0.0.2:7")));
    // The next call has the next one, as the kernel's.
    assert_eq!(code(socket.recv(&mut [0])), libc::ECONNREFUSED);
    assert_eq!(socket.recv_error().unwrap().error().raw_os_error(), Some(libc::ECONNREFUSED));
    assert_eq!(code(socket.recv_error()), libc::EAGAIN);
    rig.inject(&icmp_error([3, 4], [0, 0, 4, 0xb0], &frame));
    assert_eq!(socket.recv_error().unwrap().errno, libc::EMSGSIZE);
    // One's own.
    socket.set_mtu_discovery(MtuDiscovery::Do).unwrap();
    assert_eq!(code(socket.send_to(&[0; 1473], at("10.0.0.2:7"))), libc::EMSGSIZE);
    let own = socket.recv_error().unwrap();
    assert_eq!((own.errno, own.by, own.mtu, own.to), (libc::EMSGSIZE, None, 1500, at("10.0.0.2:7")));
    for _ in 0..100 {
        rig.inject(&icmp_error([3, 1], [0; 4], &frame));
    }
    assert_eq!(std::iter::from_fn(|| socket.recv_error().ok()).count(), 64, "as many as are kept");
    rig.inject(&icmp_error([3, 1], [0; 4], &frame));
    socket.set_recverr(false);
    assert_eq!(code(socket.recv_error()), libc::EAGAIN);
}

#[test]
fn merged_datagrams_are_told_of_as_one() {
    let mut rig = Rig::new();
    let socket = open(&rig, "10.0.0.1:9");
    socket.setsockopt(SocketOption::UdpGro, 1).unwrap();
    // Without a device that merges each is by itself; peeking leaves it.
    rig.inject(&udp("10.0.0.2:7", "10.0.0.1:9", b"alone"));
    let mut buffer = [0; 16];
    let peeked = socket.peek_msg(&mut buffer).unwrap();
    let merged = socket.recv_merged(&mut buffer).unwrap();
    assert_eq!((peeked.len, merged.bytes, merged.segment_bytes, merged.segments), (5, 5, 5, 1));
    rig.assert_home(0);
}

#[test]
fn the_mtu_of_a_path_can_be_asked() {
    let mut rig = Rig::new();
    rig.know_peers();
    let socket = UdpSocket::bind(&rig.ns, at("10.0.0.1:9")).unwrap();
    assert_eq!(code(socket.mtu()), libc::ENOTCONN);
    socket.connect(at("10.0.0.2:7")).unwrap();
    assert_eq!(socket.mtu().unwrap(), 1500);
    socket.send(&[1; 1400]).unwrap();
    let frame = rig.sent().remove(0);
    rig.inject(&icmp_error([3, 4], [0, 0, 4, 0xb0], &frame));
    assert_eq!(socket.mtu().unwrap(), 1200);
    assert_eq!(socket.take_error().unwrap().unwrap().raw_os_error(), Some(libc::EMSGSIZE));
    // It is cut from then on, unless that is forbidden.
    assert_eq!(socket.send(&[1; 1400]).unwrap(), 1400);
    assert_eq!(rig.sent().iter().map(|frame| frame.len()).collect::<Vec<_>>(), [14 + 20 + 1176, 14 + 20 + 232]);
    socket.set_mtu_discovery(MtuDiscovery::Probe).unwrap();
    assert_eq!(socket.send(&[1; 1400]).unwrap(), 1400);
    assert_eq!(rig.sent().len(), 1, "the path is tried");
    socket.set_mtu_discovery(MtuDiscovery::Dont).unwrap();
    rig.inject(&icmp_error([3, 4], [0, 0, 4, 0], &frame));
    assert!(socket.take_error().unwrap().is_none());
}

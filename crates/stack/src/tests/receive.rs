//! From the frame to the caller's buffer.

use std::io::ErrorKind;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use napier_core::busy::{BusyLimit, BusyParams};

use crate::device::Egress;
use crate::tables::reuse::ReusePort;
use crate::testing::{Call, IFINDEX, NAPI, PEER_MAC, Rig, STRIDE, at, device, udp, udp_frame};
use crate::{DeviceError, SocketOption, UdpSocket};

pub(super) fn open(rig: &Rig, addr: &str) -> UdpSocket {
    UdpSocket::builder().nonblocking(true).bind(&rig.ns, at(addr)).expect("a socket")
}

fn code<T: std::fmt::Debug>(result: std::io::Result<T>) -> i32 {
    result.expect_err("refused").raw_os_error().expect("a number")
}

#[test]
fn a_datagram_arrives_whole_or_truncated() {
    let mut rig = Rig::new();
    for (own, peer) in [("10.0.0.1:9", "10.0.0.2:77"), ("[fd00::1]:9", "[fd00::2]:77")] {
        let socket = open(&rig, own);
        rig.inject_from(NAPI, &[&udp(peer, own, b"first"), &udp(peer, own, b""), &udp(peer, own, b"third")]);
        let mut buffer = [0; 16];
        assert_eq!(socket.recv_from(&mut buffer).unwrap(), (5, at(peer)));
        assert_eq!(&buffer[..5], b"first");
        assert_eq!(socket.recv_from(&mut buffer).unwrap(), (0, at(peer)));
        assert_eq!(socket.recv(&mut buffer[..2]).unwrap(), 2);
        assert_eq!(&buffer[..2], b"th");
        assert_eq!(socket.recv(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
        rig.assert_home(0);
    }
    let counters = rig.ns.counters();
    assert_eq!((counters.udp_in_datagrams, counters.ip_in_receives, counters.ip_in_delivers), (3, 3, 3));
    assert_eq!((counters.udp6_in_datagrams, counters.ip6_in_receives, counters.ip6_in_delivers), (3, 3, 3));
}

#[test]
fn a_link_local_sender_has_the_scope_of_its_device() {
    let mut rig = Rig::new();
    let socket = open(&rig, "[fe80::1]:9");
    rig.inject(&udp("[fe80::2]:77", "[fe80::1]:9", b""));
    let (_, from) = socket.recv_from(&mut []).unwrap();
    assert_eq!(from, at(&format!("[fe80::2%{IFINDEX}]:77")));
}

#[test]
fn a_batch_is_read_in_place_and_goes_home() {
    let mut rig = Rig::new();
    let socket = open(&rig, "10.0.0.1:9");
    let packets: Vec<_> = (0..70u8).map(|i| udp("10.0.0.2:7", "10.0.0.1:9", &[i; 3])).collect();
    rig.inject_from(NAPI, &packets.iter().map(Vec::as_slice).collect::<Vec<_>>());
    assert_eq!(socket.recv_batch(0, &mut |_, _| panic!("nothing asked for")).unwrap(), 0);
    let mut seen = Vec::new();
    let mut read = |max| {
        socket.recv_batch(max, &mut |bytes, from| {
            assert_eq!((bytes.len(), from), (3, at("10.0.0.2:7")));
            seen.push(bytes[0]);
        })
    };
    assert_eq!((read(5).unwrap(), read(100).unwrap(), read(100).unwrap(), read(32).unwrap()), (5, 32, 32, 1));
    assert_eq!(read(1).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(seen, (0..70).collect::<Vec<u8>>());
    rig.assert_home(0);
    assert_eq!(socket.inner().charged_bytes(), 0);
}

#[test]
fn a_panic_in_a_batch_loses_no_frame() {
    let mut rig = Rig::new();
    let socket = open(&rig, "10.0.0.1:9");
    let packet = udp("10.0.0.2:7", "10.0.0.1:9", b"x");
    rig.inject_from(NAPI, &[&packet, &packet, &packet]);
    let read = std::panic::AssertUnwindSafe(|| socket.recv_batch(8, &mut |_, _| panic!("on purpose")));
    assert!(std::panic::catch_unwind(read).is_err());
    rig.assert_home(0);
    rig.inject(&packet);
    assert_eq!(socket.recv(&mut [0]).unwrap(), 1);
}

#[test]
fn an_idle_socket_holds_no_frame_and_a_busy_one_only_a_few() {
    let mut rig = Rig::new();
    let socket = open(&rig, "10.0.0.1:9");
    let packet = udp("10.0.0.2:7", "10.0.0.1:9", b"x");
    rig.inject_from(NAPI, &vec![packet.as_slice(); 100]);
    for read in 1..=100 {
        socket.recv(&mut []).unwrap();
        let out = rig.pool.total() as usize - rig.pool.available();
        assert!(out - (100 - read) < 16, "{out} frames are away after {read} reads");
    }
    rig.assert_home(0);
}

#[test]
fn a_full_buffer_drops_and_counts_and_leaks_nothing() {
    for (own, peer) in [("10.0.0.1:9", "10.0.0.2:77"), ("[fd00::1]:9", "[fd00::2]:77")] {
        let mut rig = Rig::new();
        let socket = open(&rig, own);
        let packet = udp(peer, own, b"x");
        rig.inject_from(NAPI, &vec![packet.as_slice(); 200]);
        let fit = 212_992 / STRIDE;
        let counters = rig.ns.counters();
        let [received, full, errors] = if own.starts_with('1') {
            [counters.udp_in_datagrams, counters.udp_rcvbuf_errors, counters.udp_in_errors]
        } else {
            [counters.udp6_in_datagrams, counters.udp6_rcvbuf_errors, counters.udp6_in_errors]
        };
        assert_eq!((received, full, errors), (fit as u64, 200 - fit as u64, 200 - fit as u64));
        assert_eq!(socket.inner().charged_bytes(), fit * STRIDE);
        rig.assert_home(fit);
        let mut read = 0;
        while socket.recv(&mut []).is_ok() {
            read += 1;
        }
        assert_eq!((read, socket.inner().charged_bytes()), (fit, 0));
        rig.assert_home(0);
    }
}

#[test]
fn one_datagram_is_always_taken() {
    let mut rig = Rig::new();
    let socket = open(&rig, "10.0.0.1:9");
    socket.setsockopt(SocketOption::RcvBuf, 0).unwrap();
    let packet = udp("10.0.0.2:7", "10.0.0.1:9", b"x");
    rig.inject_from(NAPI, &[&packet, &packet]);
    assert_eq!(rig.ns.counters().udp_rcvbuf_errors, 1);
    assert_eq!(socket.recv(&mut [0]).unwrap(), 1);
    rig.inject(&packet);
    assert_eq!(rig.ns.counters().udp_in_datagrams, 2);
}

#[test]
fn closing_sends_unread_frames_home() {
    let mut rig = Rig::new();
    let socket = open(&rig, "10.0.0.1:9");
    let packet = udp("10.0.0.2:7", "10.0.0.1:9", b"x");
    rig.inject_from(NAPI, &vec![packet.as_slice(); 20]);
    socket.recv(&mut []).unwrap();
    rig.inject(&packet);
    drop(socket);
    rig.assert_home(0);
    // While a poll runs, a socket that is closed takes what the poll still finds for it.
    let socket = open(&rig, "10.0.0.1:9");
    let ns = rig.ns.clone();
    let view = ns.view();
    let mut pass = view.pass(NAPI, IFINDEX).unwrap();
    drop(socket);
    let mut frame = rig.pool.alloc().unwrap();
    rig.host.frames.data_mut(&mut frame)[..packet.len()].copy_from_slice(&packet);
    pass.receive(frame, u32::try_from(packet.len()).unwrap());
    pass.end();
    rig.assert_home(1);
    drop(view);
    rig.assert_home(0);
}

#[test]
fn what_is_not_for_us_is_counted_and_goes_home() {
    let mut rig = Rig::new();
    let _socket = open(&rig, "0.0.0.0:9");
    rig.inject(&udp("10.0.0.2:7", "10.0.0.9:9", b""));
    rig.inject(&udp("10.0.0.2:7", "10.0.0.255:9", b""));
    rig.inject(&udp("[fd00::2]:7", "[ff02::1]:9", b""));
    rig.inject(&udp("10.0.0.2:7", "10.0.0.1:10", b""));
    rig.inject(&udp_frame(at("10.0.0.2:7"), at("10.0.0.1:9"), PEER_MAC, [2; 6], b""));
    let mut bad = udp("10.0.0.2:7", "10.0.0.1:9", b"payload");
    *bad.last_mut().unwrap() ^= 1;
    rig.inject(&bad);
    rig.inject(&bad[..bad.len() - 1]);
    rig.inject(&[0; 5]);
    let counters = rig.ns.counters();
    let nonzero: Vec<_> = counters.iter().filter(|(_, value)| *value != 0).collect();
    assert_eq!(
        nonzero,
        [
            ("RxOtherhostDropped", 1),
            ("RxLengthErrors", 1),
            ("IpInReceives", 5),
            ("IpInAddrErrors", 2),
            ("IpInDelivers", 1),
            ("IpExtInTruncatedPkts", 1),
            ("Ip6InReceives", 1),
            ("Ip6InAddrErrors", 1),
            ("IcmpOutDestUnreachs", 1),
            ("UdpNoPorts", 1),
            ("UdpInErrors", 1),
            ("UdpInCsumErrors", 1),
        ]
    );
    assert!(counters.to_string().contains("UdpNoPorts                      1\n"));
    rig.assert_home(0);
}

#[test]
fn an_address_of_another_device_is_ours_too() {
    let mut rig = Rig::new();
    rig.ns.device_add(device(4, &[("10.1.0.1", 24)])).unwrap();
    let socket = open(&rig, "10.1.0.1:9");
    rig.inject(&udp("10.0.0.2:7", "10.1.0.1:9", b"x"));
    assert_eq!(socket.recv(&mut [0]).unwrap(), 1);
}

#[test]
fn binding() {
    let rig = Rig::new();
    let bind = |addr: &str| UdpSocket::bind(&rig.ns, at(addr));
    assert_eq!(code(bind("10.0.0.9:1")), libc::EADDRNOTAVAIL);
    assert_eq!(code(bind("[::ffff:10.0.0.9]:1")), libc::EADDRNOTAVAIL);
    let _own = bind("10.0.0.1:1").unwrap();
    assert_eq!(code(bind("10.0.0.1:1")), libc::EADDRINUSE);
    assert_eq!(code(bind("0.0.0.0:1")), libc::EADDRINUSE);
    let _other_family = UdpSocket::builder().only_v6(true).bind(&rig.ns, at("[::]:1")).unwrap();
    let _other_address = bind("[fd00::1]:2").unwrap();
    let closed = bind("10.0.0.1:3").unwrap();
    drop(closed);
    let _again = bind("10.0.0.1:3").unwrap();
    let free: Vec<_> = (0..50).map(|_| bind("0.0.0.0:0").unwrap()).collect();
    let mut ports: Vec<_> = free.iter().map(|s| s.local_addr().unwrap().port()).collect();
    ports.dedup();
    assert!(ports.len() == 50 && ports.iter().all(|port| (32_768..61_000).contains(port)));
    let shared = |reuse| UdpSocket::builder().reuse_port(reuse).bind(&rig.ns, at("10.0.0.1:8"));
    let _first = shared(ReusePort::Hash).unwrap();
    let _second = shared(ReusePort::Hash).unwrap();
    assert_eq!(code(shared(ReusePort::No)), libc::EADDRINUSE);
    assert_eq!(code(shared(ReusePort::ByNapi)), libc::EINVAL);
}

#[test]
fn connecting() {
    let mut rig = Rig::new();
    let socket = open(&rig, "0.0.0.0:9");
    assert_eq!(code(socket.peer_addr()), libc::ENOTCONN);
    for (peer, want) in [
        ("10.0.0.2:0", libc::EINVAL),
        ("10.0.0.255:1", libc::EACCES),
        ("255.255.255.255:1", libc::EACCES),
        ("10.9.0.1:1", libc::ENETUNREACH),
        ("10.0.0.1:1", libc::ENETUNREACH),
        ("224.0.0.1:1", libc::ENETUNREACH),
        ("[fd00::2]:1", libc::EAFNOSUPPORT),
        ("[::ffff:10.0.0.2]:1", libc::EAFNOSUPPORT),
    ] {
        assert_eq!(code(socket.connect(at(peer))), want, "{peer}");
    }
    let packet = |port: u16| udp(&format!("10.0.0.2:{port}"), "10.0.0.1:9", &[1]);
    rig.inject(&packet(5));
    socket.connect(at("10.0.0.2:6")).unwrap();
    assert_eq!((socket.local_addr().unwrap(), socket.peer_addr().unwrap()), (at("10.0.0.1:9"), at("10.0.0.2:6")));
    rig.inject_from(NAPI, &[&packet(5), &packet(6)]);
    let from = || socket.recv_from(&mut [0]).unwrap().1.port();
    assert_eq!((from(), from()), (5, 6), "what was in the queue before stays");
    assert_eq!(rig.ns.counters().udp_no_ports, 1);
    socket.connect(at("10.0.0.2:5")).unwrap();
    rig.inject_from(NAPI, &[&packet(5), &packet(6)]);
    assert_eq!(socket.recv_from(&mut [0]).unwrap().1.port(), 5);
    assert_eq!(rig.ns.counters().udp_no_ports, 2);
    // The claim on the port moved with the address.
    let _other = UdpSocket::builder().only_v6(true).bind(&rig.ns, at("[::]:9")).unwrap();
    assert_eq!(code(UdpSocket::bind(&rig.ns, at("10.0.0.1:9"))), libc::EADDRINUSE);
}

#[test]
fn devices() {
    let rig = Rig::new();
    let add = |ifindex, addr, prefix_len| rig.ns.device_add(device(ifindex, &[(addr, prefix_len)]));
    assert_eq!(add(IFINDEX, "10.1.0.1", 24), Err(DeviceError::Exists { ifindex: IFINDEX }));
    for (addr, prefix_len) in [("10.1.0.1", 33), ("224.0.0.1", 24), ("0.0.0.0", 0), ("::", 0), ("::ffff:1.2.3.4", 120)]
    {
        assert!(matches!(add(9, addr, prefix_len), Err(DeviceError::BadAddress { .. })), "{addr}");
    }
    assert_eq!(rig.ns.device_del(9), Err(DeviceError::NotFound { ifindex: 9 }));
    assert_eq!(rig.ns.device_del(rig.device.ifindex()), Ok(()));
    assert!(rig.ns.view().pass(NAPI, IFINDEX).is_none());
}

#[test]
fn a_call_that_must_not_block_busy_polls_once() {
    let mut rig = Rig::new();
    let socket = open(&rig, "10.0.0.1:9");
    socket.setsockopt(SocketOption::BusyPoll, 200).unwrap();
    assert!(socket.recv(&mut []).is_err());
    assert!(rig.host.calls().is_empty(), "no instance recorded yet");
    rig.inject(&udp("10.0.0.2:7", "10.0.0.1:9", b"x"));
    socket.recv(&mut []).unwrap();
    assert!(rig.host.calls().is_empty(), "there was something to read");
    assert!(socket.recv(&mut []).is_err());
    let once = BusyParams { prefer: false, budget_pkts: 0, limit: BusyLimit::Once };
    assert_eq!(rig.host.calls(), [Call::Busy(NAPI, once)]);
    rig.host.unprivileged.store(false, Relaxed);
    socket.setsockopt(SocketOption::PreferBusyPoll, 1).unwrap();
    socket.setsockopt(SocketOption::BusyPollBudget, 64).unwrap();
    socket.set_nonblocking(false).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
    assert_eq!(socket.recv(&mut []).unwrap_err().kind(), ErrorKind::WouldBlock);
    let both = BusyParams { prefer: true, budget_pkts: 64, limit: BusyLimit::For(200) };
    assert_eq!(rig.host.calls()[0], Call::Busy(NAPI, both));
}

#[test]
fn what_the_busy_loop_finds_is_returned() {
    let mut rig = Rig::new();
    let socket = open(&rig, "10.0.0.1:9");
    socket.setsockopt(SocketOption::BusyPoll, 200).unwrap();
    let packet = udp("10.0.0.2:7", "10.0.0.1:9", b"found");
    rig.inject(&packet);
    socket.recv(&mut []).unwrap();
    let (ns, frames) = (rig.ns.clone(), rig.host.frames.clone());
    let mut frame = rig.pool.alloc().unwrap();
    rig.host.during_busy_loop(move || {
        frames.data_mut(&mut frame)[..packet.len()].copy_from_slice(&packet);
        let view = ns.view();
        view.pass(NAPI, IFINDEX).unwrap().receive(frame, u32::try_from(packet.len()).unwrap());
    });
    assert_eq!(socket.recv(&mut [0; 9]).unwrap(), 5);
    rig.assert_home(0);
}

use std::net::SocketAddr;

use super::*;
use crate::UdpSocket;
use crate::testing::{NAPI, Rig, at, udp};

fn shared(rig: &Rig, addr: &str, reuse: ReusePort) -> UdpSocket {
    UdpSocket::builder().reuse_port(reuse).nonblocking(true).bind(&rig.ns, at(addr)).expect("a socket")
}

fn count(socket: &UdpSocket) -> usize {
    let mut buffer = [0; 64];
    std::iter::from_fn(|| socket.recv(&mut buffer).ok()).count()
}

#[test]
fn connected_before_bound_before_wildcard() {
    for (any, own, src, other) in [
        ("0.0.0.0:9", "10.0.0.1:9", "10.0.0.2:5", "10.0.0.2:6"),
        ("[::]:9", "[fd00::1]:9", "[fd00::2]:5", "[fd00::2]:6"),
    ] {
        let mut rig = Rig::new();
        let wildcard = shared(&rig, any, ReusePort::Hash);
        let bound = shared(&rig, own, ReusePort::Hash);
        let connected = shared(&rig, own, ReusePort::Hash);
        connected.connect(at(src)).unwrap();
        let got = |rig: &mut Rig, src: &str| {
            rig.inject(&udp(src, own, b"x"));
            [&connected, &bound, &wildcard].map(count)
        };
        assert_eq!(got(&mut rig, src), [1, 0, 0]);
        assert_eq!(got(&mut rig, other), [0, 1, 0]);
        drop(bound);
        let got = |rig: &mut Rig, src: &str| {
            rig.inject(&udp(src, own, b"x"));
            [&connected, &wildcard].map(count)
        };
        assert_eq!(got(&mut rig, other), [0, 1]);
        drop(connected);
        rig.inject(&udp(src, own, b"x"));
        assert_eq!(count(&wildcard), 1);
        drop(wildcard);
        rig.inject(&udp(src, own, b"x"));
        let counters = rig.ns.counters();
        assert_eq!(counters.udp_no_ports + counters.udp6_no_ports, 1);
        rig.assert_home(0);
    }
}

#[test]
fn a_wildcard_of_one_family_takes_its_own() {
    let mut rig = Rig::new();
    let v4 = shared(&rig, "0.0.0.0:9", ReusePort::No);
    let v6 = UdpSocket::builder().only_v6(true).nonblocking(true).bind(&rig.ns, at("[::]:9")).expect("a socket");
    rig.inject(&udp("10.0.0.2:1", "10.0.0.1:9", b""));
    assert_eq!((count(&v4), count(&v6)), (1, 0));
    rig.inject(&udp("[fd00::2]:1", "[fd00::1]:9", b""));
    assert_eq!((count(&v4), count(&v6)), (0, 1));
}

#[test]
fn a_flow_stays_with_its_member() {
    let mut rig = Rig::new();
    let members: Vec<_> = (0..4).map(|_| shared(&rig, "10.0.0.1:9", ReusePort::Hash)).collect();
    let mut spread = [0; 4];
    for port in 1000..1200 {
        let packet = udp(&format!("10.0.0.2:{port}"), "10.0.0.1:9", b"");
        rig.inject_from(NAPI, &[&packet, &packet]);
        rig.inject_from(NAPI + 1, &[&packet]);
        let got: Vec<_> = members.iter().map(count).collect();
        assert_eq!(got.iter().sum::<usize>(), 3);
        spread[got.iter().position(|n| *n == 3).expect("all to one member")] += 1;
    }
    assert!(spread.iter().all(|flows| *flows > 20), "{spread:?}");
}

#[test]
fn by_napi_each_instance_gets_a_member_then_hash() {
    let mut rig = Rig::new();
    let members: Vec<_> = (0..2).map(|_| shared(&rig, "0.0.0.0:9", ReusePort::ByNapi)).collect();
    let got = |rig: &mut Rig, napi: u32| -> Vec<usize> {
        let packets: Vec<_> = (1..=16).map(|p| udp(&format!("10.0.0.2:{p}"), "10.0.0.1:9", b"")).collect();
        let packets: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
        rig.inject_from(napi, &packets);
        members.iter().map(count).collect()
    };
    assert_eq!(got(&mut rig, 200), [16, 0]);
    assert_eq!(got(&mut rig, 201), [0, 16]);
    assert_eq!(got(&mut rig, 200), [16, 0]);
    assert_eq!(got(&mut rig, 201), [0, 16]);
    let third = got(&mut rig, 202);
    assert!(third[0] > 0 && third[1] > 0, "no member left: by hash {third:?}");
}

#[test]
fn many_sockets_come_and_go() {
    let mut rig = Rig::new();
    let mut sockets: Vec<_> = (1..=700u16).map(|p| shared(&rig, &format!("10.0.0.1:{p}"), ReusePort::No)).collect();
    for (i, socket) in sockets.iter().enumerate() {
        socket.connect(SocketAddr::new("10.0.0.2".parse().unwrap(), 1000 + u16::try_from(i).unwrap())).unwrap();
    }
    for port in (1..=700u16).rev() {
        let packet = udp(&format!("10.0.0.2:{}", 999 + port), &format!("10.0.0.1:{port}"), b"");
        rig.inject(&packet);
        assert_eq!(sockets.pop().map(|s| count(&s)), Some(1), "port {port}");
        rig.inject(&packet);
    }
    assert_eq!(rig.ns.counters().udp_no_ports, 700);
    assert_eq!(rig.ns.0.udp.published.load().sockets.connected.len, 0);
    rig.assert_home(0);
}

#[test]
fn hash_of_a_flow_uses_every_field() {
    let base = ("10.0.0.2:5", "10.0.0.1:9");
    let hash = |src: &str, dst: &str| {
        let ends = [src, dst].map(|t| End::from_socket_addr(&at(t)));
        flow_hash(7, ends[0], ends[1])
    };
    let first = hash(base.0, base.1);
    for (src, dst) in [("10.0.0.3:5", base.1), ("10.0.0.2:6", base.1), (base.0, "10.0.0.4:9"), (base.0, "10.0.0.1:8")] {
        assert_ne!(hash(src, dst), first);
    }
    assert_ne!(hash("[fd00::2]:5", "[fd00::1]:9"), hash("[fd01::2]:5", "[fd00::1]:9"));
    assert_ne!(hash("[fd00::2]:5", "[fd00::1]:9"), hash("[fd00::2]:5", "[fd01::1]:9"));
}

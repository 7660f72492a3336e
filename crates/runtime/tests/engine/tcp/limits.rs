//! Backlogs, floods of SYNs, and several listeners on one port.

use std::collections::HashSet;

use napier_runtime::device::LinkConfig;
use napier_runtime::raw::RawPort;
use napier_runtime::socket::{ReusePort, SocketOption, TcpListener, TcpStream};

use super::hostile::{SYN, segment};
use super::{clients, join, link, servers};
use crate::common::{PATIENCE, PEER_MAC, Pair, TESTED_MAC, eventually};

#[test]
fn a_full_backlog_drops_and_recovers() {
    let pair = link();
    let listener = TcpListener::builder().backlog(2).bind(&pair.tested_ns, servers(7000)[0]).unwrap();
    let connect = || TcpStream::builder().nonblocking(true).connect(&pair.peer_ns, servers(7000)[0]).unwrap();
    let clients: Vec<TcpStream> = (0..6).map(|_| connect()).collect();
    let counters = || pair.tested_ns.counters();
    eventually("the backlog overflows", || counters().tcp_ext_listen_overflows > 0);
    assert!(counters().tcp_ext_listen_drops >= counters().tcp_ext_listen_overflows);
    // One more than the backlog fits, as in the kernel; the others come when there is room.
    assert!(counters().tcp_curr_estab <= 3);
    let mut from = HashSet::new();
    let accepted: Vec<TcpStream> = (0..6)
        .map(|_| {
            let (stream, peer) = listener.accept().unwrap();
            assert!(from.insert(peer));
            stream
        })
        .collect();
    for (client, server) in clients.iter().zip(&accepted) {
        eventually("it is connected", || client.send(b"x").is_ok());
        server.set_read_timeout(Some(PATIENCE)).unwrap();
    }
    for server in &accepted {
        assert_eq!(server.recv(&mut [0; 8]).unwrap(), 1);
    }
}

#[test]
fn a_flood_of_syns_is_bounded() {
    let pair = link();
    let listener = TcpListener::builder().syn_limit(16).bind(&pair.tested_ns, servers(7000)[0]).unwrap();
    let attacker = RawPort::bind(&pair.peer, 0).unwrap();
    for port in 0..500 {
        let syn = segment((PEER_MAC, TESTED_MAC), (clients(10_000 + port)[0], servers(7000)[0]), SYN, (1, 0), b"");
        while attacker
            .build(syn.len(), |slot| {
                slot[..syn.len()].copy_from_slice(&syn);
                syn.len()
            })
            .is_err()
        {
            attacker.flush();
            std::thread::yield_now();
        }
        attacker.flush();
    }
    // A segment is counted before what becomes of it.
    eventually("the flood is over", || {
        let counters = pair.tested_ns.counters();
        let has_been = (counters.tcp_in_segs, counters.tcp_passive_opens, counters.tcp_embryos_evicted);
        assert!(has_been.0 <= 500 && has_been.2 <= 484, "{counters}");
        has_been == (500, 500, 484)
    });
    // There is room for others all the time.
    attacker.drain(usize::MAX, |_| {});
    drop(attacker);
    eventually("an honest client gets in", || {
        let builder = TcpStream::builder().connect_timeout(std::time::Duration::from_millis(500));
        builder.connect(&pair.peer_ns, servers(7000)[0]).is_ok()
    });
    listener.accept().unwrap();
}

#[test]
fn each_listener_gets_the_connections_of_its_instance() {
    const QUEUES: u16 = 4;
    let pair = Pair::new(&LinkConfig { queues: QUEUES, ..LinkConfig::default() });
    let builder = TcpListener::builder().reuse_port(ReusePort::ByNapi).nonblocking(true);
    let listeners: Vec<_> = (0..QUEUES).map(|_| builder.bind(&pair.tested_ns, servers(7000)[0]).unwrap()).collect();
    let mut streams = Vec::new();
    for _ in 0..64 {
        streams.push(TcpStream::connect(&pair.peer_ns, servers(7000)[0]).unwrap());
    }
    let mut ids = vec![HashSet::new(); listeners.len()];
    let mut accepted = 0;
    // A client is connected before its last ACK has made the server's side one that can be accepted.
    eventually("all are accepted", || {
        for (listener, ids) in listeners.iter().zip(&mut ids) {
            while let Ok((stream, _)) = listener.accept() {
                ids.insert(stream.getsockopt(SocketOption::IncomingNapiId).unwrap());
                accepted += 1;
            }
        }
        accepted >= streams.len()
    });
    assert_eq!(accepted, 64);
    let mut seen = HashSet::new();
    for ids in ids {
        assert_eq!(ids.len(), 1, "one instance per listener");
        assert!(seen.insert(*ids.iter().next().unwrap()), "one listener per instance");
    }
}

#[test]
fn queues_serve_connections_side_by_side() {
    let pair = Pair::new(&LinkConfig { queues: 3, ..LinkConfig::default() });
    let listener = TcpListener::bind(&pair.tested_ns, servers(7000)[1]).unwrap();
    let pairs: Vec<_> = (0..12).map(|_| join(&pair.peer_ns, &listener)).collect();
    let ids: HashSet<_> = pairs.iter().map(|(_, s)| s.getsockopt(SocketOption::IncomingNapiId).unwrap()).collect();
    assert!(ids.len() > 1, "12 connections all came by one queue");
    for (client, server) in &pairs {
        client.send(b"abc").unwrap();
        assert_eq!(server.recv(&mut [0; 8]).unwrap(), 3);
    }
}

//! Peers that died and come back from the port that they had.

use std::time::Duration;

use napier_runtime::raw::RawPort;
use napier_runtime::socket::{TcpListener, TcpStream};

use super::hostile::{ACK, SYN, inject, segment};
use super::{clients, errno, link, servers};
use crate::common::frames::ETH;
use crate::common::{PATIENCE, PEER_MAC, TESTED_MAC, eventually};

/// A client with its own idea of TCP connects, and is gone without a word. From the same port another connects.
#[test]
fn a_killed_client_comes_back_from_the_same_port() {
    let pair = link();
    let listeners = servers(7000).map(|at| TcpListener::bind(&pair.tested_ns, at).unwrap());
    for (listener, local) in listeners.iter().zip(clients(6000)) {
        let server = listener.local_addr().unwrap();
        let port = RawPort::bind(&pair.peer, 0).unwrap();
        let send =
            |flags, numbers| inject(&port, &segment((PEER_MAC, TESTED_MAC), (local, server), flags, numbers, b""));
        send(SYN, (500_000, 0));
        let mut ours = None;
        eventually("the handshake goes on", || {
            port.recv();
            port.drain(usize::MAX, |frame| {
                let at = ETH + if local.is_ipv4() { 20 } else { 40 };
                if frame.len() >= at + 20 && frame[at + 13] == SYN | ACK {
                    ours = Some(u32::from_be_bytes(frame[at + 4..at + 8].try_into().unwrap()));
                }
            });
            ours.is_some()
        });
        send(ACK, (500_001, ours.unwrap().wrapping_add(1)));
        let (before, _) = listener.accept().unwrap();
        before.set_read_timeout(Some(PATIENCE)).unwrap();
        drop(port);
        let builder = TcpStream::builder().local(local).connect_timeout(PATIENCE.max(Duration::from_secs(20)));
        let client = builder.connect(&pair.peer_ns, server).unwrap();
        assert_eq!(errno(before.recv(&mut [0; 8])), libc::ECONNRESET);
        let (after, from) = listener.accept().unwrap();
        assert_eq!(from, local);
        after.set_read_timeout(Some(PATIENCE)).unwrap();
        client.send(b"again").unwrap();
        assert_eq!(after.recv(&mut [0; 8]).unwrap(), 5);
    }
    let counters = pair.tested_ns.counters();
    assert!(counters.tcp_ext_tcp_challenge_ack >= 2, "{counters}");
}

//! Segments that no honest peer sends.

use std::net::SocketAddr;

use napier_runtime::raw::RawPort;
use napier_runtime::socket::{TcpListener, TcpStream};

use super::{clients, echo, join, link, servers};
use crate::common::frames::{ETH, ip_head, pseudo_checksum};
use crate::common::{Dice, PEER_MAC, TESTED_MAC, eventually};

pub(crate) const FIN: u8 = 0x01;
pub(crate) const SYN: u8 = 0x02;
pub(crate) const RST: u8 = 0x04;
pub(crate) const ACK: u8 = 0x10;

/// A frame with a TCP segment; `numbers` are sequence and acknowledgement.
pub(crate) fn segment(
    macs: ([u8; 6], [u8; 6]),
    ends: (SocketAddr, SocketAddr),
    flags: u8,
    numbers: (u32, u32),
    payload: &[u8],
) -> Vec<u8> {
    let mut tcp = vec![0; 20];
    tcp[..2].copy_from_slice(&ends.0.port().to_be_bytes());
    tcp[2..4].copy_from_slice(&ends.1.port().to_be_bytes());
    tcp[4..8].copy_from_slice(&numbers.0.to_be_bytes());
    tcp[8..12].copy_from_slice(&numbers.1.to_be_bytes());
    tcp[12] = 5 << 4;
    tcp[13] = flags;
    tcp[14..16].copy_from_slice(&4096_u16.to_be_bytes());
    tcp.extend(payload);
    with_checksums(macs, ends, tcp)
}

/// Wraps whatever is said to be a TCP segment.
fn with_checksums(macs: ([u8; 6], [u8; 6]), ends: (SocketAddr, SocketAddr), mut tcp: Vec<u8>) -> Vec<u8> {
    let ips = (ends.0.ip(), ends.1.ip());
    let mut frame = vec![0; ETH + 40 + tcp.len()];
    let at = ip_head(&mut frame, macs, ips, 6, tcp.len());
    if tcp.len() >= 18 {
        tcp[16..18].fill(0);
        let sum = pseudo_checksum(ips, 6, &tcp);
        tcp[16..18].copy_from_slice(&sum);
    }
    frame.truncate(at);
    frame.extend(tcp);
    frame
}

pub(crate) fn inject(port: &RawPort, frame: &[u8]) {
    while port
        .build(frame.len(), |slot| {
            slot[..frame.len()].copy_from_slice(frame);
            frame.len()
        })
        .is_err()
    {
        port.flush();
        std::thread::yield_now();
    }
    port.flush();
}

const MACS: ([u8; 6], [u8; 6]) = (PEER_MAC, TESTED_MAC);

/// Noise to every state: no connection, a listener, an embryo, and an established connection whose numbers are known.
#[test]
fn noise_harms_nobody() {
    let pair = link();
    let listener = TcpListener::builder().syn_limit(64).backlog(64).bind(&pair.tested_ns, servers(7000)[0]).unwrap();
    let _listener6 = TcpListener::builder().syn_limit(64).bind(&pair.tested_ns, servers(7000)[1]).unwrap();
    // An honest connection that is there all the time.
    let (client, server) = join(&pair.peer_ns, &listener);
    let thread = echo(server);
    let mut honest = client.local_addr().unwrap();
    let port = RawPort::bind(&pair.peer, 0).unwrap();
    for seed in 0..6 {
        let mut dice = Dice(seed);
        // What the listener's side has sent to whom, so that noise can be near what it expects.
        let mut heard: Vec<(SocketAddr, u32, u32)> = Vec::new();
        for _ in 0..2000 {
            let v6 = dice.roll(4) == 0;
            let local = if dice.roll(8) == 0 {
                &mut honest
            } else {
                &mut clients(20_000 + dice.roll(8) as u16)[usize::from(v6)]
            };
            let server = servers(if dice.roll(8) == 0 { 7001 } else { 7000 })[usize::from(local.is_ipv6())];
            let near = |dice: &mut Dice, of: u32| of.wrapping_add((dice.roll(5000) as u32).wrapping_sub(2500));
            let (seq, ack) = match heard.iter().rev().find(|(to, ..)| to == local) {
                Some((_, seq, ack)) if dice.roll(4) > 0 => {
                    let exact = dice.roll(2) == 0;
                    if exact { (*ack, seq.wrapping_add(1)) } else { (near(&mut dice, *ack), near(&mut dice, *seq)) }
                }
                _ => (dice.roll(1 << 32) as u32, dice.roll(1 << 32) as u32),
            };
            let payload = vec![0x5a; if dice.roll(3) == 0 { dice.roll(1400) as usize } else { 0 }];
            let flags = match dice.roll(6) {
                0 => SYN,
                1 => ACK,
                2 => ACK | FIN,
                3 => RST | ACK,
                4 => ACK | SYN,
                _ => dice.roll(256) as u8,
            };
            let mut frame = segment(MACS, (*local, server), flags, (seq, ack), &payload);
            let tcp_at = ETH + if local.is_ipv4() { 20 } else { 40 };
            if dice.roll(3) == 0 {
                // Noise in the header itself: data offset, options, window, urgent pointer; the checksum is right.
                let mut tcp = frame[tcp_at..].to_vec();
                for _ in 0..=dice.roll(6) {
                    let at = 12 + dice.roll(tcp.len() as u64 - 12) as usize;
                    tcp[at] = dice.roll(256) as u8;
                }
                tcp.extend((0..dice.roll(24)).map(|_| dice.roll(256) as u8).collect::<Vec<_>>());
                frame = with_checksums(MACS, (*local, server), tcp);
            }
            inject(&port, &frame);
            port.recv();
            port.drain(usize::MAX, |frame| {
                let at = ETH + if frame[ETH] >> 4 == 4 { 20 } else { 40 };
                if frame[12..14] == [0x08, 0x00] || frame[12..14] == [0x86, 0xdd] {
                    let word = |at: usize| u32::from_be_bytes(frame[at..at + 4].try_into().unwrap());
                    let to = u16::from_be_bytes([frame[at + 2], frame[at + 3]]);
                    let to = if frame[ETH] >> 4 == 4 { clients(to)[0] } else { clients(to)[1] };
                    heard.push((to, word(at + 4), word(at + 8)));
                }
            });
        }
    }
    eventually("all noise was heard", || {
        port.drain(usize::MAX, |_| {});
        pair.tested_ns.counters().ip_in_receives + pair.tested_ns.counters().ip6_in_receives >= 12_000
    });
    assert_eq!(pair.tested_ns.counters().tcp_faults, 0, "the protocol machine gave up");
    port.drain(usize::MAX, |_| {});
    drop(port);
    drop(client);
    // The echo thread ends somehow: the noise may have reset its connection, as whoever sees the numbers can.
    let _ = thread.join();
    drop(listener);
    let fresh = TcpListener::bind(&pair.tested_ns, servers(7002)[0]).unwrap();
    let (client, server) = join(&pair.peer_ns, &fresh);
    client.send(b"fine").unwrap();
    assert_eq!(server.recv(&mut [0; 8]).unwrap(), 4);
}

#[test]
fn strangers_get_resets_and_resets_get_nothing() {
    let pair = link();
    let _socket = TcpListener::bind(&pair.tested_ns, servers(7000)[0]).unwrap();
    let port = RawPort::bind(&pair.peer, 0).unwrap();
    let to = servers(7001)[0];
    let cases = [(SYN, true), (ACK, true), (RST, false), (RST | ACK, false), (FIN | ACK, true), (SYN | ACK, true)];
    for (at, (flags, answered)) in cases.into_iter().enumerate() {
        inject(&port, &segment(MACS, (clients(30_000 + at as u16)[0], to), flags, (5, 6), b""));
        eventually("the segment came", || pair.tested_ns.counters().tcp_in_segs == at as u64 + 1);
        let answers = cases[..=at].iter().filter(|(_, answered)| *answered).count() as u64;
        eventually("the answer left", || pair.tested_ns.counters().tcp_out_rsts == answers);
        if answered {
            let mut said = 0;
            eventually("the answer came", || {
                port.recv();
                port.drain(usize::MAX, |frame| said = frame[ETH + 20 + 13]) > 0
            });
            assert_eq!(said & RST, RST);
        }
    }
    // Spoofed as from ourselves, as in a LAND attack: not even looked at.
    inject(&port, &segment(MACS, (servers(7000)[0], servers(7000)[0]), SYN, (5, 6), b""));
    eventually("it was refused", || pair.tested_ns.counters().ip_in_addr_errors == 1);
    port.drain(usize::MAX, |_| {});
    drop(port);
    assert!(TcpStream::connect(&pair.peer_ns, servers(7000)[0]).is_ok());
}

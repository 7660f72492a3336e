//! What a link and a name space do besides delivering: neighbours, echo, coalescing, and counting what is lost.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use napier_runtime::device::{Coalesce, LinkConfig};
use napier_runtime::raw::RawPort;
use napier_runtime::socket::UdpSocket;

use crate::common::frames::{checksum, ip_head, pseudo_checksum};
use crate::common::modes::{Mode, echo, round_trips, stop};
use crate::common::{
    PATIENCE, PEER_MAC, PEER_V4, PEER_V6, Pair, TESTED_MAC, TESTED_V4, TESTED_V6, bound, eventually, stats_of, v4, v6,
};

const ICMP: u8 = 1;
const ICMPV6: u8 = 58;

#[test]
fn neighbours_are_found_by_asking() {
    let pair = Pair::strangers(&LinkConfig::default());
    let begun = Instant::now();
    for (server, client) in [(v4(TESTED_V4, 4000), v4(PEER_V4, 5000)), (v6(TESTED_V6, 4000), v6(PEER_V6, 5000))] {
        assert_eq!(pair.peer_ns.neighbour(pair.peer.ifindex(), server.ip()), None);
        let thread = echo(&pair.engine, Mode::Softirq, UdpSocket::bind(&pair.tested_ns, server).unwrap());
        let socket = UdpSocket::bind(&pair.peer_ns, client).unwrap();
        // The first datagram waits for the answer: nothing is lost even here.
        round_trips(&socket, server, 1, 1);
        round_trips(&socket, server, 100, 16);
        stop(&socket, server, thread);
        assert_eq!(pair.peer_ns.neighbour(pair.peer.ifindex(), server.ip()), Some(TESTED_MAC));
        assert_eq!(pair.tested_ns.neighbour(pair.tested.ifindex(), client.ip()), Some(PEER_MAC));
    }
    let (asker, asked) = (pair.peer_ns.counters(), pair.tested_ns.counters());
    // One question for each family, unless a thread without a processor owed the answer for a second: who is asked learns the asker
    // from the question.
    let late = begun.elapsed() >= Duration::from_secs(1);
    assert_eq!(asked.neigh_probes, 0);
    assert!(late || asker.neigh_probes == 2, "{asker}");
    assert!(late || (asked.arp_out_replies, asked.icmp6_out_neighbor_advertisements) == (1, 1), "{asked}");
    assert_eq!((asker.neigh_unresolved_discards, asked.neigh_unresolved_discards), (0, 0));
}

#[test]
fn the_first_datagrams_to_a_neighbour_arrive_in_order() {
    let pair = Pair::strangers(&LinkConfig::default());
    let server = bound(&pair.tested_ns, v4(TESTED_V4, 4000));
    let socket = UdpSocket::bind(&pair.peer_ns, v4(PEER_V4, 5000)).unwrap();
    // As many as fit into the server's receive buffer.
    for number in 0..90_u8 {
        socket.send_to(&[number], v4(TESTED_V4, 4000)).unwrap();
    }
    let mut buffer = [0; 8];
    for number in 0..90_u8 {
        assert_eq!(server.recv(&mut buffer).unwrap(), 1);
        assert_eq!(buffer[0], number);
    }
    assert_eq!(pair.peer_ns.counters().neigh_unresolved_discards, 0);
}

#[test]
fn a_forgotten_neighbour_is_asked_for_again() {
    let pair = Pair::new(&LinkConfig::default());
    let server = v4(TESTED_V4, 4000);
    let thread = echo(&pair.engine, Mode::Softirq, UdpSocket::bind(&pair.tested_ns, server).unwrap());
    let socket = UdpSocket::bind(&pair.peer_ns, v4(PEER_V4, 5000)).unwrap();
    round_trips(&socket, server, 10, 2);
    pair.peer_ns.neighbour_del(pair.peer.ifindex(), server.ip()).unwrap();
    round_trips(&socket, server, 1, 1);
    assert_eq!(pair.peer_ns.neighbour(pair.peer.ifindex(), server.ip()), Some(TESTED_MAC));
    stop(&socket, server, thread);
}

#[test]
fn nobody_answers_for_an_absent_neighbour() {
    let pair = Pair::new(&LinkConfig::default());
    let socket = UdpSocket::bind(&pair.peer_ns, v4(PEER_V4, 5000)).unwrap();
    let absent = v4([10, 77, 0, 99].into(), 4000);
    let begun = Instant::now();
    let error = loop {
        assert!(begun.elapsed() < PATIENCE, "an absent neighbour was never given up");
        match socket.send_to(b"anybody?", absent) {
            Ok(_) => std::thread::sleep(Duration::from_millis(20)),
            Err(error) => break error,
        }
    };
    assert_eq!(error.raw_os_error(), Some(libc::EHOSTUNREACH));
    assert!(pair.peer_ns.counters().neigh_unresolved_discards > 0);
    // The others are as near as before.
    let server = bound(&pair.tested_ns, v4(TESTED_V4, 4000));
    socket.send_to(b"hello", v4(TESTED_V4, 4000)).unwrap();
    assert_eq!(server.recv(&mut [0; 64]).unwrap(), 5);
}

/// An echo message: type, code, checksum, identifier, sequence number, data.
fn echo_message(kind: u8, sequence: u16, data: &[u8]) -> Vec<u8> {
    let mut message = vec![kind, 0, 0, 0, 0xbe, 0xef];
    message.extend(sequence.to_be_bytes());
    message.extend(data);
    message
}

#[test]
fn echo_requests_are_answered() {
    let pair = Pair::new(&LinkConfig::default());
    let port = RawPort::bind(&pair.peer, 0).unwrap();
    let (macs, back) = ((PEER_MAC, TESTED_MAC), (TESTED_MAC, PEER_MAC));
    let kinds: [(IpAddr, IpAddr, u8, u8, u8); 2] =
        [(PEER_V4.into(), TESTED_V4.into(), ICMP, 8, 0), (PEER_V6.into(), TESTED_V6.into(), ICMPV6, 128, 129)];
    for (peer, tested, protocol, request_kind, reply_kind) in kinds {
        for (sequence, size) in [(1, 0), (2, 1), (3, 56), (4, 1400)] {
            let data = vec![0xa5; size];
            let mut message = echo_message(request_kind, sequence, &data);
            let sum = |ips, body: &[u8]| {
                if protocol == ICMP { checksum(&[body]) } else { pseudo_checksum(ips, protocol, body) }
            };
            let bytes = sum((peer, tested), &message);
            message[2..4].copy_from_slice(&bytes);
            let build = |frame: &mut [u8]| {
                let at = ip_head(frame, macs, (peer, tested), protocol, message.len());
                frame[at..at + message.len()].copy_from_slice(&message);
                at + message.len()
            };
            port.build(1514, build).unwrap();
            port.flush();

            assert!(port.wait(Some(PATIENCE)), "no answer to an echo request of {size} bytes from {peer}");
            let answer = port.next().unwrap();
            let data = answer.data();
            assert_eq!((&data[..6], &data[6..12]), (&back.1[..], &back.0[..]));
            let body = &data[data.len() - message.len()..];
            assert_eq!(body[0], reply_kind);
            assert_eq!(body[4..], message[4..], "identifier, sequence number and data come back");
            // A message with its own checksum sums up to nothing.
            assert_eq!(sum((tested, peer), body), [0, 0]);
        }
    }
    let counters = pair.tested_ns.counters();
    assert_eq!((counters.icmp_in_echos, counters.icmp_out_echo_reps), (4, 4));
    assert_eq!((counters.icmp6_in_echos, counters.icmp6_out_echo_replies), (4, 4));
    assert_eq!(counters.icmp_in_errors + counters.icmp6_in_errors, 0);
}

/// Sends `count` datagrams without waiting, and returns how many interrupts they caused and how long it took.
fn burst(pair: &Pair, count: u64) -> (u64, Duration) {
    let server = UdpSocket::builder().rcvbuf(4 << 20).bind(&pair.tested_ns, v4(TESTED_V4, 4000)).unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    let client = UdpSocket::bind(&pair.peer_ns, v4(PEER_V4, 5000)).unwrap();
    let begun = Instant::now();
    let before = stats_of(&pair.tested);
    for number in 0..count {
        client.send_to(&number.to_le_bytes(), v4(TESTED_V4, 4000)).unwrap();
    }
    let mut buffer = [0; 64];
    for number in 0..count {
        assert_eq!(server.recv(&mut buffer).unwrap(), 8);
        assert_eq!(buffer[..8], number.to_le_bytes(), "one flow stays in order");
    }
    (stats_of(&pair.tested).interrupts - before.interrupts, begun.elapsed())
}

/// An interrupt comes with every 32nd packet or 100 ms after the first, so there is a bound that no delay can break.
#[test]
fn coalescing_bounds_the_interrupts_of_a_burst() {
    let pair = Pair::new(&LinkConfig::default());
    assert!(pair.tested.set_coalesce(0, Coalesce::new(100_000, 32).unwrap()));
    assert!(!pair.tested.set_coalesce(1, Coalesce::default()), "there is one queue");
    let (interrupts, took) = burst(&pair, 320);
    let bound = 320 / 32 + took.as_millis() as u64 / 100 + 1;
    assert!((1..=bound).contains(&interrupts), "{interrupts} interrupts in {took:?}, at most {bound}");
    assert!(pair.tested.stats().interrupts_suppressed > 0);

    // By time alone: a burst costs one interrupt, if it is shorter than the time.
    assert!(pair.tested.set_coalesce(0, Coalesce::new(50_000, 0).unwrap()));
    // None, if the poll of the burst before was still under way.
    eventually("a burst comes by an interrupt", || {
        let (interrupts, took) = burst(&pair, 320);
        let bound = took.as_millis() as u64 / 50 + 1;
        assert!(interrupts <= bound, "{interrupts} interrupts in {took:?}, at most {bound}");
        interrupts > 0
    });
}

#[test]
fn a_full_ring_is_counted() {
    let pair = Pair::new(&LinkConfig { ring_size: 64, ..LinkConfig::default() });
    for (from, from_ns, to, to_ns, ends) in [
        (&pair.peer, &pair.peer_ns, &pair.tested, &pair.tested_ns, (v4(PEER_V4, 5000), v4(TESTED_V4, 4000))),
        (&pair.tested, &pair.tested_ns, &pair.peer, &pair.peer_ns, (v4(TESTED_V4, 4000), v4(PEER_V4, 5000))),
    ] {
        let client = UdpSocket::builder().nonblocking(true).bind(from_ns, ends.0).unwrap();
        let server = UdpSocket::builder().nonblocking(true).rcvbuf(4 << 20).bind(to_ns, ends.1).unwrap();
        // A device that is down takes nothing out of its rings.
        to.set_down();
        let before = from.stats();
        let results: Vec<_> = (0..100_u64).map(|number| client.send_to(&number.to_le_bytes(), ends.1)).collect();
        let sent = results.iter().filter(|result| result.is_ok()).count() as u64;
        let refused = results.iter().filter_map(|result| result.as_ref().err()).map(std::io::Error::raw_os_error);
        assert!(refused.eq(std::iter::repeat_n(Some(libc::EAGAIN), 100 - sent as usize)));
        let after = from.stats();
        assert_eq!(sent, 64, "as many as the ring has slots");
        assert_eq!((after.tx_packets - before.tx_packets, after.tx_ring_full - before.tx_ring_full), (64, 36));

        // What was in the ring arrives, in order, when the device is up again.
        to.set_up().unwrap();
        for number in 0..sent {
            let mut buffer = [0; 64];
            eventually("a datagram out of the ring", || server.recv(&mut buffer).is_ok());
            assert_eq!(buffer[..8], number.to_le_bytes());
        }
        assert!(server.recv(&mut [0; 64]).is_err());
    }
}

/// Whatever is sent is received, or lost with a counter that says why.
#[test]
fn every_loss_has_a_counter() {
    let pair = Pair::new(&LinkConfig { ring_size: 256, ..LinkConfig::default() });
    // A socket that takes a few, one that takes all there are frames for, a port that nobody has.
    let small = UdpSocket::builder().nonblocking(true).rcvbuf(10_000).bind(&pair.tested_ns, v4(TESTED_V4, 1)).unwrap();
    let large = UdpSocket::builder().nonblocking(true).rcvbuf(4 << 20).bind(&pair.tested_ns, v4(TESTED_V4, 2)).unwrap();
    let client = UdpSocket::bind(&pair.peer_ns, v4(PEER_V4, 5000)).unwrap();
    let before = pair.tested.stats();
    let each = 1000;
    for port in [1, 2, 3] {
        for _ in 0..each {
            // A sender gives up on a full ring after some yields, which on a busy machine is before the other end had a processor.
            eventually("there is room in the ring", || match client.send_to(&[0; 32], v4(TESTED_V4, port)) {
                Ok(_) => true,
                Err(error) => {
                    assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::NOBUFS.raw_os_error()), "{error}");
                    false
                }
            });
        }
    }
    let drained = |socket: &UdpSocket| std::iter::from_fn(|| socket.recv(&mut [0; 64]).ok()).count() as u64;
    eventually("every packet is accounted for", || {
        let stats = pair.tested.stats();
        stats.rx_packets + stats.rx_no_frame - before.rx_packets == 3 * each
    });
    let settled = || {
        let counters = pair.tested_ns.counters();
        counters.udp_in_datagrams + counters.udp_rcvbuf_errors + counters.udp_no_ports
    };
    eventually("every datagram is accounted for", || settled() + pair.tested.stats().rx_no_frame == 3 * each);
    let (stats, counters) = (pair.tested.stats(), pair.tested_ns.counters());
    assert!(counters.udp_rcvbuf_errors > 0, "the small socket was full");
    assert!(stats.rx_no_frame > 0, "the large one held every frame");
    assert_eq!(drained(&small) + drained(&large), counters.udp_in_datagrams);
    // With the sockets empty everything arrives again.
    client.send_to(&[0; 32], v4(TESTED_V4, 2)).unwrap();
    eventually("a datagram after the flood", || drained(&large) == 1);
}

/// Unread frames of a raw port, and frames that somebody still looked at, go home with the port.
#[test]
fn a_dropped_port_gives_its_frames_back() {
    let pair = Pair::new(&LinkConfig { ring_size: 64, ..LinkConfig::default() });
    for (from, to) in [(&pair.peer, &pair.tested), (&pair.tested, &pair.peer)] {
        let (source, sink) = (RawPort::bind(from, 0).unwrap(), RawPort::bind(to, 0).unwrap());
        assert!(RawPort::bind(to, 0).is_err(), "a queue has one port at a time");
        for _ in 0..40 {
            source.build(64, |_| 64).unwrap();
        }
        source.flush();
        assert!(sink.wait(Some(PATIENCE)));
        let looked_at = sink.next().unwrap();
        assert!(to.frames_out() > 0, "the port has them");
        drop(looked_at);
        drop(sink);
        eventually("every frame is back", || to.frames_out() == 0);
        drop(RawPort::bind(to, 0).unwrap());
    }
}

//! One name space with a device that keeps what is sent.

use std::net::SocketAddr;

use napier_core::completion::Flush;
use napier_sys::clock::Clock;

use crate::pass::merge::Merging;
use crate::tcp::{TcpListener, TcpStream};
use crate::testing::{IFINDEX, NAPI, OUR_MAC, PEER_MAC, Rig, at, ethernet};
use crate::wire::checksum::Sum;
use crate::wire::{ETH_LEN, IPV4_LEN, flag};

/// What the tests look at in a segment.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) flags: u8,
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) payload: Vec<u8>,
}

/// An IPv4 segment from the peer.
pub(super) fn segment(src: &str, dst: &str, flags: u8, seq: u32, ack: u32, payload: &[u8]) -> Vec<u8> {
    let (SocketAddr::V4(src), SocketAddr::V4(dst)) = (at(src), at(dst)) else { panic!("IPv4 only") };
    let mut frame = vec![0; ETH_LEN];
    ethernet(&mut frame, PEER_MAC, OUR_MAC, (*src.ip()).into());
    let total = u16::try_from(IPV4_LEN + 20 + payload.len()).unwrap().to_be_bytes();
    let mut ip = vec![0x45, 0, total[0], total[1], 0, 0, 0x40, 0, 64, 6, 0, 0];
    ip.extend(src.ip().octets());
    ip.extend(dst.ip().octets());
    let sum = Sum::ZERO.bytes(&ip).field();
    ip[10..12].copy_from_slice(&sum);
    let mut tcp = Vec::new();
    tcp.extend(src.port().to_be_bytes());
    tcp.extend(dst.port().to_be_bytes());
    tcp.extend(seq.to_be_bytes());
    tcp.extend(ack.to_be_bytes());
    tcp.extend([0x50, flags, 0x40, 0, 0, 0, 0, 0]);
    tcp.extend(payload);
    let len = u16::try_from(tcp.len()).unwrap();
    let sum = Sum::ZERO.bytes(&ip[12..20]).number(6).number(len).bytes(&tcp).field();
    tcp[16..18].copy_from_slice(&sum);
    frame.extend(ip);
    frame.extend(tcp);
    frame
}

/// The same segment with another window.
pub(super) fn with_window(frame: Vec<u8>, window: u16) -> Vec<u8> {
    changed(frame, |tcp| tcp[14..16].copy_from_slice(&window.to_be_bytes()))
}

/// The same segment with another header, and its checksum.
pub(super) fn changed(mut frame: Vec<u8>, change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let (head, tcp) = frame.split_at_mut(ETH_LEN + IPV4_LEN);
    change(tcp);
    tcp[16..18].fill(0);
    let len = u16::try_from(tcp.len()).unwrap();
    let sum = Sum::ZERO.bytes(&head[ETH_LEN + 12..]).number(6).number(len).bytes(tcp).field();
    tcp[16..18].copy_from_slice(&sum);
    frame
}

/// The segments that left, whose checksums are right.
pub(super) fn sent(rig: &Rig) -> Vec<Seen> {
    let look = |frame: Vec<u8>| {
        let (ip, tcp) = frame[ETH_LEN..].split_at(IPV4_LEN);
        assert_eq!(&frame[..6], &PEER_MAC);
        assert!(Sum::ZERO.bytes(ip).is_valid());
        let len = u16::try_from(tcp.len()).unwrap();
        assert!(Sum::ZERO.bytes(&ip[12..20]).number(6).number(len).bytes(tcp).is_valid());
        let word = |at: usize| u32::from_be_bytes(tcp[at..at + 4].try_into().unwrap());
        let payload = tcp[usize::from(tcp[12] >> 4) * 4..].to_vec();
        Seen { flags: tcp[13], seq: word(4), ack: word(8), payload }
    };
    rig.sent().into_iter().map(look).collect()
}

pub(super) const PEER: &str = "10.0.0.2:5000";
pub(super) const US: &str = "10.0.0.1:80";

/// A connection that the peer has opened, and the sequence number of our next byte.
pub(super) fn accepted(rig: &mut Rig, listener: &TcpListener) -> (TcpStream, u32) {
    accepted_from(rig, listener, PEER)
}

/// A name space that listens, and a connection that it has accepted.
pub(super) fn connected() -> (Rig, TcpListener, TcpStream, u32) {
    let mut rig = Rig::new();
    let listener = listening(&rig);
    let (stream, ours) = accepted(&mut rig, &listener);
    (rig, listener, stream, ours)
}

pub(super) fn accepted_from(rig: &mut Rig, listener: &TcpListener, peer: &str) -> (TcpStream, u32) {
    rig.inject(&segment(peer, US, flag::SYN, 1000, 0, b""));
    let answer = sent(rig);
    assert_eq!((answer.len(), answer[0].flags, answer[0].ack), (1, flag::SYN | flag::ACK, 1001));
    let ours = answer[0].seq.wrapping_add(1);
    rig.inject(&segment(peer, US, flag::ACK, 1001, ours, b""));
    (listener.accept().expect("established").0, ours)
}

/// No timer comes before the test opens the gate of their thread: what leaves must not depend on how long a test takes.
pub(super) fn listening(rig: &Rig) -> TcpListener {
    rig.host.timers.close();
    rig.know_peers();
    TcpListener::builder().nonblocking(true).bind(&rig.ns, at(US)).expect("a free port")
}

#[test]
fn a_segment_at_a_time() {
    let (mut rig, _listener, stream, ours) = connected();
    rig.inject(&segment(PEER, US, flag::ACK | flag::PSH, 1001, ours, b"question"));
    let mut buffer = [0; 16];
    assert_eq!(stream.recv(&mut buffer).unwrap(), 8);
    // The acknowledgement goes with the answer.
    assert!(sent(&rig).is_empty());
    stream.send(b"answer").unwrap();
    let expected = Seen { flags: flag::ACK | flag::PSH, seq: ours, ack: 1009, payload: b"answer".to_vec() };
    assert_eq!(sent(&rig), [expected]);
    rig.assert_home(0);
}

/// One poll, by an instance that puts segments aside.
pub(super) fn poll(rig: &mut Rig, merging: &mut Merging, packets: &[Vec<u8>]) {
    let view = rig.ns.view();
    let mut pass = view.pass(NAPI, IFINDEX).expect("the device is there");
    pass.merge_into(merging);
    for bytes in packets {
        let mut frame = rig.pool.alloc().expect("a free frame");
        rig.host.frames.data_mut(&mut frame)[..bytes.len()].copy_from_slice(bytes);
        pass.receive(frame, u32::try_from(bytes.len()).expect("a short packet"));
    }
    pass.end();
}

/// Polls of one segment, of a few, of a whole window and of more, with or without receive offload: each connection gets
/// its bytes, in order, and what belongs to nobody is answered.
#[test]
fn the_segments_of_a_poll_are_all_taken_in_order() {
    for (count, merges) in (1..=20).flat_map(|count| [(count, false), (count, true)]) {
        let mut rig = Rig::new();
        let listener = listening(&rig);
        let peers = ["10.0.0.2:5000", "10.0.0.2:5001", "10.0.0.2:5002"];
        let streams = peers.map(|peer| accepted_from(&mut rig, &listener, peer));
        drop(sent(&rig));
        let mut packets = Vec::new();
        let mut expected = [const { Vec::new() }; 3];
        for at in 0..count {
            let to = at % 3;
            let seq = 1001 + expected[to].len() as u32;
            packets.push(segment(peers[to], US, flag::ACK | flag::PSH, seq, streams[to].1, &[at as u8]));
            expected[to].push(at as u8);
        }
        // Nobody's, in the middle.
        packets.insert(count / 2, segment("10.0.0.2:6000", US, flag::ACK, 7, 77, b""));
        let mut merging = Merging::default();
        merging.switch(merges);
        poll(&mut rig, &mut merging, &packets);
        for ((stream, _), expected) in streams.iter().zip(&expected) {
            stream.set_nonblocking(true).unwrap();
            let mut buffer = [0; 16];
            let got = stream.recv(&mut buffer).unwrap_or(0);
            assert_eq!(&buffer[..got], expected, "{count} segments, merges: {merges}");
        }
        let resets = sent(&rig).iter().filter(|seen| seen.flags & flag::RST != 0 && seen.seq == 77).count();
        assert_eq!(resets, 1, "{count} segments, merges: {merges}");
        rig.assert_home(0);
    }
}

#[test]
fn a_packet_may_be_longer_than_a_frame_of_the_wire() {
    let (mut rig, _listener, stream, ours) = connected();
    let payload: Vec<u8> = (0..1990).map(|i| i as u8).collect();
    rig.inject(&segment(PEER, US, flag::ACK, 1001, ours, &payload));
    let mut buffer = [0; 4096];
    assert_eq!(stream.recv(&mut buffer).unwrap(), 1990);
    assert_eq!(&buffer[..1990], &payload[..]);
}

#[test]
fn a_full_ring_keeps_segments_in_order() {
    use std::sync::atomic::Ordering;
    let (rig, _listener, stream, ours) = connected();
    rig.device.full.store(true, Ordering::Relaxed);
    stream.set_nodelay(true).unwrap();
    assert_eq!(stream.send(b"one").unwrap(), 3);
    assert_eq!(stream.send(b"two").unwrap(), 3);
    assert!(sent(&rig).is_empty());
    rig.device.full.store(false, Ordering::Relaxed);
    assert_eq!(stream.send(b"three").unwrap(), 5);
    let all: Vec<u8> = sent(&rig).into_iter().flat_map(|seen| seen.payload).collect();
    assert!(all.starts_with(b"one"), "{all:?}");
    assert!(rig.ns.counters().tcp_tx_waits >= 1);
    let _ = ours;
}

#[test]
fn numbers_cannot_be_guessed_from_others() {
    let mut rig = Rig::new();
    let _listener = listening(&rig);
    let mut seen = std::collections::HashSet::new();
    for port in 5000..5064 {
        rig.inject(&segment(&format!("10.0.0.2:{port}"), US, flag::SYN, 7, 0, b""));
        assert!(seen.insert(sent(&rig)[0].seq));
    }
    // Neither near each other nor at one distance.
    let mut all: Vec<u32> = seen.into_iter().collect();
    all.sort_unstable();
    let gaps: std::collections::HashSet<u32> = all.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.len() > 50 && all[63] - all[0] > 1 << 28);
}

#[test]
fn an_embryo_that_is_reset_makes_room() {
    let mut rig = Rig::new();
    rig.know_peers();
    let listener = TcpListener::builder().nonblocking(true).syn_limit(1).bind(&rig.ns, at(US)).unwrap();
    rig.inject(&segment(PEER, US, flag::SYN, 1000, 0, b""));
    assert_eq!(sent(&rig).len(), 1);
    rig.inject(&segment(PEER, US, flag::RST | flag::ACK, 1001, 0, b""));
    assert!(sent(&rig).is_empty());
    let (_stream, _) = accepted(&mut rig, &listener);
    let counters = rig.ns.counters();
    assert_eq!((counters.tcp_attempt_fails, counters.tcp_passive_opens, counters.tcp_embryos_evicted), (1, 2, 0));
}

/// All but the FIN is acknowledged, and then the same again three times.
#[test]
fn a_forgotten_fin_is_sent_again() {
    let (mut rig, _listener, stream, ours) = connected();
    stream.send(b"x").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let fins = |seen: &[Seen]| seen.iter().filter(|seen| seen.flags & flag::FIN != 0).count();
    assert_eq!(fins(&sent(&rig)), 1);
    for _ in 0..4 {
        rig.inject(&segment(PEER, US, flag::ACK, 1001, ours + 1, b""));
    }
    rig.host.timers.open();
    let begun = std::time::Instant::now();
    let mut again = 0;
    while again == 0 {
        assert!(begun.elapsed().as_secs() < 20, "the FIN was never sent again");
        std::thread::sleep(std::time::Duration::from_millis(5));
        again = fins(&sent(&rig));
    }
    rig.inject(&segment(PEER, US, flag::ACK | flag::FIN, 1001, ours + 2, b""));
    assert_eq!(stream.recv(&mut [0; 8]).unwrap(), 0);
}

/// A ring that never has room, and a peer that wants an answer to each segment.
#[test]
fn answers_that_cannot_leave_take_no_memory() {
    use std::sync::atomic::Ordering;
    let (mut rig, _listener, stream, ours) = connected();
    rig.host.timers.open();
    stream.set_nodelay(true).unwrap();
    rig.device.full.store(true, Ordering::Relaxed);
    assert_eq!(stream.send(b"first").unwrap(), 5);
    // Each behind a hole, and each a byte that is there already: both are answered at once.
    // While the timer has the connection in its hands some are put aside, or lost.
    let begun = std::time::Instant::now();
    for at in (0..8_u32).cycle() {
        let seq = if at % 2 == 0 { 1003 + 2 * at } else { 1000 };
        rig.inject(&segment(PEER, US, flag::ACK, seq, ours, b"x"));
        if rig.ns.counters().tcp_tx_acks_replaced > 9_000 {
            break;
        }
        assert!(begun.elapsed().as_secs() < 20, "{}", rig.ns.counters());
    }
    // What the peer has, the newest acknowledgement says.
    rig.inject(&segment(PEER, US, flag::ACK, 1001, ours, b"yx"));
    rig.device.full.store(false, Ordering::Relaxed);
    rig.inject(&segment(PEER, US, flag::ACK, 1000, ours, b"x"));
    // The timer may have the connection in its hands, and then answers for it.
    let (begun, mut left) = (std::time::Instant::now(), Vec::new());
    while left.last().is_none_or(|seen: &Seen| seen.ack != 1004) {
        assert!(begun.elapsed().as_secs() < 20, "what waited never left: {left:?}");
        std::thread::sleep(std::time::Duration::from_millis(1));
        rig.inject(&segment(PEER, US, flag::ACK, 1001, ours, b"yx"));
        left.extend(sent(&rig));
    }
    assert!(left.len() < 1000, "9000 were asked for, and {} left", left.len());
    assert_eq!((&left[0].payload[..], left[0].seq), (&b"first"[..], ours));
    while rig.pool.available() != rig.pool.total() as usize {
        assert!(begun.elapsed().as_secs() < 20, "frames are out");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// The options of an IPv4 header are no part of the segment, even if something is held before it.
#[test]
fn a_syn_with_ip_options_is_a_syn_behind_held_packets_too() {
    for holds in [false, true] {
        let (mut rig, _listener, stream, ours) = connected();
        let mut packets = Vec::new();
        if holds {
            packets.push(segment(PEER, US, flag::ACK, 1001, ours, &[7; 1000]));
        }
        let plain = segment("10.0.0.2:5001", US, flag::SYN, 7000, 0, b"");
        let (before, after) = plain.split_at(ETH_LEN + IPV4_LEN);
        // Eight bytes of "no operation", and the end.
        let mut syn = [before, &[1, 1, 1, 1, 1, 1, 1, 0], after].concat();
        syn[ETH_LEN] = 0x47;
        syn[ETH_LEN + 3] += 8;
        syn[ETH_LEN + 10..ETH_LEN + 12].fill(0);
        let sum = Sum::ZERO.bytes(&syn[ETH_LEN..ETH_LEN + IPV4_LEN + 8]).field();
        syn[ETH_LEN + 10..ETH_LEN + 12].copy_from_slice(&sum);
        packets.push(syn);
        let mut merging = Merging::default();
        poll(&mut rig, &mut merging, &packets);
        let answers: Vec<_> = sent(&rig).into_iter().filter(|seen| seen.ack == 7001).collect();
        assert_eq!((answers.len(), answers[0].flags), (1, flag::SYN | flag::ACK), "held before: {holds}");
        drop(stream);
    }
}

/// RFC 1122 section 4.2.3.2, although the two came as one.
#[test]
fn a_merged_train_is_acknowledged_at_once() {
    for (parts, at_once) in [(1, true), (2, true), (5, true)] {
        let (mut rig, _listener, stream, ours) = connected();
        let packets: Vec<_> =
            (0..parts).map(|part| segment(PEER, US, flag::ACK, 1001 + part * 1460, ours, &[7; 1460])).collect();
        let mut merging = Merging::default();
        poll(&mut rig, &mut merging, &packets);
        // The pass is over, but what was held waits for the completion.
        let view = rig.ns.view();
        let mut pass = view.pass(NAPI, IFINDEX).expect("the device is there");
        pass.flush(&mut merging, Flush::All, Clock.now());
        pass.end();
        let answer = sent(&rig);
        let expected = Seen { flags: flag::ACK, seq: ours, ack: 1001 + parts * 1460, payload: Vec::new() };
        assert_eq!(answer, if at_once { vec![expected] } else { Vec::new() }, "{parts} segments");
        let mut buffer = vec![0; 8000];
        assert_eq!(stream.recv(&mut buffer).unwrap(), 1460 * parts as usize);
    }
}

#[test]
fn a_syn_ack_waits_for_its_turn() {
    let mut rig = Rig::new();
    let _listener = listening(&rig);
    let begun = std::time::Instant::now();
    rig.inject(&segment(PEER, US, flag::SYN, 1000, 0, b""));
    assert_eq!(sent(&rig).len(), 1);
    rig.host.timers.open();
    let mut again = Vec::new();
    while again.is_empty() {
        assert!(begun.elapsed().as_secs() < 20, "the SYN|ACK was never sent again");
        std::thread::sleep(std::time::Duration::from_millis(5));
        again = sent(&rig);
    }
    assert!(begun.elapsed().as_millis() >= 1000, "{:?}", begun.elapsed());
    assert_eq!((again.len(), again[0].flags), (1, flag::SYN | flag::ACK));
}

//! One name space with a device that keeps what is sent.

use std::net::SocketAddr;

use super::super::super::checksum::Sum;
use super::super::super::merge::Merging;
use super::super::super::testing::{IFINDEX, NAPI, OUR_MAC, PEER_MAC, Rig, at, ethernet};
use super::super::super::wire::{ETH_LEN, IPV4_LEN, flag};
use super::super::{TcpListener, TcpStream};

/// What the tests look at in a segment.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    flags: u8,
    seq: u32,
    ack: u32,
    payload: Vec<u8>,
}

/// An IPv4 segment from the peer.
fn segment(src: &str, dst: &str, flags: u8, seq: u32, ack: u32, payload: &[u8]) -> Vec<u8> {
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

/// The segments that left, whose checksums are right.
fn sent(rig: &Rig) -> Vec<Seen> {
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

const PEER: &str = "10.0.0.2:5000";
const US: &str = "10.0.0.1:80";

/// A connection that the peer has opened, and the sequence number of our next byte.
fn accepted(rig: &mut Rig, listener: &TcpListener) -> (TcpStream, u32) {
    accepted_from(rig, listener, PEER)
}

fn accepted_from(rig: &mut Rig, listener: &TcpListener, peer: &str) -> (TcpStream, u32) {
    rig.inject(&segment(peer, US, flag::SYN, 1000, 0, b""));
    let answer = sent(rig);
    assert_eq!((answer.len(), answer[0].flags, answer[0].ack), (1, flag::SYN | flag::ACK, 1001));
    let ours = answer[0].seq.wrapping_add(1);
    rig.inject(&segment(peer, US, flag::ACK, 1001, ours, b""));
    (listener.accept().expect("established").0, ours)
}

fn listening(rig: &Rig) -> TcpListener {
    rig.know_peers();
    TcpListener::builder().nonblocking(true).bind(&rig.ns, at(US)).expect("a free port")
}

#[test]
fn a_segment_at_a_time() {
    let mut rig = Rig::new();
    let listener = listening(&rig);
    let (stream, ours) = accepted(&mut rig, &listener);
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
fn poll(rig: &mut Rig, merging: &mut Merging, packets: &[Vec<u8>]) {
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
        let mut merging = Merging::new();
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
    let mut rig = Rig::new();
    let listener = listening(&rig);
    let (stream, ours) = accepted(&mut rig, &listener);
    let payload: Vec<u8> = (0..1990).map(|i| i as u8).collect();
    rig.inject(&segment(PEER, US, flag::ACK, 1001, ours, &payload));
    let mut buffer = [0; 4096];
    assert_eq!(stream.recv(&mut buffer).unwrap(), 1990);
    assert_eq!(&buffer[..1990], &payload[..]);
}

#[test]
fn a_full_ring_keeps_segments_in_order() {
    use std::sync::atomic::Ordering;
    let mut rig = Rig::new();
    let listener = listening(&rig);
    let (stream, ours) = accepted(&mut rig, &listener);
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
    rig.inject(&segment("10.0.0.2:5001", US, flag::SYN, 1000, 0, b""));
    assert!(sent(&rig).is_empty());
    rig.inject(&segment(PEER, US, flag::RST | flag::ACK, 1001, 0, b""));
    assert!(sent(&rig).is_empty());
    let (_stream, _) = accepted(&mut rig, &listener);
    let counters = rig.ns.counters();
    assert_eq!((counters.tcp_attempt_fails, counters.tcp_passive_opens, counters.tcp_ext_listen_drops), (1, 2, 1));
}

/// All but the FIN is acknowledged, and then the same again three times: smoltcp stops its timer.
#[test]
fn a_forgotten_fin_is_sent_again() {
    let mut rig = Rig::new();
    let listener = listening(&rig);
    let (stream, ours) = accepted(&mut rig, &listener);
    stream.send(b"x").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let fins = |seen: &[Seen]| seen.iter().filter(|seen| seen.flags & flag::FIN != 0).count();
    assert_eq!(fins(&sent(&rig)), 1);
    for _ in 0..4 {
        rig.inject(&segment(PEER, US, flag::ACK, 1001, ours + 1, b""));
    }
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

//! What routers and hosts say of segments: a path that takes shorter ones, refusals, and forgeries of both.

use std::time::Duration;

use napier_testkit::{PATIENCE, eventually};

use crate::tcp::tests::segments::{PEER, US, changed, listening, segment};
use crate::tcp::{CongestionControl, TcpListener, TcpStream};
use crate::testing::{IFINDEX, PEER_MAC, Rig, at, icmp_error};
use crate::wire::{ETH_LEN, IPV4_LEN, flag};

/// Bytes of the IP packet of each frame with data, and its number.
fn data(frames: &[Vec<u8>]) -> Vec<(usize, u32)> {
    let with_data = frames.iter().filter(|frame| frame.len() > ETH_LEN + 80);
    with_data.map(|frame| (frame.len() - ETH_LEN, seq(frame))).collect()
}

fn seq(frame: &[u8]) -> u32 {
    let at = if frame[12..14] == [8, 0] { ETH_LEN + IPV4_LEN } else { ETH_LEN + 40 };
    u32::from_be_bytes(frame[at + 4..at + 8].try_into().unwrap())
}

/// A connection whose peer takes full segments, and the number of our first byte.
fn full_sized(rig: &mut Rig, listener: &TcpListener, peer: &str) -> (TcpStream, u32) {
    let mss = [2, 4, 5, 0xb4];
    let syn = changed(segment(peer, US, flag::SYN, 1000, 0, &mss), |tcp| tcp[12] = 0x60);
    rig.inject(&syn);
    // What others send again meanwhile is not it.
    let answer = rig.sent().into_iter().find(|frame| frame[ETH_LEN + IPV4_LEN + 13] & flag::SYN != 0);
    let ours = seq(&answer.expect("a SYN is answered")).wrapping_add(1);
    rig.inject(&segment(peer, US, flag::ACK, 1001, ours, b""));
    (listener.accept().expect("established").0, ours)
}

struct Sender {
    rig: Rig,
    listener: TcpListener,
    stream: TcpStream,
    ours: u32,
    /// What was sent before anything was lost.
    sent: Vec<Vec<u8>>,
}

/// A connection that has four full segments under way.
fn sender() -> Sender {
    let mut rig = Rig::new();
    // No segment is sent again because a test took long.
    rig.host.timers.close();
    rig.know_peers();
    let listener = TcpListener::builder().nonblocking(true).congestion(CongestionControl::None).bind(&rig.ns, at(US));
    let listener = listener.expect("a free port");
    let (stream, ours) = full_sized(&mut rig, &listener, PEER);
    stream.set_nodelay(true).unwrap();
    assert_eq!(stream.send(&[7; 4 * 1460]).unwrap(), 4 * 1460);
    let sent = rig.sent();
    assert!(data(&sent).len() >= 2 && data(&sent)[0] == (1500, ours), "{:?}", data(&sent));
    Sender { rig, listener, stream, ours, sent }
}

fn too_big(mtu: u16, about: &[u8]) -> Vec<u8> {
    let [high, low] = mtu.to_be_bytes();
    icmp_error([3, 4], [0, 0, high, low], about)
}

#[test]
fn a_path_that_takes_shorter_packets_gets_them_at_once() {
    let Sender { mut rig, listener, stream, ours, sent } = sender();
    rig.inject(&too_big(1280, &sent[0]));
    let again = data(&rig.sent());
    assert_eq!(again.first(), Some(&(1280, ours)), "sent again at once, and shorter");
    let counters = rig.ns.counters();
    assert_eq!((counters.icmp_in_dest_unreachs, counters.path_mtu_lowered), (1, 1));
    // The others that were under way tell nothing new.
    rig.inject(&too_big(1280, &sent[1]));
    assert_eq!(data(&rig.sent()), []);
    assert_eq!(rig.ns.counters().path_mtu_lowered, 1);
    // All of it is sent again, in packets that fit.
    assert!(again.iter().all(|(bytes, _)| *bytes <= 1280), "{again:?}");
    let mut end = ours;
    for (bytes, seq) in &again {
        end = if *seq == end { end.wrapping_add(*bytes as u32 - 40) } else { end };
    }
    assert!(end == ours.wrapping_add(4 * 1460), "{again:?}");
    rig.inject(&segment(PEER, US, flag::ACK, 1001, ours.wrapping_add(4 * 1460), b""));
    // Another connection to the same host knows; its peer may be told of full segments all the same.
    let (second, _) = full_sized(&mut rig, &listener, "10.0.0.2:5001");
    second.send(&[7; 3000]).unwrap();
    assert!(data(&rig.sent()).iter().all(|(bytes, _)| *bytes <= 1280));
    drop(stream);
}

#[test]
fn each_connection_with_long_segments_under_way_sends_them_again() {
    let Sender { mut rig, listener, sent, .. } = sender();
    let (second, ours) = full_sized(&mut rig, &listener, "10.0.0.2:5001");
    second.send(&[8; 2 * 1460]).unwrap();
    let sent_second = rig.sent();
    rig.inject(&too_big(1400, &sent[0]));
    let _ = rig.sent();
    let of_second = |frames: Vec<Vec<u8>>| {
        let port = 5001_u16.to_be_bytes();
        frames.into_iter().filter(|frame| frame[ETH_LEN + IPV4_LEN + 2..][..2] == port).collect::<Vec<_>>()
    };
    rig.inject(&too_big(1400, &of_second(sent_second)[0]));
    let again = data(&of_second(rig.sent()));
    assert_eq!(again.first(), Some(&(1400, ours)), "though the path was known by then");
    assert_eq!(rig.ns.counters().path_mtu_lowered, 1);
}

#[test]
fn a_forged_message_changes_nothing() {
    let Sender { mut rig, stream, ours, sent, .. } = sender();
    let with_seq = |seq: u32| {
        let mut frame = sent[0].clone();
        frame[ETH_LEN + IPV4_LEN + 4..ETH_LEN + IPV4_LEN + 8].copy_from_slice(&seq.to_be_bytes());
        frame
    };
    for wrong in [ours.wrapping_sub(1), ours.wrapping_add(1 << 20), ours.wrapping_add(1 << 31)] {
        rig.inject(&too_big(1280, &with_seq(wrong)));
        rig.inject(&icmp_error([3, 3], [0; 4], &with_seq(wrong)));
    }
    assert_eq!(rig.ns.counters().tcp_ext_out_of_window_icmps, 6);
    // A right number, and an MTU that cannot be.
    for mtu in [1500, 1501, 9000] {
        rig.inject(&too_big(mtu, &sent[0]));
    }
    let mut nobodys = sent[0].clone();
    nobodys[ETH_LEN + IPV4_LEN + 3] ^= 1;
    rig.inject(&too_big(1280, &nobodys));
    let counters = rig.ns.counters();
    assert_eq!((counters.path_mtu_lowered, counters.icmp_in_errors), (0, 1));
    assert_eq!(data(&rig.sent()), []);
    assert!(stream.take_error().unwrap().is_none());
    // Nor below the least.
    rig.inject(&too_big(68, &sent[0]));
    assert_eq!(data(&rig.sent()).first(), Some(&(552, ours)));
}

#[test]
fn acknowledged_bytes_are_not_under_way() {
    let Sender { mut rig, ours, sent, .. } = sender();
    rig.inject(&segment(PEER, US, flag::ACK, 1001, ours.wrapping_add(1460), b""));
    let _ = rig.sent();
    rig.inject(&too_big(1280, &sent[0]));
    assert_eq!(rig.ns.counters().tcp_ext_out_of_window_icmps, 1);
    rig.inject(&too_big(1280, &sent[1]));
    assert_eq!(rig.ns.counters().path_mtu_lowered, 1);
    assert_eq!(data(&rig.sent()).first(), Some(&(1280, ours.wrapping_add(1460))));
}

/// A router that loses full packets without a word: they get shorter by themselves.
#[test]
fn a_black_hole_is_left_without_a_word() {
    let Sender { rig, ours, .. } = sender();
    rig.host.timers.open();
    let mut seen = Vec::new();
    eventually("the segment is sent in shorter packets", || {
        seen.extend(data(&rig.sent()));
        seen.contains(&(1280, ours))
    });
    let full = seen.iter().filter(|packet| **packet == (1500, ours)).count();
    assert_eq!(full, 3, "after three retransmissions: {seen:?}");
    assert_eq!(rig.ns.counters().tcp_black_holes, 1);
}

fn connecting(rig: &Rig, peer: &str) -> (TcpStream, Vec<u8>) {
    let stream = TcpStream::builder().nonblocking(true).connect(&rig.ns, at(peer)).unwrap();
    (stream, rig.sent().remove(0))
}

#[test]
fn a_refusal_ends_a_connect_at_once() {
    let mut rig = Rig::new();
    rig.know_peers();
    let table = [
        ("10.0.0.2:9", [3, 0], libc::ENETUNREACH),
        ("10.0.0.2:9", [3, 1], libc::EHOSTUNREACH),
        ("10.0.0.2:9", [3, 2], libc::ENOPROTOOPT),
        ("10.0.0.2:9", [3, 3], libc::ECONNREFUSED),
        ("10.0.0.2:9", [3, 9], libc::ENETUNREACH),
        ("10.0.0.2:9", [3, 10], libc::EHOSTUNREACH),
        ("10.0.0.2:9", [3, 13], libc::EHOSTUNREACH),
        ("10.0.0.2:9", [11, 0], libc::EHOSTUNREACH),
        ("10.0.0.2:9", [12, 0], libc::EPROTO),
        ("[fd00::2]:9", [1, 0], libc::ENETUNREACH),
        ("[fd00::2]:9", [1, 1], libc::EACCES),
        ("[fd00::2]:9", [1, 3], libc::EHOSTUNREACH),
        ("[fd00::2]:9", [1, 4], libc::ECONNREFUSED),
        ("[fd00::2]:9", [3, 0], libc::EHOSTUNREACH),
    ];
    for (peer, message, expected) in table {
        let (stream, syn) = connecting(&rig, peer);
        rig.inject(&icmp_error(message, [0; 4], &syn));
        let error = stream.take_error().unwrap().map(|error| error.raw_os_error().unwrap());
        assert_eq!(error, Some(expected), "{peer} {message:?}");
        assert_eq!(stream.peer_addr().unwrap_err().raw_os_error(), Some(libc::ENOTCONN));
    }
    assert_eq!(rig.ns.counters().tcp_attempt_fails, table.len() as u64);
    // With a number that was not sent, it is not believed.
    let (stream, mut syn) = connecting(&rig, "10.0.0.2:9");
    syn[ETH_LEN + IPV4_LEN + 4] ^= 0x55;
    rig.inject(&icmp_error([3, 3], [0; 4], &syn));
    assert!(stream.take_error().unwrap().is_none());
    // Nor is a code that nobody knows.
    syn[ETH_LEN + IPV4_LEN + 4] ^= 0x55;
    rig.inject(&icmp_error([3, 16], [0; 4], &syn));
    assert!(stream.take_error().unwrap().is_none());
    rig.assert_home(0);
}

#[test]
fn a_blocked_connect_is_woken_by_a_refusal() {
    let mut rig = Rig::new();
    rig.know_peers();
    let ns = rig.ns.clone();
    let asks =
        std::thread::spawn(move || TcpStream::builder().connect_timeout(PATIENCE).connect(&ns, at("10.0.0.2:9")));
    let mut syn = Vec::new();
    eventually("a SYN leaves", || {
        syn = rig.sent();
        !syn.is_empty()
    });
    rig.inject(&icmp_error([3, 1], [0; 4], &syn[0]));
    let error = asks.join().unwrap().expect_err("refused");
    assert_eq!(error.raw_os_error(), Some(libc::EHOSTUNREACH));
}

#[test]
fn a_connection_that_stands_goes_on() {
    let Sender { mut rig, stream, ours, sent, .. } = sender();
    for message in [[3, 0], [3, 1], [3, 3], [3, 13], [11, 0], [12, 0]] {
        rig.inject(&icmp_error(message, [0; 4], &sent[0]));
    }
    assert!(stream.take_error().unwrap().is_none());
    assert!(stream.peer_addr().is_ok());
    rig.inject(&segment(PEER, US, flag::ACK | flag::PSH, 1001, ours.wrapping_add(4 * 1460), b"on"));
    assert_eq!(stream.recv(&mut [0; 8]).unwrap(), 2);
}

/// Why a connection ended by silence is what a router has said of it, if it has said something.
#[test]
fn the_reason_of_a_silence_is_told() {
    for (message, expected) in [(None, libc::ETIMEDOUT), (Some([3, 1]), libc::EHOSTUNREACH)] {
        let Sender { mut rig, stream, sent, .. } = sender();
        stream.set_user_timeout(Some(Duration::from_millis(300))).unwrap();
        if let Some(message) = message {
            rig.inject(&icmp_error(message, [0; 4], &sent[0]));
        }
        rig.host.timers.open();
        let mut error = None;
        eventually("it is given up", || {
            error = stream.take_error().unwrap();
            error.is_some()
        });
        assert_eq!(error.unwrap().raw_os_error(), Some(expected));
    }
}

#[test]
fn a_handshake_that_is_refused_makes_room() {
    let mut rig = Rig::new();
    let listener = listening(&rig);
    rig.inject(&segment(PEER, US, flag::SYN, 1000, 0, b""));
    let answer = rig.sent().remove(0);
    rig.inject(&icmp_error([3, 1], [0; 4], &answer));
    assert_eq!(rig.ns.counters().tcp_ext_listen_drops, 1);
    let (_stream, _) = full_sized(&mut rig, &listener, PEER);
}

#[test]
fn over_ipv6_a_path_has_no_less_than_the_least() {
    let mut rig = Rig::new();
    rig.know_peers();
    let (stream, syn) = connecting(&rig, "[fd00::2]:9");
    let ours = seq(&syn).wrapping_add(1);
    let answer = segment_v6(&syn, flag::SYN | flag::ACK, 500, ours, &[2, 4, 5, 0xa0]);
    rig.inject(&answer);
    let _ = rig.sent();
    stream.send(&[7; 2000]).unwrap();
    let full = rig.sent();
    assert_eq!(data(&full)[0], (1500, ours));
    rig.inject(&icmp_error([2, 0], 1279_u32.to_be_bytes(), &full[0]));
    assert_eq!(data(&rig.sent()), []);
    rig.inject(&icmp_error([2, 0], 1280_u32.to_be_bytes(), &full[0]));
    assert_eq!(data(&rig.sent()).first(), Some(&(1280, ours)));
    let counters = rig.ns.counters();
    assert_eq!((counters.icmp6_in_pkt_too_bigs, counters.path_mtu_lowered), (2, 1));
    assert_eq!(rig.ns.neighbour(IFINDEX, at("[fd00::2]:9").ip()), Some(PEER_MAC));
}

/// An answer to an IPv6 segment of ours.
fn segment_v6(to: &[u8], flags: u8, seq: u32, ack: u32, options: &[u8]) -> Vec<u8> {
    let mut frame = to[..ETH_LEN + 40].to_vec();
    for (at, len) in [(0, 6), (ETH_LEN + 8, 16)] {
        let (one, other) = frame[at..at + 2 * len].split_at_mut(len);
        one.swap_with_slice(other);
    }
    let tcp_len = 20 + options.len();
    frame[ETH_LEN + 4..ETH_LEN + 6].copy_from_slice(&(tcp_len as u16).to_be_bytes());
    let ports = &to[ETH_LEN + 40..ETH_LEN + 44];
    let mut tcp = [&ports[2..], &ports[..2], &seq.to_be_bytes(), &ack.to_be_bytes()].concat();
    tcp.extend([(tcp_len as u8 / 4) << 4, flags, 0x40, 0, 0, 0, 0, 0]);
    tcp.extend(options);
    let pseudo = crate::wire::checksum::Sum::ZERO.bytes(&frame[ETH_LEN + 8..]).number(6).number(tcp_len as u16);
    let sum = pseudo.bytes(&tcp).field();
    tcp[16..18].copy_from_slice(&sum);
    frame.extend(tcp);
    frame
}

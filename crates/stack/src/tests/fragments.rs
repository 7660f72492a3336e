//! Packets that come in pieces.

use napier_core::fragments::{HELD_BYTES_MAX, expires_after};
use napier_core::time::Span;
use napier_sys::clock::Clock;
use smoltcp::wire::{Icmpv4Packet, Ipv4Packet};

use super::receive::open;
use crate::testing::{IFINDEX, NAPI, Rig, at, udp};
use crate::wire::checksum::Sum;
use crate::wire::fragment::Fragment;

pub(super) const V4: (&str, &str) = ("10.0.0.2:77", "10.0.0.1:9");
pub(super) const V6: (&str, &str) = ("[fd00::2]:77", "[fd00::1]:9");

/// A part of a whole frame as a fragment: bytes of what stands behind the IP header.
fn piece(whole: &[u8], id: u16, from: usize, to: usize) -> Vec<u8> {
    let v4 = whole[14] >> 4 == 4;
    let head = if v4 { 34 } else { 54 };
    let more = head + to < whole.len();
    let mut frame = whole[..head].to_vec();
    let word = (from as u16 | u16::from(more)).to_be_bytes();
    if v4 {
        frame[16..18].copy_from_slice(&((20 + to - from) as u16).to_be_bytes());
        frame[18..20].copy_from_slice(&id.to_be_bytes());
        frame[20..22].copy_from_slice(&(from as u16 / 8 + (u16::from(more) << 13)).to_be_bytes());
        frame[24..26].fill(0);
        let sum = Sum::ZERO.bytes(&frame[14..34]).field();
        frame[24..26].copy_from_slice(&sum);
    } else {
        let next = std::mem::replace(&mut frame[20], 44);
        frame[18..20].copy_from_slice(&((8 + to - from) as u16).to_be_bytes());
        frame.extend([next, 0, word[0], word[1], 0, 0]);
        frame.extend(id.to_be_bytes());
    }
    frame.extend(&whole[head + from..head + to]);
    frame
}

pub(super) fn pieces(whole: &[u8], id: u16, step: usize) -> Vec<Vec<u8>> {
    let body = whole.len() - if whole[14] >> 4 == 4 { 34 } else { 54 };
    (0..body).step_by(step).map(|from| piece(whole, id, from, (from + step).min(body))).collect()
}

pub(super) fn payload(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 256) as u8).collect()
}

/// What the reassembly of one family has counted: fragments, whole packets, failures.
pub(super) fn counted(rig: &Rig, v4: bool) -> (u64, u64, u64) {
    let c = rig.ns.counters();
    if v4 {
        (c.ip_reasm_reqds, c.ip_reasm_oks, c.ip_reasm_fails)
    } else {
        (c.ip6_reasm_reqds, c.ip6_reasm_oks, c.ip6_reasm_fails)
    }
}

#[test]
fn pieces_in_any_order_are_one_datagram() {
    for (peer, own) in [V4, V6] {
        let mut rig = Rig::new();
        let socket = open(&rig, own);
        for (len, step) in [(1473, 1480), (3000, 1000), (5000, 1448), (65_507, 1480)] {
            let bytes = payload(len);
            let all = pieces(&udp(peer, own, &bytes), 7, step);
            let mut backwards = all.clone();
            backwards.reverse();
            for order in [all, backwards] {
                order.iter().for_each(|frame| rig.inject(frame));
                let mut buffer = vec![0; 1 << 16];
                let meta = socket.recv_msg(&mut buffer).unwrap();
                assert_eq!((meta.len, meta.from, meta.dst_ip), (len, at(peer), at(own).ip()));
                assert!(buffer[..len] == bytes[..]);
            }
        }
        let (fragments, whole, failed) = counted(&rig, own == V4.1);
        assert_eq!((whole, failed), (8, 0));
        let c = rig.ns.counters();
        let (receives, delivers) =
            if own == V4.1 { (c.ip_in_receives, c.ip_in_delivers) } else { (c.ip6_in_receives, c.ip6_in_delivers) };
        assert_eq!((receives, delivers), (fragments, 8), "each fragment is a packet received");
        rig.assert_home(0);
        assert_eq!(rig.ns.tables().reassembly.held(), (0, 0));
    }
}

#[test]
fn pieces_of_several_packets_are_kept_apart() {
    let mut rig = Rig::new();
    let socket = open(&rig, "10.0.0.1:9");
    let one = pieces(&udp("10.0.0.2:77", "10.0.0.1:9", &[1; 2000]), 7, 1480);
    let two = pieces(&udp("10.0.0.2:77", "10.0.0.1:9", &[2; 2000]), 8, 1480);
    let other = pieces(&udp("10.0.0.3:77", "10.0.0.1:9", &[3; 2000]), 7, 1480);
    for frame in [&one[0], &two[1], &other[0], &two[0], &other[1], &one[1]] {
        rig.inject(frame);
    }
    let mut buffer = [0; 2000];
    let mut read = || (socket.recv(&mut buffer).unwrap(), buffer[0], buffer[1999]);
    assert_eq!([read(), read(), read()], [(2000, 2, 2), (2000, 3, 3), (2000, 1, 1)]);
    rig.assert_home(0);
}

#[test]
fn what_overlaps_is_given_up() {
    for (peer, own) in [V4, V6] {
        let mut rig = Rig::new();
        let socket = open(&rig, own);
        let whole = udp(peer, own, &payload(2000));
        let body = whole.len() - if own == V4.1 { 34 } else { 54 };
        rig.inject(&piece(&whole, 7, 0, 1480));
        rig.inject(&piece(&whole, 7, 0, 1480));
        assert_eq!(counted(&rig, own == V4.1), (2, 0, 0), "a duplicate is passed over");
        rig.inject(&piece(&whole, 7, 1472, body));
        assert_eq!(counted(&rig, own == V4.1), (3, 0, 1));
        rig.inject(&piece(&whole, 7, 1480, body));
        assert!(socket.recv(&mut [0]).is_err(), "what came before is forgotten");
        assert_eq!(rig.ns.tables().reassembly.held().0, 1);
        // A datagram with a wrong checksum is as wrong in pieces.
        let mut bad = whole.clone();
        *bad.last_mut().unwrap() ^= 1;
        pieces(&bad, 9, 1480).iter().for_each(|frame| rig.inject(frame));
        assert!(socket.recv(&mut [0]).is_err());
        rig.assert_home(0);
    }
}

#[test]
fn what_is_not_whole_has_a_bound_in_bytes() {
    let mut rig = Rig::new();
    let _socket = open(&rig, "10.0.0.1:9");
    let whole = udp("10.0.0.2:77", "10.0.0.1:9", &payload(2000));
    for id in 0..5000 {
        rig.inject(&piece(&whole, id, 0, 1480));
    }
    let (packets, bytes) = rig.ns.tables().reassembly.held();
    assert!(bytes <= HELD_BYTES_MAX && bytes > HELD_BYTES_MAX - 4096, "{bytes}");
    assert_eq!(counted(&rig, true), (5000, 0, 5000 - packets as u64));
    rig.assert_home(0);
}

#[test]
fn what_is_not_whole_in_time_is_given_up() {
    let mut rig = Rig::new();
    let (frames, tables) = (rig.host.frames.clone(), rig.ns.tables());
    let now = Clock.now();
    let take = |(peer, own): (&str, &str), from: usize, to: usize, at| {
        let whole = udp(peer, own, &payload(2000));
        let frame = piece(&whole, 7, from, to);
        let start = if own == V4.1 { 34 } else { 54 };
        let fragment = Fragment::read(&frame, start, frame.len(), IFINDEX).unwrap();
        let made = tables.reassembly.take(&frames, &tables.counters, (&frame, fragment), at);
        made.into_iter().map(|(frame, len)| (frames.give_back(frame), len).1).collect::<Vec<_>>()
    };
    let _ = take(V6, 0, 1480, now);
    let _ = take(V4, 0, 1480, now);
    let just = now + Span::from_ns(expires_after(true).ns - 1);
    assert_eq!(take(V4, 1480, 2008, just), [34 + 2008], "in time");
    let _ = take(V4, 0, 1480, now);
    assert_eq!(take(V4, 1480, 2008, now + expires_after(true)).len(), 0);
    assert_eq!(rig.ns.counters().ip_reasm_timeout, 1);
    assert_eq!(take(V6, 1480, 2008, now + expires_after(true)), [54 + 2008], "IPv6 waits longer");
    let _ = take(V6, 0, 1480, now);
    assert_eq!(take(V6, 1480, 2008, now + expires_after(false)).len(), 0);
    assert_eq!(rig.ns.counters().ip6_reasm_timeout, 1);
    // The thread of the neighbours sees to it where no fragment comes any more.
    assert_eq!(tables.reassembly.held().0, 1);
    tables.reassembly.age(&tables.counters, now + expires_after(false) + expires_after(false));
    assert_eq!((tables.reassembly.held(), rig.ns.counters().ip6_reasm_timeout), ((0, 0), 2));
    rig.assert_home(0);
}

#[test]
fn a_fragment_that_is_all_of_its_packet_is_one() {
    let mut rig = Rig::new();
    let socket = open(&rig, V6.1);
    let whole = udp(V6.0, V6.1, b"atomic");
    // Another of the same number waits meanwhile.
    rig.inject(&piece(&udp(V6.0, V6.1, &payload(2000)), 7, 1480, 2008));
    rig.inject(&piece(&whole, 7, 0, whole.len() - 54));
    assert_eq!(socket.recv(&mut [0; 9]).unwrap(), 6);
    assert_eq!(rig.ns.tables().reassembly.held().0, 1);
}

#[test]
fn fragments_of_others_and_broken_ones_are_counted() {
    let mut rig = Rig::new();
    rig.inject(&piece(&udp("10.0.0.2:77", "10.0.0.9:9", &payload(2000)), 7, 0, 1480));
    let mut short = piece(&udp(V6.0, V6.1, &payload(2000)), 7, 0, 1480);
    short.truncate(58);
    short[18..20].copy_from_slice(&[0, 4]);
    rig.inject(&short);
    let c = rig.ns.counters();
    assert_eq!((c.ip_in_addr_errors, c.ip6_in_hdr_errors, c.ip_reasm_reqds, c.ip6_reasm_reqds), (1, 1, 0, 0));
    assert_eq!((c.ip_in_receives, c.ip6_in_receives), (1, 1));
    rig.assert_home(0);
}

#[test]
fn more_than_a_program_reads_is_lost_and_counted() {
    let mut rig = Rig::new();
    let sockets: Vec<_> = (0..40).map(|port| open(&rig, &format!("10.0.0.1:{}", 100 + port))).collect();
    for port in 0..40 {
        let whole = udp("10.0.0.2:77", &format!("10.0.0.1:{}", 100 + port), &payload(20_000));
        for id in 0..2 {
            pieces(&whole, id, 1480).iter().for_each(|frame| rig.inject(frame));
        }
    }
    let (_, whole, failed) = counted(&rig, true);
    assert_eq!((whole, failed), (64, 16));
    let read: usize = sockets.iter().map(|socket| std::iter::from_fn(|| socket.recv(&mut []).ok()).count()).sum();
    assert_eq!(read, 64);
    pieces(&udp("10.0.0.2:77", "10.0.0.1:100", &payload(20_000)), 9, 1480).iter().for_each(|frame| rig.inject(frame));
    assert_eq!(sockets[0].recv(&mut [0; 20_001]).unwrap(), 20_000);
    drop(sockets);
    rig.assert_home(0);
}

#[test]
fn an_echo_in_pieces_is_answered() {
    let mut rig = Rig::new();
    let mut frame = udp("10.0.0.2:8", "10.0.0.1:0", &payload(500));
    frame[23] = 1;
    frame[34..42].copy_from_slice(&[8, 0, 0, 0, 0, 1, 0, 1]);
    let sum = Sum::ZERO.bytes(&frame[34..]).field();
    frame[36..38].copy_from_slice(&sum);
    pieces(&frame, 7, 200).iter().for_each(|frame| rig.inject(frame));
    let answer = rig.sent().remove(0);
    let packet = Ipv4Packet::new_checked(&answer[14..]).unwrap();
    assert!(Icmpv4Packet::new_checked(packet.payload()).unwrap().verify_checksum());
    assert_eq!(answer.len(), 34 + 8 + 500);
}

#[test]
fn instances_hand_each_other_what_they_find() {
    let mut rig = Rig::new();
    let socket = open(&rig, "10.0.0.1:9");
    let all = pieces(&udp("10.0.0.2:77", "10.0.0.1:9", &payload(4000)), 7, 1480);
    for (number, frame) in all.iter().enumerate() {
        rig.inject_from(NAPI + number as u32, &[frame]);
    }
    assert_eq!(socket.recv(&mut [0; 4096]).unwrap(), 4000);
    rig.assert_home(0);
}

#[test]
fn two_threads_at_once_lose_nothing_that_is_not_counted() {
    const PACKETS: u16 = 1000;
    let rig = Rig::new();
    let (frames, tables, now) = (rig.host.frames.clone(), rig.ns.tables(), Clock.now());
    let whole = udp("10.0.0.2:77", "10.0.0.1:9", &payload(2000));
    let half = |of: usize| {
        let (from, to) = if of == 0 { (0, 1480) } else { (1480, 2008) };
        let mut made = 0;
        for id in 0..PACKETS {
            let frame = piece(&whole, id, from, to);
            let fragment = Fragment::read(&frame, 34, frame.len(), IFINDEX).unwrap();
            for (frame, len) in tables.reassembly.take(&frames, &tables.counters, (&frame, fragment), now) {
                assert_eq!(len, 34 + 2008);
                frames.give_back(frame);
                made += 1;
            }
        }
        made
    };
    let made: u64 = std::thread::scope(|scope| {
        let other = scope.spawn(|| half(1));
        half(0) + other.join().unwrap()
    });
    // A thread that gets no processor may be left more than it is to take. Each packet is whole, open, or has lost both halves.
    let (_, oks, lost) = counted(&rig, true);
    let both = lost - (u64::from(PACKETS) - oks);
    assert_eq!((made, tables.reassembly.held().0 as u64), (oks, lost - 2 * both));
}

/// A frame to us over IPv6, with what stands behind the header.
fn v6(next: u8, body: &[u8]) -> Vec<u8> {
    let mut frame = udp(V6.0, V6.1, b"")[..54].to_vec();
    frame[18..20].copy_from_slice(&(body.len() as u16).to_be_bytes());
    frame[20] = next;
    frame.extend(body);
    frame
}

#[test]
fn fragments_within_fragments_are_refused() {
    let mut rig = Rig::new();
    let level = |next: u8, id: u8| [next, 0, 0, 0, 0, 0, 0, id];
    // As deep as a datagram of any length could be.
    let deep: Vec<u8> = std::iter::repeat_n(level(44, 1), 180).flatten().chain(level(17, 1)).collect();
    rig.inject(&v6(44, &deep));
    assert_eq!(counted(&rig, false), (1, 0, 1));
    let mut whole = v6(17, &payload(1800));
    whole[54..].chunks_exact_mut(8).for_each(|at| at.copy_from_slice(&level(44, 2)));
    whole[20] = 44;
    pieces(&whole, 7, 1200).iter().for_each(|frame| rig.inject(frame));
    assert_eq!(counted(&rig, false), (3, 0, 2));
    // Hop-by-hop options are before it, or behind it where they have no business.
    let options = [44, 0, 1, 4, 0, 0, 0, 0];
    rig.inject(&v6(0, &[options, level(44, 3), level(17, 3)].concat()));
    rig.inject(&v6(44, &[level(0, 4), options, level(17, 4)].concat()));
    assert_eq!(counted(&rig, false), (5, 0, 4));
    // No parser looks behind others.
    rig.inject(&v6(44, &[level(60, 5), options, level(17, 5)].concat()));
    assert_eq!((counted(&rig, false), rig.ns.counters().ip6_in_unknown_protos), ((6, 1, 4), 1));
    rig.assert_home(0);
}

#[test]
fn memory_for_what_is_to_come_before_is_charged() {
    let mut rig = Rig::new();
    let mut frame = piece(&udp(V4.0, V4.1, &payload(2000)), 0, 0, 8);
    for id in 0..200_u16 {
        frame[18..20].copy_from_slice(&id.to_be_bytes());
        frame[20..22].copy_from_slice(&(0x2000_u16 | (65_504 / 8)).to_be_bytes());
        frame[24..26].fill(0);
        let sum = Sum::ZERO.bytes(&frame[14..34]).field();
        frame[24..26].copy_from_slice(&sum);
        rig.inject(&frame);
    }
    let (packets, bytes) = rig.ns.tables().reassembly.held();
    assert!(packets <= HELD_BYTES_MAX / 65_512 && bytes <= HELD_BYTES_MAX, "{packets} {bytes}");
    assert_eq!(counted(&rig, true), (200, 0, 200 - packets as u64));
    rig.assert_home(0);
}

#[test]
fn neighbour_discovery_in_fragments_is_ignored() {
    let mut rig = Rig::new();
    for kind in [133, 134, 135, 136, 137] {
        rig.inject(&v6(44, &[58, 0, 0, 0, 0, 0, 0, 1, kind, 0, 0, 0, 0, 0, 0, 0]));
    }
    assert_eq!((counted(&rig, false), rig.ns.counters().icmp6_in_msgs), ((5, 0, 5), 0));
    rig.inject(&v6(44, &[58, 0, 0, 0, 0, 0, 0, 1, 128, 0, 0, 0, 0, 0, 0, 0]));
    assert_eq!((counted(&rig, false), rig.ns.counters().icmp6_in_msgs), ((6, 1, 5), 1));
    rig.assert_home(0);
}

#[test]
fn what_came_by_another_interface_is_not_delivered_as_from_here() {
    let mut rig = Rig::new();
    let socket = open(&rig, V4.1);
    let (frames, tables, now) = (rig.host.frames.clone(), rig.ns.tables(), Clock.now());
    let all = pieces(&udp(V4.0, V4.1, &payload(2000)), 7, 1480);
    tables.reassembly.with_owner(|| {
        for frame in &all {
            let fragment = Fragment::read(frame, 34, frame.len(), IFINDEX + 1).unwrap();
            assert!(tables.reassembly.take(&frames, &tables.counters, (frame, fragment), now).is_empty());
        }
    });
    pieces(&udp(V4.0, V4.1, b"from here, in two pieces"), 8, 16).iter().for_each(|frame| rig.inject(frame));
    assert_eq!((socket.recv(&mut [0; 99]).unwrap(), socket.recv(&mut [0]).is_err()), (24, true));
    assert_eq!(counted(&rig, true), (4, 2, 1));
    rig.assert_home(0);
}

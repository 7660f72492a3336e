mod segments;

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::SocketAddr;

use napier_sys::clock::Clock;

use super::*;
use crate::testing::{IFINDEX, NAPI, OUR_MAC, Rig, at, udp, udp_frame};
use crate::{MergedDatagram, SocketOption, UdpSocket};

const US: &str = "10.0.0.1:4000";
const PEER: &str = "10.0.0.2:5000";

/// A poll of these frames.
fn poll(rig: &mut Rig, merging: &mut Merging, packets: &[&[u8]]) {
    let view = rig.ns.view();
    let mut pass = view.pass(NAPI, IFINDEX).unwrap();
    pass.merge_into(merging);
    for bytes in packets {
        let mut frame = rig.pool.alloc().expect("a free frame");
        rig.host.frames.data_mut(&mut frame)[..bytes.len()].copy_from_slice(bytes);
        pass.receive(frame, bytes.len() as u32);
    }
    pass.end();
}

fn flush(rig: &Rig, merging: &mut Merging, which: Flush) {
    let view = rig.ns.view();
    let mut pass = view.pass(NAPI, IFINDEX).unwrap();
    pass.flush(merging, which, Clock.now());
    pass.end();
}

fn socket(rig: &Rig, addr: &str, merged: bool) -> UdpSocket {
    let socket = UdpSocket::builder().nonblocking(true).bind(&rig.ns, at(addr)).unwrap();
    socket.setsockopt(SocketOption::UdpGro, merged.into()).unwrap();
    assert_eq!(socket.getsockopt(SocketOption::UdpGro), Ok(merged.into()));
    socket
}

fn receive(socket: &UdpSocket) -> Option<(MergedDatagram, Vec<u8>)> {
    let mut buffer = vec![0; 65535];
    match socket.recv_merged(&mut buffer) {
        Ok(merged) => {
            buffer.truncate(merged.bytes);
            Some((merged, buffer))
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            None
        }
    }
}

/// Sets a checksum that the changes of a test have broken.
fn seal(mut frame: Vec<u8>) -> Vec<u8> {
    let v4 = frame[14] >> 4 == 4;
    if v4 {
        let header = usize::from(frame[14] & 15) * 4;
        frame[24..26].fill(0);
        let sum = crate::wire::checksum::Sum::ZERO.bytes(&frame[14..14 + header]).field();
        frame[24..26].copy_from_slice(&sum);
    }
    frame
}

#[test]
fn datagrams_of_a_flow_become_one() {
    for (us, peer) in [(US, PEER), ("[fd00::1]:4000", "[fd00::2]:5000")] {
        let mut rig = Rig::new();
        let mut merging = Merging::default();
        let socket = socket(&rig, us, true);
        poll(&mut rig, &mut merging, &[&udp(peer, us, &[1; 100]), &udp(peer, us, &[2; 100])]);
        assert!(merging.held() && receive(&socket).is_none(), "held, for more may come");
        poll(&mut rig, &mut merging, &[&udp(peer, us, &[3; 100])]);
        assert!(receive(&socket).is_none());
        // A shorter one is the last.
        poll(&mut rig, &mut merging, &[&udp(peer, us, &[4; 7])]);
        assert!(!merging.held());
        assert_eq!(merging.take_joined(), 3);
        let (merged, bytes) = receive(&socket).unwrap();
        assert_eq!(merged, MergedDatagram { bytes: 307, segment_bytes: 100, segments: 4, from: at(peer) });
        assert_eq!(bytes, [&[1; 100][..], &[2; 100], &[3; 100], &[4; 7]].concat());
        assert!(receive(&socket).is_none());
        rig.assert_home(0);
        let counters = rig.ns.counters();
        assert_eq!(counters.udp_in_datagrams + counters.udp6_in_datagrams, 4);
    }
}

/// Who did not ask gets each datagram at once, also from a device that merges.
#[test]
fn nothing_is_held_for_others() {
    let mut rig = Rig::new();
    let mut merging = Merging::default();
    let plain = socket(&rig, US, false);
    let asks = socket(&rig, "10.0.0.1:4001", true);
    poll(&mut rig, &mut merging, &[&udp(PEER, US, b"one"), &udp(PEER, US, b"two")]);
    assert!(!merging.held());
    assert_eq!((receive(&plain).unwrap().0.segments, receive(&plain).unwrap().1), (1, b"two".to_vec()));
    // Nor if the device does not merge.
    merging.switch(false);
    poll(&mut rig, &mut merging, &[&udp(PEER, "10.0.0.1:4001", b"one"), &udp(PEER, "10.0.0.1:4001", b"two")]);
    assert!(!merging.held());
    assert_eq!((receive(&asks).unwrap().1, receive(&asks).unwrap().0.segments), (b"one".to_vec(), 1));
}

/// A second datagram after an ordinary one -> how many datagrams the flush makes of the two, each as (segments, bytes).
#[test]
fn which_datagrams_are_of_one_flow() {
    let v4 = || udp(PEER, US, &[1; 20]);
    let change = |at: usize, value: u8| {
        let mut frame = v4();
        frame[at] = value;
        seal(frame)
    };
    let mut no_checksum = v4();
    no_checksum[40..42].fill(0);
    let mut padded = v4();
    padded.extend([0; 4]);
    // Four bytes of options: three NOPs and the end.
    let mut options = v4();
    options[14] = 0x46;
    options[17] += 4;
    options.splice(34..34, [1, 1, 1, 0]);
    /// Segments and bytes of each datagram.
    type Seen<'a> = &'a [(u32, usize)];
    let rows: [(&str, Vec<u8>, Seen<'_>); 11] = [
        ("the same", v4(), &[(2, 40)]),
        ("shorter", udp(PEER, US, &[1; 19]), &[(2, 39)]),
        ("longer", udp(PEER, US, &[1; 21]), &[(1, 20), (1, 21)]),
        ("empty", udp(PEER, US, &[]), &[(1, 20), (1, 0)]),
        ("another port", udp("10.0.0.2:5001", US, &[1; 20]), &[(1, 20), (1, 20)]),
        ("another address", udp("10.0.0.3:5000", US, &[1; 20]), &[(1, 20), (1, 20)]),
        ("another station", udp_frame(at(PEER), at(US), [2, 0, 0, 0, 0, 9], OUR_MAC, &[1; 20]), &[(1, 20), (1, 20)]),
        ("another TTL", change(22, 63), &[(1, 20), (1, 20)]),
        ("no checksum", no_checksum, &[(1, 20), (1, 20)]),
        ("padded", padded, &[(1, 20), (1, 20)]),
        ("IP options", seal(options), &[(1, 20), (1, 20)]),
    ];
    for (name, second, expected) in rows {
        let mut rig = Rig::new();
        let mut merging = Merging::default();
        let socket = socket(&rig, US, true);
        poll(&mut rig, &mut merging, &[&v4(), &second]);
        flush(&rig, &mut merging, Flush::All);
        let seen: Vec<_> = std::iter::from_fn(|| receive(&socket)).map(|(m, _)| (m.segments, m.bytes)).collect();
        assert_eq!(seen, expected, "{name}");
        rig.assert_home(0);
    }
}

#[test]
fn a_flow_label_is_part_of_the_flow_and_a_traffic_class_is_not() {
    let (us, peer) = ("[fd00::1]:4000", "[fd00::2]:5000");
    // (byte, value, datagrams that are up after both, and after the flush).
    for (byte, value, up, all) in [(14, 0x60, 0, 1), (17, 9, 0, 2), (15, 0x10, 1, 2), (14, 0x61, 1, 2), (21, 7, 1, 2)] {
        let mut rig = Rig::new();
        let mut merging = Merging::default();
        let socket = socket(&rig, us, true);
        let mut second = udp(peer, us, &[1; 20]);
        second[byte] = value;
        poll(&mut rig, &mut merging, &[&udp(peer, us, &[1; 20]), &second]);
        assert_eq!(merging.held_changed(), Some(2 - up));
        let count = || std::iter::from_fn(|| receive(&socket)).count() as u32;
        assert_eq!(count(), up, "byte {byte}");
        flush(&rig, &mut merging, Flush::All);
        assert_eq!(up + count(), all, "byte {byte}");
        rig.assert_home(0);
    }
}

/// However it is read, a merged datagram is what was sent.
#[test]
fn every_way_to_read_what_was_merged() {
    let mut rig = Rig::new();
    let mut merging = Merging::default();
    let socket = socket(&rig, US, true);
    let mut train = |rig: &mut Rig| {
        let packets: Vec<Vec<u8>> = (0..40).map(|number| udp(PEER, US, &[number; 10])).collect();
        poll(rig, &mut merging, &packets.iter().map(Vec::as_slice).collect::<Vec<_>>());
        flush(rig, &mut merging, Flush::All);
    };
    let sent: Vec<u8> = (0..40).flat_map(|number| [number; 10]).collect();
    let mut buffer = [0; 400];
    train(&mut rig);
    assert_eq!(socket.recv(&mut buffer).unwrap(), 400);
    assert_eq!(buffer[..], sent);
    train(&mut rig);
    assert_eq!(socket.recv_from(&mut buffer[..25]).unwrap(), (25, at(PEER)), "the rest is lost");
    assert_eq!(socket.recv(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
    // One by one in place, at most 32 at once; the rest of the merged one by another call.
    train(&mut rig);
    let mut read = Vec::new();
    let mut each = |bytes: &[u8], from: SocketAddr| {
        assert_eq!((bytes.len(), from), (10, at(PEER)));
        read.extend_from_slice(bytes);
    };
    assert_eq!(socket.recv_batch(100, &mut each).unwrap(), 32);
    assert_eq!(receive(&socket).unwrap().0.segments, 8);
    assert_eq!(read, sent[..320]);
    // Who takes the option back gets what was merged before as it came.
    train(&mut rig);
    socket.setsockopt(SocketOption::UdpGro, 0).unwrap();
    for number in 0..40 {
        assert_eq!(socket.recv(&mut buffer).unwrap(), 10);
        assert_eq!(buffer[..10], [number; 10]);
    }
    rig.assert_home(0);
}

/// A merged datagram is taken or lost as a whole, and counted as what came over the wire.
#[test]
fn what_is_lost_is_counted_by_packets() {
    let mut rig = Rig::new();
    let mut merging = Merging::default();
    let packets: Vec<Vec<u8>> = (0..5).map(|number| udp(PEER, US, &[number; 10])).collect();
    let packets: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
    let socket = UdpSocket::builder().nonblocking(true).rcvbuf(6000).bind(&rig.ns, at(US)).unwrap();
    socket.setsockopt(SocketOption::UdpGro, 1).unwrap();
    poll(&mut rig, &mut merging, &packets);
    flush(&rig, &mut merging, Flush::All);
    poll(&mut rig, &mut merging, &packets[..1]);
    flush(&rig, &mut merging, Flush::All);
    let counters = rig.ns.counters();
    assert_eq!((counters.udp_in_datagrams, counters.udp_rcvbuf_errors), (5, 1), "the second train has no room");
    rig.assert_home(5);
    // The socket is closed while its datagrams are held.
    poll(&mut rig, &mut merging, &packets);
    assert!(merging.held());
    drop(socket);
    flush(&rig, &mut merging, Flush::All);
    assert_eq!(rig.ns.counters().udp_no_ports, 5);
    rig.assert_home(0);
    // And nobody at all.
    let socket = crate::pass::merge::tests::socket(&rig, US, true);
    poll(&mut rig, &mut merging, &packets);
    assert_eq!(merging.drop_all(&rig.host.frames), 5);
    assert!(!merging.held() && receive(&socket).is_none());
    rig.assert_home(0);
}

/// Only what is older than this jiffy goes up; merging makes nothing younger.
#[test]
fn old_packets_are_flushed_first() {
    let mut rig = Rig::new();
    let mut merging = Merging::default();
    let socket = socket(&rig, US, true);
    let jiffy_of = |merging: &mut Merging, rig: &mut Rig, payload: u8| {
        let before = jiffy(Clock.now());
        poll(rig, merging, &[&udp(PEER, US, &[payload; 10])]);
        (before == jiffy(Clock.now())).then_some(before)
    };
    // Whether all of this happened within one jiffy is known afterwards.
    for _ in 0..10_000 {
        let first = jiffy_of(&mut merging, &mut rig, 1);
        let view = rig.ns.view();
        let mut pass = view.pass(NAPI, IFINDEX).unwrap();
        let now = Clock.now();
        pass.flush(&mut merging, Flush::OldOnly, now);
        pass.end();
        drop(view);
        let Some(first) = first else {
            flush(&rig, &mut merging, Flush::All);
            while receive(&socket).is_some() {}
            continue;
        };
        assert_eq!(merging.held(), jiffy(now) == first, "held in {first}, flushed in {}", jiffy(now));
        while jiffy(Clock.now()) == first {
            std::hint::spin_loop();
        }
        if merging.held() {
            poll(&mut rig, &mut merging, &[&udp(PEER, US, &[2; 10])]);
            flush(&rig, &mut merging, Flush::OldOnly);
            assert!(!merging.held(), "as old as its first packet");
            assert_eq!(receive(&socket).unwrap().0.segments, 2);
            return;
        }
        while receive(&socket).is_some() {}
    }
    panic!("no two looks fell into one millisecond");
}

/// Whatever comes, each socket gets the datagrams of each flow in their order, each once, and every frame comes home.
#[test]
fn datagrams_in_are_datagrams_out() {
    for seed in 1..60_u64 {
        let mut random = seed;
        let mut draw = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        let mut rig = Rig::new();
        let mut merging = Merging::default();
        let sockets: Vec<UdpSocket> = (0..3).map(|n| socket(&rig, &format!("10.0.0.1:{}", 4000 + n), n != 2)).collect();
        // By socket and port of the sender, what is under way.
        let mut sent = vec![vec![VecDeque::new(); 12]; sockets.len()];
        let mut number = 0_u32;
        for _ in 0..60 {
            let mut packets = Vec::new();
            for _ in 0..draw(30) {
                let (to, from) = (draw(3) as usize, draw(12) as usize);
                let length = if draw(4) == 0 { draw(40) as usize } else { 32 };
                let mut payload = number.to_le_bytes().repeat(10);
                payload.truncate(length);
                number += 1;
                let mut frame = udp(&format!("10.0.0.2:{}", 5000 + from), &format!("10.0.0.1:{}", 4000 + to), &payload);
                match draw(20) {
                    0 => frame[40..42].fill(0),
                    1 => frame.extend([0; 3]),
                    2 => frame[22] = 9,
                    _ => {}
                }
                packets.push(seal(frame));
                sent[to][from].push_back(payload);
            }
            poll(&mut rig, &mut merging, &packets.iter().map(Vec::as_slice).collect::<Vec<_>>());
            match draw(4) {
                0 => flush(&rig, &mut merging, Flush::All),
                1 => flush(&rig, &mut merging, Flush::OldOnly),
                _ => {}
            }
            let last = number > 600;
            if last {
                flush(&rig, &mut merging, Flush::All);
            }
            for (socket, sent) in sockets.iter().zip(&mut sent) {
                while let Some((merged, bytes)) = receive(socket) {
                    let sent = &mut sent[usize::from(merged.from.port() - 5000)];
                    let mut rest = &bytes[..];
                    for segment in 0..merged.segments {
                        let length = if segment + 1 < merged.segments { merged.segment_bytes } else { rest.len() };
                        let (datagram, after) = rest.split_at(length);
                        assert_eq!(sent.pop_front().expect("it was sent"), datagram, "seed {seed}");
                        rest = after;
                    }
                    assert!(rest.is_empty());
                }
            }
        }
        flush(&rig, &mut merging, Flush::All);
        let rest: usize = sockets.iter().map(drain).sum();
        assert_eq!(rest, sent.iter().flatten().map(VecDeque::len).sum::<usize>());
        assert!(merging.take_joined() > 0);
        rig.assert_home(0);
    }
}

/// Reads everything; how many datagrams that were.
fn drain(socket: &UdpSocket) -> usize {
    std::iter::from_fn(|| receive(socket)).map(|(merged, _)| merged.segments as usize).sum()
}

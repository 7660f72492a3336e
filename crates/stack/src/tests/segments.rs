//! One buffer that leaves as several datagrams.

use std::sync::atomic::Ordering::Relaxed;

use napier_sys::current::without_waiting;
use smoltcp::wire::{ArpOperation, Ipv4Address};

use super::fragments::payload;
use crate::testing::{OUR_MAC, PEER_MAC, Rig, arp, at, udp_frame};
use crate::{SendMeta, SocketOption, UdpSocket};

const ENDS: [(&str, &str); 2] = [("10.0.0.1:9", "10.0.0.2:77"), ("[fd00::1]:9", "[fd00::2]:77")];

fn code<T: std::fmt::Debug>(result: std::io::Result<T>) -> i32 {
    result.expect_err("refused").raw_os_error().expect("a number")
}

fn open(rig: &Rig, own: &str) -> UdpSocket {
    UdpSocket::builder().nonblocking(true).bind(&rig.ns, at(own)).unwrap()
}

/// The frames of `bytes` in datagrams of `step`.
fn datagrams((own, peer): (&str, &str), bytes: &[u8], step: usize) -> Vec<Vec<u8>> {
    bytes.chunks(step).map(|part| udp_frame(at(own), at(peer), OUR_MAC, PEER_MAC, part)).collect()
}

#[test]
fn a_buffer_leaves_as_datagrams_of_one_size_and_a_rest() {
    let rig = Rig::new();
    rig.know_peers();
    for (own, peer) in ENDS {
        let socket = open(&rig, own);
        for (len, step) in [(3000, 1200), (2400, 1200), (1200, 1200), (100, 1200), (7, 1), (1400, 2000)] {
            let bytes = payload(len);
            let want = datagrams((own, peer), &bytes, step);
            let to = SendMeta::to(at(peer)).segment_bytes(step as u16);
            assert_eq!(socket.send_msg(&bytes, &to).unwrap(), len, "{len} in {step}");
            assert_eq!(rig.sent(), want);
            // The same by the socket's option, whichever call sends, and whether or not its way is remembered.
            socket.setsockopt(SocketOption::UdpSegment, step as i32).unwrap();
            assert_eq!(socket.getsockopt(SocketOption::UdpSegment), Ok(step as i32));
            assert_eq!(socket.send_to(&bytes, at(peer)).unwrap(), len);
            assert_eq!(socket.send_msg(&bytes, &SendMeta::to(at(peer)).ttl(64)).unwrap(), len);
            let built = socket.send_with(Some(at(peer)), len + 5, |slot| {
                slot[..len].copy_from_slice(&bytes);
                len
            });
            assert_eq!(built.unwrap(), len);
            assert_eq!(rig.sent(), [&want[..], &want[..], &want[..]].concat());
            socket.setsockopt(SocketOption::UdpSegment, 0).unwrap();
        }
        // A call may say that this one is not cut.
        socket.setsockopt(SocketOption::UdpSegment, 10).unwrap();
        socket.send_msg(&[1; 20], &SendMeta::to(at(peer)).segment_bytes(0)).unwrap();
        socket.send_to(&[], at(peer)).unwrap();
        assert_eq!(
            rig.sent().iter().map(Vec::len).collect::<Vec<_>>(),
            [20, 0].map(|len| { len + if own == ENDS[0].0 { 42 } else { 62 } })
        );
    }
    // 3 + 2 + 1 + 1 + 7 + 1 datagrams four times, and two.
    assert_eq!((rig.ns.counters().udp_out_datagrams, rig.ns.counters().udp6_out_datagrams), (62, 62));
}

#[test]
fn what_cannot_be_cut_is_refused_as_the_kernel_refuses_it() {
    let rig = Rig::new();
    rig.know_peers();
    for ((own, peer), most) in ENDS.into_iter().zip([1472, 1452]) {
        let socket = open(&rig, own);
        let send = |len: usize, step: u16| {
            let to = SendMeta::to(at(peer)).segment_bytes(step);
            let result = socket.send_msg(&vec![0; len], &to);
            (result, rig.sent().len())
        };
        assert_eq!(send(3 * most, most as u16).1, 3);
        for (len, step, expected) in [
            // No segment is cut into fragments.
            (3 * most, most as u16 + 1, libc::EMSGSIZE),
            (most + 1, most as u16 + 1, libc::EMSGSIZE),
            (most + 1, u16::MAX, libc::EMSGSIZE),
            (65_508, 1000, libc::EMSGSIZE),
            (1281, 10, libc::EINVAL),
            (129, 1, libc::EINVAL),
        ] {
            let (result, sent) = send(len, step);
            assert_eq!((code(result), sent), (expected, 0), "{len} in {step}");
        }
        assert_eq!((send(1280, 10).1, send(128, 1).1), (128, 128));
        for wrong in [-1, 65_536, i32::MAX] {
            let error: std::io::Error = socket.setsockopt(SocketOption::UdpSegment, wrong).unwrap_err().into();
            assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
        }
        socket.setsockopt(SocketOption::UdpSegment, 65_535).unwrap();
        assert_eq!(code(socket.send_to(&vec![0; most + 1], at(peer))), libc::EMSGSIZE);
        assert_eq!(socket.send_to(&vec![0; most], at(peer)).unwrap(), most);
        let _ = rig.sent();
    }
}

#[test]
fn a_ring_that_is_full_takes_what_it_has_room_for() {
    for waits_elsewhere in [false, true] {
        let rig = Rig::new();
        rig.know_peers();
        let (own, peer) = ENDS[0];
        let socket = open(&rig, own);
        socket.set_nonblocking(!waits_elsewhere).unwrap();
        let bytes = payload(1000);
        let to = SendMeta::to(at(peer)).segment_bytes(100);
        // `MSG_DONTWAIT` is as good as `O_NONBLOCK`.
        let send = |bytes: &[u8]| {
            if waits_elsewhere { without_waiting(|| socket.send_msg(bytes, &to)) } else { socket.send_msg(bytes, &to) }
        };
        rig.device.full_after.store(3, Relaxed);
        assert_eq!(send(&bytes).unwrap(), 300);
        assert_eq!(code(send(&bytes[300..])), libc::EAGAIN);
        let mut all = rig.sent();
        rig.device.full_after.store(0, Relaxed);
        assert_eq!(send(&bytes[300..]).unwrap(), 700);
        all.extend(rig.sent());
        assert_eq!(all, datagrams((own, peer), &bytes, 100));
        assert_eq!(rig.ns.counters().udp_out_datagrams, 10);
    }
}

#[test]
fn a_discipline_that_drops_is_counted_and_told_with_recverr_alone() {
    let rig = Rig::new();
    rig.know_peers();
    let (own, peer) = ENDS[0];
    let socket = open(&rig, own);
    let to = SendMeta::to(at(peer)).segment_bytes(100);
    rig.device.dropping.store(true, Relaxed);
    assert_eq!(socket.send_msg(&[0; 450], &to).unwrap(), 450);
    let c = rig.ns.counters();
    assert_eq!((c.udp_sndbuf_errors, c.udp_out_datagrams), (5, 0));
    socket.set_recverr(true);
    assert_eq!(code(socket.send_msg(&[0; 450], &to)), libc::ENOBUFS);
    rig.device.down.store(true, Relaxed);
    assert_eq!(code(socket.send_msg(&[0; 450], &to)), libc::ENETDOWN);
}

#[test]
fn datagrams_wait_together_for_their_neighbour() {
    let mut rig = Rig::new();
    let (own, peer) = ENDS[0];
    let socket = open(&rig, own);
    let bytes = payload(250);
    assert_eq!(socket.send_msg(&bytes, &SendMeta::to(at(peer)).segment_bytes(100)).unwrap(), 250);
    assert_eq!(rig.sent().len(), 1, "a question");
    rig.inject(&arp(ArpOperation::Reply, Ipv4Address::new(10, 0, 0, 2), PEER_MAC, Ipv4Address::new(10, 0, 0, 1)));
    assert_eq!(rig.sent(), datagrams((own, peer), &bytes, 100));
}

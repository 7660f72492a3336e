//! How long closing waits.

use std::time::{Duration, Instant};

use napier_testkit::eventually;

use super::segments::{PEER, US, connected, segment, sent};
use crate::wire::flag;

#[test]
fn closing_waits_until_the_peer_has_everything() {
    let (mut rig, _listener, stream, ours) = connected();
    stream.set_linger(Some(Duration::from_secs(3600))).unwrap();
    stream.set_nonblocking(true).unwrap();
    stream.send(b"last").unwrap();
    assert_eq!(sent(&rig).len(), 1);
    rig.host.timers.open();
    std::thread::scope(|scope| {
        let closes = scope.spawn(move || drop(stream));
        eventually("the end leaves", || sent(&rig).iter().any(|seen| seen.flags & flag::FIN != 0));
        // The data alone is not enough.
        rig.inject(&segment(PEER, US, flag::ACK, 1001, ours.wrapping_add(4), b""));
        assert!(!closes.is_finished());
        rig.inject(&segment(PEER, US, flag::ACK, 1001, ours.wrapping_add(5), b""));
        closes.join().unwrap();
    });
}

#[test]
fn a_reset_ends_the_wait() {
    let (mut rig, _listener, stream, _) = connected();
    rig.host.timers.open();
    stream.set_linger(Some(Duration::from_secs(3600))).unwrap();
    std::thread::scope(|scope| {
        let closes = scope.spawn(move || drop(stream));
        eventually("the end leaves", || sent(&rig).iter().any(|seen| seen.flags & flag::FIN != 0));
        rig.inject(&segment(PEER, US, flag::RST, 1001, 0, b""));
        closes.join().unwrap();
    });
}

#[test]
fn after_its_time_it_ends_by_itself() {
    let (mut rig, _listener, stream, ours) = connected();
    rig.host.timers.open();
    let time = Duration::from_millis(50);
    stream.set_linger(Some(time)).unwrap();
    let begun = Instant::now();
    drop(stream);
    assert!(begun.elapsed() >= time, "the peer has not acknowledged the end");
    assert!(sent(&rig).iter().any(|seen| seen.flags & flag::FIN != 0));
    rig.inject(&segment(PEER, US, flag::ACK | flag::FIN, 1001, ours.wrapping_add(1), b""));
    assert_eq!(rig.ns.counters().tcp_ext_tw, 1, "no reset");
}

#[test]
fn unread_data_and_no_time_need_no_wait() {
    for linger in [Some(Duration::from_secs(3600)), Some(Duration::ZERO)] {
        let (mut rig, _listener, stream, ours) = connected();
        stream.set_linger(linger).unwrap();
        if linger != Some(Duration::ZERO) {
            rig.inject(&segment(PEER, US, flag::ACK | flag::PSH, 1001, ours, b"unread"));
        }
        drop(stream);
        assert!(sent(&rig).iter().any(|seen| seen.flags & flag::RST != 0));
    }
}

#[test]
fn without_one_closing_does_not_wait() {
    let (rig, _listener, stream, _) = connected();
    stream.set_linger(Some(Duration::from_secs(3600))).unwrap();
    stream.set_linger(None).unwrap();
    drop(stream);
    assert!(sent(&rig).iter().any(|seen| seen.flags & flag::FIN != 0));
}

//! Both windows were closed, and both ends have probed.

use std::time::{Duration, Instant};

use napier_testkit::PATIENCE;

use crate::tcp::tests::segments::{PEER, US, connected, segment, sent, with_window};
use crate::testing::Rig;
use crate::wire::flag;

/// The bytes of data that leave until some do.
fn next_data(rig: &Rig) -> (u32, Vec<u8>) {
    let begun = Instant::now();
    loop {
        if let Some(seen) = sent(rig).into_iter().find(|seen| !seen.payload.is_empty()) {
            return (seen.seq, seen.payload);
        }
        assert!(begun.elapsed() < PATIENCE, "nothing is sent");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn probes_that_cross_keep_nobody_waiting() {
    for carries in [false, true] {
        let (mut rig, _listener, stream, ours) = connected();
        rig.inject(&with_window(segment(PEER, US, flag::ACK, 1001, ours, b""), 0));
        assert_eq!(stream.send(b"0123456789").unwrap(), 10);
        // The peer's own probe, with a byte that it does not count.
        rig.inject(&with_window(segment(PEER, US, flag::ACK, 1001, ours, b"p"), 0));
        assert_eq!(stream.recv(&mut [0; 16]).unwrap(), 1);
        let _ = sent(&rig);
        // It has read. What it says begins at its probe, which it does not count, or is the probe again.
        let payload: &[u8] = if carries { b"p" } else { b"" };
        rig.inject(&segment(PEER, US, flag::ACK, 1001, ours, payload));
        rig.host.timers.open();
        assert_eq!(next_data(&rig), (ours, b"0123456789".to_vec()));
        drop(stream);
    }
}

/// What acknowledges less is old, and may be a copy that was on its way for long.
#[test]
fn an_old_segment_moves_nothing_else() {
    let (mut rig, _listener, stream, ours) = connected();
    assert_eq!(stream.send(b"0123456789").unwrap(), 10);
    let _ = sent(&rig);
    rig.inject(&segment(PEER, US, flag::ACK, 1001, ours, b"p"));
    assert_eq!(stream.recv(&mut [0; 16]).unwrap(), 1);
    let _ = sent(&rig);
    rig.inject(&segment(PEER, US, flag::ACK, 1000, ours.wrapping_add(4), b""));
    rig.host.timers.open();
    assert_eq!(next_data(&rig), (ours, b"0123456789".to_vec()), "all is sent again");
    drop(stream);
}

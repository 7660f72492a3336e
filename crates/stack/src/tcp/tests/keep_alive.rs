//! When a silent peer is asked whether it is there.

use std::time::{Duration, Instant};

use napier_testkit::PATIENCE;

use crate::tcp::tests::segments::{PEER, Seen, US, connected, segment, sent};
use crate::wire::flag;

fn keep(idle: Duration) -> Option<(Duration, Duration, u32)> {
    Some((idle, Duration::from_secs(60), 3))
}

#[test]
fn switching_keep_alive_on_asks_nothing_yet() {
    let (mut rig, _listener, stream, ours) = connected();
    let hour = Duration::from_secs(3600);
    stream.set_keepalive(keep(hour)).unwrap();
    stream.set_user_timeout(Some(2 * hour)).unwrap();
    // Lets the connection send what it wants to.
    stream.set_nodelay(true).unwrap();
    assert_eq!(sent(&rig), []);
    rig.inject(&segment(PEER, US, flag::ACK, 1001, ours, b""));
    assert_eq!(sent(&rig), []);
    // From before what was acknowledged: it is answered, with nothing more.
    rig.inject(&segment(PEER, US, flag::ACK, 1000, ours, b""));
    stream.set_nodelay(false).unwrap();
    assert_eq!(sent(&rig), [Seen { flags: flag::ACK, seq: ours, ack: 1001, payload: Vec::new() }]);
}

#[test]
fn the_first_probe_comes_after_the_idle_time() {
    let (rig, _listener, stream, ours) = connected();
    rig.host.timers.open();
    let idle = Duration::from_millis(50);
    // The peer has been silent for longer than that already.
    std::thread::sleep(2 * idle);
    let begun = Instant::now();
    stream.set_keepalive(keep(idle)).unwrap();
    let seen = loop {
        let seen = sent(&rig);
        if !seen.is_empty() {
            break seen;
        }
        assert!(begun.elapsed() < PATIENCE, "nothing is asked");
        std::thread::sleep(Duration::from_millis(1));
    };
    assert!(begun.elapsed() >= idle, "asked after {:?}", begun.elapsed());
    assert_eq!((seen.len(), seen[0].seq), (1, ours.wrapping_sub(1)), "{seen:?}");
}

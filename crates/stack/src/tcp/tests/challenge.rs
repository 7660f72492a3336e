//! A SYN or a RST for a connection that is there already.

use crate::tcp::conn::challenge::CHALLENGE_GAP;
use crate::tcp::tests::segments::{PEER, Seen, US, connected, listening, segment, sent};
use crate::testing::Rig;
use crate::wire::flag;

fn challenge(ours: u32, expects: u32) -> Vec<Seen> {
    vec![Seen { flags: flag::ACK, seq: ours, ack: expects, payload: Vec::new() }]
}

#[test]
fn a_syn_is_answered_by_what_resets_the_connection() {
    let (mut rig, listener, stream, ours) = connected();
    rig.inject(&segment(PEER, US, flag::ACK | flag::PSH, 1001, ours, b"question"));
    assert_eq!(stream.recv(&mut [0; 16]).unwrap(), 8);
    // The peer knows nothing of it any more.
    rig.inject(&segment(PEER, US, flag::SYN, 77_000_000, 0, b""));
    assert_eq!(sent(&rig), challenge(ours, 1009));
    rig.inject(&segment(PEER, US, flag::RST, 1009, 0, b""));
    assert!(sent(&rig).is_empty());
    assert_eq!(stream.recv(&mut [0; 16]).unwrap_err().raw_os_error(), Some(libc::ECONNRESET));
    let counters = rig.ns.counters();
    assert_eq!((counters.tcp_ext_tcp_challenge_ack, counters.tcp_ext_tcp_syn_challenge), (1, 1));
    // Its next SYN finds room.
    rig.inject(&segment(PEER, US, flag::SYN, 77_000_000, 0, b""));
    let answer = sent(&rig);
    assert_eq!((answer.len(), answer[0].flags, answer[0].ack), (1, flag::SYN | flag::ACK, 77_000_001));
    rig.inject(&segment(PEER, US, flag::ACK, 77_000_001, answer[0].seq.wrapping_add(1), b""));
    listener.accept().expect("connected again");
    rig.assert_home(0);
}

#[test]
fn whoever_closed_last_is_challenged_too() {
    let (mut rig, _listener, stream, ours) = connected();
    // CLOSE-WAIT: the FIN counts as a byte.
    rig.inject(&segment(PEER, US, flag::ACK | flag::FIN, 1001, ours, b"x"));
    drop(sent(&rig));
    rig.inject(&segment(PEER, US, flag::SYN, 5, 0, b""));
    assert_eq!(sent(&rig), challenge(ours, 1003));
    assert_eq!(stream.recv(&mut [0; 16]).unwrap(), 1);
    drop(stream);
}

#[test]
fn an_embryo_of_an_earlier_life_gives_way() {
    let mut rig = Rig::new();
    let listener = listening(&rig);
    rig.inject(&segment(PEER, US, flag::SYN, 1000, 0, b""));
    let ours = sent(&rig)[0].seq.wrapping_add(1);
    // The same again is a retransmission.
    rig.inject(&segment(PEER, US, flag::SYN, 1000, 0, b""));
    assert!(sent(&rig).iter().all(|seen| seen.flags == flag::SYN | flag::ACK));
    rig.inject(&segment(PEER, US, flag::SYN, 5000, 0, b""));
    assert_eq!(sent(&rig), challenge(ours, 1001));
    rig.inject(&segment(PEER, US, flag::RST, 1001, 0, b""));
    rig.inject(&segment(PEER, US, flag::SYN, 5000, 0, b""));
    assert_eq!(sent(&rig)[0].ack, 5001);
    drop(listener);
}

#[test]
fn a_reset_must_be_exact() {
    let (mut rig, _listener, stream, ours) = connected();
    let begun = std::time::Instant::now();
    // Two may be so far apart if this thread is stopped, and then both are answered.
    let is_late = || begun.elapsed() >= std::time::Duration::from(CHALLENGE_GAP);
    for (seq, answered) in [(1002, true), (1001 + 5000, false), (1000, false), (90_000, false)] {
        rig.inject(&segment(PEER, US, flag::RST, seq, 0, b""));
        let (seen, expected) = (sent(&rig), if answered { challenge(ours, 1001) } else { Vec::new() });
        assert!(seen == expected || is_late(), "{seq}: {seen:?}");
    }
    // Within the window once more, but soon after.
    assert!(rig.ns.counters().tcp_ext_tcp_ack_skipped_challenge == 1 || is_late());
    assert_eq!(stream.send(b"alive").unwrap(), 5);
    assert_eq!(sent(&rig)[0].payload, b"alive");
    rig.inject(&segment(PEER, US, flag::RST, 1001, 0, b""));
    assert_eq!(stream.recv(&mut [0; 16]).unwrap_err().raw_os_error(), Some(libc::ECONNRESET));
}

#[test]
fn what_is_in_flight_stays_in_flight() {
    let (mut rig, _listener, stream, ours) = connected();
    stream.send(b"data").unwrap();
    assert_eq!(sent(&rig).len(), 1);
    rig.inject(&segment(PEER, US, flag::SYN | flag::ACK, 1000, ours, b""));
    assert_eq!(sent(&rig), challenge(ours + 4, 1001));
    // The peer was there all the time.
    rig.inject(&segment(PEER, US, flag::ACK, 1001, ours + 4, b"well"));
    assert_eq!(stream.recv(&mut [0; 16]).unwrap(), 4);
}

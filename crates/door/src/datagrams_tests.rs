//! Heads that no library would write, on a pair without an engine behind it.

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::*;

fn pair() -> (OwnedFd, OwnedFd) {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).expect("a pair")
}

/// What one turn comes to.
fn turn(datagrams: &mut Datagrams, own: &OwnedFd, left_bytes: &mut usize) -> (DatagramFlow, DatagramCounts) {
    let (mut record, reach) = (vec![0; RECORD_BYTES], Reach::default());
    let counts = DatagramCounts::default();
    let mut turn = DatagramTurn { own, record: &mut record, reach: &reach, left_bytes, counts };
    let flow = datagrams.pump(&mut turn);
    (flow, turn.counts)
}

#[test]
fn messages_without_a_head_are_counted_and_dropped() {
    let (theirs, own) = pair();
    let mut datagrams = Datagrams::new(false);
    let error = RecordHead::new(RecordKind::Error).to_bytes();
    let long = vec![0; RECORD_BYTES + 10];
    for message in [&b""[..], b"x", &[0; HEAD_BYTES], &error, &long] {
        send(&theirs, message, SendFlags::empty()).expect("there is room");
    }
    let (flow, counts) = turn(&mut datagrams, &own, &mut 0);
    assert_eq!((flow, counts.lost), (DatagramFlow::Idle, vec![NO_HEAD; 5]));
    assert_eq!(recv(&theirs, &mut [0; 8], RecvFlags::empty()).err(), Some(Errno::AGAIN), "nothing is told");
}

#[test]
fn errors_are_told_to_those_with_a_peer_and_those_that_ask() {
    let (theirs, own) = pair();
    let message = RecordHead::new(RecordKind::Datagram).to_bytes();
    let mut told = [0; HEAD_BYTES];
    let mut after_one = |peer: Option<&str>, hears| {
        let mut datagrams = Datagrams::new(true);
        (datagrams.peer, datagrams.hears) = (peer.map(|peer| peer.parse().expect("an address")), hears);
        send(&theirs, &message, SendFlags::empty()).expect("there is room");
        assert_eq!(turn(&mut datagrams, &own, &mut 0).1.lost, [UNBOUND]);
        recv(&theirs, &mut told, RecvFlags::DONTWAIT).map(|(len, _)| len)
    };
    assert_eq!(after_one(None, false), Err(Errno::AGAIN), "what it answers to is what a peer has said");
    assert_eq!((after_one(Some("[::1]:1"), false), after_one(None, true)), (Ok(HEAD_BYTES), Ok(HEAD_BYTES)));
    let head = RecordHead::from_bytes(&told).expect("a head");
    assert_eq!((head.kind, i32::from(head.errno)), (RecordKind::Error, libc::EDESTADDRREQ));
}

#[test]
fn a_flood_takes_turns_and_the_end_comes_after_it() {
    let (theirs, own) = pair();
    let mut datagrams = Datagrams::new(false);
    while send(&theirs, b"x", SendFlags::DONTWAIT).is_ok() {}
    let (flow, counts) = turn(&mut datagrams, &own, &mut 0);
    assert_eq!((flow, counts.lost.len()), (DatagramFlow::More, TURN_MAX));
    drop(theirs);
    datagrams.pair_says(EventFlags::HUP);
    let flows = (0..1000).map(|_| turn(&mut datagrams, &own, &mut 0).0);
    assert!(flows.into_iter().any(|flow| flow == DatagramFlow::Closed));
}

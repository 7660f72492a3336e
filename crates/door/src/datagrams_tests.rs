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
fn a_datagram_without_an_address_is_told_of() {
    let (theirs, own) = pair();
    let mut datagrams = Datagrams::new(true);
    let message = RecordHead::new(RecordKind::Datagram).to_bytes();
    send(&theirs, &message, SendFlags::empty()).expect("there is room");
    let (_, counts) = turn(&mut datagrams, &own, &mut 0);
    assert_eq!(counts.lost, [UNBOUND]);
    let mut told = [0; HEAD_BYTES];
    recv(&theirs, &mut told, RecvFlags::empty()).expect("it is told");
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

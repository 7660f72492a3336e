//! What a SYN does to a connection that waits out its end.

use super::segments::{PEER, US, connected, segment, sent};
use crate::wire::flag;

#[test]
fn a_newer_syn_gets_a_new_connection_and_an_old_one_an_answer() {
    let (mut rig, listener, stream, ours) = connected();
    drop(stream);
    assert_eq!(sent(&rig)[0].flags, flag::ACK | flag::FIN);
    rig.inject(&segment(PEER, US, flag::ACK | flag::FIN, 1001, ours.wrapping_add(1), b""));
    drop(sent(&rig));
    assert_eq!(rig.ns.counters().tcp_ext_tw, 1);
    // Its own SYN, late.
    rig.inject(&segment(PEER, US, flag::SYN, 1000, 0, b""));
    let answer = sent(&rig);
    assert_eq!((answer.len(), answer[0].flags, answer[0].ack), (1, flag::ACK, 1002));
    assert_eq!(rig.ns.counters().tcp_ext_tw_recycled, 0);
    // One that is newer; our numbers go on where the others ended.
    rig.inject(&segment(PEER, US, flag::SYN, 2000, 0, b""));
    let answer = sent(&rig);
    assert_eq!((answer.len(), answer[0].flags, answer[0].ack), (1, flag::SYN | flag::ACK, 2001));
    assert_eq!(answer[0].seq, ours.wrapping_add(1 + 65_537));
    assert_eq!(rig.ns.counters().tcp_ext_tw_recycled, 1);
    rig.inject(&segment(PEER, US, flag::ACK, 2001, answer[0].seq.wrapping_add(1), b""));
    assert!(listener.accept().is_ok());
}

#[test]
fn it_waits_on_where_no_socket_listens() {
    let (mut rig, listener, stream, ours) = connected();
    drop((stream, listener));
    drop(sent(&rig));
    rig.inject(&segment(PEER, US, flag::ACK | flag::FIN, 1001, ours.wrapping_add(1), b""));
    drop(sent(&rig));
    rig.inject(&segment(PEER, US, flag::SYN, 2000, 0, b""));
    let answer = sent(&rig);
    assert_eq!((answer.len(), answer[0].flags, answer[0].ack), (1, flag::ACK, 1002));
    assert_eq!(rig.ns.counters().tcp_ext_tw_recycled, 0);
}

//! What takes the place of a connection that waits out its end.

use std::sync::atomic::Ordering;

use napier_core::tcp::time_wait::Reuse;

use super::segments::{PEER, US, accepted_from, changed, connected, listening, segment, sent};
use crate::tcp::TcpStream;
use crate::tcp::flow::Flow;
use crate::testing::{Rig, at};
use crate::wire::addr::End;
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

#[test]
fn beyond_the_bound_the_oldest_goes() {
    let mut rig = Rig::new();
    let listener = listening(&rig);
    rig.ns.set_tcp_max_tw_buckets(2).unwrap();
    let peers = ["10.0.0.2:5000", "10.0.0.2:5001", "10.0.0.2:5002"];
    for peer in peers {
        let (stream, ours) = accepted_from(&mut rig, &listener, peer);
        drop(stream);
        rig.inject(&segment(peer, US, flag::ACK | flag::FIN, 1001, ours.wrapping_add(1), b""));
        drop(sent(&rig));
    }
    let end = |text: &str| End::from_socket_addr(&at(text));
    let waits = |peer: &str| {
        let flow = Flow { local: end(US), peer: end(peer) };
        rig.ns.tcp().unwrap().flows.find(&flow, |_| ()).is_some()
    };
    assert_eq!(peers.map(waits), [false, true, true]);
    let counters = rig.ns.counters();
    assert_eq!((counters.tcp_ext_tcp_time_wait_overflow, counters.tcp_ext_tw_recycled, counters.tcp_ext_tw), (1, 0, 3));
}

const OPENER: &str = "10.0.0.1:4000";
const SERVER: &str = "10.0.0.2:80";

fn opens(rig: &Rig) -> std::io::Result<TcpStream> {
    TcpStream::builder().nonblocking(true).local(at(OPENER)).connect(&rig.ns, at(SERVER))
}

/// A segment of the server with timestamps.
fn stamped(flags: u8, seq: u32, ack: u32) -> Vec<u8> {
    let options = [1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 0];
    changed(segment(SERVER, OPENER, flags, seq, ack, &options), |tcp| tcp[12] = 0x80)
}

#[test]
fn what_we_open_takes_the_place_by_the_table() {
    let mut rig = Rig::new();
    rig.know_peers();
    let stream = opens(&rig).unwrap();
    let first = sent(&rig)[0].seq;
    rig.inject(&stamped(flag::SYN | flag::ACK, 500, first.wrapping_add(1)));
    drop(stream);
    rig.inject(&stamped(flag::ACK | flag::FIN, 501, first.wrapping_add(2)));
    drop(sent(&rig));
    assert_eq!(rig.ns.counters().tcp_ext_tw, 1);
    let refused = |rig: &Rig| opens(rig).is_err_and(|error| error.raw_os_error() == Some(libc::EADDRINUSE));
    rig.ns.set_tcp_tw_reuse(Reuse::Always).unwrap();
    assert!(refused(&rig), "the server was heard just now");
    let end = |text: &str| End::from_socket_addr(&at(text));
    let flow = Flow { local: end(OPENER), peer: end(SERVER) };
    let tcp = rig.ns.tcp().unwrap();
    let conn = tcp.flows.find(&flow, std::sync::Arc::clone).expect("it waits");
    conn.own(tcp).machine.pretend_silent();
    for reuse in [Reuse::Never, Reuse::InProcess] {
        rig.ns.set_tcp_tw_reuse(reuse).unwrap();
        assert!(refused(&rig), "{reuse:?}");
    }
    rig.device.in_process.store(true, Ordering::Relaxed);
    let _again = opens(&rig).expect("over a link within the process");
    let syn = sent(&rig);
    assert_eq!((syn.len(), syn[0].flags, syn[0].seq), (1, flag::SYN, first.wrapping_add(2 + 65_537)));
    assert_eq!(rig.ns.counters().tcp_ext_tw_recycled, 1);
    assert!(refused(&rig), "the new one does not wait");
}

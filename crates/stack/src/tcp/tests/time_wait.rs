//! What takes the place of a connection that waits out its end.

use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use napier_core::tcp::seq::Seq;
use napier_core::tcp::time_wait::Reuse;
use napier_core::time::{Instant, Span};
use napier_sys::clock::Clock;

use super::segments::{PEER, US, accepted_from, changed, connected, listening, segment, sent};
use crate::tcp::conn::Conn;
use crate::tcp::flow::Flow;
use crate::tcp::remnant::{ANSWER_GAP, Remnant};
use crate::tcp::{TcpListener, TcpStream};
use crate::testing::{IFINDEX, Rig, at};
use crate::wire::addr::End;
use crate::wire::flag;

fn flow(local: &str, peer: &str) -> Flow {
    let end = |text: &str| End::from_socket_addr(&at(text));
    Flow { local: end(local), peer: end(peer) }
}

/// The whole connection.
fn connection(rig: &Rig, local: &str, peer: &str) -> Option<Arc<Conn>> {
    rig.ns.tcp()?.flows.find(&flow(local, peer), Arc::clone)
}

/// What stays of it.
fn remnant(rig: &Rig, local: &str, peer: &str) -> Option<Arc<Remnant>> {
    rig.ns.tcp()?.time_waits.find(&flow(local, peer))
}

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
    assert_eq!(peers.map(|peer| remnant(&rig, US, peer).is_some()), [false, true, true]);
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

/// A connection in TIME-WAIT that we have opened and the program still has, and its first number.
fn ended(rig: &mut Rig) -> (TcpStream, u32) {
    let stream = opens(rig).unwrap();
    let first = sent(rig)[0].seq;
    rig.inject(&stamped(flag::SYN | flag::ACK, 500, first.wrapping_add(1)));
    stream.shutdown(Shutdown::Write).unwrap();
    rig.inject(&stamped(flag::ACK | flag::FIN, 501, first.wrapping_add(2)));
    drop(sent(rig));
    assert_eq!(rig.ns.counters().tcp_ext_tw, 1);
    (stream, first)
}

/// The same of a connection that the program has closed.
#[test]
fn what_we_open_takes_the_place_of_what_stays() {
    let mut rig = Rig::new();
    rig.know_peers();
    let (stream, first) = ended(&mut rig);
    drop(stream);
    let left = remnant(&rig, OPENER, SERVER).expect("it waits");
    let tcp = rig.ns.tcp().unwrap();
    let late = Clock.now() + Span::from_secs(2);
    for (reuse, in_process, may) in [
        (Reuse::Never, true, false),
        (Reuse::InProcess, false, false),
        (Reuse::InProcess, true, true),
        (Reuse::Always, true, false),
    ] {
        rig.ns.set_tcp_tw_reuse(reuse).unwrap();
        rig.device.in_process.store(in_process, Ordering::Relaxed);
        assert_eq!(tcp.takes_place_of(&left, Clock.now()), None, "the server was heard just now");
        let takes = tcp.takes_place_of(&left, late);
        // The last row: another program has it already.
        assert_eq!(takes, may.then_some(Seq(first) + (2 + 65_537)), "{reuse:?} {in_process}");
        assert_eq!(left.is_gone(), may || reuse == Reuse::Always);
    }
    assert!(remnant(&rig, OPENER, SERVER).is_none());
    assert_eq!(rig.ns.counters().tcp_ext_tw_recycled, 1);
    opens(&rig).expect("the place is free");
}

/// A connection that the peer has opened and we have closed first, and the number behind our FIN.
fn closed_first() -> (Rig, TcpListener, u32) {
    let (mut rig, listener, stream, ours) = connected();
    drop(stream);
    rig.inject(&segment(PEER, US, flag::ACK | flag::FIN, 1001, ours.wrapping_add(1), b""));
    let answer = sent(&rig).pop().expect("an acknowledgement");
    assert_eq!((answer.flags, answer.seq, answer.ack), (flag::ACK, ours.wrapping_add(1), 1002));
    assert!(connection(&rig, US, PEER).is_none());
    (rig, listener, ours.wrapping_add(1))
}

#[test]
fn what_stays_of_a_connection_answers_as_it_would() {
    let (mut rig, _listener, ours) = closed_first();
    let begun = remnant(&rig, US, PEER).expect("it waits").until();
    let started = std::time::Instant::now();
    std::thread::sleep(Duration::from_millis(2));
    let rows = [
        (segment(PEER, US, flag::ACK, 1002, ours, b""), false),
        (segment(PEER, US, flag::RST, 1002, 0, b""), false),
        (segment(PEER, US, flag::RST | flag::ACK, 1001, ours, b""), false),
        (segment(PEER, US, flag::ACK, 1002, ours, b"late"), true),
        (segment(PEER, US, flag::ACK, 900, ours, b""), true),
        // What carries nothing is answered once in a while.
        (segment(PEER, US, flag::ACK, 900, ours, b""), false),
        (segment(PEER, US, flag::SYN, 900, 0, b""), false),
        (segment(PEER, US, flag::ACK, 1002, ours, b"late"), true),
    ];
    for (at, (frame, answered)) in rows.into_iter().enumerate() {
        rig.inject(&frame);
        let answer = sent(&rig).pop().map(|seen| (seen.flags, seen.seq, seen.ack));
        // What is answered once in a while is answered again if this thread was stopped for as long.
        let late = (5..=6).contains(&at) && started.elapsed() >= Duration::from(ANSWER_GAP);
        assert!(late || answer == answered.then_some((flag::ACK, ours, 1002)), "row {at}: {answer:?}");
        assert_eq!(remnant(&rig, US, PEER).expect("it waits").until(), begun);
    }
    rig.inject(&segment(PEER, US, flag::ACK | flag::FIN, 1001, ours, b""));
    assert_eq!(sent(&rig).len(), 1);
    assert!(remnant(&rig, US, PEER).expect("it waits").until() > begun, "its FIN begins the time anew");
    let counters = rig.ns.counters();
    assert_eq!((counters.tcp_ext_tw, counters.tcp_ext_tw_recycled, counters.tcp_out_rsts), (1, 0, 0));
}

#[test]
fn what_stays_goes_when_its_time_is_over() {
    let (rig, _listener, _) = closed_first();
    let (left, tcp) = (remnant(&rig, US, PEER).expect("it waits"), rig.ns.tcp().unwrap());
    for (before_ns, there) in [(1_000_000, true), (0, false), (0, false)] {
        tcp.called_for(&left, Instant { ns: left.until().ns - before_ns });
        assert_eq!((remnant(&rig, US, PEER).is_some(), left.is_gone()), (there, !there));
    }
    assert_eq!(tcp.time_waits.count(), 0);
}

#[test]
fn what_stays_goes_with_its_link() {
    let (rig, _listener, _) = closed_first();
    assert_eq!((rig.ns.tcp_drop(IFINDEX + 1), rig.ns.tcp_drop(IFINDEX), rig.ns.tcp_drop(IFINDEX)), (0, 1, 0));
    assert!(remnant(&rig, US, PEER).is_none());
    assert_eq!((rig.ns.tcp().unwrap().time_waits.count(), rig.ns.counters().tcp_abort_on_link), (0, 1));
}

/// A program that still has a connection keeps all of it; no bound ends what a program has.
#[test]
fn what_a_program_has_stays_whole_until_it_is_closed() {
    let (mut rig, _listener, stream, ours) = connected();
    rig.ns.set_tcp_max_tw_buckets(0).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    rig.inject(&segment(PEER, US, flag::ACK | flag::FIN, 1001, ours.wrapping_add(1), b""));
    assert!(connection(&rig, US, PEER).is_some() && remnant(&rig, US, PEER).is_none());
    rig.ns.set_tcp_max_tw_buckets(1).unwrap();
    drop(stream);
    assert!(connection(&rig, US, PEER).is_none() && remnant(&rig, US, PEER).is_some());
    let counters = rig.ns.counters();
    assert_eq!((counters.tcp_ext_tw, counters.tcp_ext_tcp_time_wait_overflow), (1, 0));
}

/// The answer to the peer's FIN waits for room in the ring: it leaves before the connection goes.
#[test]
fn what_was_not_sent_keeps_a_connection() {
    let (mut rig, _listener, stream, ours) = connected();
    drop(stream);
    drop(sent(&rig));
    rig.device.full.store(true, Ordering::Relaxed);
    rig.inject(&segment(PEER, US, flag::ACK | flag::FIN, 1001, ours.wrapping_add(1), b""));
    assert!(connection(&rig, US, PEER).is_some() && remnant(&rig, US, PEER).is_none());
    rig.device.full.store(false, Ordering::Relaxed);
    let waiters = std::mem::take(&mut *rig.device.waiters.lock().unwrap());
    waiters.into_iter().for_each(|waiter| _ = waiter.on_room());
    assert!(connection(&rig, US, PEER).is_none() && remnant(&rig, US, PEER).is_some());
    let left = sent(&rig);
    assert_eq!((left.len(), left[0].flags, left[0].ack), (1, flag::ACK, 1002));
}

#[test]
fn what_we_open_takes_the_place_by_the_table() {
    let mut rig = Rig::new();
    rig.know_peers();
    let (_stream, first) = ended(&mut rig);
    let refused = |rig: &Rig| opens(rig).is_err_and(|error| error.raw_os_error() == Some(libc::EADDRINUSE));
    rig.ns.set_tcp_tw_reuse(Reuse::Always).unwrap();
    assert!(refused(&rig), "the server was heard just now");
    let tcp = rig.ns.tcp().unwrap();
    let conn = tcp.flows.find(&flow(OPENER, SERVER), Arc::clone).expect("it waits");
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

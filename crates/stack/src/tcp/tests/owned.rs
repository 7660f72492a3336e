//! A program has a connection in hand and gets no processor: nobody waits for it, and what comes meanwhile is not lost.

use std::io::ErrorKind;
use std::net::Shutdown;
use std::panic::{AssertUnwindSafe, catch_unwind};

use napier_sys::clock::Clock;

use crate::tcp::conn::{Conn, Note, OwnedConn};
use crate::tcp::machine::TcpState;
use crate::tcp::tests::segments::{PEER, US, accepted, accepted_from, connected, listening, segment, sent};
use crate::tcp::{TcpListener, TcpStream};
use crate::testing::Rig;
use crate::wait::deferred::{Work, held};
use crate::wire::flag;
use crate::{SocketOption, StackCounters};

const OTHER: &str = "10.0.0.2:5001";

fn counters(rig: &Rig) -> StackCounters {
    rig.ns.counters()
}

fn conn(stream: &TcpStream) -> &std::sync::Arc<Conn> {
    stream.conn()
}

fn would_block(stream: &TcpStream) -> bool {
    stream.recv(&mut [0; 8]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

fn two(rig: &mut Rig) -> (TcpListener, (TcpStream, u32), (TcpStream, u32)) {
    let listener = listening(rig);
    let first = accepted(rig, &listener);
    let second = accepted_from(rig, &listener, OTHER);
    for (stream, _) in [&first, &second] {
        stream.set_nonblocking(true).unwrap();
    }
    (listener, first, second)
}

#[test]
fn a_segment_waits_for_its_owner_and_the_next_one_does_not() {
    let mut rig = Rig::new();
    let (_listener, (held, ours), (free, others)) = two(&mut rig);
    let ns = rig.ns.clone();
    let in_hand = conn(&held).own(ns.tcp().unwrap());
    rig.inject(&segment(PEER, US, flag::ACK | flag::PSH, 1001, ours, b"first "));
    rig.inject(&segment(PEER, US, flag::ACK | flag::PSH, 1007, ours, b"second"));
    rig.inject(&segment(OTHER, US, flag::ACK | flag::PSH, 1001, others, b"free"));
    let mut buffer = [0; 16];
    assert_eq!(free.recv(&mut buffer).unwrap(), 4, "the other connection is served");
    assert_eq!(counters(&rig).tcp_backlogged, 2);
    rig.assert_home(0);
    drop(in_hand);
    assert_eq!(held.recv(&mut buffer).unwrap(), 12, "both are there, in their order");
    assert_eq!(&buffer[..12], b"first second");
    assert!(would_block(&held) && would_block(&free));
}

#[test]
fn what_waits_is_bounded() {
    let mut rig = Rig::new();
    let (_listener, (held, ours), _) = two(&mut rig);
    let ns = rig.ns.clone();
    let in_hand = conn(&held).own(ns.tcp().unwrap());
    let noise = segment(PEER, US, flag::ACK, 1001, ours, &[7; 1000]);
    let mut injected: u64 = 0;
    while counters(&rig).tcp_ext_tcp_backlog_drop < 100 {
        rig.inject(&noise);
        injected += 1;
        assert!(injected < 10_000, "there is a limit");
    }
    let waiting = counters(&rig).tcp_backlogged;
    drop(in_hand);
    let receive = held.getsockopt(SocketOption::RcvBuf).unwrap().unsigned_abs().into();
    assert_eq!(waiting, napier_core::backlog::bytes_max(receive, receive) / (1040 + 128));
    assert_eq!(held.recv(&mut [0; 4096]).unwrap(), 1000, "the same bytes all over");
    // What was worked off weighs nothing any more.
    let in_hand = conn(&held).own(ns.tcp().unwrap());
    rig.inject(&segment(PEER, US, flag::ACK, 2001, ours, b"more"));
    drop(in_hand);
    assert_eq!(held.recv(&mut [0; 16]).unwrap(), 4);
}

#[test]
fn a_timer_leaves_a_note() {
    let mut rig = Rig::new();
    let (_listener, (held, ours), _) = two(&mut rig);
    let ns = rig.ns.clone();
    let _ = sent(&rig);
    held.send(b"lost").unwrap();
    assert_eq!(sent(&rig).len(), 1);
    let mut in_hand = conn(&held).own(ns.tcp().unwrap());
    let place = in_hand.queued_at();
    let late = Clock.now() + napier_core::time::Span::from_secs(1);
    in_hand.pretend_due();
    conn(&held).called(ns.tcp().unwrap(), place, late);
    assert!(in_hand.is_pretended(), "the timer did not touch what it does not own");
    drop(in_hand);
    assert!(!conn(&held).own(ns.tcp().unwrap()).is_pretended(), "the owner has done the timer's work");
    rig.inject(&segment(PEER, US, flag::ACK, 1001, ours.wrapping_add(4), b""));
}

#[test]
fn a_syn_that_waited_for_the_end_of_a_connection_begins_another() {
    let (mut rig, _listener, stream, ours) = connected();
    // The program still has it: so it waits as a whole.
    let ended = conn(&stream).clone();
    stream.shutdown(Shutdown::Write).unwrap();
    let fin = sent(&rig);
    assert_eq!(fin.len(), 1, "our FIN");
    rig.inject(&segment(PEER, US, flag::ACK | flag::FIN, 1001, ours.wrapping_add(1), b""));
    assert_eq!(sent(&rig).len(), 1, "time-wait");
    let ns = rig.ns.clone();
    let in_hand = ended.own(ns.tcp().unwrap());
    rig.inject(&segment(PEER, US, flag::SYN, 9000, 0, b""));
    assert!(sent(&rig).is_empty());
    drop(in_hand);
    let answer = sent(&rig);
    assert_eq!((answer.len(), answer[0].flags, answer[0].ack), (1, flag::SYN | flag::ACK, 9001));
}

/// A reset of what nobody accepts comes from softirqs as well.
#[test]
fn a_connection_in_other_hands_is_reset_by_its_owner() {
    let mut rig = Rig::new();
    let listener = listening(&rig);
    rig.inject(&segment(PEER, US, flag::SYN, 1000, 0, b""));
    let ours = sent(&rig)[0].seq.wrapping_add(1);
    rig.inject(&segment(PEER, US, flag::ACK, 1001, ours, b""));
    let ns = rig.ns.clone();
    let waiting = listener.first_waiting().expect("established");
    let in_hand = waiting.own(ns.tcp().unwrap());
    drop(listener);
    assert!(sent(&rig).is_empty());
    drop(in_hand);
    assert_eq!(sent(&rig)[0].flags & flag::RST, flag::RST);
}

/// A mistake of ours costs one connection: it is free and over, and the thread kicks devices for others as before.
#[test]
fn a_panic_with_a_connection_in_hand_ends_that_connection_alone() {
    let mut rig = Rig::new();
    let (_listener, (first, ours), (second, _)) = two(&mut rig);
    let ns = rig.ns.clone();
    let send = |core: &mut OwnedConn<'_>| {
        assert_eq!(core.machine.write(b"byte"), 4);
        core.drive(ns.tables(), Clock.now());
        assert_eq!(held(Work::Kicks), 1, "until the connection is free");
    };
    let by_its_owner = || {
        send(&mut conn(&first).own(ns.tcp().unwrap()));
        assert_eq!(held(Work::Kicks), 0);
        let mut core = conn(&first).own(ns.tcp().unwrap());
        send(&mut core);
        panic!("injected: with a connection in hand");
    };
    assert!(catch_unwind(AssertUnwindSafe(by_its_owner)).is_err());
    let by_a_note = || {
        let mut core = conn(&second).own(ns.tcp().unwrap());
        send(&mut core);
        conn(&second).leave(ns.tcp().unwrap(), Note::Panic);
        conn(&second).leave(ns.tcp().unwrap(), Note::Room);
    };
    assert!(catch_unwind(AssertUnwindSafe(by_a_note)).is_err());
    assert_eq!(held(Work::Kicks), 0, "nothing is held by a connection that is free");
    for stream in [&first, &second] {
        assert!(conn(stream).try_own(ns.tcp().unwrap()).is_some_and(|core| core.live_state() == TcpState::Closed));
        assert!(!would_block(stream), "its program is told");
    }
    rig.inject(&segment(PEER, US, flag::ACK, 1001, ours.wrapping_add(4), b"late"));
}

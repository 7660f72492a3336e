//! Which SYN begins a new connection in place of one that waits out its end (RFC 9293 section 3.10.7.4, RFC 6191 section 2).

use napier_core::tcp::congestion::Control;
use napier_core::tcp::options::{Options, Stamps};
use napier_core::tcp::seq::Seq;
use napier_core::time::{Instant, Span};

use crate::tcp::machine::{Beginning, Inbound, Room, TcpMachine, TcpNumbers, TcpState};
use crate::wire::flag;

const THEIRS: Seq = Seq(u32::MAX - 1);
const OURS: Seq = Seq(u32::MAX - 2);
const STAMP: u32 = u32::MAX;

fn came(flags: u8, seq: Seq, ack: Seq, stamp: Option<u32>) -> Inbound<'static> {
    let stamps = stamp.map(|value| Stamps { value, echo: 0 });
    Inbound { seq, ack, flags, window: 1000, options: Options { stamps, ..Options::default() }, payload: &[] }
}

/// One that has got SYN and FIN, and has sent the same.
fn waiting(stamped: bool) -> (TcpMachine, Instant) {
    let now = Instant::ZERO + Span::from_secs(1);
    let begin = Beginning {
        numbers: TcpNumbers { first: OURS, clock: 9 },
        segment: 1460,
        receive: Room::RECEIVE,
        send: Room::SEND,
        control: Control::Cubic,
    };
    let stamp = stamped.then_some(STAMP);
    let mut machine = TcpMachine::accept(now, &begin, &came(flag::SYN, THEIRS, Seq(0), stamp));
    let leaves = |machine: &mut TcpMachine| while machine.departs(now, false).is_some() {};
    leaves(&mut machine);
    machine.input(now, &came(flag::ACK, THEIRS + 1, OURS + 1, stamp));
    machine.close();
    leaves(&mut machine);
    machine.input(now, &came(flag::ACK | flag::FIN, THEIRS + 1, OURS + 2, stamp));
    leaves(&mut machine);
    assert_eq!(machine.state(), TcpState::TimeWait);
    (machine, now)
}

#[test]
fn a_syn_that_is_newer_begins_a_connection() {
    // What is expected next is 2 behind the first.
    let expected = THEIRS + 2;
    let rows = [
        // Without timestamps the number alone says it.
        (false, expected + 1, None, true),
        (false, expected + (1 << 30), None, true),
        (false, expected, None, false),
        (false, THEIRS, None, false),
        (false, expected - (1 << 30), None, false),
        (false, THEIRS, Some(STAMP.wrapping_add(10)), false),
        // With them either does, but nothing that is older.
        (true, THEIRS, Some(STAMP.wrapping_add(1)), true),
        (true, expected + 1, Some(STAMP), true),
        (true, THEIRS, Some(STAMP), false),
        (true, expected + 1, Some(STAMP - 2), false),
        (true, expected + 1, Some(STAMP - (1 << 30)), false),
        (true, expected + 1, None, true),
        (true, THEIRS, None, false),
    ];
    for (stamped, seq, stamp, begins) in rows {
        let (machine, now) = waiting(stamped);
        let first = machine.reopens(now, &came(flag::SYN, seq, Seq(0), stamp));
        assert_eq!(first.is_some(), begins, "{stamped} {seq:?} {stamp:?}");
        // Our SYN and FIN, and more than a window without scale behind them.
        assert!(first.is_none_or(|first| first == OURS + 2 + 65_537));
    }
}

#[test]
fn an_old_syn_is_told_where_the_connection_stands() {
    let (mut machine, now) = waiting(true);
    machine.input(now, &came(flag::SYN, THEIRS, Seq(0), Some(STAMP)));
    let answer = machine.departs(now, false).expect("an acknowledgement");
    assert_eq!((answer.flags, answer.seq, answer.ack), (flag::ACK, OURS + 2, THEIRS + 2));
    assert_eq!(machine.state(), TcpState::TimeWait);
}

#[test]
fn others_are_not_begun_anew() {
    let (mut machine, now) = waiting(false);
    machine.on_timer(now + Span::from_secs(60));
    assert_eq!(machine.state(), TcpState::Closed);
    assert_eq!(machine.reopens(now, &came(flag::SYN, THEIRS + 100, Seq(0), None)), None);
}

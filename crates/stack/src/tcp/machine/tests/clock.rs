//! Times that go back, and memory that is given back.

use napier_core::tcp::congestion::Control;
use napier_core::tcp::options::{Options, Stamps};
use napier_core::tcp::seq::Seq;
use napier_core::time::{Instant, Span};

use crate::tcp::machine::{Beginning, Inbound, Room, TcpMachine, TcpNumbers};
use crate::wire::flag;

fn at(secs: u64) -> Instant {
    Instant::ZERO + Span::from_secs(secs)
}

/// A connection of a listener, its SYN|ACK not yet sent.
fn accepted(now: Instant) -> TcpMachine {
    let (first, control) = (Seq(100), Control::Cubic);
    let begin = Beginning {
        numbers: TcpNumbers { first, clock: 5 },
        segment: 1460,
        receive: Room::RECEIVE,
        send: Room::SEND,
        control,
    };
    let options = Options { stamps: Some(Stamps { value: 1, echo: 0 }), ..Options::default() };
    let syn = Inbound { seq: Seq(0), ack: Seq(0), flags: flag::SYN, window: 60_000, options, payload: &[] };
    TcpMachine::accept(now, &begin, &syn)
}

#[test]
fn a_stamp_is_never_older_than_one_before() {
    let leaves = |now| accepted(at(10)).departs(now, false).expect("a SYN|ACK").options;
    assert_eq!(leaves(at(9)).bytes(), leaves(at(10)).bytes());
    assert_ne!(leaves(at(11)).bytes(), leaves(at(10)).bytes());
}

#[test]
fn memory_that_is_in_use_once_is_given_back_later() {
    let mut machine = accepted(at(10));
    machine.departs(at(10), false).expect("a SYN|ACK");
    let stamps = Some(Stamps { value: 2, echo: 0 });
    let ack = Inbound {
        seq: Seq(1),
        ack: Seq(101),
        flags: flag::ACK,
        window: 60_000,
        options: Options { stamps, ..Options::default() },
        payload: &[],
    };
    machine.input(at(10), &ack);
    machine.input(at(10), &Inbound { payload: &[1; 30_000], ..ack });
    machine.input(at(10), &Inbound { seq: Seq(30_001), ..ack });
    assert!(machine.receiver.queue.room() >= 30_000);
    machine.on_timer(at(12));
    assert!(machine.receiver.queue.room() >= 30_000, "it waits for the program");
    assert_eq!(machine.read(&mut [0; 30_000]).0, 30_000);
    machine.on_timer(at(14));
    assert_eq!(machine.receiver.queue.room(), 0);
}

//! Programs, and what a mode reaches of them.

use super::*;
use crate::observe::parts::{Epoll, EpollParams, Ring};

const EPOLLS: Needs = Needs { epolls: true, sockets: false, suspends: true, is_poll_busy: false };
const SOCKETS: Needs = Needs { epolls: false, sockets: true, suspends: false, is_poll_busy: false };

fn epoll(fd: i32, members: &[i32]) -> Epoll {
    Epoll { fd, params: Some(EpollParams::default()), members: members.to_vec() }
}

/// Two sockets, 10 and 11.
fn program(epolls: Vec<Epoll>) -> Program {
    Program { pid: 7, name: "p".to_owned(), epolls, internet: [10, 11].into(), ..Program::default() }
}

fn waits(found: &[(How, i32)]) -> Waits {
    let found = found.iter().map(|one| (*one, 5)).collect();
    Waits { waiting: 5, found, ..Waits::default() }
}

#[test]
fn epoll_programs_are_reached_by_modes_of_epoll() {
    let program = program(vec![epoll(3, &[10, 11])]);
    let waits = waits(&[(How::Epoll, 3)]);
    assert_eq!(unreached(&program, &waits, EPOLLS), []);
    assert_eq!(unreached(&program, &waits, SOCKETS), [Unreached::EpollOfSockets { sockets: 2 }]);
    assert_eq!(unreached(&program, &waits, Needs::default()), [], "such a mode needs nothing of the program");
    assert_eq!(unreached(&program, &waits, Needs { is_poll_busy: true, ..SOCKETS }), []);
}

#[test]
fn a_call_that_is_seen_now_and_then_is_no_wait() {
    let program = program(vec![epoll(3, &[10, 11])]);
    let mut seen = waits(&[(How::Epoll, 3), (How::Receive, 10)]);
    seen.found.insert((How::Epoll, 3), 40);
    assert_eq!(unreached(&program, &seen, EPOLLS), []);
    seen.found.insert((How::Receive, 10), 20);
    assert_eq!(unreached(&program, &seen, EPOLLS), [Unreached::Calls { how: How::Receive, sockets: 1 }]);
}

#[test]
fn other_calls_are_not_reached_by_modes_of_epoll() {
    let program = program(vec![]);
    for how in [How::Poll, How::Select, How::Receive] {
        let waits = waits(&[(how, 10), (how, 11), (how, 99)]);
        assert_eq!(unreached(&program, &waits, EPOLLS), [Unreached::Calls { how, sockets: 2 }]);
        let by_sockets = unreached(&program, &waits, SOCKETS);
        assert_eq!(by_sockets.is_empty(), how == How::Receive, "{by_sockets:?}");
    }
    // Seen once only, as when a name is looked up.
    let mut once = waits(&[(How::Poll, 10)]);
    once.found.insert((How::Poll, 10), 1);
    assert_eq!(unreached(&program, &once, EPOLLS), [Unreached::NoEpoll { sockets: 2 }]);
    assert_eq!(unreached(&program, &Waits::default(), EPOLLS), [], "nothing was looked at");
}

#[test]
fn an_epoll_instance_behind_another_call_is_found() {
    let nested = program(vec![epoll(3, &[10, 11]), epoll(4, &[3])]);
    let found = unreached(&nested, &waits(&[(How::Epoll, 4)]), EPOLLS);
    assert_eq!(found, [Unreached::Nested { inner: 3, outer: 4 }]);
    assert!(found[0].does_harm());
    let polled = program(vec![epoll(3, &[10, 11])]);
    let found = unreached(&polled, &waits(&[(How::Poll, 3)]), EPOLLS);
    assert_eq!(found, [Unreached::Polled { epoll: 3, how: How::Poll }]);
    // One for a timer, in another: no socket is behind it.
    let timer = program(vec![epoll(3, &[10, 11, 5]), epoll(5, &[77])]);
    assert_eq!(unreached(&timer, &waits(&[(How::Epoll, 3)]), EPOLLS), []);
}

#[test]
fn rings_are_asked_whether_they_poll() {
    let ring = |polls| Program { rings: vec![Ring { fd: 5, polls, ..Ring::default() }], ..program(vec![]) };
    let waits = waits(&[(How::Ring, 5)]);
    assert_eq!(unreached(&ring(Some(false)), &waits, EPOLLS), [Unreached::Ring { fd: 5, polls: false }]);
    assert_eq!(unreached(&ring(Some(true)), &waits, EPOLLS), [Unreached::Ring { fd: 5, polls: true }]);
    let busy = Needs { suspends: false, ..EPOLLS };
    assert_eq!(unreached(&ring(Some(true)), &waits, busy), []);
    // A ring for files, beside an epoll instance.
    let files = Program {
        rings: vec![Ring { fd: 5, polls: Some(false), ..Ring::default() }],
        ..program(vec![epoll(3, &[10])])
    };
    assert_eq!(unreached(&files, &Waits::default(), EPOLLS), []);
}

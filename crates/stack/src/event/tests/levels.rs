//! Level, edge and one-shot reporting; the order of reports.

use std::sync::Arc;

use crate::event::tests::fake::{FakeEngine, FakeSocket, N1, poll, poll_some};
use crate::event::{Event, EventContext, Interest, Timeout};

fn watched(interest: Interest) -> (EventContext, FakeSocket) {
    let context = Arc::new(FakeEngine::default()).context();
    let socket = FakeSocket::of(N1);
    context.add(&socket, interest, 5).unwrap();
    (context, socket)
}

/// What a member does between two looks.
#[derive(Copy, Clone, Debug)]
enum Do {
    Deliver,
    Receive,
    /// Modify with the same interest.
    Modify,
    Nothing,
}

/// Runs the steps; after each, whether the member was reported.
fn reports(interest: Interest, steps: &[(Do, bool)]) {
    let (context, socket) = watched(interest);
    for (turn, (step, expected)) in steps.iter().enumerate() {
        match step {
            Do::Deliver => socket.deliver(N1),
            Do::Receive => assert!(socket.receive()),
            Do::Modify => context.modify(&socket, interest, 5).unwrap(),
            Do::Nothing => {}
        }
        let reported = poll(&context) == [5];
        assert_eq!(reported, *expected, "{interest:?}, step {turn}: {step:?}");
    }
}

#[test]
fn level_reports_the_state() {
    use Do::{Deliver, Modify, Nothing, Receive};
    reports(
        Interest::IN,
        &[
            (Nothing, false),
            (Deliver, true),
            (Nothing, true),
            (Deliver, true),
            (Receive, true),
            (Receive, false),
            (Nothing, false),
            (Modify, false),
            (Deliver, true),
            (Modify, true),
        ],
    );
}

#[test]
fn edge_reports_the_news() {
    use Do::{Deliver, Modify, Nothing, Receive};
    reports(
        Interest::IN | Interest::EDGE,
        &[
            (Nothing, false),
            (Deliver, true),
            (Nothing, false),
            (Deliver, true),
            (Receive, false),
            (Nothing, false),
            (Modify, true), // still one left: modifying looks again
            (Nothing, false),
            (Receive, false),
            (Modify, false),
            (Deliver, true),
        ],
    );
}

#[test]
fn one_shot_reports_once_until_modified() {
    use Do::{Deliver, Modify, Nothing, Receive};
    let steps = [
        (Deliver, true),
        (Nothing, false),
        (Deliver, false),
        (Modify, true),
        (Receive, false),
        (Receive, false),
        (Modify, false),
        (Nothing, false),
        (Deliver, true),
    ];
    reports(Interest::IN | Interest::ONESHOT, &steps);
    reports(Interest::IN | Interest::ONESHOT | Interest::EDGE, &steps);
}

#[test]
fn news_that_is_gone_before_the_look_is_not_reported() {
    for mode in [Interest::NONE, Interest::EDGE, Interest::ONESHOT] {
        let (context, socket) = watched(Interest::IN | mode);
        socket.deliver(N1);
        assert!(socket.receive());
        assert_eq!(poll(&context), []);
        // A one-shot member that reported nothing is not silenced.
        socket.deliver(N1);
        assert_eq!(poll(&context), [5]);
    }
}

#[test]
fn events_name_what_holds_of_what_is_asked() {
    let (context, socket) = watched(Interest::IN | Interest::EDGE);
    socket.set_condition(Interest::OUT);
    assert_eq!(poll(&context), []);
    socket.deliver(N1);
    let mut events = [Event::default(); 2];
    assert_eq!(context.wait(&mut events, Timeout::Now), Ok(1));
    assert_eq!(events[0], Event { events: Interest::IN, data: 5 });
    context.modify(&socket, Interest::IN | Interest::OUT, 6).unwrap();
    assert_eq!(context.wait(&mut events, Timeout::Now), Ok(1));
    assert_eq!(events[0], Event { events: Interest::IN | Interest::OUT, data: 6 });
}

#[test]
fn errors_and_hang_ups_are_always_reported() {
    for condition in [Interest::ERR, Interest::HUP] {
        let (context, socket) = watched(Interest::NONE);
        socket.deliver(N1);
        assert_eq!(poll(&context), []);
        socket.set_condition(condition);
        let mut events = [Event::default(); 2];
        assert_eq!(context.wait(&mut events, Timeout::Now), Ok(1));
        assert_eq!(events[0].events, condition);
    }
}

#[test]
fn reports_come_in_the_order_of_the_news() {
    let context = Arc::new(FakeEngine::default()).context();
    let sockets: Vec<_> = (0..8).map(|_| FakeSocket::of(N1)).collect();
    for (data, socket) in (0..).zip(&sockets) {
        context.add(socket, Interest::IN | Interest::EDGE, data).unwrap();
    }
    for index in [6, 1, 4, 6, 0, 1] {
        sockets[index].deliver(N1);
    }
    assert_eq!(poll(&context), [6, 1, 4, 0]);
}

#[test]
fn level_members_take_turns_when_there_is_little_room() {
    let context = Arc::new(FakeEngine::default()).context();
    let sockets: Vec<_> = (0..5).map(|_| FakeSocket::of(N1)).collect();
    for (data, socket) in (0..).zip(&sockets) {
        context.add(socket, Interest::IN, data).unwrap();
        socket.deliver(N1);
    }
    assert_eq!(poll_some(&context, 2), [0, 1]);
    assert_eq!(poll_some(&context, 2), [2, 3]);
    assert_eq!(poll_some(&context, 2), [4, 0]);
    sockets[2].receive();
    assert_eq!(poll_some(&context, 2), [1, 3], "2 has nothing more and is passed over");
    assert_eq!(poll_some(&context, 9), [4, 0, 1, 3], "nobody is reported twice in one call");
}

#[test]
fn news_comes_after_what_is_still_ready() {
    let context = Arc::new(FakeEngine::default()).context();
    let (old, new) = (FakeSocket::of(N1), FakeSocket::of(N1));
    context.add(&old, Interest::IN, 1).unwrap();
    context.add(&new, Interest::IN | Interest::EDGE, 2).unwrap();
    old.deliver(N1);
    assert_eq!(poll(&context), [1]);
    new.deliver(N1);
    assert_eq!(poll_some(&context, 1), [1]);
    assert_eq!(poll_some(&context, 1), [2], "1 has gone to the end, behind it");
    assert_eq!(poll(&context), [1]);
}

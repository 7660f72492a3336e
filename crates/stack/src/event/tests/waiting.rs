//! Time-outs, sleeping and waking.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use napier_sys::clock::Clock;

use crate::event::tests::fake::{FakeEngine, FakeSocket, N1, poll};
use crate::event::{Event, EventContext, Interest, Timeout, UserEvent};

fn context() -> EventContext {
    Arc::new(FakeEngine::default()).context()
}

#[test]
fn a_wait_never_ends_early() {
    let context = context();
    for ns in [1, 999, 70_000, 2_500_000] {
        let start = Clock.now();
        let timeout = Timeout::After(Duration::from_nanos(ns));
        assert_eq!(context.wait(&mut [Event::default()], timeout), Ok(0));
        assert!(Clock.now().ns >= start.ns + ns);
    }
    assert_eq!(context.stats().sleeps, 4);
}

#[test]
fn a_time_out_beyond_the_end_of_time_is_none() {
    let context = context();
    let stop = UserEvent::new();
    context.add(&stop, Interest::IN, 1).unwrap();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let forever = Timeout::After(Duration::MAX);
            context.wait(&mut [Event::default()], forever)
        });
        stop.trigger();
        assert_eq!(waiter.join().unwrap(), Ok(1));
    });
}

#[test]
fn ready_members_cost_no_sleep_and_nobody_is_woken() {
    let context = context();
    let socket = FakeSocket::new();
    context.add(&socket, Interest::IN, 1).unwrap();
    socket.deliver(N1);
    for _ in 0..10 {
        assert_eq!(context.wait(&mut [Event::default()], Timeout::Never), Ok(1));
    }
    let stats = context.stats();
    assert_eq!((stats.waits, stats.events, stats.sleeps, stats.wakes), (10, 10, 0, 0));
}

/// Waits until `count` more sleeps have begun; the sleeper is in, or about to enter, its futex.
fn until_sleeps(context: &EventContext, count: u64) {
    while context.stats().sleeps < count {
        thread::yield_now();
    }
}

type Way = fn(&EventContext, &FakeSocket);

#[test]
fn every_way_of_becoming_ready_wakes_a_sleeper() {
    let socket = FakeSocket::new();
    let ways: [(&str, Way); 3] = [
        ("delivery", |_, socket| socket.deliver(N1)),
        ("add", |context, _| {
            let ready = UserEvent::new();
            ready.trigger();
            context.add(&ready, Interest::IN, 1).unwrap();
            // Kept: closing it would take it back.
            std::mem::forget(ready);
        }),
        ("modify", |context, socket| {
            socket.deliver(N1);
            context.modify(socket, Interest::IN, 1).unwrap();
        }),
    ];
    for (name, way) in ways {
        let context = context();
        let interest = if name == "modify" { Interest::OUT } else { Interest::IN };
        context.add(&socket, interest, 1).unwrap();
        thread::scope(|scope| {
            let waiter = scope.spawn(|| context.wait(&mut [Event::default()], Timeout::Never));
            until_sleeps(&context, 1);
            way(&context, &socket);
            assert_eq!(waiter.join().unwrap(), Ok(1), "{name}");
        });
        socket.receive_all();
    }
}

#[test]
fn a_sleeper_survives_news_that_is_gone() {
    let context = context();
    let (socket, stop) = (FakeSocket::new(), UserEvent::new());
    context.add(&socket, Interest::IN, 1).unwrap();
    context.add(&stop, Interest::IN, 2).unwrap();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let mut events = [Event::default()];
            context.wait(&mut events, Timeout::Never).map(|_| events[0].data)
        });
        for _ in 0..100 {
            socket.shared().deliver(N1);
            // Usually the waiter comes too late for it; if it does not, it reports 1.
            if !socket.receive() {
                break;
            }
        }
        stop.trigger();
        assert!(waiter.join().unwrap().unwrap() >= 1);
    });
}

#[test]
fn one_event_for_each_of_several_sleepers() {
    let context = context();
    let sockets: Vec<_> = (0..4).map(|_| FakeSocket::new()).collect();
    for (data, socket) in (0..).zip(&sockets) {
        context.add(socket, Interest::IN | Interest::EDGE, data).unwrap();
    }
    thread::scope(|scope| {
        let waiters: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut one = [Event::default()];
                    assert_eq!(context.wait(&mut one, Timeout::Never), Ok(1));
                    one[0].data
                })
            })
            .collect();
        until_sleeps(&context, 4);
        // One burst: the first delivery rings, the woken waiters call the others.
        for socket in &sockets {
            socket.deliver(N1);
        }
        let mut seen: Vec<_> = waiters.into_iter().map(|waiter| waiter.join().unwrap()).collect();
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 2, 3]);
    });
    assert_eq!(poll(&context), []);
}

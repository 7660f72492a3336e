//! Many threads at once, for a bounded time: nothing is lost, nothing is reported to the wrong member.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::event::tests::fake::{FakeEngine, FakeSocket, N1, N2, params, poll};
use crate::event::{AddError, Event, Interest, Timeout, UserEvent};

/// Long enough that only a lost event lets a wait run into it.
const LOST: Timeout = Timeout::After(Duration::from_secs(20));

/// Producers deliver to all sockets; waiters receive until everything has arrived.
fn exchange(mode: Interest, waiters: usize, prefer: bool) {
    const SOCKETS: u64 = 6;
    const TURNS: u32 = 1_500;
    const PRODUCERS: u32 = 2;
    let context = Arc::new(FakeEngine::default()).context();
    context.set_params(params(0, 0, u8::from(prefer))).unwrap();
    let sockets: Vec<_> = (0..SOCKETS).map(|_| FakeSocket::of(N1)).collect();
    for (data, socket) in (0..).zip(&sockets) {
        context.add(socket, Interest::IN | mode, data).unwrap();
    }
    let stop = UserEvent::new();
    context.add(&stop, Interest::IN, SOCKETS).unwrap();
    let total = PRODUCERS * TURNS * u32::try_from(SOCKETS).unwrap();
    let received = AtomicU32::new(0);
    thread::scope(|scope| {
        for _ in 0..waiters {
            scope.spawn(|| {
                let mut events = [Event::default(); 3];
                while received.load(Ordering::Relaxed) < total {
                    let found = context.wait(&mut events, LOST).unwrap();
                    assert!(found > 0, "an event was lost: {context:?}");
                    for event in events[..found].iter().filter(|event| event.data < SOCKETS) {
                        let socket = &sockets[usize::try_from(event.data).unwrap()];
                        let count = socket.receive_all();
                        if received.fetch_add(count, Ordering::Relaxed) + count == total {
                            stop.trigger();
                        }
                        if mode.contains(Interest::ONESHOT) {
                            context.modify(socket, Interest::IN | mode, event.data).unwrap();
                        }
                    }
                }
            });
        }
        for producer in 0..PRODUCERS {
            let sockets = &sockets;
            scope.spawn(move || {
                for turn in 0..TURNS {
                    for socket in sockets {
                        socket.deliver(if producer == 0 { N1 } else { N2 });
                    }
                    if turn % 8 == 0 {
                        thread::yield_now();
                    }
                }
            });
        }
    });
    assert_eq!(received.load(Ordering::Relaxed), total);
}

#[test]
fn nothing_is_lost_between_deliveries_and_one_wait() {
    for mode in [Interest::NONE, Interest::EDGE, Interest::ONESHOT] {
        exchange(mode, 1, false);
    }
    exchange(Interest::NONE, 1, true);
}

#[test]
fn nothing_is_lost_between_deliveries_and_many_waits() {
    for mode in [Interest::NONE, Interest::EDGE, Interest::ONESHOT] {
        exchange(mode, 3, false);
    }
    exchange(Interest::EDGE, 3, true);
}

#[test]
fn members_come_and_go_during_deliveries() {
    let engine = Arc::new(FakeEngine::default());
    let context = engine.context();
    context.set_params(params(0, 0, 1)).unwrap();
    let stop = AtomicBool::new(false);
    let sockets: Vec<_> = (0..4).map(|_| FakeSocket::of(N1)).collect();
    let steady = FakeSocket::of(N1);
    context.add(&steady, Interest::IN | Interest::EDGE, 99).unwrap();
    let seen = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                sockets.iter().for_each(|socket| socket.deliver(N2));
            }
        });
        scope.spawn(|| {
            let mut events = [Event::default(); 2];
            while !stop.load(Ordering::Relaxed) {
                let found = context.wait(&mut events, Timeout::Now).unwrap();
                let known = |event: &Event| event.data < 4 || event.data == 99;
                assert!(events[..found].iter().all(known));
                let steady = events[..found].iter().filter(|event| event.data == 99).count();
                seen.fetch_add(steady as u64, Ordering::Relaxed);
            }
        });
        for turn in 0_u64..1_500 {
            for (data, socket) in (0..).zip(&sockets) {
                let added = context.add(socket, Interest::IN, data);
                assert!(matches!(added, Ok(()) | Err(AddError::Exists)));
            }
            steady.deliver(N1);
            // Slots change hands all the time; the member that stays is not forgotten.
            for socket in &sockets {
                context.delete(socket).unwrap();
            }
            while seen.load(Ordering::Relaxed) <= turn {
                thread::yield_now();
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn sockets_and_contexts_end_during_deliveries() {
    for turn in 0..300 {
        let engine = Arc::new(FakeEngine::default());
        let contexts = [engine.context(), engine.context()];
        let socket = FakeSocket::of(N1);
        for context in &contexts {
            context.add(&socket, Interest::IN, 1).unwrap();
        }
        let shared = socket.shared().clone();
        let states = contexts.each_ref().map(|context| Arc::downgrade(context.state()));
        let freed = Arc::downgrade(&shared);
        thread::scope(|scope| {
            scope.spawn(move || (0..40).for_each(|_| shared.deliver(N1)));
            let [first, second] = contexts;
            scope.spawn(move || drop(first));
            scope.spawn(move || {
                let _ = poll(&second);
                drop(second);
            });
            if turn % 2 == 0 {
                thread::yield_now();
            }
            drop(socket);
        });
        assert!(freed.upgrade().is_none(), "the socket leaks");
        assert!(states.iter().all(|state| state.upgrade().is_none()), "a context leaks");
    }
}

/// Bursts with random gaps of some ten ns, so that news meets the look at older news; every burst must arrive before
/// the next one starts, so nothing later covers up for what was lost.
fn bursts(mode: Interest) {
    let context = Arc::new(FakeEngine::default()).context();
    let socket = FakeSocket::of(N1);
    context.add(&socket, Interest::IN | mode, 1).unwrap();
    let received = AtomicU32::new(0);
    let stop = AtomicBool::new(false);
    let end = Instant::now() + Duration::from_millis(400);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut events = [Event::default()];
            while !stop.load(Ordering::Relaxed) {
                if context.wait(&mut events, Timeout::Now).unwrap() > 0 {
                    received.fetch_add(socket.receive_all(), Ordering::Relaxed);
                    if mode.contains(Interest::ONESHOT) {
                        context.modify(&socket, Interest::IN | mode, 1).unwrap();
                    }
                }
            }
        });
        let (mut sent, mut random) = (0, 0x9e37_79b9_u32);
        while Instant::now() < end {
            for _ in 0..4 {
                socket.deliver(N1);
                sent += 1;
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (0..random >> 26).for_each(|_| std::hint::spin_loop());
            }
            let lost = Instant::now() + Duration::from_secs(20);
            while received.load(Ordering::Relaxed) < sent {
                assert!(Instant::now() < lost, "an event was lost: {context:?}");
                std::hint::spin_loop();
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn news_that_meets_a_look_is_not_lost() {
    for mode in [Interest::NONE, Interest::EDGE, Interest::ONESHOT] {
        bursts(mode);
    }
}

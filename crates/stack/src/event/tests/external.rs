//! A context's descriptor in the kernel's own `epoll(7)` and `poll(2)`.

use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime};

use crate::event::tests::fake::{Call, FakeEngine, FakeSocket, N1, params, poll, poll_some};
use crate::event::{Event, EventContext, Interest, Timeout, UserEvent, WaitError};
use crate::host::Dependant as _;

const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

fn context() -> EventContext {
    Arc::new(FakeEngine::default()).context()
}

/// The data words of what is ready, before a sleep outside.
fn look(context: &EventContext) -> Vec<u64> {
    let mut events = [Event::default(); 8];
    let found = context.wait(&mut events, Timeout::Outside).unwrap();
    events[..found].iter().map(|event| event.data).collect()
}

fn is_readable(descriptor: &impl AsFd) -> bool {
    rustix::event::poll(&mut [PollFd::new(descriptor, PollFlags::IN)], Some(&NOW)).unwrap() == 1
}

/// The data words of what an epoll descriptor reports.
fn epoll_wait(epoll: &OwnedFd, timeout: Option<&Timespec>) -> Vec<u64> {
    let mut events = Vec::with_capacity(8);
    epoll::wait(epoll, spare_capacity(&mut events), timeout).unwrap();
    events.iter().map(|event| event.data.u64()).collect()
}

fn epoll_of(members: &[(&dyn AsFd, EventFlags)]) -> OwnedFd {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    for (data, (member, flags)) in (0..).zip(members) {
        epoll::add(&epoll, member.as_fd(), EventData::new_u64(data), *flags).unwrap();
    }
    epoll
}

#[test]
fn readable_until_a_wait_finds_nothing_and_from_the_next_event_on() {
    let (context, socket) = (context(), FakeSocket::new());
    context.add(&socket, Interest::IN, 1).unwrap();
    let descriptor = context.descriptor().unwrap();
    assert!(is_readable(&descriptor), "no wait has looked");
    assert_eq!(poll(&context), []);
    assert!(!is_readable(&descriptor));
    for _ in 0..3 {
        socket.deliver(N1);
        assert!(is_readable(&descriptor));
        assert_eq!(poll(&context), [1]);
        assert!(is_readable(&descriptor), "it is ready still");
        socket.receive_all();
        assert_eq!(poll(&context), []);
        assert!(!is_readable(&descriptor));
        assert_eq!(poll(&context), [], "once more");
        assert!(!is_readable(&descriptor));
    }
    assert_eq!(context.stats().wakes, 3);
}

#[test]
fn what_was_held_back_comes_before_a_sleep_outside() {
    let (engine, socket) = (Arc::new(FakeEngine::default()), FakeSocket::new());
    let context = engine.context();
    context.add(&socket, Interest::IN | Interest::EDGE, 1).unwrap();
    let descriptor = context.descriptor().unwrap();
    let held = socket.shared().clone();
    engine.before_sleep(move || held.deliver(N1));
    assert_eq!(look(&context), [1]);
    assert_eq!(look(&context), []);
    assert!(!is_readable(&descriptor));
}

#[test]
fn what_was_there_before_the_descriptor_is_seen() {
    let (context, socket) = (context(), FakeSocket::new());
    context.add(&socket, Interest::IN, 1).unwrap();
    assert_eq!(poll(&context), []);
    socket.deliver(N1);
    assert!(is_readable(&context.as_fd()));
}

#[test]
fn what_has_no_room_keeps_it_readable() {
    let context = context();
    let sockets = [FakeSocket::new(), FakeSocket::new()];
    for socket in &sockets {
        context.add(socket, Interest::IN | Interest::EDGE, 1).unwrap();
    }
    let descriptor = context.descriptor().unwrap();
    assert_eq!(poll(&context), []);
    sockets.iter().for_each(|socket| socket.deliver(N1));
    assert_eq!(poll_some(&context, 1), [1]);
    assert!(is_readable(&descriptor));
    assert_eq!(poll_some(&context, 1), [1]);
    assert_eq!(poll_some(&context, 1), []);
    assert!(!is_readable(&descriptor));
}

#[test]
fn beside_a_pipe_and_a_timer_level_and_edge() {
    for flags in [EventFlags::IN, EventFlags::IN | EventFlags::ET] {
        let (context, socket) = (context(), FakeSocket::new());
        context.add(&socket, Interest::IN, 1).unwrap();
        let (reader, mut writer) = std::io::pipe().unwrap();
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK).unwrap();
        let epoll = epoll_of(&[(&context, flags), (&reader, EventFlags::IN), (&timer, EventFlags::IN)]);
        assert_eq!(epoll_wait(&epoll, Some(&NOW)), [0]);
        assert_eq!(poll(&context), []);
        assert_eq!(epoll_wait(&epoll, Some(&NOW)), []);
        for _ in 0..3 {
            socket.deliver(N1);
            assert_eq!(epoll_wait(&epoll, None), [0]);
            assert_eq!(poll(&context), [1]);
            socket.receive_all();
            assert_eq!(poll(&context), []);
            assert_eq!(epoll_wait(&epoll, Some(&NOW)), []);
        }
        writer.write_all(b"x").unwrap();
        assert_eq!(epoll_wait(&epoll, None), [1]);
        rustix::io::read(&reader, &mut [0_u8; 8]).unwrap();
        let soon = Timespec { tv_sec: 0, tv_nsec: 1 };
        let once = Itimerspec { it_interval: NOW, it_value: soon };
        timerfd_settime(&timer, TimerfdTimerFlags::empty(), &once).unwrap();
        assert_eq!(epoll_wait(&epoll, None), [2]);
    }
}

#[test]
fn in_an_epoll_within_an_epoll() {
    let (context, flag) = (context(), UserEvent::new());
    context.add(&flag, Interest::IN | Interest::EDGE, 1).unwrap();
    let inner = epoll_of(&[(&context, EventFlags::IN)]);
    let outer = epoll_of(&[(&inner, EventFlags::IN)]);
    assert_eq!(poll(&context), []);
    assert_eq!(epoll_wait(&outer, Some(&NOW)), []);
    flag.trigger();
    assert_eq!((epoll_wait(&outer, Some(&NOW)), epoll_wait(&inner, Some(&NOW))), (vec![0], vec![0]));
}

#[test]
fn a_thread_that_sleeps_in_a_wait_is_woken_beside_it() {
    let (context, socket) = (context(), FakeSocket::new());
    context.add(&socket, Interest::IN, 1).unwrap();
    let descriptor = context.descriptor().unwrap();
    assert_eq!(poll(&context), []);
    thread::scope(|scope| {
        let waiter = scope.spawn(|| context.wait(&mut [Event::default()], Timeout::Never));
        while context.stats().sleeps < 1 {
            thread::yield_now();
        }
        socket.deliver(N1);
        assert_eq!(waiter.join().unwrap(), Ok(1));
    });
    assert!(is_readable(&descriptor));
}

#[test]
fn what_a_wait_finds_by_polling_makes_no_call() {
    let engine = Arc::new(FakeEngine::default());
    let context = engine.context();
    context.set_params(params(50, 8, 1)).unwrap();
    let socket = FakeSocket::of(N1);
    context.add(&socket, Interest::IN | Interest::EDGE, 1).unwrap();
    let descriptor = context.descriptor().unwrap();
    assert_eq!(look(&context), []);
    for _ in 0..5 {
        let polled = socket.clone();
        // The poll that found nothing has detached the context.
        context.delete(&socket).unwrap();
        context.add(&socket, Interest::IN | Interest::EDGE, 1).unwrap();
        engine.during_busy_loop(move || polled.deliver(N1));
        assert_eq!(look(&context), [1]);
        assert!(!is_readable(&descriptor), "it was armed, and is again");
        socket.receive_all();
    }
    assert_eq!(context.stats().wakes, 0);
    assert!(engine.calls().iter().any(|call| matches!(call, Call::Busy(N1, _))));
    assert_eq!(look(&context), []);
    assert_eq!(engine.calls().last(), Some(&Call::Resume(N1)), "it is about to sleep");
    socket.deliver(N1);
    assert!(is_readable(&descriptor));
}

#[test]
fn readable_once_the_engine_has_stopped() {
    let engine = Arc::new(FakeEngine::default());
    let context = engine.context();
    let descriptor = context.descriptor().unwrap();
    assert_eq!(poll(&context), []);
    assert!(!is_readable(&descriptor));
    context.state().engine_stops();
    context.state().end_waits();
    assert!(is_readable(&descriptor));
    for _ in 0..2 {
        assert_eq!(context.wait(&mut [Event::default()], Timeout::Now), Err(WaitError::Stopped));
        assert!(is_readable(&descriptor));
    }
}

#[test]
fn no_event_is_missed_by_programs_that_sleep_outside() {
    const EVENTS: u32 = 20_000;
    let (context, socket) = (context(), FakeSocket::new());
    context.add(&socket, Interest::IN, 1).unwrap();
    let descriptor = context.descriptor().unwrap();
    let epolls = [EventFlags::IN, EventFlags::IN].map(|flags| epoll_of(&[(&descriptor, flags)]));
    let taken = std::sync::atomic::AtomicU32::new(0);
    thread::scope(|scope| {
        for epoll in &epolls {
            let (context, socket, taken) = (&context, &socket, &taken);
            scope.spawn(move || {
                use std::sync::atomic::Ordering::Relaxed;
                while taken.load(Relaxed) < EVENTS {
                    epoll_wait(epoll, None);
                    while !poll_some(context, 1).is_empty() {
                        if taken.fetch_add(socket.receive_all(), Relaxed) >= EVENTS {
                            break;
                        }
                    }
                }
                // The other one is to end as well.
                socket.deliver(N1);
            });
        }
        for at in 0..EVENTS {
            socket.deliver(N1);
            if at % 16 == 0 {
                thread::yield_now();
            }
        }
    });
}

//! Tasks that wait for one socket: who is told, how often, and what a delivery looks at.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use crate::event::source::Pollable as _;
use crate::event::tests::fake::{FakeEngine, FakeSocket, N1, poll};
use crate::event::{Interest, UserEvent};

/// A task that counts its calls.
#[derive(Default)]
struct Task {
    calls: AtomicU32,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }
}

impl Task {
    fn new() -> (Arc<Self>, Waker) {
        let task = Arc::<Self>::default();
        (task.clone(), task.into())
    }

    fn calls(&self) -> u32 {
        self.calls.load(Ordering::Relaxed)
    }
}

type Ask = fn(&FakeSocket, &Waker) -> Poll<Interest>;

fn reads(socket: &FakeSocket, waker: &Waker) -> Poll<Interest> {
    socket.poll_readable(&mut Context::from_waker(waker))
}

fn writes(socket: &FakeSocket, waker: &Waker) -> Poll<Interest> {
    socket.poll_writable(&mut Context::from_waker(waker))
}

/// Each way by each condition: told if and only if that ends the wait, once, and not again before the task asks again.
#[test]
fn a_task_is_told_once_of_what_ends_its_wait() {
    let conditions = [Interest::IN, Interest::OUT, Interest::RDHUP, Interest::ERR, Interest::HUP];
    for condition in conditions {
        for (ask, ended) in [(reads as Ask, condition != Interest::OUT), (writes as Ask, !is_for_readers(condition))] {
            let (socket, (task, waker)) = (FakeSocket::new(), Task::new());
            assert_eq!(ask(&socket, &waker), Poll::Pending);
            socket.set_condition(condition);
            socket.set_condition(condition);
            assert_eq!(task.calls(), u32::from(ended), "{condition:?}");
            let expected = if ended { Poll::Ready(condition) } else { Poll::Pending };
            assert_eq!(ask(&socket, &waker), expected, "{condition:?}");
        }
    }
}

fn is_for_readers(condition: Interest) -> bool {
    condition == Interest::IN || condition == Interest::RDHUP
}

#[test]
fn a_task_that_asks_again_is_told_again() {
    let (socket, (task, waker)) = (FakeSocket::new(), Task::new());
    for round in 0..3 {
        assert_eq!(reads(&socket, &waker), Poll::Pending);
        assert_eq!(reads(&socket, &waker), Poll::Pending, "asking twice is asking once");
        socket.deliver(N1);
        assert_eq!(task.calls(), round + 1);
        assert_eq!(reads(&socket, &waker), Poll::Ready(Interest::IN));
        assert!(socket.receive());
    }
}

#[test]
fn what_holds_already_leaves_no_waker_behind() {
    let (socket, (task, waker)) = (FakeSocket::new(), Task::new());
    socket.deliver(N1);
    assert_eq!(reads(&socket, &waker), Poll::Ready(Interest::IN));
    socket.deliver(N1);
    assert_eq!((task.calls(), Arc::strong_count(&task)), (0, 2));
}

#[test]
fn the_task_that_asked_last_is_told_and_the_ways_are_apart() {
    let socket = FakeSocket::new();
    let [(first, first_waker), (second, second_waker), (writer, writer_waker)] =
        [Task::new(), Task::new(), Task::new()];
    assert_eq!(reads(&socket, &first_waker), Poll::Pending);
    assert_eq!(reads(&socket, &second_waker), Poll::Pending);
    assert_eq!(writes(&socket, &writer_waker), Poll::Pending);
    socket.deliver(N1);
    assert_eq!([first.calls(), second.calls(), writer.calls()], [0, 1, 0]);
    socket.set_condition(Interest::OUT);
    assert_eq!([first.calls(), second.calls(), writer.calls()], [0, 1, 1]);
}

/// Of many sockets that tasks wait for, only the one that has news tells.
#[test]
fn no_other_socket_is_looked_at() {
    let waits: Vec<_> = (0..100).map(|_| (FakeSocket::new(), Task::new())).collect();
    for (socket, (_, waker)) in &waits {
        assert_eq!(reads(socket, waker), Poll::Pending);
    }
    waits[42].0.deliver(N1);
    let told: Vec<_> = waits.iter().map(|(_, (task, _))| task.calls()).collect();
    assert_eq!((told[42], told.iter().sum::<u32>()), (1, 1));
}

/// Contexts are told beside tasks, whichever was there first, and come and go as before.
#[test]
fn contexts_stay_members_beside_tasks() {
    let (early, late) = (Arc::new(FakeEngine::default()).context(), Arc::new(FakeEngine::default()).context());
    let (socket, (task, waker)) = (FakeSocket::new(), Task::new());
    early.add(&socket, Interest::IN | Interest::EDGE, 1).unwrap();
    assert_eq!(reads(&socket, &waker), Poll::Pending);
    late.add(&socket, Interest::IN | Interest::EDGE, 2).unwrap();
    socket.deliver(N1);
    assert_eq!((poll(&early), poll(&late), task.calls()), (vec![1], vec![2], 1));
    early.delete(&socket).unwrap();
    late.delete(&socket).unwrap();
    socket.receive_all();
    assert_eq!(reads(&socket, &waker), Poll::Pending);
    socket.deliver(N1);
    assert_eq!((poll(&early), poll(&late), task.calls()), (vec![], vec![], 2));
}

#[test]
fn a_socket_that_is_gone_keeps_no_task() {
    let (socket, (task, waker)) = (FakeSocket::new(), Task::new());
    assert_eq!(reads(&socket, &waker), Poll::Pending);
    drop((socket, waker));
    assert_eq!(Arc::strong_count(&task), 1);
}

/// A task that parks misses nothing of what another thread says meanwhile.
#[test]
fn no_news_are_missed_between_the_look_and_the_wait() {
    const ROUNDS: u32 = 2000;
    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let (asks, answers) = (UserEvent::new(), UserEvent::new());
    let wait = |event: &UserEvent| {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        while event.poll_readable(&mut Context::from_waker(&waker)).is_pending() {
            thread::park();
        }
        assert!(event.clear());
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..ROUNDS {
                wait(&asks);
                answers.trigger();
            }
        });
        for _ in 0..ROUNDS {
            asks.trigger();
            wait(&answers);
        }
    });
}

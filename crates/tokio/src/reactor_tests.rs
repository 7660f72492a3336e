//! Rounds of telling, and what is not polled meanwhile.

use std::net::SocketAddr;
use std::sync::atomic::AtomicUsize;
use std::task::Wake;

use napier_runtime::socket::UdpSocket;

use super::*;

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_socket_counts_once_in_its_round() {
    let (told, [a, b]) = (Outstanding::default(), [const { AtomicU32::new(0) }; 2]);
    told.begin();
    assert!(!told.are_left());
    for socket in [&a, &a, &b] {
        told.add(socket);
    }
    for (socket, left) in [(&a, true), (&a, true), (&b, false), (&b, false)] {
        told.take(socket);
        assert_eq!(told.are_left(), left);
    }
    told.add(&a);
    told.begin();
    assert!(!told.are_left());
    told.add(&b);
    // Of the round before.
    told.take(&a);
    assert!(told.are_left());
    told.take(&b);
    assert!(!told.are_left());
}

#[test]
fn rounds_begin_again() {
    let (told, socket) = (Outstanding(AtomicU64::new(u64::from(u32::MAX) << 32)), AtomicU32::new(0));
    told.begin();
    told.add(&socket);
    assert!(told.are_left());
    told.take(&socket);
    assert!(!told.are_left());
}

/// Turns that were polled while a socket had news, and the context's waits since.
fn waits_after_news(comes: bool) -> u64 {
    let (engine, server, client) = napier_runtime::doc_link().expect("a link");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime");
    let _inside = runtime.enter();
    let context = EventContext::new(&engine);
    context.descriptor().expect("a descriptor");
    #[expect(deprecated, reason = "the safe one of the two")]
    let descriptor = AsyncFd::with_interest(context.clone(), Readiness::READABLE).expect("a runtime");
    let sockets = Arc::<Sockets>::default();
    let mut turns = Turns::new(descriptor, sockets.clone());

    let at = SocketAddr::from(([10, 77, 0, 1], 7));
    let receives = UdpSocket::bind(server.netns(), at).expect("a port");
    let sends = UdpSocket::bind(client.netns(), "10.77.0.2:0").expect("a port");
    let (number, waiters) = sockets.enter();
    context.add(&receives, WATCHED, number).expect("room");
    let task = Arc::<Woken>::default();
    let (waker, turn) = (Waker::from(task.clone()), Waker::from(Arc::<Woken>::default()));
    let (waits, mut polls) = (Context::from_waker(&waker), Context::from_waker(&turn));
    // That it can be written to is news of no task.
    assert!(Pin::new(&mut turns).poll(&mut polls).is_pending());
    assert!(Pin::new(&mut turns).poll(&mut polls).is_pending());
    waiters.wait(Direction::Read, &waits);
    sends.send_to(b"news", at).expect("sent");
    while task.0.load(Ordering::Relaxed) == 0 {
        assert!(Pin::new(&mut turns).poll(&mut polls).is_pending());
    }
    if comes {
        waiters.has_come(&sockets.told);
    }
    let before = context.stats().waits;
    assert!(Pin::new(&mut turns).poll(&mut polls).is_pending());
    let once = context.stats().waits - before;
    assert!(Pin::new(&mut turns).poll(&mut polls).is_pending());
    assert!(context.stats().waits > before, "it waits for the task but once");
    once
}

#[test]
fn nothing_is_polled_before_the_task_that_was_told_has_run_or_had_a_turn() {
    assert_eq!(waits_after_news(false), 0);
    assert!(waits_after_news(true) > 0);
}

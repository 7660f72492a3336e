//! What another thread does in the middle of a look, played by one thread: the socket's own `ready` does it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::event::source::sealed::{Watchable, Watched};
use crate::event::tests::fake::{FakeEngine, poll};
use crate::event::{EventContext, Interest, Source};
use crate::host::Host;

type Intrusion = Box<dyn FnOnce(&Interrupted) + Send>;

/// A socket on which something happens after its readiness was read and before the reader learns it.
#[derive(Default)]
struct Interrupted {
    source: Source,
    has_news: AtomicBool,
    intrusion: Mutex<Option<Intrusion>>,
}

struct Socket(Arc<Interrupted>);

impl Interrupted {
    fn deliver(&self) {
        self.has_news.store(true, Ordering::Release);
        self.source.notify(0, Interest::IN);
    }
}

impl Watched for Interrupted {
    fn source(&self) -> &Source {
        &self.source
    }

    fn ready(&self) -> Interest {
        let ready = if self.has_news.load(Ordering::Acquire) { Interest::IN } else { Interest::NONE };
        let intrusion = self.intrusion.lock().unwrap().take();
        if let Some(intrusion) = intrusion {
            intrusion(self);
        }
        ready
    }

    fn napi_id(&self) -> u32 {
        0
    }
}

impl Watchable for Socket {
    fn watched(&self) -> Arc<dyn Watched> {
        self.0.clone()
    }

    fn host(&self) -> Option<Arc<dyn Host>> {
        None
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.0.source.close();
    }
}

/// A context with a member that is queued, has no news any more, and is about to be intruded upon.
fn queued_in_vain(mode: Interest, intrusion: impl FnOnce(&Interrupted) + Send + 'static) -> (EventContext, Socket) {
    let context = Arc::new(FakeEngine::default()).context();
    let socket = Socket(Arc::default());
    context.add(&socket, Interest::IN | mode, 1).unwrap();
    socket.0.deliver();
    socket.0.has_news.store(false, Ordering::Release);
    *socket.0.intrusion.lock().unwrap() = Some(Box::new(intrusion));
    (context, socket)
}

#[test]
fn news_during_a_look_that_finds_nothing_is_reported() {
    for mode in [Interest::NONE, Interest::EDGE, Interest::ONESHOT] {
        let (context, _socket) = queued_in_vain(mode, Interrupted::deliver);
        let reported = [poll(&context), poll(&context)].concat();
        assert!(reported.contains(&1), "{mode:?}");
    }
}

#[test]
fn news_during_the_second_look_of_a_level_member_is_reported_once_per_call() {
    let (context, socket) = queued_in_vain(Interest::NONE, |socket| {
        *socket.intrusion.lock().unwrap() = Some(Box::new(Interrupted::deliver));
    });
    assert_eq!(poll(&context), []);
    assert_eq!(poll(&context), [1]);

    // Queued by the delivery and found by the look: it must not be queued twice.
    let (context, _socket) = queued_in_vain(Interest::NONE, |socket| {
        socket.has_news.store(true, Ordering::Release);
        *socket.intrusion.lock().unwrap() = Some(Box::new(Interrupted::deliver));
    });
    for _ in 0..3 {
        assert_eq!(poll(&context), [1]);
    }
    drop(socket);
}

#[test]
fn other_waits_are_told_to_look_while_a_look_is_under_way() {
    let seen = Arc::new(AtomicBool::new(false));
    let (context, socket) = queued_in_vain(Interest::EDGE, |_| {});
    let (state, told) = (context.state().clone(), seen.clone());
    let intrusion: Intrusion = Box::new(move |_| told.store(state.queue.available(), Ordering::Relaxed));
    *socket.0.intrusion.lock().unwrap() = Some(intrusion);
    assert_eq!(poll(&context), []);
    assert!(seen.load(Ordering::Relaxed));
    assert!(!context.state().queue.available());
}

#[test]
fn members_that_leave_during_a_look_are_no_trouble() {
    // Closing takes the context's lock, so it is done after the look; the slot is empty when it comes up again.
    let (context, socket) = queued_in_vain(Interest::NONE, |socket| socket.has_news.store(true, Ordering::Release));
    assert_eq!(poll(&context), [1]);
    drop(socket);
    assert_eq!(poll(&context), []);
    assert!(!context.state().queue.available());
}

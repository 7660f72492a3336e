//! Places where a test can hold a thread, as if it had lost its processor there.

use std::sync::mpsc;

use napier_testkit::PATIENCE;

/// Lets threads be held at the places of a type, one place and one thread at a time: the functions `at`, `on_next`,
/// `is_armed` and `forget`, of the visibility given.
macro_rules! places {
    ($vis:vis $point:ty) => {
        type Held = ($point, Box<dyn FnOnce()>);

        thread_local! {
            static HELD: std::cell::RefCell<Option<Held>> = const { std::cell::RefCell::new(None) };
        }

        /// The calling thread reaches `point`.
        $vis fn at(point: $point) {
            let due = HELD.with_borrow_mut(|held| held.take_if(|(at, _)| *at == point));
            if let Some((_, then)) = due {
                then();
            }
        }

        /// When the calling thread next reaches `point`, it does `then`, once.
        $vis fn on_next(point: $point, then: impl FnOnce() + 'static) {
            HELD.set(Some((point, Box::new(then))));
        }

        /// Whether the calling thread is still to be held.
        $vis fn is_armed() -> bool {
            HELD.with_borrow(Option::is_some)
        }

        /// The calling thread is not to be held any more.
        #[allow(dead_code, reason = "not every kind of place has a test that needs it")]
        $vis fn forget() {
            HELD.set(None);
        }
    };
}

pub(crate) use places;

/// Where a thread stops until the test lets it go on: what the thread does there, and the test's side of it.
pub(crate) fn stop() -> (impl FnOnce() + Send + 'static, Stopped) {
    let (reached, is_reached) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let stops = move || {
        reached.send(()).expect("the test listens");
        // An error as well: the test has failed, and must not wait for this thread.
        let _ = may_go_on.recv();
    };
    (stops, Stopped { reached: is_reached, go_on })
}

/// A thread that stops, or will.
pub(crate) struct Stopped {
    reached: mpsc::Receiver<()>,
    go_on: mpsc::Sender<()>,
}

impl Stopped {
    /// Waits until it has stopped.
    pub(crate) fn wait(&self) {
        self.reached.recv_timeout(PATIENCE).expect("the thread comes by");
    }

    /// Lets it go on.
    pub(crate) fn go_on(self) {
        self.go_on.send(()).expect("the thread waits");
    }
}

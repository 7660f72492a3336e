//! Places where a test can hold a thread, as if it had lost its processor there.

use std::cell::RefCell;

/// A place on the transmit path.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Point {
    /// The packet is built; nobody knows of it.
    BeforePush,
    /// A sender is to flush, or to enqueue its own packet.
    BeforeRootLock,
    /// It has taken the list, or is about to enqueue.
    UnderRootLock,
    /// It runs the queue, and has given up the root lock for the ring.
    BeforeTxLock,
    /// It is filling the ring.
    UnderTxLock,
}

impl Point {
    pub(super) const ALL: [Self; 5] =
        [Self::BeforePush, Self::BeforeRootLock, Self::UnderRootLock, Self::BeforeTxLock, Self::UnderTxLock];
}

type Held = (Point, Box<dyn FnOnce()>);

thread_local! {
    static HELD: RefCell<Option<Held>> = const { RefCell::new(None) };
}

/// The calling thread comes by.
pub(super) fn at(point: Point) {
    let due = HELD.with_borrow_mut(|held| held.take_if(|(at, _)| *at == point));
    if let Some((_, then)) = due {
        then();
    }
}

/// When the calling thread next comes by `point`, it does `then`, once.
pub(super) fn on_next(point: Point, then: impl FnOnce() + 'static) {
    HELD.set(Some((point, Box::new(then))));
}

/// Whether the calling thread is to be held: it goes the long way then, by the list.
pub(super) fn is_armed() -> bool {
    HELD.with_borrow(Option::is_some)
}

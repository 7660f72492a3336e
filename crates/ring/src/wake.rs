//! Which thread takes packets that found their queue stopped: the one that starts it again, or the flusher.
//!
//! A flusher takes the list and then looks whether the queue is stopped; if so it leaves. The thread that starts the queue clears
//! the stop and then looks at the list: if it holds something, a flusher is still to look, and nothing need be done, else
//! the queue is scheduled. Each puts its fence between its two steps, so that not both can miss the other.

use crate::sync::{Point, full_fence};

/// The flusher's fence: after it has taken the list, before it looks at the stop.
#[inline]
pub fn flush_fence() {
    // Pairs with `wake_fence`: either the stop is seen cleared, or the list is seen taken there.
    full_fence(Point::FlushLook);
}

/// The fence of the thread that starts the queue: after the stop was cleared, before the look at the list.
#[inline]
pub fn wake_fence() {
    // Pairs with `flush_fence`.
    full_fence(Point::WakeLook);
}

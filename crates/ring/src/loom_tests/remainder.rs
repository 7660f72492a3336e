//! What is left of a list that was taken: who sees neither a list nor a remainder sees that all was dealt with.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::thread;

use super::{model, without};
use crate::sync::Point;
use crate::{Links, List, Remainder};

struct Shared {
    list: List,
    links: Links,
    remainder: Remainder,
    data: UnsafeCell<u32>,
}

// SAFETY: the model checks that the data has one user at a time; loom reports it if not.
unsafe impl Sync for Shared {}

fn what_is_in_hand_is_seen() {
    model(|| {
        let (list, links) = (List::new(), Links::new(1));
        list.push(&links, 0);
        let shared = Arc::new(Shared { list, links, remainder: Remainder::new(), data: UnsafeCell::new(0) });
        // The thread that only looks is spawned: the taker's look at the head would hide a look before it.
        let other = shared.clone();
        let thread = thread::spawn(move || {
            if other.list.is_empty() && !other.remainder.is_left() {
                // SAFETY: that the element is in no thread's hand is what the model is about.
                other.data.with(|data| assert_eq!(unsafe { *data }, 1));
            }
        });
        shared.remainder.begin();
        assert_eq!(shared.list.take(&shared.links).pop(&shared.links), Some(0));
        // SAFETY: the element is in hand.
        shared.data.with_mut(|data| unsafe { *data = 1 });
        shared.remainder.settle(false);
        thread.join().unwrap();
    });
}

#[test]
fn remainder() {
    what_is_in_hand_is_seen();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn remainder_needs_the_fence_before_the_take() {
    without(Point::RemainderBegin, what_is_in_hand_is_seen);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn remainder_needs_the_fence_behind_the_look() {
    without(Point::RemainderLook, what_is_in_hand_is_seen);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn remainder_needs_the_ordering_of_its_end() {
    without(Point::RemainderSettle, what_is_in_hand_is_seen);
}

//! The kick word: who closes a peer waits for no thread that could still ring, and a ring that is under way has a guard.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

use super::{model, without};
use crate::Doorbell;
use crate::memif::KickWord;
use crate::sync::Point;

/// A descriptor that is written to by rings, and closed when none is under way and none can come.
struct Descriptor {
    word: KickWord,
    writes: UnsafeCell<u32>,
}

// SAFETY: the model checks that the data has one user at a time; loom reports it if not.
unsafe impl Sync for Descriptor {}

impl Descriptor {
    fn write(&self) {
        self.writes.with_mut(|writes| {
            // SAFETY: that no other thread is there is what the model is about.
            unsafe { *writes += 1 }
        });
    }
}

fn nobody_rings_what_is_retired_and_idle() {
    model(|| {
        let shared = Arc::new(Descriptor { word: KickWord::new(), writes: UnsafeCell::new(0) });
        let ringer = shared.clone();
        let thread = thread::spawn(move || {
            for _ in 0..2 {
                if ringer.word.begin() {
                    ringer.write();
                    ringer.word.end();
                }
            }
        });
        shared.word.retire();
        if !shared.word.look().is_under_way() {
            shared.write();
        }
        thread.join().unwrap();
    });
}

#[test]
fn kick_retires() {
    nobody_rings_what_is_retired_and_idle();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn kick_needs_the_ordering_of_its_end() {
    without(Point::KickEnd, nobody_rings_what_is_retired_and_idle);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn kick_needs_the_ordering_of_the_look() {
    without(Point::KickLook, nobody_rings_what_is_retired_and_idle);
}

/// A guard that is about to sleep, and a ringer that begins: one of the two sees the other. `seen` is what the guard saw
/// of the word when it looked last.
fn a_ring_has_a_guard() {
    model(|| {
        let shared = Arc::new((KickWord::new(), Doorbell::new(), AtomicU32::new(0)));
        let ringer = shared.clone();
        let thread = thread::spawn(move || {
            let (word, bell, woken) = &*ringer;
            assert!(word.begin());
            if bell.ring() {
                woken.store(1, Ordering::Relaxed);
            }
            // And is made to wait.
        });
        let (word, bell, woken) = &*shared;
        let seen = word.look();
        let sleeps = bell.arm(|| word.look() != seen || word.look().is_under_way());
        thread.join().unwrap();
        assert!(!sleeps || woken.load(Ordering::Relaxed) == 1, "nobody watches the ring");
    });
}

#[test]
fn kick_guard() {
    a_ring_has_a_guard();
}

#[test]
#[should_panic(expected = "nobody watches the ring")]
fn kick_guard_needs_the_fence_of_the_ringer() {
    without(Point::DoorbellRing, a_ring_has_a_guard);
}

#[test]
#[should_panic(expected = "nobody watches the ring")]
fn kick_guard_needs_the_fence_of_the_guard() {
    without(Point::DoorbellArm, a_ring_has_a_guard);
}

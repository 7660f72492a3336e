//! A sleeper that is called elsewhere, and those that sleep on.

use std::sync::Arc;

use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use loom::thread;

use super::{model, without};
use crate::sync::Point;
use crate::{Doorbell, Sleepers, StandIn};

/// A bell with two places to sleep at. Calls are counted; they order nothing.
#[derive(Default)]
struct Places {
    bell: Doorbell,
    sleepers: Sleepers,
    stand_in: StandIn,
    work: AtomicBool,
    called_here: AtomicU32,
    called_there: AtomicU32,
}

impl Places {
    fn call(&self) {
        let called = if self.stand_in.is_there() { &self.called_there } else { &self.called_here };
        called.fetch_add(1, Ordering::Relaxed);
    }

    /// What a producer does.
    fn publish(&self) {
        self.work.store(true, Ordering::Relaxed);
        if self.bell.ring() && self.sleepers.any() {
            self.call();
        }
    }

    fn has_work(&self) -> bool {
        self.work.load(Ordering::Relaxed)
    }

    fn calls(&self) -> (u32, u32) {
        (self.called_here.load(Ordering::Relaxed), self.called_there.load(Ordering::Relaxed))
    }
}

/// The thread that stands in sleeps only if it is called there.
fn who_stands_in_is_called_there() {
    model(|| {
        let places = Arc::new(Places::default());
        let producer = places.clone();
        let producer = thread::spawn(move || producer.publish());
        assert!(places.stand_in.begin());
        places.sleepers.enter();
        places.sleepers.announce();
        let sleeps = places.bell.arm(|| places.has_work());
        producer.join().unwrap();
        if sleeps {
            assert_eq!(places.calls(), (0, 1), "lost wake-up");
        }
    });
}

/// Two sleep; the one that stands in leaves and hands on, as a producer rings for the other.
fn those_who_sleep_on_are_called_here() {
    model(|| {
        let places = Arc::new(Places::default());
        // One sleeps here, and another there.
        places.sleepers.enter();
        assert!(places.stand_in.begin());
        places.sleepers.enter();
        places.sleepers.announce();
        assert!(places.bell.arm(|| false));
        let producer = places.clone();
        let producer = thread::spawn(move || producer.publish());
        // Its time is up.
        let _ = places.bell.disarm();
        let found = places.has_work();
        places.sleepers.leave();
        places.stand_in.end();
        if places.sleepers.any_behind(&places.bell) && !places.bell.arm(|| places.has_work()) {
            places.call();
        }
        producer.join().unwrap();
        // The one that left may have been called as well, and takes what it found; the other has been called, or will
        // be by who takes work.
        if !found {
            assert!(places.calls().0 > 0, "lost wake-up");
        }
    });
}

#[test]
fn stand_in() {
    who_stands_in_is_called_there();
    those_who_sleep_on_are_called_here();
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn stand_in_needs_the_fence_of_the_ringer() {
    without(Point::DoorbellRing, who_stands_in_is_called_there);
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn stand_in_needs_the_fence_of_the_bell() {
    without(Point::DoorbellArm, who_stands_in_is_called_there);
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn those_who_sleep_on_need_the_fence_of_the_ringer() {
    without(Point::DoorbellRing, those_who_sleep_on_are_called_here);
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn those_who_sleep_on_need_the_fence_of_the_bell() {
    without(Point::DoorbellArm, those_who_sleep_on_are_called_here);
}

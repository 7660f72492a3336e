//! A program that sleeps on a descriptor behind a bell (`napier_core::waking::external`): the state is its rules, in a cell of this crate.

use std::sync::Arc;

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use napier_core::waking::external::{Arming, External};

use super::{model, without};
use crate::sync::Point;
use crate::{Doorbell, Sleepers, StateCell};

struct World {
    bell: Doorbell,
    sleepers: Sleepers,
    state: StateCell,
    /// What is readable; a system call reads and changes it in one order for all, and orders nothing else.
    readable: AtomicBool,
    work: AtomicBool,
}

impl World {
    fn new(state: External) -> Arc<Self> {
        let readable = AtomicBool::new(state == External::Open);
        let (bell, sleepers, work) = (Doorbell::new(), Sleepers::new(), AtomicBool::new(false));
        Arc::new(Self { bell, sleepers, state: StateCell::new(state.bits()), readable, work })
    }

    fn change<R>(&self, rule: impl Fn(External) -> (External, R)) -> R {
        self.state.update(|bits| {
            let (next, answer) = rule(External::from_bits(bits));
            (next.bits(), answer)
        })
    }

    fn change_if(&self, rule: impl Fn(External) -> Option<External>) -> bool {
        self.change(|state| rule(state).map_or((state, false), |next| (next, true)))
    }

    fn call(&self) {
        if self.change_if(External::called) {
            self.sleepers.leave();
            loop {
                self.readable.swap(true, Ordering::Relaxed);
                if self.change(External::told) {
                    break;
                }
            }
        }
    }

    fn publish(&self) {
        self.work.store(true, Ordering::Relaxed);
        if self.bell.ring() && self.sleepers.any() {
            self.call();
        }
    }

    fn look(&self) {
        self.sleepers.announce();
        if !self.bell.arm(|| self.work.load(Ordering::Relaxed)) {
            self.call();
        }
    }

    fn found_nothing(&self) {
        self.sleepers.enter();
        match self.change(External::found_nothing) {
            Arming::Drain => {
                self.readable.swap(false, Ordering::Relaxed);
                self.change(|state| (state.drained(), ()));
            }
            Arming::Arm => {}
            Arming::Look => self.sleepers.leave(),
            Arming::Leave => return self.sleepers.leave(),
        }
        self.look();
    }

    /// Nothing runs any more, and the program sleeps on the descriptor.
    fn check(&self) {
        let readable = self.readable.swap(false, Ordering::Relaxed);
        assert!(readable || !self.work.load(Ordering::Relaxed), "lost wake-up");
    }
}

/// A wait arms, as news comes.
fn news_while_it_is_armed(state: External) {
    model(move || {
        let world = World::new(state);
        let teller = world.clone();
        let teller = thread::spawn(move || teller.publish());
        if !world.work.load(Ordering::Relaxed) {
            world.found_nothing();
            teller.join().unwrap();
            world.check();
        }
    });
}

/// A wait that polls holds it, and arms it again, as news comes.
fn news_while_a_wait_polls() {
    // Whole it is 300 s of one CPU; the fence that lacks is found with two.
    super::model_preempted(4, || {
        let world = World::new(External::Open);
        world.found_nothing();
        let teller = world.clone();
        let teller = thread::spawn(move || teller.publish());
        if world.change_if(External::held) {
            world.sleepers.leave();
        }
        if !world.work.load(Ordering::Relaxed) {
            world.sleepers.enter();
            if !world.change_if(External::released) {
                world.sleepers.leave();
            }
            world.found_nothing();
            teller.join().unwrap();
            world.check();
        }
    });
}

/// Two waits find nothing, as news comes: one drains, and the other must not take what is written for old.
fn news_while_two_arm() {
    super::model_preempted(1, || {
        let world = World::new(External::Open);
        let [teller, other] = [world.clone(), world.clone()];
        let teller = thread::spawn(move || teller.publish());
        let other = thread::spawn(move || {
            let nothing = !other.work.load(Ordering::Relaxed);
            if nothing {
                other.found_nothing();
            }
            nothing
        });
        let nothing = !world.work.load(Ordering::Relaxed);
        if nothing {
            world.found_nothing();
        }
        let others = other.join().unwrap();
        teller.join().unwrap();
        if nothing && others {
            world.check();
        }
    });
}

#[test]
fn external() {
    news_while_it_is_armed(External::Open);
    news_while_it_is_armed(External::Held);
}

#[test]
fn external_held_by_a_poll() {
    news_while_a_wait_polls();
}

#[test]
fn external_armed_by_two() {
    news_while_two_arm();
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn external_needs_the_fence_of_the_ringer() {
    without(Point::DoorbellRing, || news_while_it_is_armed(External::Open));
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn external_needs_the_fence_of_the_bell() {
    without(Point::DoorbellArm, || news_while_it_is_armed(External::Open));
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn a_poll_that_is_over_needs_the_fence_of_the_bell() {
    without(Point::DoorbellArm, news_while_a_wait_polls);
}

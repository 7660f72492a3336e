//! An interrupt that is held back: the thread that ends the hold and the thread that closes it, one of them unmasks.

use std::sync::Arc;

use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use loom::thread;

use super::{model, without};
use crate::sync::Point;
use crate::{AfterPoll, IrqHold};

/// A queue with one packet after those that were polled, and its line.
struct Queue {
    produced: AtomicU32,
    /// What the last poll has taken; a note for the thread that unmasks.
    consumed: AtomicU32,
    masked: AtomicBool,
    found: AtomicBool,
    hold: IrqHold,
}

impl Queue {
    /// The interrupt for a first packet was taken, and its owner is about to poll.
    fn interrupted() -> Arc<Self> {
        let hold = IrqHold::new();
        hold.begin(1_000, 0);
        Arc::new(Self {
            produced: AtomicU32::new(1),
            consumed: AtomicU32::new(0),
            masked: AtomicBool::new(true),
            found: AtomicBool::new(false),
            hold,
        })
    }

    #[expect(clippy::disallowed_methods, reason = "the fence of the ring, not of the hold")]
    fn unmask(&self) {
        self.masked.store(false, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        assert!(self.consumed.load(Ordering::Relaxed) >= 1, "unmasked without knowing what was polled");
        if self.produced.load(Ordering::Acquire) == 2 {
            self.found.store(true, Ordering::Relaxed);
        }
    }

    fn poll(&self) {
        // Relaxed: published by giving the queue up.
        self.consumed.store(1, Ordering::Relaxed);
        if self.hold.close(0) == AfterPoll::Unmask {
            self.unmask();
        }
    }

    /// A program is about to sleep.
    fn park(&self) {
        if self.hold.end() {
            self.unmask();
        }
    }

    #[expect(clippy::disallowed_methods, reason = "the fence of the ring, not of the hold")]
    fn produce(&self) {
        self.produced.store(2, Ordering::Release);
        fence(Ordering::SeqCst);
        if !self.masked.load(Ordering::Relaxed) {
            self.found.store(true, Ordering::Relaxed);
        }
    }
}

fn one_of_them_unmasks() {
    model(|| {
        let queue = Queue::interrupted();
        let (poller, producer) = (queue.clone(), queue.clone());
        let poller = thread::spawn(move || poller.poll());
        let producer = thread::spawn(move || producer.produce());
        queue.park();
        poller.join().unwrap();
        producer.join().unwrap();
        assert!(!queue.masked.load(Ordering::Relaxed), "masked for ever");
        assert!(queue.found.load(Ordering::Relaxed), "a packet waits for ever");
    });
}

/// The timer and a program come at the same time.
fn a_hold_is_ended_by_one() {
    model(|| {
        let queue = Queue::interrupted();
        queue.consumed.store(1, Ordering::Relaxed);
        let _ = queue.hold.close(0);
        let (timer, program) = (queue.clone(), queue.clone());
        let timer = thread::spawn(move || timer.hold.take_due(0, 5_000));
        let program = thread::spawn(move || program.hold.end());
        let (timer, program) = (timer.join().unwrap(), program.join().unwrap());
        assert!(timer != program, "one unmasks: {timer} {program}");
    });
}

#[test]
fn of_those_that_end_and_close_a_hold_one_unmasks() {
    one_of_them_unmasks();
}

#[test]
fn of_those_that_end_a_hold_one_unmasks() {
    a_hold_is_ended_by_one();
}

#[test]
#[should_panic(expected = "masked for ever")]
fn a_hold_that_is_ended_in_two_steps_masks_for_ever() {
    without(Point::HoldEnd, one_of_them_unmasks);
}

#[test]
#[should_panic(expected = "without knowing what was polled")]
fn a_hold_that_is_closed_without_release_hides_the_poll() {
    without(Point::HoldClose, one_of_them_unmasks);
}

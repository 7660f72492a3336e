//! The interrupt latch: nothing is announced to no thread, whatever the timer, the rule and the consumer do meanwhile.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

use super::rings::ends;
use super::{model, without};
use crate::IrqLatch;
use crate::memif::{RingWord, Switch, wants_interrupt};
use crate::sync::Point;

/// The timer fires for nothing while a producer announces, by a rule that lets it wait: either the timer's interrupt stands
/// for the arrival, or the timer is started again.
fn a_timer_that_fires_forgets_nobody() {
    model(|| {
        let latch = Arc::new(IrqLatch::new());
        assert!(latch.start_timer());
        let other = latch.clone();
        let timer = thread::spawn(move || other.timer_fired());
        latch.count(1);
        let started = latch.start_timer();
        let fired = timer.join().unwrap();
        assert!(started || fired, "announced to nobody");
    });
}

#[test]
fn irq_timer() {
    a_timer_that_fires_forgets_nobody();
}

#[test]
#[should_panic(expected = "announced to nobody")]
fn irq_timer_needs_the_fence_of_the_producer() {
    without(Point::IrqCount, a_timer_that_fires_forgets_nobody);
}

#[test]
#[should_panic(expected = "announced to nobody")]
fn irq_timer_needs_the_fence_of_the_timer() {
    without(Point::IrqTimer, a_timer_that_fires_forgets_nobody);
}

/// The rule is changed from "the second arrival" to "the first": nothing goes on waiting by the old one, and one side alone
/// raises.
fn a_new_rule_holds_for_what_waits() {
    model(|| {
        let shared = Arc::new((IrqLatch::new(), AtomicU32::new(2)));
        let other = shared.clone();
        let setter = thread::spawn(move || {
            other.1.store(1, Ordering::Relaxed);
            other.0.waits() && other.0.raise()
        });
        let (latch, due_at) = &*shared;
        let raised = latch.count(1) >= due_at.load(Ordering::Relaxed) && latch.raise();
        let raised_by_setter = setter.join().unwrap();
        assert!(raised || raised_by_setter, "waits by a rule that is gone");
        assert!(!(raised && raised_by_setter) && latch.is_raised());
    });
}

#[test]
fn irq_rule() {
    a_new_rule_holds_for_what_waits();
}

#[test]
#[should_panic(expected = "waits by a rule that is gone")]
fn irq_rule_needs_the_fence_of_the_producer() {
    without(Point::IrqCount, a_new_rule_holds_for_what_waits);
}

#[test]
#[should_panic(expected = "waits by a rule that is gone")]
fn irq_rule_needs_the_fence_of_the_setter() {
    without(Point::IrqRule, a_new_rule_holds_for_what_waits);
}

/// The latch is raised and the queue masked; the consumer resets and unmasks while the producer publishes and looks first
/// at the mask and then at the latch.
fn a_reset_latch_holds_nothing_back() {
    model(|| {
        let (mut client, server) = ends(0);
        let switch = Switch::new(server.memory.clone(), RingWord::Head, server.tail());
        switch.mask();
        let latch = Arc::new(IrqLatch::new());
        assert!(latch.raise());
        let other = latch.clone();
        let consumer = thread::spawn(move || {
            other.reset();
            switch.unmask()
        });
        client.offer(0, 1);
        client.publish();
        let interrupted = wants_interrupt(&client.memory) && !latch.is_raised() && {
            latch.count(1);
            latch.raise()
        };
        let raced = consumer.join().unwrap();
        assert!(interrupted || raced, "lost interrupt");
    });
}

#[test]
fn irq_reset() {
    a_reset_latch_holds_nothing_back();
}

#[test]
#[should_panic(expected = "lost interrupt")]
fn irq_reset_needs_the_fence_of_the_producer() {
    without(Point::RingPublishFence, a_reset_latch_holds_nothing_back);
}

#[test]
#[should_panic(expected = "lost interrupt")]
fn irq_reset_needs_the_fence_of_the_unmask() {
    without(Point::RingUnmaskFence, a_reset_latch_holds_nothing_back);
}

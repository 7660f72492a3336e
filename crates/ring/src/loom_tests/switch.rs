//! The interrupt switch: the thread that polls gives the queue up first and unmasks then, beside the next owner.

use std::sync::Arc;

use loom::thread;

use super::rings::{Ring, ends};
use super::{model, model_preempted, without};
use crate::memif::{Follower, Leader, RingWord, Switch, wants_interrupt};
use crate::sync::Point;
use crate::{Exclusive, StateCell};

const SCHED: u32 = 1;
const MISSED: u32 = 2;

/// A receive queue with its owner bit and its interrupt.
struct Queue {
    state: StateCell,
    ring: Exclusive<Follower<Arc<Ring>>>,
    switch: Switch<Arc<Ring>>,
}

/// What is known in the end.
#[derive(Default)]
struct Outcome {
    consumed: bool,
    somebody_comes: bool,
}

impl Queue {
    /// One turn, as NAPI takes it: become the owner or leave a mark, poll masked, give up, unmask, look again.
    fn turn(&self) -> Outcome {
        let mut outcome = Outcome::default();
        let got = self.state.update(|old| if old & SCHED == 0 { (SCHED, true) } else { (old | MISSED, false) });
        if !got {
            return outcome;
        }
        self.switch.mask();
        let missed = {
            let mut ring = self.ring.enter();
            if ring.refresh().expect("an honest peer") > 0 {
                ring.answer();
                outcome.consumed = true;
            }
            self.switch.note_consumed(ring.tail());
            drop(ring);
            self.state.update(|old| (0, old & MISSED != 0))
        };
        let raced = self.switch.unmask();
        // The mark and the second look both mean that this thread schedules another turn.
        outcome.somebody_comes = missed || raced;
        outcome
    }
}

type Client = Leader<Arc<Ring>>;

fn queue() -> (Client, Arc<Queue>) {
    let (client, server) = ends(0);
    let switch = Switch::new(server.memory.clone(), RingWord::Head, server.tail());
    (client, Arc::new(Queue { state: StateCell::new(0), ring: Exclusive::new(server), switch }))
}

fn a_late_unmask_loses_no_interrupt() {
    model_preempted(2, || {
        let (mut client, queue) = queue();
        let pollers = [0, 1].map(|_| {
            let queue = queue.clone();
            thread::spawn(move || queue.turn())
        });
        client.offer(0, 1);
        client.publish();
        let interrupted = wants_interrupt(&client.memory);
        let ended = pollers.map(|poller| poller.join().unwrap());
        let served = ended.iter().any(|turn| turn.consumed || turn.somebody_comes);
        assert!(served || interrupted, "lost interrupt");
    });
}

/// A producer that looks again before it interrupts, and finds the interrupt masked, leaves it: the thread that masked looks at
/// the ring after its unmask.
fn a_late_look_at_the_mask_loses_no_interrupt() {
    model_preempted(2, || {
        let (mut client, queue) = queue();
        let poller = {
            let queue = queue.clone();
            thread::spawn(move || queue.turn())
        };
        client.offer(0, 1);
        client.publish();
        let interrupted = wants_interrupt(&client.memory) && !queue.switch.is_masked();
        let ended = poller.join().unwrap();
        assert!(ended.consumed || ended.somebody_comes || interrupted, "lost interrupt");
    });
}

#[test]
fn late_look_at_the_mask() {
    a_late_look_at_the_mask_loses_no_interrupt();
}

#[test]
#[should_panic(expected = "lost interrupt")]
fn late_look_at_the_mask_needs_the_fence_of_the_consumer() {
    without(Point::RingUnmaskFence, a_late_look_at_the_mask_loses_no_interrupt);
}

/// Apart from the model above, for loom does not order a store behind what another thread read in the meantime.
#[test]
fn the_last_word_is_no_mask() {
    model(|| {
        let (client, queue) = queue();
        let other = queue.clone();
        let poller = thread::spawn(move || other.turn());
        queue.turn();
        poller.join().unwrap();
        assert!(wants_interrupt(&client.memory));
    });
}

#[test]
fn switch() {
    a_late_unmask_loses_no_interrupt();
}

#[test]
#[should_panic(expected = "lost interrupt")]
fn switch_needs_the_fence_of_the_producer() {
    without(Point::RingPublishFence, a_late_unmask_loses_no_interrupt);
}

#[test]
#[should_panic(expected = "lost interrupt")]
fn switch_needs_the_fence_of_the_consumer() {
    without(Point::RingUnmaskFence, a_late_unmask_loses_no_interrupt);
}

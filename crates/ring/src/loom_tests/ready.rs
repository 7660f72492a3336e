//! Readiness: who wants news and who has them see each other, and a slot is in one place at a time.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

use super::{model, model_preempted, without};
use crate::sync::Point;
use crate::{Demand, DemandOnce, ReadyQueue};

/// A thread begins to watch while news are published.
fn a_new_demand_misses_no_news() {
    model(|| {
        let shared = Arc::new((Demand::new(0), AtomicU32::new(0)));
        let other = shared.clone();
        let watcher = thread::spawn(move || {
            other.0.change(1);
            other.1.load(Ordering::Relaxed) == 1
        });
        shared.1.store(1, Ordering::Relaxed);
        let told = shared.0.after_news() == 1;
        assert!(watcher.join().unwrap() || told, "missed news");
    });
}

#[test]
fn demand() {
    a_new_demand_misses_no_news();
}

#[test]
#[should_panic(expected = "missed news")]
fn demand_needs_the_fence_of_the_news() {
    without(Point::DemandNews, a_new_demand_misses_no_news);
}

#[test]
#[should_panic(expected = "missed news")]
fn demand_needs_the_fence_of_the_change() {
    without(Point::DemandChange, a_new_demand_misses_no_news);
}

/// A task puts its waker in the place of an older one and waits, while news are published. What the older one wanted was taken before, or is not yet.
fn a_task_that_waits_is_told(older_wants: bool) {
    const OLD: u32 = 1;
    const NEW: u32 = 2;
    model(move || {
        let (demand, waiting) = (Demand::new(1), DemandOnce::default());
        if older_wants {
            waiting.want(1);
        }
        let shared = Arc::new((demand, waiting, AtomicU32::new(OLD), AtomicU32::new(0)));
        let other = shared.clone();
        let task = thread::spawn(move || {
            let (_, waiting, waker, news) = &*other;
            waker.store(NEW, Ordering::Relaxed);
            waiting.want(1);
            news.load(Ordering::Relaxed) == 1
        });
        let (demand, waiting, waker, news) = &*shared;
        news.store(1, Ordering::Relaxed);
        let _ = demand.after_news();
        let told = waiting.take(1) == 1 && waker.load(Ordering::Relaxed) == NEW;
        assert!(task.join().unwrap() || told, "missed news");
    });
}

#[test]
fn demand_once() {
    a_task_that_waits_is_told(false);
    a_task_that_waits_is_told(true);
}

#[test]
#[should_panic(expected = "missed news")]
fn demand_once_needs_the_fence_of_the_wish() {
    without(Point::OnceWant, || a_task_that_waits_is_told(false));
}

#[test]
#[should_panic(expected = "missed news")]
fn demand_once_needs_the_fence_of_the_news() {
    without(Point::DemandNews, || a_task_that_waits_is_told(false));
}

/// What tasks and deliveries share of a socket (`stack/src/event/source.rs`): its contexts stand in one place until a task waits, then in another with the tasks.
struct Moving {
    /// The old place has the contexts, or none.
    old: AtomicU32,
    /// The new place is made; and deliveries come there.
    made: AtomicU32,
    reached: AtomicU32,
    watched: Demand,
    waiting: DemandOnce,
    news: AtomicU32,
}

impl Moving {
    /// The first task moves the contexts, under a lock.
    fn move_contexts(&self) {
        self.made.store(1, Ordering::Release);
        self.old.store(0, Ordering::Release);
        self.watched.change(1);
        self.reached.store(1, Ordering::Release);
    }

    /// A delivery; whether it has told the task.
    fn deliver(&self) -> bool {
        self.news.store(1, Ordering::Relaxed);
        self.watched.after_news() != 0
            && self.old.load(Ordering::Acquire) == 0
            && self.made.load(Ordering::Acquire) == 1
            && self.waiting.take(1) == 1
    }
}

/// A second task waits while the first moves the contexts. It passes the lock by only if deliveries come to the new place; by mistake, if that is made.
fn a_second_task_is_told(contexts: u32, by_mistake: bool) {
    model_preempted(3, move || {
        let moving = Arc::new(Moving {
            old: AtomicU32::new(contexts),
            made: AtomicU32::new(0),
            reached: AtomicU32::new(0),
            watched: Demand::new(contexts),
            waiting: DemandOnce::default(),
            news: AtomicU32::new(0),
        });
        let (first, second) = (moving.clone(), moving.clone());
        let first = thread::spawn(move || first.move_contexts());
        let second = thread::spawn(move || {
            let passes = if by_mistake { &second.made } else { &second.reached };
            // Who takes the lock finds all done: nothing is asked of it here.
            (passes.load(Ordering::Acquire) == 1).then(|| {
                second.waiting.want(1);
                second.news.load(Ordering::Relaxed) == 1
            })
        });
        let told = moving.deliver();
        first.join().unwrap();
        assert!(second.join().unwrap().is_none_or(|seen| seen || told), "missed news");
    });
}

#[test]
fn a_second_task() {
    a_second_task_is_told(1, false);
    a_second_task_is_told(0, false);
}

#[test]
#[should_panic(expected = "missed news")]
fn a_second_task_waits_until_deliveries_come_to_the_new_place() {
    a_second_task_is_told(1, true);
}

/// A queue of one slot, which a collector has in hand, the demand for its member and the member's news.
fn slot_in_hand() -> Arc<(ReadyQueue, Demand, AtomicU32)> {
    let queue = ReadyQueue::new(1);
    assert!(queue.offer(0));
    queue.collect(|slot| assert_eq!(slot, 0));
    Arc::new((queue, Demand::new(1), AtomicU32::new(0)))
}

fn publish((queue, demand, news): &(ReadyQueue, Demand, AtomicU32)) -> bool {
    news.store(1, Ordering::Relaxed);
    demand.after_news() == 1 && queue.offer(0)
}

fn a_released_slot_misses_no_news() {
    model(|| {
        let shared = slot_in_hand();
        let other = shared.clone();
        let publisher = thread::spawn(move || publish(&other));
        let (queue, _, news) = &*shared;
        queue.release(0);
        let seen = news.load(Ordering::Relaxed) == 1;
        queue.settle(false);
        let offered = publisher.join().unwrap();
        assert!(seen || offered, "missed news");
        assert_eq!(queue.available(), offered);
    });
}

#[test]
fn ready() {
    a_released_slot_misses_no_news();
}

#[test]
#[should_panic(expected = "missed news")]
fn ready_needs_the_fence_of_the_news() {
    without(Point::DemandNews, a_released_slot_misses_no_news);
}

#[test]
#[should_panic(expected = "missed news")]
fn ready_needs_the_fence_of_the_release() {
    without(Point::ReadyRelease, a_released_slot_misses_no_news);
}

/// A level-triggered member that was not ready, then is: its slot stays with the collector or is on the list, not both.
#[test]
fn a_slot_is_in_one_place() {
    model(|| {
        let shared = slot_in_hand();
        let other = shared.clone();
        let publisher = thread::spawn(move || publish(&other));
        let (queue, _, news) = &*shared;
        queue.release(0);
        let kept = news.load(Ordering::Relaxed) == 1 && queue.reclaim(0);
        queue.settle(kept);
        let offered = publisher.join().unwrap();
        assert!(kept != offered && queue.available());
        let mut collected = 0;
        queue.collect(|_| collected += 1);
        assert_eq!(collected, u32::from(offered));
    });
}

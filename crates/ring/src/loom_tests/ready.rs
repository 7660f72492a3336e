//! Readiness: who wants news and who has them see each other, and a slot is in one place at a time.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

use super::{model, without};
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

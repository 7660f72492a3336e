//! Lists and the word queue.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

use super::{model, model_preempted, without};
use crate::sync::Point;
use crate::{Chain, Fifo, Links, List, flush_fence, spsc, wake_fence};

/// A list whose elements carry data that is written before the push and read after the take.
struct Shared {
    list: List,
    links: Links,
    data: Vec<UnsafeCell<u32>>,
}

// SAFETY: the model checks that an element's data has one user at a time; loom reports it if not.
unsafe impl Sync for Shared {}

impl Shared {
    fn new(elements: u32) -> Arc<Self> {
        let data = (0..elements).map(|_| UnsafeCell::new(0)).collect();
        Arc::new(Self { list: List::new(), links: Links::new(elements), data })
    }

    fn write(&self, id: u32) {
        // SAFETY: the element is not in the list, so it is this thread's.
        self.data[id as usize].with_mut(|data| unsafe { *data = id + 100 });
    }

    fn push(&self, id: u32) -> bool {
        self.write(id);
        self.list.push(&self.links, id)
    }

    fn rest(&self, mut taken: Fifo, into: &mut Vec<u32>) -> bool {
        let some = !taken.is_empty();
        while let Some(id) = taken.pop(&self.links) {
            // SAFETY: the element was taken, so it is this thread's.
            self.data[id as usize].with(|data| assert_eq!(unsafe { *data }, id + 100));
            into.push(id);
        }
        some
    }
}

// In these models the taker is the spawned thread: loom notes only the last access to a word, so a pusher's look at
// the head hides a taker's look before it, and the other way round nothing is hidden.

fn list_keeps_all_in_order() {
    model(|| {
        let shared = Shared::new(3);
        let taker = shared.clone();
        let thread = thread::spawn(move || {
            let mut taken = Vec::new();
            let takes = [0; 2].map(|_| taker.rest(taker.list.take(&taker.links), &mut taken));
            (taken, takes.into_iter().filter(|some| *some).count())
        });
        let mut told = usize::from(shared.push(0));
        shared.write(1);
        shared.write(2);
        let mut chain = Chain::new(&shared.links, 1);
        chain.push(&shared.links, 2);
        told += usize::from(shared.list.push_chain(&shared.links, chain.newest, chain.oldest));
        let (mut taken, mut takes) = thread.join().unwrap();
        takes += usize::from(shared.rest(shared.list.take(&shared.links), &mut taken));
        assert_eq!(taken, [0, 1, 2]);
        assert_eq!(told, takes, "each run of elements is announced once");
    });
}

#[test]
fn list() {
    list_keeps_all_in_order();
}

/// Senders push; the one whose push found the list empty takes the lock and the list. Everything is flushed by
/// a thread, once, and no other thread takes the lock.
fn one_sender_flushes_for_all() {
    model(|| {
        let shared = Shared::new(3);
        let flushed = Arc::new(loom::sync::Mutex::new(Vec::new()));
        let send = |shared: &Shared, flushed: &loom::sync::Mutex<Vec<u32>>, id: u32| {
            shared.write(id);
            match shared.list.push_admitted(&shared.links, id, || true) {
                Some(true) => {
                    let mut flushed = flushed.lock().unwrap();
                    let some = shared.rest(shared.list.take(&shared.links), &mut flushed);
                    assert!(some, "the flusher's own element is there");
                }
                Some(false) => {}
                None => unreachable!("there is room"),
            }
        };
        let other = (shared.clone(), flushed.clone());
        let thread = thread::spawn(move || {
            send(&other.0, &other.1, 0);
            send(&other.0, &other.1, 1);
        });
        send(&shared, &flushed, 2);
        thread.join().unwrap();
        assert!(shared.list.is_empty(), "whoever was told to flush has");
        let mut flushed = flushed.lock().unwrap();
        let order = |id| flushed.iter().position(|one| *one == id).expect("flushed");
        assert!(order(0) < order(1), "a sender's elements keep their order");
        flushed.sort_unstable();
        assert_eq!(*flushed, [0, 1, 2]);
    });
}

#[test]
fn flush_hand_over() {
    one_sender_flushes_for_all();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn flush_hand_over_needs_release() {
    without(Point::ListPush, one_sender_flushes_for_all);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn flush_hand_over_needs_acquire() {
    without(Point::ListTake, one_sender_flushes_for_all);
}

/// A flusher finds the queue stopped and leaves its element; the thread that starts the queue meanwhile sends it, or the flusher
/// does.
fn a_stop_strands_nothing() {
    model(|| {
        let shared = Shared::new(1);
        let stopped = Arc::new(AtomicU32::new(1));
        // Behind the root lock: how many elements wait.
        let root = Arc::new(loom::sync::Mutex::new(0));
        let waker = (shared.clone(), stopped.clone(), root.clone());
        let thread = thread::spawn(move || {
            let (shared, stopped, root) = waker;
            stopped.store(0, Ordering::Relaxed);
            wake_fence();
            if shared.list.is_empty() {
                *root.lock().unwrap() = 0;
            }
        });
        shared.push(0);
        {
            let mut waiting = root.lock().unwrap();
            let mut taken = Vec::new();
            shared.rest(shared.list.take(&shared.links), &mut taken);
            *waiting += taken.len();
            flush_fence();
            if stopped.load(Ordering::Relaxed) == 0 {
                *waiting = 0;
            }
        }
        thread.join().unwrap();
        assert_eq!(*root.lock().unwrap(), 0, "an element is stranded");
    });
}

#[test]
fn stop_and_wake() {
    a_stop_strands_nothing();
}

#[test]
#[should_panic(expected = "stranded")]
fn stop_and_wake_need_the_fence_of_the_flusher() {
    without(Point::FlushLook, a_stop_strands_nothing);
}

#[test]
#[should_panic(expected = "stranded")]
fn stop_and_wake_need_the_fence_of_the_waker() {
    without(Point::WakeLook, a_stop_strands_nothing);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn list_needs_the_ordering_of_the_push() {
    without(Point::ListPush, list_keeps_all_in_order);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn list_needs_the_ordering_of_the_take() {
    without(Point::ListTake, list_keeps_all_in_order);
}

#[test]
fn two_pushers_lose_nothing() {
    model_preempted(2, || {
        let shared = Shared::new(3);
        let (pusher, taker) = (shared.clone(), shared.clone());
        let pusher = thread::spawn(move || {
            pusher.push(2);
        });
        let taker = thread::spawn(move || {
            let mut taken = Vec::new();
            taker.rest(taker.list.take(&taker.links), &mut taken);
            taken
        });
        shared.push(0);
        shared.push(1);
        pusher.join().unwrap();
        let mut taken = taker.join().unwrap();
        shared.rest(shared.list.take(&shared.links), &mut taken);
        let at = |id| taken.iter().position(|&there| there == id).expect("taken");
        assert!(taken.len() == 3 && at(0) < at(1) && at(2) < 3);
    });
}

/// An element that is pushed again as soon as it was taken: the classic reused head.
#[test]
fn an_element_can_come_round_again() {
    model(|| {
        let shared = Shared::new(2);
        shared.push(0);
        let taker = shared.clone();
        let thread = thread::spawn(move || {
            let mut taken = Vec::new();
            taker.rest(taker.list.take(&taker.links), &mut taken);
            taker.push(0);
            taken
        });
        shared.push(1);
        let mut taken = thread.join().unwrap();
        let first = taken.len();
        shared.rest(shared.list.take(&shared.links), &mut taken);
        assert_eq!(taken.len(), 3, "two pushed, one of them twice");
        assert!(first >= 1 && taken[0] == 0 && taken[1..].contains(&0) && taken.contains(&1));
    });
}

fn queue_hands_data_over() {
    model(|| {
        let shared = Arc::new(Cells([0; 3].map(UnsafeCell::new)));
        let (mut producer, mut consumer) = spsc::channel::<u32>(1);
        let other = shared.clone();
        let thread = thread::spawn(move || {
            let mut sent = 0;
            for value in 0..3 {
                other.write(value);
                if producer.push(value).is_err() {
                    break;
                }
                sent += 1;
            }
            sent
        });
        let mut received = 0;
        for _ in 0..2 {
            if let Some(value) = consumer.pop() {
                assert_eq!(value, received);
                shared.read(value);
                received += 1;
            }
        }
        let sent = thread.join().unwrap();
        while let Some(value) = consumer.pop() {
            assert_eq!(value, received);
            received += 1;
        }
        assert_eq!(sent, received);
    });
}

/// As above, and the consumer takes what there is at once: no slot is written again before it was read.
fn queue_hands_many_over() {
    model(|| {
        let shared = Arc::new(Cells([0; 3].map(UnsafeCell::new)));
        let (mut producer, mut consumer) = spsc::channel::<u32>(2);
        let other = shared.clone();
        let thread = thread::spawn(move || {
            (0..3)
                .take_while(|value| {
                    other.write(*value);
                    producer.push(*value).is_ok()
                })
                .count()
        });
        let mut received = 0;
        let mut take = |received: &mut u32| {
            consumer.pop_many(3, |value| {
                assert_eq!(value, *received);
                shared.read(value);
                *received += 1;
            })
        };
        take(&mut received);
        let sent = thread.join().unwrap();
        take(&mut received);
        assert_eq!(sent, received as usize);
    });
}

#[test]
fn queue_of_many() {
    queue_hands_many_over();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn queue_of_many_needs_the_ordering_of_the_publication() {
    without(Point::SpscPublish, queue_hands_many_over);
}

struct Cells([UnsafeCell<u32>; 3]);

// SAFETY: the model checks that a cell has one user at a time; loom reports it if not.
unsafe impl Sync for Cells {}

impl Cells {
    fn write(&self, value: u32) {
        // SAFETY: not sent yet.
        self.0[value as usize].with_mut(|data| unsafe { *data = value + 7 });
    }

    fn read(&self, value: u32) {
        // SAFETY: received.
        self.0[value as usize].with(|data| assert_eq!(unsafe { *data }, value + 7));
    }
}

#[test]
fn queue() {
    queue_hands_data_over();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn queue_needs_the_ordering_of_the_publication() {
    without(Point::SpscPublish, queue_hands_data_over);
}

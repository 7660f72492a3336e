//! How an item gets from many senders to one consumer: ours, and what a program would use otherwise.
//!
//! All have room for every item there is, so none is ever full; back-pressure is the same for all and is not theirs.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crossbeam_queue::{ArrayQueue, SegQueue};
use napier_ring::{Links, List};

/// Most items that a bounded scheme gives out at once: the weight of a NAPI poll.
pub(super) const BATCH_MAX: usize = 64;

/// Looks at a lock that is taken before the thread gives up its processor: the holder may be waiting for it.
const LOOKS_MAX: u32 = 64;

/// A value on cache lines of its own; two, because processors fetch them in pairs.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Alone<T>(pub(super) T);

/// From many senders to one consumer.
pub(super) trait HandOver: Sync {
    /// Room for items 0 to `items` - 1, each of which is in here at most once.
    fn new(items: u32) -> Self;

    /// Adds an item.
    fn push(&self, item: u32);

    /// Takes what is there, those of each sender oldest first; a bounded scheme at most [`BATCH_MAX`]. Called by one
    /// thread only.
    fn take(&self, each: impl FnMut(u32));
}

/// The list of this project: push one, take all.
pub(super) struct OurList {
    list: Alone<List>,
    links: Alone<Links>,
}

impl HandOver for OurList {
    fn new(items: u32) -> Self {
        Self { list: Alone(List::new()), links: Alone(Links::new(items)) }
    }

    #[inline]
    fn push(&self, item: u32) {
        self.list.0.push(&self.links.0, item);
    }

    #[inline]
    fn take(&self, mut each: impl FnMut(u32)) {
        let mut taken = self.list.0.take(&self.links.0);
        while let Some(item) = taken.pop(&self.links.0) {
            each(item);
        }
    }
}

/// A ring in plain memory behind a spin lock that gives up the processor after a while.
pub(super) struct SpinRing {
    taken: Alone<AtomicBool>,
    // The lock orders all that follows, so plain (relaxed) accesses do.
    head: Alone<AtomicU32>,
    tail: AtomicU32,
    slots: Alone<Box<[AtomicU32]>>,
}

impl SpinRing {
    #[inline]
    fn locked<R>(&self, inside: impl FnOnce() -> R) -> R {
        // Acquire: pairs with the Release below.
        while self.taken.0.swap(true, Ordering::Acquire) {
            let mut looks = 0;
            while self.taken.0.load(Ordering::Relaxed) {
                looks += 1;
                if looks % LOOKS_MAX == 0 {
                    std::thread::yield_now();
                }
                std::hint::spin_loop();
            }
        }
        let answer = inside();
        self.taken.0.store(false, Ordering::Release);
        answer
    }

    #[inline]
    fn slot(&self, index: u32) -> &AtomicU32 {
        &self.slots.0[index as usize & (self.slots.0.len() - 1)]
    }
}

impl HandOver for SpinRing {
    fn new(items: u32) -> Self {
        let slots = (0..items.next_power_of_two()).map(|_| AtomicU32::new(0)).collect();
        Self { taken: Alone::default(), head: Alone::default(), tail: AtomicU32::new(0), slots: Alone(slots) }
    }

    #[inline]
    fn push(&self, item: u32) {
        self.locked(|| {
            let head = self.head.0.load(Ordering::Relaxed);
            self.slot(head).store(item, Ordering::Relaxed);
            self.head.0.store(head.wrapping_add(1), Ordering::Relaxed);
        });
    }

    #[inline]
    fn take(&self, each: impl FnMut(u32)) {
        let mut batch = [0; BATCH_MAX];
        let taken = self.locked(|| {
            let tail = self.tail.load(Ordering::Relaxed);
            let waiting = self.head.0.load(Ordering::Relaxed).wrapping_sub(tail);
            let taken = waiting.min(BATCH_MAX as u32);
            for (at, item) in batch[..taken as usize].iter_mut().enumerate() {
                *item = self.slot(tail.wrapping_add(at as u32)).load(Ordering::Relaxed);
            }
            self.tail.store(tail.wrapping_add(taken), Ordering::Relaxed);
            taken as usize
        });
        batch[..taken].iter().copied().for_each(each);
    }
}

/// The standard library's mutex round its ring buffer.
pub(super) struct MutexQueue(Alone<Mutex<VecDeque<u32>>>);

impl HandOver for MutexQueue {
    fn new(items: u32) -> Self {
        Self(Alone(Mutex::new(VecDeque::with_capacity(items as usize))))
    }

    #[inline]
    fn push(&self, item: u32) {
        self.0.0.lock().expect("no panic while held").push_back(item);
    }

    #[inline]
    fn take(&self, each: impl FnMut(u32)) {
        let mut batch = [0; BATCH_MAX];
        let mut queue = self.0.0.lock().expect("no panic while held");
        let taken = queue.len().min(BATCH_MAX);
        for (place, item) in batch.iter_mut().zip(queue.drain(..taken)) {
            *place = item;
        }
        drop(queue);
        batch[..taken].iter().copied().for_each(each);
    }
}

/// A bounded lock-free ring of many producers.
impl HandOver for ArrayQueue<u32> {
    fn new(items: u32) -> Self {
        Self::new(items as usize)
    }

    #[inline]
    fn push(&self, item: u32) {
        self.push(item).expect("there is room for every item");
    }

    #[inline]
    fn take(&self, each: impl FnMut(u32)) {
        std::iter::from_fn(|| self.pop()).take(BATCH_MAX).for_each(each);
    }
}

/// An unbounded lock-free queue in segments.
impl HandOver for SegQueue<u32> {
    fn new(_items: u32) -> Self {
        Self::new()
    }

    #[inline]
    fn push(&self, item: u32) {
        self.push(item);
    }

    #[inline]
    fn take(&self, each: impl FnMut(u32)) {
        std::iter::from_fn(|| self.pop()).take(BATCH_MAX).for_each(each);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing is lost, added or turned round between two senders and a consumer.
    fn hands_all_over_in_order<H: HandOver>() {
        const EACH: u32 = 20_000;
        let queue = H::new(2 * EACH);
        let mut seen = Vec::new();
        std::thread::scope(|scope| {
            for first in [0, EACH] {
                let queue = &queue;
                scope.spawn(move || (first..first + EACH).for_each(|item| queue.push(item)));
            }
            while seen.len() < 2 * EACH as usize {
                let before = seen.len();
                queue.take(|item| seen.push(item));
                if seen.len() == before {
                    std::thread::yield_now();
                }
            }
        });
        for first in [0, EACH] {
            let own = seen.iter().copied().filter(|item| (first..first + EACH).contains(item));
            assert!(own.eq(first..first + EACH));
        }
        queue.take(|item| panic!("{item} came twice"));
    }

    #[test]
    fn every_scheme_hands_all_over_in_order() {
        hands_all_over_in_order::<OurList>();
        hands_all_over_in_order::<SpinRing>();
        hands_all_over_in_order::<MutexQueue>();
        hands_all_over_in_order::<ArrayQueue<u32>>();
        hands_all_over_in_order::<SegQueue<u32>>();
    }

    #[test]
    fn bounded_schemes_give_out_a_batch_at_a_time() {
        fn batches<H: HandOver>() -> Vec<usize> {
            let queue = H::new(100);
            (0..100).for_each(|item| queue.push(item));
            let mut sizes = Vec::new();
            while sizes.iter().sum::<usize>() < 100 {
                let mut size = 0;
                queue.take(|_| size += 1);
                sizes.push(size);
            }
            sizes
        }
        assert_eq!(batches::<OurList>(), [100]);
        assert_eq!(batches::<SpinRing>(), [64, 36]);
        assert_eq!(batches::<MutexQueue>(), [64, 36]);
        assert_eq!(batches::<ArrayQueue<u32>>(), [64, 36]);
        assert_eq!(batches::<SegQueue<u32>>(), [64, 36]);
    }
}

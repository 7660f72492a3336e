//! A bounded queue of words with one producer and one consumer.
//!
//! Carries `u32`, `u64` and [`Frame`](crate::Frame)s: a frame is moved in and moved out.

use core::marker::PhantomData;
use std::sync::Arc;

use crate::sync::{AtomicU32, AtomicU64, CacheLine, Ordering, Point, order};

/// Most elements of a queue.
pub const CAPACITY_MAX: u32 = 1 << 30;

/// What a queue carries: something that fits in 64 bits. Sealed.
pub trait Word: codec::Codec {}

pub(crate) mod codec {
    /// Shown by callers inside this crate; no other can make a `Frame` out of a number.
    pub struct Inside(pub(crate) ());

    pub trait Codec {
        fn encode(self, inside: Inside) -> u64;
        fn decode(word: u64, inside: Inside) -> Self;
    }
}
use codec::{Codec, Inside};

impl Codec for u64 {
    #[inline]
    fn encode(self, _: Inside) -> u64 {
        self
    }
    #[inline]
    fn decode(word: u64, _: Inside) -> Self {
        word
    }
}
impl Word for u64 {}

impl Codec for u32 {
    #[inline]
    fn encode(self, _: Inside) -> u64 {
        u64::from(self)
    }
    #[inline]
    fn decode(word: u64, _: Inside) -> Self {
        word as u32 // encoded from 32 bits
    }
}
impl Word for u32 {}

struct SharedWords {
    head: CacheLine<AtomicU32>, // next slot to write; the producer's
    tail: CacheLine<AtomicU32>, // next slot to read; the consumer's
    slots: Box<[AtomicU64]>,
}

impl SharedWords {
    #[inline]
    fn slot(&self, index: u32) -> &AtomicU64 {
        &self.slots[index as usize & (self.slots.len() - 1)]
    }
}

/// A queue of at least `capacity` elements (rounded up to a power of two).
///
/// # Panics
///
/// If `capacity` is 0 or more than [`CAPACITY_MAX`].
#[must_use]
pub fn channel<T: Word>(capacity: u32) -> (Producer<T>, Consumer<T>) {
    channel_from(capacity, 0)
}

fn channel_from<T: Word>(capacity: u32, start: u32) -> (Producer<T>, Consumer<T>) {
    assert!((1..=CAPACITY_MAX).contains(&capacity), "capacity is 1 to 2^30");
    let slots = (0..capacity.next_power_of_two()).map(|_| AtomicU64::new(0)).collect();
    let shared =
        Arc::new(SharedWords { head: CacheLine(AtomicU32::new(start)), tail: CacheLine(AtomicU32::new(start)), slots });
    let producer =
        Producer { shared: shared.clone(), head: start, published: start, tail_seen: start, kind: PhantomData };
    (producer, Consumer { shared, tail: start, head_seen: start, kind: PhantomData })
}

/// The writing end.
pub struct Producer<T> {
    shared: Arc<SharedWords>,
    head: u32,
    published: u32,
    tail_seen: u32,
    kind: PhantomData<fn(T)>,
}

impl<T: Word> Producer<T> {
    /// Adds an element and publishes it, and what was staged before it.
    ///
    /// # Errors
    ///
    /// The element itself, if the queue is full. Staged elements are then still unpublished.
    #[inline]
    pub fn push(&mut self, value: T) -> Result<(), T> {
        self.stage(value)?;
        self.publish();
        Ok(())
    }

    /// Adds an element that the consumer sees after [`publish`](Self::publish).
    ///
    /// # Errors
    ///
    /// The element itself, if the queue is full.
    #[inline]
    pub fn stage(&mut self, value: T) -> Result<(), T> {
        if self.free() == 0 {
            return Err(value);
        }
        let word = value.encode(Inside(()));
        self.shared.slot(self.head).store(word, Ordering::Relaxed);
        self.head = self.head.wrapping_add(1);
        Ok(())
    }

    /// Publishes what was staged; returns how many elements that were.
    #[inline]
    pub fn publish(&mut self) -> u32 {
        let staged = self.head.wrapping_sub(self.published);
        if staged > 0 {
            // Release: pairs with the Acquire in `Consumer::refresh`: the slots are seen there.
            self.shared.head.0.store(self.head, order(Point::SpscPublish, Ordering::Release));
            self.published = self.head;
        }
        staged
    }

    /// How many more elements fit.
    #[inline]
    pub fn free(&mut self) -> u32 {
        let capacity = self.capacity();
        if self.head.wrapping_sub(self.tail_seen) == capacity {
            // Acquire: pairs with the Release in `Consumer::pop`: the slot was read before it is written again.
            self.tail_seen = self.shared.tail.0.load(Ordering::Acquire);
        }
        capacity - self.head.wrapping_sub(self.tail_seen)
    }

    /// Elements in the queue, staged ones included; the consumer may be taking some at this moment.
    #[must_use]
    #[inline]
    pub fn len(&self) -> u32 {
        self.head.wrapping_sub(self.shared.tail.0.load(Ordering::Acquire))
    }

    /// Whether the queue is empty (see [`len`](Self::len)).
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many elements fit in all.
    #[must_use]
    #[inline]
    pub fn capacity(&self) -> u32 {
        self.shared.slots.len() as u32 // at most 2^30
    }
}

/// The reading end. Elements that are never popped are dropped as words: a frame among them is lost to its pool.
pub struct Consumer<T> {
    shared: Arc<SharedWords>,
    tail: u32,
    head_seen: u32,
    kind: PhantomData<fn() -> T>,
}

impl<T: Word> Consumer<T> {
    /// Takes the oldest published element.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        if self.tail == self.head_seen && self.refresh() == 0 {
            return None;
        }
        let word = self.shared.slot(self.tail).load(Ordering::Relaxed);
        self.tail = self.tail.wrapping_add(1);
        // Release: pairs with the Acquire in `Producer::free`.
        self.shared.tail.0.store(self.tail, Ordering::Release);
        Some(T::decode(word, Inside(())))
    }

    /// Takes at most `max` elements, oldest first, and gives their slots back together; returns how many. Cheaper than as
    /// many calls of [`pop`](Self::pop): the producer's line is written once.
    #[inline]
    pub fn pop_many(&mut self, max: u32, mut each: impl FnMut(T)) -> u32 {
        let known = self.head_seen.wrapping_sub(self.tail);
        let taken = if known < max { self.refresh().min(max) } else { max };
        // Not `slot`: where the slots are would be read anew with each.
        let slots = &*self.shared.slots;
        for _ in 0..taken {
            let word = slots[self.tail as usize & (slots.len() - 1)].load(Ordering::Relaxed);
            // Before the call: should it panic, the element is not taken a second time.
            self.tail = self.tail.wrapping_add(1);
            each(T::decode(word, Inside(())));
        }
        if taken > 0 {
            // Release: pairs with the Acquire in `Producer::free`.
            self.shared.tail.0.store(self.tail, Ordering::Release);
        }
        taken
    }

    /// Published elements.
    #[must_use]
    #[inline]
    pub fn len(&self) -> u32 {
        self.shared.head.0.load(Ordering::Acquire).wrapping_sub(self.tail)
    }

    /// Whether nothing is published (the second look before a sleep).
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    fn refresh(&mut self) -> u32 {
        // Acquire: pairs with the Release in `Producer::publish`.
        self.head_seen = self.shared.head.0.load(Ordering::Acquire);
        self.head_seen.wrapping_sub(self.tail)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::test_rng::Rng;
    use std::collections::VecDeque;

    #[test]
    fn behaves_as_a_queue_under_random_operations_across_the_wrap() {
        for seed in 0..if cfg!(miri) { 3 } else { 200 } {
            let mut rng = Rng::new(seed);
            let (mut producer, mut consumer) = channel_from::<u64>(8, u32::MAX - rng.below(64));
            let (mut staged, mut oracle) = (VecDeque::new(), VecDeque::new());
            for value in 0..300u64 {
                match rng.below(5) {
                    0 => {
                        let fits = staged.len() + oracle.len() < 8;
                        assert_eq!(producer.stage(value).is_ok(), fits);
                        if fits {
                            staged.push_back(value);
                        }
                    }
                    1 => {
                        assert_eq!(producer.publish() as usize, staged.len());
                        oracle.append(&mut staged);
                    }
                    2 => assert_eq!(consumer.pop(), oracle.pop_front()),
                    _ => {
                        let (max, mut popped) = (rng.below(5), Vec::new());
                        assert_eq!(consumer.pop_many(max, |value| popped.push(value)) as usize, popped.len());
                        assert_eq!(popped.len(), oracle.len().min(max as usize));
                        assert!(popped.into_iter().eq(oracle.drain(..oracle.len().min(max as usize))));
                    }
                }
                assert_eq!(consumer.len() as usize, oracle.len());
                assert_eq!(producer.len() as usize, oracle.len() + staged.len());
                assert!(producer.free() as usize <= 8 - oracle.len() - staged.len());
            }
        }
    }

    #[test]
    fn full_gives_the_element_back() {
        let (mut producer, mut consumer) = channel::<u32>(1);
        assert_eq!(producer.push(7), Ok(()));
        assert_eq!(producer.push(8), Err(8));
        assert_eq!(consumer.pop(), Some(7));
        assert_eq!(producer.push(8), Ok(()));
    }

    #[test]
    fn order_holds_between_threads() {
        let count = if cfg!(miri) { 100 } else { 200_000 };
        let (mut producer, mut consumer) = channel::<u64>(16);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for value in 0..count {
                    while producer.push(value).is_err() {
                        std::thread::yield_now();
                    }
                }
            });
            let mut next = 0;
            while next < count {
                match consumer.pop() {
                    Some(value) => {
                        assert_eq!(value, next);
                        next += 1;
                    }
                    None => std::thread::yield_now(),
                }
            }
        });
    }
}

//! Lock-free lists of indices: push one (or a chain), take all. As `include/linux/llist.h`, on indices.
//!
//! Push and take-all need no protection against a reused head (ABA): a push only ever links to the value that its
//! own swap proves to be still the head, and nothing pops a single element.

use crate::sync::{AtomicU32, Ordering, Point, order};

const NIL: u32 = u32::MAX;

/// Where the next-index of an element is kept. Implemented by [`Links`]; sealed.
pub trait Linked: sealed::Sealed {
    #[doc(hidden)]
    fn next_of(&self, id: u32) -> &AtomicU32;
}

pub(crate) mod sealed {
    /// Keeps [`Linked`](super::Linked) to this crate.
    pub trait Sealed {}
}

/// The next-indices of `n` elements, 0 to n-1. An element is in at most one list at a time.
pub struct Links {
    next: Box<[AtomicU32]>,
}

impl Links {
    /// Links for the elements `0..n`.
    ///
    /// # Panics
    ///
    /// If `n` is `u32::MAX`, which is the end mark.
    #[must_use]
    pub fn new(n: u32) -> Self {
        assert!(n < NIL, "one index is the end mark");
        Self { next: (0..n).map(|_| AtomicU32::new(NIL)).collect() }
    }

    /// How many elements there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.next.len()
    }

    /// Whether there is no element.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.next.is_empty()
    }
}

impl sealed::Sealed for Links {}

impl Linked for Links {
    #[inline]
    fn next_of(&self, id: u32) -> &AtomicU32 {
        &self.next[id as usize]
    }
}

/// A private run of elements on its way into a list, oldest first out.
#[derive(Copy, Clone, Debug)]
pub struct Chain {
    /// The element that was added last: it is taken last.
    pub newest: u32,
    /// The element that was added first: it is taken first.
    pub oldest: u32,
}

impl Chain {
    /// A chain of one element.
    pub fn new(links: &impl Linked, id: u32) -> Self {
        links.next_of(id).store(NIL, Ordering::Relaxed);
        Self { newest: id, oldest: id }
    }

    /// Adds an element, to be taken after those already here.
    #[inline]
    pub fn push(&mut self, links: &impl Linked, id: u32) {
        // Relaxed: the chain is private until `push_chain` publishes it.
        links.next_of(id).store(self.newest, Ordering::Relaxed);
        self.newest = id;
    }

    /// The chain's elements, oldest first. Costs one walk over them.
    pub fn into_fifo(self, links: &impl Linked) -> Fifo {
        oldest_first(links, self.newest)
    }
}

/// Turns a run that is linked from `newest` down round.
#[inline]
fn oldest_first(links: &impl Linked, newest: u32) -> Fifo {
    let (mut at, mut next) = (newest, NIL);
    while at != NIL {
        // Relaxed: the elements are the caller's alone.
        let older = links.next_of(at).load(Ordering::Relaxed);
        links.next_of(at).store(next, Ordering::Relaxed);
        next = at;
        at = older;
    }
    Fifo { next }
}

/// A list that any thread pushes to and that is taken as a whole.
pub struct List {
    newest: AtomicU32,
}

impl Default for List {
    fn default() -> Self {
        Self::new()
    }
}

impl List {
    /// An empty list.
    #[must_use]
    pub fn new() -> Self {
        Self { newest: AtomicU32::new(NIL) }
    }

    /// Whether the list is empty, as a hint; behind a fence (a doorbell's or a combining flag's) it is the second look.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.newest.load(Ordering::Relaxed) == NIL
    }

    /// Adds one element. `true` = the list was empty, so no thread has been notified yet.
    ///
    /// # Panics
    ///
    /// If `id` is not an element of `links`.
    #[inline]
    pub fn push(&self, links: &impl Linked, id: u32) -> bool {
        self.push_chain(links, id, id)
    }

    /// Adds a run of elements that is linked from `newest` down to `oldest` (see [`Chain`]), with one swap.
    /// `true` = the list was empty.
    ///
    /// # Panics
    ///
    /// If `oldest` is not an element of `links`.
    #[inline]
    pub fn push_chain(&self, links: &impl Linked, newest: u32, oldest: u32) -> bool {
        let last = links.next_of(oldest);
        let mut old = NIL; // see `push_admitted`
        loop {
            last.store(old, Ordering::Relaxed);
            // Release: pairs with the Acquire swap in `take_newest`: links and elements are seen there.
            let success = order(Point::ListPush, Ordering::Release);
            match self.newest.compare_exchange_weak(old, newest, success, Ordering::Relaxed) {
                Ok(_) => return old == NIL,
                Err(now) => old = now,
            }
        }
    }

    /// Adds an element unless `admit` objects; `None` if it did, else as [`Self::push`]. `admit` is asked before the
    /// element is added to a list that holds others, at most once, however often the attempt is repeated: a limit on
    /// what waits for a thread that takes. The first element of a list is never asked for.
    #[inline]
    pub fn push_admitted(&self, links: &impl Linked, id: u32, admit: impl FnOnce() -> bool) -> Option<bool> {
        let link = links.next_of(id);
        let mut admit = Some(admit);
        // No look before the first attempt: that would fetch the line to read it, and the swap would fetch it once more
        // to write it. An attempt that fails has it to write already, and the next one costs little.
        let mut old = NIL;
        loop {
            if old != NIL
                && let Some(admit) = admit.take()
                && !admit()
            {
                return None;
            }
            link.store(old, Ordering::Relaxed);
            let success = order(Point::ListPush, Ordering::Release);
            match self.newest.compare_exchange_weak(old, id, success, Ordering::Relaxed) {
                Ok(_) => return Some(old == NIL),
                Err(now) => old = now,
            }
        }
    }

    /// Takes everything, oldest first. The turn-round costs one walk over what was taken.
    #[inline]
    pub fn take(&self, links: &impl Linked) -> Fifo {
        // The swap makes the elements ours.
        oldest_first(links, self.take_newest())
    }

    /// Takes everything, newest first: cheaper than [`take`](Self::take) where order does not matter.
    #[inline]
    pub fn take_newest_first(&self) -> Fifo {
        Fifo { next: self.take_newest() }
    }

    fn take_newest(&self) -> u32 {
        if self.is_empty() {
            return NIL; // leave the line shared among the pushers
        }
        // Acquire: pairs with the Release swap in `push_chain`.
        self.newest.swap(NIL, order(Point::ListTake, Ordering::Acquire))
    }
}

/// What was taken from a list. Elements that are not popped are in no list.
#[derive(Debug)]
#[must_use = "the elements are in no list any more"]
pub struct Fifo {
    next: u32,
}

impl Fifo {
    /// The next element.
    #[inline]
    pub fn pop(&mut self, links: &impl Linked) -> Option<u32> {
        if self.next == NIL {
            return None;
        }
        let id = self.next;
        self.next = links.next_of(id).load(Ordering::Relaxed);
        Some(id)
    }

    /// Puts an element back that was popped: it is the next again.
    #[inline]
    pub fn put_back(&mut self, links: &impl Linked, id: u32) {
        links.next_of(id).store(self.next, Ordering::Relaxed);
        self.next = id;
    }

    /// Whether nothing is left.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.next == NIL
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::test_rng::Rng;
    use std::collections::VecDeque;

    fn rest(mut fifo: Fifo, links: &Links) -> Vec<u32> {
        core::iter::from_fn(|| fifo.pop(links)).collect()
    }

    #[test]
    fn takes_in_push_order() {
        let links = Links::new(4);
        let list = List::new();
        assert!(list.push(&links, 2));
        assert!(!list.push(&links, 0));
        let mut chain = Chain::new(&links, 3);
        chain.push(&links, 1);
        assert!(!list.push_chain(&links, chain.newest, chain.oldest));
        assert_eq!(rest(list.take(&links), &links), [2, 0, 3, 1]);
        assert!(list.is_empty());
        assert!(list.take(&links).is_empty());
    }

    #[test]
    fn a_limit_holds_for_all_but_the_first() {
        let links = Links::new(8);
        let list = List::new();
        let mut count = 0;
        let mut push = |id| {
            list.push_admitted(&links, id, || {
                count += 1;
                count <= 3
            })
        };
        let answers = [0, 1, 2, 3, 4, 5].map(&mut push);
        assert_eq!(answers, [Some(true), Some(false), Some(false), Some(false), None, None]);
        assert_eq!(rest(list.take(&links), &links), [0, 1, 2, 3]);
        assert_eq!(list.push_admitted(&links, 6, || panic!("an empty list has room")), Some(true));
    }

    #[test]
    fn what_is_put_back_is_the_next_again() {
        let links = Links::new(4);
        let list = List::new();
        list.push(&links, 3);
        list.push(&links, 1);
        let mut fifo = list.take(&links);
        let first = fifo.pop(&links).unwrap();
        fifo.put_back(&links, first);
        assert_eq!((fifo.pop(&links), fifo.pop(&links), fifo.pop(&links)), (Some(3), Some(1), None));
        fifo.put_back(&links, 1);
        fifo.put_back(&links, 3);
        assert_eq!(rest(fifo, &links), [3, 1]);
    }

    #[test]
    fn newest_first() {
        let links = Links::new(3);
        let list = List::new();
        (0..3).for_each(|id| {
            list.push(&links, id);
        });
        assert_eq!(rest(list.take_newest_first(), &links), [2, 1, 0]);
    }

    #[test]
    fn behaves_as_a_queue_under_random_operations() {
        for seed in 0..if cfg!(miri) { 3 } else { 200 } {
            let mut rng = Rng::new(seed);
            let links = Links::new(16);
            let list = List::new();
            let mut oracle = VecDeque::new();
            let mut free: Vec<u32> = (0..16).collect();
            for _ in 0..100 {
                if rng.below(4) > 0 && !free.is_empty() {
                    let id = free.swap_remove(rng.below(free.len() as u32) as usize);
                    assert_eq!(list.push(&links, id), oracle.is_empty());
                    oracle.push_back(id);
                } else {
                    let taken = rest(list.take(&links), &links);
                    assert_eq!(taken, oracle.drain(..).collect::<Vec<_>>());
                    free.extend(taken);
                }
            }
        }
    }

    #[test]
    fn nothing_is_lost_between_threads() {
        let each = if cfg!(miri) { 40 } else { 20_000 };
        let links = Links::new(2 * each);
        let list = List::new();
        let mut seen = Vec::new();
        std::thread::scope(|scope| {
            let (links, list) = (&links, &list);
            for start in [0, each] {
                scope.spawn(move || {
                    (start..start + each).for_each(|id| {
                        list.push(links, id);
                    })
                });
            }
            while seen.len() < 2 * each as usize {
                seen.extend(rest(list.take(links), links));
                std::thread::yield_now();
            }
        });
        for start in [0, each] {
            let order: Vec<_> = seen.iter().copied().filter(|id| (start..start + each).contains(id)).collect();
            assert!(order.is_sorted(), "order per pusher");
        }
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..2 * each));
    }
}

//! Flows that may not send yet, by the time when they may: a binary heap that keeps its memory.

use alloc::vec::Vec;

use crate::time::Instant;

#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Delayed {
    at: Instant,
    /// Flows that are due at the same time come back in the order in which they were put away.
    order: u64,
    flow: u32,
}

#[derive(Clone, Default, PartialEq, Eq, Hash, Debug)]
pub(super) struct DelayHeap {
    heap: Vec<Delayed>,
    orders: u64,
}

impl DelayHeap {
    pub(super) fn push(&mut self, at: Instant, flow: u32) {
        self.heap.push(Delayed { at, order: self.orders, flow });
        self.orders += 1;
        let mut child = self.heap.len() - 1;
        while child > 0 {
            let parent = (child - 1) / 2;
            if self.heap[parent] <= self.heap[child] {
                break;
            }
            self.heap.swap(parent, child);
            child = parent;
        }
    }

    /// The earliest time.
    pub(super) fn earliest(&self) -> Option<Instant> {
        self.heap.first().map(|first| first.at)
    }

    /// Takes a flow that is due.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<u32> {
        let due = self.heap.first().filter(|first| first.at <= now)?.flow;
        self.heap.swap_remove(0);
        let mut parent = 0;
        loop {
            let children = (2 * parent + 1)..(2 * parent + 3).min(self.heap.len());
            let Some(least) = children.min_by_key(|child| self.heap[*child]) else { break };
            if self.heap[parent] <= self.heap[least] {
                break;
            }
            self.heap.swap(parent, least);
            parent = least;
        }
        Some(due)
    }

    pub(super) fn clear(&mut self) {
        self.heap.clear();
        self.orders = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 128 }, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn flows_come_back_by_time_and_then_in_order(times in prop::collection::vec(0u64..20, 0..60), until in 0u64..25) {
            let mut heap = DelayHeap::default();
            let mut plain: Vec<(u64, u32)> = Vec::new();
            for (flow, at) in times.into_iter().enumerate() {
                heap.push(Instant::from_ns(at), flow as u32);
                plain.push((at, flow as u32));
            }
            plain.sort_unstable();
            for (at, flow) in plain {
                prop_assert_eq!(heap.earliest(), Some(Instant::from_ns(at)));
                let popped = heap.pop_due(Instant::from_ns(until));
                prop_assert_eq!(popped, (at <= until).then_some(flow));
                if popped.is_none() {
                    return Ok(());
                }
            }
            prop_assert_eq!(heap.pop_due(Instant::from_ns(u64::MAX)), None);
        }
    }

    #[test]
    fn whatever_the_order_the_earliest_comes_first_and_of_equals_the_first() {
        for odd in (1..64).step_by(2) {
            let mut heap = DelayHeap::default();
            for number in 0..64 {
                heap.push(Instant::from_ns(u64::from(number * odd % 64 / 4)), 64 - number);
            }
            let mut before = (0, 65);
            for _ in 0..64 {
                let at = heap.earliest().unwrap().ns;
                let flow = heap.pop_due(Instant::from_ns(at)).unwrap();
                assert!(at > before.0 || flow < before.1, "{odd}: {flow} at {at} after {before:?}");
                assert!(at >= before.0, "{odd}: {flow} at {at} after {before:?}");
                before = (at, flow);
            }
            heap.push(Instant::from_ns(1), 1);
            heap.clear();
            assert_eq!(heap, DelayHeap::default());
        }
    }
}

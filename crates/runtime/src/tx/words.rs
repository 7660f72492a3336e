//! The two words of a queue that anyone may change, each time by one transition of the rules.

use std::sync::atomic::{AtomicU64, Ordering};

use napier_core::tx::queue::QueueBits;
use napier_core::tx::state::QdiscState;
use napier_ring::StateCell;

/// The state of the discipline and the stop bits of the queue.
pub(super) struct QueueWords {
    state: StateCell,
    bits: StateCell,
    stops: AtomicU64,
}

impl QueueWords {
    pub(super) fn new() -> Self {
        let (state, bits) = (QdiscState::EMPTY.bits().into(), QueueBits::EMPTY.bits().into());
        Self { state: StateCell::new(state), bits: StateCell::new(bits), stops: AtomicU64::new(0) }
    }

    #[inline]
    pub(super) fn state(&self) -> QdiscState {
        QdiscState::from_bits(self.state.load() as u8) // only such words are stored
    }

    #[inline]
    pub(super) fn bits(&self) -> QueueBits {
        QueueBits::from_bits(self.bits.load() as u8) // only such words are stored
    }

    pub(super) fn update_state<R>(&self, rule: impl Fn(QdiscState) -> (QdiscState, R)) -> R {
        self.state.update(|bits| {
            let (next, answer) = rule(QdiscState::from_bits(bits as u8)); // only such words are stored
            (next.bits().into(), answer)
        })
    }

    pub(super) fn update_bits<R>(&self, rule: impl Fn(QueueBits) -> (QueueBits, R)) -> R {
        self.bits.update(|bits| {
            let (next, answer) = rule(QueueBits::from_bits(bits as u8)); // only such words are stored
            (next.bits().into(), answer)
        })
    }

    /// Sets a stop bit; the caller holds the transmit lock, as all do that could clear it meanwhile.
    #[cold]
    pub(super) fn stop(&self, rule: fn(QueueBits) -> QueueBits) {
        let newly = self.update_bits(|bits| (rule(bits), !bits.stopped()));
        if newly {
            self.stops.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Times that the queue was stopped.
    pub(super) fn stops(&self) -> u64 {
        self.stops.load(Ordering::Relaxed)
    }

    pub(super) fn reset_stops(&self) {
        self.stops.store(0, Ordering::Relaxed);
    }
}

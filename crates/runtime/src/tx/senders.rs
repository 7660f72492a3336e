//! Senders: who is inside the transmit path of a device, each with frames of its own.
//!
//! A thread that sends enters a cell that no other thread is in, mostly the one it used last. So senders share no line until
//! they push, and the thread that changes something of the path can wait until no thread still acts by the old state
//! ([`Senders::wait_for_all`]). A thread that loses its processor inside keeps one cell; others use the next.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use napier_ring::{Entered, Exclusive, FramePool, FrameTable, enter_section, section_is_over};

use super::packet::Paced;
use super::stats::CallTimes;
use crate::port::{Charges, SenderSpace, SenderSpaceError};
use napier_stack::SendBuffers;
use napier_sys::current;
use napier_sys::give_way::GiveWay;

/// What belongs to the thread inside.
pub(crate) struct TxSender {
    pub(crate) pool: FramePool,
    /// Times that it flushed.
    pub(crate) flushes: u64,
    /// Duration of transmit calls, while a caller wants to know.
    pub(crate) times: Option<Box<CallTimes>>,
}

#[repr(align(128))]
struct SenderCell(Exclusive<TxSender>);

impl SenderCell {
    /// Enters when no thread is inside.
    fn wait(&self) -> Entered<'_, TxSender> {
        let mut give_way = GiveWay::default();
        loop {
            if let Some(sender) = enter_section(&self.0) {
                return sender;
            }
            give_way.turn();
        }
    }
}

/// The senders of a device.
pub(crate) struct Senders {
    places: Box<[SenderCell]>,
    pub(crate) table: Arc<FrameTable>,
    pub(crate) paced: Paced,
    pub(crate) charges: Arc<Charges>,
}

static NEXT: AtomicUsize = AtomicUsize::new(0);

impl Senders {
    /// # Errors
    /// No memory, or no room for another arena.
    pub(crate) fn new(
        table: &Arc<FrameTable>,
        space: &SenderSpace,
        buffers: &Arc<SendBuffers>,
    ) -> Result<Self, SenderSpaceError> {
        let pools = space.open(table)?;
        let frames = pools.iter().map(|pool| pool.total() as usize).sum();
        let charges = Charges::new(frames, space.frame_bytes(), buffers.clone());
        let place = |pool| SenderCell(Exclusive::new(TxSender { pool, flushes: 0, times: None }));
        let places = pools.into_iter().map(place).collect();
        Ok(Self { places, table: table.clone(), paced: Paced::new(frames), charges })
    }

    /// Enters a free cell; `None` if there is none now.
    #[inline]
    pub(crate) fn enter(&self) -> Option<Entered<'_, TxSender>> {
        let last = current::sender();
        if let Some(place) = self.places.get(last)
            && let Some(entered) = enter_section(&place.0)
        {
            return Some(entered);
        }
        self.enter_another(last)
    }

    #[cold]
    fn enter_another(&self, last: usize) -> Option<Entered<'_, TxSender>> {
        // Relaxed: a number to begin with, so that threads spread.
        let first = if last == current::NO_SENDER { NEXT.fetch_add(1, Ordering::Relaxed) } else { last };
        let count = self.places.len();
        (0..count).map(|step| (first % count + step) % count).find_map(|at| {
            let entered = enter_section(&self.places[at].0)?;
            current::set_sender(at);
            Some(entered)
        })
    }

    /// Waits until everybody who was inside has left. The caller has published the new state before.
    pub(crate) fn wait_for_all(&self) {
        for place in &self.places {
            let mut give_way = GiveWay::default();
            while !section_is_over(&place.0) {
                give_way.turn();
            }
        }
    }

    /// Shows each cell to `look`, when no thread is inside.
    pub(crate) fn for_each(&self, mut look: impl FnMut(&mut TxSender)) {
        self.places.iter().for_each(|place| look(&mut place.wait()));
    }

    /// Enters all cells.
    pub(crate) fn hold_all(&self) -> Vec<Entered<'_, TxSender>> {
        self.places.iter().map(SenderCell::wait).collect()
    }

    /// How many can be inside at the same time.
    pub(crate) fn count(&self) -> usize {
        self.places.len()
    }

    /// A pool of theirs, to know their arena by.
    pub(crate) fn with_a_pool<R>(&self, look: impl FnOnce(&FramePool) -> R) -> R {
        look(&self.places[0].wait().pool)
    }
}

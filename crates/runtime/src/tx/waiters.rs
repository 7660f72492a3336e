//! The line of those whose packets the ring has refused, in their order.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use napier_ring::{Owned, Owner};
use napier_stack::device::OnRoom;

/// The line is looked through for the first time when it has this length.
const SLACK: usize = 1024;

type Waiter = Weak<dyn OnRoom>;

/// Who waits for room.
pub(super) struct RoomWaiters {
    line: Owned<VecDeque<Waiter>, Waiter>,
    /// There are some, as a hint.
    some: AtomicBool,
}

impl RoomWaiters {
    pub(super) fn new() -> Self {
        Self { line: Owned::new(VecDeque::new()), some: AtomicBool::new(false) }
    }

    /// Some wait, as a hint.
    #[inline]
    pub(super) fn any(&self) -> bool {
        self.some.load(Ordering::Relaxed)
    }

    /// Goes to the end of the line.
    pub(super) fn add(&self, waiter: &Arc<dyn OnRoom>) {
        self.some.store(true, Ordering::Relaxed);
        if let Some(line) = self.line.post(Arc::downgrade(waiter)) {
            self.leave(line);
        }
    }

    /// Offers room to those in the line while there is any, once to each: `offer` says whether it was taken. False if
    /// another thread is at it.
    pub(super) fn serve(
        &self,
        mut has_room: impl FnMut() -> bool,
        mut offer: impl FnMut(Arc<dyn OnRoom>) -> bool,
    ) -> bool {
        let Some(mut line) = self.line.try_own() else { return false };
        let new = line.messages();
        line.extend(new);
        let mut room = has_room();
        for _ in 0..line.len() {
            if !room {
                break;
            }
            let Some(waiter) = line.pop_front() else { break };
            match waiter.upgrade().map(&mut offer) {
                Some(true) => room = has_room(),
                Some(false) => line.push_back(waiter),
                None => {}
            }
        }
        self.leave(line);
        true
    }

    /// Lets go of the line, after those who have come meanwhile.
    fn leave(&self, line: Owner<'_, VecDeque<Waiter>, Waiter>) {
        let mut before = line.len();
        line.line_up(|line| {
            // Who has ended meanwhile is forgotten when as many have come since: at each power of two.
            if line.len() >= SLACK && line.len().ilog2() > before.max(1).ilog2() {
                line.retain(|waiter| waiter.strong_count() > 0);
            }
            before = line.len();
            // Relaxed: a hint, and the watchdog looks again.
            self.some.store(!line.is_empty(), Ordering::Relaxed);
        });
    }
}

//! What becomes of a batch of the defer list. Source: `net/core/dev.c __dev_xmit_skb` (Linux 7.3).
//!
//! The flusher ([`super::push::Pushed::Flush`]) takes the root lock, takes the whole list in one exchange, sets the
//! defer count to 0, turns the list round so that it is in the order of arrival, and calls [`flush`]. The flusher's own
//! packet is the first of the batch, for its push found the list empty.
//!
//! | batch | what happens | flusher is told | others were told |
//! |---|---|---|---|
//! | deactivated | all dropped | Drop | Success |
//! | one packet, nothing waits, no thread runs, bypass allowed | straight to the driver, then a run | Success | |
//! | else, one packet | queued, then a run unless a thread runs | what came of it | |
//! | else | each queued in order, then a run unless a thread runs | Success, whatever came of its own | Success |
//!
//! What came of the flusher's own packet is known as well ([`Flushed::own`]), for an executor that tells of that. Drops are
//! counted in any case, each with its reason.

use super::root::Root;
use super::run::TxRun;
use super::state::QdiscState;
use super::{DropReason, DroppedPacket, TxPacket, XmitCode};
use crate::time::Instant;

/// What to do with a batch.
#[must_use]
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum FlushPlan {
    /// Drop all of it.
    DropAll,
    /// Become runner and transmit the packet at once.
    Bypass,
    /// Queue each packet, in order.
    Enqueue,
}

/// What the flusher finds under the root lock.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct FlushView {
    /// The discipline is deactivated.
    pub deactivated: bool,
    /// The discipline may be passed by.
    pub can_bypass: bool,
    /// Nothing waits, in it or to be sent again.
    pub empty: bool,
    /// The batch is one packet.
    pub single: bool,
    /// A thread runs it, with the root lock dropped.
    pub running: bool,
}

/// Decides on a batch.
#[inline]
pub const fn plan(view: FlushView) -> FlushPlan {
    if view.deactivated {
        FlushPlan::DropAll
    } else if view.can_bypass && view.empty && view.single && !view.running {
        FlushPlan::Bypass
    } else {
        FlushPlan::Enqueue
    }
}

/// What a flush leads to.
#[must_use]
#[derive(Debug)]
pub struct Flushed<P> {
    /// What the kernel tells the flusher. Also on bypass it is known before the packet is sent: what the driver does not
    /// take waits.
    pub code: XmitCode,
    /// What came of the flusher's own packet.
    pub own: XmitCode,
    /// The flusher became runner: carry this out before giving up the lock for good. `None`: another thread runs the
    /// discipline and will look again, or it is deactivated.
    pub run: Option<TxRun<P>>,
}

/// Carries out the plan, under the root lock. `state` is the word as read under it; `batch` is in the order of arrival;
/// the memory of what is dropped is best given back after the lock.
///
/// # Panics
/// If the batch is empty.
pub fn flush<P: TxPacket>(
    root: &mut Root<P>,
    state: QdiscState,
    batch: impl IntoIterator<Item = P>,
    now: Instant,
    quota_pkts: u32,
    dropped: &mut impl FnMut(DroppedPacket<P>),
) -> Flushed<P> {
    let mut batch = batch.into_iter();
    let Some(own) = batch.next() else { panic!("the flusher's own packet is in its batch") };
    let second = batch.next();
    let view = FlushView {
        deactivated: state.intersects(QdiscState::DEACTIVATED),
        can_bypass: root.can_bypass(),
        empty: root.qlen() == 0,
        single: second.is_none(),
        running: root.is_running(),
    };
    let others = second.into_iter().chain(batch);
    match plan(view) {
        FlushPlan::DropAll => {
            for packet in core::iter::once(own).chain(others) {
                root.count_drop(DropReason::Deactivated);
                dropped(DroppedPacket { packet, reason: DropReason::Deactivated });
            }
            Flushed { code: XmitCode::Drop, own: XmitCode::Drop, run: None }
        }
        FlushPlan::Bypass => {
            let run = Some(TxRun::bypass(root, own, quota_pkts));
            Flushed { code: XmitCode::Success, own: XmitCode::Success, run }
        }
        FlushPlan::Enqueue => {
            let own = match root.enqueue(own, now) {
                Ok(()) => XmitCode::Success,
                Err(own) => {
                    dropped(own);
                    XmitCode::Drop
                }
            };
            others.filter_map(|packet| root.enqueue(packet, now).err()).for_each(dropped);
            let code = if view.single { own } else { XmitCode::Success };
            Flushed { code, own, run: TxRun::begin(root, quota_pkts) }
        }
    }
}

#[cfg(test)]
#[path = "flush_tests.rs"]
mod tests;

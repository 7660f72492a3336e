//! The connections of a name space that wait out their end and that no program has.
//!
//! They stand in a table of their own, which is asked where a segment, or a program that connects, finds no connection: so what goes to one that is open
//! meets none of this. One whose program still has it waits as a whole connection does, and comes here when it is closed.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use napier_core::tcp::seq::Seq;
use napier_core::tcp::time_wait::{BUCKETS_MAX, Reuse};
use napier_core::time::Instant;
use napier_ring::{FlowTable, Owned};

use super::Tcp;
use super::by_age::SLACK;
use super::conn::{Arrived, Input};
use super::flow::Flow;
use super::machine::Inbound;
use super::outlet::send_back;
use super::remnant::{AfterEnd, Remnant};
use crate::counters::Counter;
use crate::tables::Ingress;
use crate::tables::demux::flow_hash;

/// Four entries in each when there are as many as there may be.
const LISTS: usize = 4096;

/// All of them.
pub(super) struct TimeWaits {
    table: FlowTable<Arc<Remnant>>,
    seed: u64,
    /// Oldest first, and some that wait no more; new ones are left for the thread that looks after them.
    line: Owned<VecDeque<Weak<Remnant>>, Weak<Remnant>>,
    count: AtomicUsize,
    max: AtomicUsize,
    /// A [`Reuse`].
    reuse: AtomicU8,
}

impl TimeWaits {
    /// None. `seed`: where the table puts what cannot be guessed.
    pub(super) fn new(seed: u64) -> Self {
        Self {
            table: FlowTable::new(LISTS),
            seed,
            line: Owned::new(VecDeque::new()),
            count: AtomicUsize::new(0),
            max: AtomicUsize::new(BUCKETS_MAX),
            reuse: AtomicU8::new(Reuse::default() as u8),
        }
    }

    // Relaxed, here and below: limits and settings, which order nothing.

    /// How many there may be, from the next one on.
    pub(super) fn set_max(&self, connections: usize) {
        self.max.store(connections, Ordering::Relaxed);
    }

    pub(super) fn set_reuse(&self, reuse: Reuse) {
        self.reuse.store(reuse as u8, Ordering::Relaxed);
    }

    /// Whether a connection that we open may take the place of one.
    pub(super) fn reuse(&self) -> Reuse {
        [Reuse::Never, Reuse::Always, Reuse::InProcess][usize::from(self.reuse.load(Ordering::Relaxed))]
    }

    /// How many there are.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    fn hash(&self, flow: &Flow) -> u32 {
        flow_hash(self.seed, flow.peer, flow.local)
    }

    /// The one between these ends.
    pub(super) fn find(&self, flow: &Flow) -> Option<Arc<Remnant>> {
        self.table.find(self.hash(flow), |other| other.flow == *flow, Arc::clone)
    }

    /// All; those that come or go meanwhile may be among them or not.
    pub(super) fn all(&self) -> Vec<Arc<Remnant>> {
        let mut all = Vec::new();
        self.table.for_all(|remnant| all.push(remnant.clone()));
        all
    }

    /// False if there is one between the same ends.
    fn insert(&self, remnant: &Arc<Remnant>) -> bool {
        // Counted before any thread sees it and ends it.
        self.count.fetch_add(1, Ordering::Relaxed);
        let alone = self.table.insert(self.hash(&remnant.flow), remnant.clone(), |other| other.flow == remnant.flow);
        if !alone {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
        alone
    }

    fn remove(&self, remnant: &Arc<Remnant>) {
        self.table.remove(self.hash(&remnant.flow), |other| Arc::ptr_eq(other, remnant));
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    /// There is one more. Those that have to make room for it, the oldest first; they are to be ended.
    fn line_up(&self, remnant: &Arc<Remnant>) -> Vec<Arc<Remnant>> {
        let mut surplus = Vec::new();
        let Some(waiting) = self.line.post(Arc::downgrade(remnant)) else { return surplus };
        waiting.line_up(|waiting| {
            let (count, max) = (self.count.load(Ordering::Relaxed), self.max.load(Ordering::Relaxed));
            let waits = |one: &Weak<Remnant>| one.upgrade().filter(|remnant| !remnant.is_gone());
            while surplus.len() < count.saturating_sub(max)
                && let Some(oldest) = waiting.pop_front()
            {
                surplus.extend(waits(&oldest));
            }
            // What has ended holds memory as long as it stands here.
            if waiting.len() > 2 * count + SLACK {
                waiting.retain(|one| waits(one).is_some());
            }
        });
        surplus
    }
}

impl Tcp {
    /// A connection waits out its end, and this is what stays of it. The connection may be in hand: no thread is waited for.
    pub(super) fn waits_out(&self, remnant: &Arc<Remnant>, now: Instant) {
        let waits = &self.time_waits;
        if let Some(older) = waits.find(&remnant.flow) {
            // A SYN found the connection in the moment in which it became this.
            let _ = self.ends_wait(&older, Counter::TcpTimeWaitRecycled);
        }
        if !waits.insert(remnant) {
            // Another thread ends the older one right now. No thread waits for it here.
            return self.tables.counters.count(Counter::TcpTimeWaitOverflow);
        }
        let surplus = waits.line_up(remnant);
        surplus.iter().for_each(|oldest| _ = self.ends_wait(oldest, Counter::TcpTimeWaitOverflow));
        self.wheel.call_remnant(remnant, remnant.until(), now);
    }

    /// Ends one before its time; false if it has ended.
    fn ends_wait(&self, remnant: &Arc<Remnant>, counter: Counter) -> bool {
        let ends = remnant.ends();
        if ends {
            self.tables.counters.count(counter);
            self.time_waits.remove(remnant);
        }
        ends
    }

    /// The wheel has come to the place of one.
    pub(super) fn called_for(&self, remnant: &Arc<Remnant>, now: Instant) {
        let until = remnant.until();
        if until > now && !remnant.is_gone() {
            self.wheel.call_remnant(remnant, until, now);
        } else if remnant.ends() {
            self.time_waits.remove(remnant);
        }
    }

    /// Takes a segment that is for one that waits out its end, if there is one. `frame` is the whole frame.
    #[cold]
    pub(super) fn late(&self, at: &Ingress<'_>, frame: &[u8], arrived: &Arrived<'_>) -> Option<Input> {
        let flow = Flow { local: arrived.segment.dst, peer: arrived.segment.src };
        let remnant = self.time_waits.find(&flow)?;
        let Some(seg) = Inbound::of_packet(arrived.packet) else { return Some(Input::Taken) };
        match remnant.input(arrived.now, &seg, || self.is_listened_to(arrived)) {
            AfterEnd::Nothing => {}
            AfterEnd::Departs(departure) => send_back(at, frame, flow, &departure),
            AfterEnd::Reopens(first) if self.ends_wait(&remnant, Counter::TcpTimeWaitRecycled) => {
                return Some(Input::Reopen(Some(first)));
            }
            // Another thread has taken the place in this moment.
            AfterEnd::Reopens(_) => {}
        }
        Some(Input::Taken)
    }

    /// Whether a connection that is opened now may take the place of this one, which waits out its end; the number of its first byte then. The place is
    /// free after that.
    pub(super) fn takes_place_of(&self, remnant: &Arc<Remnant>, now: Instant) -> Option<Seq> {
        let first = remnant.gives_way(now, self.time_waits.reuse(), &self.tables.snapshot.load())?;
        self.ends_wait(remnant, Counter::TcpTimeWaitRecycled).then_some(first)
    }

    /// Ends what waits for a peer that an interface led to. Gives how many.
    pub(super) fn waits_lost(&self, ifindex: u32) -> usize {
        let snapshot = self.tables.snapshot.load();
        let all = self.time_waits.all();
        let over = |remnant: &&Arc<Remnant>| remnant.target().leads_over(&snapshot, ifindex);
        all.iter().filter(over).filter(|remnant| self.ends_wait(remnant, Counter::TcpAbortOnLink)).count()
    }
}

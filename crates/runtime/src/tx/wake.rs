//! Who comes back: stop and wake of the queue, the transmit softirq, and the watchdog.
//!
//! A memif peer does not say that it has read packets. So the ring is looked at whenever a thread has work for it: by a
//! runner that finds the queue stopped, by a sender without frames, by the poll of the queue's NAPI instance. If none
//! comes, the watchdog does: it looks after [`recheck_after`](napier_core::upkeep::recheck_after), and less and less often while the peer reads nothing.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use napier_core::time::Instant;
use napier_core::tx::queue::QueueBits;
use napier_ring::wake_fence;

use super::run::Rest;
use super::wire::ring;
use super::{Mode, TxHost, TxPath, Wire};
use crate::port::{ToTell, lock_root};
use napier_stack::deferred::{Deferring, Work};
use napier_stack::device::OnRoom;
use napier_sys::clock::Clock;
use napier_sys::nowait::ForOthers;

/// Looks that are left out where others may bring room: 80 us until the first.
const PATIENCE: u32 = 2;

impl TxPath {
    /// Calls `waiter` once when the ring has room. A peer does not say that it has read; so it is looked for.
    #[cold]
    pub(crate) fn await_room(&self, waiter: &Arc<dyn OnRoom>) {
        self.waiters.add(waiter);
        if let Some(host) = self.shared.host.upgrade() {
            self.watch(&*host, self.look_at(Clock.now()));
        }
    }

    /// When to look after those who wait for room. With a discipline other senders' packets mostly bring it, so that a look
    /// of its own is needed where they all wait.
    fn look_at(&self, now: Instant) -> Instant {
        self.watchdog.recheck_at(now, if self.mode() == Mode::Noqueue { 0 } else { PATIENCE })
    }

    /// Lets those who wait for room have it, in their order, while there is any; true if some are left.
    #[cold]
    fn serve_waiters(&self, host: &dyn TxHost) -> bool {
        let netns = host.netns(self.napi_index());
        let _for_others = ForOthers::begin();
        let kicks = Deferring::begin(Work::Kicks);
        let mut looked = false;
        let served = self.waiters.serve(
            || self.look_whether_room(),
            |waiter| {
                let took = waiter.on_room();
                if took {
                    self.watchdog.not_in_vain();
                } else if !std::mem::replace(&mut looked, true) {
                    // Its packets may lie in queues where no thread sends any more. If they have been read, it is told.
                    netns.look_for_credit();
                }
                took
            },
        );
        drop(kicks);
        !served || self.waiters.any()
    }

    /// A sender wants credit: its packets may have been read since the last look.
    #[cold]
    pub(crate) fn look(&self) {
        if self.mode() != Mode::Noqueue {
            let _ = self.complete_and_wake();
        }
    }

    /// A sender wants credit, and its packets may lie here though no thread sends or sleeps here any more.
    #[cold]
    pub(crate) fn look_for_credit(&self) {
        // If a thread has the transmit lock, the next look may find it free.
        let _ = self.complete_and_wake();
    }

    fn look_whether_room(&self) -> bool {
        !self.is_behind()
            && self.try_claim_wire().is_some_and(|mut wire| {
                let now = Clock.now();
                wire.complete(now);
                wire.has_room(now)
            })
    }

    /// The NAPI instance of the queue, and the softirq CPU that takes its interrupts.
    pub(crate) fn bind(&self, index: u32, cpu: u32) {
        self.index.store(index, Ordering::Relaxed);
        self.watchdog.bind(cpu);
    }

    /// A runner finds the queue stopped: the peer may have read meanwhile. No other need be told.
    #[cold]
    pub(super) fn look_for_room(&self, now: Instant) -> ToTell {
        let Some(mut wire) = self.try_claim_wire() else { return ToTell::default() };
        wire.complete(now);
        let _ = self.start_if_room(&mut wire, now);
        wire.queue.take_news()
    }

    /// Completion outside a run: takes back frames, and schedules the queue if that starts it. False if another thread had
    /// the transmit lock.
    pub(super) fn complete_and_wake(&self) -> bool {
        let now = Clock.now();
        let Some(mut wire) = self.try_claim_wire() else { return false };
        wire.complete(now);
        let woken = self.start_if_room(&mut wire, now);
        drop(wire);
        if woken {
            wake_fence();
            if self.schedule() {
                self.come_back(true, None);
            }
        }
        true
    }

    /// Clears the stop bits that have lost their reason; true if the queue is to be scheduled.
    fn start_if_room(&self, wire: &mut Wire, now: Instant) -> bool {
        let mut woken = false;
        let bits = self.words.bits();
        if bits.intersects(QueueBits::DRIVER_OFF) && wire.has_room(now) {
            woken |= self.words.update_bits(QueueBits::wake_driver);
        }
        if bits.intersects(QueueBits::STACK_OFF) && wire.allowance() >= 0 {
            woken |= self.words.update_bits(QueueBits::wake_stack);
        }
        self.publish_allowance(wire);
        if woken {
            self.watchdog.not_in_vain();
        }
        woken
    }

    #[inline]
    pub(super) fn publish_allowance(&self, wire: &Wire) {
        self.bulk_bytes.store(wire.allowance(), Ordering::Relaxed);
        self.limit_bytes.store(wire.limit.as_ref().map(super::ByteLimit::limit_bytes));
    }

    /// `__netif_schedule`: true if the caller is to raise the softirq once it holds no lock.
    pub(crate) fn schedule(&self) -> bool {
        if self.mode() == Mode::Owner {
            return false; // the owner looks again anyhow
        }
        let defer_empty = self.defer.is_empty();
        self.words.update_state(|state| state.schedule(defer_empty))
    }

    /// A run ends though packets wait. Others may have left a list to the runner, which the softirq then takes with the
    /// rest; with the locked variant there is no list, or it has a flusher.
    pub(super) fn schedule_again(&self, locked: bool) -> bool {
        if locked || self.mode() == Mode::Owner {
            return self.schedule();
        }
        self.words.update_state(|state| state.schedule(true))
    }

    /// Does what was left to be done; no lock is held.
    #[inline]
    pub(super) fn settle(&self, rest: Rest<'_>) {
        let Rest { raise, watch, bell, news, .. } = rest;
        if raise || watch.is_some() {
            self.come_back(raise, watch);
        }
        ring(bell);
        self.tell(news);
    }

    /// Tells sockets that they have got room; no lock is held.
    #[inline]
    pub(super) fn tell(&self, news: ToTell) {
        if !news.is_empty() {
            self.shared.senders().charges.tell(news);
        }
    }

    #[cold]
    fn come_back(&self, raise: bool, watch: Option<Instant>) {
        let Some(host) = self.shared.host.upgrade() else { return };
        if let Some(at) = watch
            && self.mode() != Mode::Owner
        {
            self.watch(&*host, at);
        }
        if raise {
            self.raise(&*host);
        }
    }

    /// Those who wait for room are told if there is some.
    pub(crate) fn look_for_senders(&self) {
        let news = self.look_for_room(Clock.now());
        self.tell(news);
    }

    /// Schedules the queue if packets wait: they may have been left by an owner, or by the time before an activation.
    pub(super) fn schedule_if_waiting(&self) {
        let (guarded, _) = lock_root(&self.root.0);
        let waiting = guarded.root.qlen() > 0;
        let mut rest = self.rest();
        self.release(guarded, &mut rest);
        rest.raise |= waiting && self.schedule();
        self.settle(rest);
    }

    /// A look at `at` or before: who found the queue in another state, and is late, must not put the other's look off.
    pub(super) fn watch(&self, host: &dyn TxHost, at: Instant) {
        self.watchdog.arm(at);
        host.watchdog_armed(self.watchdog.cpu(), at);
    }

    /// With the locked variant the caller runs the queue once, as the kernel's senders run the softirq where they enable
    /// bottom halves again; else the CPU's thread does: a sender has sent enough for others by then.
    pub(super) fn raise(&self, host: &dyn TxHost) {
        host.raise_tx(self.napi_index(), self.mode() == Mode::Locked);
    }

    /// `net_tx_action` for one discipline. A softirq thread may be of a class that keeps the holder of the root lock from
    /// going on: it does not wait for it but leaves the run to it.
    pub(crate) fn softirq_run(&self) {
        self.words.update_state(|state| (state.unschedule(), ()));
        let Some(mut guarded) = self.root.0.enter_or_note() else { return };
        guarded.ledger.counts.softirq_runs += 1;
        let mut rest = self.rest();
        let guarded = self.flush_or_run(guarded, &mut rest);
        self.leave(guarded, rest);
    }

    /// When the thread of softirq CPU `cpu` is to look.
    pub(crate) fn watchdog_on(&self, cpu: u32) -> Option<Instant> {
        self.watchdog.due_on(cpu)
    }

    /// Looks if it is time; false if not.
    pub(crate) fn run_watchdog(&self, host: &dyn TxHost, cpu: u32, now: Instant) -> bool {
        let Some(due) = self.watchdog_on(cpu).filter(|due| *due <= now) else { return false };
        if !self.watchdog.take(due) {
            return true;
        }
        if self.words.bits().stopped() {
            let _ = self.complete_and_wake();
            if self.words.bits().stopped() {
                self.watchdog.note_in_vain();
                self.watch(host, self.watchdog.recheck_at(now, 0));
            }
        } else if self.mode() != Mode::Noqueue && self.schedule() {
            self.raise(host);
        }
        let left = self.serve_left();
        if self.waiters.any() && self.serve_waiters(host) || left {
            self.watchdog.note_in_vain();
            self.watch(host, self.look_at(now));
        }
        true
    }

    /// [`napi_polled`](Self::napi_polled) would do something.
    #[inline]
    pub(crate) fn wants_poll(&self) -> bool {
        self.words.bits().stopped() || self.left.any() || self.waiters.any()
    }

    /// The poll of the queue's NAPI instance, where a driver takes back what was sent.
    #[inline]
    pub(crate) fn napi_polled(&self) {
        if self.words.bits().stopped() {
            // The thread that has the transmit lock looks for room itself, or the watchdog does.
            let _ = self.complete_and_wake();
        }
        if self.left.any() {
            // If that was in vain, the watchdog goes on.
            let _ = self.serve_left();
        }
        if self.waiters.any()
            && let Some(host) = self.shared.host.upgrade()
            && self.serve_waiters(&*host)
        {
            self.watch(&*host, self.look_at(Clock.now()));
        }
    }
}

//! A NAPI instance as the engine runs it: the state word that any thread may change by rule, and the
//! data that only the owner of SCHED may touch.

mod config;
pub(crate) mod context;
#[cfg(test)]
pub(crate) mod hold;
mod kthread;
mod moderation;
mod sink;
mod stats;
mod timer;
mod warming;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use napier_core::completion::{Flush, Tunables};
pub(crate) use napier_core::context::PollContext;
use napier_core::control::ThreadedSetting;
use napier_core::state::State;
use napier_core::time::{Instant, Span};
use napier_core::waking::{TOLD_PKTS_MAX, calls_in_midst};
use napier_ring::{Exclusive, StateCell};

use crate::journal::{Event, Rule, RuleAnswer, Tap};
use crate::netdev::Device;
use crate::port::{IrqLine, RxQueue};
use crate::tx::TxPath;
pub(crate) use context::Context;
pub(crate) use kthread::Kthread;
use moderation::Moderation;
use napier_stack::deferred::{self, Work};
use napier_stack::merge::Merging;
use napier_stack::park::Parker;
use napier_sys::clock::Clock;
use napier_sys::nowait::ForOthers;
pub(crate) use sink::RawSink;
use stats::NapiCounters;
pub use stats::NapiStats;
use timer::TimerSlot;
use warming::CacheWarming;

/// What only the owner of SCHED may touch.
pub(crate) struct Owned {
    pub(crate) rx: RxQueue,
    /// Remaining deferrals (`napi_struct.defer_hard_irqs_count`).
    pub(crate) defers_left: u32,
    /// A bound raw port takes every frame of the queue.
    pub(crate) raw: Option<RawSink>,
    /// Packets that wait for others of their flow.
    pub(crate) merging: Merging,
    warming: CacheWarming,
}

/// One NAPI instance.
pub(crate) struct Napi {
    /// Position in the engine's table; also the link index on poll lists.
    pub(crate) index: u32,
    pub(crate) device: Arc<Device>,
    /// The device's queue.
    pub(crate) queue: u16,
    /// 0 until the first enable; kept over disable (persistent config).
    id: AtomicU32,
    pub(crate) state: StateCell,
    /// None unless the engine keeps a journal.
    journal: Option<Tap>,
    pub(crate) owned: Exclusive<Owned>,
    pub(crate) irq: IrqLine,
    /// Softirq CPU that takes the interrupt.
    irq_cpu: AtomicU32,
    defer_hard_irqs: AtomicU32,
    gro_flush_timeout_ns: AtomicU64,
    irq_suspend_timeout_ns: AtomicU64,
    pub(crate) timer: TimerSlot,
    pub(crate) moderation: Moderation,
    threaded: Mutex<ThreadedSetting>,
    /// Processor that the instance's thread is pinned to.
    pub(crate) thread_cpu: Mutex<Option<usize>>,
    pub(crate) kthread: Mutex<Option<Kthread>>,
    /// Wakes the thread that runs the instance.
    pub(crate) thread_parker: Parker,
    /// Wakes a thread that is blocked on the bound raw port.
    pub(crate) raw_parker: Parker,
    pub(crate) counters: NapiCounters,
    /// Polls claim their whole budget, as those of a queue do that is never empty.
    #[cfg(test)]
    pub(crate) never_empty: std::sync::atomic::AtomicBool,
    /// Dry runs that came to a socket.
    #[cfg(test)]
    pub(crate) dry_runs: AtomicU64,
}

impl Napi {
    pub(crate) fn new(
        index: u32,
        (device, queue): (Arc<Device>, u16),
        rx: RxQueue,
        irq: IrqLine,
        irq_cpu: u32,
        epoch: Instant,
        journal: Option<Tap>,
    ) -> Self {
        let coalesce = irq.coalesce();
        Self {
            index,
            device,
            queue,
            id: AtomicU32::new(0),
            state: StateCell::new(State::ADDED.bits()),
            journal,
            owned: Exclusive::new(Owned {
                rx,
                defers_left: 0,
                raw: None,
                merging: Merging::default(),
                warming: CacheWarming::new(),
            }),
            irq,
            irq_cpu: AtomicU32::new(irq_cpu),
            defer_hard_irqs: AtomicU32::new(0),
            gro_flush_timeout_ns: AtomicU64::new(0),
            irq_suspend_timeout_ns: AtomicU64::new(0),
            timer: TimerSlot::new(epoch),
            moderation: Moderation::new(epoch, coalesce),
            threaded: Mutex::new(ThreadedSetting::Disabled),
            thread_cpu: Mutex::new(None),
            kthread: Mutex::new(None),
            thread_parker: Parker::new(),
            raw_parker: Parker::new(),
            counters: NapiCounters::default(),
            #[cfg(test)]
            never_empty: std::sync::atomic::AtomicBool::new(false),
            #[cfg(test)]
            dry_runs: AtomicU64::new(0),
        }
    }

    /// The transmit path of the instance's queue.
    #[inline]
    pub(crate) fn tx_path(&self) -> &TxPath {
        &self.device.tx[usize::from(self.queue)]
    }

    /// Counters of the instance.
    pub(crate) fn stats(&self) -> NapiStats {
        self.counters.snapshot(self.irq.interrupts())
    }

    /// The id in force, 0 before the first enable.
    pub(crate) fn id(&self) -> u32 {
        self.id.load(Ordering::Relaxed)
    }

    pub(crate) fn state(&self) -> State {
        State::from_bits(self.state.load())
    }

    /// Applies a rule to the state word as one compare-and-swap loop; `name` is how the journal calls it.
    #[inline]
    pub(crate) fn transition<R: RuleAnswer>(&self, name: Rule, mut rule: impl FnMut(State) -> (State, R)) -> R {
        let apply = || {
            self.state.update(|bits| {
                let (next, answer) = rule(State::from_bits(bits));
                (next.bits(), answer)
            })
        };
        self.journaled(apply, |answer| Event::Rule { rule: name, word: self.state(), answer: answer.as_bool() })
    }

    /// Applies a rule that may decline; false if it did.
    #[inline]
    pub(crate) fn transition_if(&self, name: Rule, mut rule: impl FnMut(State) -> Option<State>) -> bool {
        self.transition(name, |state| rule(state).map_or((state, false), |next| (next, true)))
    }

    /// Does `act`. If there is a journal, `event` says what to record of it, and nothing else that is journaled happens
    /// before, between or after the two.
    #[inline]
    pub(crate) fn journaled<R, E: Into<Option<Event>>>(
        &self,
        act: impl FnOnce() -> R,
        event: impl FnOnce(&R) -> E,
    ) -> R {
        match &self.journal {
            None => act(),
            Some(tap) => tap.record(|| self.id(), act, event),
        }
    }

    /// Masks the interrupt.
    #[inline]
    pub(crate) fn mask(&self) {
        self.journaled(|| self.irq.mask(), |()| Event::Mask);
    }

    fn journal_poll(&self, cx: Context, context: PollContext, work: u32, budget: u32) {
        let Some(tap) = &self.journal else { return };
        let (context, cpu) = match context {
            PollContext::Softirq if cx.is_ksoftirqd() => (PollContext::Ksoftirqd, tap.cpu(cx.handles())),
            PollContext::Softirq => (context, tap.cpu(cx.handles())),
            _ => (context, tap.cpu(None)),
        };
        self.journaled(|| (), |()| Event::Poll { context, cpu, work, budget });
    }

    pub(crate) fn irq_cpu(&self) -> u32 {
        self.irq_cpu.load(Ordering::Relaxed)
    }

    /// The three tunables as they are now; each is sampled when a rule asks for it.
    #[inline]
    pub(crate) fn tunables(&self) -> Tunables {
        Tunables {
            defer_hard_irqs: self.defer_hard_irqs.load(Ordering::Relaxed),
            gro_flush_timeout: Span { ns: self.gro_flush_timeout_ns.load(Ordering::Relaxed) },
            irq_suspend_timeout: Span { ns: self.irq_suspend_timeout_ns.load(Ordering::Relaxed) },
        }
    }

    /// Whether the end of a busy loop unmasks the interrupt for certain, so that it may be masked while the loop runs.
    #[inline]
    pub(crate) fn masks_for_busy_poller(&self) -> bool {
        self.defer_hard_irqs.load(Ordering::Relaxed) == 0
    }

    /// The driver's poll: moves at most `budget_pkts` frames from the ring to their receivers.
    #[inline]
    pub(crate) fn drive(&self, cx: Context, owned: &mut Owned, budget_pkts: u32, context: PollContext) -> u32 {
        let work;
        let _for_others = ForOthers::begin();
        #[cfg(test)]
        hold::at(hold::Point::Polling);
        owned.rx.poll_begins();
        match &mut owned.raw {
            Some(raw) => {
                raw.collect(owned.rx.frames_home());
                work = owned.rx.take_burst(budget_pkts, |frame, len| raw.push(frame, len));
                if work > 0 {
                    raw.publish();
                    self.raw_parker.wake();
                }
            }
            None => work = self.drive_stack(owned, budget_pkts),
        }
        owned.rx.refill();
        #[cfg(test)]
        let work = if self.never_empty.load(Ordering::Relaxed) { budget_pkts } else { work };
        self.counters.polled(context, work);
        if self.journal.is_some() {
            self.journal_poll(cx, context, work, budget_pkts);
            self.journal_held(owned);
        }
        work
    }

    /// Delivers packets that are held, all or old ones (`napi_gro_flush`).
    #[inline]
    pub(crate) fn flush_held(&self, owned: &mut Owned, which: Flush) {
        if owned.merging.held() {
            self.flush_now(owned, which);
        }
    }

    #[inline(never)]
    fn flush_now(&self, owned: &mut Owned, which: Flush) {
        let _for_others = ForOthers::begin();
        let view = self.device.netns.view();
        let flush = || match view.pass(self.id(), self.device.ifindex) {
            Some(mut pass) => {
                pass.journal(self.journal.as_ref());
                pass.flush(&mut owned.merging, which, Clock.now());
                pass.end();
            }
            // Only a device that is taken away with its engine is in no name space.
            None => drop(owned.merging.drop_all(owned.rx.frames_home().table())),
        };
        if catch_unwind(AssertUnwindSafe(flush)).is_err() {
            self.device.netns.note_fault();
        }
        self.counters.merged(owned.merging.take_joined());
        if self.journal.is_some() {
            self.journal_held(owned);
        }
    }

    fn journal_held(&self, owned: &mut Owned) {
        if let Some(packets) = owned.merging.held_changed() {
            self.journaled(|| (), |()| Event::Held { packets });
        }
    }

    /// What waits is looked at before the sockets are: who is bound before a packet is sent gets the packet, however
    /// long ago this poll began. So a round takes no more than was there at its beginning.
    #[inline]
    fn drive_stack(&self, owned: &mut Owned, budget_pkts: u32) -> u32 {
        let Owned { rx, merging, warming, .. } = owned;
        merging.switch(self.device.merges.load(Ordering::Relaxed));
        let (mut work, mut called_at) = (0, 0);
        loop {
            if calls_in_midst(work, called_at, budget_pkts) {
                deferred::settle(Work::Calls);
                called_at = work;
            }
            let until = work + rx.pending().min(budget_pkts - work).min(TOLD_PKTS_MAX);
            if work == until {
                return work;
            }
            let view = self.device.netns.view();
            let round = || {
                let Some(mut pass) = view.pass(self.id(), self.device.ifindex) else { return false };
                pass.journal(self.journal.as_ref());
                pass.merge_into(&mut *merging);
                while work < until
                    && let Some((frame, len)) = rx.take()
                {
                    if warming.wants_sample() {
                        warming.keep(rx.frames_home().table().data(&frame, len as usize));
                    }
                    // Before it is handled: that may panic, which costs the frame and no more.
                    work += 1;
                    pass.receive(frame, len);
                }
                pass.end();
                true
            };
            // What a panic may leave half done belongs to the frame: the stack's locks do not mind, and the rest of the
            // instance is not touched.
            let here = catch_unwind(AssertUnwindSafe(round)).unwrap_or_else(|_| {
                self.device.netns.note_fault();
                true
            });
            match merging.take_joined() {
                0 => {}
                joined => self.counters.merged(joined),
            }
            // Less than promised: packets were dropped, and there may be no end of them.
            if !here || work < until {
                return work;
            }
        }
    }
}

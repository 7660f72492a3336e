//! Interrupt coalescing of an instance, where the line itself holds nothing back.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use napier_core::moderation::{ADAPTIVE_HOLD, Coalesce};
use napier_core::time::{Instant, Span};
use napier_ring::{AfterPoll, IrqHold};

/// Set beside `rx-usecs` where the instance decides by itself.
const ADAPTIVE: u64 = 1 << 32;

/// How much later than an adaptive hold ends the timer looks whether a program has looked: then it is four times as long.
const TIMER_AFTER: Span = Span::from_us(192);

/// How long after an interrupt the next one is held back: the line stays masked so long after the poll.
pub(crate) struct Moderation {
    /// `rx-usecs` and [`ADAPTIVE`]; 0: nothing is held back here.
    rule: AtomicU64,
    hold: IrqHold,
    /// The last interrupt, in ns since the epoch.
    last_ns: AtomicU64,
    epoch: Instant,
    /// What was set, for those that ask.
    set: Mutex<Coalesce>,
}

impl Moderation {
    pub(super) fn new(epoch: Instant, coalesce: Coalesce) -> Self {
        Self {
            rule: AtomicU64::new(0),
            hold: IrqHold::new(),
            last_ns: AtomicU64::new(0),
            epoch,
            set: Mutex::new(coalesce),
        }
    }

    /// Whether interrupts may be held back here.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        // Relaxed: settings count from some interrupt on.
        self.rule.load(Ordering::Relaxed) != 0
    }

    /// Changes what was set; `here`: it is carried out here, else by the line.
    pub(crate) fn set(&self, coalesce: Coalesce, here: bool) {
        let adaptive = if coalesce.use_adaptive_rx() { ADAPTIVE } else { 0 };
        let rule = if here { adaptive | u64::from(coalesce.rx_usecs()) } else { 0 };
        *self.set.lock().unwrap_or_else(PoisonError::into_inner) = coalesce;
        self.rule.store(rule, Ordering::Relaxed);
    }

    /// What was set last.
    pub(crate) fn coalesce(&self) -> Coalesce {
        *self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An interrupt was taken by the caller, who owns the instance. The next one is held back until then, for which `cpu` is
    /// told, or is not.
    #[inline]
    pub(crate) fn interrupted(&self, now: Instant, cpu: u32) -> Option<Instant> {
        let rule = self.rule.load(Ordering::Relaxed);
        let now_ns = (now - self.epoch).ns;
        // Relaxed: of owners only.
        let gap = Span { ns: now_ns.saturating_sub(self.last_ns.load(Ordering::Relaxed)) };
        self.last_ns.store(now_ns, Ordering::Relaxed);
        let coalesce =
            if rule & ADAPTIVE != 0 { Coalesce::adaptive() } else { Coalesce::new(rule as u32, 0).unwrap_or_default() };
        let span = coalesce.hold(gap)?;
        self.hold.begin(now_ns.saturating_add(span.ns), cpu);
        Some(now + span)
    }

    /// Packets waited for the end of a hold: the interrupt that follows is not a rare one.
    pub(crate) fn was_waited_for(&self, now: Instant) {
        self.last_ns.store((now - self.epoch).ns, Ordering::Relaxed);
    }

    /// Whether nothing is held back, and nothing will be before the next interrupt.
    #[inline]
    pub(crate) fn is_free(&self) -> bool {
        self.hold.is_free()
    }

    /// The caller has given the instance up and would unmask. `Some`: the line stays masked, and the timer of this softirq
    /// CPU ends that at this time.
    #[inline]
    pub(crate) fn close(&self, now: Instant) -> Option<(u32, Instant)> {
        match self.hold.close((now - self.epoch).ns) {
            AfterPoll::Unmask => None,
            AfterPoll::Held { cpu, until_ns } => Some((cpu, self.timer_at(self.instant(until_ns)))),
        }
    }

    /// Holds nothing back any more; true: the caller unmasks.
    #[must_use = "true means that the caller has to unmask"]
    pub(crate) fn end(&self) -> bool {
        self.hold.end()
    }

    /// As [`end`](Self::end), if the line is `cpu`'s.
    #[must_use = "true means that the caller has to unmask"]
    pub(crate) fn end_on(&self, cpu: u32) -> bool {
        self.hold.is_on(cpu) && self.hold.end()
    }

    /// As [`end_on`](Self::end_on), if the time has come.
    #[must_use = "true means that the caller has to unmask"]
    pub(crate) fn take_due(&self, cpu: u32, now: Instant) -> bool {
        self.hold.take_due(cpu, (now - self.epoch).ns)
    }

    /// An adaptive hold of `cpu` whose time has come goes on: a program works, and nothing waits.
    pub(crate) fn extend(&self, cpu: u32, now: Instant) -> bool {
        let adaptive = self.rule.load(Ordering::Relaxed) & ADAPTIVE != 0;
        adaptive && self.hold.extend(cpu, (now - self.epoch).ns, (now + ADAPTIVE_HOLD - self.epoch).ns)
    }

    /// How long it is held back, if `cpu` ends that, or will.
    pub(crate) fn until_on(&self, cpu: u32) -> Option<Instant> {
        self.hold.is_on(cpu).then(|| self.instant(self.hold.until_ns()))
    }

    /// When the timer of `cpu` has to end it.
    pub(crate) fn timer_on(&self, cpu: u32) -> Option<Instant> {
        self.hold.until_on(cpu).map(|ns| self.timer_at(self.instant(ns)))
    }

    /// A program that receives ends what is due, so an adaptive line does without a kernel timer for each hold.
    fn timer_at(&self, until: Instant) -> Instant {
        let adaptive = self.rule.load(Ordering::Relaxed) & ADAPTIVE != 0;
        if adaptive { until + TIMER_AFTER } else { until }
    }

    fn instant(&self, since_epoch_ns: u64) -> Instant {
        Instant { ns: self.epoch.ns + since_epoch_ns }
    }
}

//! The account of the memory that connections' buffers have, by the rules of [`napier_core::tcp::memory`].
//!
//! A buffer asks before it takes memory and says what it gives back, so that the sum is exact at any time; one that neither grows nor shrinks
//! does not look here. Where memory is short the thread of the timers goes over all connections, 200 ms after the last time at the earliest: what
//! idle ones keep for the next request goes back (`Note::Memory`).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use napier_core::tcp::memory::{Grant, LEAST, MemoryAsk, MemoryLimits, Pressure};
use napier_core::time::{Instant, Span};
use napier_sys::clock::Clock;

use crate::counters::{Counter, Counters};
use crate::wait::park::Parker;

/// Between two times that all connections are asked to give back what they do not use. Source: `net/core/stream.c sk_stream_wait_memory`: a
/// sender there waits as long at most.
const SWEEP_AFTER: Span = Span { ns: 200_000_000 };

/// What memory is for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// Bytes that a program has written.
    Send,
    /// Bytes that a program reads next.
    Receive,
    /// Bytes behind a hole.
    OutOfOrder,
}

/// The account of one name space.
pub(super) struct MemoryAccount {
    // Three words, for one of them is read at a time: between two settings a wish may be judged by parts of both.
    low: AtomicU64,
    pressure: AtomicU64,
    max: AtomicU64,
    /// Bytes that all buffers have.
    all: AtomicU64,
    /// Buffers that have any.
    holders: AtomicU64,
    pressed: AtomicBool,
    /// Since when, in ns.
    pressed_at: AtomicU64,
    swept_at: AtomicU64,
    /// All connections are to give back what they do not use.
    sweep: AtomicBool,
    /// Wakes the thread that asks them.
    sweeper: Arc<Parker>,
    counters: Arc<Counters>,
}

impl MemoryAccount {
    /// An account of nothing. `sweeper`: where the thread sleeps that looks at [`wants_sweep`](Self::wants_sweep).
    pub(super) fn new(limits: MemoryLimits, sweeper: Arc<Parker>, counters: Arc<Counters>) -> Arc<Self> {
        Arc::new(Self {
            low: AtomicU64::new(limits.low()),
            pressure: AtomicU64::new(limits.pressure()),
            max: AtomicU64::new(limits.max()),
            all: AtomicU64::new(0),
            holders: AtomicU64::new(0),
            pressed: AtomicBool::new(false),
            pressed_at: AtomicU64::new(0),
            swept_at: AtomicU64::new(0),
            sweep: AtomicBool::new(false),
            sweeper,
            counters,
        })
    }

    /// Other thresholds, from the next wish on.
    pub(super) fn set_limits(&self, limits: MemoryLimits) {
        self.low.store(limits.low(), Ordering::Relaxed);
        self.pressure.store(limits.pressure(), Ordering::Relaxed);
        self.max.store(limits.max(), Ordering::Relaxed);
        let all = self.all();
        let calmer = limits.given_back(self.state(), all);
        self.becomes(if all > limits.pressure() { Pressure::Pressed } else { calmer });
    }

    fn limits(&self) -> MemoryLimits {
        let word = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let (low, pressure, max) = (word(&self.low), word(&self.pressure), word(&self.max));
        // Parts of two settings may fall.
        MemoryLimits::new(low, pressure.max(low), max.max(pressure).max(low)).expect("made not to fall")
    }

    // Relaxed, here and below: a limit, not a hand-over. The sum is exact because each adds and takes off what is its own.

    fn all(&self) -> u64 {
        self.all.load(Ordering::Relaxed)
    }

    fn state(&self) -> Pressure {
        if self.pressed.load(Ordering::Relaxed) { Pressure::Pressed } else { Pressure::Calm }
    }

    /// Windows and buffers may grow. Of two threads that change the sum at one time the later may have said last what was before: so this looks
    /// again where it is pressed.
    pub(super) fn is_calm(&self) -> bool {
        if self.state() == Pressure::Pressed {
            self.becomes(self.limits().given_back(Pressure::Pressed, self.all()));
        }
        self.state() == Pressure::Calm
    }

    /// All have more than they are to have at most.
    pub(super) fn is_exhausted(&self) -> bool {
        self.all() > self.max.load(Ordering::Relaxed)
    }

    /// A buffer with `have` bytes asks for `want` in all, which is more. Whether it has them now.
    #[cold]
    fn ask(&self, what: Use, have: usize, want: usize, forced: bool) -> bool {
        let more = (want - have) as u64;
        let all = self.all.fetch_add(more, Ordering::Relaxed) + more;
        let holders = if have == 0 {
            self.holders.fetch_add(1, Ordering::Relaxed) + 1
        } else {
            self.holders.load(Ordering::Relaxed)
        };
        let (state, grant) = self.limits().ask(self.state(), &MemoryAsk { all, holders, own: want as u64, forced });
        self.becomes(state);
        if grant == Grant::Given {
            self.counters.add(Counter::TcpMem, more);
            return true;
        }
        self.take_off(more, have == 0);
        self.counters.count(match what {
            Use::Send => Counter::TcpSendMemWaits,
            Use::Receive => Counter::TcpRcvQDrop,
            Use::OutOfOrder => Counter::TcpOfoDrop,
        });
        self.ask_for_sweep();
        false
    }

    /// A buffer with `have` bytes has `left` from now on.
    #[cold]
    fn give_back(&self, have: usize, left: usize) {
        let less = (have - left) as u64;
        self.counters.take_off(Counter::TcpMem, less);
        self.take_off(less, left == 0);
    }

    fn take_off(&self, less: u64, holds_none: bool) {
        if holds_none {
            self.holders.fetch_sub(1, Ordering::Relaxed);
        }
        let all = self.all.fetch_sub(less, Ordering::Relaxed) - less;
        if self.state() == Pressure::Pressed {
            self.becomes(self.limits().given_back(Pressure::Pressed, all));
        }
    }

    fn becomes(&self, state: Pressure) {
        if state == self.state() {
            return;
        }
        let (pressed, now) = (state == Pressure::Pressed, Clock.now());
        if pressed {
            // Before it shows: the thread that ends it reads this.
            self.pressed_at.store(now.ns, Ordering::Relaxed);
        }
        // AcqRel: with itself, by which the thread that ends it sees since when it was.
        if self.pressed.swap(pressed, Ordering::AcqRel) == pressed {
            return; // another thread has seen the same
        }
        if pressed {
            self.counters.count(Counter::TcpMemoryPressures);
            self.ask_for_sweep();
        } else {
            let lasted = now - Instant { ns: self.pressed_at.load(Ordering::Relaxed) };
            self.counters.add(Counter::TcpMemoryPressuresChrono, lasted.ns / 1_000_000);
        }
    }

    fn ask_for_sweep(&self) {
        let swept = Instant { ns: self.swept_at.load(Ordering::Relaxed) };
        if self.sweep.load(Ordering::Relaxed) || Clock.now() - swept < SWEEP_AFTER {
            return;
        }
        // Release: pairs with the Acquire in `wants_sweep`.
        self.sweep.store(true, Ordering::Release);
        self.sweeper.wake();
    }

    /// All connections are to give back what they do not use.
    pub(super) fn wants_sweep(&self) -> bool {
        self.sweep.load(Ordering::Acquire)
    }

    /// The same, to be done now; it is not asked for twice within 200 ms.
    pub(super) fn takes_sweep(&self, now: Instant) -> bool {
        if !self.wants_sweep() {
            return false;
        }
        self.swept_at.store(now.ns, Ordering::Relaxed);
        self.sweep.store(false, Ordering::Relaxed);
        true
    }

    /// An orphan with so many bytes that its peer has not acknowledged is given up for others. Source: `net/ipv4/tcp.c tcp_out_of_memory`.
    pub(super) fn is_too_much_for_an_orphan(&self, unacknowledged: usize) -> bool {
        unacknowledged as u64 > LEAST && self.is_exhausted()
    }
}

/// Whom a buffer asks; none: it has what it wants.
#[derive(Clone, Default)]
pub(super) struct Lender(Option<Arc<MemoryAccount>>);

impl Lender {
    pub(super) fn of(account: &Arc<MemoryAccount>) -> Self {
        Self(Some(account.clone()))
    }

    /// A buffer with `have` bytes asks for `want` in all, which is more.
    #[cold]
    pub(super) fn lends(&self, what: Use, have: usize, want: usize, forced: bool) -> bool {
        self.0.as_ref().is_none_or(|account| account.ask(what, have, want, forced))
    }

    /// A buffer with `have` bytes has `left` from now on.
    #[cold]
    pub(super) fn gets_back(&self, have: usize, left: usize) {
        if let Some(account) = self.0.as_ref().filter(|_| have > left) {
            account.give_back(have, left);
        }
    }

    /// Windows and buffers may grow.
    #[cold]
    pub(super) fn is_calm(&self) -> bool {
        self.0.as_ref().is_none_or(|account| account.is_calm())
    }
}

#[cfg(test)]
impl MemoryAccount {
    /// An account for tests, of three times the same threshold.
    pub(super) fn of(bytes: u64) -> Arc<Self> {
        let limits = MemoryLimits::new(bytes, bytes, bytes).expect("they do not fall");
        Self::new(limits, Arc::default(), Arc::new(Counters::new()))
    }

    /// No thread but the test's has the connections in hand.
    pub(super) fn never_sweeps(&self) {
        self.swept_at.store(u64::MAX, Ordering::Relaxed);
    }

    /// Bytes that all have, buffers that have any, and the bytes that are shown.
    pub(super) fn sums(&self) -> (u64, u64, u64) {
        (self.all(), self.holders.load(Ordering::Relaxed), self.counters.snapshot().tcp_mem)
    }
}

impl fmt::Debug for Lender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Lender" } else { "no lender" })
    }
}

#[cfg(test)]
mod tests {
    use napier_rng::{below, stream};

    use super::*;

    #[test]
    fn the_sum_is_exact_whoever_asks() {
        let account = MemoryAccount::of(60_000);
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let lender = Lender::of(&account);
                scope.spawn(move || {
                    let mut rng = stream(thread, "memory");
                    let mut have = [0_usize; 5];
                    for _ in 0..5000 {
                        let buffer = below(&mut rng, 5) as usize;
                        let (want, forced) = (below(&mut rng, 20_000) as usize, below(&mut rng, 4) == 0);
                        if want <= have[buffer] {
                            lender.gets_back(have[buffer], want);
                            have[buffer] = want;
                        } else if lender.lends(Use::Send, have[buffer], want, forced) {
                            have[buffer] = want;
                        }
                    }
                    have.iter().for_each(|bytes| lender.gets_back(*bytes, 0));
                });
            }
        });
        assert_eq!(account.sums(), (0, 0, 0));
        assert!(account.is_calm());
        let counters = account.counters.snapshot();
        assert!(counters.tcp_ext_tcp_memory_pressures > 0 && counters.tcp_send_mem_waits > 0);
    }

    #[test]
    fn a_sweep_is_asked_for_once_in_a_while() {
        let account = MemoryAccount::of(0);
        let lender = Lender::of(&account);
        let refused = || assert!(!lender.lends(Use::Receive, 0, 1, false));
        assert!(!account.wants_sweep());
        refused();
        assert!(account.wants_sweep());
        let now = Clock.now() + Span::from_secs(3600);
        assert!(account.takes_sweep(now) && !account.takes_sweep(now));
        // The clock is an hour before that.
        refused();
        assert!(!account.wants_sweep());
        account.swept_at.store(0, Ordering::Relaxed);
        refused();
        assert!(account.wants_sweep());
        assert_eq!(account.sums(), (0, 0, 0));
    }

    #[test]
    fn other_thresholds_act_at_once() {
        let account = MemoryAccount::of(10_000);
        assert!(Lender::of(&account).lends(Use::Send, 0, 8000, false) && account.is_calm());
        account.set_limits(MemoryLimits::new(1, 2, 3).expect("they do not fall"));
        assert!(!account.is_calm() && account.is_exhausted());
        assert!(account.is_too_much_for_an_orphan(4097) && !account.is_too_much_for_an_orphan(4096));
        account.set_limits(MemoryLimits::new(8001, 9000, 9000).expect("they do not fall"));
        assert!(account.is_calm() && !account.is_exhausted());
    }
}

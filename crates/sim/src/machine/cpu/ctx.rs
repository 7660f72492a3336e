//! A context that executes: a CPU's interrupt or softirq level, or a thread; what the scheduler knows of it, and what it asks for.

use std::cell::Cell;
use std::rc::Rc;

use napier_core::time::{Deadline, Instant};

use napier_scenario::Policy;

/// What a context asks of the machine.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum CtxRequest {
    /// Go on after so many nanoseconds of CPU time.
    Spend(u64),
    /// Sleep until woken, or until the deadline.
    Block(Deadline),
    /// The level has nothing to do.
    Park,
    /// Another thread may run first, if one should.
    Resched,
}

/// Which level a context runs at.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Level {
    Hard,
    Soft,
    Task,
}

/// What a thread is doing.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum RunState {
    /// On the CPU or in its queue, or not a thread.
    Ready,
    /// Asleep.
    Blocked,
    /// Woken, not there yet.
    Waking,
}

/// What the machine knows of a context.
pub(crate) struct Ctx {
    /// Where it is; what runs there knows it too.
    pub(crate) cpu: Rc<Cell<usize>>,
    pub(crate) policy: Policy,
    pub(crate) run: RunState,
    pub(crate) remaining: u64,
    pub(crate) vruntime: u64,
    pub(crate) bh_off: u32,
    pub(crate) preempt_off: u32,
    pub(crate) wake_gen: u32,
    pub(crate) frozen_until: Instant,
    /// The scheduler puts it where there is room.
    pub(crate) moves: bool,
    /// When it last gave its CPU away.
    pub(crate) ran_at: Instant,
    /// The CPU that woke it, if one did.
    pub(crate) waker: Option<usize>,
}

impl Ctx {
    pub(crate) fn new(cpu: usize, policy: Policy) -> Self {
        Self {
            cpu: Rc::new(Cell::new(cpu)),
            policy,
            run: RunState::Ready,
            remaining: 0,
            vruntime: 0,
            bh_off: 0,
            preempt_off: 0,
            wake_gen: 0,
            frozen_until: Instant::ZERO,
            moves: false,
            ran_at: Instant::ZERO,
            waker: None,
        }
    }
}

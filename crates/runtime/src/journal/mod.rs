//! The journal: what the rules decided for each instance, in the order in which it took effect.
//!
//! Switched on by [`EngineBuilder::journal`](crate::engine::EngineBuilder::journal) and read by
//! [`Engine::journal`](crate::engine::Engine::journal). Each record holds a rule's inputs and its answer, so that the run can be
//! replayed through `napier_core` and must come to the same words, answers and counters; and it says who polled,
//! which timers ran and when interrupts were masked, so that it serves as a log of events.
//!
//! # What it costs
//! A journaling engine is serialised: one lock is held around each change and its record, and each record reads the
//! clock. That is what makes the order certain, and what makes such a run no measure of speed. An engine without a
//! journal tests one pointer that is always null.
//!
//! # What it leaves out
//! An attempt that is refused again while the word of its instance is the same is recorded once: a busy poller or a
//! disable that waits asks as fast as it can. Of frames it is recorded how many came to which socket, not which.

mod recorder;

use std::net::SocketAddr;

use napier_core::busy::{AfterStopPoll, BusyStop};
use napier_core::completion::{Completed, Completion, Tunables};
use napier_core::context::PollContext;
use napier_core::poll::AfterPoll;
use napier_core::state::{State, Threaded};
use napier_core::time::{Instant, Span};

pub(crate) use recorder::{Recorder, RuleAnswer, Tap};

/// What was recorded so far.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Journal {
    /// The records, from the start of the engine.
    pub records: Vec<Record>,
    /// Records that came later and found no room. The run can be replayed up to there.
    pub lost: u64,
}

/// One thing that happened to one instance.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// When, by the engine's clock; never earlier than the record before.
    pub at: Instant,
    /// The instance, numbered in the order of adding; unlike the id it is there from the beginning.
    pub napi: u32,
    /// Its id, 0 before it was first enabled.
    pub napi_id: u32,
    /// Its device.
    pub ifindex: u32,
    /// Its receive queue.
    pub queue: u16,
    /// The thread that did it, numbered in the order of first records of the process.
    pub thread: u32,
    /// What.
    pub event: Event,
}

/// What happened.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The instance was added, disabled, with no deferral left.
    Added {
        /// Its state word.
        word: State,
    },
    /// A rule was applied to the state word.
    Rule {
        /// Which.
        rule: Rule,
        /// The word afterwards.
        word: State,
        /// What the rule answered; true if it answers nothing.
        answer: bool,
    },
    /// The owner handed the instance to this poller.
    Scheduled {
        /// Who polls it next.
        target: Target,
    },
    /// The driver's poll was called and took `work` packets.
    Poll {
        /// Who polled.
        context: PollContext,
        /// The processor that the poller counts as being on: that of the softirq CPU, else where its thread ran.
        cpu: usize,
        /// Packets.
        work: u32,
        /// Most packets.
        budget: u32,
    },
    /// [`napier_core::poll::after_poll`], asked after a full poll outside busy loops.
    AfterPoll {
        /// Packets of the poll.
        work: u32,
        /// Most packets of a poll.
        weight: u32,
        /// Ticks per second.
        hz: u32,
        /// What it decided.
        decision: AfterPoll,
    },
    /// [`napier_core::completion::complete`].
    Complete {
        /// Packets of the poll.
        work: u32,
        /// Whether packets were held for being merged.
        held: bool,
        /// The settings in force.
        tunables: Tunables,
        /// What it decided.
        decision: Completion,
        /// Deferrals left afterwards.
        defers_left: u32,
    },
    /// [`napier_core::completion::Release::finish`], the end of a completion that was not refused.
    Completed {
        /// Whether the release found `MISSED`.
        missed: bool,
        /// What it decided.
        decision: Completed,
    },
    /// [`napier_core::busy::busy_poll_stop`].
    BusyStop {
        /// Whether the poller prefers busy polling.
        prefer: bool,
        /// The settings in force.
        tunables: Tunables,
        /// What it decided.
        decision: BusyStop,
        /// Deferrals left afterwards.
        defers_left: u32,
    },
    /// [`napier_core::busy::after_stop_poll`].
    AfterStopPoll {
        /// Packets of the poll.
        work: u32,
        /// Most packets.
        budget: u16,
        /// What it decided.
        decision: AfterStopPoll,
    },
    /// [`napier_core::event::suspend`], when a wait returned events.
    Suspend {
        /// The settings in force.
        tunables: Tunables,
        /// What it decided: the time for the timer.
        arm: Option<Span>,
    },
    /// [`napier_core::event::resume`], when a wait found nothing or its context went.
    Resume {
        /// The settings in force.
        tunables: Tunables,
        /// What it decided: whether to schedule.
        schedule: bool,
    },
    /// The timer was armed; an earlier expiry is replaced.
    TimerStart {
        /// For how long.
        span: Span,
        /// Its expiry.
        due: Instant,
        /// The processor whose softirq thread will run it.
        cpu: usize,
    },
    /// It expired and its callback runs.
    TimerFire {
        /// Its expiry.
        due: Instant,
        /// The processor whose softirq thread runs it.
        cpu: usize,
    },
    /// It was armed and is no longer.
    TimerCancel,
    /// The interrupt was masked.
    Mask,
    /// The interrupt was unmasked.
    Unmask {
        /// Packets had come before: an interrupt is taken at once.
        waiting: bool,
    },
    /// Packets of the poll under way came to a socket's queue; the socket is about to be told.
    Deliver {
        /// The address that the socket is bound to.
        to: SocketAddr,
        /// How many.
        packets: u32,
    },
    /// How many packets of the wire the instance holds for merging; recorded when that changed.
    Held {
        /// Packets.
        packets: u32,
    },
    /// The instance's own thread was started.
    KthreadStart,
    /// It has ended.
    KthreadStop,
}

/// A rule on the state word: the function of [`napier_core::state::State`] with the same name.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Rule {
    /// An interrupt or a resume asks for the instance. RuleAnswer: it got the ownership.
    SchedulePrep,
    /// The owner asks who polls. RuleAnswer: the instance's thread, or the pool; [`Event::Scheduled`] says which.
    Schedule,
    /// The timer's callback. RuleAnswer: it got the ownership.
    TimerAcquire,
    /// A busy poller's attempt. RuleAnswer: it got the ownership.
    BusyAcquire,
    /// A prefer-busy poller lost such an attempt.
    BusyContended,
    /// A busy poller begins to stop.
    BusyStopBegin,
    /// A busy poller that keeps its pledge lets go.
    BusyStopRelease,
    /// A completion lets go. RuleAnswer: an event was missed, and the instance is still owned.
    CompleteRelease,
    /// The thread, or a worker of the pool, begins a turn. RuleAnswer: it busy polls.
    ThreadTurn,
    /// A thread, or a worker, that has to poll again finds its mode gone. RuleAnswer: so it is, and it hands the instance over.
    ThreadLeave,
    /// A disable begins.
    DisableBegin,
    /// It asks whether the instance has no owner. RuleAnswer: so it is, and the disable owns it now.
    DisableClaim,
    /// It ends.
    DisableEnd,
    /// The instance is enabled with this mode.
    Enable(Threaded),
    /// The mode is set, unless the instance is disabled: then nothing changes.
    SetThreaded(Threaded),
    /// Between two modes: whether the pool acts for the thread from now on.
    RunByPool(bool),
}

/// Who gets a scheduled instance.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Target {
    /// The poll list of the softirq CPU on this processor.
    Softirq {
        /// The processor.
        cpu: usize,
    },
    /// The instance's own thread.
    Kthread,
    /// The worker pool.
    Workqueue,
}

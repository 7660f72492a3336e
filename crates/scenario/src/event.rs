//! What is seen when a scenario runs.

use napier_core::context::PollContext;
use napier_core::control::Errno;
use napier_core::time::{Instant, Span};

use super::{CpuIx, GroupEvent, NapiIx, SocketIx, ThreadIx, TxEvent};

/// Where a packet got lost.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum DropReason {
    /// The ring was full.
    RingFull,
    /// The device was down.
    DeviceDown,
    /// The queue does not exist at present.
    NoQueue,
    /// The socket's queue was full.
    SocketFull,
    /// No socket receives it.
    NoSocket,
    /// It waited in a ring or for merging when its instance went down or was deleted.
    Disabled,
}

/// One thing that happened.
#[derive(Clone, PartialEq, Debug)]
#[expect(
    missing_docs,
    reason = "the fields are named for what they hold; the variants say more where that needs saying"
)]
pub enum Event {
    /// The driver's poll was called and took `work` packets.
    Poll { napi: NapiIx, context: PollContext, cpu: CpuIx, work: u32, budget: u32 },
    /// The instance's timer was armed; any earlier expiry is replaced.
    TimerStart { napi: NapiIx, after: Span, cpu: CpuIx },
    /// It expired.
    TimerFire { napi: NapiIx, cpu: CpuIx },
    /// It was armed and was cancelled.
    TimerCancel { napi: NapiIx },
    /// The device's interrupt was masked.
    Mask { napi: NapiIx },
    /// It was unmasked.
    Unmask { napi: NapiIx },
    /// A completion; `unmask` is what it returned.
    Complete { napi: NapiIx, unmask: bool },
    /// An attempt to schedule; `took`: it got the ownership.
    Schedule { napi: NapiIx, took: bool },
    /// A list went up the stack.
    List { napi: NapiIx, packets: u32 },
    /// Packets came to a socket's queue.
    Deliver { socket: SocketIx, packets: u32 },
    /// Packets were lost, and counted.
    Drop { napi: NapiIx, why: DropReason, packets: u32 },
    /// A call returned. `ready`: sockets that a wait found ready.
    Return { thread: ThreadIx, call: &'static str, answer: Answer, ready: Vec<SocketIx> },
    /// A thread went to sleep in a call.
    Sleep { thread: ThreadIx },
    /// The receive softirq was raised on a CPU.
    Raise { cpu: CpuIx },
    /// A receive run ended by budget or time.
    Squeeze { cpu: CpuIx },
    /// One receive run ended; what is on the CPU's list now.
    RunEnd { cpu: CpuIx, left: Vec<NapiIx> },
    /// The softirq core left the rest to ksoftirqd.
    Ksoftirqd { cpu: CpuIx },
    /// A NAPI thread was created.
    KthreadStart { napi: NapiIx },
    /// A NAPI thread ended.
    KthreadStop { napi: NapiIx },
    /// A step `check` failed; both sides as text.
    CheckFailed { line: u32, expected: String, seen: String },
    /// Something on the transmit side.
    Tx(TxEvent),
    /// Something about a group.
    Group(GroupEvent),
}

/// Kinds of events, as files name them.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
#[expect(missing_docs, reason = "each is the variant of Event, TxEvent or GroupEvent of the same name")]
pub enum Kind {
    Poll,
    TimerStart,
    TimerFire,
    TimerCancel,
    Mask,
    Unmask,
    Complete,
    Schedule,
    List,
    Deliver,
    Drop,
    Return,
    Sleep,
    Raise,
    Squeeze,
    RunEnd,
    Ksoftirqd,
    KthreadStart,
    KthreadStop,
    CheckFailed,
    Xmit,
    Push,
    Flush,
    TxRun,
    TxRunEnd,
    Transmit,
    Requeue,
    TxSchedule,
    TxDrop,
    TxStop,
    TxWake,
    TxComplete,
    WatchdogStart,
    WatchdogFire,
    GroupPark,
    GroupWake,
    GroupMove,
}

/// What a call returned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// A number; 0 is success.
    Number(i64),
    /// An error.
    Error(Errno),
    /// A text, as a file reads.
    Text(String),
    /// Names, in order.
    Names(Vec<String>),
    /// Attributes and values.
    Attributes(Vec<(String, String)>),
}

impl From<Result<(), Errno>> for Answer {
    fn from(result: Result<(), Errno>) -> Self {
        match result {
            Ok(()) => Self::Number(0),
            Err(errno) => Self::Error(errno),
        }
    }
}

/// An event and its time.
#[derive(Clone, PartialEq, Debug)]
pub struct Seen {
    /// Since the start of the timeline.
    pub at: Instant,
    /// What.
    pub event: Event,
}

impl Event {
    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Poll { .. } => Kind::Poll,
            Self::TimerStart { .. } => Kind::TimerStart,
            Self::TimerFire { .. } => Kind::TimerFire,
            Self::TimerCancel { .. } => Kind::TimerCancel,
            Self::Mask { .. } => Kind::Mask,
            Self::Unmask { .. } => Kind::Unmask,
            Self::Complete { .. } => Kind::Complete,
            Self::Schedule { .. } => Kind::Schedule,
            Self::List { .. } => Kind::List,
            Self::Deliver { .. } => Kind::Deliver,
            Self::Drop { .. } => Kind::Drop,
            Self::Return { .. } => Kind::Return,
            Self::Sleep { .. } => Kind::Sleep,
            Self::Raise { .. } => Kind::Raise,
            Self::Squeeze { .. } => Kind::Squeeze,
            Self::RunEnd { .. } => Kind::RunEnd,
            Self::Ksoftirqd { .. } => Kind::Ksoftirqd,
            Self::KthreadStart { .. } => Kind::KthreadStart,
            Self::KthreadStop { .. } => Kind::KthreadStop,
            Self::CheckFailed { .. } => Kind::CheckFailed,
            Self::Tx(event) => event.kind(),
            Self::Group(event) => event.kind(),
        }
    }
}

impl GroupEvent {
    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Park { .. } => Kind::GroupPark,
            Self::Wake { .. } => Kind::GroupWake,
            Self::Move { .. } => Kind::GroupMove,
        }
    }
}

impl TxEvent {
    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Xmit { .. } => Kind::Xmit,
            Self::Push { .. } => Kind::Push,
            Self::Flush { .. } => Kind::Flush,
            Self::Run { .. } => Kind::TxRun,
            Self::RunEnd { .. } => Kind::TxRunEnd,
            Self::Transmit { .. } => Kind::Transmit,
            Self::Requeue { .. } => Kind::Requeue,
            Self::Schedule { .. } => Kind::TxSchedule,
            Self::Drop { .. } => Kind::TxDrop,
            Self::Stop { .. } => Kind::TxStop,
            Self::Wake { .. } => Kind::TxWake,
            Self::Complete { .. } => Kind::TxComplete,
            Self::WatchdogStart { .. } => Kind::WatchdogStart,
            Self::WatchdogFire { .. } => Kind::WatchdogFire,
        }
    }
}

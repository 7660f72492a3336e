//! The transmit side of a scenario: queues, disciplines, what is sent, what is looked at.

use napier_core::time::{Instant, Span};
use napier_core::tx::bql::{LIMIT_BYTES_MAX, SLACK_HOLD};
use napier_core::tx::flush::FlushPlan;
use napier_core::tx::qdisc::{FqConfig, TX_QUEUE_LEN};
use napier_core::tx::queue::QueueBits;
use napier_core::tx::run::RunStop;
use napier_core::tx::state::QdiscState;
use napier_core::tx::{DropReason, XmitCode};

use super::{CpuIx, PollContext, SocketIx, ThreadIx};

/// A transmit queue: position in the list of all devices' transmit queues, device by device.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TxqIx(pub u16);

/// A queueing discipline: position in the list of all devices' disciplines, device by device.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct QdiscIx(pub u16);

impl TxqIx {
    /// As a position.
    #[must_use]
    pub const fn at(self) -> usize {
        self.0 as usize
    }
}

impl QdiscIx {
    /// As a position.
    #[must_use]
    pub const fn at(self) -> usize {
        self.0 as usize
    }
}

/// How a device transmits.
#[derive(Clone, PartialEq, Debug)]
pub struct Transmit {
    /// What packets wait in.
    pub qdisc: QdiscSpec,
    /// Transmit queues, at least 1; queue `q` completes in the instance of receive queue `q` modulo those in use.
    pub queues: u16,
    /// Each transmit queue has a discipline of its own, as below `mq`; otherwise one serves all. Default true.
    pub one_each: bool,
    /// Packets that a queue's ring holds. Default 256.
    pub ring: u32,
    /// Byte limits of the ring. Default none.
    pub bql: Option<ByteLimits>,
    /// How long the wire takes for a packet. Default 1 us.
    pub wire: Span,
    /// The driver has no ring and hands each packet to this transmit queue, its own perhaps.
    pub lower: Option<TxqIx>,
}

/// A discipline and its settings.
#[derive(Clone, PartialEq, Debug)]
pub enum QdiscSpec {
    /// None: senders call the driver.
    Noqueue,
    /// First in, first out.
    Pfifo {
        /// Packets.
        limit: u32,
    },
    /// Three bands by priority, behind the root lock.
    Prio {
        /// Packets of each band.
        limit: u32,
    },
    /// Three bands by priority, without root lock.
    PfifoFast {
        /// Packets of each band.
        limit: u32,
    },
    /// Fair queueing with pacing.
    Fq(FqConfig),
}

impl QdiscSpec {
    /// The names of all.
    pub const NAMES: &[&str] = &["noqueue", "pfifo", "prio", "pfifo_fast", "fq"];

    /// The one with this name, with its default settings.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let limit = TX_QUEUE_LEN as u32;
        Some(match name {
            "noqueue" => Self::Noqueue,
            "pfifo" => Self::Pfifo { limit },
            "prio" => Self::Prio { limit },
            "pfifo_fast" => Self::PfifoFast { limit },
            "fq" => Self::Fq(FqConfig::default()),
            _ => return None,
        })
    }

    /// Its name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Noqueue => "noqueue",
            Self::Pfifo { .. } => "pfifo",
            Self::Prio { .. } => "prio",
            Self::PfifoFast { .. } => "pfifo_fast",
            Self::Fq(_) => "fq",
        }
    }
}

/// Settings of a queue's byte limits, as in `byte_queue_limits/`.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct ByteLimits {
    /// `limit_min`. Default 0.
    pub min_bytes: u32,
    /// `limit_max`. Default: the largest there is.
    pub max_bytes: u32,
    /// `hold_time`. Default 1 s.
    pub hold: Span,
}

impl Default for ByteLimits {
    fn default() -> Self {
        Self { min_bytes: 0, max_bytes: LIMIT_BYTES_MAX, hold: SLACK_HOLD }
    }
}

/// Packets that a thread sends, one after the other.
#[derive(Clone, PartialEq, Debug)]
pub struct Sending {
    /// Where.
    pub to: TxqIx,
    /// The UDP socket that sends, and tells the program what became of it; `None`: the program sees the path itself.
    pub socket: Option<SocketIx>,
    /// How many. Default 1.
    pub packets: u32,
    /// Length of each on the wire. Default 1514.
    pub bytes: u32,
    /// Flow of the first; each further packet has the same. Default 0.
    pub flow: u32,
    /// Each packet is a flow of its own, counting up from `flow`.
    pub own_flow: bool,
    /// `SO_PRIORITY`. Default 0.
    pub priority: u32,
    /// When they may leave at the earliest (`SCM_TXTIME`), since the start. Default: at once.
    pub txtime: Option<Instant>,
    /// `SO_MAX_PACING_RATE`, bytes per second. Default: no limit.
    pub rate: Option<u64>,
}

/// What is done to a transmit queue.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum TxDeed {
    /// The driver stops it.
    Stop,
    /// The driver wakes it, in an interrupt.
    Wake,
    /// A caller holds it still.
    Freeze,
    /// And lets it go on, in an interrupt.
    Thaw,
    /// Nothing leaves its ring for so long.
    Stall(Span),
    /// The driver takes none of the next packets that it is given, without having stopped the queue.
    Busy(u32),
}

impl TxDeed {
    /// The key of the step.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stop => "tx-stop",
            Self::Wake => "tx-wake",
            Self::Freeze => "tx-freeze",
            Self::Thaw => "tx-thaw",
            Self::Stall(_) => "tx-stall",
            Self::Busy(_) => "tx-busy",
        }
    }
}

/// What to look at; only what is given is compared.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TxCheck {
    /// The discipline that the next fields are about.
    pub qdisc: Option<QdiscIx>,
    /// These bits of its word are set.
    pub set: QdiscState,
    /// These are clear.
    pub clear: QdiscState,
    /// Packets that wait in it, or to be sent again.
    pub qlen: Option<u32>,
    /// Their bytes.
    pub backlog_bytes: Option<u32>,
    /// Packets on the defer list.
    pub deferred: Option<u32>,
    /// The defer count.
    pub defer_count: Option<u32>,
    /// Packets that wait to be sent again.
    pub requeued: Option<u32>,
    /// It has a runner.
    pub running: Option<bool>,
    /// The transmit queue that the next fields are about.
    pub txq: Option<TxqIx>,
    /// These bits of the queue are set.
    pub queue_set: QueueBits,
    /// These are clear.
    pub queue_clear: QueueBits,
    /// Packets in its ring.
    pub in_ring: Option<u32>,
    /// The byte limit in force.
    pub limit_bytes: Option<u32>,
}

/// What is seen of the transmit path.
#[derive(Clone, PartialEq, Debug)]
#[expect(
    missing_docs,
    reason = "the fields are named for what they hold; the variants say more where that needs saying"
)]
pub enum TxEvent {
    /// A sender was told what came of its packet.
    Xmit { thread: ThreadIx, to: TxqIx, code: XmitCode },
    /// A packet went to the defer list; `flusher`: its sender flushes.
    Push { qdisc: QdiscIx, flusher: bool },
    /// A flusher took the list.
    Flush { qdisc: QdiscIx, packets: u32, plan: FlushPlan },
    /// A run began.
    Run { qdisc: QdiscIx, context: PollContext, cpu: CpuIx },
    /// A run ended, in which the driver took so many packets.
    RunEnd { qdisc: QdiscIx, why: RunStop, packets: u32 },
    /// The driver took a packet; `more`: another follows.
    Transmit { txq: TxqIx, flow: u32, more: bool, cpu: CpuIx },
    /// Packets went back to the front.
    Requeue { qdisc: QdiscIx, packets: u32 },
    /// The transmit softirq was asked for; `took`: it will run the discipline for this request.
    Schedule { qdisc: QdiscIx, took: bool, cpu: CpuIx },
    /// Packets were dropped, and counted.
    Drop { qdisc: QdiscIx, why: DropReason, packets: u32 },
    /// A queue was stopped.
    Stop { txq: TxqIx, by: StopBy },
    /// A stop ended; `schedules`: its discipline is scheduled for it.
    Wake { txq: TxqIx, by: StopBy, schedules: bool },
    /// A poll freed packets that had left.
    Complete { txq: TxqIx, packets: u32, bytes: u32 },
    /// The timer for packets that may not leave yet was armed.
    WatchdogStart { qdisc: QdiscIx, after: Span },
    /// It expired.
    WatchdogFire { qdisc: QdiscIx, cpu: CpuIx },
}

/// Who has stopped a transmit queue.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum StopBy {
    /// The driver.
    Driver,
    /// The byte limits.
    Stack,
    /// A caller that holds all queues still.
    Frozen,
}

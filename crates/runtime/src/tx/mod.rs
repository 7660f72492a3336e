//! The transmit path of a device queue: the rules of [`napier_core::tx`] carried out by the sender.
//!
//! ```text
//! build a frame --> [mode] noqueue: transmit lock, ring
//!                     |--- locked:  (busylock,) root lock: enqueue, run
//!                     |--- llist:   push; first one: root lock: take all, enqueue, run
//!                     \--- owner:   push; a thread of the queue takes, enqueues and runs for ever
//! run: root lock: chain out of the discipline --> transmit lock: ring, doorbell --> root lock ...
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `senders` | senders inside, with frames of their own, and how a change waits for them |
//! | `transmit` | what a sender does with one packet |
//! | `packet` | what travels on the list and in the discipline |
//! | `run` | flush and run, and how the root lock is given up |
//! | `carry` | a run carried out, with the locks that the rules ask for |
//! | `wake` | stop, completion, wake, scheduling in softirq context, the watchdog |
//! | `owner` | the thread that holds the run for ever |
//! | `config` | what a queue can be told to be |
//! | `control` | discipline, variant and limits put in place, activation |
//! | `host` | what all this asks of the engine |
//! | `limit` | byte-queue limits |
//! | `wire` | the transmit lock, and what is left to its holder |
//! | `kicks` | kicks that wait until a connection is free |
//! | `per_thread` | what a thread keeps from one call to the next |
//!
//! Order of locks: busylock, root lock, transmit lock; the last is only tried under the root lock. With `llist` and
//! `owner` no sender waits for another: it pushes and leaves, and if it should flush while the root lock is taken, it
//! leaves that to the holder, who may have lost its processor. Who works for others (`nowait`) does so with every variant.

mod carry;
mod config;
mod control;
#[cfg(test)]
mod hold;
mod host;
mod kicks;
mod limit;
mod owner;
mod packet;
mod per_thread;
mod run;
mod senders;
mod shown;
mod stats;
#[cfg(test)]
mod tests;
mod transmit;
mod wake;
mod wire;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use napier_core::tx::XmitCode;
use napier_core::tx::qdisc::Qdisc;
use napier_core::tx::queue::QueueBits;
use napier_core::tx::root::Root;
use napier_core::tx::state::QdiscState;
use napier_ring::{Exclusive, FrameList, FrameTable, Owned, Relay, StateCell};

use crate::port::{SenderSpace, TxQueue};
pub use config::{QdiscConfig, TxSelect, TxSetupError};
pub(crate) use control::Queues;
pub(crate) use host::TxHost;
use limit::ByteLimit;
pub use limit::ByteLimits;
pub use napier_core::tx::DropReason;
pub use napier_core::tx::qdisc::FqConfig;
use napier_stack::SendBuffers;
use napier_stack::seams::OnRoom;
use owner::Owner;
pub(crate) use owner::{OwnerTurn, OwnerTurns};
use packet::TxPkt;
use senders::{Sender, Senders};
use shown::{Shown, ShownLimit};
use stats::Ledger;
pub use stats::{TxQueueStats, XmitBucket, XmitTimes};
use wire::WireLock;
pub(crate) use wire::{OnWire, Wire};

/// How senders hand their packets to a queue's discipline.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum TxVariant {
    /// Each takes the root lock and enqueues its own packet, behind a second lock while a thread runs the queue: Linux up
    /// to 6.18.
    Locked,
    /// Each pushes to a lock-free list; the sender that finds it empty takes the root lock and enqueues what has gathered: Linux
    /// since 6.19.
    Llist,
    /// Each pushes and leaves; a thread of the queue polls the list and runs the queue for ever.
    Owner,
}

impl TxVariant {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Locked, Self::Llist, Self::Owner];

    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Locked => "locked",
            Self::Llist => "llist",
            Self::Owner => "owner",
        }
    }
}

/// What a sender does; one word that is switched under traffic.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// No discipline.
    Noqueue = 0,
    Locked = 1,
    Llist = 2,
    Owner = 3,
}

/// What all queues of a device share.
pub(crate) struct TxShared {
    host: Weak<dyn TxHost>,
    frames: Arc<FrameTable>,
    /// Of the name space that the device is in.
    buffers: Arc<SendBuffers>,
    /// `net.core.qdisc_max_burst`.
    pub(crate) max_burst: Arc<AtomicI32>,
    space: SenderSpace,
    senders: OnceLock<Senders>,
    /// Held while the senders are made.
    opening: Mutex<()>,
}

impl TxShared {
    pub(crate) fn new(
        host: Weak<dyn TxHost>,
        (frames, buffers): (Arc<FrameTable>, Arc<SendBuffers>),
        max_burst: Arc<AtomicI32>,
        space: SenderSpace,
    ) -> Arc<Self> {
        Arc::new(Self { host, frames, buffers, max_burst, space, senders: OnceLock::new(), opening: Mutex::new(()) })
    }

    /// The senders; there are some once a queue has got a discipline.
    #[inline]
    fn senders(&self) -> &Senders {
        self.senders.get().expect("a queue with a discipline has senders")
    }
}

/// What the root lock protects.
struct Guarded {
    root: Root<TxPkt>,
    ledger: Ledger,
}

/// The defer list and how many are on it, on a line of their own: every sender writes it.
#[repr(align(128))]
struct Defer {
    list: FrameList,
    count: AtomicU64,
    /// Packets refused in all (`QDISC_BURST_DROP`), which no counter of the kernel holds.
    burst_drops: AtomicU64,
}

#[repr(align(128))]
struct Line<T>(T);

/// The transmit path of one queue.
pub(crate) struct TxPath {
    me: Weak<Self>,
    shared: Arc<TxShared>,
    /// Number of the queue's NAPI instance, which softirqs and timers know the path by.
    index: AtomicU32,
    mode: AtomicU8,
    /// Somebody runs the discipline; for senders that have no lock yet.
    running: AtomicBool,
    /// A sender has enqueued by itself, and the owner may not know that packets wait.
    for_owner: AtomicBool,
    /// What may still go into the ring, as the last holder of the transmit lock left it.
    bulk_bytes: AtomicI32,
    limit_bytes: ShownLimit,
    state: StateCell,
    bits: StateCell,
    watchdog: wake::Watchdog,
    stops: AtomicU64,
    control: Mutex<Option<Owner>>,
    /// Whose packets the ring has refused, in their order.
    stuck: Owned<VecDeque<Weak<dyn OnRoom>>, Weak<dyn OnRoom>>,
    /// There are some, as a hint.
    has_stuck: AtomicBool,
    defer: Defer,
    busylock: Line<Exclusive<()>>,
    root: Line<Relay<Guarded>>,
    shown: Shown,
    wire: Line<WireLock>,
    /// Frames that were left to the holder of the transmit lock, and that were refused because too many were.
    left: AtomicU64,
    left_refused: AtomicU64,
    /// Some that were left wait for room in the ring, as a hint.
    has_left: AtomicBool,
}

/// What a transmit came to.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Sent {
    /// As the path says.
    Code(XmitCode),
    /// There is no discipline: transmit to the ring.
    Direct,
    /// No sender's cell or none of its frames is free now.
    Exhausted,
}

impl TxPath {
    pub(crate) fn new(shared: Arc<TxShared>, queue: TxQueue) -> Arc<Self> {
        let root = Root::new(Qdisc::Noqueue, true);
        Arc::new_cyclic(|me| Self {
            me: me.clone(),
            shared,
            index: AtomicU32::new(u32::MAX),
            mode: AtomicU8::new(Mode::Noqueue as u8),
            running: AtomicBool::new(false),
            for_owner: AtomicBool::new(false),
            bulk_bytes: AtomicI32::new(0),
            limit_bytes: ShownLimit::new(),
            state: StateCell::new(QdiscState::EMPTY.bits().into()),
            bits: StateCell::new(QueueBits::EMPTY.bits().into()),
            watchdog: wake::Watchdog::new(),
            stops: AtomicU64::new(0),
            control: Mutex::new(None),
            stuck: Owned::new(VecDeque::new()),
            has_stuck: AtomicBool::new(false),
            defer: Defer { list: FrameList::new(), count: AtomicU64::new(0), burst_drops: AtomicU64::new(0) },
            busylock: Line(Exclusive::new(())),
            root: Line(Relay::new(Guarded { root, ledger: Ledger::default() })),
            shown: Shown::default(),
            wire: Line(Owned::new(Wire::new(queue))),
            left: AtomicU64::new(0),
            left_refused: AtomicU64::new(0),
            has_left: AtomicBool::new(false),
        })
    }

    /// Number of the queue's NAPI instance.
    pub(crate) fn napi_index(&self) -> u32 {
        self.index.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn mode(&self) -> Mode {
        // Relaxed: whoever changes it waits for the senders' sections.
        match self.mode.load(Ordering::Relaxed) {
            0 => Mode::Noqueue,
            1 => Mode::Locked,
            2 => Mode::Llist,
            _ => Mode::Owner,
        }
    }
}

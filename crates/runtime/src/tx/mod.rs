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
//! | `defer` | the defer list |
//! | `run` | flush and run, and how the root lock is given up |
//! | `carry` | a run carried out, with the locks that the rules ask for |
//! | `wake` | completion, wake, scheduling in softirq context |
//! | `words` | the state of the discipline, the stop bits |
//! | `watchdog` | when to look at a queue though no thread sends |
//! | `waiters` | those whose packets the ring has refused |
//! | `owner` | the thread that holds the run for ever |
//! | `config` | what a queue can be told to be |
//! | `control` | discipline, variant and limits put in place, activation |
//! | `shown`, `stats` | what is counted, and read without a lock |
//! | `host` | what all this asks of the engine |
//! | `limit` | byte-queue limits |
//! | `wire` | the transmit lock, and what is left to its holder |
//! | `kicks` | kicks that wait until a connection is free |
//! | `per_thread` | what a thread keeps from one call to the next, and ends with |
//!
//! Order of locks: busylock, root lock, transmit lock; the last is only tried under the root lock. With `llist` and
//! `owner` no sender waits for another: it pushes and leaves, and if it should flush while the root lock is taken, it
//! leaves that to the holder, who may have lost its processor. Who works for others (`nowait`) does so with every variant.

mod carry;
mod config;
mod control;
mod defer;
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
mod waiters;
mod wake;
mod watchdog;
mod wire;
mod words;

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use napier_core::tx::XmitCode;
use napier_core::tx::qdisc::Qdisc;
use napier_core::tx::root::Root;
use napier_ring::{CombiningLock, Exclusive, FrameTable, Owned};

use crate::port::{SenderSpace, TxQueue};
pub use config::{QdiscConfig, TxSelect, TxSetupError};
pub(crate) use control::Queues;
use defer::DeferList;
pub(crate) use host::TxHost;
use limit::ByteLimit;
pub use limit::ByteLimits;
pub use napier_core::tx::DropReason;
pub use napier_core::tx::qdisc::FqConfig;
use napier_stack::SendBuffers;
use owner::RunOwner;
pub(crate) use owner::{OwnerTurn, OwnerTurns};
use packet::TxPkt;
pub(crate) use per_thread::{DeferredTimer, PerThread, TimerCpu};
use senders::{Senders, TxSender};
use shown::{ShownLimit, ShownStats};
use stats::Ledger;
pub use stats::{TxQueueStats, XmitBucket, XmitTimes};
use waiters::RoomWaiters;
use watchdog::Watchdog;
use wire::{LeftFrames, WireLock};
pub(crate) use wire::{OnWire, Wire};
use words::QueueWords;

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
        frames: Arc<FrameTable>,
        buffers: Arc<SendBuffers>,
        max_burst: Arc<AtomicI32>,
        space: SenderSpace,
    ) -> Arc<Self> {
        Arc::new(Self { host, frames, buffers, max_burst, space, senders: OnceLock::new(), opening: Mutex::new(()) })
    }

    #[inline]
    fn max_burst(&self) -> i32 {
        self.max_burst.load(Ordering::Relaxed)
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

#[repr(align(128))]
struct CacheLines<T>(T);

/// The transmit path of one queue.
pub(crate) struct TxPath {
    me: Weak<Self>,
    shared: Arc<TxShared>,
    /// Number of the queue's NAPI instance, which softirqs and timers know the path by.
    index: AtomicU32,
    mode: AtomicU8,
    /// A thread runs the discipline; for senders that have no lock yet.
    running: AtomicBool,
    owner: RunOwner,
    /// What may still go into the ring, as the last holder of the transmit lock left it.
    bulk_bytes: AtomicI32,
    limit_bytes: ShownLimit,
    words: QueueWords,
    watchdog: Watchdog,
    waiters: RoomWaiters,
    defer: DeferList,
    busylock: CacheLines<Exclusive<()>>,
    root: CacheLines<CombiningLock<Guarded>>,
    shown: ShownStats,
    wire: CacheLines<WireLock>,
    left: LeftFrames,
}

/// What a transmit came to.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Transmitted {
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
            owner: RunOwner::default(),
            bulk_bytes: AtomicI32::new(0),
            limit_bytes: ShownLimit::new(),
            words: QueueWords::new(),
            watchdog: Watchdog::new(),
            waiters: RoomWaiters::new(),
            defer: DeferList::new(),
            busylock: CacheLines(Exclusive::new(())),
            root: CacheLines(CombiningLock::new(Guarded { root, ledger: Ledger::default() })),
            shown: ShownStats::default(),
            wire: CacheLines(Owned::new(Wire::new(queue))),
            left: LeftFrames::default(),
        })
    }

    /// Number of the queue's NAPI instance.
    pub(crate) fn napi_index(&self) -> u32 {
        self.index.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn mode(&self) -> Mode {
        // Relaxed: the thread that changes it waits for the senders' sections.
        match self.mode.load(Ordering::Relaxed) {
            0 => Mode::Noqueue,
            1 => Mode::Locked,
            2 => Mode::Llist,
            _ => Mode::Owner,
        }
    }
}

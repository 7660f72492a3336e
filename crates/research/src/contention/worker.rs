//! Who does something: a sender, or the softirq that completes a queue's packets. Each has a CPU of its own.

use napier_core::tx::DroppedPacket;
use napier_core::tx::push::Push;
use napier_core::tx::run::TxRun;

use super::packet::SentPacket;
use super::spin::WorkerId;
use super::topology::Cpu;

/// What a worker does when its time comes.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum WorkerStep {
    /// A sender calls `send()`.
    Send,
    /// `__dev_queue_xmit` begins.
    Enter,
    /// The head of the defer list was read.
    Looked,
    /// Its line is here, to be written.
    Pushing,
    /// The flusher took the list.
    Taken,
    /// The running flag was read.
    RunningRead,
    /// The line of a lock arrived.
    Arrived(Lock, Goal),
    /// A lock is held.
    Locked(Lock, Goal),
    /// The packets are queued.
    Queued,
    /// A chain was dequeued, or none.
    Dequeued,
    /// The driver has the chain.
    Transmitted,
    /// `__dev_queue_xmit`, or a softirq, is done with the discipline.
    Leave,
    /// A queue's interrupt.
    Interrupt,
    /// Completions were carried out.
    Completed,
}

/// The locks of a queue.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Lock {
    /// Before the root lock, for senders that find the discipline running.
    Busy,
    /// The discipline's.
    Root,
}

/// What a lock is taken for.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Goal {
    /// To queue packets.
    Queue,
    /// To go on with a run.
    Relock,
    /// To begin a run in softirq context.
    Softirq,
}

#[derive(Debug)]
pub(super) struct Worker {
    pub(super) id: WorkerId,
    pub(super) cpu: Cpu,
    pub(super) queue: usize,
    /// Bytes of memory of packets on their way, and who changed that last.
    pub(super) memory_bytes: u64,
    pub(super) memory_at: Cpu,
    /// Who last wrote the flow of fq that its packets belong to.
    pub(super) flow_at: Cpu,
    /// When `__dev_queue_xmit` began, until it is over.
    pub(super) entered_ns: Option<u64>,
    pub(super) packet: Option<SentPacket>,
    pub(super) push: Push,
    /// The version of the list that was seen last.
    pub(super) seen_version: u64,
    pub(super) holds_busy: bool,
    pub(super) run: Option<TxRun<SentPacket>>,
    pub(super) dropped: Vec<DroppedPacket<SentPacket>>,
    /// The discipline is on the CPU's output queue.
    pub(super) softirq_raised: bool,
    pub(super) softirqs_in_turn: u32,
    /// When it fell asleep; a sender that sleeps has no event on the agenda.
    pub(super) asleep_since_ns: Option<u64>,
    /// The other thread of its core has a worker.
    pub(super) sibling: Option<WorkerId>,
    pub(super) is_busy: bool,
    pub(super) busy_since_ns: u64,
    pub(super) busy_ns: u64,
    pub(super) next_tick_ns: u64,
}

impl Worker {
    pub(super) const fn new(id: WorkerId, cpu: Cpu, queue: usize, first_tick_ns: u64) -> Self {
        Self {
            id,
            cpu,
            queue,
            memory_bytes: 0,
            memory_at: cpu,
            flow_at: cpu,
            entered_ns: None,
            packet: None,
            push: Push::new(true),
            seen_version: 0,
            holds_busy: false,
            run: None,
            dropped: Vec::new(),
            softirq_raised: false,
            softirqs_in_turn: 0,
            asleep_since_ns: None,
            sibling: None,
            is_busy: false,
            busy_since_ns: 0,
            busy_ns: 0,
            next_tick_ns: first_tick_ns,
        }
    }
}

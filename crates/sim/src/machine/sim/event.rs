//! The events that move a machine.

use napier_core::time::Span;

use napier_scenario::StopBy;

/// What a CPU takes as a hardware interrupt.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum HardIrq {
    /// The device's, for one instance.
    Device { napi: usize },
    /// The instance's timer; `generation` is that of its arming.
    Timer { napi: usize, generation: u32 },
    /// `napi_schedule` of a scenario.
    Schedule { napi: usize },
    /// A timer is armed by a scenario.
    Arm { napi: usize, after: Span },
    /// The timer of a discipline; `generation` is that of its arming.
    Watchdog { qd: usize, generation: u32 },
    /// A stop of a transmit queue ends.
    TxWake { txq: usize, by: StopBy },
}

/// Something that will happen.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Ev {
    /// The topmost context of a CPU has spent its time.
    Cpu { cpu: usize, generation: u32 },
    /// An interrupt reaches a CPU.
    Irq { cpu: usize, irq: HardIrq },
    /// The instance's timer expires.
    Timer { napi: usize, generation: u32 },
    /// The interrupt-coalescing timer of a queue expires.
    Coalesce { napi: usize, generation: u32 },
    /// A packet has left the ring of a transmit queue.
    TxDone { txq: usize, generation: u32 },
    /// The timer of a discipline expires.
    Watchdog { qd: usize, generation: u32 },
    /// A woken thread can run.
    Wake { ctx: CtxId, generation: u32 },
    /// A sleep ends by time.
    Timeout { ctx: CtxId, generation: u32 },
    /// The running thread's slice is over.
    Slice { cpu: usize, generation: u32 },
    /// A CPU's tick, where threads are placed.
    Tick { cpu: usize },
    /// A stalled thread may go on.
    Thaw { ctx: CtxId },
    /// A connection of a client sends.
    Ask { connection: u32 },
    /// A frame of a connection comes from the wire.
    Frame { connection: u32, is_ack: bool },
    /// A frame between two hosts comes from the wire.
    Wire { napi: usize },
    /// A part of a message comes from the wire, or its acknowledgement.
    Chunk { flow: u16, to: u8, is_ack: bool, segments: u16 },
    /// The wire from a host is free again.
    LinkFree { from: u8 },
    /// A flow's next request is due.
    Due { flow: u16 },
    /// What a storage device was asked for is there.
    Stored { flow: u16 },
    /// An answer is at its client.
    Answered { connection: u32 },
    /// A step of the timeline; `left` packets of a burst are still to come.
    Step { step: usize, left: u32 },
}

/// When an event happens, and where it is kept; equal times in the order of pushing.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Queued {
    pub(crate) at_ns: u64,
    pub(crate) seq: u64,
    pub(crate) slot: u32,
}

/// A context that executes: a CPU's interrupt or softirq level, or a thread.
pub(crate) type CtxId = usize;

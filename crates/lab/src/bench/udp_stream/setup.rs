//! How a run is set up.

use std::time::Duration;

use napier_runtime::tx::{QdiscConfig, TxVariant};

use crate::bench::ticks::TickClock;

/// What all threads of a run are told.
#[derive(Copy, Clone)]
pub(super) struct StreamSetup<'a> {
    pub(super) senders: u32,
    pub(super) queues: u16,
    pub(super) payload_bytes: usize,
    pub(super) length: Duration,
    pub(super) cpus: &'a [usize],
    /// Keep threads on one processor each: senders and transmitters in turn, the receiver on the last.
    pub(super) pin: bool,
    /// Discipline of the sending end's queues, and how sockets hand over to it; `None`: sockets without a discipline.
    pub(super) qdisc: &'a QdiscConfig,
    pub(super) tx_variant: Option<TxVariant>,
    /// Measure each transmit call inside the engine.
    pub(super) xmit: bool,
    pub(super) clock: TickClock,
}

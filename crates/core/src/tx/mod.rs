//! The transmit path: from a sender's packet to the driver, without senders that wait for each other. Source:
//! `net/core/dev.c __dev_queue_xmit`, `__dev_xmit_skb`, `net/sched/sch_generic.c` (Linux 7.3).
//!
//! ```text
//! sender --push--> defer list --the one whose push found it empty: flush--> qdisc --run--> chain --> driver
//!    |  \--full: burst drop                    |  \--empty, allowed: bypass---------------->|
//!    |     a thread flushes: done              \--deactivated: drop all     requeue list <--/ full: to the front
//!    \--no qdisc: noqueue ------------------------------------------------------------------> driver
//! run out of quota, driver full: schedule --> transmit softirq --> run      room again: wake --> schedule
//! ```
//!
//! | module | rule | who may use it |
//! |---|---|---|
//! | [`push`] | the list push and its limit | every sender, without a lock |
//! | [`flush`] | what becomes of a batch | the flusher, under the root lock |
//! | [`root`] | discipline, requeue list, counters | the holder of the root lock |
//! | [`run`] | dequeue, transmit, requeue, stop | the runner; the root lock is dropped for the driver |
//! | [`state`] | the state word: scheduled, deactivated, missed | everybody, by compare and swap |
//! | [`softirq`] | what waits for the transmit softirq of a CPU | that CPU |
//! | [`queue`] | stop bits of a transmit queue | everybody, by compare and swap |
//! | [`bql`] | how many bytes the driver is given | sender's half and completion's half |
//! | [`qdisc`] | pfifo, fq, prio | the holder of the root lock |
//! | [`nolock`] | a discipline without root lock | everybody |
//! | [`noqueue`] | a device without discipline | the sender |
//!
//! Every packet that does not reach the driver comes back to the executor with a [`DropReason`], and is counted.

pub mod bql;
mod codes;
pub mod flush;
pub mod nolock;
pub mod noqueue;
pub mod push;
pub mod qdisc;
pub mod queue;
pub mod root;
pub mod run;
pub mod softirq;
pub mod state;

pub use codes::{DropReason, DroppedPacket, TxDrops, XmitCode};

use crate::time::Instant;

/// What the rules must know of a packet.
pub trait TxPacket {
    /// Length on the wire, in bytes.
    fn len_bytes(&self) -> u32;

    /// Hash of the packet's flow; packets with the same value are one flow.
    fn flow_hash(&self) -> u32;

    /// Priority, as `SO_PRIORITY` sets it; the low four bits choose a band.
    fn priority(&self) -> u32;

    /// When the packet may leave at the earliest, or `None`: at once.
    fn earliest_departure(&self) -> Option<Instant>;

    /// What the sender may send, in bytes per second (`SO_MAX_PACING_RATE`); it concerns packets without departure
    /// time.
    fn pacing_rate(&self) -> u64 {
        qdisc::RATE_UNLIMITED
    }

    /// The transmit queue of the device that this packet goes to.
    fn tx_queue(&self) -> u16 {
        0
    }
}

#[cfg(test)]
mod tests;

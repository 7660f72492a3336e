//! The transmit path: from a sender's packet to the driver, without senders that wait for each other. Source:
//! `net/core/dev.c __dev_queue_xmit`, `__dev_xmit_skb`, `net/sched/sch_generic.c` (Linux 7.3).
//!
//! ```text
//! sender --push--> defer list --the one whose push found it empty: flush--> qdisc --run--> chain --> driver
//!    |  \--full: burst drop                    |  \--empty, allowed: bypass---------------->|
//!    |     somebody flushes: done              \--deactivated: drop all     requeue list <--/ full: to the front
//!    \--no qdisc: noqueue ------------------------------------------------------------------> driver
//! run out of quota, driver full: schedule --> transmit softirq --> run      room again: wake --> schedule
//! ```
//!
//! | module | rule | who may use it |
//! |---|---|---|
//! | [`push`] | the list push and its limit | every sender, without a lock |
//! | [`state`] | the state word: scheduled, deactivated, missed | everybody, by compare and swap |
//! | [`softirq`] | what waits for the transmit softirq of a CPU | that CPU |
//! | [`queue`] | stop bits of a transmit queue | everybody, by compare and swap |
//! | [`bql`] | how many bytes the driver is given | sender's half and completion's half |
//!
//! Every packet that does not reach the driver comes back to the executor with a [`DropReason`], and is counted.

pub mod bql;
mod codes;
pub mod push;
pub mod queue;
pub mod softirq;
pub mod state;

pub use codes::{DropReason, DroppedPacket, TxDrops, XmitCode};

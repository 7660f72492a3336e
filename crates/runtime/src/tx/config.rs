//! What a transmit queue can be told to be, and what it refuses.

use napier_core::tx::qdisc::{Fifo, Fq, FqConfig, Prio, Qdisc, TX_QUEUE_LEN};

use super::packet::TxPkt;
use crate::port::SenderSpaceError;

/// A queueing discipline and its parameters.
///
/// ```
/// # use napier_runtime::doc_link;
/// use napier_runtime::tx::{FqConfig, QdiscConfig};
///
/// let (_engine, device, _) = doc_link()?;
/// device.set_qdisc(0, &QdiscConfig::Fq(FqConfig::default()))?;
/// assert_eq!(device.tx_stats(0)?.qdisc, "fq");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum QdiscConfig {
    /// None: senders put packets into the ring themselves; where it is full they wait or are refused.
    Noqueue,
    /// First in, first out, at most this many packets.
    Pfifo {
        /// `limit` of tc.
        limit_pkts: usize,
    },
    /// Three bands by `SO_PRIORITY`, the first one first, at most this many packets in each.
    PfifoFast {
        /// `txqueuelen` of the device.
        limit_pkts: usize,
    },
    /// Fair queueing with pacing.
    Fq(FqConfig),
}

impl QdiscConfig {
    /// `pfifo` as tc makes it.
    #[must_use]
    pub const fn pfifo() -> Self {
        Self::Pfifo { limit_pkts: TX_QUEUE_LEN }
    }

    /// `pfifo_fast` as the kernel makes it.
    #[must_use]
    pub const fn pfifo_fast() -> Self {
        Self::PfifoFast { limit_pkts: TX_QUEUE_LEN }
    }

    pub(super) fn make(&self) -> Qdisc<TxPkt> {
        match self {
            Self::Noqueue => Qdisc::Noqueue,
            Self::Pfifo { limit_pkts } => Qdisc::Fifo(Fifo::new(*limit_pkts)),
            Self::PfifoFast { limit_pkts } => Qdisc::Prio(Prio::new(*limit_pkts)),
            Self::Fq(config) => Qdisc::Fq(Fq::new(config.clone())),
        }
    }

    pub(super) fn check(&self) -> Result<(), TxSetupError> {
        let refuse = |parameter, value, why| Err(TxSetupError::Parameter { parameter, value, why });
        match self {
            Self::Fq(fq) if fq.quantum_bytes == 0 => refuse("quantum", 0, "a flow must be able to send"),
            Self::Fq(fq) if !fq.buckets.is_power_of_two() => {
                refuse("buckets", fq.buckets as u64, "it is a power of two")
            }
            Self::Fq(fq) if fq.flows_max == 0 || fq.flows_max > u32::MAX as usize - 1 => {
                refuse("flows", fq.flows_max as u64, "it is 1 to 2^32 - 2")
            }
            _ => Ok(()),
        }
    }
}

/// How a transmit queue is chosen for a socket's packets.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum TxSelect {
    /// By the flow's hash, so that a flow arrives on the queue that the peer's receive-side scaling gives it.
    FlowHash,
    /// By the processor on which the socket first sends to a destination (`xps_cpus`): queue = processor modulo queues.
    SenderCpu,
}

/// Why a transmit queue was not set up.
#[derive(Debug, thiserror::Error)]
pub enum TxSetupError {
    /// The device has fewer queues.
    #[error("{device} has {queues} transmit queues, {queue} is none of them (EINVAL)")]
    NoSuchQueue {
        /// Name of the device.
        device: String,
        /// The queue asked for.
        queue: u16,
        /// Queues that there are.
        queues: u16,
    },
    /// The variant hands packets to a discipline.
    #[error("queue {queue} of {device} has no queueing discipline (EOPNOTSUPP): set one before the variant {variant}")]
    Noqueue {
        /// Name of the device.
        device: String,
        /// The queue.
        queue: u16,
        /// The variant asked for.
        variant: &'static str,
    },
    /// A parameter that cannot be.
    #[error("{parameter} of the queueing discipline cannot be {value} (EINVAL): {why}")]
    Parameter {
        /// As tc calls it.
        parameter: &'static str,
        /// As asked for.
        value: u64,
        /// What can be.
        why: &'static str,
    },
    /// The senders' frames.
    #[error(transparent)]
    Senders(#[from] SenderSpaceError),
    /// The owner's thread.
    #[error("starting the owner of a transmit queue failed: {0}; check the limit on threads")]
    Thread(#[from] std::io::Error),
}

//! Queueing disciplines: what waits, in which order it leaves, and what is dropped. Source: `net/sched/sch_fifo.c`,
//! `net/sched/sch_fq.c`, `net/sched/sch_generic.c pfifo_fast` (Linux 7.3).
//!
//! | discipline | order | bypass |
//! |---|---|---|
//! | `noqueue` | none: the driver is called by the sender ([`crate::tx::noqueue`]) | |
//! | [`Fifo`] (`pfifo`) | as they came | yes |
//! | [`Fq`] (`fq`) | flows in turn; a flow's packets as they came, or by departure time | never |
//! | [`Prio`] (`pfifo_fast`) | three bands, the lowest number first | yes |
//!
//! A discipline belongs to the holder of the root lock. Its memory grows to what the traffic needs and is kept.

mod delay;
mod fifo;
mod flows;
mod fq;
mod packets;
mod prio;

pub use fifo::{Fifo, Prio, TX_QUEUE_LEN};
pub use flows::FLOWS_MAX;
pub use fq::{Fq, FqConfig};
pub use prio::{BANDS, priority_band};

use super::{DroppedPacket, TxPacket};
use crate::time::Instant;

/// No limit to a rate in bytes per second. Source: `net/sched/sch_fq.c`, all bits set.
pub const RATE_UNLIMITED: u64 = u64::MAX;

/// What a discipline has to send.
#[must_use]
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Dequeued<P> {
    /// This packet, now.
    Packet(P),
    /// Packets wait, but none may leave before this time: come back then.
    NotBefore(Instant),
    /// Nothing waits.
    Empty,
}

/// One discipline.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Qdisc<P> {
    /// None: packets cannot wait.
    Noqueue,
    /// First in, first out.
    Fifo(Fifo<P>),
    /// Fair queueing with pacing.
    Fq(Fq<P>),
    /// Three bands by priority.
    Prio(Prio<P>),
}

impl<P: TxPacket> Qdisc<P> {
    /// Queues a packet. `outside_pkts`: how many packets of this discipline wait outside it, to be sent again; they count
    /// against the limit of a fifo.
    ///
    /// # Errors
    /// The packet, if it is dropped.
    ///
    /// # Panics
    /// For `noqueue`, where nothing can be queued.
    #[inline]
    pub fn enqueue(&mut self, packet: P, now: Instant, outside_pkts: usize) -> Result<(), DroppedPacket<P>> {
        match self {
            Self::Noqueue => panic!("noqueue has no enqueue operation"),
            Self::Fifo(fifo) => fifo.enqueue(packet, outside_pkts),
            Self::Fq(fq) => fq.enqueue(packet, now),
            Self::Prio(prio) => prio.enqueue(packet),
        }
    }

    /// Takes the next packet.
    #[inline]
    pub fn dequeue(&mut self, now: Instant) -> Dequeued<P> {
        match self {
            Self::Noqueue => Dequeued::Empty,
            Self::Fifo(fifo) => fifo.dequeue().map_or(Dequeued::Empty, Dequeued::Packet),
            Self::Fq(fq) => fq.dequeue(now),
            Self::Prio(prio) => prio.dequeue().map_or(Dequeued::Empty, Dequeued::Packet),
        }
    }

    /// Packets that wait.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Noqueue => 0,
            Self::Fifo(fifo) => fifo.len(),
            Self::Fq(fq) => fq.len(),
            Self::Prio(prio) => prio.len(),
        }
    }

    /// True if nothing waits.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if a packet may pass by the empty discipline.
    #[inline]
    #[must_use]
    pub const fn can_bypass(&self) -> bool {
        match self {
            Self::Noqueue | Self::Fq(_) => false,
            Self::Fifo(fifo) => fifo.limit_pkts() > 0,
            Self::Prio(_) => true,
        }
    }

    /// Takes everything away and forgets what was learnt.
    pub fn reset(&mut self, dropped: &mut impl FnMut(P)) {
        match self {
            Self::Noqueue => {}
            Self::Fifo(fifo) => fifo.reset(dropped),
            Self::Fq(fq) => fq.reset(dropped),
            Self::Prio(prio) => prio.reset(dropped),
        }
    }

    /// The name by which `tc` knows it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Noqueue => "noqueue",
            Self::Fifo(_) => "pfifo",
            Self::Fq(_) => "fq",
            Self::Prio(_) => "pfifo_fast",
        }
    }
}

#[cfg(test)]
mod fq_tests;
#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod tests;

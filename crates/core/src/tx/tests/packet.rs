//! A packet for tests, and what it needs.

use core::fmt;

use crate::time::Instant;
use crate::tx::TxPacket;
use crate::tx::qdisc::RATE_UNLIMITED;

#[derive(Copy, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Packet {
    pub(crate) flow: u32,
    /// Number within the flow.
    pub(crate) number: u32,
    pub(crate) bytes: u32,
    pub(crate) priority: u32,
    pub(crate) departs: Option<Instant>,
    pub(crate) rate: u64,
    pub(crate) tx_queue: u16,
}

impl Packet {
    pub(crate) const fn new(flow: u32, number: u32) -> Self {
        Self { flow, number, bytes: 1000, priority: 0, departs: None, rate: RATE_UNLIMITED, tx_queue: 0 }
    }
}

impl fmt::Debug for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.flow, self.number)
    }
}

impl TxPacket for Packet {
    fn len_bytes(&self) -> u32 {
        self.bytes
    }

    fn flow_hash(&self) -> u32 {
        self.flow
    }

    fn priority(&self) -> u32 {
        self.priority
    }

    fn earliest_departure(&self) -> Option<Instant> {
        self.departs
    }

    fn pacing_rate(&self) -> u64 {
        self.rate
    }

    fn tx_queue(&self) -> u16 {
        self.tx_queue
    }
}

//! A packet: what the rules must know of it, and in whose cache its lines are.

use napier_core::time::Instant;
use napier_core::tx::TxPacket;

use super::spin::WorkerId;
use super::topology::Cpu;

#[derive(Clone, Debug)]
pub(super) struct SentPacket {
    pub(super) sender: WorkerId,
    pub(super) bytes: u32,
    /// It waits in fq's inner flow.
    pub(super) fast: bool,
    /// Who wrote the first lines of its struct last: link, length, control block.
    pub(super) links_at: Cpu,
    /// Who wrote its pointers, headers and data.
    pub(super) data_at: Cpu,
}

impl TxPacket for SentPacket {
    fn len_bytes(&self) -> u32 {
        self.bytes
    }

    /// One flow per sender.
    fn flow_hash(&self) -> u32 {
        self.sender.into()
    }

    fn priority(&self) -> u32 {
        0
    }

    fn earliest_departure(&self) -> Option<Instant> {
        None
    }
}

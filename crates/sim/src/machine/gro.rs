//! Packets that wait inside an instance, and the lists that have just left it.

use std::vec::Drain;

use napier_core::gro::Gro;

use super::device::Packet;

/// What waits to be merged or to go up.
#[derive(Default)]
pub(super) struct Merge {
    pub(super) gro: Gro<Packet>,
}

impl Merge {
    /// Packets are held for merging.
    #[inline]
    pub(super) fn held(&self) -> bool {
        self.gro.held()
    }

    /// Packets that wait, merged ones counted once.
    pub(super) fn packets(&self) -> usize {
        self.gro.iter_held().count() + self.gro.pending().len()
    }

    /// Packets that wait, as they came from the wire.
    pub(super) fn segments(&self) -> u64 {
        self.gro.iter_held().chain(self.gro.pending()).map(|packet| u64::from(packet.segments)).sum()
    }

    /// Their frames.
    pub(super) fn frames(&self) -> impl Iterator<Item = u32> {
        self.gro.iter_held().chain(self.gro.pending()).map(|packet| packet.frame)
    }
}

/// Lists on their way to the sockets.
#[derive(Default)]
pub(super) struct Up {
    pub(super) packets: Vec<Packet>,
    pub(super) lists: Vec<usize>,
}

impl Up {
    /// One list.
    pub(super) fn take(&mut self, list: Drain<'_, Packet>) {
        self.lists.push(list.len());
        self.packets.extend(list);
    }
}

//! Packets that wait inside an instance, and the lists that have just left it.

use std::vec::Drain;

use napier_core::gro::Gro;

use crate::machine::dev::frames::RxPacket;

/// What waits to be merged or to go up.
#[derive(Default)]
pub(crate) struct Merge {
    pub(crate) gro: Gro<RxPacket>,
}

impl Merge {
    /// Packets are held for merging.
    #[inline]
    pub(crate) fn held(&self) -> bool {
        self.gro.held()
    }

    /// Packets that wait, merged ones counted once.
    pub(crate) fn packets(&self) -> usize {
        self.gro.iter_held().count() + self.gro.pending().len()
    }

    /// Packets that wait, as they came from the wire.
    pub(crate) fn segments(&self) -> u64 {
        self.gro.iter_held().chain(self.gro.pending()).map(|packet| u64::from(packet.segments)).sum()
    }

    /// Their frames.
    pub(crate) fn frames(&self) -> impl Iterator<Item = u32> {
        self.gro.iter_held().chain(self.gro.pending()).map(|packet| packet.frame)
    }
}

/// Lists on their way to the sockets.
#[derive(Default)]
pub(crate) struct Up {
    pub(crate) packets: Vec<RxPacket>,
    pub(crate) lists: Vec<usize>,
}

impl Up {
    /// One list.
    pub(crate) fn take(&mut self, list: Drain<'_, RxPacket>) {
        self.lists.push(list.len());
        self.packets.extend(list);
    }
}

//! Persistent configuration: one slot per device queue, which keeps an instance's settings and id while the instance is
//! down or does not exist. Source: `include/linux/netdevice.h struct napi_config`, `net/core/dev.c alloc_netdev_mqs`,
//! `napi_save_config`, `napi_restore_config` (Linux 7.3).

use alloc::boxed::Box;

use crate::completion::Tunables;
use crate::control::{DevSetting, ThreadedSetting};

/// One slot; all zero at first.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct ConfigSlot {
    /// Written at disable, by [`ConfigTable::save`], and by a device write.
    pub tunables: Tunables,
    /// Written the moment it is set.
    pub threaded: ThreadedSetting,
    /// The id of every life of the instance; `None` before the first.
    pub napi_id: Option<u32>,
}

/// The slots of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigTable {
    slots: Box<[ConfigSlot]>,
}

impl ConfigTable {
    /// As many slots as the larger number of queues allocated.
    #[must_use]
    pub fn new(rx_queues: u16, tx_queues: u16) -> Self {
        Self { slots: alloc::vec![ConfigSlot::default(); usize::from(rx_queues.max(tx_queues))].into_boxed_slice() }
    }

    /// The slots.
    #[must_use]
    pub fn slots(&self) -> &[ConfigSlot] {
        &self.slots
    }

    /// Enabling an instance: what it starts with. A slot without id gets the one from `new_id`, and keeps it.
    ///
    /// # Panics
    /// If there is no slot `index`.
    pub fn restore(&mut self, index: usize, new_id: impl FnOnce() -> u32) -> ConfigSlot {
        let slot = &mut self.slots[index];
        slot.napi_id.get_or_insert_with(new_id);
        *slot
    }

    /// Disabling an instance: keeps its tunables.
    ///
    /// # Panics
    /// If there is no slot `index`.
    pub fn save(&mut self, index: usize, tunables: Tunables) {
        self.slots[index].tunables = tunables;
    }

    /// `threaded` of one instance was set.
    ///
    /// # Panics
    /// If there is no slot `index`.
    pub fn set_threaded(&mut self, index: usize, threaded: ThreadedSetting) {
        self.slots[index].threaded = threaded;
    }

    /// A device setting was written: every slot gets the field written, and no other, whether its instance exists now
    /// or not.
    pub fn write_all(&mut self, setting: DevSetting) {
        for slot in &mut self.slots {
            match setting {
                DevSetting::GroFlushTimeout(span) => slot.tunables.gro_flush_timeout = span,
                DevSetting::NapiDeferHardIrqs(count) => slot.tunables.defer_hard_irqs = count,
                DevSetting::Threaded(threaded) => slot.threaded = threaded,
            }
        }
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;

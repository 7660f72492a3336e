//! The tunables of an instance and where it runs.

use std::sync::atomic::Ordering;

use napier_core::control::ThreadedSetting;

use super::Napi;

impl Napi {
    /// Takes effect at the next completion that found work.
    pub(crate) fn set_defer_hard_irqs(&self, count: u32) {
        self.defer_hard_irqs.store(count, Ordering::Relaxed);
    }

    /// Takes effect at the next completion.
    pub(crate) fn set_gro_flush_timeout_ns(&self, ns: u64) {
        self.gro_flush_timeout_ns.store(ns, Ordering::Relaxed);
    }

    /// Takes effect at the next return of events.
    pub(crate) fn set_irq_suspend_timeout_ns(&self, ns: u64) {
        self.irq_suspend_timeout_ns.store(ns, Ordering::Relaxed);
    }

    pub(crate) fn set_irq_cpu(&self, softirq_index: u32) {
        self.irq_cpu.store(softirq_index, Ordering::Relaxed);
    }

    pub(crate) fn set_id(&self, id: u32) {
        self.id.store(id, Ordering::Relaxed);
    }

    /// The threaded setting that is kept over disable and enable.
    pub(crate) fn threaded_setting(&self) -> ThreadedSetting {
        *self.threaded.lock().expect("the setting is only copied")
    }

    pub(crate) fn keep_threaded_setting(&self, setting: ThreadedSetting) {
        *self.threaded.lock().expect("the setting is only copied") = setting;
    }
}

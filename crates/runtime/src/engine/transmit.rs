//! What the holder of a device can ask of its transmit queues.

use super::DeviceHandle;
use crate::tx::{ByteLimits, QdiscConfig, TxQueueStats, TxSelect, TxSetupError, TxVariant, XmitTimes};

impl DeviceHandle {
    /// Gives transmit queue `queue` another queueing discipline, as `tc qdisc replace`. What waits in the one before is
    /// dropped and counted there; counters begin at 0. Senders push as [`TxVariant::Llist`] says unless a variant was set
    /// before.
    ///
    /// # Errors
    /// See [`TxSetupError`]; nothing is changed then.
    pub fn set_qdisc(&self, queue: u16, qdisc: &QdiscConfig) -> Result<(), TxSetupError> {
        self.device.tx_queues().set_qdisc(queue, qdisc)
    }

    /// Chooses how senders hand over on queue `queue`, under traffic: nothing is lost, and nothing overtakes.
    ///
    /// # Errors
    /// The queue has no discipline, or the owner's thread cannot be started; the variant before goes on then, after an owner
    /// [`TxVariant::Llist`].
    pub fn set_tx_variant(&self, queue: u16, variant: TxVariant) -> Result<(), TxSetupError> {
        self.set_tx_variant_on(queue, variant, None)
    }

    /// As [`Self::set_tx_variant`]; the owner's thread is pinned to `owner_cpu`.
    ///
    /// # Errors
    /// As [`Self::set_tx_variant`].
    pub fn set_tx_variant_on(
        &self,
        queue: u16,
        variant: TxVariant,
        owner_cpu: Option<usize>,
    ) -> Result<(), TxSetupError> {
        self.device.tx_queues().set_variant(queue, variant, owner_cpu)
    }

    /// Sets the byte limits of queue `queue` (`byte_queue_limits` in sysfs); `None`: packets go to the ring one by one as
    /// long as it has room. A discipline begins with [`ByteLimits::default`].
    ///
    /// # Errors
    /// There is no such queue, or the bounds are the wrong way round.
    pub fn set_byte_limits(&self, queue: u16, limits: Option<ByteLimits>) -> Result<(), TxSetupError> {
        self.device.tx_queues().set_byte_limits(queue, limits)
    }

    /// Chooses how sockets find the transmit queue of a destination; those that they have found before they keep until
    /// the next change of routes or neighbours.
    pub fn set_tx_select(&self, select: TxSelect) {
        self.device.tx_by_cpu.store(select == TxSelect::SenderCpu, std::sync::atomic::Ordering::Relaxed);
    }

    /// Counters of transmit queue `queue`.
    ///
    /// # Errors
    /// There is no such queue.
    pub fn tx_stats(&self, queue: u16) -> Result<TxQueueStats, TxSetupError> {
        self.device.tx_queues().stats(queue, self.engine.ticks.per_us())
    }

    /// Begins to measure transmit calls, from 0, or ends it.
    pub fn measure_xmit(&self, on: bool) {
        self.device.tx_shared.measure_xmit(on);
    }

    /// What [`Self::measure_xmit`] has measured so far.
    #[must_use]
    pub fn xmit_times(&self) -> XmitTimes {
        self.device.tx_shared.xmit_times(self.engine.ticks.per_us())
    }

    /// Senders that can be in the transmit path at the same time; 0 while no queue has a discipline.
    #[must_use]
    pub fn tx_senders(&self) -> usize {
        self.device.tx_shared.senders_count()
    }
}

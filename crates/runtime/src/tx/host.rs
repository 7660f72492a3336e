//! What a transmit path asks of the engine that it is in. A packet that is sent at once makes no call here: they are for
//! waiting for room, for locks that were taken, and for what is done later.

use std::sync::Arc;

use napier_core::time::Instant;

use super::TxPath;
use napier_stack::NetNs;

/// The engine, as far as transmit paths know it. They are called by the number of their NAPI instance.
pub(crate) trait TxHost: Send + Sync {
    /// All transmit queues of the device that this one belongs to.
    fn device_queues(&self, index: u32) -> &[Arc<TxPath>];
    /// The name space of that device.
    fn netns(&self, index: u32) -> &NetNs;
    /// The thread of softirq CPU `cpu` is to look after its transmit queues at `at`.
    fn watchdog_armed(&self, cpu: u32, at: Instant);
    /// The transmit softirq is to run a queue that was scheduled: by the caller, if it may, or by a CPU's thread.
    fn raise_tx(&self, index: u32, by_caller: bool);
    /// The calling thread begins to work for the engine, on this processor if one is named.
    fn thread_begins(&self, name: &str, cpu: Option<usize>);
    /// It has ended.
    fn thread_ends(&self);
    /// Does `act`, unless the engine has begun to stop: false then. It does not begin meanwhile.
    fn unless_closing(&self, act: &mut dyn FnMut()) -> bool;
}

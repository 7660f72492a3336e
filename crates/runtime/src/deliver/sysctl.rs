//! System-wide knobs under their names of `net.core` and `net.ipv4`.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use napier_core::softirq::{NETDEV_BUDGET_PKTS, netdev_budget_of, netdev_budget_span};
use napier_core::tcp::memory::MemoryLimits;
use napier_core::time::Span;
use napier_core::tx::push::QDISC_MAX_BURST;

use crate::bounds::HZ;

/// As far as the engine has them.
pub(crate) struct Sysctls {
    pub(crate) busy_poll: AtomicU32,
    pub(crate) busy_read: AtomicU32,
    /// Of name spaces that begin with TCP; `None`: as for this machine.
    pub(crate) tcp_mem: Option<MemoryLimits>,
    /// Shared with the transmit paths, which have no way to the engine while they send.
    pub(crate) qdisc_max_burst: Arc<AtomicI32>,
    netdev_budget: AtomicI32,
    netdev_budget_ns: AtomicU64,
}

/// A value that the knob does not take.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SysctlError {
    /// Below the least time, which is two ticks.
    #[error("netdev_budget_usecs must be at least {min_usecs} (EINVAL): that is two ticks of the engine")]
    BudgetTooShort {
        /// Least accepted value in us.
        min_usecs: u64,
    },
}

impl Sysctls {
    pub(crate) fn new(busy_poll: u32, busy_read: u32, tcp_mem: Option<MemoryLimits>) -> Self {
        Self {
            busy_poll: AtomicU32::new(busy_poll),
            busy_read: AtomicU32::new(busy_read),
            tcp_mem,
            qdisc_max_burst: Arc::new(AtomicI32::new(QDISC_MAX_BURST)),
            netdev_budget: AtomicI32::new(NETDEV_BUDGET_PKTS),
            netdev_budget_ns: AtomicU64::new(netdev_budget_span(HZ).ns),
        }
    }

    /// `SO_BUSY_POLL` of new sockets, in us.
    pub(crate) fn busy_read(&self) -> u32 {
        self.busy_read.load(Ordering::Relaxed)
    }

    /// Packets and time of one softirq run.
    #[inline]
    pub(crate) fn netdev_budget(&self) -> (i32, Span) {
        let ns = self.netdev_budget_ns.load(Ordering::Relaxed);
        (self.netdev_budget.load(Ordering::Relaxed), Span { ns })
    }

    pub(crate) fn set_netdev_budget(&self, packets: i32) {
        self.netdev_budget.store(packets, Ordering::Relaxed);
    }

    pub(crate) fn set_netdev_budget_usecs(&self, usecs: u64) -> Result<(), SysctlError> {
        let span = netdev_budget_of(usecs, HZ).map_err(|min_usecs| SysctlError::BudgetTooShort { min_usecs })?;
        self.netdev_budget_ns.store(span.ns, Ordering::Relaxed);
        Ok(())
    }
}

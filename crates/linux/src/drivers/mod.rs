//! What drivers do with NAPI instances, queues and interrupts, as their sources say: so that a loss can be named before it happens.
//!
//! Each fact has its source, and what was not found in one is [`Since::Unknown`]: nothing here is guessed. A distribution may have
//! brought a driver's change to an older kernel, so that a fact of this table is a reason to say something and none to refuse it;
//! where the kernel itself answers, its answer counts. The page is `docs/drivers.md`.

mod table;
#[cfg(test)]
mod tests;

pub use table::DRIVERS;

/// The newest kernel whose drivers were read.
pub const READ: (u32, u32) = (7, 3);

/// The oldest one.
pub const OLDEST: (u32, u32) = (6, 12);

/// Since when a driver does something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Since {
    /// No source was found.
    Unknown,
    /// Not in [`READ`], nor before.
    Never,
    /// In [`OLDEST`] already.
    Long,
    /// Major and minor version of the first release with it.
    Linux(u32, u32),
}

/// One fact about a driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fact {
    /// Since when it is so.
    pub since: Since,
    /// Function, or commit, that says it.
    pub source: &'static str,
}

impl Fact {
    /// Whether it is so on a kernel of this version; `None` where nothing is known of that.
    #[must_use]
    pub fn on(&self, kernel: (u32, u32)) -> Option<bool> {
        match self.since {
            _ if kernel == (0, 0) => None,
            Since::Unknown => None,
            Since::Never => (kernel <= READ).then_some(false),
            Since::Long => (kernel >= OLDEST).then_some(true),
            Since::Linux(major, minor) => Some(kernel >= (major, minor)),
        }
    }

    /// ` before Linux 6.16`, or nothing: what is behind `it does not` in a sentence.
    #[must_use]
    pub fn before(&self) -> String {
        match self.since {
            Since::Linux(major, minor) => format!(" before Linux {major}.{minor}"),
            Since::Unknown | Since::Never | Since::Long => String::new(),
        }
    }
}

/// What the number in the name of a queue's interrupt is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Numbers {
    /// The queue's.
    #[default]
    Queue,
    /// That of a receive queue, and one more.
    OneMore,
    /// That of an interrupt vector. It is a queue's only where they begin at 0 and none is left out.
    Vector,
    /// There is none.
    None,
}

/// What is known of a driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DriverFacts {
    /// Its names: in `DRIVER=` of the device's `uevent`, or the kind of a virtual interface.
    pub names: &'static [&'static str],
    /// Where its source is.
    pub folder: &'static str,
    /// What is set on an instance stays when the interface goes down and up: `netif_napi_add_config`, or instances that outlive it. With the
    /// former the id stays too.
    pub keeps_down: Fact,
    /// It stays when the queues of the interface change, `ethtool -L`.
    pub keeps_channels: Fact,
    /// queue-get names the instance of a queue: `netif_queue_set_napi`.
    pub queues: Fact,
    /// napi-get names the interrupt of an instance: `netif_napi_set_irq`.
    pub irqs: Fact,
    /// `AF_XDP` without a copy.
    pub zero_copy: Fact,
    /// Flow rules, `ethtool -N`.
    pub flow_rules: Fact,
    /// Further tables of receive-side scaling, `ethtool -X context new`.
    pub contexts: Fact,
    /// Adaptive moderation of receive interrupts, `ethtool -C adaptive-rx`.
    pub adaptive: Fact,
    /// How interrupts are called, with the place that says so.
    pub irq_names: &'static str,
    /// What their number is.
    pub numbers: Numbers,
    /// Who polls what: which queues share an instance.
    pub instances: &'static str,
}

/// Large receive offload, as the kernel and `ethtool -K` call it.
pub(crate) const LRO: &str = "rx-lro";

/// Whether packets come without an instance's id while `LRO` is on, so that sockets learn none. Source: `vmxnet3_rq_rx_complete`, which gives
/// packets to `netif_receive_skb` then; of other drivers none is known.
#[must_use]
pub fn lro_hides_instances(driver: &str) -> bool {
    driver == "vmxnet3"
}

/// What is known of a driver of this name.
#[must_use]
pub fn of(driver: &str) -> Option<&'static DriverFacts> {
    DRIVERS.iter().find(|facts| facts.names.contains(&driver))
}

//! What to compare, and what of that can be checked before anything runs.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use napier_kv::load::net::Proto;
use napier_kv::service::Service;
use napier_runtime::device::{Coalesce, LinkConfig};

use crate::device::{Device, XdpWay};
use crate::loads::Load;
use crate::modes::Mode;
use crate::subject::Backend;

/// What to compare.
#[derive(Clone, Debug)]
pub struct CompareConfig {
    /// What connects client and server: a link, or a memif or AF_XDP of the run's own.
    pub device: Device,
    /// Whether rows of the kernel's own stack stand beside the engine's.
    pub kernel: bool,
    /// What carries the requests.
    pub proto: Proto,
    /// Rows, in this order.
    pub modes: Vec<Mode>,
    /// Loads; `None` = 20, 40, 60, 80 and 100 % of what base sustains, and MAX.
    pub loads: Option<Vec<Load>>,
    /// Whether the most that each mode sustains is searched for.
    pub sustained: bool,
    /// Length of one run; `None` = what fits `total`.
    pub run_length: Option<Duration>,
    /// Longest time for everything, where `run_length` is left to choose.
    pub total: Duration,
    /// Runs per row.
    pub runs: u32,
    /// Client flows, 1..=4096.
    pub flows: u32,
    /// Queues of the server's device, and workers.
    pub queues: u16,
    /// Descriptors per ring, a power of two.
    pub ring_size: u32,
    /// Time that each request takes the server beside what the cache takes; `None`: nothing.
    pub service: Option<Service>,
    /// From which all randomness comes.
    pub seed: u64,
    /// Interrupt coalescing of the engine's device under test.
    pub coalesce: Coalesce,
    /// How the kernel hands packets to AF_XDP devices.
    pub xdp: XdpWay,
    /// Run modes that need more processors than there are, and mark them.
    pub oversubscribe: bool,
    /// Directory for raw histograms.
    pub out: Option<PathBuf>,
}

impl Default for CompareConfig {
    fn default() -> Self {
        Self {
            device: Device::Link,
            kernel: false,
            proto: Proto::Udp,
            modes: Mode::parse_list(crate::modes::DEFAULT_MODES).expect("the default list is made of modes"),
            loads: None,
            sustained: true,
            run_length: None,
            total: Duration::from_secs(225),
            runs: 3,
            flows: 64,
            queues: 1,
            ring_size: 1024,
            service: None,
            seed: 1,
            coalesce: Coalesce::adaptive(),
            xdp: XdpWay::Auto,
            oversubscribe: false,
            out: None,
        }
    }
}

impl CompareConfig {
    /// Whose rows there are.
    pub(super) fn backends(&self) -> &'static [Backend] {
        if self.kernel { &[Backend::Engine, Backend::Kernel] } else { &[Backend::Engine] }
    }

    /// Checks what can be checked before anything runs.
    ///
    /// # Errors
    /// The first field that cannot be; the message says what it may be.
    pub fn check(&self) -> anyhow::Result<()> {
        ensure!(self.runs > 0, "--runs must be at least 1");
        ensure!((1..=4096).contains(&self.flows), "--flows must be 1 to 4096");
        let link = LinkConfig { queues: self.queues, ring_size: self.ring_size, ..LinkConfig::default() };
        link.check()?;
        ensure!(
            !self.kernel || matches!(self.device, Device::Xdp { .. }),
            "--peer kernel needs interfaces of the kernel: give --dev xdp as well"
        );
        ensure!(!self.kernel || self.queues == 1, "--peer kernel compares one queue: omit --queues");
        Ok(())
    }
}

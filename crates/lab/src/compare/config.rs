//! What to compare, and what of that can be checked before anything runs.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use napier_kv::load::net::Proto;
use napier_kv::service::Service;
use napier_runtime::device::{Coalesce, LinkConfig};

use super::kernel::program::{ProgramConfig, Speaks};
use crate::agent::Secret;
use crate::cpus::{CpuLayout, TooFewCpus};
use crate::device::{Device, XdpWay};
use crate::host;
use crate::loads::Load;
use crate::machines::MachineFile;
use crate::modes::Mode;
use crate::shown::Shown;
use crate::subject::{Backend, IRQ_SUFFIX, Subject, subjects};

/// An interface of this machine, and the client at its other end.
#[derive(Clone, Debug)]
pub struct OnConfig {
    /// Name, in the namespace of this command.
    pub interface: String,
    /// Where the agent listens that generates the load.
    pub client: SocketAddr,
    /// What this process and the agent both have.
    pub secret: Secret,
}

/// A machine that is simulated.
#[derive(Clone, Debug)]
pub struct SimConfig {
    /// As it was given.
    pub name: String,
    /// What it is.
    pub machine: MachineFile,
    /// Threads that simulate; the result does not depend on it.
    pub jobs: usize,
}

/// What to compare.
#[derive(Clone, Debug)]
pub struct CompareConfig {
    /// What connects client and server: a link, or a memif or AF_XDP of the run's own.
    pub device: Device,
    /// Whose rows there are, side by side in this order.
    pub backends: Vec<Backend>,
    /// Where rows of the kernel are measured, in place of a veth pair of the run's own.
    pub on: Option<OnConfig>,
    /// What rows of `sim` are predicted on; there with them and only with them.
    pub sim: Option<SimConfig>,
    /// What serves in rows of the kernel; `None`: our own server.
    pub program: Option<ProgramConfig>,
    /// Whether rows of the kernel count polls and timers by tracepoints, before the measured time.
    pub trace: bool,
    /// What carries the requests.
    pub proto: Proto,
    /// Rows, in this order.
    pub modes: Vec<Mode>,
    /// Those of them with one more row of the kernel, which receives on the server's CPU; `base` always has one.
    pub irq_modes: Vec<Mode>,
    /// Those of them with one more row that is the same, and which copy it is: 2 is `base@2`.
    pub copies: Vec<(Mode, u8)>,
    /// Loads; `None` = 20, 40, 60, 80 and 100 % of what base sustains, and MAX.
    pub loads: Option<Vec<Load>>,
    /// Whether the most that each mode sustains is searched for.
    pub sustained: bool,
    /// Length of one slice; `None` = as the rows need it.
    pub run_length: Option<Duration>,
    /// Longest time for everything, if the number of rounds is not given.
    pub total: Duration,
    /// Rounds of each load, each with a slice of every row; `None` = until all is decided or the time is up.
    pub rounds: Option<u32>,
    /// Runs of a row that is predicted.
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
    /// Where the engine of each run is shown.
    pub shown: Shown,
}

impl Default for CompareConfig {
    fn default() -> Self {
        Self {
            device: Device::Link,
            backends: vec![Backend::Engine],
            on: None,
            sim: None,
            program: None,
            trace: true,
            proto: Proto::Udp,
            modes: Mode::parse_list(crate::modes::DEFAULT_MODES).expect("the default list is made of modes"),
            irq_modes: Vec::new(),
            copies: Vec::new(),
            loads: None,
            sustained: true,
            run_length: None,
            total: Duration::from_secs(225),
            rounds: None,
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
            shown: Shown::default(),
        }
    }
}

impl CompareConfig {
    /// Whether there are rows of the kernel.
    pub(super) fn has_kernel(&self) -> bool {
        self.backends.contains(&Backend::Kernel)
    }

    /// CPUs that runs use; threads there may poll.
    #[must_use]
    pub fn cpus(&self) -> Vec<usize> {
        let available = host::available_cpus();
        let has_pollers = self.modes.contains(&Mode::ThreadedBusyPoll);
        let Ok(layout) = self.layout(&available, has_pollers) else { return available };
        layout.of_server().into_iter().chain(layout.of_client()).collect()
    }

    /// Who runs where; a client elsewhere takes no CPU.
    pub(super) fn layout(&self, available: &[usize], pollers: bool) -> Result<CpuLayout, TooFewCpus> {
        let queues = usize::from(self.queues);
        match self.on {
            None => CpuLayout::choose(available, queues, pollers, self.oversubscribe),
            Some(_) => CpuLayout::of_server_alone(available, queues, pollers, self.oversubscribe),
        }
    }

    /// Whether nothing is measured.
    pub(super) fn is_predicted(&self) -> bool {
        self.backends == [Backend::Sim]
    }

    /// Whether what is measured is of the kernel alone.
    fn measures_kernel_alone(&self) -> bool {
        self.has_kernel() && !self.backends.contains(&Backend::Engine)
    }

    /// What is compared, in the order of the rows.
    pub(super) fn subjects(&self) -> Vec<Subject> {
        let irq = [&self.irq_modes[..], &[Mode::Base]].concat();
        subjects(&self.modes, &self.backends, &irq, &self.copies)
    }

    /// Checks what can be checked before anything runs.
    ///
    /// # Errors
    /// The first field that cannot be; the message says what it may be.
    pub fn check(&self) -> anyhow::Result<()> {
        ensure!(self.runs > 0 && self.rounds != Some(0), "--runs must be at least 1");
        ensure!((1..=4096).contains(&self.flows), "--connections must be 1 to 4096");
        let link = LinkConfig { queues: self.queues, ring_size: self.ring_size, ..LinkConfig::default() };
        link.check()?;
        self.check_on()?;
        ensure!(
            self.sim.is_some() == self.backends.contains(&Backend::Sim),
            "a machine is for rows of sim, and they need one: give --backend with sim in it, such as engine,sim"
        );
        ensure!(
            self.sim.is_none() || self.flows >= self.queues.into(),
            "in rows of sim each of {} queues needs a flow: give more --connections",
            self.queues
        );
        ensure!(
            self.out.is_none() || !self.is_predicted(),
            "--out keeps the histograms of what was measured, and nothing is: omit it"
        );
        ensure!(
            !self.has_kernel() || self.on.is_some() || self.device == Device::Xdp { interface: None },
            "the kernel's rows need interfaces of the kernel: omit --over, or give --over xdp"
        );
        self.check_irq_modes()?;
        let Some(program) = &self.program else { return Ok(()) };
        ensure!(
            self.measures_kernel_alone(),
            "a program serves over the kernel's sockets: give --backend kernel before --"
        );
        ensure!(
            self.service.is_none(),
            "--service is for our own server; a program's requests take what they take: omit it"
        );
        ensure!(
            self.proto == Proto::Tcp || program.speaks != Some(Speaks::Redis),
            "redis does not speak over UDP: give --proto tcp"
        );
        Ok(())
    }

    fn check_on(&self) -> anyhow::Result<()> {
        let Some(on) = &self.on else { return Ok(()) };
        ensure!(
            self.measures_kernel_alone(),
            "--dev is about the kernel's modes on an interface of this machine: give --backend kernel"
        );
        ensure!(
            self.device == Device::Kernel { interface: Some(on.interface.clone()) },
            "--dev says what connects client and server: omit --over"
        );
        ensure!(on.client.is_ipv4(), "--client {}: the load goes over IPv4, so give such an address", on.client);
        Ok(())
    }

    fn check_irq_modes(&self) -> anyhow::Result<()> {
        let Some(mode) = self.irq_modes.first() else { return Ok(()) };
        ensure!(
            self.has_kernel(),
            "{mode}{IRQ_SUFFIX} is a row of the kernel: give --backend kernel (the engine's softirq runs on the server's CPU \
             anyhow)"
        );
        if let Some(mode) = self.irq_modes.iter().find(|mode| mode.is_threaded()) {
            anyhow::bail!("{mode} has a thread of its own to receive, so there is no {mode}{IRQ_SUFFIX}: omit it");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel() -> CompareConfig {
        CompareConfig {
            device: Device::Xdp { interface: None },
            backends: vec![Backend::Kernel],
            ..CompareConfig::default()
        }
    }

    #[test]
    fn what_does_not_fit_together_is_refused_with_what_to_do() {
        let program = || Some(ProgramConfig { command: vec!["memcached".to_owned()], speaks: None });
        let redis = Some(ProgramConfig { speaks: Some(Speaks::Redis), ..program().unwrap() });
        let both = vec![Backend::Engine, Backend::Kernel];
        let engine = CompareConfig::default;
        for (config, said) in [
            (CompareConfig { device: Device::Link, ..kernel() }, "omit --over"),
            (CompareConfig { backends: both, program: program(), ..kernel() }, "give --backend kernel"),
            (CompareConfig { program: program(), ..engine() }, "give --backend kernel"),
            (CompareConfig { program: program(), service: "6us".parse().ok(), ..kernel() }, "omit it"),
            (CompareConfig { program: redis, ..kernel() }, "--proto tcp"),
            (CompareConfig { irq_modes: vec![Mode::Base], ..engine() }, "give --backend kernel"),
            (CompareConfig { irq_modes: vec![Mode::Threaded], ..kernel() }, "threaded-irq: omit it"),
        ] {
            let error = config.check().expect_err(said).to_string();
            assert!(error.contains(said), "{error}");
        }
        assert!(CompareConfig { queues: 2, program: program(), ..kernel() }.check().is_ok());
    }
}

//! What stands at the two ends of a run: the stack under test in the mode of the row, and the load generator.

use std::ffi::CStr;
use std::net::SocketAddrV4;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use napier_core::control::plan::Plan;
use napier_kv::load::codec::Format;
use napier_kv::load::plan::Measured;
use napier_linux::Veth;
use napier_runtime::device::{DeviceHandle, LinkConfig, MemifRole, NapiStats, XdpConfig};
use napier_runtime::engine::{Engine, ThreadRole};
use napier_runtime::socket::NetNs;

use super::addresses::{CLIENT_THREAD, SERVER, WORKER_THREADS};
use super::child::{self, Task};
use super::generator::{GeneratorEnd, Offer};
use super::kernel::on::Arrived;
use super::kernel::program::{AppliedToProgram, Served};
use super::kernel::{KernelEnd, threads};
use super::place::{On, Testbed};
use super::workload::{OfferedLoad, Workload};
use crate::agent;
use crate::agent::driver::Driver;
use crate::applied::{self, Applied};
use crate::apply;
use crate::cpus::CpuLayout;
use crate::pair::{Pair, Side, add_xdp, start_engine};
use crate::subject::{Backend, Subject};

/// How long the two processes may take to connect.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// The stack under test.
pub(crate) enum Tested {
    Engine { device: DeviceHandle, netns: NetNs },
    Kernel(Box<KernelEnd>),
}

/// Both ends of a run, ready for workers and generator.
pub(crate) struct Ends {
    /// Keeps the generator's time and end, and the server's if the engine is under test.
    pub(crate) engine: Engine,
    pub(crate) tested: Tested,
    /// What serves, if that is a program.
    pub(crate) served: Option<Arc<Served>>,
    /// What of the mode is that program's.
    pub(crate) applied: Option<AppliedToProgram>,
    generator: Generator,
}

/// Where the generator is.
enum Generator {
    Here(GeneratorEnd),
    /// The one thread that drives it holds the lock.
    Child(Mutex<child::Generator>),
    /// Elsewhere.
    Agent(Arc<Mutex<Driver>>),
}

/// Generic receive offload, as the kernel names it.
const GRO: &CStr = c"rx-gro";

impl Ends {
    /// Makes the ends and applies the mode.
    pub(crate) fn new(
        workload: &Workload,
        subject: Subject,
        plan: &Plan,
        cpus: &CpuLayout,
        load: OfferedLoad,
        interrupted: &AtomicBool,
    ) -> anyhow::Result<Self> {
        let mut ends = match (&*workload.place, subject.backend) {
            (Testbed::Link, Backend::Engine) => Self::over_link(workload, cpus)?,
            (Testbed::Veth(veth), Backend::Engine) => Self::over_veth(veth, workload, cpus)?,
            (Testbed::Veth(veth), Backend::Kernel) => Self::of_kernel(veth, workload, (plan, cpus), interrupted)?,
            (Testbed::Memif, Backend::Engine) => Self::over_memif(workload, cpus, load, interrupted)?,
            (Testbed::On(on), Backend::Kernel) => Self::on_interface(on, workload, plan, interrupted)?,
            (Testbed::Link | Testbed::Memif, Backend::Kernel) | (Testbed::On(_), Backend::Engine) => {
                unreachable!("checked with the options")
            }
            (_, Backend::Sim) => unreachable!("what is predicted has no ends"),
        };
        match &mut ends.tested {
            Tested::Engine { device, .. } => {
                apply::mode_on_device(&ends.engine, device, subject.mode, |queue| cpus.poller(queue))?;
                applied::coalesce(device, workload.coalesce)?;
            }
            Tested::Kernel(end) => end.put_in_force(plan, subject.receive, cpus)?,
        }
        ends.applied = ends.served.as_ref().map(|served| served.apply(plan)).transpose()?.flatten();
        Ok(ends)
    }

    fn over_link(workload: &Workload, cpus: &CpuLayout) -> anyhow::Result<Self> {
        let link = LinkConfig { queues: workload.queues, ring_size: workload.ring_size, ..LinkConfig::default() };
        Ok(Self::of_pair(Pair::new(&link, &cpus.workers, &[cpus.client])?, cpus))
    }

    fn over_veth(veth: &Veth, workload: &Workload, cpus: &CpuLayout) -> anyhow::Result<Self> {
        // Packets merged before the program sees them would not fit a frame.
        veth.left().set_feature(GRO, false)?;
        Ok(Self::of_pair(Pair::over_veth(veth, &xdp(workload), &cpus.workers, &[cpus.client])?, cpus))
    }

    fn of_pair(pair: Pair, cpus: &CpuLayout) -> Self {
        let Pair { engine, tested, peer, tested_ns, peer_ns } = pair;
        let generator = GeneratorEnd { engine: engine.clone(), device: peer, netns: peer_ns, cpu: cpus.client };
        Self {
            engine,
            tested: Tested::Engine { device: tested, netns: tested_ns },
            served: None,
            applied: None,
            generator: Generator::Here(generator),
        }
    }

    fn over_memif(
        workload: &Workload,
        cpus: &CpuLayout,
        load: OfferedLoad,
        interrupted: &AtomicBool,
    ) -> anyhow::Result<Self> {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        let task = Task {
            // An abstract address: there is no file that could be left behind.
            socket: format!("@napier-compare-{}-{run}", std::process::id()),
            secret: child::new_secret()?,
            queues: workload.queues,
            ring_size: workload.ring_size,
            cpu: cpus.client,
            proto: workload.proto,
            flows: workload.flows,
            seed: workload.seed,
            arrivals: workload.arrivals,
            pace: load.pace,
            window: load.window,
        };
        let generator = child::Generator::start(&task, interrupted)?;
        let engine = start_engine(&cpus.workers, &[])?;
        let netns = engine.namespace();
        let end = Side::Tested.config(&netns, &cpus.workers);
        let device = engine.add_memif(task.memif(MemifRole::Client)?, end)?;
        Side::Tested.introduce_peer(&netns, &device)?;
        if !device.wait_link(CONNECT_MAX) {
            let reason = device.link_state().reason.unwrap_or_else(|| "nothing came".to_owned());
            anyhow::bail!("the load generator's memif did not come up within {} s: {reason}", CONNECT_MAX.as_secs());
        }
        let generator = Generator::Child(Mutex::new(generator));
        Ok(Self { engine, tested: Tested::Engine { device, netns }, served: None, applied: None, generator })
    }

    fn of_kernel(
        veth: &Veth,
        workload: &Workload,
        (plan, cpus): (&Plan, &CpuLayout),
        interrupted: &AtomicBool,
    ) -> anyhow::Result<Self> {
        let served = workload.program.as_ref().map(|program| program.for_mode(plan, interrupted)).transpose()?;
        let engine = start_engine(&[], &[cpus.client])?;
        let tested = Tested::Kernel(Box::new(KernelEnd::new(veth.left())?));
        let netns = engine.namespace();
        let end = Side::Peer.config(&netns, &[cpus.client]);
        let device = add_xdp(&engine, veth.right(), &xdp(workload), end)?;
        Side::Peer.introduce_peer(&netns, &device)?;
        let generator = GeneratorEnd { engine: engine.clone(), device, netns, cpu: cpus.client };
        Ok(Self { engine, tested, served, applied: None, generator: Generator::Here(generator) })
    }

    fn on_interface(on: &On, workload: &Workload, plan: &Plan, interrupted: &AtomicBool) -> anyhow::Result<Self> {
        let served = workload.program.as_ref().map(|program| program.for_mode(plan, interrupted)).transpose()?;
        // It moves no packets: it keeps the time, and counts the workers.
        let engine = start_engine(&[], &[])?;
        let tested = Tested::Kernel(Box::new(KernelEnd::on(&on.interface)));
        Ok(Self { engine, tested, served, applied: None, generator: Generator::Agent(on.agent.clone()) })
    }

    /// Puts back what the mode changed on an interface that stays.
    pub(crate) fn put_back(&mut self) -> anyhow::Result<()> {
        match &mut self.tested {
            Tested::Kernel(end) => end.put_back(),
            Tested::Engine { .. } => Ok(()),
        }
    }

    /// Offers the load; a generator in this process does it on the calling thread, and tells `started` when it begins.
    pub(crate) fn drive(
        &self,
        workload: &Workload,
        load: OfferedLoad,
        started: Sender<()>,
        interrupted: &AtomicBool,
        on_edge: &mut dyn FnMut(bool),
    ) -> anyhow::Result<Measured> {
        match &self.generator {
            Generator::Here(generator) => {
                let (profile, seed) = (workload.profile.clone(), workload.arrivals);
                let (server, format) = self.server(workload);
                let (proto, flows) = (workload.proto, workload.flows);
                let OfferedLoad { pace, window } = load;
                let started = Some(started);
                let offer = Offer { server, proto, format, profile, flows, seed, pace, window, started };
                let queue_of = |from| self.queue_of(from, workload.queues);
                generator.offer(&offer, &queue_of, interrupted, on_edge)
            }
            Generator::Child(child) => child.lock().expect("one thread drives it").offer(interrupted, on_edge),
            Generator::Agent(agent) => {
                let (server, format) = self.server(workload);
                let &Workload { proto, flows, seed, arrivals, .. } = workload;
                let arrivals = Some(arrivals);
                let OfferedLoad { pace, window } = load;
                let offer =
                    agent::Offer { server, proto, format: format.to_string(), flows, seed, arrivals, pace, window };
                agent.lock().expect("one thread drives it").offer(&offer, &started, interrupted, on_edge)
            }
        }
    }

    /// The generator, if it is in this process.
    pub(super) fn generator_here(&self) -> Option<&GeneratorEnd> {
        match &self.generator {
            Generator::Here(generator) => Some(generator),
            Generator::Child(_) | Generator::Agent(_) => None,
        }
    }

    /// Where the server is, and how requests to it are written.
    fn server(&self, workload: &Workload) -> (SocketAddrV4, Format) {
        match &self.served {
            Some(served) => (served.at, served.format),
            None => (workload.server_at(), Format::Ascii),
        }
    }

    /// The queue of the end under test for a flow.
    pub(super) fn queue_of(&self, from: SocketAddrV4, queues: u16) -> u16 {
        match &self.tested {
            Tested::Engine { device, .. } => device.rx_queue_of(from.into(), SERVER.into()),
            Tested::Kernel(_) => from.port() % queues,
        }
    }

    /// What the device under test was given.
    pub(crate) fn in_force(&self) -> Applied {
        match &self.tested {
            Tested::Engine { device, .. } => applied::of(device),
            Tested::Kernel(_) => Applied::new(),
        }
    }

    /// What the NAPI instances under test have done; `None` where they are not counted.
    pub(crate) fn napi_stats(&self) -> Option<NapiStats> {
        let Tested::Engine { device, .. } = &self.tested else { return None };
        let mut napi = NapiStats::default();
        for queue in 0..device.queues() {
            napi += device.napi_stats(queue);
        }
        Some(napi)
    }

    /// What arrived at an interface of this machine so far; `None` elsewhere.
    pub(crate) fn arrived(&self) -> anyhow::Result<Option<Arrived>> {
        match &self.tested {
            Tested::Kernel(end) => end.arrived(),
            Tested::Engine { .. } => Ok(None),
        }
    }

    /// CPU time of the program that serves so far; zero if none does.
    pub(crate) fn program_cpu(&self) -> Duration {
        self.served.as_ref().map_or(Duration::ZERO, |served| served.cpu())
    }

    /// Context switches of the server's threads so far.
    pub(crate) fn switches(&self) -> u64 {
        match &self.served {
            Some(served) => served.switches(),
            None => threads::switches_of(std::process::id(), &|name| name.starts_with(WORKER_THREADS)),
        }
    }

    /// CPU time of the server so far: workers, and the threads that poll for them.
    pub(crate) fn server_cpu(&self) -> anyhow::Result<Duration> {
        let client_softirq = self.client_only_softirq_cpu();
        let of_server = |role: &ThreadRole| match (&self.tested, role) {
            (_, ThreadRole::Program { name }) => name != CLIENT_THREAD,
            (Tested::Engine { .. }, ThreadRole::Softirq { cpu }) => Some(*cpu) != client_softirq,
            (Tested::Engine { device, .. }, ThreadRole::Napi { device: of, .. }) => of == device.name(),
            (Tested::Engine { .. }, ThreadRole::Worker | ThreadRole::Group { .. }) => true,
            // It moves no packets.
            (_, ThreadRole::MemifControl) => false,
            (Tested::Kernel(_), _) => false,
        };
        let threads: Duration =
            self.engine.thread_times().iter().filter(|thread| of_server(&thread.role)).map(|thread| thread.cpu).sum();
        match &self.tested {
            Tested::Engine { .. } => Ok(threads),
            Tested::Kernel(end) => Ok(threads + end.thread_cpu()? + self.program_cpu()),
        }
    }

    /// The softirq CPU of the generator, if no worker shares it.
    fn client_only_softirq_cpu(&self) -> Option<usize> {
        let (Tested::Engine { device, .. }, Generator::Here(generator)) = (&self.tested, &self.generator) else {
            return None;
        };
        let of = |device: &DeviceHandle| -> Vec<usize> {
            (0..device.queues()).filter_map(|queue| device.irq_cpu(queue)).collect()
        };
        let servers = of(device);
        of(&generator.device).into_iter().find(|cpu| !servers.contains(cpu))
    }
}

/// An AF_XDP device with the workload's queues and rings.
fn xdp(workload: &Workload) -> XdpConfig {
    workload.xdp.on(XdpConfig { queues: workload.queues, ring_size: workload.ring_size, ..XdpConfig::on("") })
}

//! One run: an engine, a link, the server in one mode, the load generator at one load.

use std::net::SocketAddrV4;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use napier_runtime::control::NapiSet;
use napier_runtime::{DeviceHandle, LinkConfig, NapiStats, RawBusyPoll, RawPort, ThreadRole, UserEvent};

use super::client::{Client, Flow, Measured, Pace, Window};
use super::cpus::CpuLayout;
use super::frames::Template;
use super::server::{ServerCounters, WorkerSetup, run_worker};
use crate::kv::flight::InFlight;
use crate::kv::profile::Profile;
use crate::kv::table::Table;
use crate::modes::{ModeParams, PollContext};
use crate::pair::{PEER_IP, Pair, TESTED_IP};

pub(crate) const SERVER: SocketAddrV4 = SocketAddrV4::new(TESTED_IP, 11_211);
pub(crate) const CLIENT_PORT: u16 = 20_000;

/// Name of the generator's thread, whose time is not the server's.
const CLIENT_THREAD: &str = "client";

/// Frames per poll of the load generator.
pub(crate) const CLIENT_BUDGET: u16 = 64;

/// Requests per flow that may be without an answer.
pub(crate) const WINDOW: usize = 1024;

/// What does not change between the runs of a comparison.
#[derive(Clone)]
pub(crate) struct Workload {
    pub(crate) profile: Profile,
    pub(crate) table: Arc<Table>,
    pub(crate) flows: usize,
    pub(crate) queues: u16,
    pub(crate) ring_size: u32,
    pub(crate) seed: u64,
}

/// What one run measured.
#[derive(Clone, Debug)]
pub(crate) struct CaseResult {
    pub(crate) measured: Measured,
    pub(crate) seconds: f64,
    pub(crate) cpu_total: Duration,
    pub(crate) cpu_spin: Duration,
    pub(crate) ticks_per_us: f64,
    pub(crate) napi: NapiStats,
    pub(crate) waits_with_events: u64,
    pub(crate) events: u64,
    pub(crate) fifo: bool,
}

/// Counters at one moment.
#[derive(Clone, Default)]
struct Snapshot {
    at_ns: u64,
    cpu: Duration,
    napi: NapiStats,
    waits_with_events: u64,
    events: u64,
}

/// A server ready for requests.
struct Bench {
    pair: Pair,
    counters: Arc<ServerCounters>,
}

/// Runs one mode at one load.
pub(crate) fn run_case(
    workload: &Workload,
    mode: &ModeParams,
    cpus: &CpuLayout,
    pace: Pace,
    window: Window,
    interrupted: &AtomicBool,
) -> anyhow::Result<CaseResult> {
    let bench = Bench::new(workload, cpus)?;
    bench.configure(mode, cpus)?;
    let stop = UserEvent::new();
    let stop_flag = Arc::new(AtomicBool::new(false));
    let (ready, is_ready) = std::sync::mpsc::sync_channel(cpus.workers.len());
    std::thread::scope(|scope| {
        let workers: Vec<_> = cpus
            .workers
            .iter()
            .enumerate()
            .map(|(index, cpu)| {
                let setup = WorkerSetup {
                    engine: bench.pair.engine.clone(),
                    netns: bench.pair.tested_ns.clone(),
                    address: SERVER,
                    table: workload.table.clone(),
                    counters: bench.counters.clone(),
                    stop: stop_flag.clone(),
                    cpu: *cpu,
                    ready: ready.clone(),
                };
                let (stop, style) = (&stop, &mode.server);
                std::thread::Builder::new()
                    .name(format!("kv/{index}"))
                    .spawn_scoped(scope, move || run_worker(setup, style, stop))
            })
            .collect::<Result<_, _>>()
            .context("starting the workers")?;
        drop(ready);
        // Ends early only if a worker failed; joining it says why.
        let all_ready = cpus.workers.iter().all(|_| is_ready.recv().is_ok());
        if !all_ready {
            stop.trigger();
            stop_flag.store(true, Ordering::Relaxed);
        }
        let client = scope.spawn(|| bench.drive(workload, cpus, pace, window, interrupted));
        let result = client.join().expect("the load generator does not panic");
        stop_flag.store(true, Ordering::Relaxed);
        stop.trigger();
        for worker in workers {
            worker.join().expect("workers do not panic").context("a worker failed")?;
        }
        result
    })
}

impl Bench {
    fn new(workload: &Workload, cpus: &CpuLayout) -> anyhow::Result<Self> {
        let link = LinkConfig { queues: workload.queues, ring_size: workload.ring_size, ..LinkConfig::default() };
        let pair = Pair::new(&link, &cpus.workers, &[cpus.client])?;
        Ok(Self { pair, counters: Arc::default() })
    }

    /// Puts the mode into force on the server's device, by the calls that a user would make.
    fn configure(&self, mode: &ModeParams, cpus: &CpuLayout) -> anyhow::Result<()> {
        if mode.threaded == PollContext::Workqueue {
            self.pair.tested.set_workqueue()?;
        }
        for queue in 0..self.pair.tested.queues() {
            let id = self.pair.tested.napi_id(queue);
            if let Some(cpu) = cpus.pollers.get(usize::from(queue)).or(cpus.workers.get(usize::from(queue))) {
                self.pair.engine.set_thread_affinity(id, *cpu)?;
            }
            self.pair.engine.napi_set(NapiSet {
                id: Some(u64::from(id)),
                defer_hard_irqs: Some(u64::from(mode.defer_hard_irqs)),
                gro_flush_timeout: Some(mode.gro_flush_timeout_ns),
                irq_suspend_timeout: Some(mode.irq_suspend_timeout_ns),
                threaded: match mode.threaded {
                    PollContext::Softirq | PollContext::Workqueue => None,
                    PollContext::Thread => Some(1),
                    PollContext::BusyPollThread => Some(2),
                },
                ..NapiSet::default()
            })?;
        }
        // The generator polls its own end: an interrupt there would measure the generator.
        self.pair.never_interrupt(&self.pair.peer)
    }

    fn drive(
        &self,
        workload: &Workload,
        cpus: &CpuLayout,
        pace: Pace,
        window: Window,
        interrupted: &AtomicBool,
    ) -> anyhow::Result<CaseResult> {
        let _counted = self.pair.engine.count_thread(CLIENT_THREAD, Some(cpus.client));
        let ports = (0..self.pair.peer.queues())
            .map(|queue| {
                let port = RawPort::bind(&self.pair.peer, queue)?;
                port.set_busy_poll(RawBusyPoll { usecs: 1, prefer: true, budget: CLIENT_BUDGET });
                Ok(port)
            })
            .collect::<Result<Vec<_>, napier_runtime::BindRawError>>()?;
        let flows = (0..workload.flows)
            .map(|flow| {
                let port = CLIENT_PORT + u16::try_from(flow).expect("checked with the options");
                let source = SocketAddrV4::new(PEER_IP, port);
                Flow {
                    template: Template::new(self.pair.peer.mac(), self.pair.tested.mac(), source, SERVER),
                    port: usize::from(self.pair.tested_queue(source, SERVER)),
                    in_flight: InFlight::new(WINDOW),
                }
            })
            .collect();
        let mut client = Client {
            engine: self.pair.engine.clone(),
            ports,
            flows,
            first_port: CLIENT_PORT,
            profile: workload.profile.clone(),
            seed: workload.seed,
        };
        let mut edges: Vec<Snapshot> = Vec::with_capacity(2);
        let measured = client.run(pace, window, interrupted, &mut |_| edges.push(self.snapshot()));
        ensure!(!interrupted.load(Ordering::Relaxed), "interrupted");
        let [begin, end] = &edges[..] else { anyhow::bail!("the run ended before measuring began") };
        ensure!(measured.wrong == 0, "{} replies were wrong: the engine or the server is broken", measured.wrong);
        Ok(self.result(measured, begin, end))
    }

    fn snapshot(&self) -> Snapshot {
        let mut napi = NapiStats::default();
        for queue in 0..self.pair.tested.queues() {
            napi += self.pair.tested.napi_stats(queue);
        }
        let client_softirq = self.client_only_softirq_cpu();
        let cpu = self
            .pair
            .engine
            .thread_times()
            .iter()
            .filter(|thread| match &thread.role {
                ThreadRole::Softirq { cpu } => Some(*cpu) != client_softirq,
                ThreadRole::Napi { device } => device == self.pair.tested.name(),
                ThreadRole::Worker => true,
                ThreadRole::MemifControl => false,
                ThreadRole::Program { name } => name != CLIENT_THREAD,
            })
            .map(|thread| thread.cpu)
            .sum();
        Snapshot {
            at_ns: self.pair.engine.now_ns(),
            cpu,
            napi,
            waits_with_events: self.counters.waits_with_events.load(Ordering::Relaxed),
            events: self.counters.events.load(Ordering::Relaxed),
        }
    }

    /// The softirq CPU of the generator, if no worker shares it.
    fn client_only_softirq_cpu(&self) -> Option<usize> {
        let of = |device: &DeviceHandle| -> Vec<usize> {
            (0..device.queues()).filter_map(|queue| device.irq_cpu(queue)).collect()
        };
        let servers = of(&self.pair.tested);
        of(&self.pair.peer).into_iter().find(|cpu| !servers.contains(cpu))
    }

    fn result(&self, measured: Measured, begin: &Snapshot, end: &Snapshot) -> CaseResult {
        let ticks_per_us = self.pair.engine.ticks_per_us();
        let napi = end.napi - begin.napi;
        #[expect(clippy::cast_precision_loss, reason = "figures for a report")]
        let spin = Duration::from_secs_f64(napi.spin_ticks as f64 / ticks_per_us / 1e6);
        let cpu_total = end.cpu.saturating_sub(begin.cpu);
        CaseResult {
            measured,
            seconds: Duration::from_nanos(end.at_ns - begin.at_ns).as_secs_f64(),
            cpu_total,
            // Ticks go on while a polling thread is preempted, so they may exceed its CPU time.
            cpu_spin: spin.min(cpu_total),
            ticks_per_us,
            napi,
            waits_with_events: end.waits_with_events - begin.waits_with_events,
            events: end.events - begin.events,
            fifo: self.pair.engine.softirq_stats().iter().all(|cpu| cpu.fifo),
        }
    }
}

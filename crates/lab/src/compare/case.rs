//! One run: two ends, the server in one mode, the load generator at one load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use napier_core::control::plan::Plan;
use napier_kv::load::net::Proto;
use napier_kv::load::plan::Window;
use napier_kv::serve::engine::EngineNet;
use napier_kv::serve::kernel::{KernelNet, KernelStop};
use napier_runtime::event::UserEvent;

use super::addresses::WORKER_THREADS;
use super::ends::{Ends, Tested};
use super::kernel::counters;
use super::kernel::on::Arrived;
use super::kernel::program::AppliedToProgram;
use super::meter::{CaseResult, Meter, Snapshot};
use super::server::{Common, WorkerMode, WorkerSetup, run_worker};
use super::workload::{OfferedLoad, Workload};
use crate::cpus::CpuLayout;
use crate::roll_call::{Ready, RollCall};
use crate::subject::Subject;

/// More requests than any packet carries.
const REQUESTS_PER_PACKET: u64 = 100;

/// Ends the workers of either kind.
struct Stop {
    flag: Arc<AtomicBool>,
    event: Arc<UserEvent>,
    kernel: KernelStop,
}

impl Stop {
    fn new() -> anyhow::Result<Self> {
        Ok(Self { flag: Arc::default(), event: Arc::new(UserEvent::new()), kernel: KernelStop::new()? })
    }

    fn trigger(&self) {
        self.flag.store(true, Ordering::Relaxed);
        self.event.trigger();
        self.kernel.raise();
    }
}

/// A server ready for requests.
struct Bench<'a> {
    workload: &'a Workload,
    cpus: &'a CpuLayout,
    ends: Ends,
    stop: Stop,
}

/// Runs one mode at one load.
pub(crate) fn run_case(
    workload: &Workload,
    subject: Subject,
    cpus: &CpuLayout,
    load: OfferedLoad,
    interrupted: &AtomicBool,
) -> anyhow::Result<CaseResult> {
    let plan = subject.mode.plan();
    workload.server.restart_service();
    let ends = Ends::new(workload, subject, &plan, cpus, load, interrupted)?;
    let mut bench = Bench { workload, cpus, ends, stop: Stop::new()? };
    let _showing = workload.shown.set(&bench.ends.engine);
    let result = bench.run(&plan, load, interrupted)?;
    bench.ends.put_back().context("another program changed what the mode is made of during the run, or")?;
    Ok(result)
}

/// Packets that come in the time for which polls are counted, so that none of them says something.
const CAME_MIN: u64 = 20;

/// Whether packets came while polls were counted, and none was seen. How many came in the rest of a run does not matter: on a
/// machine that is very slow they come unevenly.
fn is_not_polled(counted: &counters::Counted) -> bool {
    counted.polls == 0 && counted.came.is_some_and(|came| came >= CAME_MIN)
}

/// Fails if requests did not come the way that the modes are about: all figures would be those of something else.
fn check_way(result: &CaseResult) -> anyhow::Result<()> {
    let (Some(Arrived { packets, .. }), answered) = (result.arrived, result.measured.answered) else { return Ok(()) };
    // A packet has a few requests at most; what came another way has none here.
    ensure!(
        packets >= answered / REQUESTS_PER_PACKET,
        "{answered} requests were answered, but only {packets} packets came over the interface: the client reaches the server \
         another way (see `ip route get` there)"
    );
    ensure!(
        !result.counted.as_ref().is_some_and(is_not_polled),
        "{answered} requests were answered, and no NAPI instance of the interface polled: a veth has its packets polled only if the \
         other end does not segment by itself (there: ethtool -K IF tso off)"
    );
    Ok(())
}

impl Bench<'_> {
    fn run(&self, plan: &Plan, load: OfferedLoad, interrupted: &AtomicBool) -> anyhow::Result<CaseResult> {
        // A program has workers of its own, and is ready.
        let count = if self.ends.served.is_some() { 0 } else { self.cpus.workers.len() };
        let call = RollCall::new(count);
        std::thread::scope(|scope| {
            let started = (0..count)
                .map(|index| self.start_worker(scope, index, plan, call.voice()))
                .collect::<Result<Vec<_>, _>>();
            // Those that did start end here, or the scope would wait for them.
            let workers = started.inspect_err(|_| self.stop.trigger()).context("starting the workers")?;
            let result = if call.all_ready() {
                let client = scope.spawn(|| self.drive(load, interrupted));
                client.join().expect("the load generator does not panic")
            } else {
                Err(anyhow::anyhow!("the workers did not start"))
            };
            self.stop.trigger();
            for worker in workers {
                worker.join().expect("workers do not panic").context("a worker failed")?;
            }
            result
        })
    }

    fn start_worker<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        index: usize,
        plan: &'scope Plan,
        ready: Ready,
    ) -> std::io::Result<ScopedJoinHandle<'scope, anyhow::Result<()>>> {
        let thread = std::thread::Builder::new().name(format!("{WORKER_THREADS}{index}"));
        thread.spawn_scoped(scope, move || self.work(index, plan, ready))
    }

    /// A worker, from start to end.
    fn work(&self, index: usize, plan: &Plan, ready: Ready) -> anyhow::Result<()> {
        let (engine, cpu, proto) = (&self.ends.engine, self.cpus.workers[index], self.workload.proto);
        let common = Common { server: self.workload.server.clone(), index, stop: self.stop.flag.clone(), ready };
        match (&self.ends.tested, proto) {
            (Tested::Engine { netns, .. }, Proto::Udp) => {
                let (mode, stop) = (WorkerMode::new(plan.clone()), self.stop.event.clone());
                run_worker(WorkerSetup { common, engine: engine.clone(), netns: netns.clone(), cpu, mode, stop })
            }
            (Tested::Engine { netns, .. }, Proto::Tcp) => {
                let _counted = engine.count_thread("worker", Some(cpu));
                let net = EngineNet::new(engine, netns, &self.stop.event, plan, self.workload.flows)?;
                common.run(net, self.workload.server_at(), proto, plan)
            }
            (Tested::Kernel(kernel), _) => {
                let _counted = engine.count_thread("worker", Some(cpu));
                // Sockets belong to the namespace of the thread that makes them.
                kernel.netns().enter()?;
                let net = KernelNet::new(&self.stop.kernel, plan).context("an event context of the kernel")?;
                common.run(net, self.workload.server_at(), proto, plan)
            }
        }
    }

    fn drive(&self, load: OfferedLoad, interrupted: &AtomicBool) -> anyhow::Result<CaseResult> {
        let counters = match &self.ends.tested {
            Tested::Kernel(_) => self.workload.counters.as_ref(),
            Tested::Engine { .. } => None,
        };
        // In rows of either backend, so that both are measured with the same arrivals.
        let more = if self.workload.counters.is_some() { counters::LASTS } else { Duration::ZERO };
        let window = Window { warm_up: load.window.warm_up + more, ..load.window };
        let load = OfferedLoad { window, ..load };
        let meter = Meter { workload: self.workload, cpus: self.cpus, ends: &self.ends };
        let mut edges: Vec<anyhow::Result<Snapshot>> = Vec::with_capacity(2);
        let on_edge = &mut |_| edges.push(meter.snapshot());
        let packets = || Some(self.ends.arrived().ok()??.packets);
        let (started, go) = channel();
        // Datagrams tell nobody that the server is gone.
        let (over, stop) = (AtomicBool::new(false), AtomicBool::new(false));
        let (measured, counted) = std::thread::scope(|scope| {
            let watched = self.ends.served.as_ref();
            watched.map(|served| scope.spawn(|| served.watch(&over, interrupted, &stop)));
            let counting = counters.cloned().map(|counters| {
                scope.spawn(move || match go.recv() {
                    Ok(()) => counters.lock().expect("no thread panics with them").count(packets),
                    // The load did not begin.
                    Err(_) => Ok(()),
                })
            });
            let ended = if watched.is_some() { &stop } else { interrupted };
            let measured = self.ends.drive(self.workload, load, started, ended, on_edge);
            over.store(true, Ordering::Relaxed);
            (measured, counting.map(|counting| counting.join().expect("it does not panic")))
        });
        // A program that has ended says why; what its clients met follows from that.
        self.ends.served.iter().try_for_each(|served| served.check(measured.is_err()))?;
        self.ends.applied.iter().try_for_each(AppliedToProgram::check)?;
        let measured = measured?;
        ensure!(!interrupted.load(Ordering::Relaxed), "interrupted");
        counted.transpose()?;
        let counted =
            counters.map(|counters| counters.lock().expect("no thread panics with them").read()).transpose()?;
        let result = CaseResult { counted, ..meter.result(measured, edges)? };
        check_way(&result)?;
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_polls_say_nothing_where_hardly_anything_came() {
        let counted = |polls, came| counters::Counted { polls, came, ..counters::Counted::default() };
        assert!(is_not_polled(&counted(0, Some(20))) && is_not_polled(&counted(0, Some(3000))));
        assert!(!is_not_polled(&counted(0, Some(19))), "an emulated machine");
        assert!(!is_not_polled(&counted(1, Some(3000))) && !is_not_polled(&counted(0, None)));
    }
}

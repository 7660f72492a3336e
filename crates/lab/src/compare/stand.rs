//! A server and its client that go on while modes change: each slice is measured in the mode of its row, and the mode is changed while
//! requests are under way.
//!
//! ```text
//! slice begins -> requests in the mode of the last slice -> mode changed -> settles -> margin | measured | margin -> silence
//! ```
//!
//! What cannot be changed in a server that runs has a run of its own for each slice ([`super::case`]): a server that blocks in a receive,
//! a group of CPUs, connections of TCP, the kernel.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use napier_kv::load::generator::Generator;
use napier_kv::load::net::Proto;
use napier_kv::load::plan::Window;
use napier_kv::load::wire::Wire;
use napier_runtime::engine::Engine;
use napier_runtime::event::UserEvent;

use super::addresses::{CLIENT_THREAD, SERVER, WORKER_THREADS};
use super::ends::{Ends, Tested};
use super::meter::{CaseResult, Meter};
use super::place::Testbed;
use super::server::{Common, WorkerMode, WorkerSetup, run_worker};
use super::workload::{OfferedLoad, Workload};
use crate::apply;
use crate::cpus::CpuLayout;
use crate::loads::Load;
use crate::modes::{Mode, ServerStyle};
use crate::offer::plan;
use crate::pair::never_interrupt;
use crate::roll_call::{Ready, RollCall};
use crate::subject::{Backend, Subject};

/// Requests are under way for so long when the mode is changed.
const BEFORE_CHANGE: Duration = Duration::from_millis(2);

/// From the change until anything is read: timers of the mode before it have passed, threads run.
const SETTLE: Duration = Duration::from_millis(12);

/// While counters are read, before the measured time and after it.
pub(super) const MARGIN: Duration = Duration::from_millis(4);

/// How long answers are waited for after the last request.
const DRAIN: Duration = Duration::from_millis(10);

/// When nothing has come for so long, nothing is left of a slice.
const QUIET: Duration = Duration::from_millis(2);

/// But it is not waited for longer than this.
const QUIET_AT_MOST: Duration = Duration::from_millis(500);

/// The first slice, of which nothing is kept: the server has a socket for each flow after it.
const FIRST: Duration = Duration::from_millis(150);

/// What a slice takes beside its measured time, as a rule.
pub(super) const OVERHEAD: Duration = Duration::from_millis(2 + 12 + 2 * 4 + 2 + 2);

/// How often it is looked whether all shall end.
const LOOK: Duration = Duration::from_millis(20);

/// What goes on while modes change.
pub(super) struct Stand {
    shared: Arc<Shared>,
    /// `None` once it ends.
    slices: Option<Sender<SliceTask>>,
    results: Receiver<anyhow::Result<CaseResult>>,
    threads: Vec<JoinHandle<anyhow::Result<()>>>,
    mode: Mode,
}

/// What its threads share.
struct Shared {
    workload: Workload,
    /// Of the modes that need most.
    cpus: CpuLayout,
    ends: Ends,
    mode: Arc<WorkerMode>,
    stop_workers: Arc<UserEvent>,
    stopping: Arc<AtomicBool>,
}

/// One slice for the client.
struct SliceTask {
    pace: Load,
    window: Window,
    seed: u64,
}

/// One slice.
#[derive(Clone, Copy, Debug)]
pub(super) struct SliceOf {
    pub(super) mode: Mode,
    pub(super) pace: Load,
    pub(super) length: Duration,
    /// Of arrivals: slices of one round have the same.
    pub(super) seed: u64,
}

impl Stand {
    /// Whether slices of a row can be measured without a new server and client for each. `among_kernel`: the kernel's rows have the same
    /// interfaces in turn.
    pub(super) fn can_hold(workload: &Workload, subject: Subject, among_kernel: bool) -> bool {
        let is_here = matches!(&*workload.place, Testbed::Link | Testbed::Veth(_));
        let waits = ServerStyle::of(&subject.mode.plan()) == ServerStyle::EventContext;
        let is_engine = subject.backend == Backend::Engine && !among_kernel;
        is_here && is_engine && waits && workload.proto == Proto::Udp && subject.mode != Mode::Group
    }

    /// Starts server and client in mode `base`.
    pub(super) fn start(workload: &Workload, cpus: CpuLayout, interrupted: &AtomicBool) -> anyhow::Result<Self> {
        let base = Subject::engine(Mode::Base);
        let plan = base.mode.plan();
        let window = window(Duration::ZERO);
        workload.server.restart_service();
        let ends = Ends::new(workload, base, &plan, &cpus, OfferedLoad { pace: Load::Max, window }, interrupted)?;
        let shared = Arc::new(Shared {
            workload: workload.clone(),
            cpus,
            ends,
            mode: WorkerMode::new(plan),
            stop_workers: Arc::new(UserEvent::new()),
            stopping: Arc::default(),
        });
        let (slices, tasks) = channel();
        let (done, results) = channel();
        // From here on what has started ends with it.
        let mut stand = Self { shared, slices: Some(slices), results, threads: Vec::new(), mode: Mode::Base };
        let workers = stand.shared.cpus.workers.len();
        let call = RollCall::new(workers);
        for index in 0..workers {
            let (shared, ready) = (stand.shared.clone(), call.voice());
            stand.spawn(format!("{WORKER_THREADS}{index}"), move || shared.work(index, ready))?;
        }
        if !call.all_ready() {
            let failed = stand.threads.drain(..).find_map(|thread| {
                stand.shared.stop_workers.trigger();
                thread.join().expect("workers do not panic").err()
            });
            return Err(failed.unwrap_or_else(|| anyhow::anyhow!("a worker ended"))).context("starting the workers");
        }
        let shared = stand.shared.clone();
        stand.spawn("client".to_owned(), move || {
            shared.serve_client(&tasks, &done).or_else(|error| {
                // If nobody waits, nobody misses it.
                let _ = done.send(Err(error));
                Ok(())
            })
        })?;
        let first = SliceOf { mode: Mode::Base, pace: Load::Max, length: FIRST, seed: workload.seed };
        stand.slice(first, interrupted)?;
        Ok(stand)
    }

    fn spawn(&mut self, name: String, run: impl FnOnce() -> anyhow::Result<()> + Send + 'static) -> anyhow::Result<()> {
        let thread = std::thread::Builder::new().name(name).spawn(run).context("starting a thread")?;
        self.threads.push(thread);
        Ok(())
    }

    /// The engine of both ends.
    pub(super) fn engine(&self) -> &Engine {
        &self.shared.ends.engine
    }

    /// Measures one slice.
    ///
    /// # Errors
    /// The mode is refused, the way between the two ends broke, or it was interrupted.
    pub(super) fn slice(&mut self, slice: SliceOf, interrupted: &AtomicBool) -> anyhow::Result<CaseResult> {
        let task = SliceTask { pace: slice.pace, window: window(slice.length), seed: slice.seed };
        let sent = self.slices.as_ref().is_some_and(|slices| slices.send(task).is_ok());
        ensure!(sent, "the client has ended");
        if slice.mode != self.mode {
            std::thread::sleep(BEFORE_CHANGE);
            self.change(slice.mode)?;
        }
        loop {
            match self.results.recv_timeout(LOOK) {
                Ok(result) => {
                    ensure!(!interrupted.load(Ordering::Relaxed), "interrupted");
                    return result;
                }
                Err(RecvTimeoutError::Timeout) if interrupted.load(Ordering::Relaxed) => {
                    self.shared.stopping.store(true, Ordering::Relaxed);
                    bail!("interrupted");
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => bail!("the client has ended"),
            }
        }
    }

    fn change(&mut self, mode: Mode) -> anyhow::Result<()> {
        let Shared { ends, cpus, mode: of_workers, .. } = &*self.shared;
        let Tested::Engine { device, .. } = &ends.tested else { unreachable!("it holds the engine's rows alone") };
        // First the worker, which resumes what it keeps suspended.
        of_workers.change(&mode.plan());
        apply::mode_on_device(&ends.engine, device, mode, |queue| cpus.poller(queue))?;
        self.mode = mode;
        Ok(())
    }

    /// Nothing polls until the next slice: other servers have the CPUs.
    pub(super) fn rest(&mut self) -> anyhow::Result<()> {
        if self.mode == Mode::Base { Ok(()) } else { self.change(Mode::Base) }
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        self.shared.stop_workers.trigger();
        self.slices = None;
        for thread in self.threads.drain(..) {
            // What it says comes too late: the slices have been measured.
            let _ = thread.join();
        }
    }
}

/// The time of a slice that is measured for so long.
fn window(measure: Duration) -> Window {
    Window { warm_up: BEFORE_CHANGE + SETTLE + MARGIN, measure, margin: MARGIN, drain: DRAIN }
}

impl Shared {
    fn work(&self, index: usize, ready: Ready) -> anyhow::Result<()> {
        let Tested::Engine { netns, .. } = &self.ends.tested else { unreachable!("it holds the engine's rows alone") };
        run_worker(WorkerSetup {
            common: Common { server: self.workload.server.clone(), index, stop: self.stopping.clone(), ready },
            engine: self.ends.engine.clone(),
            netns: netns.clone(),
            cpu: self.cpus.workers[index],
            mode: self.mode.clone(),
            stop: self.stop_workers.clone(),
        })
    }

    /// The client: slice after slice over the same wire.
    fn serve_client(
        &self,
        tasks: &Receiver<SliceTask>,
        done: &Sender<anyhow::Result<CaseResult>>,
    ) -> anyhow::Result<()> {
        let end = self.ends.generator_here().expect("the client of a link or a veth is here");
        let _counted = end.engine.count_thread(CLIENT_THREAD, Some(end.cpu));
        let queue_of = |from| self.ends.queue_of(from, self.workload.queues);
        let wire = end.datagrams(SERVER, self.workload.flows, &queue_of)?;
        // The generator polls its own end: an interrupt there would measure the generator.
        never_interrupt(&end.engine, &end.device)?;
        let first = plan(&self.workload.profile, Proto::Udp, Load::Max);
        let mut generator = Generator::new(wire, self.workload.flows, first);
        while let Ok(task) = tasks.recv() {
            let result = self.measure(&mut generator, &task);
            let is_broken = result.is_err();
            if done.send(result).is_err() || is_broken {
                break;
            }
        }
        Ok(())
    }

    fn measure(&self, generator: &mut Generator<impl Wire>, task: &SliceTask) -> anyhow::Result<CaseResult> {
        let meter = Meter { workload: &self.workload, cpus: &self.cpus, ends: &self.ends };
        let mut edges = Vec::with_capacity(2);
        generator.plan = plan(&self.workload.profile, Proto::Udp, task.pace);
        let on_edge = &mut |_| edges.push(meter.snapshot());
        let measured = generator.run(task.pace, task.window, (task.seed, "client"), &self.stopping, on_edge)?;
        generator.quiesce(QUIET, QUIET_AT_MOST, &self.stopping)?;
        meter.result(measured, edges)
    }
}

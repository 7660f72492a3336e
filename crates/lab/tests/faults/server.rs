//! The server under attack: workers that can be stopped, started in another style, and made to pause.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{anyhow, ensure};
use napier_core::control::plan::Plan;
use napier_kv::serve::net::EVENTS_MAX;
use napier_kv::session::Server as Records;
use napier_runtime::event::{Event, EventContext, UserEvent};

use napier_lab::compare::parts::{Common, EventWorker, Pair, RollCall, WorkerMode, WorkerSetup, run_worker};
use napier_lab::modes::ServerStyle;

/// How often a pausing worker looks whether it may go on.
const PAUSE_LOOK: Duration = Duration::from_micros(200);

/// The workers of one server.
pub(crate) struct Server {
    records: Arc<Records>,
    cpus: Vec<usize>,
    pause: Arc<AtomicBool>,
    running: Option<Running>,
}

struct Running {
    stop: Arc<UserEvent>,
    stop_flag: Arc<AtomicBool>,
    workers: Vec<JoinHandle<anyhow::Result<()>>>,
    contexts: Vec<EventContext>,
    style: ServerStyle,
}

impl Server {
    /// No worker yet.
    pub(crate) fn new(records: Arc<Records>, cpus: &[usize]) -> Self {
        Self { records, cpus: cpus.to_vec(), pause: Arc::default(), running: None }
    }

    /// Starts the workers and waits until they can be reached.
    pub(crate) fn start(&mut self, pair: &Pair, plan: &Plan) -> anyhow::Result<()> {
        assert!(self.running.is_none(), "stopped before it is started again");
        let (stop, stop_flag) = (Arc::new(UserEvent::new()), Arc::new(AtomicBool::new(false)));
        let call = RollCall::new(self.cpus.len());
        let (report, reports) = sync_channel(self.cpus.len());
        let spawn = |(index, cpu): (usize, &usize)| {
            let (server, stop_flag) = (self.records.clone(), stop_flag.clone());
            let common = Common { server, index, stop: stop_flag, ready: call.voice() };
            let (engine, netns) = (pair.engine.clone(), pair.tested_ns.clone());
            let (mode, stop) = (WorkerMode::new(plan.clone()), stop.clone());
            let setup = WorkerSetup { common, engine, netns, cpu: *cpu, mode, stop };
            let (pause, report, plan) = (self.pause.clone(), report.clone(), plan.clone());
            std::thread::spawn(move || match ServerStyle::of(&plan) {
                ServerStyle::EventContext => {
                    let engine = setup.engine.clone();
                    let _counted = engine.count_thread("worker", Some(setup.cpu));
                    let worker = EventWorker::new(setup)?;
                    report.send(worker.context().clone())?;
                    worker.say_ready();
                    run_with_pauses(worker, &pause)
                }
                ServerStyle::BlockingReceive => run_worker(setup),
            })
        };
        let workers: Vec<_> = self.cpus.iter().enumerate().map(spawn).collect();
        drop(report);
        ensure!(call.all_ready(), "a worker did not start");
        let (contexts, style) = (reports.try_iter().collect(), ServerStyle::of(plan));
        self.running = Some(Running { stop, stop_flag, workers, contexts, style });
        Ok(())
    }

    /// Stops the workers; their sockets are closed with what is in them.
    pub(crate) fn stop(&mut self) -> anyhow::Result<()> {
        let Some(running) = self.running.take() else { return Ok(()) };
        self.pause.store(false, Ordering::Relaxed);
        running.stop_flag.store(true, Ordering::Relaxed);
        running.stop.trigger();
        for worker in running.workers {
            worker.join().map_err(|_| anyhow!("a worker panicked"))??;
        }
        Ok(())
    }

    /// Makes the workers stop reading, or go on. Workers that block in a receive do not listen to this.
    pub(crate) fn pause(&self, pause: bool) {
        self.pause.store(pause, Ordering::Relaxed);
    }

    /// What the workers were started as.
    pub(crate) fn style(&self) -> Option<ServerStyle> {
        self.running.as_ref().map(|running| running.style)
    }

    /// Where the workers wait; none if they block in a receive.
    pub(crate) fn contexts(&self) -> &[EventContext] {
        self.running.as_ref().map_or(&[], |running| &running.contexts)
    }
}

fn run_with_pauses(mut worker: EventWorker, pause: &AtomicBool) -> anyhow::Result<()> {
    let mut events = [Event::default(); EVENTS_MAX];
    while worker.turn(&mut events)? {
        while pause.load(Ordering::Relaxed) {
            std::thread::sleep(PAUSE_LOOK);
        }
    }
    Ok(())
}

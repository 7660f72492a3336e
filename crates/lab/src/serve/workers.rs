//! The threads that serve: from their start until they are told to stop.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use napier_kv::serve::net::Net;
use napier_kv::serve::worker::{Worker, run_blocking};
use napier_kv::session::Server;
use napier_sys::usage::thread_usage;

use super::config::ServeConfig;
use crate::modes::ServerStyle;
use crate::roll_call::RollCall;

/// How often it is looked whether the server shall stop.
const STOP_LOOK: Duration = Duration::from_millis(20);

/// CPU time of the workers.
#[derive(Clone, Copy, Default)]
pub(super) struct Used {
    pub(super) cpu: Duration,
    pub(super) system: Duration,
}

/// Serves on `net` in the mode of the configuration, until the net's own end of waits or `stopped`.
pub(super) fn serve_on<N: Net>(
    net: N,
    config: &ServeConfig,
    server: &Server,
    index: usize,
    ready: &dyn Fn(),
    stopped: &AtomicBool,
) -> anyhow::Result<()> {
    let (plan, addresses) = (config.plan(), config.addresses());
    match ServerStyle::of(&plan) {
        ServerStyle::EventContext => {
            let worker = Worker::new(net, server, index, addresses)?;
            let mut worker = worker.with_idle_timeout(config.limits.idle_timeout);
            ready();
            worker.run(plan.wait().map(Duration::from))?;
        }
        ServerStyle::BlockingReceive => {
            let at = addresses.udp.expect("it is always there");
            run_blocking(&net, server, index, at, &plan, ready, || stopped.load(Ordering::Relaxed))?;
        }
    }
    Ok(())
}

/// Runs the worker of a number; it calls back once it can be reached.
pub(super) type RunOne<'a> = dyn Fn(usize, &dyn Fn()) -> anyhow::Result<()> + Sync + 'a;

/// Starts the workers, waits until all can be reached, then until `interrupted` or one of them fails, and ends them.
/// `on_tick` is called again and again meanwhile.
pub(super) fn run_workers(
    workers: usize,
    interrupted: &AtomicBool,
    run_one: &RunOne<'_>,
    stop: &dyn Fn(),
    on_ready: &mut dyn FnMut(),
    on_tick: &mut dyn FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<(f64, Used)> {
    let used = Mutex::new(Used::default());
    let call = RollCall::new(workers);
    std::thread::scope(|scope| {
        let mut threads = Vec::with_capacity(workers);
        for index in 0..workers {
            let (ready, used) = (call.voice(), &used);
            let thread = std::thread::Builder::new().name(format!("kv/{index}")).spawn_scoped(scope, move || {
                let result = run_one(index, &|| ready.say());
                drop(ready);
                let usage = thread_usage();
                let mut sum = used.lock().expect("no holder of the lock panics");
                sum.cpu += usage.user + usage.system;
                sum.system += usage.system;
                result
            });
            match thread {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    stop();
                    return Err(error).context("starting a worker");
                }
            }
        }
        let all_ready = call.all_ready();
        let begun = Instant::now();
        let mut ticked = Ok(());
        if all_ready {
            ticked = on_tick();
            on_ready();
            while ticked.is_ok()
                && !interrupted.load(Ordering::Relaxed)
                && threads.iter().all(|thread| !thread.is_finished())
            {
                std::thread::sleep(STOP_LOOK);
                ticked = on_tick();
            }
        }
        let seconds = begun.elapsed().as_secs_f64();
        stop();
        for thread in threads {
            thread.join().expect("workers do not panic")?;
        }
        ticked.map(|()| seconds)
    })
    .map(|seconds| (seconds, *used.lock().expect("no holder of the lock panics")))
}

//! The executor on a live kernel: pairs of veth interfaces in namespaces without names, the kernel's own sockets, real threads.
//!
//! Packets are sent from the other end of a pair, on the processor that stands for the interrupt's: veth has no interrupt, its
//! driver schedules the instance on the sender's processor and has a flag in place of the mask (`drivers/net/veth.c`
//! `__veth_xdp_flush`). What happens is read from static tracepoints and from what calls return; what neither shows is not
//! looked at, and counted. Times are those of the file unless they are not compared: a file whose point is below a
//! millisecond does not ask for this executor.
//!
//! | file | holds |
//! |---|---|
//! | `refuse` | what cannot be done, found before anything is made |
//! | `rig` | interfaces, sockets, event contexts as the scenario has them at time zero |
//! | `wire` | the other ends of the pairs |
//! | `build`, `addresses` | how it gets there |
//! | `drive` | the packets, the checks, the threads |
//! | `calls`, `control`, `netlink`, `napi`, `sysfs`, `knobs` | the calls, and how their answers are spelled |
//! | `trace`, `order` | what the kernel recorded, as events |
//! | `check`, `counters` | what else can be seen |

mod addresses;
mod build;
mod calls;
mod check;
mod control;
mod counters;
mod drive;
mod knobs;
mod napi;
mod netlink;
mod order;
mod refuse;
mod rig;
mod sysfs;
mod trace;
mod wire;

use napier_core::time::Span;
use napier_runtime::RealTime;
use napier_scenario::compare::Clock;
use napier_scenario::{Call, Kind, Scenario};

use super::real::PRIORITY;
use super::real::timeline::{AFTER_LAST, end};
use super::{Executor, Observed, Refused};

/// Runs scenarios on the kernel of this machine.
#[derive(Copy, Clone)]
pub(super) struct LiveKernel {
    times: bool,
    stretch: u32,
}

impl LiveKernel {
    /// With times, as the files have them.
    pub(super) const fn new() -> Self {
        Self { times: true, stretch: 1 }
    }

    /// Without comparing any, and with all of them multiplied.
    pub(super) const fn without_times(stretch: u32) -> Self {
        Self { times: false, stretch }
    }
}

impl Executor for LiveKernel {
    fn name(&self) -> &'static str {
        "kernel"
    }

    fn clock(&self) -> Clock {
        Clock::Kernel { times: self.times }
    }

    fn stretch(&self) -> u32 {
        self.stretch
    }

    fn run(&mut self, scenario: &Scenario) -> Result<Observed, Refused> {
        // On a thread of its own, for a run pins its threads and changes their namespaces.
        let ended = std::thread::scope(|scope| scope.spawn(|| self.run_here(scenario)).join());
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl LiveKernel {
    fn run_here(&self, scenario: &Scenario) -> Result<Observed, Refused> {
        let cpus = napier_runtime::available_cpus();
        refuse::check(scenario, cpus.len())?;
        let mut trace = trace::Trace::begin(scenario)?;
        // All threads of the run, so that other programs do not move its times; where it is not allowed, a run that was late
        // is refused.
        let _real_time = RealTime::begin(PRIORITY).ok();
        let (rig, wire) = rig::KernelRig::build(scenario, cpus, trace.names())?;
        trace.learn(scenario)?;
        let before = counters::KernelReading::take(&rig)?;
        let tolerance = scenario.kernel.tolerance.filter(|_| self.times);
        let run =
            drive::run(&rig, &wire, end(scenario, Span::from_ns(AFTER_LAST.ns * u64::from(self.stretch))), tolerance)?;
        let after = counters::KernelReading::take(&rig)?;
        let mut events = trace.events(&rig, &run, self.stretch)?;
        let counters = counters::since(scenario, &before, &after, &events);
        events.extend(run.driven.failures);
        events.extend(run.driven.returns);
        events.sort_by_key(|seen| seen.at);
        Ok(Observed { events, counters, broken: None, disturbed: None })
    }
}

/// Whether calls change the mode of NAPI threads, so that it has to be followed.
fn sets_threads(call: &Call) -> bool {
    match call {
        Call::NapiSet { attributes, .. } => attributes.iter().any(|(name, _)| name == "threaded"),
        Call::Write { file, .. } => *file == napier_core::control::DevAttribute::Threaded,
        _ => false,
    }
}

/// Whether a run is judged by one of these.
fn watches(scenario: &Scenario, kinds: &[Kind]) -> bool {
    scenario.watched_on_kernels().iter().any(|kind| kinds.contains(kind))
}

#[cfg(test)]
mod tests;

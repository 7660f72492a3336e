//! The executor on a live kernel: pairs of veth interfaces in namespaces without names, the kernel's own sockets, real threads.
//!
//! Packets are sent from the other end of a pair, on the processor that stands for the interrupt's: veth has no interrupt, its
//! driver schedules the instance on the sender's processor and has a flag in place of the mask (`drivers/net/veth.c`
//! `__veth_xdp_flush`). What happens is read from static tracepoints and from what calls return; what neither shows is not
//! looked at, and counted. Times are those of the file where the machine can keep to them; else all are multiplied by what it needs
//! (`pace`), and none is compared. A file whose point is below a millisecond does not ask for this executor.
//!
//! | file | holds |
//! |---|---|
//! | `refuse` | what cannot be done, found before anything is made |
//! | `rig` | interfaces, sockets, event contexts as the scenario has them at time zero |
//! | `wire` | the other ends of the pairs |
//! | `build`, `addresses` | how it gets there |
//! | `pace` | how slowly a scenario is carried out on this machine |
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
mod pace;
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
use super::real::clock::HEAD_START;
use super::real::timeline::{AFTER_LAST, end, shortest_gap};
use super::{Executor, Observed, Refused};
use pace::Pace;

/// A machine that is slower than this needs no longer for threads to begin.
const SLOWNESS_MAX: u32 = 64;

/// Runs scenarios on the kernel of this machine.
pub(super) struct LiveKernel {
    /// What it was told: whether times are compared, and a pace.
    wants_times: bool,
    given: Option<u32>,
    /// What this machine is like, once that was looked at.
    machine: Option<pace::Keeping>,
    /// That of the run.
    pace: Pace,
}

impl LiveKernel {
    /// With times as the files have them, where this machine can keep to them.
    pub(super) const fn new() -> Self {
        Self { wants_times: true, given: None, machine: None, pace: Pace::WRITTEN }
    }

    /// Without comparing any, and with all of them multiplied by what is given, or by what this machine needs.
    pub(super) const fn without_times(stretch: Option<u32>) -> Self {
        Self { wants_times: false, given: stretch, machine: None, pace: Pace { times: false, ..Pace::WRITTEN } }
    }
}

impl Executor for LiveKernel {
    fn name(&self) -> &'static str {
        "kernel"
    }

    fn clock(&self) -> Clock {
        Clock::Kernel { times: self.pace.times }
    }

    fn take_pace(&mut self, scenario: &Scenario, nth: usize) -> bool {
        let paces = match self.given {
            Some(stretch) => vec![Pace { stretch, times: false }],
            None => pace::paces(scenario, self.machine.get_or_insert_with(pace::look), self.wants_times),
        };
        let taken = paces.get(nth).copied();
        self.pace = taken.unwrap_or(self.pace);
        taken.is_some()
    }

    fn stretch(&self) -> u32 {
        self.pace.stretch
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
        let Pace { stretch, times } = self.pace;
        // In the order of the timeline, where it is this executor's to say how slowly.
        let in_order = shortest_gap(scenario).map(|gap| Span::from_ns(gap.ns / 2));
        let late_max = if times { scenario.kernel.tolerance } else { in_order.filter(|_| self.given.is_none()) };
        // Where no times are compared, threads may take long to be there, and what no file expects to come.
        let slowness = if times { 1 } else { u64::from(stretch.clamp(10, SLOWNESS_MAX)) };
        let after_last = Span::from_ns(AFTER_LAST.ns * slowness.min(stretch.into()));
        let head = Span::from_ns(HEAD_START.ns * slowness);
        // What cannot be read then is said when all is.
        let meanwhile = || drop(trace.make_room());
        let run = drive::run(&rig, &wire, end(scenario, after_last), late_max, head, meanwhile)?;
        let after = counters::KernelReading::take(&rig)?;
        let mut events = trace.events(&rig, &run, stretch)?;
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

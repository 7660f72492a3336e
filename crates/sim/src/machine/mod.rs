//! A machine in virtual time: CPUs with interrupt, softirq and thread level, NICs, timers, sockets, event contexts and
//! the programs of a scenario. It calls the rules of `napier_core` as the engine does, and is checked after each step.
//!
//! It is built in floors. Each is a struct that holds the one below and derefs to it, owns what is its own, and knows nothing above:
//!
//! | floor | folder | owns |
//! |---|---|---|
//! | `World` | `world`, `steps` | the programs of a scenario and its timeline; hands events to the parts |
//! | `Peers` | `peers` | clients, and the hosts at the other end of a wire |
//! | `Grouped` | `group` | CPUs that poll for ever |
//! | `Outbound` | `tx` | disciplines, transmit queues, drivers' rings |
//! | `Network` | `net` | sockets, event contexts, the way of a packet up to them |
//! | `Devices` | `dev` | receive rings, interrupts, NAPI instances |
//! | `Cpus` | `cpu` | levels and threads of CPUs, what work costs, where the time went |
//! | `Sim` | `sim` | the clock, events, chance, the log |
//!
//! | file | holds |
//! |---|---|
//! | `vm`, `exec` | the handle by which code on a CPU acts on the world, and the loop that lets it go on |
//! | `kernel` | that code: the kernel's functions, step by step |
//! | `setup` | from a scenario to a machine whose devices are up |
//! | `invariants`, `counters` | what must hold after every step, and what is counted |
//! | `runs`, `laws` | runs for figures, and what must hold of every one of them |
//!
//! The same scenario gives the same run: time is integer nanoseconds, events of one instant keep the order in which
//! they were made, randomness is seeded, and nothing depends on an address or a hash.

#[macro_use]
mod floor;

mod counters;
mod cpu;
mod dev;
mod exec;
mod group;
mod invariants;
mod kernel;
mod laws;
mod net;
mod peers;
mod runs;
mod setup;
mod sim;
mod steps;
mod tx;
mod vm;
mod world;

/// The old name of [`bulk`].
#[deprecated(note = "use `bulk`")]
pub mod flows {
    pub use super::bulk::*;
}

/// The old name of [`rpc`].
#[deprecated(note = "use `rpc`")]
pub mod hosts {
    pub use super::figures::Figures as Trip;
    pub use super::rpc::{RpcPoller as Poller, RpcProgram as Program, *};
}

/// The old name of [`smp`].
#[deprecated(note = "use `smp`")]
pub mod many {
    pub use super::smp::*;
}

/// The old name of [`trace`].
#[deprecated(note = "use `trace`")]
pub mod story {
    pub use super::trace::{Trace as Story, run as tell, *};
}

use napier_core::time::Instant;

pub use cpu::work::{Account, Class, Disturbance, Work, WorkCosts, WorkTimes};
pub use dev::tune::{TUNERS, TunedPoll, Tuner, TunerKind};
pub use peers::arrivals::Shape;
pub use peers::clients::{Clients, RTO_MIN};
pub use peers::recorded::RecordedArrivals;
pub use runs::{bulk, figures, rpc, smp, trace};
pub use sim::coverage::{Coverage, Decision};
pub use sim::plant::{Options, Plant};
#[cfg(test)]
pub(crate) use world::STEP_BY_STEP;

use napier_scenario::{Scenario, Seen};

/// What came of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// What was seen, in order; empty without [`Options::log`].
    pub events: Vec<Seen>,
    /// Counters at the end.
    pub counters: Vec<(String, i64)>,
    /// An invariant that did not hold, and when.
    pub broken: Option<String>,
    /// Steps of contexts and events.
    pub steps: u64,
    /// What occurred at all.
    pub coverage: Coverage,
}

/// Runs a scenario in virtual time and logs what happens.
#[must_use]
pub fn run(scenario: &Scenario) -> Outcome {
    run_with(scenario, &Options { log: true, ..Options::default() })
}

/// Runs a scenario. An assertion of the rules that fails is reported as broken, like an invariant.
#[must_use]
pub fn run_with(scenario: &Scenario, options: &Options) -> Outcome {
    let run = || run_to_end(scenario, options);
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        Outcome {
            events: Vec::new(),
            counters: Vec::new(),
            broken: Some(format!("an assertion failed: {text}")),
            steps: 0,
            coverage: Coverage::default(),
        }
    })
}

fn run_to_end(scenario: &Scenario, options: &Options) -> Outcome {
    let mut exec = setup::build(scenario, options);
    let end = {
        let w = exec.vm.w();
        let last = scenario.timeline.last().map_or(Instant::ZERO, |step| step.at);
        Instant::from_ns(w.epoch.ns + last.ns) + scenario.expect.settle
    };
    exec.run_until(end);
    let mut w = exec.vm.w();
    if w.broken.is_none() && w.steps <= w.steps_max {
        w.check_conserved();
        if scenario.expect.drains {
            w.check_drained();
            w.check_tx_drained();
        }
        if options.calls_end {
            w.check_calls_ended(scenario);
        }
    }
    Outcome {
        counters: w.counters(),
        events: w.log.take().unwrap_or_default(),
        broken: w.broken.take(),
        steps: w.steps,
        coverage: w.cover.clone(),
    }
}

#[cfg(test)]
mod tests;

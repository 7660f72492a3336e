//! The farm: random machines with random timelines and faults, each checked after every step and at its end.
//!
//! One seed is one scenario ([`scenario`]), so a seed that fails is a scenario that fails: [`shrink`] makes it small
//! and [`Scenario::to_toml`] writes it down.

mod generate;
mod groups;
mod quiet;
mod random;
mod shrink;
mod transmit;
mod waiters;

pub use generate::scenario;
pub use shrink::shrink;

use std::sync::atomic::{AtomicBool, Ordering};

use crate::machine::{Coverage, Decision, Options, Outcome, Plant, run_with};
use napier_scenario::{Kind, Scenario};

/// The mistakes that a campaign must be able to find.
pub const CANARIES: &[Plant] = &[
    Plant::ArmBeforeRelease,
    Plant::HandOverAndForget,
    Plant::NoSecondLook,
    Plant::TimerIgnoresOwner,
    Plant::UncountedLoss,
    Plant::SilentWake,
    Plant::RequeueAtTheBack,
    Plant::TornTake,
    Plant::DeferCountKept,
    Plant::ParkWithoutSecondLook,
    Plant::TwoPollers,
];

/// How seeds are run.
#[must_use]
pub const fn options(plant: Plant) -> Options {
    Options { log: false, calls_end: true, plant, steps_max: None }
}

/// Runs one seed.
#[must_use]
pub fn run_seed(seed: u64) -> Outcome {
    run_with(&scenario(seed), &options(Plant::Nothing))
}

/// Seeds from `first` on until the planted mistake is found, at most `most`; the seed that found it.
#[must_use]
pub fn find_canary(plant: Plant, first: u64, most: u64, stop: &AtomicBool) -> Option<u64> {
    let search = || {
        (0..most)
            .map(|index| first.wrapping_add(index))
            .take_while(|_| !stop.load(Ordering::Relaxed))
            .find(|seed| run_with(&scenario(*seed), &options(plant)).broken.is_some())
    };
    // An assertion that fails there is what was looked for.
    quiet::quietly(search)
}

/// Events and decisions that never occurred.
#[must_use]
pub fn missing(coverage: &Coverage) -> Vec<&'static str> {
    let events = Kind::ALL.iter().filter(|kind| **kind != Kind::CheckFailed && coverage.of_event(**kind) == 0);
    let decisions = Decision::ALL.iter().filter(|decision| coverage.of_decision(**decision) == 0);
    events.map(|kind| kind.name()).chain(decisions.map(|decision| decision.text())).collect()
}

/// A failing seed as a small scenario, and what goes wrong in it.
#[must_use]
pub fn explain(seed: u64, plant: Plant) -> (Scenario, String) {
    // It was said already, when the seed was run.
    quiet::quietly(|| shrink(&scenario(seed), &options(plant)))
}

#[cfg(test)]
mod tests;

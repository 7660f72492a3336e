//! The executor in virtual time.

use napier_scenario::Scenario;
use napier_scenario::compare::Clock;
use napier_sim::machine;

use super::{Executor, Observed, Refused};

/// Runs scenarios on the simulated machine.
pub(super) struct Sim;

impl Executor for Sim {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn clock(&self) -> Clock {
        Clock::Virtual
    }

    fn run(&mut self, scenario: &Scenario) -> Result<Observed, Refused> {
        let outcome = machine::run(scenario);
        Ok(Observed { events: outcome.events, counters: outcome.counters, broken: outcome.broken, disturbed: None })
    }
}

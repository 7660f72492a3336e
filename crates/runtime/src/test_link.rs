//! What tests inside the engine begin with.

use std::time::{Duration, Instant};

use napier_core::state::State;

use crate::napi::Napi;
use crate::{EndConfig, Engine};

/// Longest time that anything may take. Only a stall takes that long, on however busy a machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until `holds`.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "stalled: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// An end without addresses, in a name space of its own.
pub(crate) fn end(engine: &Engine, name: &str, mac: u8) -> EndConfig {
    EndConfig {
        name: name.to_owned(),
        netns: engine.namespace(),
        mac: [2, 0, 0, 0, 0, mac],
        addresses: Vec::new(),
        irq_cpus: Vec::new(),
    }
}

/// The first look at the ring is over, and nobody has the instance.
pub(crate) fn is_at_rest(napi: &Napi) -> bool {
    !napi.state().contains(State::SCHED)
}

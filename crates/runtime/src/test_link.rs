//! What tests inside the engine begin with.

use napier_core::state::State;
pub(crate) use napier_testkit::{PATIENCE, eventually};

use crate::device::EndConfig;
use crate::engine::Engine;
use crate::napi::Napi;

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

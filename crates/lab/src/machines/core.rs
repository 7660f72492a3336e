//! What a simulated machine runs: a core in a mode, and its clients.

use crate::loads::Load;
use std::sync::Arc;

use napier_core::completion::Tunables;
use napier_core::control::plan::Plan;
use napier_core::control::{NapiChange, ThreadedSetting};
use napier_core::time::Span;
use napier_sim::machine::figures::Core;
use napier_sim::machine::{Clients, RTO_MIN, Work};

use super::MachineFile;
use crate::modes::Mode;

/// Events of one wait at most: libevent asks for as many as were there before, and more.
const EVENTS_MAX: usize = 4096;
/// Bytes of a request's frame: headers, the key, the command.
const REQUEST_BYTES: u32 = 120;

/// What a mode's plan sets on an instance.
#[must_use]
pub fn instance_settings(set: &Plan) -> (Tunables, ThreadedSetting) {
    let (mut tunables, mut threaded) = (Tunables::default(), ThreadedSetting::Disabled);
    for change in set.changes() {
        match change {
            NapiChange::Threaded(setting) => threaded = setting,
            NapiChange::DeferHardIrqs(count) => tunables.defer_hard_irqs = count,
            NapiChange::IrqSuspendTimeout(span) => tunables.irq_suspend_timeout = span,
            NapiChange::GroFlushTimeout(span) => tunables.gro_flush_timeout = span,
        }
    }
    (tunables, threaded)
}

/// A core of a machine in a mode, with a program whose requests take times of these beside.
#[must_use]
pub fn core_of(machine: &MachineFile, mode: Mode, service_ns: Arc<[u64]>) -> Core {
    let set = mode.plan();
    let (tunables, threaded) = instance_settings(&set);
    Core {
        disturbance: machine.disturbance,
        slower_closed_pct: machine.slower_closed_pct,
        polls_at_stop: machine.polls_at_stop,
        hz: machine.hz,
        moderates: !machine.apply.is_zero(),
        apply: machine.apply,
        tunables,
        threaded,
        apart: threaded == ThreadedSetting::BusyPoll,
        epoll: set.context().unwrap_or_default(),
        wait: set.wait(),
        warm_max: machine.warm_max,
        service_ns,
        ..Core::of(machine.costs, EVENTS_MAX)
    }
}

/// A machine's clients, with so many connections to one queue. How many queues there are beside it is nothing to them.
#[must_use]
pub fn clients_of(machine: &MachineFile, connections: u16, load: Load) -> Clients {
    let client = machine.client;
    let rate_rps = match load {
        Load::Rps(rate_rps) => rate_rps.min(client.step_grows_until_rps),
        Load::Max => 0,
    };
    let grown = |at_rest: u64, per_100k: u64| at_rest + per_100k * rate_rps / 100_000;
    // A closed loop keeps its client busy all the time, so that it has no interrupts of its own to meet.
    let is_closed = load == Load::Max;
    let step_share = if is_closed { 0 } else { grown(client.step_share, client.step_share_per_100k) };
    Clients {
        connections,
        load,
        to_server: Span::from_ns(client.to_server_ns),
        to_client: Span::from_ns(client.to_client_ns),
        to_client_noise: Span::from_ns(client.to_client_noise_ns),
        step_per_100k: u32::try_from(step_share).unwrap_or(u32::MAX),
        step: (
            Span::from_ns(client.step_least_ns),
            Span::from_ns(grown(client.step_most_ns, client.step_most_per_100k_ns)),
        ),
        request_bytes: REQUEST_BYTES,
        acknowledges: !machine.costs.get(Work::AckUp).is_zero(),
        rto_min: Some(RTO_MIN),
    }
}

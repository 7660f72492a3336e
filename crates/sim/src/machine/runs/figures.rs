//! Runs for figures: hosts and what comes to them, by the same rules as every other run.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use napier_rng::load::Load;

use crate::machine::peers::bulk::Flows;
use crate::machine::peers::clients::Clients;
use crate::machine::peers::recorded::RecordedArrivals;
use crate::machine::peers::rpc::Traffic;
use crate::machine::runs::measure::measure;
pub use crate::machine::runs::measure::{Figures, Length, RunSlice};
use crate::machine::runs::rpc::{Hosts, RpcPair};
pub use crate::machine::runs::server::Core;
use crate::machine::runs::server::ServedCore;
use crate::machine::runs::smp::Many;

/// Hosts, what runs on them, and who sends.
#[derive(Clone, Debug)]
pub enum Setting {
    /// A server of one queue, and its clients. A closed loop is run for longer than was asked for if each connection would not have its
    /// turn several times.
    Server(Core, Clients),
    /// The same, with requests as they were recorded, whatever rate and connections the clients have.
    Replayed(Core, Clients, Arc<RecordedArrivals>),
    /// The same with datagrams to one socket, at a rate, for which no one waits; how many connections there are is nothing to it.
    Datagrams(Core, Clients),
    /// Two hosts on a wire, one packet at a time back and forth.
    Pair(Hosts, Traffic),
    /// Two hosts of many CPUs, programs of many threads, messages of any size.
    Flows(Flows),
    /// A server of many CPUs, and who polls there.
    Many(Many),
}

/// One run: the same gives the same figures.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Of what.
    pub setting: Setting,
    /// How long.
    pub length: Length,
    /// Where all randomness comes from.
    pub seed: u64,
}

/// Runs an experiment.
///
/// # Panics
/// The rules' own assertions, and a machine that does not [fit](Many::fits).
#[must_use]
pub fn run(of: &Experiment) -> Figures {
    run_or_stop(of, &AtomicBool::new(false)).expect("nothing stops it")
}

/// The same; `None` if `stop` was set.
///
/// # Panics
/// Likewise.
#[must_use]
pub fn run_or_stop(of: &Experiment, stop: &AtomicBool) -> Option<Figures> {
    match &of.setting {
        Setting::Server(core, clients) => {
            let of_core = ServedCore { core, clients, recorded: None, datagrams: false };
            measure(&of_core, of.length, of.seed, stop)
        }
        Setting::Replayed(core, clients, recorded) => {
            let connections = u16::try_from(recorded.connections()).unwrap_or(u16::MAX);
            let load = Load::Rps((recorded.rate_rps() as u64).max(1));
            let clients = &Clients { connections, load, ..*clients };
            let of_core = ServedCore { core, clients, recorded: Some(recorded), datagrams: false };
            measure(&of_core, of.length, of.seed, stop)
        }
        Setting::Datagrams(core, clients) => {
            let of_core = ServedCore { core, clients, recorded: None, datagrams: true };
            measure(&of_core, of.length, of.seed, stop)
        }
        Setting::Pair(hosts, traffic) => measure(&RpcPair { hosts, traffic }, of.length, of.seed, stop),
        Setting::Flows(flows) => measure(flows, of.length, of.seed, stop),
        Setting::Many(many) => measure(many, of.length, of.seed, stop),
    }
}

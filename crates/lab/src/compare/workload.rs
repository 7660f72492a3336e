//! What does not change between the runs of a comparison.

use crate::loads::Load;
use std::net::SocketAddrV4;
use std::sync::{Arc, Mutex};

use napier_kv::load::net::Proto;
use napier_kv::load::plan::Window;
use napier_kv::profile::Profile;
use napier_kv::session::Server;
use napier_runtime::device::Coalesce;

use super::addresses::SERVER;
use super::kernel::counters::InstanceCounters;
use super::kernel::program::ServerProgram;
use super::place::Testbed;
use crate::cpus::CpuLayout;
use crate::device::XdpWay;
use crate::shown::Shown;

/// What is offered in a run, and when it is measured.
#[derive(Clone, Copy)]
pub(crate) struct OfferedLoad {
    pub(crate) pace: Load,
    pub(crate) window: Window,
}

/// What does not change between the runs of a comparison.
#[derive(Clone)]
pub(crate) struct Workload {
    pub(crate) profile: Profile,
    pub(crate) proto: Proto,
    /// Records, and what the workers count.
    pub(crate) server: Arc<Server>,
    pub(crate) place: Arc<Testbed>,
    /// What serves in rows of the kernel; `None`: our own server.
    pub(crate) program: Option<Arc<ServerProgram>>,
    /// What counts in rows of the kernel.
    pub(crate) counters: Option<Arc<Mutex<InstanceCounters>>>,
    /// Why nothing counts there, though it was asked for.
    pub(crate) untraced: Option<String>,
    pub(crate) flows: usize,
    pub(crate) queues: u16,
    pub(crate) ring_size: u32,
    pub(crate) seed: u64,
    /// From which the times of requests come, and which are asked for: others in each round.
    pub(crate) arrivals: u64,
    /// Of the engine's device under test.
    pub(crate) coalesce: Coalesce,
    /// Of AF_XDP devices at either end.
    pub(crate) xdp: XdpWay,
    pub(crate) shown: Shown,
}

impl Workload {
    /// CPUs on which only this process is to be busy. The generator's own process is another one.
    pub(crate) fn watched(&self, cpus: &CpuLayout) -> Vec<usize> {
        let mut watched = cpus.of_server();
        if self.has_client_here() && !watched.contains(&cpus.client) {
            watched.push(cpus.client);
        }
        watched
    }

    /// Whether the generator is in this process.
    pub(crate) fn has_client_here(&self) -> bool {
        match &*self.place {
            Testbed::Link | Testbed::Veth(_) => true,
            Testbed::Memif | Testbed::On(_) => false,
        }
    }

    /// Where our own server listens.
    pub(crate) fn server_at(&self) -> SocketAddrV4 {
        match &*self.place {
            Testbed::On(on) => SocketAddrV4::new(on.interface.address, SERVER.port()),
            Testbed::Link | Testbed::Veth(_) | Testbed::Memif => SERVER,
        }
    }
}

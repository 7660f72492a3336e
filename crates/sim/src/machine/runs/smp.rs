//! A run for figures: a server of many CPUs, with a queue and a program's thread for every second of them, and CPUs that poll.
//!
//! ```text
//!  node 0:  cores 0..c/2   programs, both threads of a core       (queue q's program)
//!           cores c/2..c   who polls, likewise                    (queue q's thread, or a CPU of the node's group)
//!  node 1:  the same
//! ```
//! Where programs poll for themselves, or softirqs do, no other thread needs a CPU: then each program has a core for itself.
//! Clients take no time and their answers meet nothing, so that latency is that of the server alone.

use napier_core::group::Settings;
use napier_core::time::{Instant, Span};

use crate::machine::cpu::place::HostCpus;
use crate::machine::cpu::place::Placement;
use crate::machine::cpu::work::{Work, WorkCosts};
use crate::machine::exec::Code;
use crate::machine::laws::LawsLook;
use crate::machine::peers::arrivals::Rates;
use crate::machine::peers::arrivals::Shape;
use crate::machine::peers::clients::{Asking, Clients, RTO_MIN};
use crate::machine::runs::measure::{CpuUse, Latencies, Staged};
use crate::machine::runs::server::{Core, ServerProgram, serve_main};
use crate::machine::vm::K;
use crate::machine::world::World;
use napier_rng::load::Load;
use napier_scenario::{CpuIx, Device, Epoll, Group, Machine, NapiIx, Policy, Socket, SocketIx, Thread, Topology};

/// Who has CPUs for polling.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Polling {
    /// No CPU: programs do it, or softirqs on theirs.
    NoCpus,
    /// The thread of each instance has one.
    Threads,
    /// A group for each memory node.
    Groups(Settings),
}

/// The server and its clients.
#[derive(Clone, Debug)]
pub struct Many {
    /// Costs and settings, of each queue and its program.
    pub core: Core,
    /// CPUs, [`Many::fits`].
    pub cpus: u16,
    /// Memory nodes.
    pub nodes: u16,
    /// By how much work is slower while the other thread of the core works, in percent.
    pub sibling_pct: u32,
    /// A CPU that was idle for so long sleeps deeply; 0: never.
    pub deep_after: Span,
    /// Who polls.
    pub polling: Polling,
    /// Connections of each queue, with one request out at a time.
    pub connections: u16,
    /// Requests per second of each queue that are 100 %.
    pub full_rps: u64,
    /// How the load goes; `None`: a closed loop.
    pub shape: Option<Shape>,
    /// From a client to the server's ring, and back.
    pub way: (Span, Span),
}

impl Many {
    /// Whether a server can have so many CPUs: two threads a core, and an even number of cores on each node.
    #[must_use]
    pub const fn fits(cpus: u16, nodes: u16) -> bool {
        nodes > 0 && cpus > 0 && cpus.is_multiple_of(4 * nodes)
    }

    const fn topology(&self) -> Topology {
        Topology { threads_per_core: 2, nodes: self.nodes }
    }

    /// Queues: one for each core.
    #[must_use]
    pub const fn queues(&self) -> u16 {
        self.cpus / 2
    }

    /// The CPU of a queue's program.
    fn program_cpu(&self, queue: u16) -> CpuIx {
        if self.polling == Polling::NoCpus { CpuIx(queue) } else { self.half(queue, 0) }
    }

    /// The CPU of a queue's thread. Those of all queues are the CPUs of groups.
    fn polling_cpu(&self, queue: u16) -> CpuIx {
        if self.polling == Polling::NoCpus { CpuIx(queue) } else { self.half(queue, 1) }
    }

    /// A CPU of the first or the second half of the cores of the queue's node.
    fn half(&self, queue: u16, which: u16) -> CpuIx {
        let cores = self.queues();
        let of_node = cores / self.nodes;
        let (node, nth) = (queue / of_node, queue % of_node);
        let half = of_node / 2;
        CpuIx(node * of_node + which * half + nth % half + nth / half * cores)
    }
}

impl Staged for Many {
    fn costs(&self) -> WorkCosts {
        self.core.costs
    }

    fn machine(&self, seed: u64) -> Machine {
        assert!(Self::fits(self.cpus, self.nodes), "equal halves of nodes");
        let queues = self.queues();
        let device = Device {
            tunables: self.core.tunables,
            threaded: self.core.threaded,
            ..Device::new("eth0", queues, |queue| self.polling_cpu(queue))
        };
        let socket = |nth: u16| Socket::tcp(format!("c{nth}"), NapiIx(nth % queues));
        let thread = |name: String, cpu| Thread { name, cpu, policy: Policy::Fair, cap_net_admin: true };
        let mut threads: Vec<Thread> =
            (0..queues).map(|queue| thread(format!("server{queue}"), self.program_cpu(queue))).collect();
        threads.push(thread("ctl".to_owned(), self.program_cpu(0)));
        let epoll = |queue: u16| Epoll {
            name: format!("ep{queue}"),
            params: self.core.epoll,
            members: (0..self.connections).map(|nth| SocketIx(nth * queues + queue)).collect(),
        };
        Machine {
            topology: self.topology(),
            devices: vec![device],
            threads,
            sockets: (0..queues * self.connections).map(socket).collect(),
            epolls: (0..queues).map(epoll).collect(),
            groups: groups(self),
            ..Machine::bare(self.cpus, self.core.hz, seed)
        }
    }

    fn code(&self, k: K, thread: usize) -> Option<Code> {
        let server = ServerProgram::of(&self.core, thread as u16);
        (thread < self.queues().into()).then(|| Box::pin(serve_main(k, server)) as Code)
    }

    fn begin(&self, w: &mut World, seed: u64) {
        (w.disturbance, w.deep_after) = (self.core.disturbance, self.deep_after);
        w.polls_at_stop = self.core.polls_at_stop;
        w.places = Placement {
            hosts: vec![HostCpus { first: 0, cpus: self.cpus.into() }],
            sibling_pct: self.sibling_pct,
            migration_cost: Span::from_ns(u64::MAX), // nothing moves
            workers: None,
        };
        let now = w.now;
        w.begin_asking(asking(self, now, seed));
    }

    fn count_from(&self, w: &mut World, from: Instant) {
        if let Some(asking) = &mut w.asking {
            asking.from = from;
        }
    }

    fn use_of(&self, cpu: usize) -> CpuUse {
        let polls = |queue| self.polling_cpu(queue).at() == cpu;
        let is_polling = self.polling != Polling::NoCpus && (0..self.queues()).any(polls);
        if is_polling { CpuUse::Polling } else { CpuUse::Program }
    }

    fn check(&self, w: &mut World, look: LawsLook) {
        if w.broken.is_none() {
            w.check_asking(look, self.queues().into());
        }
    }

    /// Of the server alone: clients take no time.
    fn latencies(&self, w: &mut World) -> Latencies {
        let way = self.way.0.ns + self.way.1.ns;
        let from_due = w.asking.take().map(|asking| asking.from_due_ns).unwrap_or_default();
        (from_due.into_iter().map(|ns| ns - way).collect(), Vec::new(), Vec::new())
    }
}

fn asking(of: &Many, begun: Instant, seed: u64) -> Asking {
    let all = u64::from(of.queues()) * of.full_rps;
    let clients = Clients {
        connections: of.queues() * of.connections,
        load: if of.shape.is_some() { Load::Rps(all) } else { Load::Max },
        to_server: of.way.0,
        to_client: of.way.1,
        to_client_noise: Span::ZERO,
        step_per_100k: 0,
        step: (Span::ZERO, Span::ZERO),
        request_bytes: 120,
        acknowledges: !of.core.costs.get(Work::AckUp).is_zero(),
        rto_min: Some(RTO_MIN),
    };
    let mut rng = napier_rng::stream(seed, "arrivals");
    let rates = of.shape.map(|shape| (0..of.queues()).map(|_| Rates::of(shape, &mut rng)).collect());
    Asking::new(clients, seed).with_rates(begun, rates.unwrap_or_default())
}

/// A group for each node, if there are groups at all.
fn groups(of: &Many) -> Vec<Group> {
    let Polling::Groups(settings) = of.polling else { return Vec::new() };
    let per_node = of.queues() / of.nodes;
    let group = |node: u16| {
        let queues = node * per_node..(node + 1) * per_node;
        Group {
            name: format!("node{node}"),
            cpus: queues.clone().map(|queue| of.polling_cpu(queue)).collect(),
            members: queues.map(NapiIx).collect(),
            settings,
            policy: Policy::Fair,
        }
    };
    (0..of.nodes).map(group).collect()
}

#[cfg(test)]
#[path = "smp_tests.rs"]
mod tests;

//! A run for figures: a server of many CPUs, with a queue and a program's thread for every second of them, and CPUs that poll.
//!
//! ```text
//!  node 0:  cores 0..c/2   programs, both threads of a core       (queue q's program)
//!           cores c/2..c   who polls, likewise                    (queue q's thread, or a CPU of the node's group)
//!  node 1:  the same
//! ```
//! Where programs poll for themselves, or softirqs do, no other thread needs a CPU: then each program has a core for itself.
//! Clients take no time and their answers meet nothing, so that latency is that of the server alone.

use std::sync::atomic::{AtomicBool, Ordering};

use napier_core::group::Settings;
use napier_core::sockopt::SocketBusy;
use napier_core::time::{Instant, Span};

use crate::machine::cpu::place::HostCpus;
use crate::machine::cpu::place::Placement;
use crate::machine::cpu::work::{Account, Work};
use crate::machine::exec::Code;
use crate::machine::peers::arrivals::Rates;
use crate::machine::peers::arrivals::Shape;
use crate::machine::peers::clients::{Asking, Clients, Pace, RTO_MIN};
use crate::machine::runs::figures::Length;
use crate::machine::runs::server::{Core, ServerProgram, serve_main};
use crate::machine::setup;
use crate::machine::sim::plant::Options;
use crate::machine::vm::K;
use crate::machine::world::World;
use napier_scenario::{
    Costs, CpuIx, Device, Epoll, Group, Machine, NapiIx, Policy, Socket, SocketIx, SocketKind, Sysctl, Thread, Topology,
};

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

/// What was read off, over the measured time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ManyFigures {
    /// From when a request was due at the ring until its answer was written, in ns.
    pub latency_ns: Vec<u64>,
    /// The measured time.
    pub measured: Span,
    /// Where the time of CPUs went that are for polling, together.
    pub polling: Account,
    /// And that of the others.
    pub programs: Account,
    /// Requests that programs took.
    pub answered: u64,
    /// Interrupts of all queues.
    pub interrupts: u64,
    /// Counters of the groups: polls, parks, those in vain, wake-ups, moves.
    pub turns: u64,
    /// CPUs that went to sleep.
    pub parks: u64,
    /// Those that had to wake at once.
    pub parks_in_vain: u64,
    /// CPUs that woke.
    pub wakes: u64,
    /// Moves of members: back to the CPU that had it last, to the core's other thread, on the node, to another node.
    pub moves: [u64; 4],
    /// Steps of the machine, of the whole run.
    pub steps: u64,
    /// A rule or an invariant that did not hold.
    pub broken: Option<String>,
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

/// Runs a server and its clients.
///
/// # Panics
/// The rules' own assertions, and a machine that does not [fit](Many::fits).
#[must_use]
pub fn run(of: &Many, length: Length, seed: u64) -> ManyFigures {
    run_or_stop(of, length, seed, &AtomicBool::new(false)).expect("nothing stops it")
}

/// The same; `None` if `stop` was set.
///
/// # Panics
/// Likewise.
#[must_use]
pub fn run_or_stop(of: &Many, length: Length, seed: u64, stop: &AtomicBool) -> Option<ManyFigures> {
    assert!(Many::fits(of.cpus, of.nodes), "equal halves of nodes");
    let machine = machine(of, seed);
    let code = |k: K, thread: usize| -> Option<Code> {
        let server = ServerProgram::of(&of.core, thread as u16);
        (thread < of.queues().into()).then(|| Box::pin(serve_main(k, server)) as Code)
    };
    let programs = setup::Programs { costs: of.core.costs, code: &code };
    let mut exec = setup::build_for(&machine, &[], &Options::default(), Some(&programs));
    let begun = {
        let mut w = exec.vm.w();
        (w.disturbance, w.deep_after) = (of.core.disturbance, of.deep_after);
        w.places = Placement {
            hosts: vec![HostCpus { first: 0, cpus: of.cpus.into() }],
            sibling_pct: of.sibling_pct,
            migration_cost: Span::from_ns(u64::MAX), // nothing moves
            workers: None,
        };
        let now = w.now;
        w.begin_asking(asking(of, now, seed));
        now
    };
    let from = begun + length.warm_up;
    exec.run_until_or(from, stop);
    let (before, look) = {
        let mut w = exec.vm.w();
        if let Some(asking) = &mut w.asking {
            asking.from = from;
        }
        (Counted::of(&w, of), w.look())
    };
    exec.run_until_or(from + length.measured, stop);
    if stop.load(Ordering::Relaxed) {
        return None;
    }
    let mut w = exec.vm.w();
    let after = Counted::of(&w, of);
    if w.broken.is_none() {
        w.check_asking(look, of.queues().into());
    }
    let way = of.way.0.ns + of.way.1.ns;
    let from_due = w.asking.take().map(|asking| asking.from_due_ns).unwrap_or_default();
    Some(ManyFigures {
        latency_ns: from_due.into_iter().map(|ns| ns - way).collect(),
        measured: length.measured,
        polling: after.polling.since(&before.polling),
        programs: after.programs.since(&before.programs),
        answered: after.answered - before.answered,
        interrupts: after.interrupts - before.interrupts,
        turns: after.turns - before.turns,
        parks: after.parks - before.parks,
        parks_in_vain: after.vain - before.vain,
        wakes: after.wakes - before.wakes,
        moves: std::array::from_fn(|kind| after.moves[kind] - before.moves[kind]),
        steps: w.steps,
        broken: w.broken.take(),
    })
}

fn asking(of: &Many, begun: Instant, seed: u64) -> Asking {
    let all = u64::from(of.queues()) * of.full_rps;
    let clients = Clients {
        connections: of.queues() * of.connections,
        pace: if of.shape.is_some() { Pace::Open { rate_rps: all } } else { Pace::Closed },
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

#[derive(Default)]
struct Counted {
    polling: Account,
    programs: Account,
    answered: u64,
    interrupts: u64,
    turns: u64,
    parks: u64,
    vain: u64,
    wakes: u64,
    moves: [u64; 4],
}

impl Counted {
    fn of(w: &World, of: &Many) -> Self {
        let mut counted = Self::default();
        let polls: Vec<usize> = match of.polling {
            Polling::NoCpus => Vec::new(),
            _ => (0..of.queues()).map(|queue| of.polling_cpu(queue).at()).collect(),
        };
        for cpu in 0..w.cpus.len() {
            let sum = if polls.contains(&cpu) { &mut counted.polling } else { &mut counted.programs };
            *sum = sum.and(&w.spent(cpu));
        }
        counted.answered = w.socks.iter().map(|sock| sock.taken).sum();
        counted.interrupts = w.napis.iter().map(|napi| napi.interrupts).sum();
        for group in &w.groups.all {
            counted.turns += group.turns;
            counted.parks += group.parks;
            counted.vain += group.decider.parks_in_vain();
            counted.wakes += group.wakes;
            counted.moves.iter_mut().zip(group.moves).for_each(|(sum, moves)| *sum += moves);
        }
        counted
    }
}

fn machine(of: &Many, seed: u64) -> Machine {
    let queues = of.queues();
    let device = Device {
        name: "eth0".to_owned(),
        queues,
        ring: 1024,
        irq_cpu: (0..queues).map(|queue| of.polling_cpu(queue)).collect(),
        thread_cpu: (0..queues).map(|queue| of.polling_cpu(queue)).collect(),
        thread_policy: Policy::Fair,
        persistent: true,
        no_busy_poll: false,
        up: true,
        tunables: of.core.tunables,
        threaded: of.core.threaded,
        rx_usecs: 0,
        rx_frames: 0,
        gro: false,
        weight: 64,
        transmit: None,
    };
    let socket = |nth: u16| Socket {
        name: format!("c{nth}"),
        kind: SocketKind::Tcp,
        connected: true,
        napi: NapiIx(nth % queues),
        queue: 1024,
        open: true,
        busy: SocketBusy::new(0),
        primed: true,
        recverr: false,
    };
    let thread = |name: String, cpu| Thread { name, cpu, policy: Policy::Fair, cap_net_admin: true };
    let mut threads: Vec<Thread> =
        (0..queues).map(|queue| thread(format!("server{queue}"), of.program_cpu(queue))).collect();
    threads.push(thread("ctl".to_owned(), of.program_cpu(0)));
    let epoll = |queue: u16| Epoll {
        name: format!("ep{queue}"),
        params: of.core.epoll,
        members: (0..of.connections).map(|nth| SocketIx(nth * queues + queue)).collect(),
    };
    Machine {
        cpus: of.cpus,
        topology: of.topology(),
        hz: of.core.hz,
        seed,
        jitter: false,
        late_interrupts: false,
        sysctl: Sysctl::defaults(of.core.hz),
        costs: Costs::default(),
        devices: vec![device],
        threads,
        sockets: (0..queues * of.connections).map(socket).collect(),
        epolls: (0..queues).map(epoll).collect(),
        groups: groups(of),
    }
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

//! A run for figures: a server of one queue, its clients, and what an observer of the machine would read off.

use std::sync::Arc;

use napier_core::completion::Tunables;
use napier_core::control::ThreadedSetting;
use napier_core::event::EpollParams;
use napier_core::sockopt::SocketBusy;
use napier_core::time::Span;
use napier_scenario::{
    Costs, CpuIx, Device, Epoll, Machine, NapiIx, Policy, Socket, SocketIx, SocketKind, Sysctl, Thread, Topology,
};

use super::clients::{Asking, Clients, Server};
use super::exec::Code;
use super::nic::Nic;
use super::vm::K;
use super::work::{Account, Disturbance, WorkCosts};
use super::{Options, setup};

/// A server's core, with a second one where a thread that polls has one of its own: costs, queue and program.
#[derive(Clone, Debug)]
pub struct Core {
    /// What work costs.
    pub costs: WorkCosts,
    /// What an interrupt and a switch cost beside.
    pub disturbance: Disturbance,
    /// Jiffies per second.
    pub hz: u32,
    /// The card moderates its interrupts by itself (DIM); else every packet interrupts that finds the queue unmasked.
    pub moderates: bool,
    /// How long the card takes to change its moderation, without interrupts.
    pub apply: Span,
    /// Settings of the instance.
    pub tunables: Tunables,
    /// Who polls it.
    pub threaded: ThreadedSetting,
    /// The thread that polls has a core of its own.
    pub apart: bool,
    /// Parameters of the program's event context.
    pub epoll: EpollParams,
    /// Longest wait of the program.
    pub wait: Option<Span>,
    /// Events of one wait at most.
    pub events_max: usize,
    /// Requests of one wait whose data is still in the CPU's cache when they are answered; the others' is not.
    pub warm_max: usize,
    /// What a request takes the program beside [`Work::Request`](super::Work), in ns: points of its distribution, of which each
    /// request gets one at random. Empty: nothing.
    pub service_ns: Arc<[u64]>,
}

/// How long a run is, in virtual time.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Length {
    /// Nothing counts before.
    pub warm_up: Span,
    /// What counts.
    pub measured: Span,
}

/// What was read off, over the measured time.
#[derive(Clone, Debug)]
pub struct Figures {
    /// From send to answer, of requests that were sent in the measured time, in ns.
    pub latency_ns: Vec<u64>,
    /// The same requests from when they were due, in ns: a client that falls behind does not hide the wait.
    pub from_due_ns: Vec<u64>,
    /// The measured time.
    pub measured: Span,
    /// Where the time of the cores went, together.
    pub account: Account,
    /// Cores.
    pub cores: u16,
    /// Interrupts of the queue.
    pub interrupts: u64,
    /// Polls of it, by whomever.
    pub polls: u64,
    /// Polls that found nothing.
    pub empty_polls: u64,
    /// Packets that they took.
    pub packets: u64,
    /// Requests that the program took.
    pub answered: u64,
    /// Waits of the program that returned, and their events.
    pub waits: u64,
    /// Likewise.
    pub events: u64,
    /// Steps of the machine, of the whole run.
    pub steps: u64,
    /// A rule or an invariant that did not hold.
    pub broken: Option<String>,
}

#[derive(Copy, Clone, Default)]
struct Counted {
    account: Account,
    interrupts: u64,
    polls: u64,
    empty_polls: u64,
    packets: u64,
    taken: u64,
    waits: u64,
    events: u64,
}

/// Runs a core and its clients.
///
/// # Panics
/// The rules' own assertions.
#[must_use]
pub fn run(core: &Core, clients: &Clients, length: Length, seed: u64) -> Figures {
    let machine = machine(core, clients, seed);
    let code = |k: K, thread: usize| -> Option<Code> {
        (thread == 0).then(|| Box::pin(k.serve_main(Server::of(core, 0))) as Code)
    };
    let programs = setup::Programs { costs: core.costs, code: &code };
    let mut exec = setup::build_for(&machine, &[], &Options::default(), Some(&programs));
    let begun = {
        let mut w = exec.vm.w();
        w.disturbance = core.disturbance;
        let now = w.now;
        if core.moderates {
            w.napis[0].nic = Some(Nic::new(now, core.apply));
        }
        w.begin_asking(Asking::new(*clients, seed));
        now
    };
    let from = begun + length.warm_up;
    exec.run_until(from);
    let before = {
        let mut w = exec.vm.w();
        if let Some(asking) = &mut w.asking {
            asking.from = from;
        }
        counted(&w)
    };
    exec.run_until(from + length.measured);
    let mut w = exec.vm.w();
    let after = counted(&w);
    let (latency_ns, from_due_ns) =
        w.asking.take().map(|asking| (asking.latency_ns, asking.from_due_ns)).unwrap_or_default();
    Figures {
        answered: after.taken - before.taken,
        latency_ns,
        from_due_ns,
        cores: machine.cpus,
        measured: length.measured,
        account: after.account.since(&before.account),
        interrupts: after.interrupts - before.interrupts,
        polls: after.polls - before.polls,
        empty_polls: after.empty_polls - before.empty_polls,
        packets: after.packets - before.packets,
        waits: after.waits - before.waits,
        events: after.events - before.events,
        steps: w.steps,
        broken: w.broken.take(),
    }
}

fn counted(w: &super::world::World) -> Counted {
    let napi = &w.napis[0];
    let (waits, events) = w.asking.as_ref().map_or((0, 0), |asking| (asking.waits, asking.events));
    Counted {
        account: w.cpus.iter().fold(Account::default(), |sum, cpu| sum.and(&cpu.speed.account)),
        interrupts: napi.interrupts,
        polls: napi.polls,
        empty_polls: napi.empty_polls,
        packets: napi.packets,
        taken: w.socks.iter().map(|sock| sock.taken).sum(),
        waits,
        events,
    }
}

/// One queue, one core or two, one program with a connection per socket.
fn machine(core: &Core, clients: &Clients, seed: u64) -> Machine {
    let device = Device {
        name: "eth0".to_owned(),
        queues: 1,
        ring: 1024,
        irq_cpu: vec![CpuIx(0)],
        thread_cpu: vec![CpuIx(u16::from(core.apart))],
        thread_policy: Policy::Fair,
        persistent: true,
        no_busy_poll: false,
        up: true,
        tunables: core.tunables,
        threaded: core.threaded,
        rx_usecs: 0,
        rx_frames: 0,
        gro: false,
        weight: 64,
        transmit: None,
    };
    let socket = |number: u16| Socket {
        name: format!("c{number}"),
        kind: SocketKind::Tcp,
        connected: true,
        napi: NapiIx(0),
        queue: 1024,
        open: true,
        busy: SocketBusy::new(0),
        primed: true,
        recverr: false,
    };
    let members = (0..clients.connections).map(SocketIx).collect();
    let thread =
        |name: &str| Thread { name: name.to_owned(), cpu: CpuIx(0), policy: Policy::Fair, cap_net_admin: true };
    Machine {
        cpus: 1 + u16::from(core.apart),
        topology: Topology::FLAT,
        hz: core.hz,
        seed,
        jitter: false,
        late_interrupts: false,
        sysctl: Sysctl::defaults(core.hz),
        costs: Costs::default(),
        devices: vec![device],
        threads: vec![thread("server"), thread("ctl")],
        sockets: (0..clients.connections).map(socket).collect(),
        epolls: vec![Epoll { name: "ep".to_owned(), params: core.epoll, members }],
        groups: Vec::new(),
    }
}

//! A run for figures: a server of one queue, its clients, and what an observer of the machine would read off.

use std::sync::atomic::{AtomicBool, Ordering};

use napier_core::sockopt::SocketBusy;
use napier_core::time::{Instant, Span};

use crate::machine::cpu::work::Account;
use crate::machine::dev::nic::Nic;
use crate::machine::exec::{Code, Exec};
use crate::machine::peers::clients::{Asking, Clients, Pace, RTO_MIN};
pub use crate::machine::runs::server::Core;
use crate::machine::runs::server::{ServerProgram, serve_main};
use crate::machine::setup;
use crate::machine::sim::plant::Options;
use crate::machine::vm::K;
use crate::machine::world::World;
use napier_scenario::{
    Costs, CpuIx, Device, Epoll, Machine, NapiIx, Policy, Socket, SocketIx, SocketKind, Sysctl, Thread, Topology,
};

/// Turns of each connection of a closed loop in the measured time, at least.
const ROUNDS: u64 = 8;

/// A closed loop that has not come round by then is measured as it is.
const WARM_UP_MAX: Span = Span::from_secs(10);

/// The measured time is not made longer than this.
const MEASURED_MAX: Span = Span::from_secs(10);

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
    /// What of it was the way there and back, with what the client's machine takes, of the same requests, in ns.
    pub way_ns: Vec<u64>,
    /// Requests that the program took.
    pub answered: u64,
    /// Requests that found the server's ring full, and were sent again.
    pub lost: u64,
    /// Where the time of the program's core went.
    pub program: Account,
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
    program: Account,
    taken: u64,
    lost: u64,
    waits: u64,
    events: u64,
}

/// Runs a core and its clients. A closed loop is run for longer than was asked for if each connection would not have its turn several
/// times.
///
/// # Panics
/// The rules' own assertions.
#[must_use]
pub fn run(core: &Core, clients: &Clients, length: Length, seed: u64) -> Figures {
    run_or_stop(core, clients, length, seed, &AtomicBool::new(false)).expect("nothing stops it")
}

/// The same; `None` if `stop` was set.
///
/// # Panics
/// Likewise.
#[must_use]
pub fn run_or_stop(core: &Core, clients: &Clients, length: Length, seed: u64, stop: &AtomicBool) -> Option<Figures> {
    let machine = machine(core, clients, seed);
    let code = |k: K, thread: usize| -> Option<Code> {
        (thread == 0).then(|| Box::pin(serve_main(k, ServerProgram::of(core, 0))) as Code)
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
        let round = core.demand().ns * u64::from(clients.connections);
        w.begin_asking(Asking::new(*clients, seed).with_round(Span::from_ns(round)));
        now
    };
    let length = warmed_up(&mut exec, begun, length, clients, stop);
    let from = exec.vm.w().now;
    let (before, look) = {
        let mut w = exec.vm.w();
        if let Some(asking) = &mut w.asking {
            asking.from = from;
        }
        (counted(&w), w.look())
    };
    exec.run_until_or(from + length.measured, stop);
    if stop.load(Ordering::Relaxed) {
        return None;
    }
    let mut w = exec.vm.w();
    let after = counted(&w);
    if w.broken.is_none() {
        w.check_asking(look, 1);
    }
    let asking = w.asking.take().expect("they began");
    Some(Figures {
        answered: after.taken - before.taken,
        lost: after.lost - before.lost,
        program: after.program.since(&before.program),
        latency_ns: asking.latency_ns,
        from_due_ns: asking.from_due_ns,
        way_ns: asking.way_ns,
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
    })
}

/// Runs until what is asked and answered is as it will be; how long the rest is.
///
/// At a rate that is for as long as was asked for: connections ask from the first moment on as they will. In a closed loop each
/// connection has had its turn, and requests that the beginning lost have come again.
fn warmed_up(exec: &mut Exec, begun: Instant, length: Length, clients: &Clients, stop: &AtomicBool) -> Length {
    exec.run_until_or(begun + length.warm_up, stop);
    if clients.pace != Pace::Closed {
        return length;
    }
    let connections = u64::from(clients.connections);
    let step = length.warm_up.max(Span::from_ms(10));
    let until = begun + WARM_UP_MAX;
    loop {
        let (now, answered, lost) = {
            let w = exec.vm.w();
            let asking = w.asking.as_ref().expect("they began");
            (w.now, asking.tally.answered, asking.lost)
        };
        let least = if lost > 0 { begun + length.warm_up + RTO_MIN + RTO_MIN } else { begun };
        let is_over = exec.vm.w().broken.is_some() || stop.load(Ordering::Relaxed) || now >= until;
        if is_over || answered >= 2 * connections && now >= least {
            let round = Span::from_ns((now - begun).ns * connections / answered.max(1));
            let mut measured = length.measured.max(Span::from_ns(round.ns * ROUNDS));
            if lost > 0 {
                measured = measured.max(Span::from_ns(RTO_MIN.ns * ROUNDS));
            }
            let measured = measured.min(length.measured.max(MEASURED_MAX));
            return Length { measured, ..length };
        }
        exec.run_until_or(now + step, stop);
    }
}

fn counted(w: &World) -> Counted {
    let napi = &w.napis[0];
    let (waits, events) = w.asking.as_ref().map_or((0, 0), |asking| (asking.waits, asking.events));
    Counted {
        account: (0..w.cpus.len()).fold(Account::default(), |sum, cpu| sum.and(&w.spent(cpu))),
        program: w.spent(0),
        lost: w.asking.as_ref().map_or(0, |asking| asking.lost),
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

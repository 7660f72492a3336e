//! A run for figures: two hosts of many CPUs, with programs of many threads that the scheduler places, and messages of any size.
//! A client may also be none but a source of requests at a rate, which takes no time of its own.
//! ```text
//!  client: CPUs 0..n                                      server: CPUs n..2n
//!  queue q interrupts CPU q         <-- wire, its rate -->     queue q interrupts CPU n + q
//!  threads, an event context each                              threads, an event context each
//! ```

use std::sync::atomic::{AtomicBool, Ordering};

use napier_core::completion::Tunables;
use napier_core::control::ThreadedSetting;
use napier_core::event::EpollParams;
use napier_core::sockopt::SocketBusy;
use napier_core::time::Span;

use crate::machine::cpu::place::HostCpus;
use crate::machine::cpu::place::Placement;
use crate::machine::cpu::work::Account;
use crate::machine::exec::Code;
pub use crate::machine::peers::bulk::{Asks, Flows, Polls};
use crate::machine::peers::bulk::{BulkFlows, CLIENT, SERVER};
use crate::machine::peers::link::chunks;
use crate::machine::runs::bulk_program::bulk_thread;
use crate::machine::runs::figures::Length;
use crate::machine::setup;
use crate::machine::sim::plant::Options;
use crate::machine::vm::K;
use crate::machine::world::World;
use napier_scenario::{
    Costs, CpuIx, Device, Epoll, Machine, NapiIx, Policy, Socket, SocketIx, SocketKind, Sysctl, Thread, Topology,
};

/// What was read off, over the measured time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowFigures {
    /// From request to answer, of requests that were sent in the measured time, in ns.
    pub latency_ns: Vec<u64>,
    /// Answers in the measured time.
    pub answered: u64,
    /// The measured time.
    pub measured: Span,
    /// Where the time of the server's CPUs went, together.
    pub server: Account,
    /// Interrupts of the server.
    pub interrupts: u64,
    /// Polls of it.
    pub polls: u64,
    /// Threads that were put on another CPU, of both hosts and of the whole run.
    pub migrations: u64,
    /// Steps of the machine, likewise.
    pub steps: u64,
    /// A rule or an invariant that did not hold.
    pub broken: Option<String>,
}

/// Runs two hosts.
///
/// # Panics
/// The rules' own assertions.
#[must_use]
pub fn run(of: &Flows, length: Length, seed: u64) -> FlowFigures {
    run_or_stop(of, length, seed, &AtomicBool::new(false)).expect("nothing stops it")
}

/// The same; `None` if `stop` was set.
///
/// # Panics
/// Likewise.
#[must_use]
pub fn run_or_stop(of: &Flows, length: Length, seed: u64, stop: &AtomicBool) -> Option<FlowFigures> {
    let machine = machine(of, seed);
    let threads = usize::from(of.threads);
    let code = |k: K, thread: usize| -> Option<Code> {
        let end = if thread < threads { CLIENT } else { SERVER };
        (thread < 2 * threads).then(|| Box::pin(bulk_thread(k, end, thread)) as Code)
    };
    let programs = setup::Programs { costs: of.costs, code: &code };
    let mut exec = setup::build_for(&machine, &[], &Options::default(), Some(&programs));
    let begun = {
        let mut w = exec.vm.w();
        (w.disturbance, w.deep_after) = (of.disturbance, of.deep_after);
        w.places = places(of);
        for thread in 0..2 * threads {
            let ctx = w.inboxes[thread].ctx;
            w.ctxs[ctx].moves = true;
        }
        for napi in 0..w.napis.len() {
            let ctx = w.napis[napi].kthread;
            w.ctxs[ctx].moves = !of.pinned;
        }
        w.begin_ticks();
        w.begin_bulk(BulkFlows::new(of, seed));
        w.now
    };
    let from = begun + length.warm_up;
    exec.run_until_or(from, stop);
    if let Some(streams) = &mut exec.vm.w().bulk {
        streams.from = from;
    }
    let (before, look) = {
        let w = exec.vm.w();
        (server(&w, of), w.look())
    };
    exec.run_until_or(from + length.measured, stop);
    if stop.load(Ordering::Relaxed) {
        return None;
    }
    let mut w = exec.vm.w();
    w.check_conserved();
    let lost = w.drops.iter().sum::<u64>();
    if lost > 0 {
        w.fail(format!("{lost} packets were lost: a ring is too small"));
    }
    let after = server(&w, of);
    let answered = w.look().taken - look.taken;
    if w.broken.is_none() {
        w.check_bulk(look, of);
    }
    let streams = w.bulk.take().expect("they began");
    Some(FlowFigures {
        latency_ns: streams.latency_ns,
        answered,
        measured: length.measured,
        server: after.0.since(&before.0),
        interrupts: after.1 - before.1,
        polls: after.2 - before.2,
        migrations: w.migrations,
        steps: w.steps,
        broken: w.broken.take(),
    })
}

/// Time, interrupts and polls of the server.
fn server(w: &World, of: &Flows) -> (Account, u64, u64) {
    let cpus = usize::from(of.cpus)..w.cpus.len();
    let account = cpus.fold(Account::default(), |sum, cpu| sum.and(&w.spent(cpu)));
    let napis = || w.napis.iter().skip(of.queues.into());
    (account, napis().map(|napi| napi.interrupts).sum(), napis().map(|napi| napi.polls).sum())
}

fn places(of: &Flows) -> Placement {
    let cpus = usize::from(of.cpus);
    let hosts: Vec<HostCpus> = [CLIENT, SERVER].map(|host| HostCpus { first: host * cpus, cpus }).into();
    let two_each = |host: &HostCpus| (0..2 * usize::from(of.queues)).map(|nth| host.first + nth % cpus).collect();
    let workers = (of.polls == Polls::Pool && !of.pinned).then(|| hosts.iter().map(two_each).collect());
    Placement { hosts, sibling_pct: of.sibling_pct, migration_cost: of.migration_cost, workers }
}

fn machine(of: &Flows, seed: u64) -> Machine {
    let cpu = |host: usize, nth: u16| CpuIx(host as u16 * of.cpus + nth % of.cpus);
    let device = |host: usize| Device {
        name: format!("eth{host}"),
        queues: of.queues,
        ring: 8192,
        irq_cpu: (0..of.queues).map(|queue| cpu(host, queue)).collect(),
        thread_cpu: (0..of.queues).map(|queue| cpu(host, queue)).collect(),
        thread_policy: Policy::Fair,
        persistent: true,
        no_busy_poll: false,
        up: true,
        tunables: Tunables::default(),
        threaded: if of.polls == Polls::Softirq { ThreadedSetting::Disabled } else { ThreadedSetting::Enabled },
        rx_usecs: of.rx_usecs,
        rx_frames: 0,
        gro: false,
        weight: weight(of, host),
        transmit: None,
    };
    let socket = |name: String, host: usize, flow: u16| Socket {
        name,
        kind: SocketKind::Tcp,
        connected: true,
        napi: NapiIx(host as u16 * of.queues + queue(of, host, flow)),
        queue: 8192,
        open: true,
        busy: SocketBusy::new(0),
        primed: true,
        recverr: false,
    };
    let mut sockets: Vec<Socket> = (0..of.flows).map(|flow| socket(format!("c{flow}"), CLIENT, flow)).collect();
    sockets.extend((0..of.flows).map(|flow| socket(format!("s{flow}"), SERVER, flow)));
    sockets.extend((0..of.flows).map(|flow| socket(format!("d{flow}"), SERVER, flow)));
    let thread = |name: String, cpu| Thread { name, cpu, policy: Policy::Fair, cap_net_admin: true };
    let mut threads = Vec::new();
    let mut epolls = Vec::new();
    for host in [CLIENT, SERVER] {
        for nth in 0..of.threads {
            threads.push(thread(format!("{host}/{nth}"), cpu(host, nth)));
            let own = (0..of.flows).filter(|flow| flow % of.threads == nth);
            let kinds: &[u16] = if host == CLIENT { &[0] } else { &[1, 2] };
            let members = own.flat_map(|flow| kinds.iter().map(move |kind| SocketIx(kind * of.flows + flow))).collect();
            epolls.push(Epoll { name: format!("ep{host}/{nth}"), params: EpollParams::default(), members });
        }
    }
    threads.push(thread("ctl".to_owned(), cpu(SERVER, 0)));
    Machine {
        cpus: 2 * of.cpus,
        topology: Topology::FLAT,
        hz: of.hz,
        seed,
        jitter: false,
        late_interrupts: false,
        sysctl: Sysctl::defaults(of.hz),
        costs: Costs::default(),
        devices: vec![device(CLIENT), device(SERVER)],
        threads,
        sockets,
        epolls,
        groups: Vec::new(),
    }
}

/// The queue of a host that a flow's packets come to: equally many flows on each, and each thread has flows of all queues. A hash does
/// nearly that for ports that follow each other.
fn queue(of: &Flows, host: usize, flow: u16) -> u16 {
    let (flow, round) = (u32::from(flow), u32::from(flow / of.threads));
    let nth = if host == SERVER { flow + round } else { flow + 3 * round };
    (nth % u32::from(of.queues)) as u16
}

/// Packets of one poll: a part of a message comes as one here, and counts as its frames there.
fn weight(of: &Flows, host: usize) -> u32 {
    let bytes = match host {
        _ if of.both_ways => of.response_bytes.max(of.request_bytes),
        CLIENT => of.response_bytes,
        _ => of.request_bytes,
    };
    let segments = chunks(bytes).map(|chunk| u32::from(chunk.segments)).max().unwrap_or(1);
    (64 / segments).max(1)
}

#[cfg(test)]
#[path = "bulk_tests.rs"]
mod tests;

//! A run for figures: two hosts of many CPUs, with programs of many threads that the scheduler places, and messages of any size.
//! A client may also be none but a source of requests at a rate, which takes no time of its own.
//! ```text
//!  client: CPUs 0..n                                      server: CPUs n..2n
//!  queue q interrupts CPU q         <-- wire, its rate -->     queue q interrupts CPU n + q
//!  threads, an event context each                              threads, an event context each
//! ```

use napier_core::control::ThreadedSetting;
use napier_core::event::EpollParams;
use napier_core::time::Instant;

use crate::machine::cpu::place::HostCpus;
use crate::machine::cpu::place::Placement;
use crate::machine::cpu::work::WorkCosts;
use crate::machine::exec::Code;
use crate::machine::laws::LawsLook;
use crate::machine::peers::bulk::{BulkFlows, CLIENT, SERVER};
pub use crate::machine::peers::bulk::{Flows, Polls};
use crate::machine::peers::link::chunks;
use crate::machine::runs::bulk_program::bulk_thread;
use crate::machine::runs::measure::{CpuUse, Latencies, Staged};
use crate::machine::vm::K;
use crate::machine::world::World;
use napier_scenario::{CpuIx, Device, Epoll, Machine, NapiIx, Policy, Socket, SocketIx, Thread};

impl Staged for Flows {
    fn costs(&self) -> WorkCosts {
        self.costs
    }

    fn machine(&self, seed: u64) -> Machine {
        let cpu = |host: usize, nth: u16| CpuIx(host as u16 * self.cpus + nth % self.cpus);
        let threaded = if self.polls == Polls::Softirq { ThreadedSetting::Disabled } else { ThreadedSetting::Enabled };
        let device = |host: usize| Device {
            ring: 8192,
            threaded,
            rx_usecs: self.rx_usecs,
            weight: weight(self, host),
            ..Device::new(&format!("eth{host}"), self.queues, |queue| cpu(host, queue))
        };
        let socket = |name: String, host: usize, flow: u16| Socket {
            queue: 8192,
            ..Socket::tcp(name, NapiIx(host as u16 * self.queues + queue(self, host, flow)))
        };
        let mut sockets: Vec<Socket> = (0..self.flows).map(|flow| socket(format!("c{flow}"), CLIENT, flow)).collect();
        sockets.extend((0..self.flows).map(|flow| socket(format!("s{flow}"), SERVER, flow)));
        sockets.extend((0..self.flows).map(|flow| socket(format!("d{flow}"), SERVER, flow)));
        let thread = |name: String, cpu| Thread { name, cpu, policy: Policy::Fair, cap_net_admin: true };
        let mut threads = Vec::new();
        let mut epolls = Vec::new();
        for host in [CLIENT, SERVER] {
            for nth in 0..self.threads {
                threads.push(thread(format!("{host}/{nth}"), cpu(host, nth)));
                let own = (0..self.flows).filter(|flow| flow % self.threads == nth);
                let kinds: &[u16] = if host == CLIENT { &[0] } else { &[1, 2] };
                let members =
                    own.flat_map(|flow| kinds.iter().map(move |kind| SocketIx(kind * self.flows + flow))).collect();
                epolls.push(Epoll { name: format!("ep{host}/{nth}"), params: EpollParams::default(), members });
            }
        }
        threads.push(thread("ctl".to_owned(), cpu(SERVER, 0)));
        let devices = vec![device(CLIENT), device(SERVER)];
        Machine { devices, threads, sockets, epolls, ..Machine::bare(2 * self.cpus, self.hz, seed) }
    }

    fn code(&self, k: K, thread: usize) -> Option<Code> {
        let threads = usize::from(self.threads);
        let end = if thread < threads { CLIENT } else { SERVER };
        (thread < 2 * threads).then(|| Box::pin(bulk_thread(k, end, thread)) as Code)
    }

    fn begin(&self, w: &mut World, seed: u64) {
        (w.disturbance, w.deep_after) = (self.disturbance, self.deep_after);
        w.places = places(self);
        for thread in 0..2 * usize::from(self.threads) {
            let ctx = w.inboxes[thread].ctx;
            w.ctxs[ctx].moves = true;
        }
        for napi in 0..w.napis.len() {
            let ctx = w.napis[napi].kthread;
            w.ctxs[ctx].moves = !self.pinned;
        }
        w.begin_ticks();
        w.begin_bulk(BulkFlows::new(self, seed));
    }

    fn count_from(&self, w: &mut World, from: Instant) {
        if let Some(streams) = &mut w.bulk {
            streams.from = from;
        }
    }

    /// The server is measured.
    fn use_of(&self, cpu: usize) -> CpuUse {
        if cpu < usize::from(self.cpus) { CpuUse::Beside } else { CpuUse::Program }
    }

    fn first_napi(&self) -> usize {
        self.queues.into()
    }

    fn check(&self, w: &mut World, look: LawsLook) {
        w.check_conserved();
        let lost = w.drops.iter().sum::<u64>();
        if lost > 0 {
            w.fail(format!("{lost} packets were lost: a ring is too small"));
        }
        if w.broken.is_none() {
            w.check_bulk(look, self);
        }
    }

    fn latencies(&self, w: &mut World) -> Latencies {
        (w.bulk.take().expect("they began").latency_ns, Vec::new(), Vec::new())
    }
}

fn places(of: &Flows) -> Placement {
    let cpus = usize::from(of.cpus);
    let hosts: Vec<HostCpus> = [CLIENT, SERVER].map(|host| HostCpus { first: host * cpus, cpus }).into();
    let two_each = |host: &HostCpus| (0..2 * usize::from(of.queues)).map(|nth| host.first + nth % cpus).collect();
    let workers = (of.polls == Polls::Pool && !of.pinned).then(|| hosts.iter().map(two_each).collect());
    Placement { hosts, sibling_pct: of.sibling_pct, migration_cost: of.migration_cost, workers }
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

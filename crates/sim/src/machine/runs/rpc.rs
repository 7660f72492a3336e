//! A run for figures: two hosts of one kind on a wire, by the same rules as every other run.
//!
//! ```text
//!  client                                                server
//!  CPU 0  interrupts, NAPI thread      <-- wire -->      CPU 4  interrupts, NAPI thread
//!  CPU 1  program                                        CPU 5  program
//!  CPU 2  a thread that only polls                       CPU 6  a thread that only polls
//!  CPU 3  a thread that sends at a fixed rate            CPU 7
//! ```

use napier_core::completion::Tunables;
use napier_core::control::ThreadedSetting;
use napier_core::sockopt::SocketBusy;
use napier_core::time::{Instant, Span};

use crate::machine::cpu::work::{Disturbance, WorkCosts};
use crate::machine::exec::Code;
use crate::machine::laws::LawsLook;
use crate::machine::peers::rpc::{CLIENT, RoundTrips, SERVER};
pub use crate::machine::peers::rpc::{Quiet, Traffic};
use crate::machine::runs::measure::{Latencies, Staged};
pub use crate::machine::runs::rpc_program::RpcPoller;
use crate::machine::runs::rpc_program::{poll_main, ring_main, send_main, stream_main};
use crate::machine::vm::K;
use crate::machine::world::World;
use napier_scenario::{CpuIx, Device, Machine, NapiIx, Policy, Socket, SocketKind, Thread};

/// CPUs of each host.
const CPUS: usize = 4;

/// What runs on both hosts.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum RpcProgram {
    /// A program with an `AF_XDP` socket; a thread sends, at a fixed rate.
    Ring(RpcPoller),
    /// One byte back and forth on a TCP connection, with calls that wait.
    Stream,
}

/// Both hosts.
#[derive(Clone, Debug)]
pub struct Hosts {
    /// What work costs.
    pub costs: WorkCosts,
    /// What an interrupt and a switch cost beside.
    pub disturbance: Disturbance,
    /// A CPU that was idle for so long sleeps deeply; 0: never.
    pub deep_after: Span,
    /// What sending takes more from a queue that no thread busy polls.
    pub quiet: Quiet,
    /// Jiffies per second.
    pub hz: u32,
    /// Longest holding back of an interrupt, in microseconds.
    pub rx_usecs: u32,
    /// Most frames that are held back.
    pub rx_frames: u32,
    /// Settings of the instances.
    pub tunables: Tunables,
    /// Who polls them.
    pub threaded: ThreadedSetting,
    /// Options of the sockets.
    pub busy: SocketBusy,
    /// What runs.
    pub program: RpcProgram,
}

/// Both hosts, and what goes over the wire.
pub(crate) struct RpcPair<'a> {
    pub(crate) hosts: &'a Hosts,
    pub(crate) traffic: &'a Traffic,
}

impl Staged for RpcPair<'_> {
    fn costs(&self) -> WorkCosts {
        self.hosts.costs
    }

    fn machine(&self, seed: u64) -> Machine {
        let hosts = self.hosts;
        let cpu = |host: usize, nth: usize| CpuIx((host * CPUS + nth) as u16);
        let device = |host: usize| Device {
            thread_policy: Policy::Fifo,
            tunables: hosts.tunables,
            threaded: hosts.threaded,
            rx_usecs: hosts.rx_usecs,
            rx_frames: hosts.rx_frames,
            ..Device::new(&format!("eth{host}"), 1, |_| cpu(host, 0))
        };
        let stream = hosts.program == RpcProgram::Stream;
        let socket = |host: usize| Socket {
            kind: if stream { SocketKind::Tcp } else { SocketKind::Udp },
            busy: hosts.busy,
            ..Socket::tcp(format!("s{host}"), NapiIx(host as u16))
        };
        let thread =
            |name: &str, cpu: CpuIx, policy| Thread { name: name.to_owned(), cpu, policy, cap_net_admin: true };
        let policy = if stream { Policy::Fair } else { Policy::Fifo };
        let threads = vec![
            thread("client", cpu(CLIENT, 1), policy),
            thread("server", cpu(SERVER, 1), policy),
            thread("client-poller", cpu(CLIENT, 2), policy),
            thread("server-poller", cpu(SERVER, 2), policy),
            thread("sender", cpu(CLIENT, 3), policy),
            thread("ctl", cpu(SERVER, 3), Policy::Fair),
        ];
        Machine {
            devices: vec![device(CLIENT), device(SERVER)],
            threads,
            sockets: vec![socket(CLIENT), socket(SERVER)],
            ..Machine::bare((2 * CPUS) as u16, hosts.hz, seed)
        }
    }

    fn code(&self, k: K, thread: usize) -> Option<Code> {
        program(self.hosts.program, k, thread)
    }

    fn begin(&self, w: &mut World, seed: u64) {
        (w.disturbance, w.deep_after) = (self.hosts.disturbance, self.hosts.deep_after);
        w.begin_rpc(RoundTrips::new(*self.traffic, self.hosts.quiet, seed));
    }

    fn count_from(&self, w: &mut World, from: Instant) {
        if let Some(trips) = &mut w.rpc {
            trips.from = from;
        }
    }

    fn check(&self, w: &mut World, look: LawsLook) {
        w.check_conserved();
        let lost = w.drops.iter().sum::<u64>();
        if lost > 0 {
            w.fail(format!("{lost} packets were lost: an end cannot keep up"));
        }
        if w.broken.is_none() {
            w.check_rpc(look);
        }
    }

    fn latencies(&self, w: &mut World) -> Latencies {
        (w.rpc.take().map(|trips| trips.latency_ns).unwrap_or_default(), Vec::new(), Vec::new())
    }
}

/// Threads of the machine, in order: programs, pollers, the sender, and the one that brings the devices up.
fn program(program: RpcProgram, k: K, thread: usize) -> Option<Code> {
    Some(match (program, thread) {
        (RpcProgram::Ring(poller), CLIENT | SERVER) => Box::pin(ring_main(k, thread, poller)),
        (RpcProgram::Ring(RpcPoller::Thread), 2 | 3) => Box::pin(poll_main(k, thread - 2)),
        (RpcProgram::Ring(_), 4) => Box::pin(send_main(k)),
        (RpcProgram::Stream, CLIENT | SERVER) => Box::pin(stream_main(k, thread, thread)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use napier_rng::load::Load;

    use crate::machine::Work;
    use crate::machine::runs::figures::{Experiment, Length, Setting, run};

    fn hosts(
        program: RpcProgram,
        deferred: u32,
        threaded: ThreadedSetting,
        (rx_usecs, rx_frames): (u32, u32),
    ) -> Hosts {
        let costs = WorkCosts::of_ns([
            (Work::Op, 15),
            (Work::HardIrq, 300),
            (Work::PollEmpty, 100),
            (Work::SpinPause, 30),
            (Work::PacketUp, 200),
            (Work::PacketDown, 200),
            (Work::Syscall, 200),
            (Work::Wake, 500),
            (Work::Switch, 700),
            (Work::Answer, 900),
        ]);
        let tunables = Tunables {
            defer_hard_irqs: deferred,
            gro_flush_timeout: Span::from_us(15),
            irq_suspend_timeout: Span::ZERO,
        };
        let quiet = Quiet { after: Span::from_ns(700), armed: Span::from_us(1), deferred: Span::from_us(3) };
        let prefer = matches!(program, RpcProgram::Ring(_));
        let busy = SocketBusy { prefer, ..SocketBusy::new(if prefer { 400 } else { 0 }) };
        Hosts {
            costs,
            disturbance: Disturbance::default(),
            deep_after: Span::ZERO,
            quiet,
            hz: 1000,
            rx_usecs,
            rx_frames,
            tunables,
            threaded,
            busy,
            program,
        }
    }

    fn trips(hosts: &Hosts, rate: Option<u64>, delay: Span) -> Vec<u64> {
        let load = rate.map_or(Load::Max, Load::Rps);
        let traffic = Traffic { load, delay, wire: Span::from_us(5), wire_noise: Span::from_ns(60) };
        let length = Length { warm_up: Span::from_ms(1), measured: Span::from_ms(4) };
        let of = Experiment { setting: Setting::Pair(hosts.clone(), traffic), length, seed: 1 };
        let trip = run(&of);
        assert_eq!(trip.broken, None);
        assert_eq!(trip, run(&of), "the same again");
        let mut latency_ns = trip.latency_ns;
        latency_ns.sort_unstable();
        latency_ns
    }

    fn median(latency_ns: &[u64]) -> u64 {
        latency_ns[latency_ns.len() / 2]
    }

    #[test]
    fn a_thread_of_the_kernel_makes_latency_independent_of_what_the_program_computes() {
        let threaded = hosts(RpcProgram::Ring(RpcPoller::Kernel), 100, ThreadedSetting::BusyPoll, (0, 0));
        let at = |delay| median(&trips(&threaded, Some(20_000), Span::from_us(delay)));
        assert!(at(0).abs_diff(at(40)) < 100, "{} and {} ns", at(0), at(40));
        let inline = hosts(RpcProgram::Ring(RpcPoller::RpcProgram), 100, ThreadedSetting::Disabled, (0, 0));
        let at = |delay| median(&trips(&inline, Some(20_000), Span::from_us(delay)));
        assert!(at(40) > at(0) + 1000, "{} and {} ns", at(0), at(40));
    }

    #[test]
    fn a_thread_of_the_program_that_polls_does_nearly_as_well() {
        let separate = hosts(RpcProgram::Ring(RpcPoller::Thread), 100, ThreadedSetting::Disabled, (0, 0));
        let at = |delay| median(&trips(&separate, Some(20_000), Span::from_us(delay)));
        assert!(at(0).abs_diff(at(40)) < 300, "{} and {} ns", at(0), at(40));
    }

    /// Each end holds its interrupt back once in a round trip.
    #[test]
    fn coalescing_is_paid_for_twice_in_a_round_trip() {
        let with = |coalesce| {
            median(&trips(&hosts(RpcProgram::Stream, 0, ThreadedSetting::Disabled, coalesce), None, Span::ZERO))
        };
        let (at_once, held) = (with((0, 0)), with((16, 44)));
        assert!((held - at_once).abs_diff(32_000) < 500, "{at_once} and {held} ns");
        assert_eq!(with((16, 1)), at_once, "the first frame is enough");
    }

    #[test]
    fn an_end_that_cannot_keep_up_is_a_failure_and_not_a_figure() {
        let threaded = hosts(RpcProgram::Ring(RpcPoller::Kernel), 100, ThreadedSetting::BusyPoll, (0, 0));
        let traffic = Traffic {
            load: Load::Rps(100_000),
            delay: Span::from_us(30),
            wire: Span::from_us(5),
            wire_noise: Span::ZERO,
        };
        let length = Length { warm_up: Span::from_ms(1), measured: Span::from_ms(30) };
        let of = Experiment { setting: Setting::Pair(threaded, traffic), length, seed: 1 };
        let broken = run(&of).broken.expect("its ring overflows");
        assert!(broken.contains("cannot keep up"), "{broken}");
    }
}

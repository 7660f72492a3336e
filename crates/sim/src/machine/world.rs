//! Everything that exists in a simulated machine, and the events that move it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use napier_core::ids::IdAllocator;
use napier_core::time::{Deadline, Instant, Span};
use napier_rng::Xoshiro256PlusPlus;
use rand::RngExt;

use super::clients::Asking;
use super::coverage::{Coverage, Decision};
use super::device::{Dev, Frames};
use super::gro::Up;
use super::napi::Napi;
use super::sched::Cpu;
use super::socket::{Ep, Sock};
use super::trips::Trips;
use super::tx::Tx;
use super::vm::{CtxId, Level};
use super::work::{Disturbance, Work, WorkCosts};
use super::{Options, Plant};
use napier_scenario::{Call, Event, Machine, Policy, Seen, SocketIx, Step, StopBy, Sysctl};

/// What a CPU takes as a hardware interrupt.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum HardIrq {
    /// The device's, for one instance.
    Device { napi: usize },
    /// The instance's timer; `generation` is that of its arming.
    Timer { napi: usize, generation: u32 },
    /// `napi_schedule` of a scenario.
    Schedule { napi: usize },
    /// A timer is armed by a scenario.
    Arm { napi: usize, after: Span },
    /// The timer of a discipline; `generation` is that of its arming.
    Watchdog { qd: usize, generation: u32 },
    /// A stop of a transmit queue ends.
    TxWake { txq: usize, by: StopBy },
}

/// Something that will happen.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Ev {
    /// The topmost context of a CPU has spent its time.
    Cpu { cpu: usize, generation: u32 },
    /// An interrupt reaches a CPU.
    Irq { cpu: usize, irq: HardIrq },
    /// The instance's timer expires.
    Timer { napi: usize, generation: u32 },
    /// The interrupt-coalescing timer of a queue expires.
    Coalesce { napi: usize, generation: u32 },
    /// A packet has left the ring of a transmit queue.
    TxDone { txq: usize, generation: u32 },
    /// The timer of a discipline expires.
    Watchdog { qd: usize, generation: u32 },
    /// A woken thread can run.
    Wake { ctx: CtxId, generation: u32 },
    /// A sleep ends by time.
    Timeout { ctx: CtxId, generation: u32 },
    /// The running thread's slice is over.
    Slice { cpu: usize, generation: u32 },
    /// A stalled thread may go on.
    Thaw { ctx: CtxId },
    /// A connection of a client sends.
    Ask { connection: u32 },
    /// A frame of a connection comes from the wire.
    Frame { connection: u32, is_ack: bool },
    /// A frame between two hosts comes from the wire.
    Wire { napi: usize },
    /// An answer is at its client.
    Answered { connection: u32 },
    /// A step of the timeline; `left` packets of a burst are still to come.
    Step { step: usize, left: u32 },
}

/// What a thread is doing.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Run {
    /// On the CPU or in its queue, or not a thread.
    Ready,
    /// Asleep.
    Blocked,
    /// Woken, not there yet.
    Waking,
}

/// What the machine knows of a context.
pub(super) struct Ctx {
    pub(super) cpu: usize,
    pub(super) policy: Policy,
    pub(super) run: Run,
    pub(super) remaining: u64,
    pub(super) vruntime: u64,
    pub(super) bh_off: u32,
    pub(super) preempt_off: u32,
    pub(super) wake_gen: u32,
    pub(super) frozen_until: Instant,
}

impl Ctx {
    pub(super) fn new(cpu: usize, policy: Policy) -> Self {
        Self {
            cpu,
            policy,
            run: Run::Ready,
            remaining: 0,
            vruntime: 0,
            bh_off: 0,
            preempt_off: 0,
            wake_gen: 0,
            frozen_until: Instant::ZERO,
        }
    }
}

/// An application thread's calls that are not done.
#[derive(Default)]
pub(super) struct Inbox {
    pub(super) ctx: CtxId,
    pub(super) calls: std::collections::VecDeque<Call>,
    pub(super) cap_net_admin: bool,
    /// A call is being made.
    pub(super) busy: bool,
}

/// An event and when it happens; equal times in the order of pushing.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
struct Queued {
    at_ns: u64,
    seq: u64,
    event: Ev,
}

impl Ord for Queued {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at_ns, self.seq).cmp(&(other.at_ns, other.seq))
    }
}

impl PartialOrd for Queued {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// The machine.
pub(super) struct World {
    pub(super) now: Instant,
    /// Time zero of the timeline.
    pub(super) epoch: Instant,
    pub(super) horizon: Instant,
    heap: BinaryHeap<Reverse<Queued>>,
    seq: u64,
    pub(super) cpus: Vec<Cpu>,
    pub(super) ctxs: Vec<Ctx>,
    pub(super) napis: Vec<Napi>,
    pub(super) devs: Vec<Dev>,
    pub(super) socks: Vec<Sock>,
    pub(super) epolls: Vec<Ep>,
    pub(super) inboxes: Vec<Inbox>,
    /// CPU time that is wanted by others, per CPU and policy (fair, FIFO).
    pub(super) hogs: Vec<[(CtxId, u64); 2]>,
    pub(super) timeline: Vec<Step>,
    pub(super) ids: IdAllocator,
    pub(super) hz: u32,
    pub(super) sysctl: Sysctl,
    pub(super) costs: WorkCosts,
    pub(super) disturbance: Disturbance,
    /// A CPU that was idle for so long sleeps deeply; 0: never.
    pub(super) deep_after: Span,
    jitter: Option<Xoshiro256PlusPlus>,
    late_irqs: Option<Xoshiro256PlusPlus>,
    pub(super) plant: Plant,
    /// Thread creations until one fails; 0 = none will.
    pub(super) fail_thread_in: u32,
    pub(super) log: Option<Vec<Seen>>,
    /// The timeline has begun: what happens is logged.
    pub(super) started: bool,
    pub(super) cover: Coverage,
    pub(super) broken: Option<String>,
    pub(super) steps: u64,
    pub(super) steps_max: u64,
    /// The last instant at which something happened, and the steps before it.
    pub(super) instant: (Instant, u64),
    pub(super) dirty: Vec<usize>,
    pub(super) busy_poll_rx_packets: u64,
    pub(super) arrived: u64,
    pub(super) drops: [u64; super::device::DROP_REASONS],
    pub(super) frames: Frames,
    pub(super) up: Up,
    pub(super) tx: Tx,
    /// Clients, in runs for figures.
    pub(super) asking: Option<Asking>,
    /// Round trips between two hosts, in runs for figures.
    pub(super) trips: Option<Trips>,
    /// Frames without data that reached their connections.
    pub(super) acks: u64,
}

impl World {
    pub(super) fn new(machine: &Machine, timeline: &[Step], options: &Options) -> Self {
        let rng = |on: bool, name: &str| on.then(|| napier_rng::stream(machine.seed, name));
        Self {
            now: Instant::ZERO,
            epoch: Instant::ZERO,
            horizon: Instant::ZERO,
            heap: BinaryHeap::with_capacity(64),
            seq: 0,
            cpus: Vec::new(),
            ctxs: Vec::new(),
            napis: Vec::new(),
            devs: Vec::new(),
            socks: Vec::new(),
            epolls: Vec::new(),
            inboxes: Vec::new(),
            hogs: Vec::new(),
            timeline: timeline.to_vec(),
            ids: IdAllocator::new(u32::from(machine.cpus)),
            hz: machine.hz,
            sysctl: machine.sysctl,
            costs: WorkCosts::from(&machine.costs),
            disturbance: Disturbance::default(),
            deep_after: Span::ZERO,
            jitter: rng(machine.jitter, "jitter"),
            late_irqs: rng(machine.late_interrupts, "late interrupts"),
            plant: options.plant,
            fail_thread_in: 0,
            log: options.log.then(Vec::new),
            started: false,
            cover: Coverage::default(),
            broken: None,
            steps: 0,
            steps_max: options.steps_max.unwrap_or(u64::MAX),
            instant: (Instant::ZERO, 0),
            dirty: Vec::new(),
            busy_poll_rx_packets: 0,
            arrived: 0,
            drops: [0; super::device::DROP_REASONS],
            frames: Frames::default(),
            up: Up::default(),
            tx: Tx::default(),
            asking: None,
            trips: None,
            acks: 0,
        }
    }

    /// The current jiffy.
    pub(super) fn jiffy(&self) -> u64 {
        self.now.ns / (1_000_000_000 / u64::from(self.hz))
    }

    /// Logs what happened.
    #[inline]
    pub(super) fn note(&mut self, event: Event) {
        self.cover.event(&event);
        if !self.started {
            return;
        }
        let at = Instant::from_ns(self.now.ns - self.epoch.ns);
        if let Some(log) = &mut self.log {
            log.push(Seen { at, event });
        }
    }

    /// Counts a decision of the rules.
    #[inline]
    pub(super) fn hit(&mut self, decision: Decision) {
        self.cover.decision(decision);
    }

    /// Something must hold and does not.
    #[cold]
    pub(super) fn fail(&mut self, why: String) {
        let at = self.now.ns.saturating_sub(self.epoch.ns);
        self.broken.get_or_insert_with(|| format!("at {:.3} us: {why}", at as f64 / 1000.0));
    }

    /// A cost as it turns out this time.
    #[inline]
    pub(super) fn jittered(&mut self, span: Span) -> u64 {
        match &mut self.jitter {
            // 0.25 to 2 times, so that steps of different CPUs overtake each other.
            Some(rng) if span.ns > 0 => (span.ns * u64::from(rng.random_range(64_u32..512))).div_ceil(256),
            _ => span.ns,
        }
    }

    /// How long a CPU takes for work of several kinds, each so many times. Their sum turns out one way or another, not each.
    #[inline]
    pub(super) fn time_for(&mut self, cpu: usize, level: Level, works: &[(Work, u64)]) -> u64 {
        let slower = self.disturbance;
        let (mut plain, mut charged) = (0, 0);
        for (work, times) in works {
            let ns = self.costs.get(*work).ns * times;
            plain += ns;
            charged += self.cpus[cpu].speed.charge(level, *work, ns, slower);
        }
        self.jittered(Span::from_ns(plain)) + (charged - plain)
    }

    /// How late an interrupt is.
    pub(super) fn irq_delay(&mut self) -> Span {
        let Some(rng) = &mut self.late_irqs else { return Span::ZERO };
        if rng.random_range(0..8_u32) == 0 { Span::from_ns(rng.random_range(0..20_000)) } else { Span::ZERO }
    }

    /// Asks the late-interrupt stream for one more, spurious, interrupt.
    pub(super) fn spurious(&mut self) -> bool {
        self.late_irqs.as_mut().is_some_and(|rng| rng.random_range(0..16_u32) == 0)
    }

    pub(super) fn push_at(&mut self, at: Instant, event: Ev) {
        self.seq += 1;
        self.heap.push(Reverse(Queued { at_ns: at.ns, seq: self.seq, event }));
    }

    pub(super) fn next_event_at(&self) -> Instant {
        self.heap.peek().map_or(Instant::from_ns(u64::MAX), |Reverse(queued)| Instant::from_ns(queued.at_ns))
    }

    /// Takes the next event up to `until` and moves the clock to it.
    pub(super) fn pop_event(&mut self, until: Instant) -> Option<Ev> {
        if self.next_event_at() > until {
            return None;
        }
        let Reverse(queued) = self.heap.pop()?;
        assert!(queued.at_ns >= self.now.ns, "time does not go back");
        self.now = Instant::from_ns(queued.at_ns);
        Some(queued.event)
    }

    /// Carries an event out; the CPU that must look again.
    pub(super) fn on_event(&mut self, event: Ev) -> Option<usize> {
        self.count_step();
        match event {
            Ev::Cpu { cpu, generation } => self.cpus[cpu].is_current(generation).then_some(cpu),
            Ev::Irq { cpu, irq } => {
                if let HardIrq::Device { napi } = irq {
                    self.napis[napi].irq_latched = false;
                }
                self.cpus[cpu].hard_queue.push_back(irq);
                Some(cpu)
            }
            Ev::Timer { napi, generation } => self.timer_expires(napi, generation),
            Ev::Coalesce { napi, generation } => {
                self.coalesce_expires(napi, generation);
                None
            }
            Ev::TxDone { txq, generation } => {
                self.packet_left(txq, generation);
                None
            }
            Ev::Watchdog { qd, generation } => self.watchdog_expires(qd, generation),
            Ev::Wake { ctx, generation } | Ev::Timeout { ctx, generation } => {
                if self.ctxs[ctx].wake_gen != generation || self.ctxs[ctx].run == Run::Ready {
                    return None;
                }
                self.ctxs[ctx].wake_gen += 1;
                self.make_ready(ctx);
                Some(self.ctxs[ctx].cpu)
            }
            Ev::Slice { cpu, generation } => {
                if !self.cpus[cpu].is_slice(generation) {
                    return None;
                }
                self.cpus[cpu].need_resched = true;
                Some(cpu)
            }
            Ev::Ask { connection } => {
                self.ask(connection as usize);
                None
            }
            Ev::Frame { connection, is_ack } => {
                self.frame_arrives(connection as usize, is_ack);
                None
            }
            Ev::Wire { napi } => {
                self.put_in_rx_ring(napi, Some(SocketIx(napi as u16)), false);
                None
            }
            Ev::Answered { connection } => {
                self.answered(connection as usize);
                None
            }
            Ev::Thaw { ctx } => Some(self.ctxs[ctx].cpu),
            Ev::Step { step, left } => {
                self.check_conserved();
                self.take_step(step, left)
            }
        }
    }

    /// A point in time as seen by the rules: now.
    pub(super) fn after(&self, span: Span) -> Deadline {
        Deadline::after(self.now, span)
    }
}

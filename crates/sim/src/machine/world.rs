//! Everything that exists in a simulated machine, and what its events do.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;

use napier_core::ids::IdAllocator;
use napier_core::time::{Instant, Span};
use napier_rng::Xoshiro256PlusPlus;
use rand::RngExt;

use super::clients::Asking;
use super::coverage::{Coverage, Decision};
use super::device::{Dev, Frames};
use super::event::{Ev, HardIrq, Queued};
use super::gro::Up;
use super::group::Groups;
use super::napi::Napi;
use super::place::Places;
use super::sched::Cpu;
use super::socket::{Ep, Sock};
use super::story::Told;
use super::streams::Streams;
use super::trips::Trips;
use super::tx::Tx;
use super::vm::{CtxId, Level};
use super::work::{Disturbance, Work, WorkCosts};
use super::{Options, Plant};
use napier_scenario::{Call, Event, Machine, Policy, Seen, SocketIx, Step, Sysctl};

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
    /// Where it is; what runs there knows it too.
    pub(super) cpu: Rc<Cell<usize>>,
    pub(super) policy: Policy,
    pub(super) run: Run,
    pub(super) remaining: u64,
    pub(super) vruntime: u64,
    pub(super) bh_off: u32,
    pub(super) preempt_off: u32,
    pub(super) wake_gen: u32,
    pub(super) frozen_until: Instant,
    /// The scheduler puts it where there is room.
    pub(super) moves: bool,
    /// When it last gave its CPU away.
    pub(super) ran_at: Instant,
    /// The CPU that woke it, if one did.
    pub(super) waker: Option<usize>,
}

impl Ctx {
    pub(super) fn new(cpu: usize, policy: Policy) -> Self {
        Self {
            cpu: Rc::new(Cell::new(cpu)),
            policy,
            run: Run::Ready,
            remaining: 0,
            vruntime: 0,
            bh_off: 0,
            preempt_off: 0,
            wake_gen: 0,
            frozen_until: Instant::ZERO,
            moves: false,
            ran_at: Instant::ZERO,
            waker: None,
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
    pub(super) places: Places,
    /// The CPU whose code goes on now; none while an event is carried out.
    pub(super) on_cpu: Option<usize>,
    /// Threads that were put on another CPU.
    pub(super) migrations: u64,
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
    pub(super) groups: Groups,
    /// Clients, in runs for figures.
    pub(super) asking: Option<Asking>,
    /// Round trips between two hosts, in runs for figures.
    pub(super) trips: Option<Trips>,
    /// Messages between two hosts, likewise.
    pub(super) streams: Option<Box<Streams>>,
    /// Frames without data that reached their connections.
    pub(super) acks: u64,
    /// What each CPU did, in runs to look at.
    pub(super) told: Option<Box<Told>>,
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
            places: Places::default(),
            on_cpu: None,
            migrations: 0,
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
            groups: Groups::default(),
            asking: None,
            trips: None,
            streams: None,
            acks: 0,
            told: None,
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
        let (slower, shared_pct) = (self.disturbance, self.shared_pct(cpu));
        let (mut plain, mut charged) = (0, 0);
        for (work, times) in works {
            let ns = self.costs.get(*work).ns * times;
            plain += ns;
            charged += self.cpus[cpu].speed.charge(level, *work, ns, slower, shared_pct);
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
                Some(self.ctxs[ctx].cpu.get())
            }
            Ev::Slice { cpu, generation } => {
                if !self.cpus[cpu].is_slice(generation) || self.cpus[cpu].ready.is_empty() {
                    return None;
                }
                self.cpus[cpu].need_resched = true;
                Some(cpu)
            }
            Ev::Tick { cpu } => self.tick(cpu),
            Ev::Thaw { ctx } => Some(self.ctxs[ctx].cpu.get()),
            Ev::Step { step, left } => {
                self.check_conserved();
                self.take_step(step, left)
            }
            traffic => {
                self.on_traffic(traffic);
                None
            }
        }
    }

    /// What those do who send to the machine, in runs for figures.
    fn on_traffic(&mut self, event: Ev) {
        match event {
            Ev::Ask { connection } => self.ask(connection as usize),
            Ev::Frame { connection, is_ack } => self.frame_arrives(connection as usize, is_ack),
            Ev::Answered { connection } => self.answered(connection as usize),
            Ev::Wire { napi } => _ = self.put_in_rx_ring(napi, Some(SocketIx(napi as u16)), false),
            Ev::Chunk { flow, to, is_ack, segments } => {
                self.chunk_arrives(flow.into(), to.into(), is_ack, segments);
            }
            Ev::LinkFree { from } => self.link_is_free(from.into()),
            Ev::Due { flow } => self.request_is_due(flow.into()),
            Ev::Stored { flow } => self.stored(flow.into()),
            other => unreachable!("{other:?} is no traffic"),
        }
    }
}

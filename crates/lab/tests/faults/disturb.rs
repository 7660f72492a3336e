//! Disturbances: everything that a user may do to a device, a server or an engine while traffic flows.

use std::collections::VecDeque;
use std::fmt;
use std::ops::AddAssign;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::ensure;
use napier_core::control::plan::Plan;
use napier_rng::{Xoshiro256PlusPlus, below};
use napier_runtime::capture::{Capture, CaptureConfig};
use napier_runtime::control::{DevAttribute, DevSet, Errno, NapiSet};
use napier_runtime::device::{Coalesce, DeviceHandle};
use napier_runtime::event::EpollParamsRequest;
use napier_runtime::tx::{ByteLimits, FqConfig, QdiscConfig, TxVariant};
use rand::Rng as _;

use super::controls::Controls;
use super::server::Server;
use napier_lab::compare::parts::Pair;
use napier_lab::modes::{Mode, ServerStyle};

/// Every mode of the comparison; their timeouts bound how long a mode may leave a packet alone.
const MODES: &str = "base,defer20,defer200,napibusy,fullbusy,suspend0,suspend20,threaded,workqueue,threaded-busy-poll,\
                     busy-read";
/// Longest deferral and coalescing that are set by chance, so that no setting by itself looks like a stall.
const DEFERRAL_NS_MAX: u32 = 3_000_000;
const SUSPENSION_NS_MAX: u32 = 20_000_000;
const COALESCE_USECS_MAX: u32 = 2_000;
/// Disturbances that are remembered for a report.
const REMEMBERED: usize = 40;

/// What was done so far.
#[derive(Clone, Copy, Default)]
pub(crate) struct Done {
    pub(crate) switches: u64,
    pub(crate) downs: u64,
    pub(crate) pauses: u64,
    pub(crate) restarts: u64,
    pub(crate) moves: u64,
    pub(crate) wrong_calls: u64,
    pub(crate) others: u64,
    /// Stopping a thread waits until it has caught up, so this may be long under load.
    pub(crate) slowest: Duration,
}

impl AddAssign for Done {
    fn add_assign(&mut self, other: Self) {
        self.switches += other.switches;
        self.downs += other.downs;
        self.pauses += other.pauses;
        self.restarts += other.restarts;
        self.moves += other.moves;
        self.wrong_calls += other.wrong_calls;
        self.others += other.others;
        self.slowest = self.slowest.max(other.slowest);
    }
}

/// The last disturbances, oldest first, for whoever has a report to write.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<VecDeque<String>>>);

impl Log {
    fn note(&self, what: String) {
        let mut lines = self.0.lock().expect("nobody panics with the log in hand");
        if lines.len() == REMEMBERED {
            lines.pop_front();
        }
        lines.push_back(what);
    }
}

impl fmt::Display for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self.0.lock().expect("nobody panics with the log in hand");
        lines.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

/// Who disturbs.
pub(crate) struct Disturber<'a> {
    pub(crate) pair: &'a Pair,
    pub(crate) server: Server,
    pub(crate) done: Done,
    rng: Xoshiro256PlusPlus,
    modes: Vec<Mode>,
    cpus: Vec<usize>,
    tested_is_up: bool,
    peer_is_up: bool,
    capture: Option<Capture>,
    begun: Instant,
    log: Log,
}

impl<'a> Disturber<'a> {
    pub(crate) fn new(pair: &'a Pair, server: Server, rng: Xoshiro256PlusPlus) -> anyhow::Result<Self> {
        let cpus = pair.engine.softirq_stats().iter().map(|stats| stats.cpu).collect();
        let modes = Mode::parse_list(MODES)?;
        let (done, begun, log) = (Done::default(), Instant::now(), Log::default());
        let (tested_is_up, peer_is_up, capture) = (true, true, None);
        Ok(Self { pair, server, done, rng, modes, cpus, tested_is_up, peer_is_up, capture, begun, log })
    }

    /// What is noted of the disturbances.
    pub(crate) fn log(&self) -> Log {
        self.log.clone()
    }

    fn note(&mut self, what: impl fmt::Display) {
        let at = self.begun.elapsed();
        self.log.note(format!("{at:>9.3?} {what}"));
    }

    fn below(&mut self, end: u32) -> u32 {
        below(&mut self.rng, end)
    }

    fn chance(&mut self, one_in: u32) -> bool {
        self.below(one_in) == 0
    }

    fn sleep_us(&mut self, most: u32) {
        std::thread::sleep(Duration::from_micros(u64::from(self.below(most + 1))));
    }

    /// `count` disturbances, each a few ms after the other; then both devices are up and every worker reads.
    pub(crate) fn round(&mut self, count: u32) -> anyhow::Result<()> {
        for _ in 0..count {
            let begun = Instant::now();
            self.one()?;
            self.done.slowest = self.done.slowest.max(begun.elapsed());
            self.sleep_us(4_000);
        }
        self.up()
    }

    /// The workers stop reading for this long; traffic goes on.
    pub(crate) fn pause(&mut self, length: Duration) {
        self.note(format_args!("workers pause for {length:?}"));
        self.done.pauses += 1;
        self.server.pause(true);
        std::thread::sleep(length);
        self.server.pause(false);
    }

    fn up(&mut self) -> anyhow::Result<()> {
        self.note("both up");
        self.pair.tested.set_up()?;
        self.pair.peer.set_up()?;
        (self.tested_is_up, self.peer_is_up) = (true, true);
        Ok(())
    }

    fn one(&mut self) -> anyhow::Result<()> {
        match self.below(19) {
            0..=3 => self.switch_mode(),
            4..=5 => self.down(),
            6 => {
                let length = Duration::from_micros(u64::from(self.below(30_000)));
                self.pause(length);
                Ok(())
            }
            7 => self.restart(),
            8 => self.move_interrupts(),
            9 => self.coalesce(),
            10 => self.scale(),
            11 => self.tune(),
            12 => self.thread(),
            13 => self.stop_for_a_moment(),
            14..=15 => self.transmit(),
            16 => self.capture(),
            _ => self.wrong_calls(),
        }
    }

    fn some_device(&mut self) -> (&'a DeviceHandle, bool) {
        if self.chance(3) { (&self.pair.peer, self.peer_is_up) } else { (&self.pair.tested, self.tested_is_up) }
    }

    /// napi-set must work on a device that is up, and find nothing on one that is down.
    fn napi_set(&self, set: NapiSet, up: bool) -> anyhow::Result<()> {
        match self.pair.engine.napi_set(set) {
            Ok(()) => ensure!(up, "{set:?} was accepted though the device is down"),
            Err(error) => ensure!(!up && error.errno() == Errno::ENOENT, "{set:?} gave {error}"),
        }
        Ok(())
    }

    fn switch_mode(&mut self) -> anyhow::Result<()> {
        let at = self.below(u32::try_from(self.modes.len())?) as usize;
        let mode = self.modes[at];
        self.note(format_args!("mode {mode}"));
        self.done.switches += 1;
        let plan = mode.plan();
        for queue in 0..self.pair.tested.queues() {
            let id = self.pair.tested.napi_id(queue);
            plan.changes().try_for_each(|change| self.napi_set(change.request(id), self.tested_is_up))?;
        }
        let waits = [Some(ServerStyle::of(&plan)), self.server.style()];
        let same_kind = waits == [Some(ServerStyle::EventContext); 2];
        if same_kind {
            let request = EpollParamsRequest::from(plan.context().unwrap_or_default());
            self.server.contexts().iter().try_for_each(|context| context.set_params(request))?;
        }
        if !same_kind || self.chance(8) { self.restart_as(&plan) } else { Ok(()) }
    }

    fn down(&mut self) -> anyhow::Result<()> {
        let (device, _) = self.some_device();
        self.note(format_args!("{} down", device.name()));
        self.done.downs += 1;
        device.set_down();
        let is_tested = device.name() == self.pair.tested.name();
        *(if is_tested { &mut self.tested_is_up } else { &mut self.peer_is_up }) = false;
        self.sleep_us(5_000);
        // Now and then it stays down, so that the next disturbances meet a device that is not there.
        if self.chance(4) { Ok(()) } else { self.up() }
    }

    fn restart(&mut self) -> anyhow::Result<()> {
        let at = self.below(u32::try_from(self.modes.len())?) as usize;
        self.restart_as(&self.modes[at].plan())
    }

    fn restart_as(&mut self, plan: &Plan) -> anyhow::Result<()> {
        self.note(format_args!("workers restart as {:?}", ServerStyle::of(plan)));
        self.done.restarts += 1;
        if self.server.style() == Some(ServerStyle::BlockingReceive) {
            // Who blocks in a send, because nobody reads at the end that is down, does not hear that it shall stop.
            self.up()?;
        }
        self.server.stop()?;
        self.server.start(self.pair, plan)
    }

    fn move_interrupts(&mut self) -> anyhow::Result<()> {
        let (device, up) = self.some_device();
        let at = self.below(u32::try_from(self.cpus.len())?) as usize;
        let cpu = self.cpus[at];
        let queue = u16::try_from(self.below(u32::from(device.queues())))?;
        self.note(format_args!("interrupt and thread of {} {queue} to CPU {cpu}", device.name()));
        self.done.moves += 1;
        let (id, engine) = (device.napi_id(queue), &self.pair.engine);
        let (irq, thread) = (engine.set_irq_affinity(id, cpu), engine.set_thread_affinity(id, cpu));
        ensure!(irq.is_ok() == up && thread.is_ok() == up, "moving gave {irq:?} and {thread:?}, up: {up}");
        ensure!(!up || device.irq_cpu(queue) == Some(cpu), "the interrupt did not move");
        Ok(())
    }

    fn coalesce(&mut self) -> anyhow::Result<()> {
        let (device, _) = self.some_device();
        let usecs = if self.chance(3) { 0 } else { self.below(COALESCE_USECS_MAX) + 1 };
        let frames = if usecs == 0 { self.below(2) } else { self.below(64) };
        let coalesce = if self.chance(3) { Coalesce::adaptive() } else { Coalesce::new(usecs, frames)? };
        self.note(format_args!("{} coalesces: {coalesce}", device.name()));
        self.done.others += 1;
        ensure!((0..device.queues()).all(|queue| device.set_coalesce(queue, coalesce)), "a queue was not found");
        Ok(())
    }

    fn scale(&mut self) -> anyhow::Result<()> {
        let (device, _) = self.some_device();
        self.note(format_args!("another indirection table for {}", device.name()));
        self.done.others += 1;
        let bits = self.rng.next_u64();
        let queues = u64::from(device.queues());
        let table = std::array::from_fn(|at| ((bits >> (at % 32) & 3) % queues) as u16);
        device.set_indirection(table)?;
        ensure!(device.indirection() == table, "the table is not the one that was set");
        Ok(())
    }

    fn tune(&mut self) -> anyhow::Result<()> {
        let queue = u16::try_from(self.below(u32::from(self.pair.tested.queues())))?;
        let set = NapiSet {
            id: Some(u64::from(self.pair.tested.napi_id(queue))),
            defer_hard_irqs: Some(u64::from(self.below(200))),
            gro_flush_timeout: Some(u64::from(self.below(DEFERRAL_NS_MAX))),
            irq_suspend_timeout: Some(u64::from(self.below(SUSPENSION_NS_MAX))),
            ..NapiSet::default()
        };
        self.note(format_args!("{set:?}"));
        self.done.others += 1;
        self.napi_set(set, self.tested_is_up)?;
        let (engine, budget) = (&self.pair.engine, 1 + self.rng.next_u32() % 600);
        engine.set_sysctl_netdev_budget(budget.cast_signed());
        engine.set_sysctl_busy_poll(if budget.is_multiple_of(3) { 50 } else { 0 });
        engine.set_sysctl_busy_read(if budget.is_multiple_of(5) { 50 } else { 0 });
        engine.set_sysctl_netdev_budget_usecs(2_000 + u64::from(budget))?;
        Ok(())
    }

    fn thread(&mut self) -> anyhow::Result<()> {
        let (device, up) = self.some_device();
        self.done.switches += 1;
        if self.chance(3) {
            let value = u64::from(self.below(2));
            self.note(format_args!("{} threaded {value}", device.name()));
            return Ok(device.set(DevSet { attribute: DevAttribute::Threaded, value })?);
        }
        let queue = u16::try_from(self.below(u32::from(device.queues())))?;
        let setting = u64::from(self.below(4));
        let (threaded, workqueue) = ((setting < 3).then_some(setting), setting == 3);
        self.note(format_args!("{} {queue} threaded {threaded:?}, pool {workqueue}", device.name()));
        let id = Some(u64::from(device.napi_id(queue)));
        self.napi_set(NapiSet { id, threaded, workqueue, ..NapiSet::default() }, up)
    }

    /// Another discipline, another way to hand over to it, or other byte limits, for the replies of one queue.
    fn transmit(&mut self) -> anyhow::Result<()> {
        let device = &self.pair.tested;
        let queue = u16::try_from(self.below(u32::from(device.queues())))?;
        self.done.others += 1;
        let has_one = device.tx_stats(queue)?.qdisc != "noqueue";
        if has_one && self.chance(2) {
            let variant = TxVariant::ALL[self.below(3) as usize];
            self.note(format_args!("{} {queue} hands over as {}", device.name(), variant.name()));
            return Ok(device.set_tx_variant(queue, variant)?);
        }
        if has_one && self.chance(3) {
            let limits = (!self.chance(3)).then(ByteLimits::default);
            self.note(format_args!("{} {queue} byte limits {limits:?}", device.name()));
            return Ok(device.set_byte_limits(queue, limits)?);
        }
        let qdisc = match self.below(4) {
            0 => QdiscConfig::Noqueue,
            1 => QdiscConfig::pfifo(),
            2 => QdiscConfig::pfifo_fast(),
            _ => QdiscConfig::Fq(FqConfig::default()),
        };
        self.note(format_args!("{} {queue} gets {qdisc:?}", device.name()));
        Ok(device.set_qdisc(queue, &qdisc)?)
    }

    /// A capture begins, or ends; with a small ring now and then, which drops frames of the capture and of nobody else.
    fn capture(&mut self) -> anyhow::Result<()> {
        self.done.others += 1;
        if let Some(capture) = self.capture.take() {
            self.note("the capture ends");
            capture.finish()?;
            return Ok(());
        }
        let (device, _) = self.some_device();
        let ring_bytes = if self.chance(2) { 256 } else { 1 << 20 };
        self.note(format_args!("{} is captured by rings of {ring_bytes} bytes", device.name()));
        self.capture = Some(device.capture(&CaptureConfig { ring_bytes, ..CaptureConfig::new("/dev/null") })?);
        Ok(())
    }

    /// Counting frames stops each instance of a device for a moment.
    fn stop_for_a_moment(&mut self) -> anyhow::Result<()> {
        let (device, _) = self.some_device();
        self.note(format_args!("frames of {} counted", device.name()));
        self.done.others += 1;
        let out = device.frames_out();
        ensure!(out >= 0, "{} has {out} frames too many", device.name());
        Ok(())
    }

    fn wrong_calls(&mut self) -> anyhow::Result<()> {
        let kind = self.below(Controls::KINDS);
        self.note(format_args!("wrong calls of kind {kind}"));
        let controls = Controls { pair: self.pair, contexts: self.server.contexts() };
        self.done.wrong_calls += controls.wrong_calls(kind)?;
        Ok(())
    }
}

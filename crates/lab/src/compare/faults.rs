//! Fault injection: `kv` at half load while everything is disturbed that a user can disturb.
//!
//! Time is cut into rounds. In each, requests flow while disturbances follow each other by a few ms. Then it is
//! quiet, and what must hold is checked:
//!
//! * every request that was sent has been answered or is in a counter that names the place of its loss;
//! * a request on every flow is answered within a second, without any help from another packet; one of an act may be asked
//!   again, if its loss was counted;
//! * the server's end has no frame outside of its pools and rings.
//!
//! A few rounds make an act, which has an engine, a link and a server of its own and ends with all of them stopped and
//! no frame missing at either end.

mod controls;
mod disturb;
mod ledger;
mod server;

use std::fmt;
use std::net::SocketAddrV4;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use napier_kv::load::codec::{Format, Request, Verdict, read_datagram};
use napier_kv::load::generator::Generator;
use napier_kv::load::net::Proto;
use napier_kv::load::plan::{Measured, Pace, Window};
use napier_kv::profile::{Profile, ProfileConfig};
use napier_rng::{Xoshiro256PlusPlus, below, stream};
use napier_runtime::device::LinkConfig;

use super::case::{CLIENT_PORT, SERVER};
use super::cpus::CpuLayout;
use super::frames::{Template, udp_payload};
use super::generator::plan;
use super::server::filled;
use super::wire::{RawFlow, RawWire, write};
use crate::modes::Mode;
use crate::pair::{PEER_IP, Pair};
use disturb::{Disturber, Done};
use ledger::Losses;
use server::Server;

/// Longest wait for an answer, and for the last packet to arrive or to be counted.
const PATIENCE: Duration = Duration::from_secs(1);
/// Requests of an act that may be asked again, each after its loss was counted.
const REPEATS_MAX: u64 = 1;
/// Time between two looks at what was lost.
const LOSS_LOOK: Duration = Duration::from_millis(5);
/// Length of an act.
const ACT: Duration = Duration::from_millis(2_500);
/// Length of the run that finds out what full load is.
const CALIBRATION: Duration = Duration::from_millis(60);
/// Longest traffic of a round; the disturber ends it sooner unless a thread is to be stopped: as in the kernel, that
/// waits until the thread has caught up, which it may not do while requests come.
const TRAFFIC: Duration = Duration::from_millis(1500);
/// Longest overload of a round.
const OVERLOAD: Duration = Duration::from_millis(60);
const FRAME_BYTES: usize = 1514;

/// What to do.
#[derive(Clone, Copy, Debug)]
pub struct FaultConfig {
    /// Decides on the shape of links and on every disturbance.
    pub seed: u64,
    /// How long to go on.
    pub length: Duration,
}

/// What was done and what came of it.
#[derive(Default)]
pub struct FaultReport {
    done: Done,
    acts: u64,
    rounds: u64,
    overflows: u64,
    sent: u64,
    replies: u64,
    /// Requests on a quiet link that were lost, counted and asked again.
    repeats: u64,
    lost: Losses,
}

impl fmt::Display for FaultReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Done { switches, downs, pauses, restarts, moves, wrong_calls, others, slowest } = self.done;
        write!(
            f,
            "{} acts, {} rounds: {switches} switches, {downs} downs, {} rounds with overflows, {pauses} pauses, \
             {restarts} restarts, {moves} interrupt moves, {others} other changes, {wrong_calls} wrong calls refused, \
             slowest disturbance {slowest:.0?}; stalls 0, frames missing 0, probes repeated {}; {} requests, {} answered, \
             {} lost: {}",
            self.acts,
            self.rounds,
            self.overflows,
            self.repeats,
            self.sent,
            self.replies,
            self.lost.total(),
            self.lost
        )
    }
}

/// Runs for the time asked for.
///
/// # Errors
/// The first property that did not hold, with the disturbances before it.
pub fn run(config: &FaultConfig) -> anyhow::Result<FaultReport> {
    let begun = Instant::now();
    let mut report = FaultReport::default();
    while begun.elapsed() < config.length {
        let act = report.acts;
        let left = config.length.saturating_sub(begun.elapsed()).min(ACT);
        Act::play(config.seed, act, left, &mut report).with_context(|| format!("seed {}, act {act}", config.seed))?;
        report.acts += 1;
    }
    Ok(report)
}

/// One engine with its link, server and generator.
struct Act<'a> {
    pair: &'a Pair,
    client: Generator<RawWire>,
    seed: u64,
    disturber: Disturber<'a>,
    rng: Xoshiro256PlusPlus,
    half_load_rps: u64,
    sent: u64,
    replies: u64,
    /// Probes that were asked again.
    repeats: u64,
}

impl Act<'_> {
    fn play(seed: u64, number: u64, length: Duration, report: &mut FaultReport) -> anyhow::Result<()> {
        let mut rng = stream(seed, &format!("act {number}"));
        let available = napier_runtime::available_cpus();
        let queues = 1 + u16::try_from(below(&mut rng, 2))?;
        let ring_size = 64 << (2 * below(&mut rng, 3));
        let layout = CpuLayout::choose(&available, usize::from(queues), false, true)?;
        let link = LinkConfig { queues, ring_size, ..LinkConfig::default() };
        let pair = Pair::new(&link, &layout.workers, &[layout.client])?;
        let profile = Profile::new(ProfileConfig { records: 2048, ..ProfileConfig::default() }, seed)?;
        let mut server = Server::new(Arc::new(filled(&profile, layout.workers.len())), &layout.workers);
        server.start(&pair, Mode::Base.params().server)?;
        let disturber = Disturber::new(&pair, server, stream(seed, &format!("disturbances {number}")))?;
        let client = client(&pair, &profile, 4 + below(&mut rng, 20) as usize)?;
        let (pair, seed) = (&pair, seed ^ number);
        let mut act = Act { pair, client, seed, disturber, rng, half_load_rps: 0, sent: 0, replies: 0, repeats: 0 };
        let _counted = pair.engine.count_thread("generator", Some(layout.client));
        act.calibrate()?;
        let begun = Instant::now();
        let mut rounds = 0;
        while begun.elapsed() < length {
            let before = Losses::read(pair).overflows();
            act.round(rounds).with_context(|| {
                format!("{link:?}, round {rounds}, after\n  {}\n{}", act.disturber.log(), act.state())
            })?;
            report.overflows += u64::from(Losses::read(pair).overflows() > before);
            rounds += 1;
        }
        report.rounds += rounds;
        act.end(report)
    }

    /// Half of what a closed loop gets answered without any disturbance.
    fn calibrate(&mut self) -> anyhow::Result<()> {
        let measured = offer(&mut self.client, self.seed, Pace::Closed, CALIBRATION, &AtomicBool::new(false))?;
        let full_load_rps = measured.answered * 1_000_000_000 / measured.window_ns;
        self.half_load_rps = (full_load_rps / 2).clamp(2_000, 150_000);
        self.book(&measured)?;
        self.settle()
    }

    fn book(&mut self, measured: &Measured) -> anyhow::Result<()> {
        self.sent += measured.sent;
        self.replies += measured.replies;
        let wrong = measured.wrong + measured.missing + measured.refused;
        ensure!(wrong == 0, "{wrong} replies were wrong");
        Ok(())
    }

    /// Requests and disturbances, then quiet and the checks.
    fn round(&mut self, number: u64) -> anyhow::Result<()> {
        for flow in 0..self.client.flows() {
            // The table may be another one since the last round.
            self.client.wire.flows[flow].port = usize::from(self.pair.tested_queue(source(flow), SERVER));
        }
        let pause = (number == 2).then_some(PATIENCE);
        let overload = pause.is_none() && below(&mut self.rng, 6) == 0;
        // Often only a few, for the next disturbance may mend what one has broken.
        let most = if overload || below(&mut self.rng, 2) == 0 { 3 } else { 30 };
        let disturbances = 1 + below(&mut self.rng, most);
        let rate_rps = if overload { self.overload_rps() } else { self.half_load_rps };
        let length = if overload { OVERLOAD } else { TRAFFIC };
        self.seed = self.seed.wrapping_add(1);
        let quiet = AtomicBool::new(false);
        let (client, seed, disturber) = (&mut self.client, self.seed, &mut self.disturber);
        let measured = std::thread::scope(|scope| {
            let disturbing = scope.spawn(|| {
                if let Some(length) = pause {
                    disturber.pause(length);
                }
                let result = disturber.round(disturbances);
                std::thread::sleep(Duration::from_millis(1));
                quiet.store(true, Ordering::Relaxed);
                result
            });
            let measured = offer(client, seed, Pace::Open { rate_rps }, length, &quiet);
            disturbing.join().expect("the disturber does not panic").and(measured)
        })?;
        self.book(&measured)?;
        self.settle()?;
        self.probe()?;
        self.all_frames_home()?;
        // Counting frames has stopped and started each instance.
        self.probe()
    }

    /// A worker may still hold the frame of the request that it has just answered.
    fn all_frames_home(&self) -> anyhow::Result<()> {
        let begun = Instant::now();
        loop {
            let out = self.pair.tested.frames_out();
            if out == 0 {
                return Ok(());
            }
            ensure!(begun.elapsed() < PATIENCE, "{out} frames of the server's end are missing");
            std::thread::yield_now();
        }
    }

    /// Much more than can be answered, but not so much that a request that waits a second meets its own id again.
    fn overload_rps(&self) -> u64 {
        (self.half_load_rps * 12).min(50_000 * self.client.flows() as u64)
    }

    /// Waits until every request is answered or counted as lost.
    fn settle(&mut self) -> anyhow::Result<()> {
        let begun = Instant::now();
        loop {
            let patient = begun.elapsed() < PATIENCE;
            self.receive(|_, _| Ok(()))?;
            let lost = Losses::read(self.pair);
            let known = self.replies + lost.total();
            if known == self.sent {
                return Ok(());
            }
            if known > self.sent || !patient {
                bail!(
                    "a stall or an uncounted loss: {} requests, {} answered, {} counted as lost ({lost})",
                    self.sent,
                    self.replies,
                    lost.total()
                );
            }
        }
    }

    /// Takes the replies that are there.
    fn receive(&mut self, mut each: impl FnMut(u16, &[u8]) -> anyhow::Result<()>) -> anyhow::Result<()> {
        for port in &self.client.wire.ports {
            if !port.recv() {
                continue;
            }
            while let Some(frame) = port.next() {
                let (udp_port, payload) = udp_payload(frame.data()).context("a frame that is no datagram")?;
                self.replies += 1;
                each(udp_port, payload)?;
            }
        }
        Ok(())
    }

    /// One request on each flow, alone.
    fn probe(&mut self) -> anyhow::Result<()> {
        (0..self.client.flows()).try_for_each(|flow| self.probe_flow(flow))
    }

    /// A request on a quiet link is answered. Its answer may meet a thread without a processor that was about to make
    /// room, and be refused and counted; that does not happen again and again.
    fn probe_flow(&mut self, flow: usize) -> anyhow::Result<()> {
        let (mut before, mut begun) = (Losses::read(self.pair), Instant::now());
        let key = self.ask(flow)?;
        let mut next_look = LOSS_LOOK;
        while !self.is_answered(flow, &key)? {
            if begun.elapsed() < next_look {
                continue;
            }
            next_look += LOSS_LOOK;
            let lost = Losses::read(self.pair);
            if lost.total() == before.total() {
                ensure!(begun.elapsed() < PATIENCE, "a stall: flow {flow} got no answer in {PATIENCE:?}");
                continue;
            }
            ensure!(
                self.repeats < REPEATS_MAX,
                "requests were lost on a quiet link, the last of flow {flow}; before it {before}, now {lost}"
            );
            self.repeats += 1;
            self.ask(flow)?;
            (before, begun, next_look) = (lost, Instant::now(), LOSS_LOOK);
        }
        Ok(())
    }

    /// Sends the request of a probe; its key.
    fn ask(&mut self, flow: usize) -> anyhow::Result<Vec<u8>> {
        // Ids of the probes repeat no id that is still on its way: nothing is.
        let id = u16::try_from(flow)?;
        let key = self.client.plan.profile.key(u32::from(id)).to_vec();
        let RawFlow { template, port, .. } = &self.client.wire.flows[flow];
        let build = |frame: &mut [u8]| write(frame, template, id, &Request::get(&key));
        let port = &self.client.wire.ports[*port];
        port.build(FRAME_BYTES, build).context("a quiet link has a full ring")?;
        port.flush();
        self.sent += 1;
        Ok(key)
    }

    fn is_answered(&mut self, flow: usize, key: &[u8]) -> anyhow::Result<bool> {
        let mut answered = false;
        self.receive(|udp_port, payload| {
            let (id, reply) = read_datagram(Format::Ascii, payload)?;
            let asked = udp_port == source(flow).port() && usize::from(id) == flow;
            ensure!(asked, "an answer to nothing that was asked");
            ensure!(reply.verdict(key, false) == Verdict::Right, "a wrong answer: {reply:?}");
            answered = true;
            Ok(())
        })?;
        Ok(answered)
    }

    /// What the engine says about itself, for a report.
    fn state(&self) -> String {
        let Pair { engine, tested, peer, .. } = self.pair;
        let napis = engine.napi_dump(None);
        let stats = |device: &napier_runtime::device::DeviceHandle| {
            let queues: Vec<_> = (0..device.queues()).map(|queue| device.napi_stats(queue)).collect();
            let tx: Vec<_> = (0..device.queues()).map(|queue| device.tx_stats(queue)).collect();
            format!("{:?}\n  {queues:?}\n  {tx:?}", device.stats())
        };
        format!(
            "workers: {:?}\ninstances: {napis:?}\ntested: {}\npeer: {}\nsoftirq: {:?}\nserver:\n{}",
            self.disturber.server.style(),
            stats(tested),
            stats(peer),
            engine.softirq_stats(),
            self.pair.tested_ns.counters(),
        )
    }

    /// Everything stops; nothing may be missing.
    fn end(mut self, report: &mut FaultReport) -> anyhow::Result<()> {
        self.disturber.server.stop()?;
        drop(self.client);
        for device in [&self.pair.tested, &self.pair.peer] {
            let out = device.frames_out();
            ensure!(out == 0, "{out} frames of {} are missing at the end", device.name());
        }
        let lost = Losses::read(self.pair);
        ensure!(self.sent == self.replies + lost.total(), "what was booked changed at the end: {lost}");
        report.done += self.disturber.done;
        report.sent += self.sent;
        report.replies += self.replies;
        report.repeats += self.repeats;
        report.lost.add(&lost);
        Ok(())
    }
}

fn source(flow: usize) -> SocketAddrV4 {
    SocketAddrV4::new(PEER_IP, CLIENT_PORT + u16::try_from(flow).expect("a few flows"))
}

/// The generator: its end is polled by itself, so that a stall is the server's.
fn client(pair: &Pair, profile: &Profile, flows: usize) -> anyhow::Result<Generator<RawWire>> {
    pair.never_interrupt(&pair.peer)?;
    let ways = (0..flows)
        .map(|flow| RawFlow {
            template: Template::new(pair.peer.mac(), pair.tested.mac(), source(flow), SERVER),
            port: usize::from(pair.tested_queue(source(flow), SERVER)),
        })
        .collect();
    let wire = RawWire::new(&pair.engine, &pair.peer, ways, CLIENT_PORT)?;
    Ok(Generator::new(wire, flows, plan(profile, Proto::Udp, Pace::Closed)))
}

/// Offers a load, all of which counts.
fn offer(
    client: &mut Generator<RawWire>,
    seed: u64,
    pace: Pace,
    length: Duration,
    stop: &AtomicBool,
) -> anyhow::Result<Measured> {
    client.plan = plan(&client.plan.profile, Proto::Udp, pace);
    let window = Window { warm_up: Duration::ZERO, measure: length, drain: Duration::ZERO };
    client.run(pace, window, (seed, "client"), stop, &mut |_| {})
}

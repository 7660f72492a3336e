//! An act: rounds of traffic and disturbances, then quiet and the checks.

use napier_lab::loads::Load;
use std::net::SocketAddrV4;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use napier_core::frames::Template;
use napier_kv::load::generator::Generator;
use napier_kv::load::net::Proto;
use napier_kv::load::plan::{Measured, Window};
use napier_kv::profile::{Profile, ProfileConfig};
use napier_lab::compare::parts::{CLIENT_PORT, Pair, RawFlow, RawWire, SERVER, filled, plan};
use napier_lab::cpus::CpuLayout;
use napier_lab::modes::Mode;
use napier_rng::{Xoshiro256PlusPlus, below, stream};
use napier_runtime::device::LinkConfig;

use super::FaultReport;
use super::disturb::Disturber;
use super::ledger::Losses;
use super::probe::{source, take};
use super::server::Server;

/// Longest wait for an answer, and for the last packet to arrive or to be counted: longer than some threads, one after the other, have no processor. A
/// stall lasts, for it is quiet.
pub(crate) const PATIENCE: Duration = Duration::from_secs(4);
/// How long the workers of a round do not read.
const PAUSE: Duration = Duration::from_secs(1);
/// Length of the run that finds out what full load is.
const CALIBRATION: Duration = Duration::from_millis(60);
/// Longest traffic of a round; the disturber ends it sooner unless a thread is to be stopped: as in the kernel, that
/// waits until the thread has caught up, which it may not do while requests come.
const TRAFFIC: Duration = Duration::from_millis(1500);
/// Longest overload of a round.
const OVERLOAD: Duration = Duration::from_millis(60);

/// One engine with its link, server and generator.
pub(crate) struct Act<'a> {
    pub(crate) pair: &'a Pair,
    pub(crate) client: Generator<RawWire>,
    seed: u64,
    disturber: Disturber<'a>,
    rng: Xoshiro256PlusPlus,
    half_load_rps: u64,
    pub(crate) sent: u64,
    pub(crate) replies: u64,
    /// Probes that were asked again.
    pub(crate) repeats: u64,
}

impl Act<'_> {
    pub(crate) fn play(seed: u64, number: u64, length: Duration, report: &mut FaultReport) -> anyhow::Result<()> {
        let mut rng = stream(seed, &format!("act {number}"));
        let available = napier_runtime::available_cpus();
        let queues = 1 + u16::try_from(below(&mut rng, 2))?;
        let ring_size = 64 << (2 * below(&mut rng, 3));
        let layout = CpuLayout::choose(&available, usize::from(queues), false, true)?;
        let link = LinkConfig { queues, ring_size, ..LinkConfig::default() };
        let pair = Pair::new(&link, &layout.workers, &[layout.client])?;
        let profile = Profile::new(ProfileConfig { records: 2048, ..ProfileConfig::default() }, seed)?;
        let mut server = Server::new(Arc::new(filled(&profile, layout.workers.len(), None)), &layout.workers);
        server.start(&pair, &Mode::Base.plan())?;
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
            act.round(rounds)
                .with_context(|| format!("{link:?}, round {rounds}, after{}\n{}", act.disturber.log(), act.state()))?;
            report.overflows += u64::from(Losses::read(pair).overflows() > before);
            rounds += 1;
        }
        report.rounds += rounds;
        act.end(report)
    }

    /// Half of what a closed loop gets answered without any disturbance.
    fn calibrate(&mut self) -> anyhow::Result<()> {
        let measured = offer(&mut self.client, self.seed, Load::Max, CALIBRATION, &AtomicBool::new(false))?;
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
            self.client.wire.flows[flow].port = queue_of(self.pair, source(flow));
        }
        let pause = (number == 2).then_some(PAUSE);
        let overload = pause.is_none() && below(&mut self.rng, 6) == 0;
        // Often only a few, for the next disturbance may mend what one has broken.
        let most = if overload || below(&mut self.rng, 2) == 0 { 3 } else { 30 };
        let disturbances = 1 + below(&mut self.rng, most);
        let rate_rps = if overload { self.overload_rps() } else { self.half_load_rps };
        let length = if overload { OVERLOAD } else { TRAFFIC };
        self.seed = self.seed.wrapping_add(1);
        let (quiet, mut late) = (AtomicBool::new(false), 0);
        let (client, seed, disturber, pair) = (&mut self.client, self.seed, &mut self.disturber, self.pair);
        let log = disturber.log();
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
            let measured = offer(client, seed, Load::Rps(rate_rps), length, &quiet);
            // A worker that blocks in a send while nobody reads does not hear that it shall stop.
            let (ended, mut told) = (Instant::now(), false);
            while !disturbing.is_finished() {
                late += take(&client.wire, |_, _| Ok(()))?;
                if ended.elapsed() > PATIENCE * 5 && !std::mem::replace(&mut told, true) {
                    eprintln!("the disturber does not get done, after{log}\n{}", state(pair));
                }
            }
            disturbing.join().expect("the disturber does not panic").and(measured)
        })?;
        self.book(&measured)?;
        self.replies += late;
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

    /// What the engine and the workers say about themselves, for a report.
    fn state(&self) -> String {
        format!("workers: {:?}\n{}", self.disturber.server.style(), state(self.pair))
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

/// What the engine says about itself.
fn state(Pair { engine, tested, peer, tested_ns, .. }: &Pair) -> String {
    let napis = engine.napi_dump(None);
    let stats = |device: &napier_runtime::device::DeviceHandle| {
        let queues: Vec<_> = (0..device.queues()).map(|queue| device.napi_stats(queue)).collect();
        let tx: Vec<_> = (0..device.queues()).map(|queue| device.tx_stats(queue)).collect();
        format!("{:?}\n  {queues:?}\n  {tx:?}", device.stats())
    };
    format!(
        "instances: {napis:?}\ntested: {}\npeer: {}\nsoftirq: {:?}\nserver:\n{}",
        stats(tested),
        stats(peer),
        engine.softirq_stats(),
        tested_ns.counters(),
    )
}

/// The queue of the server's end that receives this flow.
fn queue_of(pair: &Pair, from: SocketAddrV4) -> usize {
    usize::from(pair.tested.rx_queue_of(from.into(), SERVER.into()))
}

/// The generator: its end is polled by itself, so that a stall is the server's.
fn client(pair: &Pair, profile: &Profile, flows: usize) -> anyhow::Result<Generator<RawWire>> {
    pair.never_interrupt(&pair.peer)?;
    let ways = (0..flows)
        .map(|flow| RawFlow {
            template: Template::new(pair.peer.mac(), pair.tested.mac(), source(flow), SERVER),
            port: queue_of(pair, source(flow)),
        })
        .collect();
    let wire = RawWire::new(&pair.engine, &pair.peer, ways, CLIENT_PORT)?;
    Ok(Generator::new(wire, flows, plan(profile, Proto::Udp, Load::Max)))
}

/// Offers a load, all of which counts.
fn offer(
    client: &mut Generator<RawWire>,
    seed: u64,
    pace: Load,
    length: Duration,
    stop: &AtomicBool,
) -> anyhow::Result<Measured> {
    client.plan = plan(&client.plan.profile, Proto::Udp, pace);
    let window = Window { warm_up: Duration::ZERO, measure: length, margin: Duration::ZERO, drain: Duration::ZERO };
    client.run(pace, window, (seed, "client"), stop, &mut |_| {})
}

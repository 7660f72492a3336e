//! `bench group`: what a polling group does beside other pollers of the same CPU. Each figure is of the poller alone: from the send
//! of a datagram until its socket has it, seen by the thread that sent it and spins on another CPU.

mod rig;

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use napier_core::time::Span;
use napier_runtime::engine::GroupSettings;
use napier_runtime::tx::QdiscConfig;
use napier_sys::sched::{exact_timers, pin_current_thread, set_fifo, set_other};
use serde::Serialize;

use self::rig::{Rig, RigPoller, RigWire};
use super::rtt::histogram;
use super::stat::Spread;
use crate::apply::writes_on_device;
use crate::modes::deferral;
use crate::pair::PEER_IP;

/// What to run.
#[derive(Clone, Debug)]
pub struct GroupBenchConfig {
    /// Datagrams for each figure of latency, in each run.
    pub samples: u32,
    /// Runs; of two pollers one after the other in each.
    pub runs: u32,
}

/// One figure.
#[derive(Clone, Debug, Serialize)]
pub struct GroupFigure {
    /// What it is.
    pub what: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Of the group.
    pub group: Spread,
    /// What stands beside it, and its figure.
    pub beside: Option<(&'static str, Spread)>,
    /// The group's by the other's, run by run.
    pub ratio: Option<Spread>,
}

/// Settings under which all CPUs may sleep.
fn sleepy() -> RigPoller {
    RigPoller::Group(GroupSettings { min_active: 0, ..GroupSettings::default() })
}

fn awake() -> RigPoller {
    RigPoller::Group(GroupSettings::default())
}

/// Between two datagrams of a load.
const GAP: Duration = Duration::from_micros(20);
/// Between two datagrams to a group that sleeps meanwhile.
const IDLE_GAP: Duration = Duration::from_millis(3);
/// Datagrams that come on each link at once when the load rises: more than a CPU delivers meanwhile.
const BURST: usize = 32;
/// How long nothing comes.
const SILENCE: Duration = Duration::from_millis(500);
/// Members of the largest rig.
const MANY: usize = 16;

/// Measures all figures; `each` is told of one when it is there.
///
/// # Errors
/// Fewer than two processors, an engine that did not start, or a datagram that was lost.
pub fn group(config: &GroupBenchConfig, each: &(dyn Fn(&GroupFigure) + Sync)) -> anyhow::Result<Vec<GroupFigure>> {
    let cpus = napier_runtime::available_cpus();
    ensure!(cpus.len() >= 2, "needs 2 CPUs, this process may use 1: a poller and the thread that sends");
    let bench = Bench { config: config.clone(), own: cpus[0], poller: cpus[1] };
    let experiments: [fn(&Bench) -> anyhow::Result<GroupFigure>; 11] = [
        Bench::one_member,
        Bench::two_members,
        Bench::many_members,
        Bench::dry_runs,
        Bench::cold_path,
        Bench::first_packet,
        Bench::silence,
        Bench::low_load,
        Bench::second_cpu,
        Bench::sends,
        Bench::timers,
    ];
    // A thread of its own, whose processor and timers are changed.
    std::thread::scope(|scope| {
        let run = scope.spawn(|| {
            pin_current_thread(bench.own);
            exact_timers();
            let figure = |experiment: &fn(&Bench) -> anyhow::Result<GroupFigure>| {
                let figure = experiment(&bench)?;
                each(&figure);
                Ok(figure)
            };
            experiments.iter().map(figure).collect()
        });
        run.join().expect("an experiment does not panic")
    })
}

struct Bench {
    config: GroupBenchConfig,
    /// Of the thread that sends and looks.
    own: usize,
    /// Of the pollers.
    poller: usize,
}

/// How the datagrams of a figure come.
#[derive(Copy, Clone)]
struct GroupLoad {
    gap: Duration,
    quantile: f64,
    idle: bool,
}

const BUSY: GroupLoad = GroupLoad { gap: GAP, quantile: 0.99, idle: false };

impl Bench {
    fn one_member(&self) -> anyhow::Result<GroupFigure> {
        let load = GroupLoad { quantile: 0.5, ..BUSY };
        self.pair("p50, one member", (1, awake()), ("a thread that polls it for ever", 1, RigPoller::Threads), load)
    }

    fn two_members(&self) -> anyhow::Result<GroupFigure> {
        self.pair("p99, two members", (2, awake()), ("two such threads on this CPU", 2, RigPoller::Threads), BUSY)
    }

    fn many_members(&self) -> anyhow::Result<GroupFigure> {
        self.pair("p99, 16 members", (MANY, awake()), ("one member", 1, awake()), BUSY)
    }

    fn first_packet(&self) -> anyhow::Result<GroupFigure> {
        let load = GroupLoad { gap: IDLE_GAP, quantile: 0.5, idle: true };
        self.pair("p50, all CPUs asleep before (min-active 0)", (1, sleepy()), ("base", 1, RigPoller::Base), load)
    }

    /// What dry runs gain, of the receive path.
    fn dry_runs(&self) -> anyhow::Result<GroupFigure> {
        self.beside("p50, one member, after 3 ms of dry runs", "of polls that only found nothing", || {
            let [dry, not] = [true, false].map(|dry_runs| {
                let mut rig = Rig::with_dry_runs(dry_runs, self.poller, self.own)?;
                let latency = rig.deliver(self.config.samples.min(300), IDLE_GAP, false)?;
                Ok::<_, anyhow::Error>(us(latency.value_at_quantile(0.5)))
            });
            Ok([dry?, not?])
        })
    }

    /// What such a pause costs all the same, the sender's cold path with it.
    fn cold_path(&self) -> anyhow::Result<GroupFigure> {
        self.beside("p50, one member, after 3 ms in which nothing came", "after 20 us", || {
            let [cold, warm] = [IDLE_GAP, GAP].map(|gap| {
                let mut rig = Rig::new(1, awake(), &[self.poller], self.own)?;
                let latency = rig.deliver(self.config.samples.min(300), gap, false)?;
                Ok::<_, anyhow::Error>(us(latency.value_at_quantile(0.5)))
            });
            Ok([cold?, warm?])
        })
    }

    /// Two rigs in turn, in each run.
    fn pair(
        &self,
        what: &'static str,
        (links, poller): (usize, RigPoller),
        (name, other_links, other): (&'static str, usize, RigPoller),
        load: GroupLoad,
    ) -> anyhow::Result<GroupFigure> {
        self.beside(what, name, || {
            let [one, another] = [(links, poller), (other_links, other)].map(|(links, poller)| {
                let mut rig = Rig::new(links, poller, &[self.poller], self.own)?;
                let samples = if load.idle { self.config.samples.min(300) } else { self.config.samples };
                let latency = rig.deliver(samples, load.gap, load.idle)?;
                Ok::<_, anyhow::Error>(us(latency.value_at_quantile(load.quantile)))
            });
            Ok([one?, another?])
        })
    }

    /// A figure in us of the group, and what stands beside it, of each run.
    fn beside(
        &self,
        what: &'static str,
        name: &'static str,
        mut run: impl FnMut() -> anyhow::Result<[f64; 2]>,
    ) -> anyhow::Result<GroupFigure> {
        let runs = (0..self.config.runs).map(|_| run().context(what)).collect::<anyhow::Result<Vec<_>>>()?;
        let spread = |of: fn(&[f64; 2]) -> f64| Spread::of(&runs.iter().map(of).collect::<Vec<_>>());
        let (beside, ratio) = (Some((name, spread(|run| run[1]))), Some(spread(|run| run[0] / run[1])));
        Ok(GroupFigure { what, unit: "us", group: spread(|run| run[0]), beside, ratio })
    }

    /// A figure of the group alone.
    fn alone(
        &self,
        what: &'static str,
        unit: &'static str,
        mut run: impl FnMut() -> anyhow::Result<f64>,
    ) -> anyhow::Result<GroupFigure> {
        let runs = (0..self.config.runs).map(|_| run().context(what)).collect::<anyhow::Result<Vec<_>>>()?;
        Ok(GroupFigure { what, unit, group: Spread::of(&runs), beside: None, ratio: None })
    }

    /// The share of a CPU that all threads of an engine take for which nothing comes. A poll would be an error.
    fn silence(&self) -> anyhow::Result<GroupFigure> {
        self.alone("CPU, nothing comes (min-active 0; no poll is made)", "%", || {
            let rig = Rig::new(2, sleepy(), &[self.poller], self.own)?;
            wait(|| rig.awake().is_empty()).context("the CPU of the group does not go to sleep")?;
            let (polls, used, began) = (rig.polls(), rig.cpu_time(), Instant::now());
            std::thread::sleep(SILENCE);
            ensure!(rig.polls() == polls, "{} polls were made in {SILENCE:?} of silence", rig.polls() - polls);
            Ok((rig.cpu_time() - used).as_secs_f64() / began.elapsed().as_secs_f64() * 100.0)
        })
    }

    /// Two CPUs, and next to no load.
    fn low_load(&self) -> anyhow::Result<GroupFigure> {
        self.alone("CPUs that poll at 1 K/s, of two (min-active 1)", "CPUs", || {
            let rig = Rig::new(2, awake(), &[self.poller, self.own], self.own)?;
            wait(|| rig.awake().len() == 1).context("the second CPU does not go to sleep")?;
            let (mut looks, mut polling) = (0_u32, 0_usize);
            let began = Instant::now();
            while began.elapsed() < SILENCE {
                rig.wires[0].deliver_one(looks)?;
                std::thread::sleep(Duration::from_millis(1));
                looks += 1;
                polling += rig.awake().len();
            }
            Ok(polling as f64 / f64::from(looks))
        })
    }

    /// From the first datagram of a flood until the second CPU is woken: the sender's, which has joined a group that polls all links
    /// already, and sleeps.
    fn second_cpu(&self) -> anyhow::Result<GroupFigure> {
        self.alone("second CPU woken after a step of load, median of 20", "us", || {
            let mut times = histogram();
            let mut tries = 0;
            while times.len() < 20 {
                tries += 1;
                ensure!(tries <= 200, "of two CPUs with nothing to do the sender's does not go to sleep");
                let rig = Rig::new(4, awake(), &[self.poller], self.own)?;
                rig.join(self.own)?;
                let floods = rig.wires.iter().map(RigWire::flood).collect::<anyhow::Result<Vec<_>>>()?;
                wait(|| rig.awake().len() == 1).context("the second CPU does not go to sleep")?;
                if rig.awake() != [self.poller] {
                    // The host has stopped the other, and this one took over.
                    continue;
                }
                let began = Instant::now();
                while rig.awake().len() < 2 {
                    ensure!(began.elapsed() < LONG, "a flood wakes no thread within {LONG:?}");
                    floods.iter().for_each(|flood| flood.send(BURST));
                }
                times.saturating_record(u64::try_from(began.elapsed().as_nanos())?);
            }
            Ok(us(times.value_at_quantile(0.5)))
        })
    }

    /// What a send costs a real-time thread on a queue whose run the group has, beside spinning for as long as a send mostly takes:
    /// what the machine takes away meanwhile it takes from both.
    fn sends(&self) -> anyhow::Result<GroupFigure> {
        // Threads that it starts do not inherit it.
        let what = match set_fifo(1) {
            Ok(()) => "p99.9 of a send of a FIFO thread, the group has the run",
            Err(_) => "p99.9 of a send (FIFO is not granted), the group has the run",
        };
        let figure = self.beside(what, "spinning for as long as the median send", || self.send_beside_spin());
        set_other()?;
        figure
    }

    fn send_beside_spin(&self) -> anyhow::Result<[f64; 2]> {
        let rig = Rig::new(1, awake(), &[self.poller], self.own)?;
        let wire = &rig.wires[0];
        wire.tested.set_qdisc(0, &QdiscConfig::Pfifo { limit_pkts: 10_000 })?;
        let (mut sends, mut spins) = (histogram(), histogram());
        let mut median = Duration::ZERO;
        for sample in 0..self.config.samples {
            let began = Instant::now();
            wire.receiver.send_to(&[0; 4], (PEER_IP, 9).into()).context("sending")?;
            sends.saturating_record(u64::try_from(began.elapsed().as_nanos())?);
            // As a program would that has something else to do; a real-time thread would keep others out for ever.
            std::thread::sleep(Duration::from_micros(20));
            if sample % 100 == 0 {
                median = Duration::from_nanos(sends.value_at_quantile(0.5));
            }
            let began = Instant::now();
            while began.elapsed() < median {
                std::hint::spin_loop();
            }
            spins.saturating_record(u64::try_from(began.elapsed().as_nanos())?);
            std::thread::sleep(Duration::from_micros(20));
        }
        Ok([&sends, &spins].map(|times| us(times.value_at_quantile(0.999))))
    }

    /// How late deferral timers of another instance are on a CPU that a group polls on.
    fn timers(&self) -> anyhow::Result<GroupFigure> {
        self.alone("p99 of how late a timer is on a CPU that polls", "us", || {
            let rig = Rig::new(1, awake(), &[self.poller], self.own)?;
            let other = rig.another(self.poller, self.own)?;
            writes_on_device(&rig.engine, &other.tested, deferral(1 << 20, Span::from_us(200)))?;
            other.deliver_one(0)?;
            let (mut late, mut before) = (histogram(), other.tested.napi_stats(0));
            let began = Instant::now();
            while late.len() < u64::from(self.config.samples.min(2000)) {
                ensure!(began.elapsed() < LONG * 2, "the timer does not fire");
                let now = other.tested.napi_stats(0);
                if now.timer_fires == before.timer_fires + 1 {
                    late.saturating_record(now.timer_lateness_ns - before.timer_lateness_ns);
                }
                before = now;
                std::thread::sleep(Duration::from_micros(20));
            }
            Ok(us(late.value_at_quantile(0.99)))
        })
    }
}

/// Longer than any of it takes.
const LONG: Duration = Duration::from_secs(20);

/// Waits for what happens without more.
fn wait(mut until: impl FnMut() -> bool) -> anyhow::Result<()> {
    let began = Instant::now();
    while !until() {
        ensure!(began.elapsed() < LONG, "it did not happen within {LONG:?}");
        std::thread::sleep(Duration::from_micros(100));
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a figure for a table")]
fn us(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_is_there_or_said_why_not() {
        let said = std::sync::atomic::AtomicUsize::new(0);
        let each = |_: &GroupFigure| _ = said.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let figures = match group(&GroupBenchConfig { samples: 50, runs: 1 }, &each) {
            Ok(figures) => figures,
            Err(error) if error.to_string().contains("needs 2 CPUs") => {
                return napier_testkit::skip!("every_figure_is_there_or_said_why_not", "one processor only");
            }
            Err(error) => panic!("{error:#}"),
        };
        assert_eq!((figures.len(), said.into_inner()), (11, 11));
        assert!(figures.iter().all(|figure| figure.group.median >= 0.0), "{figures:?}");
        let awake = figures.iter().find(|figure| figure.unit == "CPUs").expect("one of them");
        // One hands over to the other where the machine stops it: a look may come in between.
        assert!(awake.group.min > 0.5, "one CPU at least polls: {awake:?}");
    }
}

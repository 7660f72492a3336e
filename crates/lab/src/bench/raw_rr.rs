//! `bench raw-rr`: request and response over raw ports with a processing time per reply.
//!
//! After the tool that threaded NAPI busy polling was proposed with ("[PATCH net-next v10 0/2] Add support
//! to do threaded napi busy poll"): requests leave at a fixed period whatever comes back, the server
//! answers each from where it receives, and the client works for a given time on each reply. Latency is
//! from the intended send.

mod kernel;
mod programs;
mod published;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use hdrhistogram::Histogram;
use napier_core::control::plan::{Plan, Write};
use napier_core::control::{NapiChange, ThreadedSetting};
use napier_core::time::Span;
use napier_runtime::device::LinkConfig;
use napier_verdict::Metric;
use serde::Serialize;

use self::programs::{EndOutcome, RigShared, run_client, serve};
use super::rounds::{BlockRow, Blocks, Compared, RowSlice, Stopped, compared, is_overload, latencies, nanos};
use super::rtt::{Percentiles, histogram};
use crate::apply;
use crate::modes::deferral;
use crate::pair::Pair;
use crate::report::PowerHistogram;
use crate::subject::Backend;

pub use self::published::published_raw_rr;

/// `napi-defer-hard-irqs` of the busy modes, from the same script.
const DEFER_HARD_IRQS: u32 = 100;
/// `gro-flush-timeout` of the busy modes, from the same script.
const GRO_FLUSH_TIMEOUT: Span = Span::from_us(15);

/// Who polls for the two programs.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RawRrMode {
    /// Softirq after an interrupt; the programs block.
    Interrupts,
    /// The programs, inline in their receive calls.
    BusyRead,
    /// A second thread of each program, which does nothing else.
    BusyReadSeparate,
    /// The NAPI thread of each end, for ever.
    ThreadedBusyPoll,
}

impl RawRrMode {
    /// All, in the order of the proposal's table.
    pub const ALL: [Self; 4] = [Self::Interrupts, Self::BusyRead, Self::BusyReadSeparate, Self::ThreadedBusyPoll];

    /// The name on the command line and in the table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Interrupts => "interrupts",
            Self::BusyRead => "busy-read",
            Self::BusyReadSeparate => "busy-read-separate",
            Self::ThreadedBusyPoll => "threaded-busy-poll",
        }
    }

    /// The mode with this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// What each side sets of its instance.
    fn plan(self) -> Plan {
        let (deferral, threaded) = (deferral(DEFER_HARD_IRQS, GRO_FLUSH_TIMEOUT), ThreadedSetting::BusyPoll);
        match self {
            Self::Interrupts => Plan::default(),
            Self::BusyRead | Self::BusyReadSeparate => deferral.into_iter().collect(),
            Self::ThreadedBusyPoll => {
                deferral.into_iter().chain([Write::Instance(NapiChange::Threaded(threaded))]).collect()
            }
        }
    }

    /// Whether each side has a polling thread beside its program.
    fn has_pollers(self) -> bool {
        matches!(self, Self::BusyReadSeparate | Self::ThreadedBusyPoll)
    }
}

/// One row of what to run.
#[derive(Clone, Debug)]
pub struct RawRrConfig {
    /// Raw ports on a link of the engine, or AF_XDP sockets on the kernel.
    pub backend: Backend,
    /// Who polls.
    pub mode: RawRrMode,
    /// Time between two requests.
    pub period: Duration,
    /// Time that the client works on each reply.
    pub delay: Duration,
    /// Length of the run.
    pub length: Duration,
    /// Send from a thread of its own even if that shares a processor.
    pub oversubscribe: bool,
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct RawRr {
    /// Raw ports on a link of the engine, or AF_XDP sockets on the kernel.
    pub backend: Backend,
    /// Who polled.
    pub mode: RawRrMode,
    /// Time between two requests, in ns.
    pub period_ns: u64,
    /// Time that the client worked on each reply, in ns.
    pub delay_ns: u64,
    /// Whether requests came from a thread of their own (else the client sent them between its receive calls).
    pub sender_thread: bool,
    /// Processors: client, server, sender, then pollers.
    pub cpus: Vec<usize>,
    /// From intended send to reply.
    pub latency: Option<Percentiles>,
    /// What they are taken from.
    #[serde(skip)]
    histogram: Histogram<u64>,
    /// Time that the client spent in its receive calls.
    pub receive_calls: PowerHistogram,
    /// Requests without a reply.
    pub lost: u64,
    /// Requests that were due.
    pub due: u64,
    /// Replies that the client had done with while requests were still due.
    pub answered_in_time: u64,
    /// Less than 99 % of the requests were answered in time: the load is more than the mode can do here, and the latency is
    /// that of a queue which grows as long as the run lasts.
    pub overloaded: bool,
    /// How often softirq threads woke up, per second: in a mode that polls each of these interrupts a program.
    /// Null for the kernel.
    pub softirq_wakes_per_s: Option<f64>,
    /// By which way the kernel's NAPI instances were polled for the AF_XDP sockets; null for the engine.
    pub polled_by: Option<&'static str>,
    /// Why it did not run, if it did not.
    pub refused: Option<String>,
}

/// Processors of the parts.
struct RigPlaces {
    client: usize,
    server: usize,
    sender: Option<usize>,
    pollers: Option<(usize, usize)>,
}

impl RigPlaces {
    fn choose(mode: RawRrMode, oversubscribe: bool) -> Result<Self, String> {
        let cpus = napier_runtime::available_cpus();
        let at = |index: usize| cpus[index % cpus.len()];
        let least = if mode.has_pollers() { 4 } else { 2 };
        if cpus.len() < least && !oversubscribe {
            let parts = if mode.has_pollers() { "client, server and a poller for each" } else { "client and server" };
            return Err(format!(
                "needs {least} CPUs ({parts}), this process may use {}: --oversubscribe runs it all the same",
                cpus.len()
            ));
        }
        // A sender of its own where a processor is left for it; else the client sends, which costs nothing but
        // precision while it works on a reply.
        let sender = (cpus.len() > least).then(|| at(least));
        let pollers = mode.has_pollers().then(|| (at(2), at(3)));
        Ok(Self { client: at(0), server: at(1), sender, pollers })
    }

    fn list(&self) -> Vec<usize> {
        let mut list = vec![self.client, self.server];
        list.extend(self.sender);
        list.extend(self.pollers.map(|(a, _)| a));
        list.extend(self.pollers.map(|(_, b)| b));
        list
    }
}

/// Runs experiments, each with its rows, which are compared.
///
/// # Errors
/// The engine did not start, or it was interrupted; a machine with too few processors is a refused row, not an error.
pub fn raw_rr(
    experiments: &[Vec<RawRrConfig>],
    runs: u32,
    interrupted: &AtomicBool,
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<Compared<RawRr>> {
    let names = |configs: &Vec<RawRrConfig>| configs.iter().map(RawRrConfig::name).collect();
    let used = napier_runtime::available_cpus();
    let blocks = Blocks::of_engine(experiments.iter().map(names).collect(), &[Metric::P50, Metric::P99], runs, &used)
        .in_kernel(experiments.iter().flatten().any(|config| config.backend == Backend::Kernel));
    let found = blocks.run(interrupted, progress, |block, at| {
        let config = &experiments[block][at];
        let run = once(config)?;
        let (latency, answered) = (latencies(&run.histogram), run.answered_in_time);
        Ok(RowSlice { latency, answered, window: config.length, cpu: Duration::ZERO, run })
    })?;
    let mut all = compared(found, |block, at, row| experiments[block][at].together(row));
    let mut from = 0;
    for (configs, decided) in experiments.iter().zip(&mut all.decided) {
        let rows = &all.rows[from..from + configs.len()];
        decided.without(|at| rows[at].overloaded);
        if experiments.len() > 1 {
            decided.block = configs.first().map(RawRrConfig::experiment).unwrap_or_default();
        }
        from += configs.len();
    }
    Ok(all)
}

/// Runs a row once.
fn once(config: &RawRrConfig) -> Result<RawRr, Stopped> {
    // CPUs for a mode that the kernel does not have would be found in vain.
    if config.backend == Backend::Kernel && config.mode == RawRrMode::ThreadedBusyPoll {
        kernel::has(config.mode)?;
    }
    let places = RigPlaces::choose(config.mode, config.oversubscribe).map_err(Stopped::Refused)?;
    if config.backend == Backend::Kernel {
        return kernel::run(config, &places);
    }
    let pair = Pair::new(&LinkConfig::default(), &[places.server], &[places.client])?;
    set_mode(&pair, config.mode, &places)?;
    let wakes = softirq_wakes(&pair);
    let stop = AtomicBool::new(false);
    let shared = RigShared { stop: &stop, sent: AtomicU64::new(0) };
    let outcome = std::thread::scope(|scope| {
        let server = scope.spawn(|| serve(&pair, config.mode, &places, &shared));
        let client = run_client(&pair, config, &places, &shared);
        stop.store(true, Ordering::Release);
        server.join().expect("the server does not panic").context("the server failed")?;
        client
    })?;
    let wakes_per_s = (softirq_wakes(&pair) - wakes) as f64 / config.length.as_secs_f64();
    let row = config.measured(&places, outcome, shared.sent.load(Ordering::Relaxed));
    Ok(RawRr { softirq_wakes_per_s: Some(wakes_per_s), ..row })
}

impl RawRrConfig {
    fn name(&self) -> String {
        format!("{}/{}", self.backend, self.mode.name())
    }

    /// What is the same for all rows that are compared, such as `32.0 Kpkt/s + 30 us delay`.
    #[must_use]
    pub fn experiment(&self) -> String {
        let rate = 1e-3 / self.period.as_secs_f64().max(1e-12);
        format!("{rate:.1} Kpkt/s + {} us delay", self.delay.as_micros())
    }

    /// A row of all its runs.
    fn together(&self, row: BlockRow<RawRr>) -> RawRr {
        let count = u64::from(row.count());
        let mut runs = row.runs.into_iter();
        let Some(mut all) = runs.next() else { return self.refused(row.refused.unwrap_or_default()) };
        for run in runs {
            all.histogram.add(run.histogram).expect("the bounds are the same");
            all.receive_calls.merge(&run.receive_calls);
            all.lost += run.lost;
            all.due += run.due;
            all.answered_in_time += run.answered_in_time;
            all.softirq_wakes_per_s = all.softirq_wakes_per_s.zip(run.softirq_wakes_per_s).map(|(a, b)| a + b);
        }
        all.latency = (!all.histogram.is_empty()).then(|| Percentiles::of(&all.histogram));
        all.overloaded = is_overload(all.due, all.answered_in_time, count);
        #[expect(clippy::cast_precision_loss, reason = "a mean")]
        {
            all.softirq_wakes_per_s = all.softirq_wakes_per_s.map(|sum| sum / count as f64);
        }
        all
    }

    fn measured(&self, places: &RigPlaces, outcome: EndOutcome, sent: u64) -> RawRr {
        let due = self.requests_due();
        RawRr {
            sender_thread: places.sender.is_some(),
            cpus: places.list(),
            histogram: outcome.latency,
            receive_calls: outcome.receive_calls,
            lost: sent - outcome.replies,
            due,
            answered_in_time: outcome.in_time,
            ..self.empty()
        }
    }

    fn refused(&self, why: String) -> RawRr {
        RawRr { refused: Some(why), ..self.empty() }
    }

    fn empty(&self) -> RawRr {
        RawRr {
            backend: self.backend,
            mode: self.mode,
            period_ns: nanos(self.period),
            delay_ns: nanos(self.delay),
            sender_thread: false,
            cpus: Vec::new(),
            latency: None,
            histogram: histogram(),
            receive_calls: PowerHistogram::default(),
            lost: 0,
            due: 0,
            answered_in_time: 0,
            overloaded: false,
            softirq_wakes_per_s: None,
            polled_by: None,
            refused: None,
        }
    }

    /// One after each period, but none at the end.
    fn requests_due(&self) -> u64 {
        nanos(self.length).saturating_sub(1) / nanos(self.period).max(1)
    }
}

fn softirq_wakes(pair: &Pair) -> u64 {
    pair.engine.softirq_stats().iter().map(|cpu| cpu.wakeups).sum()
}

fn set_mode(pair: &Pair, mode: RawRrMode, places: &RigPlaces) -> anyhow::Result<()> {
    let ends = [(&pair.peer, places.pollers.map(|p| p.0)), (&pair.tested, places.pollers.map(|p| p.1))];
    for (device, poller) in ends {
        apply::on_device(&pair.engine, device, &mode.plan(), |_| poller)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the machine: the client alone works for twice as long on a reply as it has.
    #[test]
    fn a_load_that_cannot_be_answered_is_called_so() {
        let (period, delay) = (Duration::from_millis(1), Duration::from_millis(2));
        let length = Duration::from_millis(300);
        let config = RawRrConfig {
            backend: Backend::Engine,
            mode: RawRrMode::Interrupts,
            period,
            delay,
            length,
            oversubscribe: true,
        };
        let row = &raw_rr(&[vec![config]], 1, &AtomicBool::new(false), &mut |_| {}).unwrap().rows[0];
        assert_eq!(row.due, 299);
        assert!(row.overloaded && row.answered_in_time <= 151, "{row:?}");
    }

    #[test]
    fn what_is_on_its_way_at_the_end_is_no_overload() {
        for (due, in_time, overloaded) in
            [(0, 0, false), (100, 90, false), (100, 89, true), (12_000, 11_880, false), (12_000, 11_879, true)]
        {
            assert_eq!(is_overload(due, in_time, 1), overloaded, "{in_time} of {due}");
        }
    }
}

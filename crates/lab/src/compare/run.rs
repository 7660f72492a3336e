//! A whole comparison: finds what base sustains, runs every mode at every load in turn, collects the report.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use napier_runtime::LinkConfig;

use super::case::{CaseResult, Workload as CaseWorkload, run_case};
use super::client::{Pace, Window};
use super::cpus::CpuLayout;
use super::host;
use crate::kv::profile::{Profile, ProfileConfig};
use crate::kv::table::Table;
use crate::loads::{Cell, Load, SustainSearch, interleave};
use crate::modes::{Mode, PollContext};
use crate::report::{Outcome, Report, Row, Workload, hdrlog, progress::Progress};
use crate::stats::{CpuSplit, Figures, Measured, Summary};

/// Requests before measuring begins: sockets of all flows exist by then.
const WARM_UP: Duration = Duration::from_millis(120);

/// How long answers are waited for after the last request.
const DRAIN: Duration = Duration::from_millis(20);

/// Runs that look for the load which base sustains.
const SUSTAIN_TRIES: u32 = 5;

/// Length of one of those runs.
const SUSTAIN_RUN: Duration = Duration::from_millis(400);

/// Least length of a run that says anything about its 99.9th percentile.
const RUN_LEAST: Duration = Duration::from_millis(250);

/// Time that a run takes beside measuring: threads, shared memory, warm-up, drain.
const RUN_OVERHEAD: Duration = Duration::from_millis(220);

/// What to compare.
#[derive(Clone, Debug)]
pub struct CompareConfig {
    /// Rows, in this order.
    pub modes: Vec<Mode>,
    /// Loads; `None` = 20, 40, 60, 80 and 100 % of what base sustains, and MAX.
    pub loads: Option<Vec<Load>>,
    /// Length of one run; `None` = what fits `total`.
    pub run_length: Option<Duration>,
    /// Longest time for everything, where `run_length` is left to choose.
    pub total: Duration,
    /// Runs per row.
    pub runs: u32,
    /// Client flows, 1..=4096.
    pub flows: u32,
    /// Queues of the server's device, and workers.
    pub queues: u16,
    /// Descriptors per ring, a power of two.
    pub ring_size: u32,
    /// From which all randomness comes.
    pub seed: u64,
    /// Run modes that need more processors than there are, and mark them.
    pub oversubscribe: bool,
    /// Directory for raw histograms.
    pub out: Option<PathBuf>,
}

impl Default for CompareConfig {
    fn default() -> Self {
        Self {
            modes: Mode::parse_list(crate::modes::DEFAULT_MODES).expect("the default list is made of modes"),
            loads: None,
            run_length: None,
            total: Duration::from_secs(225),
            runs: 3,
            flows: 64,
            queues: 1,
            ring_size: 1024,
            seed: 1,
            oversubscribe: false,
            out: None,
        }
    }
}

impl CompareConfig {
    /// Checks what can be checked before anything runs.
    ///
    /// # Errors
    /// The first field that cannot be; the message says what it may be.
    pub fn check(&self) -> anyhow::Result<()> {
        ensure!(self.runs > 0, "--runs must be at least 1");
        ensure!((1..=4096).contains(&self.flows), "--flows must be 1 to 4096");
        let link = LinkConfig { queues: self.queues, ring_size: self.ring_size, ..LinkConfig::default() };
        link.check()?;
        Ok(())
    }
}

/// Runs a comparison. `interrupted` ends it early with an error.
///
/// # Errors
/// A configuration that cannot run, or an engine that does not start; the message says what to change.
pub fn compare(config: &CompareConfig, interrupted: &AtomicBool) -> anyhow::Result<Report> {
    config.check()?;
    let workload = workload(config)?;
    let available = host::available_cpus();
    let layouts = |mode: Mode| {
        let pollers = mode.params().threaded == PollContext::BusyPollThread;
        CpuLayout::choose(&available, usize::from(config.queues), pollers, config.oversubscribe)
    };
    let loads = match &config.loads {
        Some(loads) => loads.clone(),
        None => {
            let layout = layouts(Mode::Base)?;
            Load::ladder(base_sustains(&workload, &layout, interrupted)?)
        }
    };
    let (runnable, refused): (Vec<Mode>, Vec<Mode>) = config.modes.iter().partition(|mode| layouts(**mode).is_ok());
    let cells = interleave(&runnable, &loads, config.runs);
    let run_length = config.run_length.unwrap_or_else(|| length_that_fits(config.total, cells.len()));
    let window = Window { warm_up_ns: nanos(WARM_UP), measure_ns: nanos(run_length), drain_ns: nanos(DRAIN) };

    let mut done: Vec<(Cell, Option<Figures>)> = Vec::with_capacity(cells.len());
    let mut fifo = true;
    let progress = Progress::new(cells.len());
    for cell in cells {
        progress.running(cell);
        let layout = layouts(cell.mode)?;
        let pace = match cell.load {
            Load::Rps(rate_rps) => Pace::Open { rate_rps },
            Load::Max => Pace::Closed,
        };
        let result = run_case(&workload, &cell.mode.params(), &layout, pace, window, interrupted)
            .with_context(|| format!("{} at {}", cell.mode, cell.load))?;
        fifo &= result.fifo;
        if let Some(dir) = &config.out {
            hdrlog::write(dir, cell, &result.measured.recorder, run_length)?;
        }
        done.push((cell, figures(&result, &layout)));
        progress.done();
    }
    drop(progress);

    let rows = loads
        .iter()
        .flat_map(|load| config.modes.iter().map(|mode| (*load, *mode)))
        .map(|(load, mode)| Row { mode, load, outcome: outcome(mode, load, &refused, &done, &layouts) })
        .collect();
    let server_cpus = u32::from(config.queues);
    Ok(Report {
        host: host::describe(&layouts(Mode::Base)?, fifo, &available),
        commit: host::commit(),
        workload: describe(config, &workload, run_length, server_cpus),
        rows,
    })
}

fn workload(config: &CompareConfig) -> anyhow::Result<CaseWorkload> {
    let profile = Profile::new(ProfileConfig::default(), config.seed)?;
    let table = Table::new(profile.config().records as usize);
    profile.fill(&table).context("filling the table")?;
    Ok(CaseWorkload {
        profile,
        table: Arc::new(table),
        flows: config.flows as usize,
        queues: config.queues,
        ring_size: config.ring_size,
        seed: config.seed,
    })
}

/// The largest rate that base answers without falling behind.
fn base_sustains(workload: &CaseWorkload, layout: &CpuLayout, interrupted: &AtomicBool) -> anyhow::Result<u64> {
    let window = Window { warm_up_ns: nanos(WARM_UP), measure_ns: nanos(SUSTAIN_RUN), drain_ns: nanos(DRAIN) };
    let mode = Mode::Base.params();
    let achieved = |pace| -> anyhow::Result<f64> {
        let result = run_case(workload, &mode, layout, pace, window, interrupted)?;
        #[expect(clippy::cast_precision_loss, reason = "a rate")]
        let rps = result.measured.answered as f64 * 1e9 / result.measured.window_ns as f64;
        Ok(rps)
    };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate is neither")]
    let closed_loop_rps = achieved(Pace::Closed)? as u64;
    let mut search = SustainSearch::new(closed_loop_rps, SUSTAIN_TRIES);
    while let Some(rps) = search.next_rps() {
        let answered = achieved(Pace::Open { rate_rps: rps })?;
        search.on_run(rps, answered);
    }
    ensure!(search.sustained_rps() > 0, "base sustains no load at all on this machine: give --load");
    Ok(search.sustained_rps())
}

fn length_that_fits(total: Duration, cells: usize) -> Duration {
    let cells = u32::try_from(cells.max(1)).unwrap_or(u32::MAX);
    let searching = (SUSTAIN_RUN + RUN_OVERHEAD) * (SUSTAIN_TRIES + 1);
    (total.saturating_sub(searching) / cells).saturating_sub(RUN_OVERHEAD).clamp(RUN_LEAST, Duration::from_secs(2))
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).expect("no run lasts 584 years")
}

fn outcome(
    mode: Mode,
    load: Load,
    refused: &[Mode],
    done: &[(Cell, Option<Figures>)],
    layouts: &dyn Fn(Mode) -> Result<CpuLayout, super::cpus::TooFewCpus>,
) -> Outcome {
    if refused.contains(&mode) {
        return Outcome::Refused(layouts(mode).expect_err("refused for this").to_string());
    }
    let of_this = done.iter().filter(|(cell, _)| cell.mode == mode && cell.load == load);
    let runs: Option<Vec<Figures>> = of_this.map(|(_, figures)| *figures).collect();
    let Some(runs) = runs else {
        return Outcome::Refused(
            "in a run, no request that was due while it was measured was answered: overloaded, or stalled".to_owned(),
        );
    };
    Outcome::Measured(Box::new(Measured::of(&runs).expect("every cell was run")))
}

#[expect(clippy::cast_precision_loss, reason = "figures for a report")]
/// `None` if no request was answered.
fn figures(result: &CaseResult, layout: &CpuLayout) -> Option<Figures> {
    let measured = &result.measured;
    let requests = measured.answered as f64;
    let polls = result.napi.polls_total() as f64;
    let per_poll = |count: f64| (polls > 0.0).then(|| count / polls);
    let cpu_us = result.cpu_total.as_secs_f64() * 1e6;
    let waits = result.waits_with_events as f64;
    Some(Figures {
        achieved_rps: requests * 1e9 / measured.window_ns as f64,
        latency_us: Summary::of(measured.recorder.intended())?,
        service_latency_us: Summary::of(measured.recorder.actual())?,
        cpu: CpuSplit::of(
            nanos(result.cpu_total),
            nanos(result.cpu_spin),
            nanos(Duration::from_secs_f64(result.seconds)),
            layout.server_cpus(),
        ),
        // No cycle counter is needed: the time-stamp counter runs at a constant rate, so these are reference cycles.
        cycles_per_request: (requests > 0.0).then(|| cpu_us * result.ticks_per_us / requests),
        interrupts_per_s: result.napi.interrupts as f64 / result.seconds,
        polls_per_s: polls / result.seconds,
        empty_polls_pct: per_poll(100.0 * result.napi.empty_polls_total() as f64),
        work_per_poll: per_poll(result.napi.packets_total() as f64),
        events_per_wait: (waits > 0.0).then(|| result.events as f64 / waits),
    })
}

fn describe(config: &CompareConfig, workload: &CaseWorkload, run_length: Duration, server_cpus: u32) -> Workload {
    let profile = workload.profile.config();
    Workload {
        name: "kv".to_owned(),
        backend: "engine".to_owned(),
        seed: config.seed,
        flows: config.flows,
        queues: u32::from(config.queues),
        server_cpus,
        records: profile.records,
        set_pct: profile.set_share * 100.0,
        key_sizes: profile.key_sizes.name(),
        value_sizes: profile.value_sizes.name(),
        popularity: profile.popularity.to_string(),
        seconds: (run_length.as_secs_f64() * 1000.0).round() / 1000.0,
    }
}

//! A whole comparison: finds what base sustains, runs every mode at every load in turn, collects the report.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use napier_kv::load::net::Proto;
use napier_kv::load::plan::{Pace, Window, nanos};
use napier_kv::profile::{Profile, ProfileConfig};

use napier_runtime::device::{Coalesce, LinkConfig, NapiStats};

use super::case::{CaseResult, Workload as CaseWorkload, run_case};
use super::cpus::{CpuLayout, TooFewCpus};
use super::ends::Place;
use super::host;
use super::kernel::KernelEnd;
use super::process;
use super::server;
use super::tally::{Ran, Tally, failed};
use crate::device::{Device, XdpWay};
use crate::in_force::InForce;
use crate::loads::{Cell, Load, SustainSearch, interleave};
use crate::modes::{Mode, ServerStyle};
use crate::report::{Memory, Outcome, Report, Row, Workload, hdrlog, one_line, progress::Progress};
use crate::stats::{CpuSplit, Figures, Summary};
use crate::subject::{Backend, Subject, subjects};

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
    /// What connects client and server: a link, or a memif or AF_XDP of the run's own.
    pub device: Device,
    /// Whether rows of the kernel's own stack stand beside the engine's.
    pub kernel: bool,
    /// What carries the requests.
    pub proto: Proto,
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
    /// Interrupt coalescing of the engine's device under test.
    pub coalesce: Coalesce,
    /// How the kernel hands packets to AF_XDP devices.
    pub xdp: XdpWay,
    /// Run modes that need more processors than there are, and mark them.
    pub oversubscribe: bool,
    /// Directory for raw histograms.
    pub out: Option<PathBuf>,
}

impl Default for CompareConfig {
    fn default() -> Self {
        Self {
            device: Device::Link,
            kernel: false,
            proto: Proto::Udp,
            modes: Mode::parse_list(crate::modes::DEFAULT_MODES).expect("the default list is made of modes"),
            loads: None,
            run_length: None,
            total: Duration::from_secs(225),
            runs: 3,
            flows: 64,
            queues: 1,
            ring_size: 1024,
            seed: 1,
            coalesce: Coalesce::adaptive(),
            xdp: XdpWay::Auto,
            oversubscribe: false,
            out: None,
        }
    }
}

impl CompareConfig {
    /// Whose rows there are.
    fn backends(&self) -> &'static [Backend] {
        if self.kernel { &[Backend::Engine, Backend::Kernel] } else { &[Backend::Engine] }
    }

    /// Checks what can be checked before anything runs.
    ///
    /// # Errors
    /// The first field that cannot be; the message says what it may be.
    pub fn check(&self) -> anyhow::Result<()> {
        ensure!(self.runs > 0, "--runs must be at least 1");
        ensure!((1..=4096).contains(&self.flows), "--flows must be 1 to 4096");
        let link = LinkConfig { queues: self.queues, ring_size: self.ring_size, ..LinkConfig::default() };
        link.check()?;
        ensure!(
            !self.kernel || matches!(self.device, Device::Xdp { .. }),
            "--peer kernel needs interfaces of the kernel: give --dev xdp as well"
        );
        ensure!(!self.kernel || self.queues == 1, "--peer kernel compares one queue: omit --queues");
        Ok(())
    }
}

/// Runs a comparison. `interrupted` ends it early; then, and if runs fail, the report has what was measured, and says
/// what is missing and why.
///
/// # Errors
/// A configuration that cannot run, or nothing was measured at all; the message says what to change.
pub fn compare(config: &CompareConfig, interrupted: &AtomicBool) -> anyhow::Result<Report> {
    config.check()?;
    let comparison = Comparison { config, workload: workload(config)?, available: host::available_cpus(), interrupted };
    comparison.run()
}

/// A comparison that is running.
struct Comparison<'a> {
    config: &'a CompareConfig,
    workload: CaseWorkload,
    available: Vec<usize>,
    interrupted: &'a AtomicBool,
}

impl Comparison<'_> {
    fn run(&self) -> anyhow::Result<Report> {
        let backends = self.config.backends();
        let subjects = subjects(&self.config.modes, backends);
        let refused: Vec<(Subject, String)> =
            subjects.iter().filter_map(|subject| Some((*subject, self.why_not(*subject)?))).collect();
        let loads = match &self.config.loads {
            Some(loads) => loads.clone(),
            None => Load::ladder(self.all_sustain(backends, &refused)?),
        };
        let runnable: Vec<Subject> =
            subjects.iter().copied().filter(|subject| refused.iter().all(|(other, _)| other != subject)).collect();
        let cells = interleave(&runnable, &loads, self.config.runs);
        let run_length =
            self.config.run_length.unwrap_or_else(|| length_that_fits(self.config.total, cells.len(), backends.len()));
        let Ended { tally, fifo, in_force, memory } = self.run_cells(cells, run_length)?;
        let row = |load, subject| match refused.iter().find(|(other, _)| *other == subject) {
            Some((_, reason)) => Row { subject, load, outcome: Outcome::Refused(reason.clone()), lost: None },
            None => tally.row(subject, load),
        };
        let rows = loads.iter().flat_map(|load| subjects.iter().map(|subject| row(*load, *subject))).collect();
        Ok(Report {
            host: host::describe(&self.layout(Mode::Base)?, fifo, in_force, &self.available),
            commit: host::commit(),
            workload: describe(self.config, &self.workload, run_length),
            rows,
            failures: tally.failures(),
            ended: tally.ended,
            memory,
        })
    }

    /// Runs the cells until all are done or the tally says that it is over.
    ///
    /// # Errors
    /// Nothing was measured: why the first run failed.
    fn run_cells(&self, cells: Vec<Cell>, run_length: Duration) -> anyhow::Result<Ended> {
        let window = Window { warm_up: WARM_UP, measure: run_length, drain: DRAIN };
        let mut tally = Tally::new(self.config.runs);
        let (mut fifo, mut in_force, mut first_run_kib) = (true, InForce::new(), None);
        let progress = Progress::new(cells.len());
        for cell in cells {
            progress.running(cell);
            let layout = self.layout(cell.subject.mode)?;
            let pace = match cell.load {
                Load::Rps(rate_rps) => Pace::Open { rate_rps },
                Load::Max => Pace::Closed,
            };
            match run_case(&self.workload, cell.subject, &layout, pace, window, self.interrupted) {
                Ok(result) => {
                    fifo &= result.fifo;
                    in_force.extend(result.in_force.clone());
                    let ran =
                        figures(&result, &layout).map_or(Ran::Unanswered, |figures| Ran::Figures(Box::new(figures)));
                    tally.add(cell, ran);
                    if let Some(dir) = &self.config.out
                        && let Err(error) = hdrlog::write(dir, cell, &result.measured.recorder, run_length)
                    {
                        tally.end(error.to_string());
                    }
                }
                Err(_) if self.interrupted.load(Ordering::Relaxed) => tally.end("interrupted".to_owned()),
                Err(error) => {
                    let why = one_line(&error) + &process::descriptor_advice(&error);
                    if tally.has_figures() {
                        progress.failed(&failed(cell, &why));
                    }
                    tally.add(cell, Ran::Failed(why));
                }
            }
            first_run_kib = first_run_kib.or_else(process::resident_kib);
            progress.done();
            if tally.ended.is_some() {
                break;
            }
        }
        if !tally.has_figures()
            && let Some(why) = tally.failures().into_iter().next().or_else(|| tally.ended.clone())
        {
            bail!(why);
        }
        Ok(Ended { tally, fifo, in_force, memory: process::memory(first_run_kib) })
    }

    fn layout(&self, mode: Mode) -> Result<CpuLayout, TooFewCpus> {
        let pollers = mode == Mode::ThreadedBusyPoll;
        let queues = usize::from(self.config.queues);
        CpuLayout::choose(&self.available, queues, pollers, self.config.oversubscribe)
    }

    /// Why a subject cannot run here; `None` if it can.
    fn why_not(&self, subject: Subject) -> Option<String> {
        let layout = match self.layout(subject.mode) {
            Ok(layout) => layout,
            Err(too_few) => return Some(too_few.to_string()),
        };
        if self.config.proto == Proto::Tcp && ServerStyle::of(&subject.mode.plan()) == ServerStyle::BlockingReceive {
            return Some(server::ONE_SOCKET.to_owned());
        }
        match (&*self.workload.place, subject.backend) {
            (Place::Veth(veth), Backend::Kernel) => match KernelEnd::new(veth.left()) {
                Ok(mut end) => end.why_not(subject.mode, &layout),
                Err(error) => Some(error.to_string()),
            },
            (_, Backend::Engine) | (Place::Link | Place::Memif, Backend::Kernel) => None,
        }
    }

    /// The largest rate that base answers without falling behind on each of the backends that can run it.
    fn all_sustain(&self, backends: &[Backend], refused: &[(Subject, String)]) -> anyhow::Result<u64> {
        let layout = self.layout(Mode::Base)?;
        let bases = backends.iter().map(|&backend| Subject { backend, mode: Mode::Base });
        let runnable = bases.filter(|base| refused.iter().all(|(other, _)| other != base));
        let each = runnable.map(|base| sustains(&self.workload, base, &layout, self.interrupted));
        let least = each.collect::<anyhow::Result<Vec<u64>>>()?.into_iter().min();
        least.context("base can run nowhere here, so it says nothing about loads: give --load")
    }
}

/// All runs are over.
struct Ended {
    tally: Tally,
    /// The softirq threads had SCHED_FIFO in all of them.
    fifo: bool,
    in_force: InForce,
    memory: Option<Memory>,
}

fn workload(config: &CompareConfig) -> anyhow::Result<CaseWorkload> {
    let profile = Profile::new(ProfileConfig::default(), config.seed)?;
    let place = match &config.device {
        Device::Link => Place::Link,
        Device::Xdp { interface: None } => Place::veth(config.queues)?,
        Device::Memif { socket: None } => Place::Memif,
        other => bail!("{} is not made for a run: give link, xdp or memif", other.name()),
    };
    let server = Arc::new(server::filled(&profile, usize::from(config.queues)));
    Ok(CaseWorkload {
        profile,
        proto: config.proto,
        server,
        place: Arc::new(place),
        flows: config.flows as usize,
        queues: config.queues,
        ring_size: config.ring_size,
        seed: config.seed,
        coalesce: config.coalesce,
        xdp: config.xdp,
    })
}

/// The largest rate that a subject answers without falling behind.
fn sustains(
    workload: &CaseWorkload,
    subject: Subject,
    layout: &CpuLayout,
    interrupted: &AtomicBool,
) -> anyhow::Result<u64> {
    let window = Window { warm_up: WARM_UP, measure: SUSTAIN_RUN, drain: DRAIN };
    let achieved = |pace| -> anyhow::Result<f64> {
        let result = run_case(workload, subject, layout, pace, window, interrupted)?;
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
    ensure!(search.sustained_rps() > 0, "{subject} sustains no load at all on this machine: give --load");
    Ok(search.sustained_rps())
}

fn length_that_fits(total: Duration, cells: usize, searches: usize) -> Duration {
    let searches = u32::try_from(searches).expect("one per backend");
    let cells = u32::try_from(cells.max(1)).unwrap_or(u32::MAX);
    let searching = (SUSTAIN_RUN + RUN_OVERHEAD) * (SUSTAIN_TRIES + 1) * searches;
    (total.saturating_sub(searching) / cells).saturating_sub(RUN_OVERHEAD).clamp(RUN_LEAST, Duration::from_secs(2))
}

/// `None` if no request was answered.
#[expect(clippy::cast_precision_loss, reason = "figures for a report")]
fn figures(result: &CaseResult, layout: &CpuLayout) -> Option<Figures> {
    let measured = &result.measured;
    let requests = measured.answered as f64;
    let polls = result.napi.map(|napi| napi.polls_total() as f64);
    let per_poll = |count: fn(&NapiStats) -> u64| {
        let napi = result.napi.filter(|napi| napi.polls_total() > 0)?;
        Some(count(&napi) as f64 / napi.polls_total() as f64)
    };
    let cpu_us = result.cpu_total.as_secs_f64() * 1e6;
    let waits = result.waits_with_events as f64;
    Some(Figures {
        achieved_rps: requests * 1e9 / measured.window_ns as f64,
        latency_us: Summary::of(measured.recorder.intended())?,
        service_latency_us: Summary::of(measured.recorder.actual())?,
        cpu: CpuSplit::of(
            nanos(result.cpu_total),
            result.cpu_spin.map(nanos),
            nanos(Duration::from_secs_f64(result.seconds)),
            layout.server_cpus(),
        ),
        // No cycle counter is needed: the time-stamp counter runs at a constant rate, so these are reference cycles.
        cycles_per_request: (requests > 0.0).then(|| cpu_us * result.ticks_per_us / requests),
        cores: result.cores,
        interrupts_per_s: result.napi.map(|napi| napi.interrupts as f64 / result.seconds),
        polls_per_s: polls.map(|polls| polls / result.seconds),
        empty_polls_pct: per_poll(NapiStats::empty_polls_total).map(|share| 100.0 * share),
        work_per_poll: per_poll(NapiStats::packets_total),
        events_per_wait: (waits > 0.0).then(|| result.events as f64 / waits),
        run_delay_ms_per_s: result.run_delay.map(|waited| waited.as_secs_f64() * 1e3 / result.seconds),
    })
}

fn describe(config: &CompareConfig, workload: &CaseWorkload, run_length: Duration) -> Workload {
    let profile = workload.profile.config();
    Workload {
        name: "kv".to_owned(),
        backend: if config.kernel { "engine and kernel" } else { "engine" }.to_owned(),
        device: config.device.name(),
        proto: workload.proto.to_string(),
        seed: config.seed,
        flows: config.flows,
        queues: u32::from(config.queues),
        server_cpus: u32::from(config.queues),
        records: profile.records,
        set_pct: profile.set_share * 100.0,
        key_sizes: profile.key_sizes.name(),
        value_sizes: profile.value_sizes.name(),
        popularity: profile.popularity.to_string(),
        seconds: (run_length.as_secs_f64() * 1000.0).round() / 1000.0,
    }
}

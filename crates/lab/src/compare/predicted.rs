//! Rows of `sim`: the same modes and loads, predicted in virtual time on a simulated machine. Nothing here is measured, and no
//! figure that the simulation does not have is made up.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use napier_core::time::Span;
use napier_sim::machine::Class;
use napier_sim::machine::figures::Figures as Run;

use super::config::{CompareConfig, SimConfig};
use super::setup;
use crate::advise::{self, Extent, REQUESTS, ServerRun, simulate};
use crate::host;
use crate::loads::{Load, Shortfall, SustainSearch};
use crate::machines::Origin;
use crate::parallel::in_parallel;
use crate::report::most;
use crate::report::{Lost, Outcome, Prediction, Report, Row, Sustained};
use crate::stats::{Cdf, CpuSplit, Figures, Measured, Recorder, Summary};
use crate::subject::Subject;

/// Most runs of one search.
const TRIES_MAX: u32 = 14;

/// A closed loop is run for so long, if nothing else is asked for: some ten thousands of requests.
const CLOSED: Span = Span::from_ms(200);

/// Predicts rows.
pub(super) struct Predictor<'a> {
    sim: &'a SimConfig,
    workload: advise::Workload,
    runs: u32,
    seed: u64,
    /// As it was asked for.
    length: Option<Span>,
    stop: &'a AtomicBool,
}

/// It was told to stop.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub(super) struct Interrupted;

/// Rows of one load, and rules that did not hold in them.
pub(super) struct PredictedRows {
    pub(super) rows: Vec<Row>,
    pub(super) failures: Vec<String>,
}

impl<'a> Predictor<'a> {
    /// `None` if nothing is to be predicted.
    pub(super) fn new(config: &'a CompareConfig, stop: &'a AtomicBool) -> Option<Self> {
        let sim = config.sim.as_ref()?;
        let connections = u16::try_from(config.flows).unwrap_or(u16::MAX).max(config.queues);
        let workload = advise::Workload {
            rate_rps: 1,
            peak_rps: None,
            queues: config.queues,
            connections,
            // The simulated machine has as many as a mode needs.
            cpus: config.queues.saturating_mul(2),
            service: config.service.clone(),
            recorded: None,
        };
        let length =
            config.run_length.map(|length| Span::from_ns(u64::try_from(length.as_nanos()).unwrap_or(u64::MAX)));
        Some(Self { sim, workload, runs: config.runs, seed: config.seed, length, stop })
    }

    /// What the report says of it.
    pub(super) fn describe(&self) -> Prediction {
        let figures = &self.sim.machine.parameters;
        Prediction {
            machine: self.sim.name.clone(),
            title: self.sim.machine.title.clone(),
            machine_figures: figures.len(),
            machine_figures_fitted: figures.iter().filter(|figure| figure.origin == Origin::Fitted).count(),
            runs: self.runs,
        }
    }

    /// A row for each subject at a load.
    pub(super) fn rows(&self, load: Load, subjects: &[Subject]) -> Result<PredictedRows, Interrupted> {
        let runs: Vec<(Subject, u64)> = subjects
            .iter()
            .flat_map(|one| (0..self.runs).map(|run| (*one, self.seed.wrapping_add(run.into()))))
            .collect();
        let extent = match (self.length, load) {
            (Some(length), _) => Extent::Time(length),
            (None, Load::Max) => Extent::Time(CLOSED),
            (None, Load::Rps(_)) => Extent::Requests(REQUESTS),
        };
        let results = in_parallel(&runs, self.sim.jobs, self.stop, &|_, _| (), |(subject, seed)| {
            simulate(&self.sim.machine, &self.workload, load, subject.mode, *seed, extent, self.stop)
        });
        let results: Vec<ServerRun> =
            results.into_iter().map(Option::flatten).collect::<Option<_>>().ok_or(Interrupted)?;
        let mut all = PredictedRows { rows: Vec::new(), failures: Vec::new() };
        for (subject, runs) in subjects.iter().zip(results.chunks(self.runs as usize)) {
            let broken = runs.iter().find_map(ServerRun::broken);
            all.failures.extend(broken.as_ref().map(|why| failed(*subject, load, why)));
            all.rows.push(self.row(*subject, load, runs, broken));
        }
        Ok(all)
    }

    fn row(&self, subject: Subject, load: Load, runs: &[ServerRun], broken: Option<String>) -> Row {
        let lost = |runs: u32, why: String| Some(Lost { runs, of: self.runs, not_run: 0, why });
        if let Some(why) = broken {
            let why = format!("a rule did not hold in the simulation: {why}");
            return Row { subject, load, outcome: Outcome::Nothing, lost: lost(self.runs, why), left_out: 0 };
        }
        let all: Vec<Figures> = runs.iter().filter_map(|run| figures(run, self.workload.queues)).collect();
        let missing = self.runs - u32::try_from(all.len()).expect("no more than there are runs");
        let outcome = Measured::of(&all).map_or(Outcome::Nothing, |figures| Outcome::Predicted {
            figures: Box::new(figures),
            sustained: ServerRun::keep_up(runs),
        });
        let why = format!("{missing} in which no request was answered");
        Row { subject, load, outcome, lost: if missing > 0 { lost(missing, why) } else { None }, left_out: 0 }
    }

    /// The most that each subject sustains; the searches begin at a rate, or near what is answered in the closed loop.
    pub(super) fn sustained(
        &self,
        subjects: &[Subject],
        start_rps: Option<u64>,
    ) -> Result<Vec<Sustained>, Interrupted> {
        let found =
            in_parallel(subjects, self.sim.jobs, self.stop, &|_, _| (), |subject| self.search(*subject, start_rps));
        found.into_iter().map(Option::flatten).collect::<Option<_>>().ok_or(Interrupted)
    }

    /// `None` if it was told to stop.
    fn search(&self, subject: Subject, start_rps: Option<u64>) -> Option<Sustained> {
        let run = |load, seed| {
            let extent = Extent::Requests(REQUESTS);
            let run = simulate(&self.sim.machine, &self.workload, load, subject.mode, seed, extent, self.stop)?;
            let figures = figures(&run, self.workload.queues);
            Some((run, figures))
        };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate is neither")]
        let start_rps = match start_rps {
            Some(start_rps) => start_rps,
            None => run(Load::Max, self.seed)?.1.map_or(1000, |figures| (figures.achieved_rps * 0.8) as u64),
        };
        let mut search = SustainSearch::new(start_rps, TRIES_MAX);
        let (mut at_most, mut seed) = (None, self.seed);
        while let Some(rps) = search.next_rps() {
            if self.stop.load(Ordering::Relaxed) {
                return None;
            }
            let (run, figures) = run(Load::Rps(rps), seed)?;
            // A load that fails is tried again, with other chances.
            seed = seed.wrapping_add(1);
            let outcome = match &figures {
                None => Err(Shortfall::Answered { pct: 0.0 }),
                Some(_) if ServerRun::keep_up(std::slice::from_ref(&run)) => {
                    let p99_us = figures.as_ref().map_or(0.0, |figures| figures.latency_us.p99);
                    if p99_us > SustainSearch::P99_US_MAX { Err(Shortfall::Late { p99_us }) } else { Ok(()) }
                }
                Some(figures) => Err(Shortfall::Answered { pct: 100.0 * figures.achieved_rps / rps as f64 }),
            };
            if let (Ok(()), Some(figures)) = (&outcome, figures) {
                at_most = Some((figures.latency_us.p99, figures.cpu.total_pct));
            }
            search.on_run(rps, outcome);
        }
        let (failed_rps, why) = search.failed().map(|(rps, why)| (rps, why.to_string())).unzip();
        let (p99_us, cpu_pct) = at_most.unzip();
        Some(Sustained {
            subject,
            start_rps,
            rps: search.sustained_rps(),
            low_rps: None,
            high_rps: None,
            kept_up_at_most: None,
            fell_behind_at_least: None,
            failed_rps,
            why,
            p99_us,
            cpu_pct,
            taken: None,
        })
    }
}

fn failed(subject: Subject, load: Load, why: &str) -> String {
    format!("{subject} at {load}: a rule did not hold in the simulation: {why}")
}

/// What a run says under the names of a measurement; `None` if nothing was answered. The queues that were simulated stand for all.
fn figures(run: &ServerRun, queues: u16) -> Option<Figures> {
    let runs = run.queues();
    let sum = |of: fn(&Run) -> u64| runs.iter().map(of).sum::<u64>();
    let (ns, polls) = (sum(|run| run.measured.ns), sum(|run| run.polls));
    let per_s = |count: u64| count as f64 * 1e9 / ns as f64 * f64::from(queues);
    let of_polls = |count: u64| (polls > 0).then(|| count as f64 / polls as f64);
    let (busy_ns, spin_ns) = (sum(|run| run.account.busy().ns), sum(|run| run.account.of(Class::Spin).ns));
    let cores = runs.iter().map(|run| usize::from(run.cores)).max()?;
    let mut latencies = Recorder::new();
    for (from_due_ns, from_send_ns) in runs.iter().flat_map(|run| run.from_due_ns.iter().zip(&run.latency_ns)) {
        latencies.record(0, from_due_ns - from_send_ns, *from_due_ns);
    }
    Some(Figures {
        achieved_rps: per_s(sum(|run| run.answered)),
        latency_us: Summary::of(latencies.intended())?,
        service_latency_us: Summary::of(latencies.actual())?,
        cpu: CpuSplit::of(busy_ns, Some(spin_ns), ns, cores),
        interrupts_per_s: Some(per_s(sum(|run| run.interrupts))),
        polls_per_s: Some(per_s(polls)),
        empty_polls_pct: of_polls(sum(|run| run.empty_polls)).map(|share| 100.0 * share),
        work_per_poll: of_polls(sum(|run| run.packets)),
        latency_cdf: Cdf::of(latencies.intended()),
        // Whether the load is sustained is said beside, of all runs together. All else is not counted there, or not in the same sense: there are
        // no cycles of a time-stamp counter, and waits without events count.
        ..Figures::default()
    })
}

/// A comparison in which nothing is measured: it takes no device, no privilege and no CPU of its own.
pub(super) fn alone(config: &CompareConfig, stop: &AtomicBool) -> anyhow::Result<Report> {
    let predictor = Predictor::new(config, stop).expect("checked with the options");
    let subjects = config.subjects();
    let able: Vec<Subject> = subjects.iter().copied().filter(|one| advise::why_not(one.mode).is_none()).collect();
    let (host, commit) = host::host_and_commit();
    let mut report = Report {
        host,
        commit,
        workload: setup::predicted(config),
        prediction: Some(predictor.describe()),
        ..Report::default()
    };
    let loads = match &config.loads {
        Some(loads) => loads.clone(),
        None => {
            let base: Vec<Subject> = able.iter().copied().filter(Subject::is_base).collect();
            let found = predictor.sustained(&base, None)?;
            let base =
                found.first().context("base is not among the modes, so it says nothing about loads: give --load")?;
            Load::ladder(if base.rps > 0 { base.rps } else { base.start_rps })
        }
    };
    let predicted = fill(&mut report, &loads, (&subjects, config.runs), |load| predictor.rows(load, &able));
    let searched = |()| if config.sustained { predictor.sustained(&able, None) } else { Ok(Vec::new()) };
    match predicted.and_then(searched) {
        Ok(sustained) => report.sustained = sustained,
        Err(interrupted) if report.rows.iter().any(|row| row.figures().is_some()) => {
            report.ended = Some(interrupted.to_string());
        }
        Err(interrupted) => return Err(interrupted.into()),
    }
    report.sustained = most::reconciled(&report);
    Ok(report)
}

/// Fills in the rows of each load, until it is told to stop: those of what is left are there as well, as not run.
fn fill(
    report: &mut Report,
    loads: &[Load],
    (subjects, runs): (&[Subject], u32),
    predict: impl Fn(Load) -> Result<PredictedRows, Interrupted>,
) -> Result<(), Interrupted> {
    let mut ended = Ok(());
    for load in loads {
        let mut found = PredictedRows { rows: Vec::new(), failures: Vec::new() };
        ended = ended.and_then(|()| {
            found = predict(*load)?;
            Ok(())
        });
        report.rows.extend(subjects.iter().map(|subject| row_of(*subject, *load, &found.rows, runs)));
        report.failures.extend(found.failures);
    }
    ended
}

/// The row of a subject among those that were predicted: one that is not simulated says why, and one that is missing was not run.
pub(super) fn row_of(subject: Subject, load: Load, rows: &[Row], runs: u32) -> Row {
    if let Some(why) = advise::why_not(subject.mode) {
        return Row { subject, load, outcome: Outcome::Refused(why), lost: None, left_out: 0 };
    }
    let found = rows.iter().find(|row| row.subject == subject && row.load == load);
    found.cloned().unwrap_or_else(|| {
        let lost = Lost { runs, of: runs, not_run: runs, why: format!("{runs} not run") };
        Row { subject, load, outcome: Outcome::Nothing, lost: Some(lost), left_out: 0 }
    })
}

#[cfg(test)]
mod tests;

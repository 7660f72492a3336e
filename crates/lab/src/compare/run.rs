//! A whole comparison: finds what base sustains, runs every mode at every load in turn, collects the report.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail};
use napier_kv::load::plan::{Pace, Window};

use super::case::run_case;
use super::comparison::{Comparison, DRAIN, RUN_OVERHEAD, WARM_UP};
use super::config::{CompareConfig, Watch};
use super::crowd;
use super::figures::figures;
use super::found::Found;
use super::kernel::counters;
use super::machine::{Outside, Pauses};
use super::predicted::{self, Predictor, row_of};
use super::process;
use super::search;
use super::setup::{describe, workload};
use super::tally::{RunEnd, Tally, failed};
use super::workload::OfferedLoad;
use crate::host;
use crate::loads::{Cell, Load, interleave};
use crate::modes::Mode;
use crate::report::most::{self, Known};
use crate::report::{Outcome, Report, Row, hdrlog, one_line, progress::Progress};
use crate::subject::{Backend, Subject};

/// Least length of a run that says anything about its 99.9th percentile.
const RUN_LEAST: Duration = Duration::from_millis(250);

/// Loads of the ladder that is made if none are given.
const LADDER_LOADS: usize = 6;

/// Runs a comparison. `interrupted` ends it early; then, and if runs fail, the report has what was measured, and says
/// what is missing and why. `watch` is handed what there is so far: before the first load, and whenever all runs of a load are
/// done. If it fails, the comparison ends.
///
/// # Errors
/// A configuration that cannot run, or nothing was measured at all; the message says what to change. What `watch` says.
pub fn compare(config: &CompareConfig, interrupted: &AtomicBool, watch: &mut Watch<'_>) -> anyhow::Result<Report> {
    config.check()?;
    if config.is_predicted() {
        return predicted::alone(config, interrupted, watch);
    }
    let subjects = config.subjects();
    let available = host::available_cpus();
    let at_start = crowd::at_start(&available);
    let mut comparison = Comparison {
        config,
        workload: workload(config, &available, interrupted)?,
        available,
        interrupted,
        predictor: Predictor::new(config, interrupted),
        subjects,
        refused: Vec::new(),
        at_start,
    };
    comparison.refused =
        comparison.subjects.iter().filter_map(|subject| Some((*subject, comparison.why_not(*subject)?))).collect();
    comparison.run(watch)
}

impl Comparison<'_> {
    fn run(&self, watch: &mut Watch<'_>) -> anyhow::Result<Report> {
        // What keeps it from running keeps the runs of the rows from it as well, and they say so.
        let cost = self.request_cost().ok().flatten();
        let mut found = Found {
            loads: Vec::new(),
            run_length: self.run_length(),
            tally: Tally::new(self.config.runs),
            predicted: Vec::new(),
            done: Vec::new(),
            machine: Vec::new(),
            sustained: Vec::new(),
            searched_again: None,
            request_cost_us: cost.as_ref().map(|cost| cost.us),
            fifo: cost.as_ref().is_none_or(|cost| cost.fifo),
            in_force: cost.map(|cost| cost.in_force).unwrap_or_default(),
            first_run_kib: None,
        };
        match &self.config.loads {
            Some(loads) => {
                found.loads.clone_from(loads);
                self.run_loads(&mut found, watch)?;
            }
            None => self.run_ladder(&mut found, watch)?,
        }
        if !found.tally.has_figures()
            && let Some(why) = found.tally.failures().into_iter().next().or_else(|| found.tally.ended.clone())
        {
            bail!(why);
        }
        if self.config.sustained && found.tally.ended.is_none() {
            self.search_most(&mut found)?;
        }
        self.report(&found, true)
    }

    /// Runs the ladder of loads that base sustains; if that turns out wrong, searches it again, once.
    fn run_ladder(&self, found: &mut Found, watch: &mut Watch<'_>) -> anyhow::Result<()> {
        let bases: Vec<Subject> = self.runnable().filter(|subject| subject.is_base()).collect();
        for is_last in [false, true] {
            found.sustained =
                bases.iter().map(|base| self.sustains(*base, None, &[])).collect::<anyhow::Result<_>>()?;
            // A machine that is too busy for any load still has rows, which say so: the loads are then those near the closed loop.
            let rates = found.sustained.iter().map(|one| if one.rps > 0 { one.rps } else { one.start_rps });
            let least_rps =
                rates.min().context("base can run nowhere here, so it says nothing about loads: give --load")?;
            found.loads = Load::ladder(least_rps);
            self.run_loads(found, watch)?;
            let wrong = search::wrong_ladder(&bases, &found.loads, &found.tally);
            let Some(why) = wrong.filter(|_| !is_last && found.tally.ended.is_none()) else { break };
            found.searched_again = Some(why);
            found.tally = Tally::new(self.config.runs);
            found.predicted.clear();
            found.machine.clear();
            found.done.clear();
        }
        Ok(())
    }

    /// Searches the most that each mode sustains; those for which it is known already keep it.
    fn search_most(&self, found: &mut Found) -> anyhow::Result<()> {
        let start_rps = found.sustained.iter().map(|one| one.rps).max().filter(|rps| *rps > 0);
        let runnable: Vec<Subject> = self.runnable().collect();
        let progress = Progress::new(runnable.len());
        let mut all = Vec::new();
        for &subject in &runnable {
            progress.searching(subject);
            let known = found.sustained.iter().find(|one| one.subject == subject).cloned();
            let taken_at = |load| found.taken_at(load, &runnable);
            let rows: Vec<Row> = found.loads.iter().map(|load| found.tally.row(subject, *load)).collect();
            let by_rows = Known::of(subject, &rows, taken_at);
            match known.map_or_else(|| self.sustains(subject, start_rps, &by_rows), Ok) {
                Ok(one) => all.push(one),
                Err(_) if self.interrupted.load(Ordering::Relaxed) => {
                    found.tally.end("interrupted".to_owned());
                    break;
                }
                Err(error) => found.tally.fail(format!("{subject}, searching what it sustains: {}", one_line(&error))),
            }
            progress.done();
        }
        if let Some(predictor) = &self.predictor {
            match predictor.sustained(&self.predictable(), start_rps) {
                Ok(predicted) => all.extend(predicted),
                Err(interrupted) => found.tally.end(interrupted.to_string()),
            }
        }
        found.sustained = all;
        Ok(())
    }

    /// Predicts the rows of a load, when nothing of it is measured any more: it takes all CPUs.
    fn predict(&self, load: Load, found: &mut Found) {
        let Some(predictor) = &self.predictor else { return };
        match predictor.rows(load, &self.predictable()) {
            Ok(more) => {
                found.predicted.extend(more.rows);
                more.failures.into_iter().for_each(|why| found.tally.fail(why));
            }
            Err(interrupted) => found.tally.end(interrupted.to_string()),
        }
    }

    /// Those that are predicted, and can be.
    fn predictable(&self) -> Vec<Subject> {
        self.able().filter(|subject| subject.backend == Backend::Sim).collect()
    }

    /// Runs all loads until the tally says that it is over.
    fn run_loads(&self, found: &mut Found, watch: &mut Watch<'_>) -> anyhow::Result<()> {
        let runnable: Vec<Subject> = self.runnable().collect();
        watch(&self.report(found, false)?)?;
        let progress = Progress::new(runnable.len() * found.loads.len() * self.config.runs as usize);
        for load in found.loads.clone() {
            let cpus = self.workload.watched(&self.layout(Mode::Base)?);
            let pauses = Pauses::watch(&cpus);
            let mut outside = Outside::default();
            for cell in interleave(&runnable, &[load], self.config.runs) {
                progress.running(cell);
                if let Some(more) = self.run_cell(cell, found, &progress)? {
                    outside = outside.and(more);
                }
                progress.done();
                if found.tally.ended.is_some() {
                    found.machine.push(search::machine_use(load, &pauses, &outside, cpus.len(), &self.workload));
                    return Ok(());
                }
            }
            found.machine.push(search::machine_use(load, &pauses, &outside, cpus.len(), &self.workload));
            self.predict(load, found);
            if found.tally.ended.is_some() {
                return Ok(());
            }
            found.done.push(load);
            progress.suspend(|| watch(&self.report(found, false)?))?;
        }
        Ok(())
    }

    /// Runs a cell; what others took meanwhile, if it ran.
    fn run_cell(&self, cell: Cell, found: &mut Found, progress: &Progress) -> anyhow::Result<Option<Outside>> {
        let window = Window { warm_up: WARM_UP, measure: found.run_length, drain: DRAIN };
        let layout = self.layout(cell.subject.mode)?;
        let pace = match cell.load {
            Load::Rps(rate_rps) => Pace::Open { rate_rps },
            Load::Max => Pace::Closed,
        };
        let mut outside = None;
        match run_case(&self.workload, cell.subject, &layout, OfferedLoad { pace, window }, self.interrupted) {
            Ok(result) => {
                found.fifo &= result.fifo;
                found.in_force.extend(result.in_force.clone());
                outside = Some(result.outside);
                let ran = figures(&result, &layout, pace)
                    .map_or(RunEnd::Unanswered, |figures| RunEnd::Figures(Box::new(figures)));
                found.tally.add(cell, ran);
                if let Some(dir) = &self.config.out
                    && let Err(error) = hdrlog::write(dir, cell, &result.measured.recorder, found.run_length)
                {
                    found.tally.end(error.to_string());
                }
            }
            Err(_) if self.interrupted.load(Ordering::Relaxed) => found.tally.end("interrupted".to_owned()),
            Err(error) => {
                let why = one_line(&error) + &process::descriptor_advice(&error);
                if found.tally.has_figures() {
                    progress.failed(&failed(cell, &why));
                }
                found.tally.add(cell, RunEnd::Failed(why));
            }
        }
        found.first_run_kib = found.first_run_kib.or_else(process::resident_kib);
        Ok(outside)
    }

    /// What there is: of all loads, or of those of which all runs are done.
    fn report(&self, found: &Found, all: bool) -> anyhow::Result<Report> {
        let row = |load, subject| match self.refused.iter().find(|(other, _)| *other == subject) {
            Some((_, reason)) => {
                Row { subject, load, outcome: Outcome::Refused(reason.clone()), lost: None, left_out: 0 }
            }
            None if subject.backend == Backend::Sim => row_of(subject, load, &found.predicted, self.config.runs),
            None => found.tally.row(subject, load),
        };
        let loads = found.loads.iter().filter(|load| all || found.done.contains(load));
        let rows = loads.flat_map(|load| self.subjects.iter().map(|subject| row(*load, *subject))).collect();
        let mut host = host::describe(
            &self.layout(Mode::Base)?,
            self.config.backends.contains(&Backend::Engine),
            found.fifo,
            found.in_force.clone(),
            &self.available,
        );
        if let Some(on) = &self.config.on {
            host.notes.insert("client".to_owned(), format!("napier load kv --agent at {}", on.client));
        }
        host.notes.extend(self.workload.untraced.iter().map(|why| ("tracepoints".to_owned(), why.clone())));
        let mut report = Report {
            host,
            commit: host::commit().to_owned(),
            workload: describe(self.config, &self.workload, found.run_length, found.request_cost_us),
            rows,
            failures: found.tally.failures(),
            ended: found.tally.ended.clone(),
            memory: process::memory(found.first_run_kib),
            machine: found.machine.clone(),
            sustained: if all { found.sustained.clone() } else { Vec::new() },
            searched_again: found.searched_again.clone(),
            prediction: self.predictor.as_ref().map(Predictor::describe),
            at_start: self.at_start.clone(),
            decided: Vec::new(),
            took_minutes: None,
        };
        report.sustained = most::reconciled(&report);
        Ok(report)
    }

    fn run_length(&self) -> Duration {
        let loads = self.config.loads.as_ref().map_or(LADDER_LOADS, Vec::len);
        let subjects = self.runnable().count();
        let searches = if self.config.sustained { subjects } else { usize::from(self.config.loads.is_none()) };
        let cells = subjects * loads * self.config.runs as usize;
        let counted = if self.workload.counters.is_some() { cells } else { 0 };
        let counting = counters::LASTS.saturating_mul(u32::try_from(counted).unwrap_or(u32::MAX));
        let total = self.config.total.saturating_sub(counting);
        self.config.run_length.unwrap_or_else(|| length_that_fits(total, cells, loads, searches))
    }
}

/// The length of a run with which everything takes this time in all.
fn length_that_fits(total: Duration, cells: usize, loads: usize, searches: usize) -> Duration {
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let beside = search::LASTS.saturating_mul(count(searches)) + search::WATCHES * count(loads);
    let run = total.saturating_sub(beside) / count(cells.max(1));
    run.saturating_sub(RUN_OVERHEAD).clamp(RUN_LEAST, Duration::from_secs(2))
}

//! A whole comparison: finds what base sustains, measures every mode at every load in rounds of slices, collects the report.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::bail;
use napier_verdict::Settings;

use super::comparison::Comparison;
use super::config::CompareConfig;
use super::crowd;
use super::found::{Found, LoadFound};
use super::predicted::{self, Predictor, row_of};
use super::process;
use super::rounds::{PASSES, ROUNDS_MAX, Rounds};
use super::setup::{describe, workload};
use super::sustained::{self, machine_use};
use crate::host;
use crate::loads::Load;
use crate::modes::Mode;
use crate::report::{Outcome, Report, Row, hdrlog};
use crate::subject::{Backend, Subject};

/// Loads are searched again if each can still have so many rounds: with fewer nothing would be decided.
const LADDER_ROUNDS: u32 = 10;

/// Runs a comparison. `interrupted` ends it early; then, and if slices fail, the report has what was measured, and says
/// what is missing and why.
///
/// # Errors
/// A configuration that cannot run, or nothing was measured at all; the message says what to change.
pub fn compare(config: &CompareConfig, interrupted: &AtomicBool) -> anyhow::Result<Report> {
    config.check()?;
    if config.is_predicted() {
        return predicted::alone(config, interrupted);
    }
    let begun = Instant::now();
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
        begun,
    };
    comparison.refused =
        comparison.subjects.iter().filter_map(|subject| Some((*subject, comparison.why_not(*subject)?))).collect();
    comparison.run()
}

impl Comparison<'_> {
    fn run(&self) -> anyhow::Result<Report> {
        let mut rounds = Rounds::new(self, self.begun + self.config.total)?;
        let mut found = Found::new(rounds.subjects.len());
        // What keeps it from running keeps the slices of the rows from it as well, and they say so.
        found.request_cost_us = rounds.request_cost();
        self.measure(&mut rounds, &mut found)?;
        if !found.has_figures()
            && let Some(why) = found.failures.first().cloned().or_else(|| found.ended.clone())
        {
            bail!(why);
        }
        if rounds.is_interrupted() {
            found.ended = Some("interrupted".to_owned());
        }
        for at in 0..found.loads.len() {
            self.predict(found.loads[at].load, &mut found);
        }
        self.predict_sustained(&mut found);
        self.write_histograms(&rounds, &mut found);
        let slices = found.loads.iter().flat_map(|load| load.saved(&rounds.subjects)).collect();
        Ok(Report { slices, ..self.report(&rounds, &found)? })
    }

    /// The loads that were asked for, or those of a ladder of what base sustains. If that turns out wrong, the ladder is made again, once,
    /// within the same time.
    fn measure(&self, rounds: &mut Rounds<'_>, found: &mut Found) -> anyhow::Result<()> {
        let mut first_rps = None;
        for is_last in [false, true] {
            let loads = match &self.config.loads {
                Some(loads) => loads.clone(),
                None => {
                    let known = if is_last { sustained::of_bases(rounds, found) } else { None };
                    let rps = known.map_or_else(|| sustained::search_bases(rounds, found), Ok)?;
                    first_rps = Some(rps);
                    Load::ladder(rps)
                }
            };
            let looks = if self.config.rounds.is_some() { 1 } else { PASSES };
            let settings = Settings { seed: self.config.seed, looks, ..Settings::DEFAULT };
            let subjects = rounds.subjects.len();
            found.loads =
                loads.iter().map(|load| LoadFound::new(*load, subjects, settings, self.config.rounds)).collect();
            match self.config.rounds {
                Some(wanted) => return self.fixed(wanted, rounds, found),
                None => {
                    let again = self.passes(first_rps, !is_last, rounds, found)?;
                    let Some(why) = again else { break };
                    found.searched_again = Some(why);
                }
            }
        }
        Ok(())
    }

    /// So many rounds of each load, however long they take.
    fn fixed(&self, wanted: u32, rounds: &mut Rounds<'_>, found: &mut Found) -> anyhow::Result<()> {
        rounds.progress.expect(u64::from(wanted) * (found.loads.len() * rounds.subjects.len()) as u64);
        for at in 0..found.loads.len() {
            rounds.run(at, wanted, false, found);
            rounds.look(&mut found.loads[at]);
            let report = self.report(rounds, found)?;
            rounds.progress.so_far(&report);
        }
        if self.config.sustained {
            for _ in 0..PASSES {
                rounds.deadline = Instant::now() + rounds.tries_time() * 2;
                rounds.try_rates(sustained::guess_rps(found), found);
            }
        }
        Ok(())
    }

    /// Passes over the loads until all is decided or the time is up. Why the ladder of loads is wrong, if that is looked for and so.
    fn passes(
        &self,
        first_rps: Option<u64>,
        may_search_again: bool,
        rounds: &mut Rounds<'_>,
        found: &mut Found,
    ) -> anyhow::Result<Option<String>> {
        for pass in 0..PASSES {
            let open: Vec<usize> = (0..found.loads.len()).filter(|at| !found.loads[*at].is_over).collect();
            let tries = if self.config.sustained { rounds.tries_time() * (PASSES - pass) } else { Duration::ZERO };
            let counting = if pass == 0 { rounds.counting_time(found.loads.len()) } else { Duration::ZERO };
            let each = rounds.rounds_of_pass(open.len(), PASSES - pass, tries + counting).min(ROUNDS_MAX / PASSES);
            rounds.progress.expect(u64::from(each) * (open.len() * rounds.subjects.len()) as u64);
            for &at in &open {
                rounds.run(at, each, true, found);
            }
            if self.config.sustained {
                rounds.try_rates(sustained::guess_rps(found), found);
            }
            // A machine that was busy during the search may show in any pass that the search found too little.
            found.loads_wrong = first_rps.and_then(|top_rps| sustained::wrong_ladder(top_rps, rounds, found));
            if may_search_again
                && rounds.has_time_for(found.loads.len() as u32 * LADDER_ROUNDS)
                && found.loads_wrong.is_some()
            {
                return Ok(found.loads_wrong.take());
            }
            // Of the others nothing is new.
            open.iter().for_each(|at| rounds.look(&mut found.loads[*at]));
            let report = self.report(rounds, found)?;
            rounds.progress.so_far(&report);
            let is_done = found.loads.iter().all(|load| load.is_over);
            if is_done || found.ended.is_some() || rounds.is_over(rounds.round_time()) {
                break;
            }
        }
        Ok(None)
    }

    /// Predicts the rows of a load, when nothing of it is measured any more: it takes all CPUs.
    fn predict(&self, load: Load, found: &mut Found) {
        let Some(predictor) = &self.predictor else { return };
        match predictor.rows(load, &self.predictable()) {
            Ok(more) => {
                found.predicted.extend(more.rows);
                found.failures.extend(more.failures);
            }
            Err(interrupted) => found.ended = Some(interrupted.to_string()),
        }
    }

    fn predict_sustained(&self, found: &mut Found) {
        let Some(predictor) = self.predictor.as_ref().filter(|_| self.config.sustained) else { return };
        match predictor.sustained(&self.predictable(), None) {
            Ok(all) => found.predicted_sustained = all,
            Err(interrupted) => found.ended = Some(interrupted.to_string()),
        }
    }

    /// Those that are predicted, and can be.
    fn predictable(&self) -> Vec<Subject> {
        self.able().filter(|subject| subject.backend == Backend::Sim).collect()
    }

    /// Raw histograms of all rows, if they are wanted.
    fn write_histograms(&self, rounds: &Rounds<'_>, found: &mut Found) {
        let Some(dir) = &self.config.out else { return };
        let written = found.loads.iter().try_for_each(|load| {
            rounds.subjects.iter().enumerate().try_for_each(|(at, subject)| {
                let Some((sum, _)) = load.shown(at) else { return Ok(()) };
                let span = Duration::from_nanos(sum.measured.window_ns);
                hdrlog::write(dir, *subject, load.load, &sum.measured.recorder, span).map(drop)
            })
        });
        if let Err(error) = written {
            found.ended = Some(error.to_string());
        }
    }

    /// What there is.
    fn report(&self, rounds: &Rounds<'_>, found: &Found) -> anyhow::Result<Report> {
        let row = |load: &LoadFound, subject: Subject| match self.refused.iter().find(|(other, _)| *other == subject) {
            Some((_, reason)) => {
                let outcome = Outcome::Refused(reason.clone());
                Row { subject, load: load.load, outcome, lost: None, left_out: 0 }
            }
            None if subject.backend == Backend::Sim => row_of(subject, load.load, &found.predicted, self.config.runs),
            None => {
                let at = rounds.subjects.iter().position(|one| *one == subject).expect("what is not refused runs");
                load.row(at, subject, rounds.layout(at))
            }
        };
        let rows = found.loads.iter().flat_map(|load| self.subjects.iter().map(move |subject| row(load, *subject)));
        let rows: Vec<Row> = rows.collect();
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
        let watched = self.workload.watched(&self.layout(Mode::Base)?).len();
        let seen = found.loads.iter().filter(|load| load.rounds > 0);
        Ok(Report {
            host,
            commit: host::commit().to_owned(),
            workload: describe(self.config, &self.workload, rounds.slice, found.request_cost_us),
            rows,
            failures: found.failures.clone(),
            ended: found.ended.clone(),
            memory: process::memory(found.first_run_kib),
            machine: seen
                .map(|load| machine_use(load.load, &load.pauses, &load.outside, watched, &self.workload))
                .collect(),
            sustained: sustained::all(self.config.sustained, rounds, found),
            searched_again: found.searched_again.clone(),
            loads_wrong: found.loads_wrong.clone(),
            prediction: self.predictor.as_ref().map(Predictor::describe),
            at_start: self.at_start.clone(),
            decided: found.loads.iter().filter_map(|load| load.decided.clone()).collect(),
            slices: Vec::new(),
            took_minutes: Some((self.begun.elapsed().as_secs_f64() / 0.6).round() / 100.0),
        })
    }
}

//! Short runs beside the table: what a request costs, what a mode sustains, and whether the loads that came of it are right.

use std::time::Duration;

use napier_kv::load::plan::{Pace, Window};

use super::case::{CaseResult, run_case};
use super::comparison::{Comparison, DRAIN, WARM_UP};
use super::figures::figures;
use super::machine::{Outside, Pauses};
use super::place::Testbed;
use super::tally::Tally;
use super::workload::{OfferedLoad, Workload};
use crate::applied::Applied;
use crate::loads::{Load, Shortfall, SustainSearch};
use crate::modes::Mode;
use crate::report::most::Known;
use crate::report::{MachineUse, Sustained};
use crate::stats::Figures;
use crate::subject::{Backend, Subject};

/// Most runs of one search.
const TRIES_MAX: u32 = 14;

/// Length of one of them.
const RUN: Duration = Duration::from_millis(300);

/// A search takes so long as a rule: ten runs, and what goes with each.
pub(super) const LASTS: Duration = Duration::from_millis(10 * (300 + 220));

/// What the machine is watched for before a load.
pub(super) const WATCHES: Duration = Duration::from_millis(120);

/// A closed loop that answers so many times what was found to be the most says that the search was disturbed.
const CLOSED_OVER_LADDER_MAX: f64 = 3.0;

/// Answering less of what was found to be the most says so too; a little less is a machine that has become slower.
const ANSWERED_OF_LADDER_MIN: f64 = 0.9;

/// What a request costs.
#[derive(Clone)]
pub(super) struct Cost {
    /// CPU time of the server per reply, in µs.
    pub(super) us: f64,
    /// The softirq threads had SCHED_FIFO.
    pub(super) fifo: bool,
    /// What the end under test was given.
    pub(super) in_force: Applied,
}

impl Comparison<'_> {
    /// What a request costs the server where nothing but requests takes its time: `fullbusy`, in closed loop.
    pub(super) fn request_cost(&self) -> anyhow::Result<Option<Cost>> {
        if !self.config.backends.contains(&Backend::Engine) {
            // Of the kernel a part of it is spent where it cannot be told from others'.
            return Ok(None);
        }
        let subject = Subject::engine(Mode::FullBusy);
        let Ok(layout) = self.layout(subject.mode) else { return Ok(None) };
        let result = self.short_run(subject, Pace::Closed, 0)?;
        let Some(figures) = figures(&result, &layout, Pace::Closed) else { return Ok(None) };
        #[expect(clippy::cast_precision_loss, reason = "CPUs are few")]
        let cpus = layout.server_cpus() as f64;
        // All CPU time, spinning as well: what polls in vain is taken from ticks, which go on while others have the CPU.
        let us = figures.cpu.total_pct / 100.0 * cpus * 1e6 / figures.achieved_rps.max(1.0);
        Ok(Some(Cost { us: (us * 1e3).round() / 1e3, fifo: result.fifo, in_force: result.in_force }))
    }

    /// `chance` tells runs apart that have other arrivals at the same rate.
    fn short_run(&self, subject: Subject, pace: Pace, chance: u64) -> anyhow::Result<CaseResult> {
        let window = Window { warm_up: WARM_UP, measure: RUN, drain: DRAIN };
        // Nothing of it is shown that would have to be traced.
        let workload =
            Workload { counters: None, seed: self.workload.seed.wrapping_add(chance), ..self.workload.clone() };
        run_case(&workload, subject, &self.layout(subject.mode)?, OfferedLoad { pace, window }, self.interrupted)
    }

    /// The most that a subject sustains; the search begins with what is known of it, at a rate, or near what it answers in closed loop.
    pub(super) fn sustains(
        &self,
        subject: Subject,
        start_rps: Option<u64>,
        known: &[Known],
    ) -> anyhow::Result<Sustained> {
        let layout = self.layout(subject.mode)?;
        let cpus = self.workload.watched(&layout).len();
        let (mut outside, mut chance) = (Outside::default(), 0);
        let mut run = |pace| -> anyhow::Result<Option<Figures>> {
            // A load that fails is tried again with other arrivals, or chance would speak twice.
            chance += 1;
            let result = self.short_run(subject, pace, chance)?;
            outside = outside.and(result.outside);
            Ok(figures(&result, &layout, pace))
        };
        let start_rps = match start_rps {
            Some(start_rps) => start_rps,
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate is neither")]
            None => run(Pace::Closed)?.map_or(1000, |figures| (figures.achieved_rps * 0.8) as u64),
        };
        let mut search =
            SustainSearch::new(start_rps, TRIES_MAX).knowing(known.iter().map(|one| (one.rps, one.outcome)));
        let mut at_most = Known::at(known, search.sustained_rps());
        while let Some(rps) = search.next_rps() {
            let figures = run(Pace::Open { rate_rps: rps })?;
            let outcome = figures.map_or(Err(Shortfall::Answered { pct: 0.0 }), |figures| {
                SustainSearch::judge(figures.in_time_pct.unwrap_or(100.0), figures.latency_us.p99)
            });
            if let (Ok(()), Some(figures)) = (&outcome, figures) {
                at_most = Some((figures.latency_us.p99, figures.cpu.total_pct));
            }
            search.on_run(rps, outcome);
        }
        let machine = machine_use(Load::Max, &Pauses::default(), &outside, cpus, &self.workload);
        Ok(Sustained {
            subject,
            start_rps,
            rps: search.sustained_rps(),
            interval_rps: None,
            kept_up_at_most: None,
            fell_behind_at_least: None,
            failed: search.failed().map(|(rps, why)| (rps, why.to_string())),
            at_most,
            taken: machine.taken_from(f64::INFINITY),
        })
    }
}

/// Why the loads that came of a search are wrong; `None` if they are not, or nothing is known.
pub(super) fn wrong_ladder(bases: &[Subject], loads: &[Load], tally: &Tally) -> Option<String> {
    let top_rps = loads.iter().filter_map(|load| if let Load::Rps(rps) = load { Some(*rps) } else { None }).max()?;
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    let top = top_rps as f64;
    bases.iter().find_map(|&base| {
        let measured = |load| tally.row(base, load).measured().map(|measured| measured.median);
        let at_top = measured(Load::Rps(top_rps))
            .map(|figures| figures.in_time_pct.unwrap_or(100.0 * figures.achieved_rps / top));
        let at_top = at_top.filter(|pct| *pct < 100.0 * ANSWERED_OF_LADDER_MIN);
        let closed = measured(Load::Max).map(|figures| figures.achieved_rps);
        let closed = closed.filter(|rps| *rps >= CLOSED_OVER_LADDER_MAX * top);
        match (at_top, closed) {
            (Some(pct), _) => Some(format!(
                "{base} answered {:.0} % of what was due at the load that was taken for 100 %",
                pct.floor()
            )),
            (None, Some(rps)) => {
                Some(format!("{base} answered {:.1} times the load that was taken for 100 % in closed loop", rps / top))
            }
            (None, None) => None,
        }
    })
}

/// What else the machine did at a load.
pub(super) fn machine_use(
    load: Load,
    pauses: &Pauses,
    outside: &Outside,
    cpus: usize,
    workload: &Workload,
) -> MachineUse {
    let rounded = |number: f64| (number * 1e3).round() / 1e3;
    MachineUse {
        load_rps: load,
        pause_p99_us: rounded(pauses.wait_us(0.01)),
        pause_p999_us: rounded(pauses.wait_us(0.001)),
        pause_max_us: rounded(pauses.longest_us()),
        others_pct: rounded(outside.others_pct()),
        stolen_pct: rounded(outside.stolen_pct()),
        client_waited_ms_per_s: (!matches!(&*workload.place, Testbed::Memif | Testbed::On(_)))
            .then(|| rounded(outside.waited_ms_per_s(cpus))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::comparison::RUN_OVERHEAD;
    use crate::compare::tally::RunEnd;
    use crate::loads::Cell;
    use crate::report::samples::figures;

    fn tally(at_top_rps: f64, closed_rps: f64) -> (Vec<Load>, Tally) {
        let loads = Load::ladder(100_000);
        let subject = Subject::engine(Mode::Base);
        let mut tally = Tally::new(1);
        for (load, rps) in [(loads[4], at_top_rps), (Load::Max, closed_rps)] {
            tally.add(Cell { subject, load, run: 0 }, RunEnd::Figures(Box::new(figures(rps, 50.0, 50.0))));
        }
        (loads, tally)
    }

    #[test]
    fn loads_that_base_does_not_sustain_or_far_exceeds_are_wrong() {
        let wrong = |at_top_rps, closed_rps| {
            let (loads, tally) = tally(at_top_rps, closed_rps);
            wrong_ladder(&[Subject::engine(Mode::Base)], &loads, &tally)
        };
        assert_eq!(wrong(91_000.0, 120_000.0), None);
        assert!(wrong(87_000.0, 120_000.0).is_some_and(|why| why.contains("answered 87 % of what was due")));
        assert!(wrong(100_000.0, 930_000.0).is_some_and(|why| why.contains("9.3 times the load")));
        let (loads, _) = tally(0.0, 0.0);
        assert_eq!(wrong_ladder(&[Subject::engine(Mode::Base)], &loads, &Tally::new(1)), None, "nothing is known");
    }

    #[test]
    fn a_search_and_its_runs_take_what_is_planned_for_it() {
        assert_eq!(LASTS, (RUN + RUN_OVERHEAD) * 10);
    }
}

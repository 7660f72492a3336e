//! What became of each run of a comparison, and the rows that come of it. A run that gave nothing takes no other run with it.

use crate::loads::{Cell, Load};
use crate::report::{Lost, Outcome, Row};
use crate::stats::{Figures, Measured};
use crate::subject::Subject;

/// So many failures one after the other end a comparison: the next run would fail as well.
const FAILED_IN_A_ROW_MAX: u32 = 3;

/// What became of one run.
#[derive(Clone, Debug)]
pub(super) enum RunEnd {
    /// It was measured.
    Figures(Box<Figures>),
    /// Nothing that was due while it was measured was answered.
    Unanswered,
    /// It could not be carried out.
    Failed(String),
}

/// All runs so far.
#[derive(Debug)]
pub(super) struct Tally {
    done: Vec<(Cell, RunEnd)>,
    runs_per_row: u32,
    failed_in_a_row: u32,
    /// Failures of what is no run of a row.
    others: Vec<String>,
    /// Why no more runs follow, before all were run.
    pub(super) ended: Option<String>,
}

impl Tally {
    pub(super) fn new(runs_per_row: u32) -> Self {
        Self { done: Vec::new(), runs_per_row, failed_in_a_row: 0, others: Vec::new(), ended: None }
    }

    /// Keeps what became of a run; too many failures in a row end the comparison.
    pub(super) fn add(&mut self, cell: Cell, ran: RunEnd) {
        self.failed_in_a_row = if matches!(ran, RunEnd::Failed(_)) { self.failed_in_a_row + 1 } else { 0 };
        if self.failed_in_a_row == FAILED_IN_A_ROW_MAX {
            self.ended = Some(format!("{FAILED_IN_A_ROW_MAX} runs failed one after the other"));
        }
        self.done.push((cell, ran));
    }

    /// Keeps the failure of what is no run of a row.
    pub(super) fn fail(&mut self, why: String) {
        self.others.push(why);
    }

    /// Ends the comparison here.
    pub(super) fn end(&mut self, why: String) {
        self.ended = Some(why);
    }

    /// Whether there is anything to show.
    pub(super) fn has_figures(&self) -> bool {
        self.done.iter().any(|(_, ran)| matches!(ran, RunEnd::Figures(_)))
    }

    /// Each failure, with the run that failed, in the order in which they came.
    pub(super) fn failures(&self) -> Vec<String> {
        let failure = |(cell, ran): &(Cell, RunEnd)| match ran {
            RunEnd::Failed(why) => Some(failed(*cell, why)),
            RunEnd::Figures(_) | RunEnd::Unanswered => None,
        };
        self.done.iter().filter_map(failure).chain(self.others.iter().cloned()).collect()
    }

    /// The row of a subject that could be applied.
    pub(super) fn row(&self, subject: Subject, load: Load) -> Row {
        let of_this = || self.done.iter().filter(|(cell, _)| cell.subject == subject && cell.load == load);
        let figures: Vec<Figures> = of_this()
            .filter_map(|(_, ran)| match ran {
                RunEnd::Figures(figures) => Some(**figures),
                RunEnd::Unanswered | RunEnd::Failed(_) => None,
            })
            .collect();
        let outcome = Measured::of(&figures).map_or(Outcome::Nothing, |measured| Outcome::Measured(Box::new(measured)));
        Row { subject, load, outcome, lost: self.lost(of_this().map(|(_, ran)| ran)), left_out: 0 }
    }

    /// The runs of a row that gave nothing.
    fn lost<'a>(&self, of_row: impl Iterator<Item = &'a RunEnd>) -> Option<Lost> {
        let (mut ran, mut unanswered, mut failures) = (0, 0, Vec::new());
        for one in of_row {
            ran += 1;
            match one {
                RunEnd::Figures(_) => {}
                RunEnd::Unanswered => unanswered += 1,
                RunEnd::Failed(why) => failures.push(why.as_str()),
            }
        }
        let not_run = self.runs_per_row.saturating_sub(ran);
        let failed = u32::try_from(failures.len()).expect("no more than there are runs");
        let mut why = Vec::new();
        if unanswered > 0 {
            why.push(format!(
                "{unanswered} in which no request that was due while it was measured was answered (overloaded, or stalled)"
            ));
        }
        if let Some(first) = failures.first() {
            why.push(format!("{failed} failed ({first})"));
        }
        if not_run > 0 {
            why.push(format!("{not_run} not run"));
        }
        let runs = unanswered + failed + not_run;
        (runs > 0).then(|| Lost { runs, of: self.runs_per_row, not_run, why: why.join(", ") })
    }
}

/// A failure with the run that failed.
pub(super) fn failed(cell: Cell, why: &str) -> String {
    format!("{} at {}, run {}: {why}", cell.subject, cell.load, cell.run + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modes::Mode;
    use crate::report::samples::figures;

    fn cell(load: Load, run: u32) -> Cell {
        Cell { subject: Subject::engine(Mode::Base), load, run }
    }

    fn good(p99: f64) -> RunEnd {
        RunEnd::Figures(Box::new(figures(1e3, p99, 50.0)))
    }

    const LOAD: Load = Load::Rps(1000);

    #[test]
    fn one_bad_run_leaves_the_good_ones() {
        let mut tally = Tally::new(3);
        tally.add(cell(LOAD, 0), good(10.0));
        tally.add(cell(LOAD, 1), RunEnd::Unanswered);
        tally.add(cell(LOAD, 2), good(30.0));
        let row = tally.row(Subject::engine(Mode::Base), LOAD);
        let measured = row.measured().expect("two runs were good");
        assert_eq!((measured.runs, measured.median.latency_us.p99), (2, 20.0));
        let lost = row.lost.expect("one was not");
        assert_eq!((lost.runs, lost.of, lost.not_run), (1, 3, 0));
        assert!(lost.why.starts_with("1 in which no request"), "{}", lost.why);
        assert_eq!((tally.failures(), &tally.ended), (Vec::<String>::new(), &None), "overload is no failure");
    }

    #[test]
    fn what_was_not_run_is_missing_and_nothing_else() {
        let mut tally = Tally::new(2);
        tally.add(cell(LOAD, 0), good(10.0));
        tally.end("interrupted".to_owned());
        let (begun, after) =
            (tally.row(Subject::engine(Mode::Base), LOAD), tally.row(Subject::engine(Mode::Base), Load::Max));
        assert_eq!(begun.measured().map(|measured| measured.runs), Some(1));
        assert_eq!(begun.lost.map(|lost| lost.why), Some("1 not run".to_owned()));
        assert!(matches!(after.outcome, Outcome::Nothing));
        assert_eq!(after.lost.map(|lost| (lost.runs, lost.not_run)), Some((2, 2)));
    }

    #[test]
    fn failures_are_told_and_too_many_in_a_row_end_it() {
        let mut tally = Tally::new(5);
        let bad = || RunEnd::Failed("no descriptor".to_owned());
        for (run, ran) in [bad(), bad(), good(10.0), bad(), bad()].into_iter().enumerate() {
            tally.add(cell(LOAD, run as u32), ran);
        }
        assert_eq!(tally.ended, None);
        assert_eq!(tally.failures()[0], "base at 1K, run 1: no descriptor");
        assert_eq!(tally.failures().len(), 4);
        let lost = tally.row(Subject::engine(Mode::Base), LOAD).lost.expect("four are");
        assert_eq!((lost.runs, lost.why.as_str()), (4, "4 failed (no descriptor)"));
        tally.add(cell(Load::Max, 0), bad());
        assert!(tally.ended.is_some_and(|why| why.contains("one after the other")));
    }
}

//! A search for the most that a mode sustains, of short runs, says nothing that a row of its own table says otherwise. What is estimated from
//! slices at all rates has an interval, and knows all rows already.

use super::verdict::sustains_for_sure;
use super::{Report, Row, Sustained};
use crate::loads::{Load, Shortfall, SustainSearch};
use crate::subject::{Backend, Subject};

/// How a load came out that is known by a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Known {
    /// The load, in requests per second.
    pub(crate) rps: u64,
    /// As a search would judge it.
    pub(crate) outcome: Result<(), Shortfall>,
    /// 99th percentile in µs and CPU time in percent.
    at: (f64, f64),
}

impl Known {
    /// What the rows of a subject say for sure, at loads where nothing took the machine away.
    pub(crate) fn of<'a>(
        subject: Subject,
        rows: impl IntoIterator<Item = &'a Row>,
        taken_at: impl Fn(Load) -> bool,
    ) -> Vec<Self> {
        let of_subject = rows.into_iter().filter(|row| row.subject == subject);
        of_subject
            .filter_map(|row| {
                let Load::Rps(rps) = row.load else { return None };
                let sustains =
                    sustains_for_sure(row).filter(|_| subject.backend == Backend::Sim || !taken_at(row.load))?;
                let median = &row.figures()?.median;
                let by_rate = 100.0 * median.achieved_rps / rps as f64;
                let in_time_pct = if sustains { 100.0 } else { median.in_time_pct.unwrap_or(by_rate) };
                let at = (median.latency_us.p99, median.cpu.total_pct);
                Some(Self { rps, outcome: SustainSearch::judge(in_time_pct, at.0), at })
            })
            .collect()
    }

    /// p99 and CPU time at a load.
    pub(crate) fn at(known: &[Self], rps: u64) -> Option<(f64, f64)> {
        known.iter().find(|one| one.rps == rps).map(|one| one.at)
    }
}

/// What was found by short runs, mended by the rows: they are longer and several, so a search never says what a row of its own table
/// says otherwise.
pub(crate) fn reconciled(report: &Report) -> Vec<Sustained> {
    let taken_at = |load| report.taken_at(load).is_some();
    let mended = |one: &Sustained| match one.interval_rps() {
        None => with_rows(one, &Known::of(one.subject, &report.rows, taken_at)),
        Some(_) => one.clone(),
    };
    report.sustained.iter().map(mended).collect()
}

fn with_rows(one: &Sustained, known: &[Known]) -> Sustained {
    // Only what rows say is judged; how the search itself came out stays as it was said.
    let rows = SustainSearch::new(one.start_rps, 0).knowing(known.iter().map(|one| (one.rps, one.outcome)));
    let failed_row = rows.failed().map(|(rps, why)| (rps, why.to_string()));
    let own = one.failed_rps.zip(one.why.clone().filter(|why| !why.is_empty()));
    let failed = match (failed_row, own) {
        (Some(row), Some(own)) if own.0 < row.0 && own.0 > rows.sustained_rps() => Some(own),
        (Some(row), _) => Some(row),
        (None, own) => own.filter(|(rps, _)| *rps > rows.sustained_rps()),
    };
    let own_rps = Some(one.rps).filter(|rps| failed.as_ref().is_none_or(|(failed_rps, _)| rps < failed_rps));
    let rps = own_rps.unwrap_or(0).max(rows.sustained_rps());
    let at_most = if own_rps == Some(rps) { one.p99_us.zip(one.cpu_pct) } else { Known::at(known, rps) };
    let ((failed_rps, why), (p99_us, cpu_pct)) = (failed.unzip(), at_most.unzip());
    let failed_rps = failed_rps.or(one.fell_behind_at_least);
    Sustained { rps, failed_rps, why, p99_us, cpu_pct, ..one.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples::{cover_letter, row, sustained};

    /// base is said to sustain 480,000 and to fail at 505,000.
    fn found(rows: Vec<Row>) -> (u64, Option<u64>, Option<(f64, f64)>) {
        let report = Report { rows, machine: Vec::new(), sustained: sustained(), ..cover_letter() };
        let one = &reconciled(&report)[0];
        (one.rps, one.failed_rps, one.p99_us.zip(one.cpu_pct))
    }

    #[test]
    fn a_search_never_says_what_a_row_of_its_table_says_otherwise() {
        let at = |rps: u64, share: f64| row("base", Load::Rps(rps), rps as f64 * share, 200.0, 40.0, 0.01);
        let own = Some((310.0, 98.0));
        assert_eq!(found(vec![at(400_000, 1.0), at(600_000, 0.8)]), (480_000, Some(505_000), own), "nothing is new");
        assert_eq!(found(vec![at(700_000, 1.0)]), (700_000, None, Some((200.0, 40.0))), "a row sustains more");
        assert_eq!(found(vec![at(490_000, 1.0)]), (490_000, Some(505_000), Some((200.0, 40.0))));
        assert_eq!(found(vec![at(100_000, 1.0), at(300_000, 0.9)]), (100_000, Some(300_000), Some((200.0, 40.0))));
        assert_eq!(found(vec![at(300_000, 0.9)]), (0, Some(300_000), None), "or less");
        assert_eq!(found(vec![at(300_000, 0.9), at(700_000, 1.0)]), (0, Some(300_000), None));
        let others = row("fullbusy", Load::Rps(300_000), 1e5, 200.0, 40.0, 0.01);
        assert_eq!(found(vec![others]), (480_000, Some(505_000), own), "rows of another mode say nothing of it");
    }
}

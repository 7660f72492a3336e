//! How near predictions are to what was published.

use super::event_loop::EventLoopPlan;
use super::load::Load;
use super::published::PublishedRow;
use super::run::{PlanCell, Predicted};
use napier_lab::machines::{KnownError, percent, root_mean_square};

/// Part of a load that is answered where a server keeps up.
const KEEPS_UP: f64 = 0.985;

/// The figures of a row that are compared: name, published, predicted.
pub(super) fn figures(row: &PublishedRow, predicted: &Predicted) -> [(&'static str, f64, f64); 6] {
    [
        ("qps", row.qps, predicted.qps),
        ("avg_us", row.avg_us, predicted.avg_us),
        ("p95_us", row.p95_us, predicted.p95_us),
        ("p99_us", row.p99_us, predicted.p99_us),
        ("cpu_pct", row.cpu_pct, predicted.cpu_pct),
        ("cycles_per_query_corrected", row.cycles_per_query_corrected, predicted.cycles_per_query_corrected),
    ]
}

/// Instructions per query, likewise, where the machine says how many a cycle has. They are no part of a score.
pub(super) fn instructions(plan: &EventLoopPlan, cell: &PlanCell) -> Option<(&'static str, f64, f64)> {
    let row = plan.published.row(&cell.mode.to_string(), cell.load)?;
    let predicted = cell.predicted.as_ref().ok().filter(|_| plan.machine.per_100_cycles.0 > 0)?;
    let (was, is) = (row.instructions_per_query_corrected, predicted.instructions_per_query_corrected);
    Some(("instructions_per_query_corrected", was, is))
}

/// Part by which a prediction is off.
pub(super) fn error(published: f64, predicted: f64) -> f64 {
    (predicted - published) / published
}

/// Absolute errors of some rows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Errors {
    /// Figures that are compared.
    pub figures: usize,
    /// Median, in percent.
    pub median_pct: f64,
    /// 90 of 100 are at most this, in percent.
    pub p90_pct: f64,
}

/// A plan's score.
#[derive(Clone, PartialEq, Debug)]
pub struct Score {
    /// Rows that parameters of the machine were fitted to.
    pub fitted: Option<Errors>,
    /// The others: they are the test.
    pub checked: Option<Errors>,
    /// Instructions per query of the rows below MAX that nothing was fitted to.
    pub instructions: Option<Errors>,
    /// Largest error of the most that is answered, in percent.
    pub max_qps_pct: Option<f64>,
    /// How far rows below MAX were off where the server keeps up, as the machine's file should have it.
    pub known: KnownError,
    /// Agreement of the order of modes by p99 and by CPU within each load: 1 all pairs, -1 none (Kendall's tau).
    pub order: Vec<(Load, f64, f64)>,
}

/// Whether parameters were fitted to the rows of a mode.
pub(super) fn is_fitted(plan: &EventLoopPlan, cell: &PlanCell) -> bool {
    plan.machine.is_fitted_to(&cell.mode.to_string(), &cell.load.to_string())
}

/// Scores cells against what was published; those that were not are left out.
#[must_use]
pub fn score(plan: &EventLoopPlan, cells: &[PlanCell]) -> Score {
    let pairs: Vec<(&PlanCell, PublishedRow, &Predicted)> = cells
        .iter()
        .filter_map(|cell| {
            let row = plan.published.row(&cell.mode.to_string(), cell.load)?;
            Some((cell, row, cell.predicted.as_ref().ok()?))
        })
        .collect();
    let errors = |fitted: bool| {
        let of = pairs.iter().filter(|(cell, ..)| is_fitted(plan, cell) == fitted && cell.load != Load::Max);
        errors(
            of.flat_map(|(_, row, predicted)| figures(row, predicted))
                .map(|(_, was, is)| error(was, is).abs())
                .collect(),
        )
    };
    let max_qps = pairs.iter().filter(|(cell, ..)| cell.load == Load::Max);
    let max_qps_pct = max_qps.map(|(_, row, predicted)| error(row.qps, predicted.qps).abs() * 100.0).reduce(f64::max);
    let order = plan.loads.iter().filter_map(|load| {
        let rows: Vec<_> = pairs.iter().filter(|(cell, ..)| cell.load == *load).collect();
        let tau = |of: fn(&PublishedRow) -> f64, is: fn(&Predicted) -> f64| {
            kendall(&rows.iter().map(|(_, row, predicted)| (of(row), is(predicted))).collect::<Vec<_>>())
        };
        (rows.len() > 1)
            .then(|| (*load, tau(|row| row.p99_us, |is| is.p99_us), tau(|row| row.cpu_pct, |is| is.cpu_pct)))
    });
    let unfitted = cells.iter().filter(|cell| !is_fitted(plan, cell) && cell.load != Load::Max);
    let per_query = unfitted.filter_map(|cell| instructions(plan, cell)).map(|(_, was, is)| error(was, is).abs());
    let per_query = self::errors(per_query.collect());
    let known = known(plan, &pairs);
    Score {
        known,
        instructions: per_query,
        fitted: errors(true),
        checked: errors(false),
        max_qps_pct,
        order: order.collect(),
    }
}

/// Errors of rows that the simulated server keeps up with, as advice has to know them.
fn known(plan: &EventLoopPlan, pairs: &[(&PlanCell, PublishedRow, &Predicted)]) -> KnownError {
    let mut known = KnownError::default();
    let (mut fitted, mut others) = (Vec::new(), Vec::new());
    for (cell, row, predicted) in pairs {
        let Load::Rate(rate) = cell.load else { continue };
        let keeps_up = |qps: f64| qps >= rate as f64 * KEEPS_UP;
        if !keeps_up(predicted.qps) {
            continue;
        }
        let working_pct = predicted.cpu_pct - predicted.cpu_spin_pct;
        // Where only the document's server falls over, its latency is what a choice meets.
        known.add_mode(cell.mode, working_pct, row.p99_us / predicted.p99_us, row.cpu_pct / predicted.cpu_pct);
        if keeps_up(row.qps) {
            let ln = |was: f64, is: f64| (is / was).ln();
            let errors = if is_fitted(plan, cell) { &mut fitted } else { &mut others };
            errors.extend([
                (ln(row.avg_us, predicted.avg_us), 1.0),
                (ln(row.p99_us, predicted.p99_us), 0.5),
                (ln(row.cpu_pct, predicted.cpu_pct), 1.0),
            ]);
        }
    }
    (known.fit_pct, known.held_back_pct) =
        (root_mean_square(&fitted).map(percent), root_mean_square(&others).map(percent));
    known
}

pub(super) fn errors(mut all: Vec<f64>) -> Option<Errors> {
    all.sort_by(f64::total_cmp);
    let at = |part: usize| all.get(all.len() * part / 100).copied();
    Some(Errors { figures: all.len(), median_pct: at(50)? * 100.0, p90_pct: at(90)? * 100.0 })
}

/// Agreement of two orders; pairs that the first has equal count for neither.
fn kendall(pairs: &[(f64, f64)]) -> f64 {
    let (mut agree, mut all) = (0.0, 0.0);
    for (at, a) in pairs.iter().enumerate() {
        for b in &pairs[at + 1..] {
            let (first, second) = (a.0 - b.0, a.1 - b.1);
            if first != 0.0 {
                all += 1.0;
                agree += (first * second).partial_cmp(&0.0).map_or(0.0, |order| f64::from(order as i8));
            }
        }
    }
    if all == 0.0 { 1.0 } else { agree / all }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_agree_or_not() {
        assert_eq!(kendall(&[(1.0, 5.0), (2.0, 6.0), (3.0, 9.0)]), 1.0);
        assert_eq!(kendall(&[(1.0, 9.0), (2.0, 6.0), (3.0, 5.0)]), -1.0);
        assert!((kendall(&[(1.0, 5.0), (2.0, 9.0), (3.0, 6.0)]) - 1.0 / 3.0).abs() < 1e-9);
        assert_eq!(kendall(&[(1.0, 5.0), (1.0, 4.0)]), 1.0, "what was equal says nothing");
    }

    #[test]
    fn the_median_is_not_the_mean() {
        let found = errors(vec![0.5, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.09]).expect("some");
        assert_eq!((found.figures, found.median_pct.round(), found.p90_pct.round()), (10, 6.0, 50.0));
        assert_eq!(errors(Vec::new()), None);
    }
}

//! How near predictions are to what was published.

use napier_lab::loads::Load;
use napier_lab::machines::{ErrorRows, KnownError, percent, root_mean_square};

use super::{Plan, PlanCell, PlanKind, PlanLoad};

/// Part of a load that is answered where a server keeps up.
pub(super) const KEEPS_UP: f64 = 0.985;
/// A prediction this near is near, in percent.
pub(super) const NEAR_PCT: f64 = 5.0;
const INSTRUCTIONS: &str = "instructions_per_query_corrected";

/// Name, published, predicted.
pub(super) type Pair = (&'static str, f64, f64);

/// Published and predicted, for each figure that the document prints.
pub(super) fn pairs(plan: &Plan, cell: &PlanCell) -> Vec<Pair> {
    let row = plan.published.row(&cell.mode.name, &cell.load.to_string()).unwrap_or_default();
    let knows =
        |name: &str| name != INSTRUCTIONS || plan.machine.as_ref().is_some_and(|machine| machine.per_100_cycles.0 > 0);
    let columns = plan.published.columns.iter().zip(row).filter(|(name, _)| knows(name));
    columns.filter_map(|(name, was)| Some((*name, *was, cell.figure(name)?))).collect()
}

/// Those of the table.
pub(super) fn shown_pairs(plan: &Plan, cell: &PlanCell) -> Vec<Pair> {
    pairs(plan, cell).into_iter().filter(|(name, ..)| plan.columns().contains(name)).collect()
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
    /// How many are within 5 %.
    pub near: usize,
}

/// A plan's score.
#[derive(Clone, PartialEq, Debug)]
pub struct Score {
    /// Rows that parameters of the machine were fitted to.
    pub fitted: Option<Errors>,
    /// The others: they are the test.
    pub checked: Option<Errors>,
    /// What is said of a server that waits in an event context, beside.
    pub server: Option<ServerScore>,
}

/// The score of a server at rates and in a closed loop, which is no part of the errors.
#[derive(Clone, PartialEq, Debug)]
pub struct ServerScore {
    /// Instructions per query of the rows below MAX that nothing was fitted to.
    pub instructions: Option<Errors>,
    /// The figure that is furthest off, of rows below MAX that nothing was fitted to.
    pub worst: Option<WorstFigure>,
    /// Largest error of the most that is answered, in percent.
    pub max_qps_pct: Option<f64>,
    /// How far rows below MAX were off where the server keeps up, as the machine's file should have it.
    pub known: KnownError,
    /// Agreement of the order of modes within each load.
    pub order: Vec<ModeOrder>,
}

/// One figure of a table.
#[derive(Clone, PartialEq, Debug)]
pub struct WorstFigure {
    /// Of the row, as `--cells` takes it.
    pub cell: String,
    /// Its name, with the unit at the end.
    pub figure: &'static str,
    /// What was predicted less what was published, in percent of that.
    pub error_pct: f64,
}

/// Whether modes come out in the published order: 1 all pairs, -1 none (Kendall's tau).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ModeOrder {
    /// At this load.
    pub load: PlanLoad,
    /// By p99.
    pub p99: f64,
    /// By CPU as the document's tool counts it, by ticks, which miss short interrupts of timers.
    pub cpu: f64,
    /// By cycles of the CPUs per query.
    pub cycles: f64,
}

/// Scores cells against what was published; those that were not are left out.
#[must_use]
pub fn score(plan: &Plan, cells: &[PlanCell]) -> Score {
    // Those of a server have a table of their own; others are compared as they are.
    let is_server = plan.is_of_server();
    let counts = |cell: &&PlanCell| !(is_server && cell.load.load == Load::Max);
    let errors = |fitted: bool| {
        let of = cells.iter().filter(counts).filter(|cell| plan.is_fitted(cell) == fitted);
        errors(of.flat_map(|cell| shown_pairs(plan, cell)).map(|(_, was, is)| error(was, is).abs()).collect())
    };
    Score { fitted: errors(true), checked: errors(false), server: is_server.then(|| of_server(plan, cells)) }
}

impl Plan {
    /// Whether its table is that of a server which waits in an event context.
    pub(super) fn is_of_server(&self) -> bool {
        self.kind == PlanKind::EventLoop && self.columns() == self.kind.columns()
    }
}

fn of_server(plan: &Plan, cells: &[PlanCell]) -> ServerScore {
    let below_max = |cell: &&&PlanCell| cell.load.load != Load::Max;
    let found = |cell: &PlanCell, name: &str| pairs(plan, cell).into_iter().find(|(known, ..)| *known == name);
    let pairs_of: Vec<&PlanCell> = cells.iter().filter(|cell| !pairs(plan, cell).is_empty()).collect();
    let max = pairs_of.iter().filter(|cell| cell.load.load == Load::Max).filter_map(|cell| found(cell, "qps"));
    let order = plan.loads.iter().filter_map(|load| {
        let rows: Vec<_> = pairs_of.iter().filter(|cell| cell.load == *load).collect();
        let tau = |name| {
            let both = |cell: &&&PlanCell| found(cell, name).map(|(_, was, is)| (was, is));
            kendall(&rows.iter().filter_map(both).collect::<Vec<_>>())
        };
        let cycles = || tau("cycles_per_query_corrected");
        (rows.len() > 1).then(|| ModeOrder { load: *load, p99: tau("p99_us"), cpu: tau("cpu_pct"), cycles: cycles() })
    });
    let unfitted = || pairs_of.iter().filter(below_max).filter(|cell| !plan.is_fitted(cell));
    let of_cell = |cell: &&PlanCell| {
        let name = PlanCell::name(cell.load, &cell.mode);
        let of = move |(figure, was, is)| WorstFigure { cell: name.clone(), figure, error_pct: error(was, is) * 100.0 };
        shown_pairs(plan, cell).into_iter().map(of)
    };
    let per_query = unfitted().filter_map(|cell| found(cell, INSTRUCTIONS)).map(|(_, was, is)| error(was, is).abs());
    ServerScore {
        instructions: errors(per_query.collect()),
        worst: unfitted().flat_map(of_cell).max_by(|one, other| one.error_pct.abs().total_cmp(&other.error_pct.abs())),
        max_qps_pct: max.map(|(_, was, is)| error(was, is).abs() * 100.0).reduce(f64::max),
        known: known(plan, &pairs_of),
        order: order.collect(),
    }
}

/// Errors of rows that the simulated server keeps up with, as advice has to know them.
pub(super) fn known(plan: &Plan, cells: &[&PlanCell]) -> KnownError {
    let mut rows = ErrorRows::default();
    let (mut fitted, mut others) = (Vec::new(), Vec::new());
    for cell in cells {
        let Load::Rps(rate) = cell.load.load else { continue };
        let pairs = pairs(plan, cell);
        let pair = |name| {
            let found = pairs.iter().find(|(known, ..)| *known == name);
            found.map_or((f64::NAN, f64::NAN), |(_, was, is)| (*was, *is))
        };
        let keeps_up = |qps: f64| qps >= rate as f64 * KEEPS_UP;
        let [qps, avg, p99, cpu] = ["qps", "avg_us", "p99_us", "cpu_pct"].map(pair);
        if !keeps_up(qps.1) {
            continue;
        }
        let working_pct = cpu.1 - cell.figure("cpu_spin_pct").unwrap_or(0.0);
        // Where only the document's server falls over, its latency is what a choice meets.
        rows.add_mode((cell.mode.mode, cell.load.load), working_pct, p99.0 / p99.1, cpu.0 / cpu.1);
        if keeps_up(qps.0) {
            let ln = |(was, is): (f64, f64)| (is / was).ln();
            let errors = if plan.is_fitted(cell) { &mut fitted } else { &mut others };
            errors.extend([(ln(avg), 1.0), (ln(p99), 0.5), (ln(cpu), 1.0)]);
        }
    }
    rows.known(root_mean_square(&fitted).map(percent), root_mean_square(&others).map(percent))
}

fn errors(mut all: Vec<f64>) -> Option<Errors> {
    all.sort_by(f64::total_cmp);
    let at = |part: usize| all.get(all.len() * part / 100).copied();
    let near = all.iter().filter(|part| **part * 100.0 <= NEAR_PCT).count();
    Some(Errors { figures: all.len(), median_pct: at(50)? * 100.0, p90_pct: at(90)? * 100.0, near })
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

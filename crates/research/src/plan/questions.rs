//! Questions about a published table, put to the adviser's own rule: whether what it says is so in the table.
//!
//! How far predictions are off is taken from all loads, as the machine's file has it, or for each load from the others alone, so that no
//! answer knows the rows that judge it.

use napier_lab::advise::{Goal, Predicted, Verdict, choose};
use napier_lab::loads::Load;
use napier_lab::machines::KnownError;

use super::score::{KEEPS_UP, known, pairs};
use super::{Plan, PlanCell, PlanLoad};

/// Targets in us.
const P99_US: [f64; 11] = [120.0, 140.0, 160.0, 180.0, 200.0, 250.0, 300.0, 350.0, 450.0, 600.0, 1000.0];
/// Budgets in percent of a CPU per queue, alone and with each third target.
const CPU_PCT: [f64; 4] = [30.0, 50.0, 70.0, 90.0];
/// A core that works for more of the time keeps up with nothing more, in percent.
const WORKING_MAX_PCT: f64 = 99.5;

/// What came of the questions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Questions {
    /// How many were asked.
    pub asked: usize,
    /// A mode was said to do what is wanted, and does.
    pub kept: usize,
    /// No mode was said to do it, and none does.
    pub none: usize,
    /// It was said to be too near to call.
    pub near: usize,
    /// A mode was said to do it, and does not.
    pub broken: usize,
    /// No mode was said to do it, and one does.
    pub missed: usize,
}

/// A row of the document and what was predicted of it.
struct JudgedRow {
    predicted: Predicted,
    p99_us: f64,
    cpu_pct: f64,
    sustained: bool,
}

impl JudgedRow {
    fn of(plan: &Plan, cell: &PlanCell, rate_rps: u64, known: &KnownError) -> Option<Self> {
        let pairs = pairs(plan, cell);
        let pair = |name| pairs.iter().find(|(known, ..)| *known == name).map(|(_, was, is)| (*was, *is));
        let ((qps_was, qps), (p99_was, p99_us), (cpu_was, cpu_pct)) = (pair("qps")?, pair("p99_us")?, pair("cpu_pct")?);
        let working_pct = cpu_pct - cell.figure("cpu_spin_pct")?;
        let keeps_up = |qps: f64| qps >= rate_rps as f64 * KEEPS_UP;
        let predicted = Predicted {
            mode: cell.mode.mode,
            load_rps: rate_rps,
            achieved_rps: qps,
            sustained: keeps_up(qps) && working_pct < WORKING_MAX_PCT,
            p50_us: 0.0,
            p95_us: 0.0,
            p99_us,
            p99_within_pct: None,
            cpu_pct,
            spin_pct: cpu_pct - working_pct,
            interrupts_per_s: 0.0,
            lost_per_s: 0.0,
            server_p99_us: p99_us,
            way_p99_us: 0.0,
            p99_range_us: None,
            cpu_range_pct: None,
            work_pct: Vec::new(),
            by_seed: Vec::new(),
        };
        let predicted = predicted.within(known);
        Some(Self { predicted, p99_us: p99_was, cpu_pct: cpu_was, sustained: keeps_up(qps_was) })
    }

    /// Whether the document's row does what is wanted.
    fn does(&self, goal: &Goal) -> bool {
        self.sustained
            && goal.p99_us.is_none_or(|target| self.p99_us <= target)
            && goal.cpu_pct.is_none_or(|budget| self.cpu_pct <= budget)
    }
}

/// All that is wanted in turn.
fn goals() -> Vec<Goal> {
    let p99 = P99_US.map(|us| Goal { p99_us: Some(us), cpu_pct: None });
    let cpu = CPU_PCT.map(|pct| Goal { p99_us: None, cpu_pct: Some(pct) });
    let both =
        P99_US.into_iter().step_by(3).flat_map(|us| CPU_PCT.map(|pct| Goal { p99_us: Some(us), cpu_pct: Some(pct) }));
    p99.into_iter().chain(cpu).chain(both).collect()
}

/// Puts the questions at each rate of a plan; `None`: nothing was published to judge by. `held_back`: with errors of the other loads alone.
#[must_use]
pub fn questions(plan: &Plan, cells: &[PlanCell], held_back: bool) -> Option<Questions> {
    let mut all = Questions::default();
    for PlanLoad { load, .. } in &plan.loads {
        let Load::Rps(rate_rps) = *load else { continue };
        let has_part = |cell: &PlanCell| !held_back || cell.load.load != *load;
        let knows = |cell: &&PlanCell| has_part(cell) && !pairs(plan, cell).is_empty();
        let others: Vec<&PlanCell> = cells.iter().filter(knows).collect();
        let known = known(plan, &others);
        let here = cells.iter().filter(|cell| cell.load.load == *load);
        let rows: Vec<JudgedRow> = here.filter_map(|cell| JudgedRow::of(plan, cell, rate_rps, &known)).collect();
        if rows.is_empty() {
            continue;
        }
        let predicted: Vec<Predicted> = rows.iter().map(|row| row.predicted.clone()).collect();
        for goal in goals() {
            let choice = choose(&goal, &predicted, &[]);
            let chosen =
                rows.iter().find(|row| row.predicted.mode == choice.mode).expect("a choice is one of the rows");
            let counted = match (choice.verdict, chosen.does(&goal), rows.iter().any(|row| row.does(&goal))) {
                (Verdict::TooNear, ..) => &mut all.near,
                (Verdict::Reaches, true, _) => &mut all.kept,
                (Verdict::Reaches, false, _) => &mut all.broken,
                (Verdict::Misses, _, true) => &mut all.missed,
                (Verdict::Misses, _, false) => &mut all.none,
            };
            *counted += 1;
            all.asked += 1;
        }
    }
    (all.asked > 0).then_some(all)
}

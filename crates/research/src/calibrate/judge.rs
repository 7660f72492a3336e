//! Advice held against what was measured.

use std::fmt::Write as _;

use serde::Serialize;

use super::observed::Observed;
use napier_lab::advise::{BySeed, Goal, Predicted, as_text, choose};
use napier_lab::loads::Load;
use napier_lab::modes::Mode;

/// An advised mode counts as right within so much of the best one's p99.
const NEAR: f64 = 1.1;
/// CPU that is no difference, in points.
const CPU_ALIKE_PCT: f64 = 1.0;

/// Advice for one load of one comparison, and what was measured there.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Judged {
    /// What each request takes beside, as it was given.
    pub service: Option<String>,
    /// Offered, per second.
    pub load_rps: u64,
    /// What was advised.
    #[serde(serialize_with = "as_text")]
    pub advised: Mode,
    /// What is chosen by the same goal from what was measured.
    #[serde(serialize_with = "as_text")]
    pub best: Mode,
    /// Measured, of both.
    pub advised_p99_us: f64,
    /// Likewise.
    pub best_p99_us: f64,
    /// Likewise, in % of one CPU per queue.
    pub advised_cpu_pct: f64,
    /// Likewise.
    pub best_cpu_pct: f64,
    /// The advised mode is the measured best, or within 10 % of its p99 at no more CPU; null: the machine was taken away at this load,
    /// so that nothing measured says which mode is the best.
    pub is_right: Option<bool>,
}

/// Measured rows as if they were predicted, so that one rule chooses from both.
fn as_predicted(row: &Observed, load_rps: u64) -> Predicted {
    let sustained = row.is_sustained();
    let one = BySeed { achieved_rps: row.achieved_rps, sustained, p99_us: row.p99_us, cpu_pct: row.cpu_pct };
    Predicted {
        mode: row.mode,
        load_rps,
        achieved_rps: row.achieved_rps,
        sustained,
        p50_us: row.p50_us,
        p95_us: row.p99_us,
        p99_us: row.p99_us,
        p99_within_pct: None,
        cpu_pct: row.cpu_pct,
        spin_pct: 0.0,
        interrupts_per_s: 0.0,
        lost_per_s: 0.0,
        server_p99_us: row.p99_us,
        way_p99_us: 0.0,
        p99_range_us: None,
        cpu_range_pct: None,
        work_pct: Vec::new(),
        by_seed: vec![one],
    }
}

/// Judges the choice at a load; `None` if what was advised was not measured there.
#[must_use]
pub fn judge(
    goal: &Goal,
    measured: &[Observed],
    load_rps: u64,
    advised: Mode,
    service: Option<String>,
) -> Option<Judged> {
    let rows: Vec<Predicted> =
        measured.iter().filter(|row| row.load == Load::Rps(load_rps)).map(|row| as_predicted(row, load_rps)).collect();
    let tail_counts = measured.iter().filter(|row| row.load == Load::Rps(load_rps)).all(|row| row.tail_counts);
    let took = rows.iter().find(|row| row.mode == advised)?;
    let best = choose(goal, &rows, &[]).mode;
    let best = rows.iter().find(|row| row.mode == best).expect("chosen from these");
    let is_near = took.sustained && took.p99_us <= best.p99_us * NEAR && took.cpu_pct <= best.cpu_pct + CPU_ALIKE_PCT;
    Some(Judged {
        service,
        load_rps,
        advised,
        best: best.mode,
        advised_p99_us: took.p99_us,
        best_p99_us: best.p99_us,
        advised_cpu_pct: took.cpu_pct,
        best_cpu_pct: best.cpu_pct,
        is_right: tail_counts.then_some(best.mode == advised || is_near),
    })
}

/// A table of it, with how often the advice was right.
#[must_use]
pub fn judged_text(all: &[Judged]) -> String {
    let mut page =
        format!("{:>10} {:>9} {:>12} {:>12} {:>17} {:>13}\n", "service", "load", "advised", "best", "99%lat", "cpu");
    for one in all {
        let _ = writeln!(
            page,
            "{:>10} {:>9} {:>12} {:>12} {:>17} {:>13}  {}",
            one.service.as_deref().unwrap_or("none"),
            one.load_rps,
            one.advised,
            one.best,
            format!("{:.1} {:.1}", one.advised_p99_us, one.best_p99_us),
            format!("{:.0} {:.0}", one.advised_cpu_pct, one.best_cpu_pct),
            match one.is_right {
                Some(true) => "right",
                Some(false) => "wrong",
                None => "not decided",
            },
        );
    }
    let right = all.iter().filter(|one| one.is_right == Some(true)).count();
    let decided = all.iter().filter(|one| one.is_right.is_some()).count();
    let _ = writeln!(
        page,
        "99%lat and cpu: measured, of the advised mode and of the best\n{right} of {decided} times the advised mode is the best, or within \
         10 % of its p99 at no more CPU;\n{} of {} not decided: the machine was taken away",
        all.len() - decided,
        all.len()
    );
    page
}

//! What a comparison has found so far.

use std::time::Duration;

use super::tally::Tally;
use crate::applied::Applied;
use crate::loads::Load;
use crate::report::{MachineUse, Row, Sustained};
use crate::subject::Subject;

/// What there is so far.
pub(super) struct Found {
    pub(super) loads: Vec<Load>,
    pub(super) run_length: Duration,
    pub(super) tally: Tally,
    /// Rows that were not measured.
    pub(super) predicted: Vec<Row>,
    /// Loads of which all runs are done.
    pub(super) done: Vec<Load>,
    pub(super) machine: Vec<MachineUse>,
    pub(super) sustained: Vec<Sustained>,
    pub(super) searched_again: Option<String>,
    pub(super) request_cost_us: Option<f64>,
    /// The softirq threads had SCHED_FIFO in all runs.
    pub(super) fifo: bool,
    pub(super) in_force: Applied,
    pub(super) first_run_kib: Option<u64>,
}

impl Found {
    /// Whether something took the machine away at a load.
    pub(super) fn taken_at(&self, load: Load, subjects: &[Subject]) -> bool {
        let rows: Vec<Row> = subjects.iter().map(|subject| self.tally.row(*subject, load)).collect();
        let machine = self.machine.iter().find(|machine| machine.load_rps == load);
        machine.is_some_and(|machine| machine.taken(&rows.iter().collect::<Vec<_>>()).is_some())
    }
}

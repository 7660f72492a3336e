//! A published transmit experiment, computed anew from cache lines and locks (`napier sim transmit`).

mod json;
mod judge;
pub mod published;
mod table;

use std::sync::atomic::AtomicBool;

use crate::contention::costs::{COSTS, Cost, Costs, Origin};
use crate::contention::plan::{Contended, PlanError};
use crate::contention::{Outcome, run as simulate};
use napier_core::tx::qdisc::FqConfig;

pub use crate::contention::plan::Path;
pub use json::{JsonBucket, JsonCheck, JsonParameter, JsonPath, JsonReport, JsonSensitivity, json};
pub use judge::{Check, checks, sentence};
pub use table::table;

use napier_lab::parallel::in_parallel;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Programs that send.
    pub senders: u16,
    /// Transmit queues.
    pub queues: u16,
    /// From which all randomness comes.
    pub seed: u64,
    /// Which ways of transmitting, each once.
    pub paths: Vec<Path>,
    /// Each sender is kept on a CPU.
    pub pinned: bool,
    /// Run again with each parameter that is not from a source smaller and larger.
    pub sensitivity: bool,
    /// Threads.
    pub jobs: usize,
}

/// What came of one way of transmitting.
#[derive(Clone, Debug)]
pub struct PathResult {
    /// Which.
    pub path: Path,
    /// What came of it.
    pub outcome: Outcome,
}

/// What is changed to see what depends on it.
#[derive(Copy, Clone, Debug)]
pub enum Change {
    /// A parameter is its value times this over 100.
    Cost(&'static Cost, u64),
    /// Woken senders stay where they were.
    StayPut,
    /// fq's limit per flow is the kernel's default.
    FlowLimit,
}

impl Change {
    /// Its name, and the new value or factor.
    #[must_use]
    pub fn name(self) -> (&'static str, String) {
        match self {
            Self::Cost(cost, percent) => (cost.name, format!("x {:.1}", percent as f64 / 100.0)),
            Self::StayPut => ("follow_waker", "no".to_owned()),
            Self::FlowLimit => ("flow_limit_pkts", FqConfig::default().flow_limit_pkts.to_string()),
        }
    }

    /// The plan with the change.
    #[must_use]
    pub fn apply(self, plan: &Contended) -> Contended {
        let mut plan = plan.clone();
        match self {
            Self::Cost(cost, percent) => plan.costs = cost.scaled(&plan.costs, percent),
            Self::StayPut => plan.settings.follow_waker = false,
            Self::FlowLimit => plan.settings.flow_limit_pkts = FqConfig::default().flow_limit_pkts,
        }
        plan
    }
}

/// What a change leads to.
#[derive(Clone, Debug)]
pub struct Sensitivity {
    /// The change.
    pub change: Change,
    /// One per path of the experiment.
    pub results: Vec<PathResult>,
}

/// What came of it all.
#[derive(Clone, Debug)]
pub struct TransmitReport {
    /// What was asked for.
    pub experiment: Experiment,
    /// The plan of each path is this one, but for the path.
    pub plan: Contended,
    /// In the order of the experiment.
    pub results: Vec<PathResult>,
    /// Empty unless asked for.
    pub sensitivity: Vec<Sensitivity>,
}

impl TransmitReport {
    /// True if the machine and load are those of the published figures, which are of senders that are free to move.
    #[must_use]
    pub const fn is_published(&self) -> bool {
        let Experiment { senders, queues, pinned, .. } = self.experiment;
        senders == published::SENDERS && queues == published::QUEUES && !pinned
    }

    /// What came of a path, if it was run.
    #[must_use]
    pub fn of(&self, path: Path) -> Option<&Outcome> {
        self.results.iter().find(|result| result.path == path).map(|result| &result.outcome)
    }
}

/// Factors of the sensitivity table, in percent.
pub const FACTORS_PCT: [u64; 4] = [50, 70, 140, 200];

/// Runs the experiment. `stop` ends it early: what is missing then is left out. `progress` is called with runs that are
/// done and runs in all.
///
/// # Errors
/// If it cannot be run.
pub fn run(
    experiment: &Experiment,
    stop: &AtomicBool,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<TransmitReport, PlanError> {
    let mut plan = Contended {
        senders: experiment.senders,
        queues: experiment.queues,
        ..Contended::new(*experiment.paths.first().ok_or(PlanError::Nothing)?, experiment.seed)
    };
    plan.settings.pinned = experiment.pinned;
    plan.check()?;
    let mut plans: Vec<Contended> =
        experiment.paths.iter().map(|path| Contended { path: *path, ..plan.clone() }).collect();
    let changes = if experiment.sensitivity { changes() } else { Vec::new() };
    for change in &changes {
        // One placement is enough to see a direction.
        let varied = Contended { placements: 1, ..change.apply(&plan) };
        plans.extend(experiment.paths.iter().map(|path| Contended { path: *path, ..varied.clone() }));
    }
    let outcomes = in_parallel(&plans, experiment.jobs, stop, progress, simulate);
    let outcomes: Vec<Option<Outcome>> = outcomes.into_iter().map(Option::transpose).collect::<Result<_, _>>()?;
    let mut outcomes = outcomes.into_iter();
    let mut results = || -> Vec<PathResult> {
        let next =
            experiment.paths.iter().map_while(|path| Some(PathResult { path: *path, outcome: outcomes.next()?? }));
        next.collect()
    };
    Ok(TransmitReport {
        results: results(),
        sensitivity: changes.into_iter().map(|change| Sensitivity { change, results: results() }).collect(),
        experiment: experiment.clone(),
        plan,
    })
}

/// Every chosen parameter with every factor, every computed one with the smallest and the largest, and the settings that
/// are not the kernel's or not published.
fn changes() -> Vec<Change> {
    let costs = COSTS.iter().flat_map(|cost| {
        let factors: &[u64] = match cost.origin {
            Origin::Source => &[],
            Origin::Computed => &[FACTORS_PCT[0], FACTORS_PCT[3]],
            Origin::Chosen => &FACTORS_PCT,
        };
        factors.iter().map(move |percent| (cost, *percent))
    });
    // Half of one line is one line.
    let unchanged = Costs::default();
    let costs = costs.filter(|(cost, percent)| cost.scaled(&unchanged, *percent) != unchanged);
    let costs = costs.map(|(cost, percent)| Change::Cost(cost, percent));
    costs.chain([Change::StayPut, Change::FlowLimit]).collect()
}

/// Its name up to version 0.2.
#[deprecated(since = "0.3.0", note = "it is `TransmitReport`")]
pub type Report = TransmitReport;

#[cfg(test)]
mod tests;

//! Conformance: scenario files are carried out by an executor, and what was seen is compared with what must be seen.
//!
//! | file | holds |
//! |---|---|
//! | `files` | which files |
//! | `sim` | the executor in virtual time |
//! | `engine` | the executor in real time, on the engine |
//! | `kernel` | the executor on a live kernel |
//! | `real` | what these two have in common |
//! | `report` | lines for people, one JSON object for programs |
//! | `rules` | which rule has which scenario |

mod engine;
mod files;
mod kernel;
mod real;
mod report;
mod rules;
mod sim;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use napier_scenario::compare::{Clock, Difference, Judgement, judge};
use napier_scenario::{NotLookedAt, Scenario, Seen};

pub use files::{FilesError, find};
pub use report::{JsonConformance, JsonHidden, JsonResult, JsonTotals, Totals, json, line};
pub use rules::{CoverageError, coverage};

/// The executors of this build, by name.
pub const EXECUTORS: &[&str] = &["sim", "engine", "kernel"];

/// Largest scenario file.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Carries scenarios out: in virtual time, with the engine, on a live kernel.
pub trait Executor {
    /// Its name on the command line.
    fn name(&self) -> &'static str;

    /// Whose time its runs are in. In real time a scenario whose `[engine]` says `run = false` is not given to it, and on a
    /// live kernel only one whose `[kernel]` says `run = true`.
    fn clock(&self) -> Clock;

    /// Takes up the `nth` pace, from 0 on, at which a scenario is tried until a run says something: `clock` and `stretch` are that pace's
    /// then. `false` if there is no further one.
    fn take_pace(&mut self, _: &Scenario, nth: usize) -> bool {
        nth == 0
    }

    /// By how much all times of a scenario are multiplied before it is given to it.
    fn stretch(&self) -> u32 {
        1
    }

    /// Carries out a scenario.
    ///
    /// # Errors
    /// If the scenario can not be carried out here.
    fn run(&mut self, scenario: &Scenario) -> Result<Observed, Refused>;
}

/// What came of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Observed {
    /// What was seen, in order of time; at least the kinds that the scenario watches.
    pub events: Vec<Seen>,
    /// Counters at the end.
    pub counters: Vec<(String, i64)>,
    /// An invariant that did not hold.
    pub broken: Option<String>,
    /// What kept the run from being exact, to be said if it failed.
    pub disturbed: Option<String>,
}

/// A scenario is not for this executor, or not for this machine.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not runnable here: {why}")]
pub struct Refused {
    /// Why.
    pub why: String,
    /// The machine did not keep up with the timeline: more slowly it may.
    pub is_late: bool,
}

/// There is no executor of this name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("unknown executor {name:?}; this build has {}", EXECUTORS.join(", "))]
pub struct UnknownExecutor {
    /// The name.
    pub name: String,
}

/// The executor of this name.
///
/// # Errors
/// If there is none.
pub fn executor(name: &str) -> Result<Box<dyn Executor>, UnknownExecutor> {
    match name {
        "sim" => Ok(Box::new(sim::Sim)),
        "engine" => Ok(Box::new(engine::RealEngine::default())),
        "kernel" => Ok(Box::new(kernel::LiveKernel::new())),
        _ => Err(UnknownExecutor { name: name.to_owned() }),
    }
}

/// The executor on a live kernel that compares the order and the counts, and no times, with all times of the files multiplied by
/// `stretch` (at least 1), or by what it finds that this machine needs.
#[must_use]
pub fn kernel_without_times(stretch: Option<u32>) -> Box<dyn Executor> {
    Box::new(kernel::LiveKernel::without_times(stretch))
}

/// What came of one file.
#[derive(Clone, PartialEq, Debug)]
pub struct FileResult {
    /// The file.
    pub file: PathBuf,
    /// The executor.
    pub executor: &'static str,
    /// What came of it.
    pub outcome: FileOutcome,
    /// What it expects and the executor did not look at, if it was run on a live kernel: neither passed nor failed.
    pub not_looked_at: NotLookedAt,
    /// At which pace, if it was run on a live kernel.
    pub carried_out: Option<CarriedOut>,
}

/// The pace of a run on a live kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CarriedOut {
    /// By how much all times of the file were multiplied.
    pub stretch: u32,
    /// Whether times were compared; else order and counts alone.
    pub times: bool,
}

/// Whether a file passed.
#[derive(Clone, PartialEq, Debug)]
pub enum FileOutcome {
    /// Everything was as expected.
    Pass,
    /// Something was not, or the file cannot be read.
    Fail {
        /// In one sentence.
        reason: String,
        /// Both sides, if they differ.
        difference: Option<Difference>,
    },
    /// It was not run.
    Refused(Refused),
}

/// Runs one file.
pub fn run_file(file: &Path, executor: &mut dyn Executor) -> FileResult {
    let (outcome, not_looked_at, carried_out) = match read(file) {
        Ok(scenario) => {
            let outcome = run(&scenario, executor);
            let carried_out = match (&outcome, executor.clock()) {
                (FileOutcome::Pass | FileOutcome::Fail { .. }, Clock::Kernel { times }) => {
                    Some(CarriedOut { stretch: executor.stretch(), times })
                }
                _ => None,
            };
            let partly = carried_out.is_some();
            let hidden = if partly { scenario.not_looked_at_on_kernels() } else { NotLookedAt::default() };
            (outcome, hidden, carried_out)
        }
        Err(reason) => (FileOutcome::Fail { reason, difference: None }, NotLookedAt::default(), None),
    };
    FileResult { file: file.to_owned(), executor: executor.name(), outcome, not_looked_at, carried_out }
}

/// Reads one file; the error names it.
fn read(file: &Path) -> Result<Scenario, String> {
    let text = napier_linux::given::read_text(file, FILE_BYTES_MAX);
    let text = text.map_err(|error| format!("{}: {error}", file.display()))?;
    Scenario::parse(&text, &file.display().to_string()).map_err(|error| error.to_string())
}

fn run(scenario: &Scenario, executor: &mut dyn Executor) -> FileOutcome {
    let clock = executor.clock();
    let not_runnable = match clock {
        Clock::Virtual => &None,
        Clock::Real => &scenario.engine.not_runnable,
        Clock::Kernel { .. } => &scenario.kernel.not_runnable,
    };
    if let Some(why) = not_runnable {
        return FileOutcome::Refused(Refused { why: why.clone(), is_late: false });
    }
    let mut last = None;
    for nth in 0.. {
        if !executor.take_pace(scenario, nth) {
            break;
        }
        let outcome = run_once(scenario, executor);
        // What is wrong with a kernel is wrong at each pace; a machine that takes its processors away is not.
        let says_something = match &outcome {
            FileOutcome::Pass => true,
            FileOutcome::Fail { .. } => !matches!(executor.clock(), Clock::Kernel { times: false }),
            FileOutcome::Refused(refused) => !refused.is_late,
        };
        if says_something {
            return outcome;
        }
        // That a run differed says more than that a slower one was late.
        let differed = matches!(last, Some(FileOutcome::Fail { .. }));
        if !differed || matches!(outcome, FileOutcome::Fail { .. }) {
            last = Some(outcome);
        }
    }
    last.expect("an executor has at least one pace")
}

/// At the pace that the executor has taken up.
fn run_once(scenario: &Scenario, executor: &mut dyn Executor) -> FileOutcome {
    let clock = executor.clock();
    let long = (executor.stretch() > 1).then(|| scenario.stretched(executor.stretch()));
    let scenario = long.as_ref().unwrap_or(scenario);
    // An executor that asserts has found a mistake of ours; the files after this one are still worth a run.
    let observed = match catch_unwind(AssertUnwindSafe(|| executor.run(scenario))) {
        Ok(Ok(observed)) => observed,
        Ok(Err(refused)) => return FileOutcome::Refused(refused),
        Err(panic) => {
            let reason = format!("the executor {} panicked: {}", executor.name(), panic_message(&*panic));
            return FileOutcome::Fail { reason, difference: None };
        }
    };
    let verdict = judge(scenario, clock, &observed.events, &observed.counters);
    let difference = match verdict {
        Judgement::Pass => None,
        Judgement::Fail(difference) => Some(difference),
    };
    let reason = match (observed.broken, &difference) {
        (Some(broken), _) => format!("an invariant does not hold: {broken}"),
        (None, Some(difference)) => difference.reason.clone(),
        (None, None) => return FileOutcome::Pass,
    };
    let reason = match observed.disturbed {
        Some(disturbed) => format!("{reason}; {disturbed}"),
        None => reason,
    };
    FileOutcome::Fail { reason, difference }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

#[cfg(test)]
mod tests;

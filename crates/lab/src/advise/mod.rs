//! Which mode to take: every mode and a sweep of their time-outs in virtual time, and what follows from it.
//!
//! ```text
//! Workload + machine --predict--> Predicted per mode and seed --choose--> Choice
//!                                      costs times 1/4 to 4 --sensitivity--> Flip: from where on another mode
//! ```
//!
//! Nothing here reads a clock; the same arguments give the same advice, byte for byte, for any number of threads.

mod bounds;
mod chance;
mod choose;
pub mod gaps;
mod json;
pub mod log;
pub mod pcap;
mod predict;
mod queues;
mod sensitivity;
mod text;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use napier_kv::service::Service;

use crate::machines::{KnownError, MachineFile};
use crate::modes::Mode;

pub use chance::p99_within_pct;
pub use choose::{Choice, Goal, Verdict, choose, frontier};
pub use json::{as_text, json};
pub use napier_sim::machine::RecordedArrivals;
pub use predict::{BySeed, MODES, Predicted, swept, why_not};
pub use queues::{Extent, Ran, ServerRun, percentile_us, simulate};
pub use sensitivity::{Effect, Flip, look_for_flips};
pub use text::{answer, commands, flips, text};

pub(crate) use text::{certainty, whose};

pub(crate) use predict::REQUESTS;

/// What is asked of a server.
#[derive(Clone, PartialEq, Debug)]
pub struct Workload {
    /// Requests per second, over all queues.
    pub rate_rps: u64,
    /// The highest rate that must be sustained too, over all queues.
    pub peak_rps: Option<u64>,
    /// Queues, each with a CPU and a thread of the server.
    pub queues: u16,
    /// Connections over all queues.
    pub connections: u16,
    /// CPUs for the server: a thread that polls for ever takes one per queue beside the server's.
    pub cpus: u16,
    /// What each request takes the program beside what the machine says.
    pub service: Option<Service>,
    /// Requests as they came somewhere, which are made to come at the rates instead of by chance.
    pub recorded: Option<Arc<RecordedArrivals>>,
}

/// How much is run.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Effort {
    /// Runs of each mode that may be chosen; a mode that may not, whatever chance does, has one.
    pub seeds: u16,
    /// Threads.
    pub jobs: usize,
    /// Look for what would change the choice.
    pub sensitivity: bool,
}

/// What came out.
#[derive(Clone, PartialEq, Debug)]
pub struct Advice {
    /// The machine's title.
    pub machine: String,
    /// Figures of the machine, and how many of them were fitted.
    pub parameters: (usize, usize),
    /// How far predictions on it were off.
    pub known: KnownError,
    /// What was asked.
    pub workload: Workload,
    /// What was wanted.
    pub goal: Goal,
    /// Every mode at the rate, in the order of the sweep.
    pub rows: Vec<Predicted>,
    /// Every mode at the peak; empty without one.
    pub at_peak: Vec<Predicted>,
    /// The choice.
    pub choice: Choice,
    /// Of the seeds, each by itself, how many give the same choice.
    pub agreeing: (u16, u16),
    /// Modes of the sweep that were not run, for it was told to stop.
    pub left_out: usize,
    /// What the choice is most sensitive to; empty if it was not looked for.
    pub effects: Vec<Effect>,
}

/// Why there is no advice.
#[derive(Debug, thiserror::Error)]
pub enum AdviseError {
    /// A rule of the machine did not hold.
    #[error("{mode}: a rule did not hold in the simulation: {why}")]
    Broken {
        /// Of the run.
        mode: Mode,
        /// What the machine says.
        why: String,
    },
    /// It was told to stop.
    #[error("interrupted")]
    Interrupted,
}

/// Runs every mode, chooses, and says what would change the choice. If it is told to stop it chooses among the modes that are done.
///
/// # Errors
/// [`AdviseError`].
pub fn advise(
    machine: &MachineFile,
    workload: &Workload,
    goal: &Goal,
    modes: &[Mode],
    effort: Effort,
    stop: &AtomicBool,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Advice, AdviseError> {
    let (mut rows, at_peak) = predict::at_rate_and_peak(machine, (workload, goal), modes, effort, stop, progress)?;
    if workload.peak_rps.is_some() {
        rows.truncate(at_peak.len());
    }
    let left_out = modes.len() - rows.len();
    // Fewer than were asked for if it was told to stop.
    let seeds = rows.iter().map(|row| row.by_seed.len() as u16).max().unwrap_or(1);
    let (choice, agreeing) = choose::choose_by_most(goal, &rows, &at_peak, seeds);
    let fitted = machine.parameters.iter().filter(|figure| figure.origin == crate::machines::Origin::Fitted).count();
    let mut advice = Advice {
        machine: machine.title.clone(),
        parameters: (machine.parameters.len(), fitted),
        known: machine.known.clone(),
        workload: workload.clone(),
        goal: *goal,
        rows,
        at_peak,
        choice,
        agreeing: (agreeing, seeds),
        left_out,
        effects: Vec::new(),
    };
    if effort.sensitivity && left_out == 0 {
        advice.effects = look_for_flips(machine, &advice, effort, stop, progress)?;
    }
    Ok(advice)
}

#[cfg(test)]
mod tests;

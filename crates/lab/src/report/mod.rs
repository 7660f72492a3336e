//! What the reader gets: the table, the JSON object and the raw histograms. All are made from one [`Report`].

pub(crate) mod answer;
mod beside;
pub mod columns;
pub mod decided;
pub mod differ;
pub mod explain;
pub mod export;
pub mod hdrlog;
pub mod json;
mod machine;
pub(crate) mod most;
pub mod power;
pub mod progress;
pub mod read;
mod slices;
mod sustained;
pub mod table;
pub(crate) mod take;
pub mod transmit;
pub(crate) mod verdict;

pub use decided::{Decided, DecidedMode, DecidedPair, Estimated, LeftOut, PairVerdict};
pub use machine::MachineUse;
pub use power::{PowerHistogram, range};
pub use slices::SavedSlices;
pub use transmit::{CpuTimes, CpuUse, LockWaits};

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use decided::readable;
use json::JsonRow;
use read::of_known_modes;

use crate::loads::{Load, SustainSearch};
use crate::stats::Measured;
use crate::subject::{Backend, Subject};

/// Everything a comparison found.
/// It is written to the JSON, and read back, under the names of its fields.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// Where it ran.
    pub host: Host,
    /// Commit of the binary.
    pub commit: String,
    /// What ran.
    pub workload: Workload,
    /// One per mode and load; loads in the order in which they are to be shown, and within a load the modes.
    #[serde(deserialize_with = "of_known_modes")]
    pub rows: Vec<Row>,
    /// Runs that could not be carried out, each with why.
    #[serde(default)]
    pub failures: Vec<String>,
    /// Why it ended before all was run; `None` if nothing is missing for that.
    #[serde(default)]
    pub ended: Option<String>,
    /// What this process took; `None` where it is not known.
    #[serde(default)]
    pub memory: Option<Memory>,
    /// What else the machine did, by load; of loads that have begun.
    #[serde(default)]
    pub machine: Vec<MachineUse>,
    /// The most that each mode sustains; empty if it was not searched for.
    #[serde(default, deserialize_with = "of_known_modes")]
    pub sustained: Vec<Sustained>,
    /// Why the loads of the first search were given up and searched again; the rows are of the second.
    #[serde(default)]
    pub searched_again: Option<String>,
    /// Why the loads are not the shares of what base sustains that they were to be, as far as is known now; `None` if they are.
    #[serde(default)]
    pub loads_wrong: Option<String>,
    /// What rows of `sim` were predicted on; `None` without such rows.
    #[serde(default)]
    pub prediction: Option<Prediction>,
    /// Who had the CPUs before anything was measured; `None` if they were free.
    #[serde(default)]
    pub at_start: Option<String>,
    /// What was decided, by load; empty of an older version, which had no rounds, and of what is predicted.
    #[serde(default, deserialize_with = "readable")]
    pub decided: Vec<Decided>,
    /// Minutes that it took; `None` if it was not said.
    #[serde(default)]
    pub took_minutes: Option<f64>,
    /// The slices behind the rows that were measured; empty of an older version, and while it is measured.
    #[serde(default, skip_serializing, deserialize_with = "readable")]
    pub slices: Vec<SavedSlices>,
}

/// What was simulated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prediction {
    /// The machine, by the name or file that was given.
    pub machine: String,
    /// What its file calls it.
    pub title: String,
    /// Figures of the machine.
    pub machine_figures: usize,
    /// How many of them were fitted.
    pub machine_figures_fitted: usize,
    /// Runs of each row, in virtual time.
    pub runs: u32,
}

/// The most that a mode sustains in open loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sustained {
    /// How packets were delivered, and by whom.
    #[serde(flatten)]
    pub subject: Subject,
    /// The load with which the search began, in requests per second; 0 of one that was read.
    #[serde(skip)]
    pub start_rps: u64,
    /// The rate up to which it keeps up, in requests per second; 0: it keeps up with none.
    #[serde(rename = "sustained_rps")]
    pub rps: u64,
    /// Lower end of the interval of that; `None` of an older version, and where there were too few slices.
    #[serde(default)]
    pub low_rps: Option<u64>,
    /// Upper end of it, likewise.
    #[serde(default)]
    pub high_rps: Option<u64>,
    /// Highest rate at which it was seen to keep up.
    #[serde(default)]
    pub kept_up_at_most: Option<u64>,
    /// Lowest rate above that at which it was seen to fall behind.
    #[serde(default)]
    pub fell_behind_at_least: Option<u64>,
    /// Smallest load that was not; `None` if all were.
    pub failed_rps: Option<u64>,
    /// Why it was not, where a search by runs said so; what slices say is said by where they fell behind.
    pub why: Option<String>,
    /// 99th percentile in µs, in the run that sustained the most; `None` if none did.
    pub p99_us: Option<f64>,
    /// CPU time in percent there.
    pub cpu_pct: Option<f64>,
    /// What took the machine away while it was searched, so that it says little; `None` if nothing did.
    #[serde(default)]
    pub taken: Option<String>,
}

impl Sustained {
    /// The interval of the rate.
    pub(crate) fn interval_rps(&self) -> Option<(u64, u64)> {
        self.low_rps.zip(self.high_rps)
    }
}

/// Memory of the process that compares, resident, in KiB. It should not grow with the number of runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// After the first run.
    pub after_first_run_kib: u64,
    /// After the last run.
    pub at_end_kib: u64,
    /// The most at any time.
    pub peak_kib: u64,
}

/// Where a comparison ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Name of the CPU, as `/proc/cpuinfo` has it.
    pub cpu_model: String,
    /// CPUs this process may use.
    pub cpus: usize,
    /// Release of the kernel.
    pub kernel: String,
    /// What else matters to the figures: who ran where.
    pub notes: BTreeMap<String, String>,
    /// What was granted and set for all modes alike: scheduling class, moderation of interrupts.
    #[serde(default)]
    pub in_force: BTreeMap<String, String>,
}

/// What was run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// `kv`.
    pub name: String,
    /// Where the modes were applied: `engine`, `kernel`, or `engine and kernel`.
    pub backend: String,
    /// What connects client and server: `link`, `xdp` or `memif`.
    pub device: String,
    /// What carries the requests: `udp` or `tcp`.
    pub proto: String,
    /// How they are written: `ascii` or `resp`.
    #[serde(default)]
    pub format: String,
    /// The command line of the program that serves; `None`: our own server.
    #[serde(default)]
    pub program: Option<String>,
    /// From which all randomness came.
    pub seed: u64,
    /// Client flows.
    pub flows: u32,
    /// Queues of the server's device, and workers of the server.
    pub queues: u32,
    /// CPUs over which the server's CPU percentages are taken.
    pub server_cpus: u32,
    /// Records in the table.
    pub records: u32,
    /// Share of sets, in percent.
    pub set_pct: f64,
    /// Sizes of keys: `fb_key` or `fixed:N`.
    pub key_sizes: String,
    /// Sizes of values: `fb_value` or `fixed:N`.
    pub value_sizes: String,
    /// Which records are asked for: `uniform` or `zipf:S`.
    pub popularity: String,
    /// Time that each request takes the server beside, as it was given: `6us`, `exp:6us`, `hist:FILE`.
    #[serde(default)]
    pub service: Option<String>,
    /// Length of each run, warm-up not counted; `None` if nothing was measured.
    pub seconds: Option<f64>,
    /// CPU time that a request costs the server here, in µs: time per reply of `fullbusy` in closed loop; null where
    /// that cannot run.
    #[serde(default)]
    pub request_cost_us: Option<f64>,
}

impl Workload {
    /// What connects client and server, in words: only where the engine is under test both ends are AF_XDP's.
    pub(crate) fn way(&self) -> String {
        if self.device == "xdp" && !self.backend.contains("engine") {
            return "a veth pair (the client by AF_XDP)".to_owned();
        }
        self.device.clone()
    }
}

/// One subject at one load.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "JsonRow", into = "JsonRow")]
pub struct Row {
    /// How packets were delivered, and by whom.
    pub subject: Subject,
    /// What was offered.
    pub load: Load,
    /// What came of it.
    pub outcome: Outcome,
    /// Runs that are not behind the figures; `None` if all are.
    pub lost: Option<Lost>,
    /// Slices in which the machine was taken away; they are not behind the figures either.
    pub left_out: u32,
}

/// The runs of a row that gave no figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// How many.
    pub runs: u32,
    /// Of so many.
    pub of: u32,
    /// How many of them were not begun.
    pub not_run: u32,
    /// Why, in words.
    pub why: String,
}

/// What came of a row.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// It ran.
    Measured(Box<Measured>),
    /// It was run in virtual time: nothing of it was measured.
    Predicted {
        /// What comes out.
        figures: Box<Measured>,
        /// The load is answered, but for what chance takes from so many requests.
        sustained: bool,
    },
    /// It could not be applied here; the reason says why. Never a figure from something else.
    Refused(String),
    /// It was applied, or would have been, but no run gave figures: [`Row::lost`] says why.
    Nothing,
}

impl Row {
    /// What was measured; `None` if nothing was, as of a row that was refused or predicted.
    pub fn measured(&self) -> Option<&Measured> {
        match &self.outcome {
            Outcome::Measured(measured) => Some(measured),
            Outcome::Predicted { .. } | Outcome::Refused(_) | Outcome::Nothing => None,
        }
    }

    /// What there is to show, measured or predicted.
    pub fn figures(&self) -> Option<&Measured> {
        match &self.outcome {
            Outcome::Measured(figures) | Outcome::Predicted { figures, .. } => Some(figures),
            Outcome::Refused(_) | Outcome::Nothing => None,
        }
    }

    /// Whether nothing of it was begun when the comparison ended.
    pub(crate) fn was_not_run(&self) -> bool {
        self.lost.as_ref().is_some_and(|lost| lost.not_run == lost.of)
    }

    /// Whether at least 99 % of the requests that were due were answered in time. A closed loop asks for what is answered.
    pub(crate) fn sustains(&self) -> bool {
        if let Outcome::Predicted { sustained, .. } = self.outcome {
            return sustained;
        }
        match (self.load, self.measured()) {
            (Load::Rps(rps), Some(measured)) => {
                let by_rate = || 100.0 * measured.median.achieved_rps / rps as f64;
                SustainSearch::is_enough(measured.median.in_time_pct.unwrap_or_else(by_rate))
            }
            (Load::Max, Some(_)) => true,
            (_, None) => false,
        }
    }
}

impl Report {
    /// Whether rows have to say where their mode was applied. Predicted ones always do.
    pub(crate) fn among_backends(&self) -> bool {
        let other =
            |row: &Row| row.subject.backend == Backend::Sim || row.subject.backend != self.rows[0].subject.backend;
        self.rows.iter().any(other)
    }

    /// What else the machine did at a load.
    pub(crate) fn machine_at(&self, load: Load) -> Option<&MachineUse> {
        self.machine.iter().find(|machine| machine.load_rps == load)
    }

    /// What was decided at a load.
    pub(crate) fn decided_at(&self, load: Load) -> Option<&Decided> {
        self.decided.iter().find(|decided| decided.load_rps == load)
    }

    /// The slices behind a row.
    pub(crate) fn slices_of(&self, subject: Subject, load: Load) -> Option<&SavedSlices> {
        self.slices.iter().find(|slices| slices.mode == subject && slices.load_rps == load && slices.len() > 0)
    }

    /// What took the machine away at a load, so that nothing is decided by what was measured there; `None` if nothing did. Where there were
    /// rounds they have left out what was taken away, and say whether too little remained.
    pub(crate) fn taken_at(&self, load: Load) -> Option<String> {
        if let Some(decided) = self.decided_at(load) {
            let LeftOut { slices, of, .. } = &decided.left_out;
            return decided.taken.then(|| format!("{slices} of {of} slices were left out"));
        }
        let rows: Vec<&Row> = self.rows.iter().filter(|row| row.load == load).collect();
        self.machine_at(load)?.taken(&rows)
    }

    /// Loads in the order of the rows, each with its rows.
    pub(crate) fn by_load(&self) -> Vec<(Load, Vec<&Row>)> {
        let mut loads: Vec<(Load, Vec<&Row>)> = Vec::new();
        for row in &self.rows {
            match loads.iter_mut().find(|(load, _)| *load == row.load) {
                Some((_, rows)) => rows.push(row),
                None => loads.push((row.load, vec![row])),
            }
        }
        loads
    }
}

/// An error with its causes, each said once: some messages hold their cause's words already.
#[must_use]
pub fn one_line(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |said, cause| {
        let cause = cause.to_string();
        match said {
            said if said.is_empty() => cause,
            said if said.contains(&cause) => said,
            said => format!("{said}: {cause}"),
        }
    })
}

#[cfg(test)]
pub(crate) mod samples;

//! Fits the figures of a machine to what a comparison measured on it, and says how near the loads come that had no part in that.
//!
//! ```text
//! compare --json --observed--> rows --some loads--> fit: one figure after the other, up or down, as long as it gets nearer
//!                                   --the others--> predicted by the fitted machine, and judged
//! bench wakeup --wakeups--> idle-exit and wake, which are not fitted then
//! ```

mod fit;
mod judge;
mod observed;
mod text;
mod wakeups;

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

use napier_core::time::Span;
use napier_sim::machine::Work;

use napier_lab::advise::Workload;
use napier_lab::loads::Load;
use napier_lab::machines::{MachineFile, error_table};

pub use fit::{Interrupted, Seen};
pub use judge::{Judged, judge, judged_text};
pub use observed::{Comparison, Observed, ObservedError, parse, read};
pub use text::text;
pub use wakeups::{Wakeups, WakeupsError};

use wakeups::Settled;

/// A figure that is fitted.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Figure {
    Cost(Work),
    ToServer,
    ToClientNoise,
}

/// What is fitted, in this order, with the bounds of what is believed, in ns, and the modes that determine it most.
const FITTED: &[(Figure, u64, u64)] = &[
    (Figure::Cost(Work::Answer), 20, 100_000),
    (Figure::Cost(Work::PollEmpty), 20, 10_000),
    (Figure::ToServer, 50, 200_000),
    (Figure::Cost(Work::HardIrq), 50, 100_000),
    (Figure::Cost(Work::IdleExit), 50, 200_000),
    (Figure::Cost(Work::EpollReturn), 20, 50_000),
    (Figure::Cost(Work::TimerIrq), 50, 100_000),
    (Figure::Cost(Work::Switch), 20, 8_000),
    (Figure::Cost(Work::PacketUp), 20, 50_000),
    (Figure::ToClientNoise, 50, 100_000),
];

impl Figure {
    pub(crate) fn name(self) -> String {
        match self {
            Self::Cost(work) => format!("cost.{}", work.name()),
            Self::ToServer => "client.to-server".to_owned(),
            Self::ToClientNoise => "client.to-client-noise".to_owned(),
        }
    }

    fn get(self, machine: &MachineFile) -> u64 {
        match self {
            Self::Cost(work) => machine.costs.get(work).ns,
            Self::ToServer => machine.client.to_server_ns,
            Self::ToClientNoise => machine.client.to_client_noise_ns,
        }
    }

    fn set(self, machine: &mut MachineFile, ns: u64) {
        match self {
            Self::Cost(work) => machine.costs.set(work, Span::from_ns(ns)),
            Self::ToServer => machine.client.to_server_ns = ns,
            Self::ToClientNoise => machine.client.to_client_noise_ns = ns,
        }
    }
}

/// How well a figure is determined.
#[derive(Clone, PartialEq, Debug)]
pub struct Determined {
    /// `table.key`, as machine files have it.
    pub name: String,
    /// Its value, in ns.
    pub value_ns: u64,
    /// Error of all fitted rows, in percent, with half of it and with twice as much.
    pub error_if_half_pct: f64,
    /// Likewise.
    pub error_if_double_pct: f64,
}

impl Determined {
    /// With half of it and with twice as much the rows come as near as `error_pct`, so that its value says nothing of the machine.
    fn is_hardly(&self, error_pct: f64) -> bool {
        let near = error_pct + 1.0;
        self.error_if_half_pct < near && self.error_if_double_pct < near
    }
}

/// A figure that was measured by itself, and not fitted.
#[derive(Clone, PartialEq, Debug)]
pub struct Settlement {
    /// `table.key`, as machine files have it.
    pub name: String,
    /// Its value, in ns.
    pub value_ns: u64,
    /// What it was measured by, and how it follows from that.
    pub why: String,
}

/// A machine that was fitted.
#[derive(Clone, PartialEq, Debug)]
pub struct Calibrated {
    /// The machine; its text is a machine file.
    pub machine: MachineFile,
    /// What it was fitted to.
    pub comparison: Comparison,
    /// Each fitted figure.
    pub determined: Vec<Determined>,
    /// Each figure that something else has measured.
    pub settled: Vec<Settlement>,
    /// Error of the rows that it was fitted to, in percent.
    pub error_pct: f64,
    /// Those rows.
    pub fitted: Vec<Seen>,
    /// Rows of other loads, which had no part in it.
    pub held_back: Vec<Seen>,
}

/// How much is run for a fit.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Depth {
    /// Requests of a run of a rate: enough for a 99th percentile that does not jump.
    pub requests: u64,
    /// Rounds over all figures at most.
    pub rounds: usize,
}

impl Default for Depth {
    fn default() -> Self {
        Self { requests: 3_000, rounds: 10 }
    }
}

/// The rates of rows, in requests per second, each once, from the lowest.
#[must_use]
pub fn rates_rps(rows: &[Observed]) -> Vec<u64> {
    let rate = |row: &Observed| if let Load::Rps(rps) = row.load { Some(rps) } else { None };
    rows.iter().filter_map(rate).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Loads that are held back if none are named: every second, from the second on, and never the closed loop.
#[must_use]
pub fn default_held_back(rows: &[Observed]) -> Vec<Load> {
    rates_rps(rows).into_iter().skip(1).step_by(2).map(Load::Rps).collect()
}

/// Fits a machine, beginning with `start`. Loads in `held_back` have no part in it.
///
/// # Errors
/// [`Interrupted`], if `stop` was set.
pub fn calibrate(
    start: &MachineFile,
    comparison: Comparison,
    held_back: &[Load],
    depth: Depth,
    jobs: usize,
    stop: &AtomicBool,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Calibrated, Interrupted> {
    let is_held = |row: &&Observed| held_back.contains(&row.load);
    let fit: Vec<Observed> = comparison.rows.iter().filter(|row| !is_held(row)).cloned().collect();
    let held: Vec<Observed> = comparison.rows.iter().filter(is_held).cloned().collect();
    let workload: &Workload = &comparison.workload;
    let settled = comparison.wakeups.clone().map(|wakeups| Settled::new(wakeups, start));
    let fitter = fit::Fitter { workload, rows: &fit, settled, depth, jobs, stop };
    let (mut machine, error_pct, determined) = fitter.fit(start, progress)?;
    let settled = settlements(fitter.settled.as_ref(), &machine);
    machine.title = format!("fitted to a comparison on {}", comparison.host);
    let hardly: Vec<String> =
        determined.iter().filter(|one| one.is_hardly(error_pct)).map(|one| one.name.clone()).collect();
    machine.text = text::machine_file(&machine, start, &fit, &settled, &hardly);
    let fitted = fitter.look(&machine, &fit)?;
    let held_back = fitter.look(&machine, &held)?;
    machine.text += &error_table(&fit::known(&fitted, &held_back));
    let machine = MachineFile::parse(&machine.text, "the fitted machine").expect("what is written can be read");
    Ok(Calibrated { machine, comparison, determined, settled, error_pct, fitted, held_back })
}

fn settlements(settled: Option<&Settled>, machine: &MachineFile) -> Vec<Settlement> {
    let all = settled.map(|settled| settled.figures(machine)).into_iter().flatten();
    all.map(|(work, why)| {
        let figure = Figure::Cost(work);
        Settlement { name: figure.name(), value_ns: figure.get(machine), why }
    })
    .collect()
}

#[cfg(test)]
mod tests;

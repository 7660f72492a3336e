//! Plans: a published experiment as parameters, predicted cell by cell on a simulated machine, beside what was published.
//!
//! ```text
//! file --read--> Plan: kind, machine, modes, loads --run--> PlanCell for each mode at each load --score--> table, json, page
//! ```
//!
//! A plan names a machine, modes and loads; nothing that was measured is in either but the figures that a machine file says it was
//! fitted to. `docs/plans.md` describes both files. [`kind`](PlanKind) has what differs from one kind of plan to another.

mod arrivals;
mod figures;
mod files;
mod histograms;
mod json;
mod kind;
mod load;
mod page;
mod published;
mod questions;
mod read;
mod result;
mod run;
mod score;
mod series;
mod set;
mod table;

use napier_core::group::Settings;
use napier_kv::service::Service;
use napier_lab::machines::MachineFile;

pub use arrivals::PlanArrivals;
pub use figures::{NAMES, Predicted, of};
pub use files::{PlanError, named, names};
pub use json::{JsonCell, JsonPlan, json};
pub use kind::{PlanKind, PlanMode, With};
pub use load::{Asked, PlanLoad};
pub use page::page;
pub use published::Published;
pub use questions::{Questions, questions};
pub use result::{Results, ResultsError, merge};
pub use run::{PlanCell, RanPlan, run, run_in_full};
pub use score::{ModeOrder, Score, WorstFigure, score};
pub use set::OwnSettings;
pub use table::table;

/// The figures of a table of datagrams.
const DATAGRAMS: &[&str] = &["qps", "delivered_pct", "p50_us", "p99_us", "cpu_pct"];

/// A plan with its machine and what was published.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What stands in its file.
    pub text: String,
    /// Of what.
    pub kind: PlanKind,
    /// What it reproduces.
    pub title: String,
    /// Modes, in the plan's order.
    pub modes: Vec<PlanMode>,
    /// Loads.
    pub loads: Vec<PlanLoad>,
    /// The machine; `None`: that of [`contention`](crate::contention).
    pub machine: Option<Box<MachineFile>>,
    /// How many there are of what.
    pub scale: Scale,
    /// Requests are datagrams to one socket for each queue, and no one waits for an answer.
    pub datagrams: bool,
    /// Requests come as a log has them, or with gaps of a distribution; none: by chance.
    pub arrivals: Option<PlanArrivals>,
    /// What requests take the program beside what the machine says; none: nothing.
    pub service: Option<Service>,
    /// Runs of each cell.
    pub seeds: u16,
    /// The first of their seeds.
    pub seed: u64,
    /// What a document printed.
    pub published: Published,
}

/// How many there are of what.
#[derive(Clone, Copy, PartialEq, Debug)]
#[expect(missing_docs, reason = "docs/plans.md describes them under the same names")]
pub enum Scale {
    /// Queues with a core each, of which one is simulated.
    Queues { queues: u16, connections: u16 },
    /// Two hosts of one queue each.
    Pair,
    /// Two hosts of many CPUs.
    Hosts { cpus: u16, queues: u16, threads: u16, flows: u16 },
    /// A server of many CPUs: connections and full rate of each queue, and how groups decide, but for their policy.
    Server { connections: u16, full_rps: u64, group: Settings },
    /// Programs that send.
    Senders { senders: u16, queues: u16 },
}

impl Scale {
    const fn is_senders(&self) -> bool {
        matches!(self, Self::Senders { .. })
    }
}

impl Plan {
    /// Every cell, load by load as the document has them.
    pub fn cells(&self) -> impl Iterator<Item = (PlanLoad, &PlanMode)> {
        self.loads.iter().flat_map(|load| self.modes.iter().map(|mode| (*load, mode)))
    }

    /// Keeps these modes only.
    ///
    /// # Errors
    /// The modes that there are, if one is not among them.
    pub fn keep_modes(&mut self, wanted: &[String]) -> Result<(), String> {
        let names: Vec<&str> = self.modes.iter().map(|mode| mode.name.as_str()).collect();
        if let Some(mode) = wanted.iter().find(|mode| !names.contains(&mode.as_str())) {
            return Err(format!("{mode} is no mode of this plan, which has {}", names.join(", ")));
        }
        self.modes.retain(|mode| wanted.contains(&mode.name));
        Ok(())
    }

    /// The machine in words.
    #[must_use]
    pub fn machine_title(&self) -> String {
        match (&self.machine, self.scale) {
            (Some(machine), _) => machine.title.clone(),
            (None, Scale::Senders { senders, queues }) => {
                format!("{senders} senders on {queues} transmit queues, the machine of `napier sim transmit`")
            }
            (None, _) => String::new(),
        }
    }

    /// Whether figures of the machine were fitted to the row of a cell.
    #[must_use]
    pub fn is_fitted(&self, cell: &PlanCell) -> bool {
        let (mode, load) = (&cell.mode.name, cell.load.to_string());
        let of_kind = format!("{}:{mode}", self.kind.name());
        let is_it = |machine: &MachineFile| machine.is_fitted_to(mode, &load) || machine.is_fitted_to(&of_kind, &load);
        self.machine.as_ref().is_some_and(|machine| is_it(machine))
    }

    /// The figures that its table has.
    #[must_use]
    pub fn columns(&self) -> &[&'static str] {
        match &self.published.columns[..] {
            [] if self.datagrams => DATAGRAMS,
            [] => self.kind.columns(),
            // Those of the event loop have a table with as many as a page is wide.
            columns if self.kind == PlanKind::EventLoop && columns.starts_with(self.kind.columns()) => {
                self.kind.columns()
            }
            columns => columns,
        }
    }

    /// The figures that its cells have.
    fn figures(&self) -> Vec<&'static str> {
        let mut names = self.kind.figures().to_vec();
        names.extend(self.datagrams.then_some("delivered_pct"));
        let more = self.published.columns.iter().filter(|name| !names.contains(name)).copied().collect::<Vec<_>>();
        names.extend(more);
        names
    }

    /// Queues of which one is simulated.
    fn alike(&self) -> f64 {
        match self.scale {
            Scale::Queues { queues, .. } => f64::from(queues),
            _ => 1.0,
        }
    }

    /// CPUs of a host.
    fn host_cpus(&self) -> f64 {
        match self.scale {
            Scale::Hosts { cpus, .. } => f64::from(cpus),
            _ => 1.0,
        }
    }

    /// How many figures the machine has, and how many of them were fitted.
    fn parameters(&self) -> String {
        let parameters = self.machine.as_ref().map_or(&[][..], |machine| &machine.parameters);
        let fitted = parameters.iter().filter(|parameter| !parameter.rows.is_empty()).count();
        let hardly = parameters.iter().filter(|parameter| parameter.hardly_determined).count();
        let hardly = if hardly > 0 { format!(", {hardly} of these hardly determined by it") } else { String::new() };
        format!("{} figures of the machine, {fitted} of them fitted{hardly}", parameters.len())
    }
}

#[cfg(test)]
mod tests;

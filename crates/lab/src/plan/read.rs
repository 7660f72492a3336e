//! Plan files.

use std::fmt;
use std::path::Path;

use napier_core::time::Span;
use napier_scenario::ParseError;
use napier_scenario::read::{Node, Table, read_file};

use super::machine::MachineFile;
use super::published::Published;
use crate::modes::Mode;

/// Files that the program brings along: name, text.
const PLANS: &[(&str, &str)] = &[("irq-suspension", include_str!("../../../../plans/irq-suspension.toml"))];
const MACHINES: &[(&str, &str)] = &[
    ("epyc-7662-cx5", include_str!("../../../../lab/machines/epyc-7662-cx5.toml")),
    ("small-vm", include_str!("../../../../lab/machines/small-vm.toml")),
];

/// What a cell is offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Load {
    /// Requests per second over all queues.
    Rate(u64),
    /// As many as are answered: a closed loop.
    Max,
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate(rate) if rate.is_multiple_of(1000) => write!(f, "{}K", rate / 1000),
            Self::Rate(rate) => rate.fmt(f),
            Self::Max => f.write_str("MAX"),
        }
    }
}

/// A plan with its machine and what was published.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What stands in its file.
    pub text: String,
    /// What it reproduces.
    pub title: String,
    /// The machine.
    pub machine: MachineFile,
    /// Rows of the document that are known.
    pub published: Published,
    /// Queues, each with a core.
    pub queues: u16,
    /// Connections over all queues.
    pub connections: u16,
    /// Modes.
    pub modes: Vec<Mode>,
    /// Loads.
    pub loads: Vec<Load>,
    /// Nothing counts before.
    pub warm_up: Span,
    /// What counts, of each seed.
    pub measured: Span,
    /// Runs of each cell.
    pub seeds: u16,
}

/// A plan cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A file is wrong.
    #[error(transparent)]
    File(#[from] ParseError),
    /// A file cannot be read.
    #[error("{0} cannot be read: {1}")]
    Unreadable(String, std::io::Error),
    /// Neither a file nor a name.
    #[error("there is no plan {name}: give a file, or one of {}", names(PLANS))]
    Unknown {
        /// As given.
        name: String,
    },
    /// Neither a file nor a name.
    #[error("there is no machine {name}: give a file, or one of {}", names(MACHINES))]
    UnknownMachine {
        /// As given.
        name: String,
    },
}

/// The plans that the program brings along.
pub(super) fn plan_names() -> impl Iterator<Item = &'static str> {
    PLANS.iter().map(|(name, _)| *name)
}

fn names(files: &[(&str, &str)]) -> String {
    files.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// The plan of this name, or in this file.
///
/// # Errors
/// [`PlanError`] says what was expected.
pub fn named(name: &str) -> Result<Plan, PlanError> {
    if let Some((_, text)) = PLANS.iter().find(|(known, _)| *known == name) {
        return Ok(Plan::parse(text, name)?);
    }
    if !Path::new(name).exists() {
        return Err(PlanError::Unknown { name: name.to_owned() });
    }
    let text = std::fs::read_to_string(name).map_err(|error| PlanError::Unreadable(name.to_owned(), error))?;
    Ok(Plan::parse(&text, name)?)
}

/// The machine of this name, or in this file.
///
/// # Errors
/// [`PlanError`] says what was expected.
pub fn machine_named(name: &str) -> Result<MachineFile, PlanError> {
    if let Some((_, text)) = MACHINES.iter().find(|(known, _)| *known == name) {
        return Ok(MachineFile::parse(text, name)?);
    }
    if !Path::new(name).exists() {
        return Err(PlanError::UnknownMachine { name: name.to_owned() });
    }
    let text = std::fs::read_to_string(name).map_err(|error| PlanError::Unreadable(name.to_owned(), error))?;
    Ok(MachineFile::parse(&text, name)?)
}

impl Plan {
    /// Reads a plan; `file` is its name in errors.
    ///
    /// # Errors
    /// The first thing that is wrong, with its file and line.
    pub fn parse(text: &str, file: &str) -> Result<Self, ParseError> {
        let plan = read_file(text, file, |whole| Self::read(whole, machine))?;
        Ok(Self { text: text.to_owned(), ..plan })
    }

    /// The same, on the machine of this text, whatever the plan calls it.
    ///
    /// # Errors
    /// Likewise.
    pub fn with_machine(text: &str, file: &str, machine_text: &str) -> Result<Self, ParseError> {
        let machine = |node: &Node<'_>| MachineFile::parse(machine_text, node.text("a machine")?);
        let plan = read_file(text, file, |whole| Self::read(whole, machine))?;
        Ok(Self { text: text.to_owned(), ..plan })
    }

    fn read(
        whole: Table<'_>,
        machine: impl FnOnce(&Node<'_>) -> Result<MachineFile, ParseError>,
    ) -> Result<Self, ParseError> {
        let whole = whole.only(&[
            "title",
            "machine",
            "published",
            "queues",
            "connections",
            "modes",
            "loads",
            "warm-up",
            "measured",
            "seeds",
        ])?;
        let queues = whole.need("queues")?.number(1..=1024)?;
        let connections: u16 = whole.need("connections")?.number(1..=60_000)?;
        if !connections.is_multiple_of(queues) {
            return Err(whole
                .need("connections")?
                .error(format!("the connections of {queues} queues are equally many each")));
        }
        let modes = whole.need("modes")?;
        let items = modes.list("an array of modes")?;
        let modes: Vec<Mode> = items.iter().map(mode).collect::<Result<_, _>>()?;
        let loads = whole.need("loads")?.list("an array of loads")?.iter().map(load).collect::<Result<Vec<_>, _>>()?;
        if modes.is_empty() || loads.is_empty() {
            return Err(whole.error("a plan has a mode and a load at least"));
        }
        Ok(Self {
            text: String::new(),
            title: whole.need("title")?.text("what it reproduces")?.to_owned(),
            machine: machine(&whole.need("machine")?)?,
            published: whole.map("published", published)?.unwrap_or_default(),
            queues,
            connections,
            modes,
            loads,
            warm_up: whole.short_span("warm-up", Span::from_ms(100))?,
            measured: measured(&whole)?,
            seeds: whole.number("seeds", 1..=1000, 3)?,
        })
    }

    /// Every cell, load by load as the document has them.
    pub fn cells(&self) -> impl Iterator<Item = (Load, Mode)> {
        self.loads.iter().flat_map(|load| self.modes.iter().map(|mode| (*load, *mode)))
    }
}

fn measured(whole: &Table<'_>) -> Result<Span, ParseError> {
    let span = whole.short_span("measured", Span::from_secs(1))?;
    if span.is_zero() { Err(whole.need("measured")?.error("something has to be measured")) } else { Ok(span) }
}

fn machine(node: &Node<'_>) -> Result<MachineFile, ParseError> {
    let name = node.text("a machine")?;
    if let Some((_, text)) = MACHINES.iter().find(|(known, _)| *known == name) {
        return MachineFile::parse(text, name);
    }
    match std::fs::read_to_string(name) {
        Ok(text) => MachineFile::parse(&text, name),
        Err(error) => {
            Err(node
                .error(format!("there is no machine {name:?} ({error}): give a file, or one of {}", names(MACHINES))))
        }
    }
}

fn published(node: &Node<'_>) -> Result<Published, ParseError> {
    let name = node.text("the name of a published table")?;
    Published::named(name).ok_or_else(|| node.error(format!("there is no published table {name:?}")))
}

fn mode(node: &Node<'_>) -> Result<Mode, ParseError> {
    let mode = Mode::parse(node.text("a mode")?).map_err(|error| node.error(error))?;
    if matches!(mode, Mode::Workqueue | Mode::BusyRead) {
        return Err(node.error(format!("{mode} is no mode of a server that waits in an event context")));
    }
    Ok(mode)
}

fn load(node: &Node<'_>) -> Result<Load, ParseError> {
    if node.text("").is_ok_and(|text| text == "max") {
        return Ok(Load::Max);
    }
    let rate = node.number(1..=1_000_000_000);
    rate.map(Load::Rate).map_err(|_| node.error("expected requests per second, or \"max\""))
}

//! Plan files.

use std::borrow::Cow;
use std::path::Path;
use std::{fmt, io};

use napier_core::time::Span;
use napier_linux::given;
use napier_scenario::ParseError;
use napier_scenario::read::{Node, Table, read_file};

use super::grid::{Grid, Kind};
use super::machine::MachineFile;
use super::published::Published;
use crate::modes::Mode;

/// Largest file of a plan or a machine.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Files that the program brings along: name, text.
const PLANS: &[(&str, &str)] = &[
    ("irq-suspension", include_str!("../../plans/irq-suspension.toml")),
    ("xsk-rr", include_str!("../../plans/xsk-rr.toml")),
    ("busy-read", include_str!("../../plans/busy-read.toml")),
    ("udp-stream", include_str!("../../plans/udp-stream.toml")),
    ("tcp-rr", include_str!("../../plans/tcp-rr.toml")),
    ("remote-ssd", include_str!("../../plans/remote-ssd.toml")),
    ("groups", include_str!("../../plans/groups.toml")),
];
const MACHINES: &[(&str, &str)] = &[
    ("epyc-7662-cx5", include_str!("../../machines/epyc-7662-cx5.toml")),
    ("xsk-rr-pair", include_str!("../../machines/xsk-rr-pair.toml")),
    ("mlx4-pair", include_str!("../../machines/mlx4-pair.toml")),
    ("threaded-napi-pair", include_str!("../../machines/threaded-napi-pair.toml")),
    ("small-vm", include_str!("../../machines/small-vm.toml")),
    ("many-cpus", include_str!("../../machines/many-cpus.toml")),
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

/// A plan of whatever kind.
#[derive(Clone, Debug)]
pub enum AnyPlan {
    /// A server that waits in an event context, and its clients.
    EventLoop(Box<Plan>),
    /// Another experiment, which is run as a whole.
    Grid(Box<Grid>),
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
    #[error("there is no plan {name}{}: give a file, or one of {}", near(name, PLANS), names(PLANS))]
    Unknown {
        /// As given.
        name: String,
    },
    /// Neither a file nor a name.
    #[error("there is no machine {name}{}: give a file, or one of {}", near(name, MACHINES), servers())]
    UnknownMachine {
        /// As given.
        name: String,
    },
    /// Two hosts, where a server is wanted.
    #[error("{name} is two hosts on a wire: give a file of a server with its clients, or one of {}", servers())]
    NoServer {
        /// As given.
        name: String,
    },
}

/// The plans that the program brings along.
pub(super) fn plan_names() -> impl Iterator<Item = &'static str> {
    PLANS.iter().map(|(name, _)| *name)
}

fn near(name: &str, files: &[(&'static str, &str)]) -> String {
    crate::near::did_you_mean(name, files.iter().map(|(known, _)| *known))
}

fn names(files: &[(&str, &str)]) -> String {
    files.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// The plan of this name, or in this file.
///
/// # Errors
/// [`PlanError`] says what was expected.
pub fn named(name: &str) -> Result<AnyPlan, PlanError> {
    if let Some((_, text)) = PLANS.iter().find(|(known, _)| *known == name) {
        return Ok(AnyPlan::parse(text, name)?);
    }
    if !Path::new(name).exists() {
        return Err(PlanError::Unknown { name: name.to_owned() });
    }
    let text = given::read_text(Path::new(name), FILE_BYTES_MAX);
    let text = text.map_err(|error| PlanError::Unreadable(name.to_owned(), error))?;
    Ok(AnyPlan::parse(&text, name)?)
}

/// The kind of a plan that names none.
pub(super) const EVENT_LOOP: &str = "event-loop";

impl AnyPlan {
    /// Reads a plan by its `kind`; `file` is its name in errors.
    ///
    /// # Errors
    /// The first thing that is wrong, with its file and line.
    pub fn parse(text: &str, file: &str) -> Result<Self, ParseError> {
        let kind = read_file(text, file, |whole| {
            let found = whole.in_order().into_iter().find(|(key, _)| *key == "kind");
            let words: Vec<&str> = std::iter::once(EVENT_LOOP).chain(Kind::WORDS).collect();
            let find = |word: &str| words.contains(&word).then(|| Kind::named(word));
            found.map_or(Ok(None), |(_, node)| node.word(find, &words))
        })?;
        Ok(match kind {
            None => Self::EventLoop(Box::new(Plan::parse(text, file)?)),
            Some(kind) => Self::Grid(Box::new(Grid::parse(kind, text, file)?)),
        })
    }
}

/// The server with its clients of this name, or in this file.
///
/// # Errors
/// [`PlanError`] says what was expected.
pub fn server_named(name: &str) -> Result<MachineFile, PlanError> {
    let text = machine_text(name).map_err(|error| match Path::new(name).exists() {
        true => PlanError::Unreadable(name.to_owned(), error),
        false => PlanError::UnknownMachine { name: name.to_owned() },
    })?;
    let machine = MachineFile::parse(&text, name)?;
    if machine.wire.is_some() { Err(PlanError::NoServer { name: name.to_owned() }) } else { Ok(machine) }
}

/// Machines that come along and are a server with its clients.
fn servers() -> String {
    let is_server = |text: &str| MachineFile::parse(text, "").is_ok_and(|machine| machine.wire.is_none());
    let names: Vec<&str> = MACHINES.iter().filter(|(_, text)| is_server(text)).map(|(name, _)| *name).collect();
    names.join(", ")
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
            "kind",
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
            machine: of_clients(&whole, machine)?,
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

/// The machine of a server and its clients.
fn of_clients(
    whole: &Table<'_>,
    machine: impl FnOnce(&Node<'_>) -> Result<MachineFile, ParseError>,
) -> Result<MachineFile, ParseError> {
    let node = whole.need("machine")?;
    let machine = machine(&node)?;
    if machine.wire.is_some() {
        return Err(node.error("two hosts on a wire are no server with clients; expected a machine with [client]"));
    }
    Ok(machine)
}

pub(super) fn measured(whole: &Table<'_>) -> Result<Span, ParseError> {
    let span = whole.short_span("measured", Span::from_secs(1))?;
    if span.is_zero() { Err(whole.need("measured")?.error("something has to be measured")) } else { Ok(span) }
}

/// The text of the machine of this name, or of this file.
fn machine_text(name: &str) -> io::Result<Cow<'static, str>> {
    match MACHINES.iter().find(|(known, _)| *known == name) {
        Some((_, text)) => Ok(Cow::Borrowed(text)),
        None => given::read_text(Path::new(name), FILE_BYTES_MAX).map(Cow::Owned),
    }
}

pub(super) fn machine(node: &Node<'_>) -> Result<MachineFile, ParseError> {
    let name = node.text("a machine")?;
    match machine_text(name) {
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
    if !mode.is_simulated() {
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

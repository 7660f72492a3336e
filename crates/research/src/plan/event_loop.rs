//! The plan of a server that waits in an event context, and of its clients.

use napier_core::time::Span;
use napier_scenario::ParseError;
use napier_scenario::read::{Node, Table, read_file};

use super::files::measured;
use super::load::Load;
use super::published::Published;
use napier_lab::machines::MachineFile;
use napier_lab::machines::machine;
use napier_lab::modes::Mode;

/// The kind of a plan that names none.
pub(super) const EVENT_LOOP: &str = "event-loop";

/// A plan with its machine and what was published.
#[derive(Clone, Debug)]
pub struct EventLoopPlan {
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

impl EventLoopPlan {
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

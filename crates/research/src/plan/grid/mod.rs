//! Plans of the kinds that are run as a whole: two hosts on a wire, and senders on transmit queues. Each has modes, loads and
//! figures of its own; reading, running, scoring and printing them is one.

mod groups;
mod json;
mod many;
mod published;
mod run;
mod table;

use std::fmt;

use napier_core::group::Settings;
use napier_core::time::Span;
use napier_scenario::ParseError;
use napier_scenario::read::{Node, Table, read_file};
use napier_sim::machine::Shape;
use napier_sim::machine::figures::Length;

use super::files::measured;
use crate::transmit::Path;
use napier_lab::machines::machine;
use napier_lab::machines::{MachineFile, Wire};

pub use json::{JsonGrid, JsonGridCell, grid_json};
use many::Size;
use published::Rows;
pub use run::{GridCell, run_grid};
pub use table::grid_table;

/// What a plan is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GridKind {
    /// `AF_XDP` programs on two hosts; a client sends at a fixed rate and computes after each answer.
    XskRr,
    /// One byte back and forth on one TCP connection.
    BusyRead,
    /// Many senders on few transmit queues.
    UdpStream,
    /// Many TCP connections between two hosts of many CPUs, a request to and an answer fro.
    TcpRr,
    /// The same with a storage device behind the server, asked at a fixed rate.
    RemoteSsd,
    /// Who polls on a server of many CPUs.
    Groups,
}

impl GridKind {
    /// The words for them in plan files.
    pub const WORDS: [&str; 6] = ["xsk-rr", "busy-read", "udp-stream", "tcp-rr", "remote-ssd", "groups"];
    const ALL: [Self; 6] = [Self::XskRr, Self::BusyRead, Self::UdpStream, Self::TcpRr, Self::RemoteSsd, Self::Groups];

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        Self::WORDS[self as usize]
    }

    pub(super) fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == word)
    }

    /// Modes that it has.
    const fn modes(self) -> &'static [&'static str] {
        match self {
            Self::XskRr => &["interrupts", "busy-read", "busy-read-separate", "threaded-busy-poll"],
            Self::BusyRead => &["interrupts-16-44", "interrupts-1-1", "busy-poll-3.11", "busy-poll-4.11"],
            Self::UdpStream => &["locked", "llist"],
            Self::TcpRr | Self::RemoteSsd => &["base", "threaded", "workqueue"],
            Self::Groups => groups::MODES,
        }
    }
}

/// What a cell is offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offer {
    /// Packets at a fixed rate, and what the client computes after each answer.
    Rate {
        /// Packets per second.
        pps: u64,
        /// After each answer.
        delay: Span,
    },
    /// The next packet when the last is answered.
    Closed,
    /// As much as can be sent.
    Flood,
    /// The next request of a connection when the last is answered.
    Messages {
        /// Of a request.
        request_bytes: u32,
        /// Of an answer.
        response_bytes: u32,
        /// How long the run is.
        length: Length,
    },
    /// Reads and writes of a storage device, as many of each.
    Operations {
        /// That are read or written.
        bytes: u32,
        /// Per second.
        rate_rps: u64,
        /// How long the run is.
        length: Length,
    },
    /// Requests at rates that change, to a server of so many CPUs.
    Requests {
        /// CPUs.
        cpus: u16,
        /// Memory nodes.
        nodes: u16,
        /// How the rates go; `None`: the next request of a connection when the last is answered.
        shape: Option<Shape>,
        /// How long the run is.
        length: Length,
    },
}

impl fmt::Display for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate { pps, delay } if pps.is_multiple_of(1000) => write!(f, "{}K+{}us", pps / 1000, delay.ns / 1000),
            Self::Rate { pps, delay } => write!(f, "{pps}+{}us", delay.ns / 1000),
            Self::Closed => f.write_str("closed"),
            Self::Flood => f.write_str("flood"),
            Self::Messages { request_bytes, response_bytes, .. } => {
                write!(f, "{}B/{}B", Bytes(*request_bytes), Bytes(*response_bytes))
            }
            Self::Operations { bytes, .. } => Bytes(*bytes).fmt(f),
            Self::Requests { cpus, shape, .. } => write!(f, "{cpus}cpus/{}", groups::ShownShape(*shape)),
        }
    }
}

/// Bytes with a prefix, of which each is 1024 of the next.
struct Bytes(u32);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MIB: u32 = 1 << 20;
        match self.0 {
            bytes if bytes > 0 && bytes.is_multiple_of(MIB) => write!(f, "{}M", bytes / MIB),
            bytes if bytes > 0 && bytes.is_multiple_of(1024) => write!(f, "{}K", bytes / 1024),
            bytes => bytes.fmt(f),
        }
    }
}

/// What is simulated.
#[derive(Clone, Debug)]
pub enum GridSubject {
    /// Two hosts.
    Pair {
        /// Of this kind each.
        machine: Box<MachineFile>,
        /// Between them.
        wire: Wire,
        /// Nothing counts before.
        warm_up: Span,
        /// What counts, of each seed.
        measured: Span,
        /// Runs of each cell.
        seeds: u16,
    },
    /// Two hosts of many CPUs.
    Many {
        /// Of this kind each.
        machine: Box<MachineFile>,
        /// Between them.
        wire: Wire,
        /// How many of everything.
        size: Size,
        /// Runs of each cell.
        seeds: u16,
    },
    /// A server of many CPUs.
    Server {
        /// What work costs on it.
        machine: Box<MachineFile>,
        /// Connections of each queue.
        connections: u16,
        /// Requests per second of each queue that are 100 %.
        full_rps: u64,
        /// How groups decide, but for their policy.
        group: Settings,
        /// Runs of each cell.
        seeds: u16,
    },
    /// Senders on transmit queues.
    Senders {
        /// Programs that send.
        senders: u16,
        /// Transmit queues.
        queues: u16,
        /// From which all randomness comes.
        seed: u64,
    },
}

/// A plan that is run as a whole.
#[derive(Clone, Debug)]
pub struct Grid {
    /// Of what.
    pub kind: GridKind,
    /// What it reproduces.
    pub title: String,
    /// Modes, in the plan's order.
    pub modes: Vec<&'static str>,
    /// Loads.
    pub loads: Vec<Offer>,
    /// What is simulated.
    pub subject: GridSubject,
    /// What a document printed.
    pub(super) published: Rows,
}

impl Grid {
    /// Reads a plan of a kind; `file` is its name in errors.
    ///
    /// # Errors
    /// The first thing that is wrong, with its file and line.
    pub fn parse(kind: GridKind, text: &str, file: &str) -> Result<Self, ParseError> {
        read_file(text, file, |whole| match kind {
            GridKind::XskRr | GridKind::BusyRead => Self::read_pair(kind, whole),
            GridKind::UdpStream => Self::read_senders(whole),
            GridKind::TcpRr | GridKind::RemoteSsd => many::read(kind, whole),
            GridKind::Groups => groups::read(whole),
        })
    }

    fn read_pair(kind: GridKind, whole: Table<'_>) -> Result<Self, ParseError> {
        let keys: &[&str] = match kind {
            GridKind::XskRr => {
                &["title", "kind", "machine", "published", "modes", "loads", "warm-up", "measured", "seeds"]
            }
            _ => &["title", "kind", "machine", "published", "modes", "warm-up", "measured", "seeds"],
        };
        let whole = whole.only(keys)?;
        let loads = match kind {
            GridKind::XskRr => whole.need("loads")?.list(LOADS)?.iter().map(offer).collect::<Result<Vec<_>, _>>()?,
            _ => vec![Offer::Closed],
        };
        if loads.is_empty() {
            return Err(whole.need("loads")?.error("a plan has a load at least"));
        }
        let (machine, wire) = two_hosts(&whole)?;
        Ok(Self {
            kind,
            title: whole.need("title")?.text("what it reproduces")?.to_owned(),
            modes: modes(&whole, kind)?,
            loads,
            subject: GridSubject::Pair {
                machine,
                wire,
                warm_up: whole.short_span("warm-up", Span::from_ms(10))?,
                measured: measured(&whole)?,
                seeds: whole.number("seeds", 1..=1000, 1)?,
            },
            published: whole.map("published", |node| published::named(kind, node))?.unwrap_or_default(),
        })
    }

    fn read_senders(whole: Table<'_>) -> Result<Self, ParseError> {
        let whole = whole.only(&["title", "kind", "modes", "senders", "queues", "seed"])?;
        let (senders, queues) = (whole.need("senders")?.number(1..=1000)?, whole.need("queues")?.number(1..=1000)?);
        Ok(Self {
            kind: GridKind::UdpStream,
            title: whole.need("title")?.text("what it reproduces")?.to_owned(),
            modes: modes(&whole, GridKind::UdpStream)?,
            loads: vec![Offer::Flood],
            subject: GridSubject::Senders { senders, queues, seed: whole.number("seed", 0..=i128::from(u64::MAX), 1)? },
            published: published::of_transmit(senders, queues),
        })
    }

    /// Keeps these modes only.
    ///
    /// # Errors
    /// The modes that there are, if one is not among them.
    pub fn keep_modes(&mut self, wanted: &[String]) -> Result<(), String> {
        if let Some(mode) = wanted.iter().find(|mode| !self.modes.contains(&mode.as_str())) {
            return Err(format!("{mode} is no mode of this plan, which has {}", self.modes.join(", ")));
        }
        self.modes.retain(|mode| wanted.iter().any(|other| other == mode));
        Ok(())
    }

    /// Every cell, load by load.
    pub fn cells(&self) -> impl Iterator<Item = (Offer, &'static str)> {
        self.loads.iter().flat_map(|load| self.modes.iter().map(|mode| (*load, *mode)))
    }

    /// The machine, if a file describes it.
    #[must_use]
    pub fn machine(&self) -> Option<&MachineFile> {
        match &self.subject {
            GridSubject::Pair { machine, .. }
            | GridSubject::Many { machine, .. }
            | GridSubject::Server { machine, .. } => Some(machine),
            GridSubject::Senders { .. } => None,
        }
    }

    /// The machine in words.
    #[must_use]
    pub fn machine_title(&self) -> String {
        match &self.subject {
            GridSubject::Pair { machine, .. }
            | GridSubject::Many { machine, .. }
            | GridSubject::Server { machine, .. } => machine.title.clone(),
            GridSubject::Senders { senders, queues, .. } => {
                format!("{senders} senders on {queues} transmit queues, the machine of `napier sim transmit`")
            }
        }
    }

    /// Whether figures of the machine were fitted to the row of a cell.
    #[must_use]
    pub fn is_fitted(&self, cell: &GridCell) -> bool {
        let (load, of_kind) = (cell.load.to_string(), format!("{}:{}", self.kind.name(), cell.mode));
        self.machine()
            .is_some_and(|machine| machine.is_fitted_to(cell.mode, &load) || machine.is_fitted_to(&of_kind, &load))
    }
}

/// The machine of a plan, and the wire between two of it.
fn two_hosts(whole: &Table<'_>) -> Result<(Box<MachineFile>, Wire), ParseError> {
    let node = whole.need("machine")?;
    let machine = machine(&node)?;
    let Some(wire) = machine.wire else {
        return Err(node.error("this machine is a server with clients; expected two hosts, with [wire]"));
    };
    Ok((Box::new(machine), wire))
}

const LOADS: &str = "an array of loads such as { rate = 12000, delay = \"0us\" }";

fn offer(node: &Node<'_>) -> Result<Offer, ParseError> {
    let table = node.table(LOADS)?.only(&["rate", "delay"])?;
    let pps = table.need("rate")?.number(1..=10_000_000)?;
    Ok(Offer::Rate { pps, delay: table.short_span("delay", Span::ZERO)? })
}

fn modes(whole: &Table<'_>, kind: GridKind) -> Result<Vec<&'static str>, ParseError> {
    let node = whole.need("modes")?;
    let known = kind.modes();
    let mode = |node: &Node<'_>| node.word(|word| known.iter().find(|mode| **mode == word).copied(), known);
    let mut modes = Vec::new();
    for item in node.list("an array of modes")? {
        let mode = mode(&item)?;
        if modes.contains(&mode) {
            return Err(item.error(format!("{mode} is there already")));
        }
        modes.push(mode);
    }
    if modes.is_empty() {
        return Err(node.error("a plan has a mode at least"));
    }
    Ok(modes)
}

/// The way of transmitting that a mode is.
fn path(mode: &str) -> Option<Path> {
    Path::ALL.into_iter().find(|path| path.name() == mode)
}

#[cfg(test)]
mod tests;

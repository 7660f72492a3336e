//! Files of plans and machines: those that the program brings along, and those of the user.

use std::borrow::Cow;
use std::io;
use std::path::Path;

use napier_core::time::Span;
use napier_linux::given;
use napier_scenario::ParseError;
use napier_scenario::read::{Node, Table};

use super::machine::MachineFile;

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

/// The text of the plan of this name, or in this file.
pub(super) fn plan_text(name: &str) -> Result<Cow<'static, str>, PlanError> {
    if let Some((_, text)) = PLANS.iter().find(|(known, _)| *known == name) {
        return Ok(Cow::Borrowed(text));
    }
    if !Path::new(name).exists() {
        return Err(PlanError::Unknown { name: name.to_owned() });
    }
    let text = given::read_text(Path::new(name), FILE_BYTES_MAX);
    text.map(Cow::Owned).map_err(|error| PlanError::Unreadable(name.to_owned(), error))
}

/// The plans that the program brings along.
pub(super) fn plan_names() -> impl Iterator<Item = &'static str> {
    PLANS.iter().map(|(name, _)| *name)
}

fn near(name: &str, files: &[(&'static str, &str)]) -> String {
    crate::suggest::did_you_mean(name, files.iter().map(|(known, _)| *known))
}

fn names(files: &[(&str, &str)]) -> String {
    files.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
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

//! Files of machines: those that come along, and those of the user.

use std::borrow::Cow;
use std::io;
use std::path::Path;

use napier_linux::given;
use napier_scenario::ParseError;
use napier_scenario::read::Node;

use super::MachineFile;

/// Largest file of a machine.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Files that come along: name, text.
const MACHINES: &[(&str, &str)] = &[
    ("epyc-7662-cx5", include_str!("../../machines/epyc-7662-cx5.toml")),
    ("xsk-rr-pair", include_str!("../../machines/xsk-rr-pair.toml")),
    ("mlx4-pair", include_str!("../../machines/mlx4-pair.toml")),
    ("threaded-napi-pair", include_str!("../../machines/threaded-napi-pair.toml")),
    ("small-vm", include_str!("../../machines/small-vm.toml")),
    ("many-cpus", include_str!("../../machines/many-cpus.toml")),
];

/// A machine cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// A file is wrong.
    #[error(transparent)]
    File(#[from] ParseError),
    /// A file cannot be read.
    #[error("{0} cannot be read: {1}")]
    Unreadable(String, io::Error),
    /// Neither a file nor a name.
    #[error("there is no machine {name}{}: give a file, or one of {}", near(name), servers())]
    Unknown {
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

fn near(name: &str) -> String {
    crate::suggest::did_you_mean(name, MACHINES.iter().map(|(known, _)| *known))
}

/// The server with its clients of this name, or in this file.
///
/// # Errors
/// [`MachineError`] says what was expected.
pub fn server_named(name: &str) -> Result<MachineFile, MachineError> {
    let text = machine_text(name).map_err(|error| match Path::new(name).exists() {
        true => MachineError::Unreadable(name.to_owned(), error),
        false => MachineError::Unknown { name: name.to_owned() },
    })?;
    let machine = MachineFile::parse(&text, name)?;
    if machine.wire.is_some() { Err(MachineError::NoServer { name: name.to_owned() }) } else { Ok(machine) }
}

/// Machines that come along and are a server with its clients.
fn servers() -> String {
    let is_server = |text: &str| MachineFile::parse(text, "").is_ok_and(|machine| machine.wire.is_none());
    let names: Vec<&str> = MACHINES.iter().filter(|(_, text)| is_server(text)).map(|(name, _)| *name).collect();
    names.join(", ")
}

/// The text of the machine of this name, or of this file.
fn machine_text(name: &str) -> io::Result<Cow<'static, str>> {
    match MACHINES.iter().find(|(known, _)| *known == name) {
        Some((_, text)) => Ok(Cow::Borrowed(text)),
        None => given::read_text(Path::new(name), FILE_BYTES_MAX).map(Cow::Owned),
    }
}

/// The machine that another file names.
///
/// # Errors
/// There is none, or it is wrong, with the line.
pub fn machine(node: &Node<'_>) -> Result<MachineFile, ParseError> {
    let name = node.text("a machine")?;
    machine_text(name).map_or_else(
        |error| {
            let names = MACHINES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
            Err(node.error(format!("there is no machine {name:?} ({error}): give a file, or one of {names}")))
        },
        |text| MachineFile::parse(&text, name),
    )
}

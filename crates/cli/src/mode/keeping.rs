//! What is kept: a mode, where, and for which program.

use std::path::PathBuf;

use anyhow::anyhow;
use napier_lab::modes::Mode;
use napier_linux::by_name::{ProgramTarget, TargetName};
use napier_linux::change::Queues;
use napier_linux::process::{Process, Roots};

use crate::Usage;
use crate::mode_names::ModeNames;

/// A mode on an interface.
#[derive(clap::Args, Clone, PartialEq, Debug)]
pub(crate) struct Kept {
    /// The interface; one that is not there yet is waited for
    #[arg(long, value_name = "IF")]
    pub(crate) dev: String,

    /// How packets are delivered, by the names of `compare`
    #[arg(long, value_name = "MODE", value_parser = ModeNames, hide_possible_values = true)]
    pub(crate) mode: Mode,

    /// The NAPI instances of these receive queues alone, such as 0-3,6
    #[arg(long, value_name = "LIST")]
    pub(crate) queues: Option<Queues>,
}

impl Kept {
    /// `eth0`, `queues 0-2 of eth0`.
    pub(crate) fn place(&self) -> String {
        self.queues.as_ref().map_or_else(|| self.dev.clone(), |queues| format!("{} of {}", queues.words(), self.dev))
    }

    /// Whether both want an instance.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.dev == other.dev
            && self.queues.as_ref().zip(other.queues.as_ref()).is_none_or(|(own, its)| own.overlaps(its))
    }
}

/// The program that has the other half of a mode.
pub(crate) enum Whom {
    /// None, or one that asks for itself.
    Nothing,
    /// A unit, by its whole name.
    Unit(String),
    /// A control group, by its folder.
    Cgroup(PathBuf),
    /// A process and its descendants.
    Process(Process),
}

impl Whom {
    /// As `mode list` shows it; `None` if there is no such process.
    pub(crate) fn named(words: &str) -> Option<Self> {
        match words.split_once(' ') {
            Some(("cgroup", path)) => Some(Self::Cgroup(PathBuf::from(path))),
            Some(("attach", pid)) => Process::open(pid.parse().ok()?).ok().map(Self::Process),
            Some(_) => None,
            None => Some(Self::Unit(words.to_owned())),
        }
    }

    /// Its processes, if it runs.
    pub(crate) fn roots(&self) -> Option<Roots> {
        let found = match self {
            Self::Nothing => return None,
            Self::Process(process) => return Some(Roots::Process(process.who().pid)),
            Self::Unit(unit) => ProgramTarget::find(&TargetName::Unit(unit.clone())),
            Self::Cgroup(path) => ProgramTarget::find(&TargetName::Cgroup(path.clone())),
        };
        found.ok().map(|target| target.roots)
    }

    /// Whether it will not run again.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self, Self::Process(process) if process.has_ended())
    }
}

/// `nginx` is `nginx.service`.
pub(crate) fn whole_name(unit: &str) -> String {
    let has_kind = [".service", ".scope", ".slice", ".socket", ".timer"].iter().any(|kind| unit.ends_with(kind));
    if has_kind { unit.to_owned() } else { format!("{unit}.service") }
}

/// Source: `systemd.unit(5)`.
pub(crate) fn check_unit(unit: &str) -> anyhow::Result<()> {
    const NAME_BYTES_MAX: usize = 200;
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || ":-_.\\@".contains(letter);
    if unit.len() <= NAME_BYTES_MAX && unit.chars().all(is_plain) && !unit.starts_with('.') && !unit.starts_with('@') {
        return Ok(());
    }
    Err(Usage(anyhow!("`{unit}` is no name of a unit: such as nginx.service, or nginx")).into())
}

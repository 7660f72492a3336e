//! `napier mode`: modes that stay on an interface without this command.

mod clear;
mod set;
mod show;

use anyhow::anyhow;
use clap::Subcommand;
use napier_lab::modes::{Mode, NO_GROUPS};
use napier_linux::change::{ChangeState, Changed, DeviceRef, Line, Scope, found, lines_of};

use crate::Usage;

/// What is done about modes that stay.
#[derive(Subcommand)]
pub(crate) enum ModeCommand {
    /// Set the device's half of a mode on an interface until it is cleared, or the machine starts anew
    Set(set::SetArgs),
    /// Show which mode the NAPI instances of each interface have, and what keeps it
    Show(show::ModeShowArgs),
    /// Put back what `mode set` keeps on an interface
    Clear(clear::ClearArgs),
}

impl ModeCommand {
    /// In words, for what it changes.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Set(_) => SET,
            Self::Show(_) => "mode show",
            Self::Clear(_) => "mode clear",
        }
    }

    /// Whether it only looks: what killed commands have left is shown too, and not put back before.
    pub(crate) const fn only_looks(&self) -> bool {
        matches!(self, Self::Show(_))
    }
}

/// What its changes are kept by.
const SET: &str = "mode set";

/// Carries out a command of `napier mode`.
pub(crate) fn run(mode: &ModeCommand) -> anyhow::Result<()> {
    match mode {
        ModeCommand::Set(args) => set::run(args),
        ModeCommand::Show(args) => show::run(args),
        ModeCommand::Clear(args) => clear::run(args),
    }
}

/// What a mode sets on an interface and its instances: the device's half.
fn half(mode: Mode, device: &DeviceRef) -> anyhow::Result<Vec<Line>> {
    if mode == Mode::Group {
        return Err(Usage(anyhow!("{NO_GROUPS}")).into());
    }
    lines_of(&mode.plan(), device).map_err(|error| anyhow!("{error}"))
}

/// What commands keep on an interface of this namespace until it is asked back.
fn kept(device: &DeviceRef) -> Option<Changed> {
    found().into_iter().find(|changed| changed.state == ChangeState::Kept && is_of(changed, device))
}

/// Whether it is about that interface of this namespace.
fn is_of(changed: &Changed, wanted: &DeviceRef) -> bool {
    matches!(&changed.scope, Some(Scope::Device { device, netns, .. })
        if device.ifindex == wanted.ifindex && netns.is_current())
}

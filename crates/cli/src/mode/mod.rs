//! `napier mode`: modes that stay, on an interface without this command, or with a service.

mod clear;
mod enable;
mod keep;
mod keeping;
mod list;
mod set;
mod show;
mod unit_files;

use std::sync::atomic::AtomicBool;

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
    /// Keep a mode for a service: systemd starts what keeps it with the service
    Enable(enable::EnableArgs),
    /// End that, and leave no file
    Disable(enable::DisableArgs),
    /// Keep a mode in force until this command is told to end
    Keep(keep::KeepArgs),
    /// List the modes that stay: whether each is in force, since when, and whether it acts
    List(list::ListArgs),
}

impl ModeCommand {
    /// In words, for what it changes.
    pub(crate) fn name(&self) -> String {
        let name = match self {
            Self::Keep(args) => return args.name(),
            Self::Set(_) => SET,
            Self::Show(_) => "mode show",
            Self::Clear(_) => "mode clear",
            Self::Enable(_) => "mode enable",
            Self::Disable(_) => "mode disable",
            Self::List(_) => "mode list",
        };
        name.to_owned()
    }

    /// Whether it accompanies a program, whose signals it hears by itself.
    pub(crate) const fn is_keep(&self) -> bool {
        matches!(self, Self::Keep(_))
    }

    /// Whether it only looks: what killed commands have left is shown too, and not put back before.
    pub(crate) const fn only_looks(&self) -> bool {
        matches!(self, Self::Show(_) | Self::List(_))
    }
}

/// What its changes are kept by.
const SET: &str = "mode set";
const KEEP: &str = "mode keep";

/// Carries out a command of `napier mode`.
pub(crate) fn run(mode: &ModeCommand, interrupted: &AtomicBool) -> anyhow::Result<()> {
    match mode {
        ModeCommand::Set(args) => set::run(args),
        ModeCommand::Show(args) => show::run(args),
        ModeCommand::Clear(args) => clear::run(args),
        ModeCommand::Enable(args) => enable::enable(args),
        ModeCommand::Disable(args) => enable::disable(args),
        ModeCommand::Keep(args) => keep::run(args, interrupted),
        ModeCommand::List(args) => list::run(args),
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

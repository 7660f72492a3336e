//! `napier mode enable` and `napier mode disable`.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, anyhow, bail};
use napier_lab::modes::{Mode, NO_GROUPS};
use napier_linux::change::{DeviceRef, shown};

use super::keeping::{Kept, check_unit, whole_name};
use super::unit_files::{Enabled, UnitFiles, companion};
use crate::Usage;
use crate::say::say;

/// Options of `napier mode enable`.
#[derive(clap::Args)]
pub(crate) struct EnableArgs {
    /// The service
    #[arg(long, value_name = "UNIT")]
    unit: String,

    #[command(flatten)]
    kept: Kept,

    /// Let listeners that share a port (SO_REUSEPORT) have the connections of one receive queue each
    #[arg(long)]
    steer: bool,

    /// Begin now if the service runs, not only when it is started the next time
    #[arg(long)]
    now: bool,

    /// Write below another root, such as an image's, and tell no systemd
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
}

/// Options of `napier mode disable`.
#[derive(clap::Args)]
pub(crate) struct DisableArgs {
    /// The service
    #[arg(long, value_name = "UNIT")]
    unit: String,

    /// Below another root, as `enable` has it
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
}

/// Writes the files, and tells systemd.
pub(crate) fn enable(args: &EnableArgs) -> anyhow::Result<()> {
    let unit = service(&args.unit)?;
    possible(args.kept.mode)?;
    let files = UnitFiles::new(args.root.as_deref());
    let enabled = Enabled { unit: unit.clone(), kept: args.kept.clone(), steer: args.steer };
    if let Some(other) = files.all().into_iter().find(|other| other.unit != unit && other.kept.overlaps(&args.kept)) {
        bail!(
            "{} has {} of {} already: give each queues of its own (--queues), or napier mode disable --unit {}",
            other.unit,
            other.kept.mode,
            other.kept.place(),
            other.unit
        );
    }
    let program = std::env::current_exe().context("where this command is")?;
    let written = files.write(&enabled, &program).context("the unit's files cannot be written; it needs root")?;
    let mut out = std::io::stdout().lock();
    written.iter().try_for_each(|path| writeln!(out, "wrote {}", path.display()))?;
    let dev = &args.kept.dev;
    if args.root.is_none() && DeviceRef::named(dev).is_err() {
        say(&[format!("there is no interface {dev} now: the mode is in force once there is")]);
    }
    let systemd = Systemd { is_told: args.root.is_none() };
    systemd.reload()?;
    let companion = companion(&unit);
    let runs = systemd.ask(&["is-active", "--quiet", &unit]);
    match (args.now, runs) {
        (true, Some(true)) => {
            systemd.tell(&["restart", &companion])?;
            writeln!(out, "{} is in force with {unit}: napier mode list, journalctl -u {companion}", args.kept.mode)?;
        }
        (false, Some(true)) => {
            writeln!(out, "it begins when {unit} is started the next time, or now by: systemctl restart {companion}")?
        }
        _ => writeln!(out, "it begins when {unit} is started")?,
    }
    Ok(())
}

/// Ends the unit that keeps the mode, and removes the files.
pub(crate) fn disable(args: &DisableArgs) -> anyhow::Result<()> {
    let unit = service(&args.unit)?;
    let files = UnitFiles::new(args.root.as_deref());
    if files.there(&unit).is_empty() {
        bail!("no mode is enabled for {unit}: napier mode list shows which are");
    }
    let systemd = Systemd { is_told: args.root.is_none() };
    // What it has changed is put back by it, while its unit is there still.
    if systemd.ask(&["is-active", "--quiet", &companion(&unit)]) == Some(true) {
        systemd.tell(&["stop", &companion(&unit)])?;
    }
    let removed = files.remove(&unit).context("the unit's files cannot be removed; it needs root")?;
    let mut out = std::io::stdout().lock();
    removed.iter().try_for_each(|path| writeln!(out, "removed {}", path.display()))?;
    systemd.reload()
}

fn service(unit: &str) -> anyhow::Result<String> {
    let unit = whole_name(unit);
    check_unit(&unit)?;
    if !unit.ends_with(".service") {
        return Err(Usage(anyhow!(
            "{unit} is no service: a mode is enabled for a service, and kept for others by mode keep"
        ))
        .into());
    }
    Ok(unit)
}

fn possible(mode: Mode) -> anyhow::Result<()> {
    if mode == Mode::Group {
        return Err(Usage(anyhow!("{NO_GROUPS}")).into());
    }
    if mode.plan().wait().is_some() {
        return Err(Usage(anyhow!(
            "{mode} needs a library in the program: put `napier run --dev IF --mode {mode} --` in front of its ExecStart=, or take \
             napibusy or suspend20"
        ))
        .into());
    }
    Ok(())
}

/// `systemctl`, if there is one.
struct Systemd {
    is_told: bool,
}

impl Systemd {
    /// Lets it read units anew. Where none runs, or none is installed, it reads them when it starts.
    fn reload(&self) -> anyhow::Result<()> {
        match self.run(&["daemon-reload"]) {
            None | Some(Ok(_)) => Ok(()),
            Some(Err(why)) => {
                say(&[format!("systemd was not told, and reads it when it starts: {}", shown(&why))]);
                Ok(())
            }
        }
    }

    /// Whether it says yes; `None` where it is not asked.
    fn ask(&self, args: &[&str]) -> Option<bool> {
        self.run(args).map(|done| done.is_ok())
    }

    fn tell(&self, args: &[&str]) -> anyhow::Result<()> {
        match self.run(args) {
            Some(Err(why)) => bail!("systemctl {}: {}", args.join(" "), shown(&why)),
            None | Some(Ok(())) => Ok(()),
        }
    }

    fn run(&self, args: &[&str]) -> Option<Result<(), String>> {
        if !self.is_told {
            return None;
        }
        let output = Command::new("systemctl").args(args).output().ok()?;
        let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
        Some(if output.status.success() {
            Ok(())
        } else {
            Err(if said.is_empty() { output.status.to_string() } else { said })
        })
    }
}

//! `napier host`: values of this machine that stay changed until they are asked back.

mod show;

pub(crate) use show::ago;

use std::io::Write as _;

use anyhow::bail;
use clap::Subcommand;
use napier_linux::change::{ChangeState, Changed, Recovered, confirm_all, found, overdue, recover, undo_kept, unseen};
use napier_linux::tracefs;
use serde_json::{Value, json};

use crate::page::plural;
use crate::say::say;
use crate::{confirm, host_tune};

/// What is done to this machine.
#[derive(Subcommand)]
pub(crate) enum Host {
    /// Tune this machine for low latency until it is undone
    Tune(host_tune::HostTuneArgs),
    /// Show what napier commands have changed on this machine, and which of them hold it
    Show(show::HostShowArgs),
    /// Keep what is on trial (--confirm)
    Confirm,
    /// What --confirm starts: waits, and puts back what is not confirmed
    #[command(hide = true)]
    Watch(confirm::WatchArgs),
    /// Put back what napier commands keep in force, and what those left that were killed
    Undo(UndoArgs),
}

/// Options of `napier host undo`.
#[derive(clap::Args)]
pub(crate) struct UndoArgs {
    /// Only what commands left that were killed; what shall stay stays. For the start of a machine
    #[arg(long)]
    stale: bool,

    /// Change nothing, and print what would be put back
    #[arg(long)]
    dry_run: bool,

    /// Print one JSON object (docs/host.md)
    #[arg(long)]
    json: bool,
}

impl Host {
    /// Whether it only looks: what killed commands have left is shown too, and not put back before.
    pub(crate) const fn only_looks(&self) -> bool {
        matches!(self, Self::Show(_) | Self::Undo(UndoArgs { dry_run: true, .. }))
    }

    /// In words, for what it changes.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Tune(_) => "host tune",
            Self::Show(_) => "host show",
            Self::Confirm => "host confirm",
            Self::Watch(_) => "host watch",
            Self::Undo(_) => "host undo",
        }
    }
}

/// Carries out a command of `napier host`.
pub(crate) fn run(host: &Host, recovered: Vec<Recovered>) -> anyhow::Result<()> {
    match host {
        Host::Tune(args) => host_tune::run(args),
        Host::Show(args) => show::run(args),
        Host::Undo(args) if args.dry_run => show::would_undo(args.stale, args.json),
        Host::Confirm => confirmed(),
        Host::Watch(args) => confirm::watch(args),
        Host::Undo(args) => undo(args, recovered),
    }
}

/// Puts back what killed commands have left: at the start of every command.
pub(crate) fn recover_and_say() -> Vec<Recovered> {
    let mut recovered = recover();
    recovered.extend(overdue());
    for found in recovered.iter().filter(|found| found.is_news()) {
        say(&found.lines());
    }
    // They set nothing of the machine, so there is nothing to tell.
    let _ = tracefs::remove_left();
    recovered
}

/// What is changed by commands that run: they put it back when they end.
struct Holders {
    /// Name, command, process.
    all: Vec<(String, String, u32)>,
}

impl Holders {
    fn now() -> Self {
        let found = found();
        let running = |changed: &&Changed| changed.state == ChangeState::Running && changed.pid != std::process::id();
        let own = found.iter().filter(running).map(|one| (one.name.clone(), show::command(&one.by), one.pid));
        let others = unseen(&found).into_iter().filter(|(_, pid)| *pid != std::process::id());
        let others = others.map(|(name, pid)| (name, show::command(""), pid));
        Self { all: own.chain(others).collect() }
    }

    fn lines(&self) -> Vec<String> {
        let line = |(name, by, pid): &(String, String, u32)| {
            let process = if *pid == 0 { String::new() } else { format!(", pid {pid}") };
            let is = if name.starts_with("queues ") { "are" } else { "is" };
            format!("{name} {is} held by {by}{process}: end it, and it puts everything back")
        };
        self.all.iter().map(line).collect()
    }
}

fn confirmed() -> anyhow::Result<()> {
    let words = match confirm_all() {
        0 => "nothing is on trial".to_owned(),
        1 => "kept".to_owned(),
        more => format!("kept, {more} changes"),
    };
    writeln!(std::io::stdout(), "{words}")?;
    Ok(())
}

fn undo(args: &UndoArgs, mut recovered: Vec<Recovered>) -> anyhow::Result<()> {
    // What is away still is no news to other commands.
    recovered.iter().filter(|found| !found.is_news()).for_each(|found| say(&found.lines()));
    let mut holders = Holders { all: Vec::new() };
    if !args.stale {
        // What is on trial is put back now.
        let _ = confirm_all();
        let kept = undo_kept();
        for one in kept.iter().filter(|one| !recovered.contains(one)) {
            say(&one.lines());
        }
        for one in kept {
            if !recovered.contains(&one) {
                recovered.push(one);
            }
        }
        holders = Holders::now();
        say(&holders.lines());
    }
    let refused = recovered.iter().filter(|found| found.undone.is_refused).count();
    let mut out = std::io::stdout().lock();
    if args.json {
        let one = |found: &Recovered| {
            json!({
                "name": found.name,
                "pid": found.pid,
                "put_back": found.undone.put_back,
                "left": found.undone.left,
                "away": found.undone.away,
                "gone": found.undone.gone,
                "damaged_lines": found.damaged,
            })
        };
        let undone: Vec<Value> = recovered.iter().map(one).collect();
        let held = |(name, by, pid): &(String, String, u32)| json!({ "name": name, "by": by, "pid": pid });
        let held: Vec<Value> = holders.all.iter().map(held).collect();
        writeln!(out, "{}", json!({ "undone": undone, "held": held }))?;
    } else if recovered.is_empty() && holders.all.is_empty() {
        writeln!(out, "nothing to put back")?;
    }
    if refused > 0 {
        bail!("{refused} of {} were not put back wholly", recovered.len());
    }
    if !holders.all.is_empty() {
        bail!("{} of running commands stays in force", plural(holders.all.len(), "change"));
    }
    Ok(())
}

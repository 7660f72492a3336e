//! `napier host`: values of this machine that stay changed until they are asked back.

use std::io::Write as _;

use anyhow::bail;
use clap::Subcommand;
use napier_linux::change::{Recovered, recover, undo_kept};
use serde_json::{Value, json};

use crate::host_tune;

/// What is done to this machine.
#[derive(Subcommand)]
pub(crate) enum Host {
    /// Tune this machine for low latency until it is undone
    Tune(host_tune::Args),
    /// Put back what napier commands keep in force, and what those left that were killed
    Undo(UndoArgs),
}

/// Options of `napier host undo`.
#[derive(clap::Args)]
pub(crate) struct UndoArgs {
    /// Only what commands left that were killed; what shall stay stays. For the start of a machine
    #[arg(long)]
    stale: bool,

    /// Print one JSON object (docs/run.md)
    #[arg(long)]
    json: bool,
}

/// Carries out a command of `napier host`.
pub(crate) fn run(host: &Host, recovered: Vec<Recovered>) -> anyhow::Result<()> {
    match host {
        Host::Tune(args) => host_tune::run(args),
        Host::Undo(args) => undo(args, recovered),
    }
}

/// Puts back what killed commands have left: at the start of every command.
pub(crate) fn recover_and_say() -> Vec<Recovered> {
    let recovered = recover();
    for found in &recovered {
        say(&found.lines());
    }
    recovered
}

/// Lines on standard error, for standard output may be a program's.
pub(crate) fn say(lines: &[String]) {
    for line in lines {
        // Nobody may read it.
        let _ = writeln!(std::io::stderr(), "napier: {line}");
    }
}

fn undo(args: &UndoArgs, mut recovered: Vec<Recovered>) -> anyhow::Result<()> {
    if !args.stale {
        let kept = undo_kept();
        for found in &kept {
            say(&found.lines());
        }
        recovered.extend(kept);
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
                "gone": found.undone.gone,
                "damaged_lines": found.damaged,
            })
        };
        writeln!(out, "{}", json!({ "undone": recovered.iter().map(one).collect::<Vec<Value>>() }))?;
    } else if recovered.is_empty() {
        writeln!(out, "nothing to put back")?;
    }
    if refused > 0 {
        bail!("{refused} of {} were not put back wholly", recovered.len());
    }
    Ok(())
}

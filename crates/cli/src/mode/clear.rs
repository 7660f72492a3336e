//! `napier mode clear`.

use std::io::Write as _;

use anyhow::bail;
use napier_linux::change::{shown, undo_one};
use serde_json::json;

use super::{SET, kept};
use crate::run::device;
use crate::say::say;

/// Options of `napier mode clear`.
#[derive(clap::Args)]
pub(crate) struct ClearArgs {
    /// The interface
    #[arg(long, value_name = "IF")]
    dev: String,

    /// Print one JSON object (docs/mode.md)
    #[arg(long)]
    json: bool,
}

/// Puts back what `mode set` keeps on the interface.
pub(crate) fn run(args: &ClearArgs) -> anyhow::Result<()> {
    let device = device(&args.dev)?;
    let (found, other) = match kept(&device) {
        Some(found) if found.by == SET => (Some(found), None),
        other => (None, other),
    };
    let undone = found.as_ref().and_then(undo_one).map(|found| found.undone).unwrap_or_default();
    say(&undone.lines());
    let mut out = std::io::stdout().lock();
    if args.json {
        let document =
            json!({ "dev": args.dev, "put_back": undone.put_back, "left": undone.left, "gone": undone.gone });
        writeln!(out, "{document}")?;
    } else if let Some(other) = other {
        let by = if other.by.is_empty() { "another command" } else { &other.by };
        writeln!(
            out,
            "{}",
            shown(&format!("{}: what is kept there is of napier {by}: napier host undo puts it back", args.dev))
        )?;
    } else if found.is_none() {
        writeln!(out, "{}: nothing is kept by mode set", shown(&args.dev))?;
    } else {
        undone.put_back.iter().try_for_each(|line| writeln!(out, "{}", shown(line)))?;
    }
    if undone.is_refused {
        bail!("not everything was put back: {}", undone.left.join("; "));
    }
    Ok(())
}

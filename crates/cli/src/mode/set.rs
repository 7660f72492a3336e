//! `napier mode set`.

use std::io::Write as _;

use anyhow::bail;
use napier_lab::modes::Mode;
use napier_linux::change::{DeviceRef, Entry, Journal, Keep, Recovered, Scope, apply, preview, shown, undo_one};
use napier_linux::process::ProgramSettings;
use napier_linux::wiring::PairLines;
use serde_json::json;

use super::{SET, half, kept};
use crate::confirm::{self, ChangeArgs, OnTrial};
use crate::mode_names::ModeNames;
use crate::page::{Page, plural};
use crate::run::{Changes, device, dry_run};
use crate::say::say;

/// Options of `napier mode set`.
#[derive(clap::Args)]
pub(crate) struct SetArgs {
    /// The interface
    #[arg(long, value_name = "IF")]
    dev: String,

    /// How packets are delivered, by the names of `compare`; what of it is the program's the program asks for itself
    #[arg(long, value_name = "MODE", value_parser = ModeNames, hide_possible_values = true)]
    mode: Mode,

    #[command(flatten)]
    change: ChangeArgs,
}

/// Sets all of it, or nothing. What an earlier `mode set` keeps there is put back before.
pub(crate) fn run(args: &SetArgs) -> anyhow::Result<()> {
    let device = device(&args.dev)?;
    let lines = half(args.mode, &device)?;
    if args.change.dry_run {
        let scope = Scope::device(device.clone())?;
        let (pair, settings) = (PairLines::default(), ProgramSettings::default());
        let changes = Changes { scope, device, pair, lines, settings, library: None };
        return dry_run(args.mode, args.change.json, &changes);
    }
    // Before an earlier one is taken back: what is refused leaves that in force.
    if let Some(refused) = preview(&lines).into_iter().find_map(|preview| Some((preview.line, preview.now.err()?))) {
        bail!("{}: {}", refused.0, refused.1);
    }
    let replaced = replace(&device)?;
    let span = confirm::span(args.change.confirm, lines.iter());
    let told = &mut |found: &Recovered| say(&found.lines());
    // Beside each line those of the instances that a file of the interface is written to.
    let room = 4 * lines.len();
    let mut journal = Journal::begin(&Scope::device(device.clone())?, Keep::UntilUndone, room, told)?;
    let trial = match OnTrial::of_journals(vec![journal.path().to_owned()], span) {
        Ok(trial) => trial,
        Err(error) => {
            journal.close();
            return Err(error);
        }
    };
    let changed = match apply(&lines, &mut journal) {
        Ok(changed) => changed,
        Err(error) => {
            let is_over = error.left.is_empty() && journal.carried().is_empty();
            if is_over {
                journal.close()
            } else {
                journal.keep()
            }
            trial.into_iter().for_each(OnTrial::end);
            return Err(error.into());
        }
    };
    if changed.is_empty() && journal.carried().is_empty() {
        journal.close();
    } else {
        journal.keep();
    }
    print(args, &changed, &replaced)?;
    match trial {
        Some(trial) if changed.is_empty() => {
            trial.end();
            Ok(())
        }
        trial => trial.map_or(Ok(()), OnTrial::ask),
    }
}

/// Takes back what an earlier `mode set` keeps.
fn replace(device: &DeviceRef) -> anyhow::Result<Vec<String>> {
    let Some(earlier) = kept(device).filter(|changed| changed.by == SET) else { return Ok(Vec::new()) };
    let undone = undo_one(&earlier).map(|found| found.undone).unwrap_or_default();
    if undone.is_refused {
        bail!(
            "what mode set keeps on {} is not put back, so nothing else was set: {}",
            device.name,
            undone.left.join("; ")
        );
    }
    say(&undone.lines());
    Ok(undone.put_back)
}

fn print(args: &SetArgs, changed: &[Entry], replaced: &[String]) -> anyhow::Result<()> {
    let program = ProgramSettings::of(&args.mode.plan()).lines();
    let mut out = std::io::stdout().lock();
    if args.change.json {
        let changed: Vec<String> = changed.iter().map(ToString::to_string).collect();
        let document = json!({
            "mode": args.mode.to_string(), "dev": args.dev, "changed": changed, "replaced": replaced, "program": program,
        });
        writeln!(out, "{document}")?;
        return Ok(());
    }
    let (dev, mode) = (&args.dev, args.mode);
    let mut page = Page::default();
    page.paragraph(&shown(&match changed.len() {
        0 => format!("{dev}: {mode} was in force before, so nothing is kept by this command."),
        count => format!(
            "{dev}: {mode}, {}, until napier mode clear --dev {dev} or the next start of the machine.",
            plural(count, "change")
        ),
    }));
    for entry in changed {
        page.command(&shown(&entry.to_string()));
    }
    if !program.is_empty() {
        page.blank();
        page.paragraph(
            "This is the device's half. Programs that ask for theirs by themselves have the mode, no others:",
        );
        program.iter().for_each(|line| page.words("", line));
    }
    out.write_all(page.finish().as_bytes())?;
    Ok(())
}

//! `napier host show`, and what `napier host undo` would do.

use std::io::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use napier_linux::change::{ChangeState, Changed, Entry, KeyError, Scope, found, shown, unseen};
use serde_json::{Value, json};

use crate::page::{Page, plural};

/// Options of `napier host show`.
#[derive(clap::Args)]
pub(crate) struct HostShowArgs {
    /// Print one JSON object (docs/host.md)
    #[arg(long)]
    json: bool,
}

/// Prints what is changed now, by whom, and since when.
pub(crate) fn run(args: &HostShowArgs) -> anyhow::Result<()> {
    let found = found();
    let unseen = unseen(&found);
    let mut out = std::io::stdout().lock();
    if args.json {
        let changed: Vec<Value> = found.iter().map(document).collect();
        let elsewhere = |(name, pid): &(String, u32)| json!({ "name": name, "pid": pid });
        let elsewhere: Vec<Value> = unseen.iter().map(elsewhere).collect();
        writeln!(out, "{}", json!({ "changed": changed, "held_elsewhere": elsewhere }))?;
        return Ok(());
    }
    let mut page = Page::default();
    for changed in &found {
        page.title(&shown(&title(changed)));
        lines(&changed.entries).iter().for_each(|line| page.command(&shown(line)));
        page.blank();
    }
    for (name, pid) in &unseen {
        let process = if *pid == 0 { String::new() } else { format!(", pid {pid}") };
        page.paragraph(&shown(&format!(
            "{name}: another napier{process}; its journal is in another folder, so what it has changed is not shown."
        )));
    }
    if found.is_empty() && unseen.is_empty() {
        page.paragraph("Nothing is changed by Napier.");
    }
    out.write_all(page.finish().as_bytes())?;
    Ok(())
}

/// Prints what would be put back, and changes nothing.
pub(crate) fn would_undo(only_stale: bool, as_json: bool) -> anyhow::Result<()> {
    let wanted = |changed: &Changed| match changed.state {
        ChangeState::Running => false,
        ChangeState::Kept => !only_stale,
        ChangeState::Left => true,
    };
    let (undone, held): (Vec<Changed>, Vec<Changed>) =
        found().into_iter().filter(|one| wanted(one) || one.state == ChangeState::Running).partition(wanted);
    let mut out = std::io::stdout().lock();
    if as_json {
        let one = |changed: &Changed| {
            let lines: Vec<Value> = changed.entries.iter().rev().map(would).collect();
            json!({ "name": changed.name, "by": changed.by, "pid": changed.pid, "lines": lines })
        };
        let undone: Vec<Value> = undone.iter().map(one).collect();
        let held: Vec<Value> = held.iter().map(document).collect();
        writeln!(out, "{}", json!({ "dry_run": true, "undone": undone, "held": held }))?;
        return Ok(());
    }
    let mut page = Page::default();
    let mut count = 0;
    for changed in &undone {
        page.title(&shown(&title(changed)));
        for entry in changed.entries.iter().rev() {
            let line = match entry.pending() {
                Ok(None) => continue,
                // A program that has ended has taken its descriptors along.
                Err(KeyError::Gone(_)) if entry.key.is_of_program() => continue,
                Ok(Some(before)) => format!("{}: back to {before}", entry.key),
                Err(error) => format!("{}: {error}", entry.key),
            };
            count += 1;
            page.command(&shown(&line));
        }
        page.blank();
    }
    for changed in &held {
        page.paragraph(&shown(&format!("Not {}, which puts it back when it ends.", title(changed))));
    }
    page.paragraph(&format!("{} would be put back; nothing was.", plural(count, "setting")));
    out.write_all(page.finish().as_bytes())?;
    Ok(())
}

fn would(entry: &Entry) -> Value {
    let (to, why) = match entry.pending() {
        Ok(to) => (to, None),
        Err(error) => (None, Some(error.to_string())),
    };
    json!({ "what": entry.key.to_string(), "to": to, "why_not": why })
}

/// A command in a sentence.
pub(super) fn command(by: &str) -> String {
    if by.is_empty() { "another napier".to_owned() } else { format!("napier {by}") }
}

/// `eth0: napier run, pid 26484, for 4 min, 6 settings`.
fn title(changed: &Changed) -> String {
    let Changed { name, by, pid, since, entries, .. } = changed;
    let state = match changed.state {
        ChangeState::Running => "",
        ChangeState::Kept => ", until napier host undo",
        ChangeState::Left => ", which has ended: the next napier puts it back",
    };
    let process = if *pid == 0 || changed.state == ChangeState::Kept { String::new() } else { format!(", pid {pid}") };
    let since = if *since == 0 { String::new() } else { format!(", since {} ago", ago(*since)) };
    format!("{name}: {} by {}{process}{since}{state}", plural(lines(entries).len(), "change"), command(by))
}

/// What is there in place of what, the newest of each.
fn lines(entries: &[Entry]) -> Vec<String> {
    let is_last = |at: &usize| !entries[at + 1..].iter().any(|later| later.key == entries[*at].key);
    let is_change = |at: &usize| entries[*at].before.as_ref() != Some(&entries[*at].after);
    let is_there = |at: &usize| {
        let key = &entries[*at].key;
        !key.is_of_program() || !matches!(key.read(), Err(KeyError::Gone(_)))
    };
    let shown = (0..entries.len()).filter(is_last).filter(is_change).filter(is_there);
    shown.map(|at| entries[at].to_string()).collect()
}

fn document(changed: &Changed) -> Value {
    let line = |entry: &Entry| {
        json!({
            "what": entry.key.to_string(), "key": entry.key, "before": entry.before, "written": entry.after,
            "now": entry.key.read().ok().flatten(),
        })
    };
    let lines: Vec<Value> = changed.entries.iter().map(line).collect();
    let queues = changed.scope.as_ref().and_then(Scope::queues);
    json!({
        "name": changed.scope.as_ref().map_or(changed.name.as_str(), Scope::name), "queues": queues, "state": changed.state, "by": changed.by, "pid": changed.pid, "since": changed.since,
        "journal": changed.journal, "lines": lines,
    })
}

/// A time that is over, as people say it.
pub(crate) fn ago(since: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |span| span.as_secs());
    match now.saturating_sub(since) {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds @ 7200..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

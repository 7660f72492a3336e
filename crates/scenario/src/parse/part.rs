//! `[engine]` and `[kernel]`: what executors in real time make of a scenario.

use super::ParseError;
use super::expect::watch;
use super::node::Table;
use crate::{EnginePart, Expect, KernelPart, Kind, Release};

type Result<T> = std::result::Result<T, ParseError>;

pub(super) fn engine(whole: &Table<'_>, expect: &Expect) -> Result<EnginePart> {
    let Some(node) = whole.get("engine") else { return Ok(EnginePart::default()) };
    let table = node.table("the table [engine]")?.only(&["run", "why", "watch"])?;
    Ok(EnginePart { not_runnable: not_runnable(&table, true)?, watch: watched(&table, expect)? })
}

pub(super) fn kernel(whole: &Table<'_>, expect: &Expect) -> Result<KernelPart> {
    let mut part = KernelPart::not_said(expect.tolerance.engine);
    let Some(node) = whole.get("kernel") else { return Ok(part) };
    let table = node.table("the table [kernel]")?.only(&["run", "why", "watch", "since", "tolerance"])?;
    if !table.has("run") {
        return Err(table.error("[kernel] needs run = true, or run = false and why = \"...\""));
    }
    part.not_runnable = not_runnable(&table, false)?;
    part.watch = watched(&table, expect)?;
    part.since = table.map("since", |node| {
        let text = node.text("a release of Linux such as \"7.3\"")?;
        let release = Release::parse(text).filter(|release| release.to_string() == text);
        release.ok_or_else(|| node.wrong("a release of Linux such as \"7.3\""))
    })?;
    if let Some(node) = table.get("tolerance") {
        let order = node.is_text() && node.text("a time")? == "order";
        part.tolerance = if order { None } else { Some(node.short_span()?) };
    }
    Ok(part)
}

/// `run` and `why`, which go together.
fn not_runnable(table: &Table<'_>, default: bool) -> Result<Option<String>> {
    let why = table.map("why", |node| match node.text("a sentence")? {
        text if text.trim().is_empty() => Err(node.wrong("a sentence")),
        text => Ok(text.to_owned()),
    })?;
    match (table.flag("run", default)?, why) {
        (false, None) => Err(table.error("run = false needs why = \"...\"")),
        (true, Some(_)) => Err(table.error("why says why it does not run; add run = false, or leave it out")),
        (_, why) => Ok(why),
    }
}

fn watched(table: &Table<'_>, expect: &Expect) -> Result<Option<Vec<Kind>>> {
    let Some(node) = table.get("watch") else { return Ok(None) };
    let kinds = watch(&node)?;
    match kinds.iter().find(|kind| !kind.is_in(&expect.watch)) {
        Some(kind) => Err(node.error(format!("{} is not among the kinds that [expect] watches", kind.name()))),
        None => Ok(Some(kinds)),
    }
}

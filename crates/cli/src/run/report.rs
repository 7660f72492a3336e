//! What `napier run` prints of itself.

use std::io::Write as _;

use anyhow::bail;
use napier_lab::modes::Mode;
use napier_linux::change::{Entry, Preview, Undone, preview, shown};
use napier_linux::process::MissedRing;
use serde_json::{Value, json};

use super::seen::RunOutcome;
use super::{Changes, RunArgs};

/// Prints what would be changed.
pub(crate) fn dry_run(mode: Mode, as_json: bool, changes: &Changes) -> anyhow::Result<()> {
    let previews = changes.previews()?;
    let refused = previews.iter().filter(|preview| preview.now.is_err()).count();
    let mut out = std::io::stdout().lock();
    if as_json {
        let document = json!({
            "mode": mode.to_string(), "dev": changes.device.name, "queues": changes.scope.queues(), "lines": previews_json(&previews),
            "program": changes.program_lines(),
        });
        writeln!(out, "{document}")?;
    } else {
        preview_lines(changes, &previews).iter().try_for_each(|line| writeln!(out, "{line}"))?;
    }
    if refused > 0 {
        bail!("{refused} of {} values would be refused, so the mode cannot be applied", previews.len());
    }
    Ok(())
}

impl Changes {
    /// What would be changed, at both ends of a pair.
    pub(crate) fn previews(&self) -> anyhow::Result<Vec<Preview>> {
        let mut previews = preview(&self.pair.own);
        previews.extend(preview(&self.lines));
        if let Some((end, lines)) = &self.pair.other {
            previews.extend(super::pair::at(end, || Ok(preview(lines)))?);
        }
        Ok(previews)
    }
}

/// For programs.
pub(crate) fn previews_json(previews: &[Preview]) -> Vec<Value> {
    let line = |preview: &Preview| {
        json!({
            "key": preview.line.key,
            "name": preview.line.key.to_string(),
            "now": preview.now.as_ref().ok(),
            "value": preview.line.value,
            "changes": preview.now.is_ok() && preview.is_change(),
            "refused": preview.now.as_ref().err().map(ToString::to_string),
            "command": preview.line.command(),
        })
    };
    previews.iter().map(line).collect()
}

/// For a person.
pub(crate) fn preview_lines(changes: &Changes, previews: &[Preview]) -> Vec<String> {
    let line = |preview: &Preview| {
        let (key, value) = (&preview.line.key, &preview.line.value);
        match &preview.now {
            Ok(_) if !preview.is_change() => format!("{}: {value} already", shown(&key.to_string())),
            Ok(now) => shown(&format!("{key}: {} -> {value}", now.as_deref().unwrap_or("(not told)"))),
            Err(error) => shown(&format!("{key}: refused: {error}")),
        }
    };
    let mut lines: Vec<String> = previews.iter().map(line).collect();
    if !changes.pair.own.is_empty() {
        let name = shown(&changes.device.name);
        lines.push(format!("values of the mode on the NAPI instances that {name} gets by that"));
    }
    lines.extend(changes.program_lines().iter().map(|line| shown(line)));
    lines
}

/// What a run changed, and what became of it.
pub(crate) struct Report(Value);

impl Report {
    pub(crate) fn new(args: &RunArgs, changes: &Changes) -> Self {
        Self(json!({
            "mode": args.mode().to_string(), "dev": changes.device.name, "queues": args.queues,
            "program": changes.program_lines(),
        }))
    }

    /// Descriptors that were set.
    pub(crate) fn counts(&mut self, (epolls, sockets, strict): (usize, usize, usize)) {
        self.0["epolls_set"] = epolls.into();
        self.0["sockets_set"] = sockets.into();
        self.0["made_set"] = strict.into();
    }

    /// Rings of io_uring that were registered, and those that are not reached.
    pub(crate) fn rings(&mut self, set: usize, missed: &[MissedRing]) {
        self.0["rings_set"] = set.into();
        self.0["rings_missed"] = json!(missed);
    }

    /// Whether the mode acts.
    pub(crate) fn seen(&mut self, seen: &RunOutcome) {
        self.0["seen"] = seen.json();
    }

    /// How often the interface had new instances.
    pub(crate) fn renewed(&mut self, times: usize) {
        self.0["renewed"] = times.into();
    }

    pub(crate) fn changed(&mut self, entries: &[Entry]) {
        self.0["changed"] = entries.iter().map(ToString::to_string).collect();
    }

    /// The whole, at the end.
    pub(crate) fn end(mut self, status: Option<u8>, undone: &Undone) -> Value {
        self.0["put_back"] = undone.put_back.clone().into();
        self.0["left"] = undone.left.clone().into();
        self.0["gone"] = undone.gone.clone().into();
        self.0["status"] = status.into();
        self.0
    }
}

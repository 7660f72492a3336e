//! `napier mode list`: each mode that stays, whether it is in force, and whether it acts.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::time::Duration;

use napier_linux::change::{ChangeState, Changed, DeviceRef, Scope, found, preview, shown};
use napier_linux::observe::{Acts, Observation};
use serde::Serialize;
use serde_json::json;

use super::keeping::{Kept, Whom};
use super::unit_files::{Enabled, UnitFiles, companion};
use super::{KEEP, SET};
use crate::host::ago;
use crate::page::Page;
use crate::run::{Subject, lines_for, look_once};

/// Length of the look.
const LOOK: Duration = Duration::from_secs(1);
/// With fewer packets nothing can be said.
const PACKETS_MIN: u64 = 20;

/// Options of `napier mode list`.
#[derive(clap::Args)]
pub(crate) struct ListArgs {
    /// Do not look for a second whether modes act
    #[arg(long)]
    no_look: bool,

    /// Units below another root, as `enable` has it
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,

    /// Print one JSON object (docs/howto/keep-a-mode.md)
    #[arg(long)]
    json: bool,
}

/// A mode that stays.
#[derive(Serialize)]
struct ModeRow {
    /// The service, or what else it is for; null if it is for no program.
    r#for: Option<String>,
    mode: String,
    dev: String,
    queues: Option<napier_linux::change::Queues>,
    /// Whether systemd starts it.
    enabled: bool,
    /// Whether all values are the mode's now.
    in_force: bool,
    /// Why not.
    why_not: Option<String>,
    /// What keeps it; 0 if nothing does, or it needs no process.
    pid: u32,
    /// Seconds since 1970; 0 if it is not known.
    since: u64,
    /// Whether it was seen to act.
    acts: Acts,
    /// What was seen.
    seen: Option<String>,
    #[serde(skip)]
    kept: Option<Kept>,
}

/// Prints them.
pub(crate) fn run(args: &ListArgs) -> anyhow::Result<()> {
    let mut rows = rows(&UnitFiles::new(args.root.as_deref()).all(), &found());
    if !args.no_look {
        // All at once: each takes a second.
        std::thread::scope(|scope| {
            for row in rows.iter_mut().filter(|row| row.in_force) {
                scope.spawn(move || look(row));
            }
        });
    }
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", json!({ "modes": rows }))?;
        return Ok(());
    }
    let mut page = Page::default();
    if rows.is_empty() {
        page.paragraph("No mode stays on this machine. `napier mode enable` keeps one for a service, `napier mode keep` in the foreground.");
    }
    for row in &rows {
        row.print(&mut page, !args.no_look);
    }
    out.write_all(page.finish().as_bytes())?;
    Ok(())
}

/// What is enabled, and behind it what is kept all the same.
fn rows(enabled: &[Enabled], changed: &[Changed]) -> Vec<ModeRow> {
    let keepers: Vec<(&Changed, Keeper)> = changed.iter().filter_map(|one| Some((one, Keeper::of(one)?))).collect();
    let mut rows = Vec::new();
    for one in enabled {
        let by = keepers.iter().find(|(_, keeper)| keeper.unit() == Some(&one.unit));
        rows.push(ModeRow::new(Some(one.unit.clone()), true, &one.kept, by.map(|(changed, _)| *changed)));
    }
    for (changed, keeper) in &keepers {
        if !enabled.iter().any(|one| keeper.unit() == Some(&one.unit)) {
            rows.push(ModeRow::new(keeper.whom.clone(), false, &keeper.kept, Some(changed)));
        }
    }
    for one in changed.iter().filter(|one| one.state == ChangeState::Kept && one.by == SET) {
        rows.push(ModeRow::set(one));
    }
    rows
}

/// A `mode keep` that runs, by its own words.
struct Keeper {
    whom: Option<String>,
    kept: Kept,
}

impl Keeper {
    fn of(changed: &Changed) -> Option<Self> {
        let words = changed.by.strip_prefix(KEEP).filter(|_| changed.state == ChangeState::Running)?;
        let (mode, whom) = match words.trim_start().strip_prefix("--mode ")?.split_once(' ') {
            Some((mode, whom)) => (mode, Some(whom.trim_start_matches("--").to_owned())),
            None => (words.trim_start().strip_prefix("--mode ")?, None),
        };
        let scope = changed.scope.as_ref()?;
        let kept = Kept { dev: scope.name().to_owned(), mode: mode.parse().ok()?, queues: scope.queues().cloned() };
        Some(Self {
            whom: whom.map(|whom| whom.strip_prefix("unit ").map_or_else(|| whom.clone(), ToOwned::to_owned)),
            kept,
        })
    }

    fn unit(&self) -> Option<&String> {
        self.whom.as_ref().filter(|whom| whom.ends_with(".service"))
    }
}

impl ModeRow {
    fn new(r#for: Option<String>, enabled: bool, kept: &Kept, by: Option<&Changed>) -> Self {
        let why_not = match (by, &r#for) {
            (None, Some(unit)) => Some(format!("nothing keeps it now: systemctl status {unit} {}", companion(unit))),
            (None, None) => Some("nothing keeps it now".to_owned()),
            (Some(by), _) => why_not(kept, by),
        };
        Self {
            r#for,
            mode: kept.mode.to_string(),
            dev: kept.dev.clone(),
            queues: kept.queues.clone(),
            enabled,
            in_force: why_not.is_none(),
            why_not,
            pid: by.map_or(0, |by| by.pid),
            since: by.map_or(0, |by| by.since),
            acts: Acts::Unknown,
            seen: None,
            kept: Some(kept.clone()),
        }
    }

    /// The device's half alone, which no process keeps.
    fn set(changed: &Changed) -> Self {
        let device = changed.scope.as_ref().map_or(changed.name.as_str(), Scope::name).to_owned();
        let is_changed = |entry: &napier_linux::change::Entry| {
            !entry.key.read().ok().flatten().is_some_and(|now| entry.key.same(&now, &entry.after))
        };
        let others = changed.entries.iter().filter(|entry| is_changed(entry)).count();
        let why_not = (others > 0).then(|| format!("{others} of its values are others now"));
        Self {
            r#for: None,
            mode: SET.to_owned(),
            dev: device,
            queues: None,
            enabled: false,
            in_force: why_not.is_none(),
            why_not,
            pid: 0,
            since: changed.since,
            acts: Acts::Unknown,
            seen: None,
            kept: None,
        }
    }

    fn print(&self, page: &mut Page, is_looked: bool) {
        let place = self
            .queues
            .as_ref()
            .map_or_else(|| self.dev.clone(), |queues| format!("{} of {}", queues.words(), self.dev));
        let whom = self.r#for.as_deref().unwrap_or("any program that asks by itself");
        page.title(&shown(&format!("{whom}: {} on {place}", self.mode)));
        let is_set = self.kept.is_none();
        page.words(
            "enabled   ",
            match (self.enabled, is_set) {
                (true, _) => "yes",
                (false, true) => "until napier mode clear, or the next start of the machine",
                (false, false) => "no: napier mode keep runs by itself",
            },
        );
        let since = if self.since == 0 { String::new() } else { format!(", since {} ago", ago(self.since)) };
        let process = if self.pid == 0 { String::new() } else { format!(", pid {}", self.pid) };
        page.words(
            "in force  ",
            &shown(&self.why_not.as_ref().map_or_else(|| format!("yes{since}{process}"), |why| format!("no: {why}"))),
        );
        if self.in_force && !is_set && is_looked {
            let seen = self.seen.as_deref().unwrap_or("not seen");
            page.words(
                "acts      ",
                &shown(&match self.acts {
                    Acts::Yes => format!("yes: {seen}"),
                    Acts::No => format!("NO: {seen}"),
                    Acts::Unknown => format!("not known: {seen}"),
                }),
            );
        }
        page.blank();
    }
}

/// Why a mode that something keeps is not in force just now.
fn why_not(kept: &Kept, by: &Changed) -> Option<String> {
    if !matches!(&by.scope, Some(Scope::Device { netns, .. }) if netns.is_current()) {
        return Some("its interface is in another network namespace, which is not looked into from here".to_owned());
    }
    let lines = DeviceRef::named(&kept.dev).map_err(|error| error.to_string()).and_then(|device| {
        lines_for(&kept.mode.plan(), &device, kept.queues.as_ref()).map_err(|error| error.to_string())
    });
    match lines {
        Err(why) => Some(why),
        Ok(lines) => {
            let others = preview(&lines).iter().filter(|preview| preview.is_change()).count();
            (others > 0).then(|| format!("{others} of {} values are others just now", lines.len()))
        }
    }
}

fn look(row: &mut ModeRow) {
    let Some(kept) = &row.kept else { return };
    let Ok(device) = DeviceRef::named(&kept.dev) else { return };
    if row.r#for.is_none() {
        row.seen = Some("it is for no program".to_owned());
        return;
    }
    let Some(roots) = row.r#for.as_deref().and_then(Whom::named).and_then(|whom| whom.roots()) else {
        row.seen = Some("the program does not run".to_owned());
        return;
    };
    let (tells, _harmed) = channel();
    let subject =
        Subject { mode: row.mode.clone(), plan: kept.mode.plan(), device, roots, harmed: tells, is_quiet: false };
    let Some(Observation { acts, packets, lines, .. }) = look_once(&subject, LOOK) else { return };
    let packets = packets.unwrap_or(0);
    if packets < PACKETS_MIN {
        row.seen = Some(format!("{packets} packets came in {} s", LOOK.as_secs()));
        return;
    }
    (row.acts, row.seen) = (acts, Some(lines.join("; ")));
}

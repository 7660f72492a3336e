//! `napier doctor`.

mod saved;
mod sides;

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use napier_linux::change::{self, Each, Journals, Line};
use napier_linux::doctor::{Finding, Severity};
use napier_linux::facts::Facts;
use serde::Serialize;

use crate::Told;
use crate::confirm::{self, Confirm, OnTrial};
use crate::page::{Page, plural};
use crate::target::TargetArgs;
use sides::{Side, all, good, unasked};

/// Options of `napier doctor`.
#[derive(clap::Args)]
pub(crate) struct DoctorArgs {
    /// The interface to look at, in the namespace of this command or of the program; without it all that are up
    #[arg(long, value_name = "IF")]
    dev: Option<String>,

    /// A program to look at too: its epoll instances, sockets and threads, in its namespace
    #[arg(long, value_name = "PID", conflicts_with = "target")]
    pid: Option<u32>,

    #[command(flatten)]
    target: TargetArgs,

    /// How many threads of the program serve; without it, its epoll instances that receive from the interface
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    workers: Option<u32>,

    /// Mend what is serious or a warning and can be mended by a setting; `napier host undo` puts it back
    #[arg(long)]
    fix: bool,

    /// With --fix: put it back after this time, such as 60s, unless it is confirmed (docs/host.md)
    #[arg(long, value_name = "TIME", requires = "fix", value_parser = confirm::confirm)]
    confirm: Option<Confirm>,

    /// With --fix, change nothing and print what would be changed
    #[arg(long, requires = "fix")]
    dry_run: bool,

    /// Notes in full, and all that was looked at
    #[arg(long, conflicts_with = "json")]
    all: bool,

    /// Print one JSON object (docs/doctor/README.md)
    #[arg(long)]
    json: bool,

    /// Write what this machine's files and kernel say to a file, to be looked at elsewhere with --from; nothing is judged
    #[arg(long, value_name = "FILE", conflicts_with_all = ["pid", "target", "workers", "fix", "all", "json"])]
    save: Option<PathBuf>,

    /// Judge the machine that a file of --save is of
    #[arg(long, value_name = "FILE", conflicts_with_all = ["save", "pid", "target", "fix"])]
    from: Option<PathBuf>,
}

/// How long what happens is looked at: whether packets that come are polled, and what threads of the program wait in.
const WINDOW: Duration = Duration::from_millis(400);

/// What `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    kernel: &'a str,
    serious: usize,
    warnings: usize,
    notes: usize,
    findings: Vec<FindingDocument>,
    good: Vec<&'static str>,
    not_asked: Vec<&'static str>,
    unseen: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<FixDocument>,
    facts: &'a Facts,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    outside: Vec<&'a Facts>,
}

#[derive(Serialize)]
struct FindingDocument {
    #[serde(flatten)]
    finding: Finding,
    commands: Vec<String>,
    page: String,
    /// Of the namespace of the command, where the program is in another one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    outside: bool,
}

#[derive(Serialize)]
struct FixDocument {
    dry_run: bool,
    changed: Vec<String>,
    already: Vec<String>,
    refused: Vec<RefusedDocument>,
}

#[derive(Serialize)]
struct RefusedDocument {
    line: String,
    why: String,
}

/// Prints what is wrong, and mends it if that is asked. Fails if something serious is left.
pub(crate) fn run(args: &DoctorArgs) -> anyhow::Result<()> {
    if let Some(path) = &args.save {
        return saved::save(path, args.dev.as_deref());
    }
    let mut sides = sides::read(args)?;
    let lines: Vec<Line> = sides.iter().flat_map(Side::lines).collect();
    let mut fixed = None;
    let mut trial = None;
    if args.fix && !args.dry_run {
        fixed = Some(fix(args, &sides, &mut trial)?);
        // What is left is what counts.
        sides.iter_mut().try_for_each(Side::read_again)?;
    }
    let mut out = io::stdout().lock();
    if args.json {
        let fix = args.fix.then(|| document_of(fixed.as_ref(), &lines));
        serde_json::to_writer_pretty(&mut out, &document(&sides, fix))?;
        writeln!(out)?;
    } else {
        let page = text(&sides, args, fixed.as_ref(), &lines);
        out.write_all(page.as_bytes())?;
    }
    out.flush()?;
    drop(out);
    trial.map_or(Ok(()), OnTrial::ask)?;
    match count(&all(&sides), Severity::Serious) {
        0 => Ok(()),
        serious => Err(Told(format!("{} found", plural(serious, "serious thing"))).into()),
    }
}

/// Applies what mends each side, on trial if that may cut this machine off.
fn fix(args: &DoctorArgs, sides: &[Side], trial: &mut Option<OnTrial>) -> anyhow::Result<Each> {
    let told = |found: &change::Recovered| found.lines().iter().for_each(|line| eprintln!("napier: {line}"));
    let mut open: Vec<(&Side, Vec<Line>, Journals)> = Vec::new();
    for side in sides {
        let lines = side.lines();
        match side.run(|| Journals::begin(lines.clone(), &mut { told }))? {
            Ok(journals) => open.push((side, lines, journals)),
            Err(error) => {
                open.into_iter().for_each(|(_, _, journals)| journals.end());
                return Err(error.into());
            }
        }
    }
    let mut each = Each::default();
    let paths = open.iter().flat_map(|(_, _, journals)| journals.paths()).collect();
    let lines: Vec<Line> = open.iter().flat_map(|(_, lines, _)| lines.clone()).collect();
    let done = OnTrial::of_journals(paths, confirm::span(args.confirm, lines.iter())).and_then(|begun| {
        *trial = begun;
        open.iter_mut().try_for_each(|(side, lines, journals)| {
            let all = || lines.iter().try_for_each(|line| journals.apply(line, &mut each, &mut { told }));
            Ok(side.run(all)??)
        })
    });
    open.into_iter().for_each(|(_, _, journals)| journals.end());
    if each.done.is_empty() {
        trial.take().into_iter().for_each(OnTrial::end);
    }
    done.map(|()| each)
}

fn count(findings: &[Finding], severity: Severity) -> usize {
    findings.iter().filter(|finding| finding.severity == severity).count()
}

/// Lines that mend what is more than a note, each place once, the weightiest first.
fn fixable(findings: &[Finding]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for finding in findings.iter().filter(|finding| finding.severity > Severity::Note) {
        for line in &finding.mend {
            if !lines.iter().any(|known| known.key == line.key) {
                lines.push(line.clone());
            }
        }
    }
    lines
}

fn document(sides: &[Side], fix: Option<FixDocument>) -> Document<'_> {
    let of = |side: &Side, finding: Finding| FindingDocument {
        commands: finding.mend.iter().filter_map(Line::command).collect(),
        page: finding.page(),
        outside: side.is_outer,
        finding,
    };
    let facts = &sides[0].facts;
    let findings = &all(sides);
    let mut documents: Vec<FindingDocument> =
        sides.iter().flat_map(|side| side.findings.iter().map(move |finding| of(side, finding.clone()))).collect();
    documents.sort_by_key(|document| std::cmp::Reverse(document.finding.severity));
    Document {
        kernel: &facts.kernel.release,
        serious: count(findings, Severity::Serious),
        warnings: count(findings, Severity::Warning),
        notes: count(findings, Severity::Note),
        findings: documents,
        good: good(sides),
        not_asked: unasked(sides),
        unseen: &facts.unseen,
        fix,
        outside: sides[1..].iter().map(|side| &side.facts).collect(),
        facts,
    }
}

fn document_of(fixed: Option<&Each>, lines: &[Line]) -> FixDocument {
    let words = |lines: &[Line]| lines.iter().map(Line::to_string).collect();
    let refused = |(line, why): &(Line, String)| RefusedDocument { line: line.to_string(), why: why.clone() };
    match fixed {
        None => FixDocument { dry_run: true, changed: words(lines), already: Vec::new(), refused: Vec::new() },
        Some(each) => FixDocument {
            dry_run: false,
            changed: words(&each.done),
            already: words(&each.already),
            refused: each.refused.iter().map(refused).collect(),
        },
    }
}

/// Commands that are shown of a finding; the rest is counted.
const COMMANDS_MAX: usize = 6;

fn text(sides: &[Side], args: &DoctorArgs, fixed: Option<&Each>, lines: &[Line]) -> String {
    let (facts, findings) = (&sides[0].facts, &all(sides));
    let mut page = Page::default();
    page.paragraph(&format!("{}: {}", console::style(verdict(findings)).bold(), summary(findings, args, lines.len())));
    page.blank();
    if let Some(each) = fixed {
        crate::page::applied(&mut page, each);
    }
    if args.dry_run {
        page.title("Would change");
        lines.iter().for_each(|line| page.command(&line.command().unwrap_or_else(|| line.to_string())));
        page.blank();
    }
    // Where a mode for the interface that was asked about is to be set is the answer, however good all is.
    let is_answer = |finding: &Finding| args.dev.is_some() && finding.id == "instances-below";
    let is_shown = |finding: &&Finding| args.all || finding.severity > Severity::Note || is_answer(finding);
    findings.iter().filter(is_shown).for_each(|finding| in_full(&mut page, finding));
    for unseen in &facts.unseen {
        page.paragraph(&format!("Not seen: {unseen}."));
    }
    page.blank();
    head(&mut page, facts);
    for side in &sides[1..] {
        page.paragraph("In the network namespace of this command, where its packets come up:");
        devices(&mut page, &side.facts);
    }
    let short = findings.iter().filter(|finding| !is_shown(finding));
    let notes: Vec<String> =
        short.map(|finding| format!("{} ({})", finding.what.trim_end_matches('.'), finding.id)).collect();
    let words = |all: Vec<&'static str>| all.into_iter().map(str::to_owned).collect::<Vec<_>>();
    let parts = [("good", words(good(sides))), ("note", notes), ("not asked", words(unasked(sides)))];
    for (what, all) in parts.into_iter().filter(|(_, all)| !all.is_empty()) {
        let shown = if args.all { all.len() } else { all.len().min(LOOKS_SHOWN) };
        let more = if shown < all.len() { format!(" and {} more (--all)", all.len() - shown) } else { String::new() };
        let between = if what == "note" { "; " } else { ", " };
        page.words(&format!("{:<13}", format!("{what} {}", all.len())), &(all[..shown].join(between) + &more));
    }
    page.finish()
}

/// Of what was looked at, and was good or not there, so many are named without `--all`; so many notes as well.
const LOOKS_SHOWN: usize = 8;

/// Findings that are seen in what packets do, and not in what is set.
const BY_EFFECT: [&str; 3] = ["no-instance", "nothing-polls", "connections-without-instance"];

/// The answer in a word or three.
fn verdict(findings: &[Finding]) -> &'static str {
    let serious = |finding: &&Finding| finding.severity == Severity::Serious;
    match findings.iter().map(|finding| finding.severity).max() {
        Some(Severity::Serious) if findings.iter().filter(serious).any(|one| BY_EFFECT.contains(&one.id)) => {
            "NOT IN EFFECT"
        }
        Some(Severity::Serious) => "WRONG",
        Some(Severity::Warning) => "WORKS AT A COST",
        Some(Severity::Note) | None => "GOOD",
    }
}

/// A finding with why, and how it is mended.
fn in_full(page: &mut Page, finding: &Finding) {
    page.title(&format!("{} {}", mark(finding.severity), finding.id));
    page.words("", &finding.what);
    page.words("why   ", &finding.why);
    for (at, line) in finding.mend.iter().take(COMMANDS_MAX).enumerate() {
        let command = line.command().unwrap_or_else(|| line.to_string());
        page.labelled_command(if at == 0 { "mend  " } else { "      " }, &command);
    }
    if finding.mend.len() > COMMANDS_MAX {
        page.words("      ", &format!("and {} more like these", finding.mend.len() - COMMANDS_MAX));
    }
    if let Some(advice) = &finding.advice {
        page.words(if finding.mend.is_empty() { "mend  " } else { "      " }, advice);
    }
    page.words("page  ", &finding.page());
    page.blank();
}

/// A weight in capitals, in colour on a terminal.
fn mark(severity: Severity) -> String {
    let mark = console::style(format!("{:<8}", severity.name().to_uppercase())).bold();
    match severity {
        Severity::Serious => mark.red().to_string(),
        Severity::Warning => mark.yellow().to_string(),
        Severity::Note => mark.cyan().to_string(),
    }
}

/// Interfaces that are shown; the rest is counted.
const DEVICES_MAX: usize = 12;

fn head(page: &mut Page, facts: &Facts) {
    let cpus = facts.cpus.online.len();
    page.paragraph(&format!("Looked at: Linux {}, {}", facts.kernel.release, plural(cpus, "CPU")));
    devices(page, facts);
    if let Some(program) = &facts.program {
        let with_id = program.sockets.iter().filter(|socket| socket.napi_id.is_some());
        let rings = program.rings.len();
        let parts = [
            plural(program.threads.len(), "thread"),
            plural(program.epolls.len(), "epoll instance"),
            if rings == 0 { String::new() } else { format!("{} of io_uring", plural(rings, "ring")) },
            format!("{} from NAPI instances", plural(with_id.count(), "socket")),
        ];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        page.words("", &format!("{} ({}): {}", program.name, program.pid, parts.join(", ")));
    }
}

fn devices(page: &mut Page, facts: &Facts) {
    for device in facts.devices.iter().take(DEVICES_MAX) {
        let driver = device.driver.as_deref().unwrap_or("no driver named");
        let queues = plural(device.rx_queues.len(), "receive queue");
        let instances = match &device.instances {
            Some(found) => plural(found.len(), "NAPI instance"),
            None => "NAPI instances not listed by this kernel".to_owned(),
        };
        let state = if device.is_up { "" } else { ", down" };
        page.words("", &format!("{}: {driver}, {queues}, {instances}{state}", device.name()));
    }
    if facts.devices.len() > DEVICES_MAX {
        page.words("", &format!("and {} more interfaces that are up", facts.devices.len() - DEVICES_MAX));
    }
}

fn summary(findings: &[Finding], args: &DoctorArgs, lines: usize) -> String {
    let of = |severity| count(findings, severity);
    if findings.iter().all(|finding| finding.severity == Severity::Note) {
        let notes = if findings.is_empty() { String::new() } else { format!(" {}.", plural(findings.len(), "note")) };
        return format!("Nothing is wrong that can be seen.{notes}");
    }
    let counts = [
        format!("{} serious", of(Severity::Serious)),
        plural(of(Severity::Warning), "warning"),
        plural(of(Severity::Note), "note"),
    ];
    let mut text = format!("{}.", counts.join(", "));
    if lines > 0 && !args.fix {
        let dev = args.dev.as_ref().map(|dev| format!(" --dev {dev}")).unwrap_or_default();
        let pid = args.target.option(args.pid).map(|option| format!(" {option}")).unwrap_or_default();
        let settings = plural(lines, "setting");
        text += &format!(
            " napier doctor{dev}{pid} --fix changes {settings}; napier host undo puts {} back.",
            if lines == 1 { "it" } else { "them" }
        );
    }
    text
}

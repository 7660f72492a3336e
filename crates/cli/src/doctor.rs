//! `napier doctor`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use napier_linux::Netns;
use napier_linux::change::{self, Each, Journals, Line};
use napier_linux::doctor::{Finding, Severity, diagnose, looked_at, not_asked};
use napier_linux::facts::{self, Facts, Picture, Scope};
use serde::Serialize;

use crate::confirm::{self, Confirm, OnTrial};
use crate::page::{Page, plural};
use crate::{Told, Usage};

/// Options of `napier doctor`.
#[derive(clap::Args)]
pub(crate) struct DoctorArgs {
    /// The interface to look at; without it all that are up
    #[arg(long, value_name = "IF")]
    dev: Option<String>,

    /// A program to look at too: its epoll instances, sockets and threads, in its namespace
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,

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
    #[arg(long, value_name = "FILE", conflicts_with_all = ["pid", "workers", "fix", "all", "json"])]
    save: Option<PathBuf>,

    /// Judge the machine that a file of --save is of
    #[arg(long, value_name = "FILE", conflicts_with_all = ["save", "pid", "fix"])]
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
    findings: Vec<FindingDocument<'a>>,
    good: Vec<&'static str>,
    not_asked: Vec<&'static str>,
    unseen: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<FixDocument>,
    facts: &'a Facts,
}

#[derive(Serialize)]
struct FindingDocument<'a> {
    #[serde(flatten)]
    finding: &'a Finding,
    commands: Vec<String>,
    page: String,
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
        return save(path, args.dev.as_deref());
    }
    match args.pid {
        None => inside(args),
        Some(pid) => {
            let gone = || Usage(anyhow::anyhow!("there is no process {pid}"));
            std::fs::metadata(format!("/proc/{pid}")).map_err(|_| gone())?;
            let own = Netns::current()?;
            match facts::namespace_of(pid) {
                Ok(namespace) if !same(&own, &namespace) => namespace.run(|| inside(args))?,
                Ok(_) => inside(args),
                // Another user's: what may be seen of it is little, and the report says so.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => inside(args),
                Err(error) => Err(error).with_context(|| format!("the namespace of {pid}")),
            }
        }
    }
}

fn same(one: &Netns, other: &Netns) -> bool {
    let inode = |netns: &Netns| netns.inode().ok();
    inode(one).is_some() && inode(one) == inode(other)
}

fn inside(args: &DoctorArgs) -> anyhow::Result<()> {
    let scope = Scope { device: args.dev.clone(), pid: args.pid, workers: args.workers, window: WINDOW };
    let read = || -> anyhow::Result<Facts> {
        let Some(path) = &args.from else { return Ok(Facts::read(&scope).map_err(|error| Usage(error.into()))?) };
        let picture = Picture::read(path).with_context(|| path.display().to_string());
        let found = picture.map_err(Usage)?.facts(args.dev.as_deref()).map_err(|error| Usage(error.into()))?;
        Ok(Facts { workers: args.workers, ..found })
    };
    let mut facts = read()?;
    let mut findings = diagnose(&facts);
    let lines = fixable(&findings);
    let mut fixed = None;
    let mut trial = None;
    if args.fix && !args.dry_run {
        fixed = Some(fix(args, &lines, &mut trial)?);
        // What is left is what counts.
        facts = read()?;
        findings = diagnose(&facts);
    }
    let mut out = io::stdout().lock();
    if args.json {
        let fix = args.fix.then(|| document_of(fixed.as_ref(), &lines));
        serde_json::to_writer_pretty(&mut out, &document(&facts, &findings, fix))?;
        writeln!(out)?;
    } else {
        let page = text(&facts, &findings, args, fixed.as_ref(), &lines);
        out.write_all(page.as_bytes())?;
    }
    out.flush()?;
    drop(out);
    trial.map_or(Ok(()), OnTrial::ask)?;
    match count(&findings, Severity::Serious) {
        0 => Ok(()),
        serious => Err(Told(format!("{} found", plural(serious, "serious thing"))).into()),
    }
}

/// A picture of this machine in a file.
fn save(path: &Path, device: Option<&str>) -> anyhow::Result<()> {
    let picture = Picture::take(device).map_err(|error| Usage(error.into()))?;
    let mut text = serde_json::to_vec_pretty(&picture)?;
    text.push(b'\n');
    std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))?;
    let contents = picture.contents();
    let threads = if contents.threads.is_empty() {
        String::new()
    } else {
        format!(", and the names of NAPI threads: {}", contents.threads.join(", "))
    };
    let mut page = Page::default();
    page.paragraph(&format!(
        "{}: what {} and the kernel say of this machine. It has no addresses, no host name and no program's name but \
         irqbalance. It has the names of interfaces: {}{threads}. It is text: read it before you send it.",
        path.display(),
        plural(contents.files, "file"),
        contents.interfaces.join(", ")
    ));
    page.paragraph(&format!("What is found in it: napier doctor --from {}", path.display()));
    Ok(io::stdout().write_all(page.finish().as_bytes())?)
}

/// Applies the lines, on trial if they may cut this machine off.
fn fix(args: &DoctorArgs, lines: &[Line], trial: &mut Option<OnTrial>) -> anyhow::Result<Each> {
    let told = &mut |found: &change::Recovered| found.lines().iter().for_each(|line| eprintln!("napier: {line}"));
    let mut journals = Journals::begin(lines.to_vec(), told)?;
    let mut each = Each::default();
    let done = OnTrial::of_journals(journals.paths(), confirm::span(args.confirm, lines.iter())).and_then(|begun| {
        *trial = begun;
        Ok(lines.iter().try_for_each(|line| journals.apply(line, &mut each, told))?)
    });
    journals.end();
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

fn document<'a>(facts: &'a Facts, findings: &'a [Finding], fix: Option<FixDocument>) -> Document<'a> {
    let of = |finding: &'a Finding| FindingDocument {
        commands: finding.mend.iter().filter_map(Line::command).collect(),
        page: finding.page(),
        finding,
    };
    Document {
        kernel: &facts.kernel.release,
        serious: count(findings, Severity::Serious),
        warnings: count(findings, Severity::Warning),
        notes: count(findings, Severity::Note),
        findings: findings.iter().map(of).collect(),
        good: looked_at(facts, findings),
        not_asked: not_asked(facts, findings),
        unseen: &facts.unseen,
        fix,
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

fn text(facts: &Facts, findings: &[Finding], args: &DoctorArgs, fixed: Option<&Each>, lines: &[Line]) -> String {
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
    let is_shown = |finding: &&Finding| args.all || finding.severity > Severity::Note;
    findings.iter().filter(is_shown).for_each(|finding| in_full(&mut page, finding));
    for unseen in &facts.unseen {
        page.paragraph(&format!("Not seen: {unseen}."));
    }
    page.blank();
    head(&mut page, facts);
    let short = findings.iter().filter(|finding| !is_shown(finding));
    let notes: Vec<String> =
        short.map(|finding| format!("{} ({})", finding.what.trim_end_matches('.'), finding.id)).collect();
    let words = |all: Vec<&'static str>| all.into_iter().map(str::to_owned).collect::<Vec<_>>();
    let parts = [
        ("good", words(looked_at(facts, findings))),
        ("note", notes),
        ("not asked", words(not_asked(facts, findings))),
    ];
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
    if let Some(program) = &facts.program {
        let with_id = program.sockets.iter().filter(|socket| socket.napi_id.is_some());
        let rings = program.rings.len();
        let rings = if rings == 0 { String::new() } else { format!(", {} of io_uring", plural(rings, "ring")) };
        let parts = [
            plural(program.threads.len(), "thread"),
            plural(program.epolls.len(), "epoll instance") + &rings,
            format!("{} from NAPI instances", plural(with_id.count(), "socket")),
        ];
        page.words("", &format!("{} ({}): {}", program.name, program.pid, parts.join(", ")));
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
        let pid = args.pid.map(|pid| format!(" --pid {pid}")).unwrap_or_default();
        let settings = plural(lines, "setting");
        text += &format!(
            " napier doctor{dev}{pid} --fix changes {settings}; napier host undo puts {} back.",
            if lines == 1 { "it" } else { "them" }
        );
    }
    text
}

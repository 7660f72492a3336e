//! `napier host tune`.

use std::collections::VecDeque;
use std::io::{self, Write as _};

use anyhow::bail;
use clap::ValueEnum;
use napier_linux::change::{self, Each, Journals, Line, Preview, Recovered};
use napier_linux::facts::{Facts, Scope};
use napier_linux::tune::{self, Delivery, Step, Tuning};
use serde::Serialize;

use crate::confirm::{self, ChangeArgs, OnTrial};
use crate::page::{Page, plural};
use crate::{Told, Usage};

/// Options of `napier host tune`.
#[derive(clap::Args)]
pub(crate) struct HostTuneArgs {
    /// What to tune for
    #[arg(long, value_enum, value_name = "NAME", default_value = "low-latency")]
    profile: Profile,

    /// The interface
    #[arg(long, value_name = "IF")]
    dev: String,

    /// CPUs for interrupts and NAPI threads, such as 2 or 2-3: queue 0 has the first, and so on in turn; work queues get the others
    /// [default: the last of the interface's NUMA node, as many as it has queues]
    #[arg(long, value_name = "LIST", value_parser = cpu_list)]
    cpus: Option<CpuList>,

    /// How packets are to be delivered
    #[arg(long, value_enum, value_name = "HOW", default_value = "busy-read")]
    delivery: TuneHow,

    /// Set this many queues too; it interrupts traffic for a moment
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    queues: Option<u32>,

    #[command(flatten)]
    change: ChangeArgs,
}

#[derive(Clone, Copy, ValueEnum)]
enum Profile {
    /// Short latencies, whatever they cost in power and throughput
    LowLatency,
}

#[derive(Clone, Copy, ValueEnum)]
enum TuneHow {
    /// By interrupts, none deferred
    Interrupts,
    /// By programs as they receive (busy_read 400 µs), with deferral
    BusyRead,
    /// By a real-time thread for each NAPI instance
    Threaded,
    /// By such threads that poll for ever (since Linux 6.19)
    ThreadedBusyPoll,
}

impl TuneHow {
    const fn delivery(self) -> Delivery {
        match self {
            Self::Interrupts => Delivery::Interrupts,
            Self::BusyRead => Delivery::BusyRead,
            Self::Threaded => Delivery::Threaded,
            Self::ThreadedBusyPoll => Delivery::ThreadedBusyPoll,
        }
    }
}

/// CPUs of a list.
#[derive(Clone)]
struct CpuList(Vec<u32>);

fn cpu_list(text: &str) -> Result<CpuList, String> {
    let list = change::cpu_list(text).filter(|list| !list.is_empty());
    list.map(CpuList).ok_or_else(|| format!("`{text}` is no list of CPUs such as 0,2-3"))
}

/// What became of one thing of the list.
#[derive(Serialize)]
struct StepOutcome {
    what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    now: Option<String>,
    state: StepState,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum StepState {
    Changed,
    WouldChange,
    Already,
    Refused,
}

#[derive(Serialize)]
struct Document<'a> {
    device: &'a str,
    cpus: &'a [u32],
    dry_run: bool,
    lines: &'a [StepOutcome],
}

/// Tunes, or says what it would do. Fails only if nothing could be begun: what a machine lacks is said.
pub(crate) fn run(args: &HostTuneArgs) -> anyhow::Result<()> {
    let Profile::LowLatency = args.profile;
    let facts = read(args)?;
    let Some(device) = facts.devices.first() else { bail!("{} is gone", args.dev) };
    let cpus = match &args.cpus {
        Some(CpuList(list)) => {
            if let Some(cpu) = list.iter().find(|cpu| !facts.cpus.online.contains(cpu)) {
                return Err(Usage(anyhow::anyhow!("--cpus: CPU {cpu} is not online")).into());
            }
            list.clone()
        }
        None => tune::default_cpus(&facts, device, args.delivery.delivery(), args.queues),
    };
    let tuning = Tuning { delivery: args.delivery.delivery(), cpus, queues: args.queues };
    tune::check(device, &tuning).map_err(|error| Usage(error.into()))?;
    let steps = tune::steps(&facts, device, &tuning);
    let mut trial = None;
    let outcomes = if args.change.dry_run {
        let threads = tune::threads(&facts, device, &tuning).into_iter().map(Step::Line);
        let kept = !matches!(tuning.delivery, Delivery::Threaded | Delivery::ThreadedBusyPoll);
        steps.into_iter().chain(threads.filter(|_| !kept)).map(would).collect()
    } else {
        apply(args, &tuning, steps, &mut trial)?
    };
    let mut out = io::stdout().lock();
    if args.change.json {
        let document =
            Document { device: &args.dev, cpus: &tuning.cpus, dry_run: args.change.dry_run, lines: &outcomes };
        serde_json::to_writer_pretty(&mut out, &document)?;
        writeln!(out)?;
    } else {
        out.write_all(text(args, &tuning, &outcomes).as_bytes())?;
    }
    out.flush()?;
    let changed = outcomes.iter().any(|outcome| outcome.state == StepState::Changed);
    match tried_and_refused(&outcomes) {
        refused if refused > 0 && !changed && !args.change.dry_run => {
            let settings = plural(refused, "setting");
            Err(Told(format!("nothing was changed: {settings} refused, for the reasons above")).into())
        }
        _ => trial.map_or(Ok(()), OnTrial::ask),
    }
}

/// Settings that this machine has, and that it did not let be changed.
fn tried_and_refused(outcomes: &[StepOutcome]) -> usize {
    outcomes.iter().filter(|outcome| outcome.state == StepState::Refused && outcome.command.is_some()).count()
}

fn read(args: &HostTuneArgs) -> anyhow::Result<Facts> {
    let scope = Scope { device: Some(args.dev.clone()), ..Scope::default() };
    Ok(Facts::read(&scope).map_err(|error| Usage(error.into()))?)
}

fn refused(line: &Line, why: String) -> StepOutcome {
    StepOutcome {
        what: line.to_string(),
        command: line.command(),
        now: None,
        state: StepState::Refused,
        why: Some(why),
    }
}

fn would(step: Step) -> StepOutcome {
    let line = match step {
        Step::Not { what, why } => return lacking(what, why),
        Step::Line(line) => line,
    };
    let preview = Preview { now: line.key.read(), line };
    let state = if preview.is_change() { StepState::WouldChange } else { StepState::Already };
    match preview.now {
        Ok(now) => {
            StepOutcome { what: preview.line.to_string(), command: preview.line.command(), now, state, why: None }
        }
        Err(error) => refused(&preview.line, error.to_string()),
    }
}

fn lacking(what: String, why: String) -> StepOutcome {
    StepOutcome { what, command: None, now: None, state: StepState::Refused, why: Some(why) }
}

fn apply(
    args: &HostTuneArgs,
    tuning: &Tuning,
    steps: Vec<Step>,
    trial: &mut Option<OnTrial>,
) -> anyhow::Result<Vec<StepOutcome>> {
    let lines: Vec<Line> =
        steps.iter().filter_map(|step| if let Step::Line(line) = step { Some(line.clone()) } else { None }).collect();
    let span = confirm::span(args.change.confirm, lines.iter());
    let mut journals = Journals::begin(lines, &mut tell)?;
    match OnTrial::of_journals(journals.paths(), span) {
        Ok(begun) => *trial = begun,
        Err(error) => {
            journals.end();
            return Err(error);
        }
    }
    let mut outcomes = Vec::new();
    let mut steps = VecDeque::from(steps);
    let mut is_reset = false;
    while let Some(step) = steps.pop_front() {
        // A driver that got other queues or rings may have asked for its interrupts anew: they have other numbers now.
        if step.is_interrupt() && std::mem::take(&mut is_reset) {
            steps.push_front(step);
            if let Some(device) = read(args)?.devices.first() {
                tune::renew_interrupts(&mut steps, device, tuning);
            }
            journals.expect(steps.iter().filter_map(|step| step.line().cloned()).collect());
            continue;
        }
        match step {
            Step::Not { what, why } => outcomes.push(lacking(what, why)),
            Step::Line(line) => {
                let outcome = one(&mut journals, &line)?;
                is_reset |= outcome.state == StepState::Changed && line.key.resets_queues();
                outcomes.push(outcome);
            }
        }
    }
    // Threads are made by the lines before.
    if matches!(tuning.delivery, Delivery::Threaded | Delivery::ThreadedBusyPoll)
        && let facts = read(args)?
        && let Some(device) = facts.devices.first()
    {
        let lines = tune::threads(&facts, device, tuning);
        journals.expect(lines.clone());
        for line in &lines {
            outcomes.push(one(&mut journals, line)?);
        }
    }
    journals.end();
    if !outcomes.iter().any(|outcome| outcome.state == StepState::Changed) {
        trial.take().into_iter().for_each(OnTrial::end);
    }
    Ok(outcomes)
}

/// What an earlier run has left, and was put back.
fn tell(found: &Recovered) {
    found.lines().iter().for_each(|line| eprintln!("napier: {line}"));
}

fn one(journals: &mut Journals, line: &Line) -> anyhow::Result<StepOutcome> {
    let now = line.key.read().ok().flatten();
    let mut each = Each::default();
    journals.apply(line, &mut each, &mut tell)?;
    let state = if each.done.is_empty() { StepState::Already } else { StepState::Changed };
    Ok(match each.refused.pop() {
        Some((line, why)) => refused(&line, why),
        None => StepOutcome { what: line.to_string(), command: line.command(), now, state, why: None },
    })
}

fn text(args: &HostTuneArgs, tuning: &Tuning, outcomes: &[StepOutcome]) -> String {
    let mut page = Page::default();
    let cpus: Vec<String> = tuning.cpus.iter().map(u32::to_string).collect();
    page.paragraph(&format!("{}: low latency, packets on CPU {}", args.dev, cpus.join(", ")));
    page.blank();
    let of = |state| outcomes.iter().filter(move |outcome| outcome.state == state);
    for (state, title) in
        [(StepState::Changed, "Changed"), (StepState::WouldChange, "Would change"), (StepState::Already, "As it is")]
    {
        if of(state).next().is_none() {
            continue;
        }
        page.title(title);
        for outcome in of(state) {
            let command = outcome.command.as_deref().unwrap_or(&outcome.what);
            let now = outcome.now.as_deref().filter(|_| state != StepState::Already);
            page.command(&now.map_or_else(|| command.to_owned(), |now| format!("{command:<60} # was {now}")));
        }
        page.blank();
    }
    if of(StepState::Refused).next().is_some() {
        page.title("Not here");
        for outcome in of(StepState::Refused) {
            page.words("", &format!("{}: {}", outcome.what, outcome.why.as_deref().unwrap_or_default()));
        }
        page.blank();
    }
    let changed = of(StepState::Changed).count();
    let refused = tried_and_refused(outcomes);
    page.paragraph(&match (args.change.dry_run, changed) {
        (true, _) => {
            format!("{} would be changed; nothing was.", plural(of(StepState::WouldChange).count(), "setting"))
        }
        (false, 0) if refused > 0 => {
            let tried = outcomes.iter().filter(|outcome| outcome.command.is_some()).count();
            format!("Nothing was changed: {refused} of {} were refused.", plural(tried, "setting"))
        }
        (false, 0) => "Nothing had to be changed.".to_owned(),
        (false, changed) => {
            format!("{} changed, until napier host undo or the next start of the machine.", plural(changed, "setting"))
        }
    });
    page.finish()
}

//! `napier explain`.

use std::io::{BufWriter, Write as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use napier_linux::explain::{Cause, Explained, Explainer, PathEvent, PolledBy, Stage, StageFigures, refused};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::page::{Page, plural};
use crate::{Told, Usage, units};

/// Between two looks: the kernel's buffers hold some hundred thousand events for each CPU.
const LOOK: Duration = Duration::from_millis(20);

/// Options of `napier explain`.
#[derive(clap::Args)]
#[command(
    after_help = "Nothing is changed, and nothing is loaded into the program or the kernel: static tracepoints are recorded for this \
                        time (docs/explain.md). It needs root, and makes each request take a few microseconds longer meanwhile."
)]
pub(crate) struct ExplainArgs {
    /// The program whose requests are followed, with all that it started
    #[arg(long, value_name = "PID")]
    pid: u32,

    /// How long, such as 5s
    #[arg(long = "for", value_name = "TIME", default_value = "5s", value_parser = units::run_length)]
    span: Duration,

    /// Only what comes and goes by these interfaces [default: all]
    #[arg(long, value_name = "IF", num_args = 1.., value_delimiter = ',')]
    dev: Vec<String>,

    /// Write the events too, one JSON object a line
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,

    /// Print one JSON object (docs/explain.md)
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    pid: u32,
    program: &'a str,
    answer: &'a str,
    longest: Option<Stage>,
    because: Option<&'a str>,
    #[serde(flatten)]
    seen: &'a Explained,
}

/// Records for a while, and says where the time of the program's requests went.
pub(crate) fn run(args: &ExplainArgs, interrupted: &AtomicBool) -> anyhow::Result<()> {
    let pid = args.pid;
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm"))
        .map_err(|_| Usage(anyhow!("there is no process {pid}: `pgrep -x NAME` says which there are")))?;
    let name = name.trim_end();
    let seen = record(args, interrupted)?;
    let because = seen.longest().map(|stage| seen.because(stage, name));
    let answer = answer(&seen, name, because.as_deref());
    let mut out = std::io::stdout().lock();
    if args.json {
        let (longest, because) = (seen.longest(), because.as_deref());
        let document = Document { pid, program: name, answer: &answer, longest, because, seen: &seen };
        serde_json::to_writer_pretty(&mut out, &document)?;
        writeln!(out)?;
    } else {
        out.write_all(text(&seen, name, pid, &answer).as_bytes())?;
    }
    out.flush()?;
    if seen.requests == 0 {
        return Err(Told(format!("no request of {name} ({pid}) could be followed")).into());
    }
    Ok(())
}

fn record(args: &ExplainArgs, interrupted: &AtomicBool) -> anyhow::Result<Explained> {
    let not_traced = |error| anyhow!("{}", refused(&error));
    let mut explainer = Explainer::new(args.pid, &args.dev).map_err(not_traced)?;
    explainer.begin().map_err(not_traced)?;
    let mut events = match &args.events {
        Some(path) => {
            let file = std::fs::File::create(path).with_context(|| format!("--events {}", path.display()))?;
            let mut file = BufWriter::new(file);
            serde_json::to_writer(&mut file, explainer.threads())?;
            writeln!(file)?;
            Some(file)
        }
        None => None,
    };
    let mut failed = None;
    let begun = Instant::now();
    while begun.elapsed() < args.span && !interrupted.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK.min(args.span.saturating_sub(begun.elapsed())));
        let mut each = |event: &PathEvent| {
            if let Some(file) = &mut events {
                let written = serde_json::to_writer(&mut *file, event).map_err(std::io::Error::from);
                failed = failed.take().or(written.and_then(|()| writeln!(file)).err());
            }
        };
        explainer.look(now_ns(), &mut each).map_err(not_traced)?;
        if std::fs::metadata(format!("/proc/{}", args.pid)).is_err() {
            break;
        }
    }
    let seen = explainer.end(begun.elapsed());
    match (failed, events.map(|mut file| file.flush())) {
        (Some(error), _) | (None, Some(Err(error))) => Err(error).context("--events"),
        (None, None | Some(Ok(()))) => Ok(seen),
    }
}

/// As the kernel stamps its events.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// The answer in a sentence.
fn answer(seen: &Explained, name: &str, because: Option<&str>) -> String {
    let (Some(stage), Some(because)) = (seen.longest(), because) else {
        return format!("no request of {name} was followed in {:.1} s: {}", seen.seconds, nothing(seen));
    };
    let StageFigures { mean_us, share_pct, .. } = seen.of(stage);
    let (from, to) = stage.ends();
    format!(
        "of {:.1} us that a request takes, {mean_us:.1} us ({share_pct:.0} %) are spent between {from} and {to}: {because}",
        seen.whole.mean_us
    )
}

/// Why nothing was followed.
fn nothing(seen: &Explained) -> String {
    match (seen.unmatched, seen.unanswered) {
        (0, 0) => "it received nothing, or its connections are not sockets of IPv4 or IPv6".to_owned(),
        (0, unanswered) => format!("{}, and nothing was sent on their connections", plural(unanswered, "request")),
        (unmatched, _) => format!(
            "{} of which no poll was seen: packets came by another interface, or while its socket was locked",
            plural(unmatched, "receive")
        ),
    }
}

fn text(seen: &Explained, name: &str, pid: u32, answer: &str) -> String {
    let mut page = Page::default();
    page.paragraph(&console::style(answer).bold().to_string());
    page.blank();
    if seen.requests > 0 {
        page.title(&format!(
            "{:<26}{:>10}{:>10}{:>10}{:>9}{:>10}",
            "stage", "p50 us", "p99 us", "mean us", "share", "requests"
        ));
        for figures in seen.stages.iter().chain([&seen.whole]).filter(|figures| figures.requests > 0) {
            page.title(&row(figures));
        }
        page.blank();
        page.words("polls  ", &shares(seen.polled_by.iter().map(|(who, count)| (polled_by(*who, name), *count))));
        page.words("began  ", &shares(seen.causes.iter().map(|(cause, count)| (caused_by(*cause), *count))));
    }
    let left = [
        (seen.unmatched, "receive of which no poll was seen", "receives of which no poll was seen"),
        (seen.unanswered, "request without an answer", "requests without an answer"),
    ];
    let left = left.iter().filter(|(count, ..)| *count > 0);
    let left: Vec<String> = left.map(|(n, one, many)| format!("{n} {}", if *n == 1 { one } else { many })).collect();
    let seen_of = format!("{name} ({pid}), {:.1} s, {}", seen.seconds, plural(seen.requests, "request"));
    page.words("seen   ", &[vec![seen_of], left].concat().join("; "));
    if seen.lost_events > 0 {
        let lost = plural(seen.lost_events, "event");
        page.words("LOST   ", &format!("{lost} came faster than they were read: requests around them are not counted"));
    }
    page.finish()
}

fn row(figures: &StageFigures) -> String {
    let StageFigures { name, p50_us, p99_us, mean_us, share_pct, requests, .. } = figures;
    format!("{name:<26}{p50_us:>10.1}{p99_us:>10.1}{mean_us:>10.1}{:>9}{requests:>10}", format!("{share_pct:.1} %"))
}

/// Parts in percent, the largest first.
fn shares<'a>(parts: impl Iterator<Item = (&'a str, u64)>) -> String {
    let mut parts: Vec<(&str, u64)> = parts.collect();
    let all: u64 = parts.iter().map(|(_, count)| count).sum();
    parts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let part = |(name, count): &(&str, u64)| format!("{name} {} %", (count * 100 + all / 2) / all.max(1));
    let is_shown = |(_, count): &&(&str, u64)| count * 200 >= all;
    parts.iter().filter(is_shown).map(part).collect::<Vec<_>>().join(", ")
}

const fn polled_by(who: PolledBy, name: &str) -> &str {
    match who {
        PolledBy::Program => name,
        PolledBy::NapiThread => "a thread of the instance",
        PolledBy::Softirq => "softirq",
        PolledBy::Ksoftirqd => "ksoftirqd",
        PolledBy::Other => "another thread",
    }
}

const fn caused_by(cause: Cause) -> &'static str {
    match cause {
        Cause::Interrupt => "an interrupt",
        Cause::Timer => "a timer of deferral",
        Cause::Raised => "a softirq or thread that a sender or another CPU asked for",
        Cause::Program => "the program's own poll",
        Cause::Unseen => "nothing seen: it was being polled",
    }
}

#[cfg(test)]
#[path = "explain_tests.rs"]
mod tests;

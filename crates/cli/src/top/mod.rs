//! `napier top`: what a running engine, or the kernel's NAPI instances, do now (docs/top.md).
//!
//! | file | what is in it |
//! |---|---|
//! | `snapshot` | what is counted at a moment |
//! | `source`, `engine`, `programs`, `kernel`, `figures` | where that comes from |
//! | `rows`, `layout`, `verdict` | two snapshots as tables, tables as text, what is wrong with them: pure |
//! | `app`, `view` | the state of the view and how it looks: no terminal |
//! | `live`, `screen` | the terminal, and that it is given back |

mod app;
mod engine;
mod figures;
mod kernel;
mod layout;
mod live;
mod programs;
mod rows;
mod screen;
mod snapshot;
mod source;
mod verdict;
mod view;

use std::io::{IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use serde_json::{Value, json};

use crate::Usage;
use crate::target::TargetArgs;
use engine::EngineSource;
use kernel::KernelSource;
use source::FigureSource;

/// Whose figures, and how.
#[derive(clap::Args)]
pub(crate) struct TopArgs {
    /// The engine of this process, or at this socket [default: the only one that answers]
    #[arg(long, value_name = "PID|PATH", conflicts_with = "dev")]
    engine: Option<String>,

    /// Interfaces of the kernel instead; with a program, in its namespace if they are there
    #[arg(long, value_name = "IF", num_args = 1.., value_delimiter = ',')]
    dev: Vec<String>,

    #[command(flatten)]
    target: TargetArgs,

    /// Time between two looks, in seconds or with a unit such as 500ms: 0.1 to 60 s
    #[arg(long, value_name = "TIME", default_value = "1", value_parser = interval)]
    interval: Duration,

    /// Look for one interval, print tables and end
    #[arg(long)]
    once: bool,

    /// The same as one JSON object
    #[arg(long)]
    json: bool,
}

impl TopArgs {
    /// Whether it takes the terminal.
    pub(crate) const fn is_live(&self) -> bool {
        !self.once && !self.json
    }
}

fn interval(text: &str) -> Result<Duration, String> {
    crate::units::time_within(text, crate::units::Bare::Seconds, 0.1..=60.0).map(Duration::from_secs_f64)
}

/// Enters the namespace of the interfaces, which may be that of a program.
fn enter(args: &TopArgs) -> anyhow::Result<()> {
    let Some(target) = args.target.find(None)? else { return Ok(()) };
    let Some(first) = args.dev.first() else {
        return Err(Usage(anyhow!("which interface its packets come through is to be named: --dev IF")).into());
    };
    let wired = crate::target::wired(first, &target.processes())?;
    wired.netns.map_or(Ok(()), |netns| Ok(netns.enter()?))
}

/// A clock that only runs forward, in ns.
struct Clock(Instant);

impl Clock {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

pub(crate) fn run(args: &TopArgs, interrupted: &AtomicBool) -> anyhow::Result<()> {
    if args.is_live() && !std::io::stdout().is_terminal() {
        return Err(Usage(anyhow!("standard output is no terminal: give --once or --json")).into());
    }
    enter(args)?;
    let mut source: Box<dyn FigureSource> = if args.dev.is_empty() {
        Box::new(EngineSource::open(args.engine.as_deref())?)
    } else {
        Box::new(KernelSource::open(&args.dev)?)
    };
    let clock = Clock(Instant::now());
    if args.is_live() {
        return live::run(source, clock, args.interval);
    }
    let then = source.look(&clock)?;
    let ends = Instant::now() + args.interval;
    while let Some(left) = ends.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        anyhow::ensure!(!interrupted.load(Ordering::Relaxed), "interrupted");
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
    let now = source.look(&clock)?;
    let (tables, verdicts) = (rows::tables(&then, &now), verdict::verdicts(&then, &now));
    let seconds = Duration::from_nanos(now.at_ns.saturating_sub(then.at_ns)).as_secs_f64();
    let text = if args.json {
        let mut object = layout::as_json(&tables);
        object.insert("of".to_owned(), json!(source.title()));
        object.insert("seconds".to_owned(), json!((seconds * 1e6).round() / 1e6));
        object.insert("notes".to_owned(), json!(now.notes));
        object.insert("verdicts".to_owned(), json!(verdicts));
        format!("{}\n", Value::Object(object))
    } else {
        let notes: String = verdicts.iter().chain(&now.notes).map(|note| format!("\n{note}\n")).collect();
        format!("{}, {seconds:.2} s\n\n{}{notes}", source.title(), layout::text(&tables, screen::width()))
    };
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

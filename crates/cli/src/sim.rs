//! `napier sim`.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Subcommand;
use indicatif::{ProgressBar, ProgressStyle};
use napier_lab::farm::{self, Campaign};
use napier_lab::transmit::{self, Experiment, Path, published};

/// What is simulated.
#[derive(Subcommand)]
pub(crate) enum Sim {
    /// Run random machines with random timelines and faults, checked after every step
    Farm(FarmArgs),
    /// Many senders on few transmit queues, with locks or with a list: a published experiment, from cache lines and locks
    Transmit(TransmitArgs),
}

/// Options of `napier sim transmit`.
#[derive(clap::Args)]
pub(crate) struct TransmitArgs {
    /// Programs that send
    #[arg(long, value_name = "N", default_value_t = published::SENDERS)]
    senders: u16,

    /// Transmit queues
    #[arg(long, value_name = "N", default_value_t = published::QUEUES)]
    queues: u16,

    /// Where all randomness comes from
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// How senders of a queue get along: locked, llist
    #[arg(long, value_name = "PATH", value_delimiter = ',', default_value = "locked,llist", value_parser = parse_path)]
    path: Vec<Path>,

    /// Run again with each chosen parameter times 0.5, 0.7, 1.4 and 2, and each computed one times 0.5 and 2
    #[arg(long)]
    sensitivity: bool,

    /// Threads [default: one per CPU]
    #[arg(long, value_name = "J")]
    jobs: Option<usize>,

    /// Print one JSON object instead of the table (docs/json.md)
    #[arg(long)]
    json: bool,
}

fn parse_path(text: &str) -> Result<Path, String> {
    let named = Path::ALL.into_iter().find(|path| path.name() == text);
    named.ok_or_else(|| "no such path: give locked, llist or both".to_owned())
}

/// Options of `napier sim farm`.
#[derive(clap::Args)]
pub(crate) struct FarmArgs {
    /// Seeds to run
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    runs: u64,

    /// Begin no new seed after this many seconds
    #[arg(long, value_name = "S")]
    seconds: Option<u64>,

    /// First seed: a number, or a text such as a commit, which is hashed
    #[arg(long, value_name = "SEED", default_value = "1")]
    seed: String,

    /// Threads [default: one per CPU]
    #[arg(long, value_name = "J")]
    jobs: Option<usize>,

    /// Where the scenario of a failing seed is written [default: napier-farm-SEED]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,

    /// Print one JSON object instead of the table (docs/json.md)
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(sim: &Sim, interrupted: &AtomicBool) -> anyhow::Result<()> {
    match sim {
        Sim::Farm(args) => run_farm(args, interrupted),
        Sim::Transmit(args) => run_transmit(args, interrupted),
    }
}

/// How many threads to use.
fn threads(jobs: Option<usize>) -> anyhow::Result<usize> {
    match jobs {
        Some(0) => Err(crate::Usage(anyhow::anyhow!("--jobs must be at least 1")).into()),
        Some(jobs) => Ok(jobs),
        None => Ok(std::thread::available_parallelism().map_or(1, usize::from)),
    }
}

fn run_transmit(args: &TransmitArgs, interrupted: &AtomicBool) -> anyhow::Result<()> {
    let mut paths = args.path.clone();
    paths.sort_unstable();
    paths.dedup();
    let experiment = Experiment {
        senders: args.senders,
        queues: args.queues,
        seed: args.seed,
        paths,
        sensitivity: args.sensitivity,
        jobs: threads(args.jobs)?,
    };
    let bar = if std::io::stderr().is_terminal() && !args.json {
        let style = ProgressStyle::with_template("{bar:40} {pos}/{len} runs, {elapsed}").expect("a fixed template");
        ProgressBar::no_length().with_style(style)
    } else {
        ProgressBar::hidden()
    };
    let report = transmit::run(&experiment, interrupted, &|done, all| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    })
    .map_err(|error| crate::Usage(error.into()))?;
    bar.finish_and_clear();
    if interrupted.load(Ordering::Relaxed) {
        bail!("interrupted");
    }
    let text = if args.json { transmit::json(&report) } else { transmit::table(&report) };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(())
}

fn run_farm(args: &FarmArgs, interrupted: &AtomicBool) -> anyhow::Result<()> {
    let jobs = threads(args.jobs)?;
    if args.runs == 0 {
        return Err(crate::Usage(anyhow::anyhow!("--runs must be at least 1")).into());
    }
    let campaign = Campaign {
        seed: farm::seed_from(&args.seed),
        runs: args.runs,
        time_limit: args.seconds.map(Duration::from_secs),
        jobs,
    };
    let bar = progress_bar(args);
    let report = farm::run(&campaign, interrupted, &|done| bar.set_position(done));
    bar.finish_and_clear();
    if interrupted.load(Ordering::Relaxed) {
        bail!("interrupted after {} seeds", report.runs);
    }
    let text = if args.json { farm::json(&report) } else { farm::table(&report) };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    if let Some(failure) = &report.failure {
        let folder = args.out.clone().unwrap_or_else(|| farm::default_folder(campaign.seed));
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
        let file = folder.join(format!("seed-{}.toml", failure.seed));
        std::fs::write(&file, farm::scenario_file(failure))
            .with_context(|| format!("cannot write {}", file.display()))?;
        eprintln!("napier: wrote {}; run it with: napier conform {}", file.display(), file.display());
    }
    if let Some(why) = report.why_not_passed() {
        bail!("{why}");
    }
    Ok(())
}

fn progress_bar(args: &FarmArgs) -> ProgressBar {
    if !std::io::stderr().is_terminal() || args.json {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} seeds, {elapsed}").expect("a fixed template");
    ProgressBar::new(args.runs).with_style(style)
}

//! `napier sim`.

use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Subcommand;
use napier_lab::html::plan_page;
use napier_research::farm::{self, Campaign};
use napier_research::plan;
use napier_research::transmit::{self, Experiment, Path, published};

use crate::output::{checked, page_target, write};
use crate::progress::{self, Doing, shown_in};

/// What is simulated: a plan, or what a word says.
#[derive(clap::Args)]
#[command(
    subcommand_negates_reqs = true,
    override_usage = "napier sim [OPTIONS] <FILE|NAME>\n       napier sim <COMMAND>"
)]
pub(crate) struct Sim {
    #[command(subcommand)]
    what: Option<What>,

    #[command(flatten)]
    plan: Option<PlanArgs>,
}

/// What is simulated.
#[derive(Subcommand)]
pub(crate) enum What {
    /// Run random machines with random timelines and faults, checked after every step
    Farm(FarmArgs),
    /// Many senders on few transmit queues, with locks or with a list: a published experiment, from cache lines and locks
    Transmit(TransmitArgs),
    /// A published experiment, predicted cell by cell on a simulated machine, beside what was published
    Plan(PlanArgs),
    /// Fit a machine file to a comparison of this machine, and predict the loads that had no part in it
    Calibrate(crate::calibrate::CalibrateArgs),
    /// Join the files of `napier sim plan --out` into the table of the whole plan
    Merge {
        /// Files of results
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,

        /// Print one JSON object instead of the table (docs/json.md)
        #[arg(long)]
        json: bool,
    },
    /// Draw how a few packets reach a program in a mode, as SVG (docs/modes.md)
    Timeline(crate::timeline::TimelineArgs),
    /// Run every plan that comes along, and print the page that says how near predictions are (docs/fidelity.md)
    Fidelity {
        /// Threads; the result does not depend on it [default: one per CPU]
        #[arg(long, value_name = "J")]
        jobs: Option<usize>,
    },
}

/// Options of `napier sim plan`.
#[derive(clap::Args)]
pub(crate) struct PlanArgs {
    /// A plan that comes along, such as irq-suspension, or a file (docs/plans.md has all)
    #[arg(value_name = "FILE|NAME")]
    plan: String,

    /// Modes, instead of all of the plan
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    modes: Option<Vec<String>>,

    /// Run every N-th cell only, beginning with the I-th; needs --out
    #[arg(long, value_name = "I/N", value_parser = parse_shard, requires = "out")]
    shard: Option<(usize, usize)>,

    /// Run these cells only, such as base@200K,suspend20@MAX; needs --out
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "out", conflicts_with = "shard")]
    cells: Option<Vec<String>>,

    /// Write what is done to a file for `napier sim merge`, instead of a table; cells that it has already are not run again
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "modes"])]
    out: Option<PathBuf>,

    /// Write how each run goes on in time to this file as well: fifty slices of each, as CSV (docs/plans.md)
    #[arg(long, value_name = "FILE")]
    series: Option<PathBuf>,

    /// Write the latencies of each cell to this file as well: a log of HdrHistogram, in ns (docs/plans.md)
    #[arg(long, value_name = "FILE")]
    histograms: Option<PathBuf>,

    /// Threads; the result does not depend on it [default: one per CPU]
    #[arg(long, value_name = "J")]
    jobs: Option<usize>,

    /// Print one JSON object instead of the table (docs/json.md)
    #[arg(long)]
    json: bool,

    // Not flattened: a struct with such a part is never found to be given where it is an option.
    /// Write a page to this file as well: figures and tables in one HTML file that needs nothing else
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
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

    /// Keep each sender on a CPU, in turn, so that neighbours send on the same queue
    #[arg(long)]
    pin: bool,

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

fn parse_shard(text: &str) -> Result<(usize, usize), String> {
    let number = |text: &str| text.parse::<usize>().ok();
    let parts = text.split_once('/').and_then(|(part, of)| Some((number(part)?, number(of)?)));
    parts.filter(|(part, of)| (1..=*of).contains(part)).ok_or_else(|| "a shard is I/N, with I from 1 to N".to_owned())
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

    /// Begin no new seed after this time, in whole seconds or with a unit such as 2min. The planted mistakes are looked for after that, which takes some seconds of CPU time more
    #[arg(long, value_name = "TIME", value_parser = crate::units::whole_seconds)]
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
    let what = match (&sim.what, &sim.plan) {
        (None, plan) => return run_plan(plan.as_ref().expect("the parser asks for one of the two"), interrupted),
        // The parser's own rule for this would count --color, which stands before any word, as an option of a plan.
        (Some(_), Some(plan)) => {
            let error = anyhow::anyhow!("give the plan {} or one of the commands of `napier sim`, not both", plan.plan);
            return Err(crate::Usage(error).into());
        }
        (Some(what), None) => what,
    };
    match what {
        What::Farm(args) => run_farm(args, interrupted),
        What::Transmit(args) => run_transmit(args, interrupted),
        What::Plan(args) => run_plan(args, interrupted),
        What::Calibrate(args) => crate::calibrate::run(args, interrupted),
        What::Timeline(args) => crate::timeline::run(args),
        What::Merge { files, json } => {
            let (plan, cells) = plan::merge(files)?;
            print_cells(&plan, &cells, *json)?;
            all_held(&cells)
        }
        What::Fidelity { jobs } => {
            let doing = Doing::new("every plan that comes along", None);
            let page = plan::page(crate::jobs::threads(*jobs)?, interrupted)?;
            drop(doing);
            let Some(page) = page else { bail!("interrupted") };
            std::io::stdout().lock().write_all(page.as_bytes())?;
            Ok(())
        }
    }
}

fn run_plan(args: &PlanArgs, interrupted: &AtomicBool) -> anyhow::Result<()> {
    let mut plan = plan::named(&args.plan).map_err(|error| crate::Usage(error.into()))?;
    if let Some(modes) = &args.modes {
        plan.keep_modes(modes).map_err(|error| crate::Usage(anyhow::anyhow!(error)))?;
    }
    let before = match &args.out {
        Some(file) if file.exists() => of_before(file, &plan)?,
        _ => Vec::new(),
    };
    let is_done = |(load, mode): &(plan::PlanLoad, &plan::PlanMode)| {
        before.iter().any(|done| done.load == *load && done.mode == **mode)
    };
    let wanted: Vec<_> = asked_for(args, &plan)?.into_iter().filter(|cell| !is_done(cell)).collect();
    let (page, bar) = (page_target(args.html.as_deref())?, progress::steps("runs"));
    let series_target = args.series.as_deref().map(|path| checked(path, "--series")).transpose()?;
    let histograms_target = args.histograms.as_deref().map(|path| checked(path, "--histograms")).transpose()?;
    let (jobs, shown) = (crate::jobs::threads(args.jobs)?, shown_in(&bar));
    let ran = match (&args.series, &args.histograms) {
        (None, None) => plan::RanPlan::of(plan::run(&plan, &wanted, jobs, interrupted, &shown)),
        _ => plan::run_in_full(&plan, &wanted, jobs, interrupted, &shown),
    };
    let plan::RanPlan { mut cells, series, histograms } = ran;
    bar.finish_and_clear();
    let (done, all) = (cells.len(), wanted.len());
    // What is done is kept, however far it came.
    cells.extend(before);
    match &args.out {
        Some(file) => plan::Results::new(&args.plan, &plan, &cells).write(file)?,
        None => print_cells(&plan, &cells, args.json)?,
    }
    write(series_target.as_ref(), || series)?;
    write(histograms_target.as_ref(), || histograms)?;
    write(page.as_ref(), || plan_page(&plan::json(&plan, &cells, &plan::score(&plan, &cells))))?;
    if interrupted.load(Ordering::Relaxed) {
        bail!("interrupted after {done} of {all} cells");
    }
    all_held(&cells)
}

/// An error if a rule did not hold in any of the cells, or an end could not keep up.
fn all_held(cells: &[plan::PlanCell]) -> anyhow::Result<()> {
    match cells.iter().find_map(|cell| Some((cell, cell.predicted.as_ref().err()?))) {
        Some((cell, broken)) => bail!("{} at {}: {broken}", cell.mode.name, cell.load),
        None => Ok(()),
    }
}

fn print_cells(plan: &plan::Plan, cells: &[plan::PlanCell], json: bool) -> anyhow::Result<()> {
    let score = plan::score(plan, cells);
    let text = if json {
        serde_json::to_string(&plan::json(plan, cells, &score))? + "\n"
    } else {
        plan::table(plan, cells, &score)
    };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(())
}

/// The cells that the options leave.
fn asked_for<'a>(args: &PlanArgs, plan: &'a plan::Plan) -> anyhow::Result<Vec<(plan::PlanLoad, &'a plan::PlanMode)>> {
    let all: Vec<_> = plan.cells().collect();
    if let Some((part, of)) = args.shard {
        return Ok(all.into_iter().skip(part - 1).step_by(of).collect());
    }
    let Some(names) = &args.cells else { return Ok(all) };
    let find = |name: &String| {
        let found = all.iter().find(|(load, mode)| plan::PlanCell::name(*load, mode) == *name).copied();
        let known = all.first().map_or_else(String::new, |(load, mode)| plan::PlanCell::name(*load, mode));
        found.ok_or_else(|| {
            crate::Usage(anyhow::anyhow!("{name} is no cell of this plan; they are such as {known}")).into()
        })
    };
    names.iter().map(find).collect()
}

/// What a file of results has already.
fn of_before(file: &std::path::Path, plan: &plan::Plan) -> anyhow::Result<Vec<plan::PlanCell>> {
    let results = plan::Results::read(file)?;
    if !results.fits(plan) {
        let error = anyhow::anyhow!("{} has results of another plan or machine: give another file", file.display());
        return Err(crate::Usage(error).into());
    }
    Ok(results.cells(plan))
}

fn run_transmit(args: &TransmitArgs, interrupted: &AtomicBool) -> anyhow::Result<()> {
    let mut paths = args.path.clone();
    paths.sort_unstable();
    paths.dedup();
    let experiment = Experiment {
        senders: args.senders,
        queues: args.queues,
        pinned: args.pin,
        seed: args.seed,
        paths,
        sensitivity: args.sensitivity,
        jobs: crate::jobs::threads(args.jobs)?,
    };
    let bar = progress::steps("runs");
    let report =
        transmit::run(&experiment, interrupted, &shown_in(&bar)).map_err(|error| crate::Usage(error.into()))?;
    bar.finish_and_clear();
    if interrupted.load(Ordering::Relaxed) {
        bail!("interrupted");
    }
    let text = if args.json { transmit::json(&report) } else { transmit::table(&report) };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(())
}

fn run_farm(args: &FarmArgs, interrupted: &AtomicBool) -> anyhow::Result<()> {
    let jobs = crate::jobs::threads(args.jobs)?;
    if args.runs == 0 {
        return Err(crate::Usage(anyhow::anyhow!("--runs must be at least 1")).into());
    }
    let campaign = Campaign {
        seed: farm::seed_from(&args.seed),
        runs: args.runs,
        time_limit: args.seconds.map(Duration::from_secs),
        jobs,
    };
    let bar = progress::steps("seeds");
    bar.set_length(args.runs);
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

#[cfg(test)]
#[path = "sim_tests.rs"]
mod tests;

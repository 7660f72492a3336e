//! `napier conform`.

use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::bail;
use indicatif::ProgressBar;
use napier_conform::{self as conform, FileOutcome, FileResult, Totals};
use napier_lab::host::host_and_commit;

use crate::Usage;
use crate::page::plural;
use crate::progress::shown_in;

/// Options of `napier conform`.
#[derive(clap::Args)]
pub(crate) struct ConformArgs {
    /// Scenario files, or folders with scenario files in them and below (docs/scenarios.md)
    #[arg(value_name = "PATH", required_unless_present = "coverage")]
    paths: Vec<PathBuf>,

    /// What carries the scenarios out
    #[arg(long, value_name = "NAME", default_value = "sim")]
    executor: String,

    /// Compare the order of what is seen and the counts, and no times, as is done by itself where this machine cannot keep to them (executor
    /// kernel only)
    #[arg(long)]
    order_only: bool,

    /// With --order-only: multiply all times of the files by this (1 to 1000) [default: what this machine is seen to need to keep their
    /// order]
    #[arg(long, value_name = "TIMES", requires = "order_only", value_parser = clap::value_parser!(u32).range(1..=1000))]
    stretch: Option<u32>,

    /// Print one JSON object instead of a line per file (docs/json.md)
    #[arg(long)]
    json: bool,

    /// Run nothing; print which scenario in this folder covers which rule of its rules.toml, as markdown
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["paths", "executor", "json"])]
    coverage: Option<PathBuf>,
}

fn first_refusal(results: &[FileResult]) -> String {
    let why = |result: &FileResult| match &result.outcome {
        FileOutcome::Refused(refused) => Some(refused.why.clone()),
        FileOutcome::Pass | FileOutcome::Fail { .. } => None,
    };
    results.iter().find_map(why).unwrap_or_default()
}

/// Runs the scenarios, and fails unless all of them passed or were refused, and some were run.
pub(crate) fn run(args: &ConformArgs, interrupted: &AtomicBool) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if let Some(folder) = &args.coverage {
        out.write_all(conform::coverage(folder)?.as_bytes())?;
        return Ok(());
    }
    let mut executor = conform::executor(&args.executor).map_err(|error| Usage(error.into()))?;
    if args.order_only {
        if executor.name() != "kernel" {
            return Err(Usage(anyhow::anyhow!("--order-only is for --executor kernel")).into());
        }
        executor = conform::kernel_without_times(args.stretch);
    }
    let files = conform::find(&args.paths).map_err(|error| Usage(error.into()))?;
    let mut results = Vec::with_capacity(files.len());
    // The lines of files show how far it is.
    let bar = args.json.then(|| crate::progress::steps("files"));
    for file in &files {
        if interrupted.load(Ordering::Relaxed) {
            bail!("interrupted after {} of {} files", results.len(), files.len());
        }
        let result = conform::run_file(file, executor.as_mut());
        if !args.json {
            out.write_all(conform::line(&result).as_bytes())?;
            out.flush()?;
        }
        results.push(result);
        bar.iter().for_each(|bar| shown_in(bar)(results.len(), files.len()));
    }
    bar.iter().for_each(ProgressBar::finish_and_clear);
    let totals = Totals::of(&results);
    let end = if args.json { conform::json(&results, host_and_commit().1) } else { totals.line(executor.name()) };
    out.write_all(end.as_bytes())?;
    if totals.failed > 0 {
        bail!("{} of {} scenario files failed", totals.failed, totals.files);
    }
    // What is refused here and there is no failure; if all of it is, nothing was found out.
    if totals.refused == totals.files {
        bail!("none of {} was run: {}", plural(totals.files, "scenario file"), first_refusal(&results));
    }
    Ok(())
}

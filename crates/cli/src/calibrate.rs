//! `napier sim calibrate`.

use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, anyhow, bail};
use napier_lab::loads::Load;
use napier_lab::machines;
use napier_lab::subject::Backend;
use napier_research::calibrate::{self, Calibrated, Comparison, Depth, Wakeups};

/// Options of `napier sim calibrate`.
#[derive(clap::Args)]
pub(crate) struct CalibrateArgs {
    /// What `napier compare --json` printed, with several loads and modes
    #[arg(value_name = "FILE")]
    comparison: PathBuf,

    /// Rows of this backend
    #[arg(long, value_name = "NAME", default_value = "engine", value_parser = backend)]
    backend: Backend,

    /// What `napier bench wakeup --json` printed on the same machine: what a wake-up and leaving idleness take is set from it, and not
    /// fitted
    #[arg(long, value_name = "FILE")]
    wakeup: Option<PathBuf>,

    /// Loads that have no part in the fit, and are predicted: such as 40k,80k [default: every second one]
    #[arg(long, value_name = "LIST", value_parser = Load::parse, value_delimiter = ',')]
    hold_back: Option<Vec<Load>>,

    /// The machine to begin with: its name, or a file (docs/plans.md)
    #[arg(long, value_name = "FILE|NAME", default_value = START)]
    start: String,

    /// Write the machine file here
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Write the machine file also if its predictions are more than 30 % off, or no p99 was a mode's
    #[arg(long, requires = "out")]
    anyway: bool,

    /// Threads; the result does not depend on it [default: one per CPU]
    #[arg(long, value_name = "J", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
}

/// What a fit begins with.
pub(crate) const START: &str = "small-vm";

fn backend(name: &str) -> Result<Backend, String> {
    match Backend::parse_list(name)?[..] {
        [backend] => Ok(backend),
        _ => Err("a machine is fitted to the rows of one backend".to_owned()),
    }
}

/// Runs the command.
pub(crate) fn run(args: &CalibrateArgs, interrupted: &AtomicBool) -> anyhow::Result<()> {
    let mut comparison = calibrate::read(&args.comparison, args.backend).map_err(|error| crate::Usage(error.into()))?;
    if let Some(file) = &args.wakeup {
        let wakeups = Wakeups::read(file, &comparison.host).map_err(|error| crate::Usage(error.into()))?;
        comparison.wakeups = Some(wakeups);
    }
    let held_back = match &args.hold_back {
        Some(loads) => loads.clone(),
        None => calibrate::default_held_back(&comparison.rows),
    };
    if let Some(load) = held_back.iter().find(|load| !comparison.rows.iter().any(|row| row.load == **load)) {
        let error = anyhow!("{} has no rows at {load}, so they cannot be held back", args.comparison.display());
        return Err(crate::Usage(error).into());
    }
    let calibrated = fitted(comparison, &held_back, &args.start, args.jobs, interrupted)?;
    let distrust = calibrated.machine.known.distrust();
    let out = args.out.as_ref().filter(|_| distrust.is_none() || args.anyway);
    if let Some(file) = out {
        std::fs::write(file, &calibrated.machine.text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    let mut text = calibrate::text(&calibrated);
    if let Some(file) = out {
        let anyway = if distrust.is_some() { " --anyway" } else { "" };
        text += &format!("\nwrote {}; napier advise --machine {0}{anyway} takes it\n", file.display());
    }
    std::io::stdout().lock().write_all(text.as_bytes())?;
    match distrust.filter(|_| !args.anyway) {
        None => Ok(()),
        Some(_) if args.out.is_some() => {
            bail!("no machine file is written: compare again on a quieter machine, or give --anyway")
        }
        Some(_) => Err(crate::ExitWith(1).into()),
    }
}

/// A machine fitted to a comparison.
pub(crate) fn fitted(
    comparison: Comparison,
    held_back: &[Load],
    start: &str,
    jobs: Option<u16>,
    interrupted: &AtomicBool,
) -> anyhow::Result<Calibrated> {
    let start = machines::server_named(start).map_err(|error| crate::Usage(error.into()))?;
    if comparison.rows.iter().all(|row| held_back.contains(&row.load)) {
        let error = anyhow!("all loads are held back, and none is left to fit to: compare several loads");
        return Err(crate::Usage(error).into());
    }
    let bar = crate::progress::steps("runs");
    let jobs = crate::jobs::threads(jobs.map(usize::from))?;
    let calibrated = calibrate::calibrate(
        &start,
        comparison,
        held_back,
        Depth::default(),
        jobs,
        interrupted,
        &crate::progress::shown_in(&bar),
    )?;
    bar.finish_and_clear();
    Ok(calibrated)
}

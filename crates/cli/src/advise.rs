//! `napier advise`.

mod seen;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, anyhow, bail};
use napier_kv::service::Service;
use napier_lab::advise::{self, Advice, Effort, Goal, Verdict, Workload};
use napier_lab::html::advise_page;
use napier_lab::loads::Load;
use napier_lab::machines::{self, MachineFile};
use napier_lab::modes::{self, Mode};
use napier_lab::subject::Backend;
use napier_linux::process::this_program;
use napier_research::calibrate::{self, Comparison, Wakeups};

use crate::output::PageFile;
use crate::page::plural;
use crate::units;
use seen::Seen;

/// What is compared before a machine is fitted: one mode of each kind.
const MEASURED_MODES: &str = "base,defer20,suspend20,fullbusy";

/// And for how long, in minutes.
const MEASURED_MINUTES: &str = "1";

/// For the commands that are printed.
const DEVICE: &str = "eth0";

/// What is simulated if no machine is named.
pub(crate) const MACHINE: &str = "epyc-7662-cx5";

/// Options of `napier advise`.
#[derive(clap::Args)]
pub(crate) struct AdviseArgs {
    /// Requests per second over all queues, such as 120k; with --live, --pcap or --arrivals those that were seen, faster or slower [default there: as they were]
    #[arg(long, alias = "load", value_name = "RATE", value_parser = units::rate, required_unless_present_any = ["judge", "live", "pcap", "arrivals"])]
    rate: Option<u64>,

    /// Watch the program of --pid for so long, and take its requests, its connections and its CPU time for the workload; it needs root
    #[arg(long, value_name = "TIME", value_parser = units::run_length, requires = "pid", conflicts_with_all = ["pcap", "connections"])]
    live: Option<std::time::Duration>,

    /// The program that is watched
    #[arg(long, value_name = "PID", requires = "live")]
    pid: Option<u32>,

    /// Take the requests in a file of captured packets for the workload: pcap or pcapng, as `tcpdump -w FILE` writes it
    #[arg(long, value_name = "FILE", conflicts_with = "connections")]
    pcap: Option<PathBuf>,

    /// Take the requests in a log for the workload: lines of a time in us, a connection and, if it is known, the time of service in us, with commas between
    #[arg(long, value_name = "FILE", conflicts_with_all = ["connections", "live", "pcap"])]
    arrivals: Option<PathBuf>,

    /// The server's port in that file [default: the one that most others send to]
    #[arg(long, value_name = "PORT", requires = "pcap")]
    port: Option<u16>,

    /// The highest rate that must be sustained too
    #[arg(long, value_name = "RATE", value_parser = units::rate)]
    peak: Option<u64>,

    /// Time that each request takes the program beside what the machine file says, in us or with a unit: such as 6us, exp:6us (exponential with that
    /// mean) or hist:FILE (lines of a time and its weight)
    #[arg(long, value_name = "TIME")]
    service: Option<String>,

    /// Queues, each with a CPU and a thread of the server [default: 1; with --live as many as the interface has and threads read]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    queues: Option<u16>,

    /// Connections over all queues
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=60_000))]
    connections: u16,

    /// CPUs for the server; a thread that polls for ever takes one per queue beside the server's [default: as many as queues]
    #[arg(long = "server-cpus", alias = "cpus", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    cpus: Option<u16>,

    /// 99 % of the answers are to come within this time of when they were due, in us or with a unit such as 1ms
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, value_parser = units::microseconds_above_0)]
    p99: Option<f64>,

    /// The server is to take at most so much of one CPU per queue, in % such as 80% or 80
    #[arg(long = "max-cpu", alias = "cpu", value_name = "SHARE", allow_negative_numbers = true, value_parser = units::percent_above_0)]
    cpu: Option<f64>,

    /// A machine that comes along (epyc-7662-cx5, small-vm, many-cpus), or a file (docs/plans.md)
    #[arg(long, value_name = "FILE|NAME", default_value = MACHINE)]
    machine: String,

    /// The machine that a comparison ran on: fitted to what `napier compare --json` printed
    #[arg(long, value_name = "FILE", conflicts_with = "machine")]
    from: Option<PathBuf>,

    /// The machine that this is: fitted to a short comparison of the engine's modes, and to what a wake-up takes here; both run first
    #[arg(long, conflicts_with_all = ["machine", "from", "judge"])]
    measure: bool,

    /// Instead of advice for a rate: at each load of these comparisons, hold the advice against what was measured there
    #[arg(long, value_name = "FILE", value_delimiter = ',', conflicts_with_all = ["rate", "peak", "service", "queues", "connections", "html", "anyway", "live", "pcap", "arrivals"])]
    judge: Option<Vec<PathBuf>>,

    /// Modes, instead of all and a sweep of their time-outs
    #[arg(long, value_name = "LIST")]
    modes: Option<String>,

    /// Runs of each mode that may be chosen; one that chance cannot make the choice has one run
    #[arg(long = "runs", alias = "seeds", value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    seeds: u16,

    /// Do not look for what would change the choice
    #[arg(long)]
    quick: bool,

    /// Advise on a machine whose predictions were more than 30 % off where they were held against measurements, too
    #[arg(long)]
    anyway: bool,

    /// Interface for the commands that are printed [default: eth0]; with --live the one whose packets are watched [default there: all]
    #[arg(long, value_name = "IF")]
    dev: Option<String>,

    /// Threads; the result does not depend on it [default: one per CPU]
    #[arg(long, value_name = "J", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,

    /// Print one JSON object instead of the page (docs/json.md)
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    page: PageFile,
}

/// Runs the command.
pub(crate) fn run(args: &AdviseArgs, interrupted: &AtomicBool) -> anyhow::Result<()> {
    let usage = |error: anyhow::Error| crate::Usage(error);
    if let Some(files) = &args.judge {
        return judge(args, files, interrupted);
    }
    let service: Option<Service> =
        args.service.as_deref().map(units::service).transpose().map_err(|error| usage(error.into()))?;
    let page = args.page.target()?;
    if args.live.is_none() && args.pcap.is_none() && args.arrivals.is_none() {
        // Before anything runs.
        asked(args, service.clone(), None).map_err(usage)?;
    }
    let machine = machine(args, interrupted)?;
    if let Some(why) = machine.known.distrust().filter(|_| !args.anyway) {
        bail!("no advice on this machine: {why}. Fit it again on a quiet machine, or give --anyway");
    }
    let mut seen = look(args, interrupted)?;
    let service = match (&mut seen, service) {
        (Some(seen), None) => seen.service(&machine),
        (_, given) => given,
    };
    let (workload, modes) = asked(args, service, seen.as_ref()).map_err(usage)?;
    let device = args.dev.as_deref().unwrap_or(DEVICE);
    if let Some(seen) = seen.as_ref().filter(|_| !args.json) {
        print(&seen.text())?;
    }
    let goal = Goal { p99_us: args.p99, cpu_pct: args.cpu };
    let effort = effort(args)?;
    let bar = crate::progress::steps("runs");
    let mut advice =
        advise::advise(&machine, &workload, &goal, &modes, effort, interrupted, &crate::progress::shown_in(&bar))?;
    bar.finish_and_clear();
    // The choice comes first: looking for what would change it takes longer, and who has seen enough may interrupt it.
    if !args.json {
        print(&advise::answer(&advice, device))?;
    }
    let looked = if args.quick || advice.left_out > 0 {
        Ok(())
    } else {
        look_for_flips(&machine, &mut advice, effort, interrupted)
    };
    if args.json {
        let mut json = advise::json(&advice, device);
        if let Some(seen) = &seen {
            json["seen"] = serde_json::to_value(seen).context("what was seen as JSON")?;
        }
        print(&(serde_json::to_string(&json).context("advice as JSON")? + "\n"))?;
    } else {
        print(&advise::flips(&advice))?;
    }
    crate::output::write(page.as_ref(), || advise_page(&advice, device))?;
    looked?;
    if advice.left_out > 0 || interrupted.load(Ordering::Relaxed) {
        return Err(advise::AdviseError::Interrupted.into());
    }
    // The advice is told; the status says that what was wanted is not reached, or may not be.
    if advice.choice.verdict == Verdict::Reaches { Ok(()) } else { Err(crate::ExitWith(1).into()) }
}

/// What there is to see, if that is asked for.
fn look(args: &AdviseArgs, interrupted: &AtomicBool) -> anyhow::Result<Option<Seen>> {
    let queues = args.queues.unwrap_or(1);
    Ok(match (args.live, args.pid, &args.pcap, &args.arrivals) {
        (Some(span), Some(pid), ..) => Some(seen::live(pid, args.dev.as_deref(), span, interrupted)?),
        (_, _, Some(path), _) => Some(seen::captured(path, args.port, queues)?),
        (.., Some(path)) => Some(seen::logged(path, queues)?),
        _ => None,
    })
}

/// What is asked of the server, as it was given or seen, and the modes that are looked at.
fn asked(args: &AdviseArgs, service: Option<Service>, seen: Option<&Seen>) -> anyhow::Result<(Workload, Vec<Mode>)> {
    let queues = args.queues.or_else(|| seen.map(|seen| seen.queues)).unwrap_or(1);
    let workload = Workload {
        rate_rps: args.rate.or_else(|| seen.map(Seen::rate)).expect("clap asks for it"),
        peak_rps: args.peak,
        queues,
        connections: seen.map_or(args.connections, Seen::connections),
        cpus: args.cpus.unwrap_or(queues),
        service,
        recorded: seen.map(|seen| seen.recorded.clone()),
    };
    check(&workload)?;
    let modes = match &args.modes {
        Some(names) => plan_modes(names, &workload)?,
        None => advise::swept(&workload),
    };
    Ok((workload, modes))
}

fn print(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

fn look_for_flips(
    machine: &MachineFile,
    advice: &mut Advice,
    effort: Effort,
    interrupted: &AtomicBool,
) -> anyhow::Result<()> {
    let bar = crate::progress::steps("costs that may change the choice");
    let effects = advise::look_for_flips(machine, advice, effort, interrupted, &crate::progress::shown_in(&bar));
    bar.finish_and_clear();
    advice.effects = effects?;
    Ok(())
}

fn effort(args: &AdviseArgs) -> anyhow::Result<Effort> {
    let jobs = crate::jobs::threads(args.jobs.map(usize::from))?;
    Ok(Effort { seeds: args.seeds, jobs, sensitivity: false })
}

/// The machine that the options name, or one fitted to what was, or is now, measured.
fn machine(args: &AdviseArgs, interrupted: &AtomicBool) -> anyhow::Result<MachineFile> {
    let fitted = |comparison: Comparison| {
        let fitted = crate::calibrate::fitted(comparison, &[], crate::calibrate::START, args.jobs, interrupted)?;
        if !args.json {
            eprintln!(
                "napier: a machine was fitted to the comparison; root mean square error {:.0} %",
                fitted.error_pct
            );
        }
        Ok(fitted.machine)
    };
    match &args.from {
        Some(file) => fitted(read(file)?),
        None if args.measure => fitted(measure(args)?),
        None => machines::server_named(&args.machine).map_err(|error| crate::Usage(error.into()).into()),
    }
}

fn read(file: &Path) -> anyhow::Result<Comparison> {
    calibrate::read(file, Backend::Engine).map_err(|error| crate::Usage(error.into()).into())
}

/// What a short comparison measures, and what wake-ups take.
fn measure(args: &AdviseArgs) -> anyhow::Result<Comparison> {
    let mut compare = vec!["compare", "--json", "--modes", MEASURED_MODES, "--minutes", MEASURED_MINUTES];
    if let Some(service) = &args.service {
        compare.extend(["--service", service]);
    }
    eprintln!("napier: comparing {MEASURED_MODES} for {MEASURED_MINUTES} min");
    let mut comparison = calibrate::parse(&printed(&compare)?, "the short comparison", Backend::Engine)?;
    let wakeup = printed(&["bench", "wakeup", "--json"])?;
    match Wakeups::parse(&wakeup, "what was measured here", &comparison.host) {
        Ok(wakeups) => comparison.wakeups = Some(wakeups),
        Err(error) => eprintln!("napier: {error}; what a wake-up takes is fitted like the rest"),
    }
    Ok(comparison)
}

/// What this program prints with these arguments.
fn printed(args: &[&str]) -> anyhow::Result<String> {
    let called = format!("napier {}", args.join(" "));
    let mut command = Command::new(this_program());
    let ran =
        command.args(args).stderr(Stdio::inherit()).output().with_context(|| format!("cannot start `{called}`"))?;
    if !ran.status.success() {
        bail!("`{called}` failed ({})", ran.status);
    }
    String::from_utf8(ran.stdout).with_context(|| format!("what `{called}` printed"))
}

/// Advice at each load of some comparisons, from one machine, held against what they measured.
fn judge(args: &AdviseArgs, files: &[PathBuf], interrupted: &AtomicBool) -> anyhow::Result<()> {
    let machine = machine(args, interrupted)?;
    let goal = Goal { p99_us: args.p99, cpu_pct: args.cpu };
    let effort = effort(args)?;
    let mut all = Vec::new();
    for file in files {
        let comparison = read(file)?;
        for rate_rps in calibrate::rates_rps(&comparison.rows) {
            let at = comparison.rows.iter().filter(|row| row.load == Load::Rps(rate_rps));
            let modes: Vec<Mode> = at.map(|row| row.mode).collect();
            let workload = Workload { rate_rps, ..comparison.workload.clone() };
            let advice = advise::advise(&machine, &workload, &goal, &modes, effort, interrupted, &|_, _| ())?;
            if advice.left_out > 0 {
                return Err(advise::AdviseError::Interrupted.into());
            }
            let service = workload.service.as_ref().map(ToString::to_string);
            all.extend(calibrate::judge(&goal, &comparison.rows, rate_rps, advice.choice.mode, service));
        }
    }
    let text = if args.json { serde_json::to_string(&all)? + "\n" } else { calibrate::judged_text(&all) };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(())
}

fn check(workload: &Workload) -> anyhow::Result<()> {
    if workload.connections < workload.queues {
        return Err(anyhow!(
            "each queue needs a connection, and there are {}: give more --connections",
            workload.queues
        ));
    }
    if workload.cpus < workload.queues {
        return Err(anyhow!(
            "each queue needs a CPU, and there are {}: give more --server-cpus, or fewer --queues",
            workload.queues
        ));
    }
    if let Some(peak) = workload.peak_rps.filter(|peak| *peak < workload.rate_rps) {
        return Err(anyhow!("the peak of {peak} requests/s is below the rate of {}", workload.rate_rps));
    }
    Ok(())
}

fn plan_modes(names: &str, workload: &Workload) -> anyhow::Result<Vec<Mode>> {
    let modes = modes::parse_list(names)?;
    for mode in &modes {
        if !mode.is_simulated() {
            return Err(anyhow!("{mode} is no mode of a server that waits in an event context"));
        }
        let needed = mode.server_cpus(workload.queues.into());
        if needed > workload.cpus.into() {
            return Err(anyhow!(
                "{mode} needs {} for the server, which has {}: give more --server-cpus",
                plural(needed as u64, "CPU"),
                workload.cpus
            ));
        }
    }
    Ok(modes)
}

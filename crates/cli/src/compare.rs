//! `napier compare`.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use napier_kv::load::net::Proto;

use crate::output::Output;
use crate::page::plural;
use crate::units::{self, Bare};
use crate::{Told, Usage};
use anyhow::{bail, ensure};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use napier_lab::agent::Secret;
use napier_lab::applied::Coalesce;
use napier_lab::compare::{AskedModes, CompareConfig, OnConfig, ProgramConfig, SimConfig, Speaks, compare};
use napier_lab::device::{Device, XdpWay};
use napier_lab::loads::Load;
use napier_lab::machines;
use napier_lab::modes;
use napier_lab::report::{Outcome, Report, hdrlog};
use napier_lab::subject::Backend;
use napier_linux::process::find_program;

/// Longest time for everything with `--quick`, of which the runs get what the search leaves.
const QUICK_TOTAL: Duration = Duration::from_secs(38);

/// What connects client and server.
fn devices() -> impl TypedValueParser<Value = Device> {
    let kinds = [
        ("link", "A link in shared memory within this process; needs no privilege"),
        ("xdp", "AF_XDP sockets on a veth pair between two network namespaces made for the run; needs root"),
        ("memif", "A memif link; the client is a process of its own"),
    ];
    PossibleValuesParser::new(kinds.map(|(name, help)| PossibleValue::new(name).help(help)))
        .map(|name| Device::parse(&name).expect("one of these"))
}

/// Options of `napier compare`.
#[derive(clap::Args)]
pub(crate) struct CompareArgs {
    /// Where the modes are applied: engine, kernel, sim, or several such as engine,kernel,sim, side by side and run by run. Rows of the
    /// kernel have its own sockets on a veth pair between two network namespaces made for the run, and need root. Rows of sim are
    /// predicted in virtual time on --machine, and not measured
    #[arg(long, value_name = "LIST", default_value = "engine")]
    backend: String,

    /// What connects client and server; by default link, and with rows of the kernel xdp
    #[arg(long, value_name = "DEVICE", value_parser = devices())]
    over: Option<Device>,

    /// Measure the kernel's rows on this interface, with the client elsewhere (--client), in place of a veth pair. What a mode changes there
    /// is noted before, and put back
    #[arg(long, alias = "on", value_name = "IF")]
    dev: Option<String>,

    /// With --dev: where `napier load kv --agent` listens that is to be the client
    #[arg(long, value_name = "ADDRESS:PORT", requires = "dev", requires = "secret_file")]
    client: Option<SocketAddr>,

    /// With --client: a file with the secret that the agent has too
    #[arg(long, value_name = "FILE", requires = "client")]
    secret_file: Option<PathBuf>,

    /// What rows of sim are predicted on: a machine that comes along (epyc-7662-cx5, small-vm, many-cpus), or a file (docs/plans.md)
    /// [default: epyc-7662-cx5]
    #[arg(long, value_name = "FILE|NAME")]
    machine: Option<String>,

    /// Went: see --backend
    #[arg(long, value_name = "STACK", hide = true)]
    peer: Option<String>,

    /// What carries the requests: udp, tcp; by default udp, and with a program tcp
    #[arg(long, value_name = "PROTO")]
    proto: Option<Proto>,

    /// What the program behind -- speaks: memcached, redis; by default it is asked
    #[arg(long, value_name = "PROTOCOL")]
    speak: Option<Speaks>,

    /// Do not count polls and timers of the kernel by tracepoints, for which each run is 0.3 s longer
    #[arg(long)]
    no_trace: bool,

    /// Modes, in the order of the rows: base, deferX, napibusy, fullbusy, suspend0, suspendX (X in us),
    /// threaded, workqueue, threaded-busy-poll, busy-read, group. With -irq behind it a mode has one more row of the kernel, which
    /// receives on the server's CPU as a NIC's interrupt does; base always has. With @2 (to @9) behind it a mode is there once more:
    /// base,base@2 shows what chance does
    #[arg(long, value_name = "LIST")]
    modes: Option<String>,

    /// Requests per second, such as 50k,100k,max,sustained; max is a closed loop with one request out per flow, sustained
    /// searches the most that each mode sustains in open loop. By default 20, 40, 60, 80 and 100 % of what base sustains, max,
    /// and sustained
    #[arg(long, alias = "rate", value_name = "LIST", allow_hyphen_values = true)]
    load: Option<String>,

    /// Length of each run, warm-up not counted, in seconds or with a unit such as 500ms; by default what fits into four minutes. Of rows of sim 0.02 to 2 s of
    /// virtual time; by default what 20000 requests take
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, value_parser = units::run_length)]
    seconds: Option<Duration>,

    /// Time for everything, in minutes or with a unit such as 90s
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, value_parser = total)]
    minutes: Option<Duration>,

    /// Runs per row, interleaved over the modes
    #[arg(long, value_name = "N")]
    runs: Option<u32>,

    /// Connections of the client; over UDP, sockets
    #[arg(long = "connections", alias = "flows", value_name = "N", default_value_t = 64)]
    flows: u32,

    /// Queues of the server's device, each with a CPU and a worker of our own server
    #[arg(long, value_name = "N", default_value_t = 1)]
    queues: u16,

    /// Descriptors per ring: 64 to 4096, a power of two
    #[arg(long, value_name = "N", default_value_t = 1024)]
    ring_size: u32,

    /// Time that each request takes the server beside what the cache takes, in us or with a unit: such as 6us, exp:6us (exponential with
    /// that mean) or hist:FILE (lines of a time and its weight)
    #[arg(long, value_name = "TIME")]
    service: Option<String>,

    /// Seed of all randomness
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Interrupt coalescing of the engine's end under test: adaptive, off, a time in us or with a unit, or that and frames
    /// such as 20us,8
    #[arg(long, value_name = "RULE", default_value = "adaptive", value_parser = units::coalesce)]
    coalesce: Coalesce,

    /// How the kernel hands packets to AF_XDP devices: auto (zero copy where the driver has it), zerocopy, copy, generic
    #[arg(long, value_name = "WAY", default_value = "auto")]
    xdp: XdpWay,

    /// Run modes that need more CPUs than there are, and mark them
    #[arg(long)]
    oversubscribe: bool,

    /// Fewer modes and shorter runs: at most 45 s
    #[arg(long)]
    quick: bool,

    #[command(flatten)]
    output: Output,

    /// Answer to Prometheus with the figures of each run's engine at http://ADDR:PORT/metrics, without a password (docs/metrics.md)
    #[arg(long, value_name = "ADDR:PORT", value_parser = crate::export::parse_addr)]
    metrics: Option<SocketAddr>,

    /// Keep the raw latency histograms in this directory, as HdrHistogram logs
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// A program that serves in place of our own, with its arguments: one that speaks memcached's text or Redis' protocol.
    /// Needs --backend kernel
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Names that `--dev` had up to version 0.2, for what is `--over` now.
const FORMER_DEVICES: [&str; 3] = ["link", "xdp", "memif"];

/// The longest time for everything.
fn total(text: &str) -> Result<Duration, String> {
    let minutes = units::time_within(text, Bare::Minutes, 0.1..=1440.0)?;
    Ok(Duration::from_secs_f64(minutes * 60.0))
}

impl CompareArgs {
    /// What connects client and server, if that is said.
    fn over(&self) -> Option<Device> {
        let former = self.dev.as_deref().filter(|_| self.client.is_none()).filter(|dev| FORMER_DEVICES.contains(dev));
        self.over.clone().or_else(|| Device::parse(former?))
    }

    fn on(&self) -> anyhow::Result<Option<OnConfig>> {
        let Some(interface) = self.dev.as_ref().filter(|_| self.over.is_some() || self.over().is_none()) else {
            return Ok(None);
        };
        let (Some(client), Some(file)) = (self.client, &self.secret_file) else {
            bail!(
                "--dev {interface} measures the kernel's rows there, with the client on another machine: give --client ADDRESS:PORT and \
                 --secret-file FILE (docs/compare.md); without --dev a veth pair is made for the run"
            );
        };
        let secret = Secret::read(file).map_err(|error| anyhow::anyhow!("--secret-file: {error}"))?;
        Ok(Some(OnConfig { interface: interface.clone(), client, secret }))
    }

    /// What rows of `sim` are predicted on, if there are any.
    fn sim(&self, backends: &[Backend]) -> anyhow::Result<Option<SimConfig>> {
        if !backends.contains(&Backend::Sim) {
            let Some(machine) = &self.machine else { return Ok(None) };
            bail!("--machine {machine} is for rows of sim: give --backend with sim in it, such as engine,sim");
        }
        if backends == [Backend::Sim] {
            let over = self.over().map(|_| "--over");
            let ignored = over
                .or(self.minutes.map(|_| "--minutes"))
                .or(self.proto.map(|_| "--proto"))
                .or(self.oversubscribe.then_some("--oversubscribe"));
            let ignored = ignored.or(self.metrics.map(|_| "--metrics"));
            if let Some(option) = ignored {
                bail!(
                    "{option} is for what is measured, and rows of sim are predicted: omit it, or give --backend engine,sim"
                );
            }
        }
        let name = self.machine.clone().unwrap_or_else(|| crate::advise::MACHINE.to_owned());
        let machine = machines::server_named(&name)?;
        Ok(Some(SimConfig { name, machine, jobs: crate::jobs::threads(None)? }))
    }

    /// What can be judged before anything runs.
    fn checked(&self) -> anyhow::Result<CompareConfig> {
        let config = self.config()?;
        config.check()?;
        if let Some(name) = self.command.first().filter(|name| find_program(OsStr::new(name)).is_none()) {
            bail!("{name} cannot be started: there is no such program");
        }
        Ok(config)
    }

    fn config(&self) -> anyhow::Result<CompareConfig> {
        if let Some(stack) = &self.peer {
            bail!(
                "--peer {stack} is spelled --backend engine,kernel now (and --backend kernel without the engine's rows)"
            );
        }
        let backends = Backend::parse_list(&self.backend).map_err(anyhow::Error::msg)?;
        let sim = self.sim(&backends)?;
        let has_kernel = backends.contains(&Backend::Kernel);
        let program =
            (!self.command.is_empty()).then(|| ProgramConfig { command: self.command.clone(), speaks: self.speak });
        ensure!(self.speak.is_none() || program.is_some(), "--speak is about a program: give one behind --");
        let on = self.on()?;
        let interface = on.as_ref().map(|on| on.interface.clone());
        let by_default = if interface.is_some() {
            Device::Kernel { interface }
        } else if has_kernel {
            Device::Xdp { interface: None }
        } else {
            Device::Link
        };
        let mut config = CompareConfig {
            device: self.over().unwrap_or(by_default),
            backends,
            on,
            sim,
            proto: self.proto.unwrap_or(if program.is_some() { Proto::Tcp } else { Proto::Udp }),
            program,
            trace: !self.no_trace,
            flows: self.flows,
            queues: self.queues,
            ring_size: self.ring_size,
            seed: self.seed,
            coalesce: self.coalesce,
            xdp: self.xdp,
            oversubscribe: self.oversubscribe,
            out: self.out.clone(),
            ..CompareConfig::default()
        };
        if self.quick {
            config.modes = modes::parse_list(modes::QUICK_MODES)?;
            config.sustained = false;
            config.total = QUICK_TOTAL;
            config.runs = 2;
        }
        config.service = self.service.as_deref().map(units::service).transpose()?;
        if let Some(modes) = &self.modes {
            let asked = AskedModes::parse(modes)?;
            (config.modes, config.irq_modes, config.copies) = (asked.modes, asked.irq, asked.copies);
        }
        if let Some(load) = &self.load {
            let (loads, sustained) = split_sustained(load);
            config.loads = Some(if loads.is_empty() && sustained { Vec::new() } else { Load::parse_list(&loads)? });
            config.sustained = sustained;
        }
        config.run_length = self.seconds;
        if let Some(total) = self.minutes {
            config.total = total;
        }
        if let Some(runs) = self.runs {
            (config.rounds, config.runs) = (Some(runs), runs);
        }
        Ok(config)
    }
}

/// The loads of a list, and whether `sustained` is among them.
fn split_sustained(list: &str) -> (String, bool) {
    let (most, loads): (Vec<&str>, Vec<&str>) =
        list.split(',').partition(|load| load.trim().eq_ignore_ascii_case("sustained"));
    (loads.join(","), !most.is_empty())
}

/// Fails if nothing came of it, although nothing failed: every mode was refused, or no run had an answer.
fn measured_anything(report: &Report) -> anyhow::Result<()> {
    let any = report.rows.iter().any(|row| row.figures().is_some()) || report.sustained.iter().any(|one| one.rps > 0);
    let why = report.rows.iter().find_map(|row| match &row.outcome {
        Outcome::Refused(why) => Some(format!("{} was refused: {why}", row.subject)),
        Outcome::Nothing if row.left_out > 0 => {
            Some(format!("{}: in all slices the machine was taken away", row.subject))
        }
        Outcome::Nothing => Some(format!("{}: of {}", row.subject, row.lost.as_ref()?.why)),
        Outcome::Measured(_) | Outcome::Predicted { .. } => None,
    });
    if any {
        Ok(())
    } else {
        Err(Told(format!("nothing was measured: {}", why.unwrap_or_else(|| "no mode sustains any load".to_owned())))
            .into())
    }
}

/// Runs the comparison and prints it when it is over: the answer first.
pub(crate) fn run(args: &CompareArgs, interrupted: &AtomicBool) -> anyhow::Result<()> {
    if args.output.explained()? {
        return Ok(());
    }
    let config = args.checked().map_err(Usage)?;
    let _exporter = crate::export::of_engine(args.metrics, &config.cpus(), &config.shown)?;
    let shown = args.output.shown()?;
    if let Some(folder) = &config.out {
        // Before anything runs, so that nothing is lost.
        hdrlog::check(folder).map_err(|error| Usage(anyhow::anyhow!("{error}")))?;
    }
    let report = compare(&config, interrupted)?;
    shown.end(&report, &[])?;
    if let Some(why) = report.ended {
        bail!("the comparison ended early: {why}");
    }
    match &report.failures[..] {
        [] => measured_anything(&report),
        [only] => bail!("1 run failed: {only}"),
        [first, ..] => bail!("{} failed; the first: {first}", plural(report.failures.len() as u64, "run")),
    }
}

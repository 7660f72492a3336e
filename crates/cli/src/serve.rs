//! `napier serve`.

use std::fmt::Display;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;

use clap::Subcommand;
use napier_lab::device::Device;
use napier_lab::modes::Mode;
use napier_lab::serve::device::MemifRole;
use napier_lab::serve::limits::Limits;
use napier_lab::serve::run::{ServeConfig, serve};
use napier_lab::shown::Shown;

use serde::Serialize;

use crate::Usage;
use crate::device::{EngineArgs, device};

/// What is served.
#[derive(Subcommand)]
pub(crate) enum Serve {
    /// A cache that memcached's and Redis' clients can use
    Kv(KvArgs),
}

/// Options of `napier serve kv`.
#[derive(clap::Args)]
pub(crate) struct KvArgs {
    /// Where its sockets are: kernel, kernel:INTERFACE (bound to that interface), or for the engine's own stack memif:SOCKET (the peer in another process) or
    /// xdp:INTERFACE (an interface of the kernel, by AF_XDP)
    #[arg(long = "over", alias = "dev", value_name = "DEVICE", default_value = "kernel")]
    dev: String,

    #[command(flatten)]
    engine: EngineArgs,

    /// Address, with the length of the prefix if it is one of the engine's own
    #[arg(long, value_name = "A[/LEN]", default_value = "127.0.0.1")]
    ip: String,

    /// Port of memcached's protocols (ASCII, meta and binary) over TCP and UDP
    #[arg(long, value_name = "N", default_value_t = 11_211)]
    port: u16,

    /// Port of Redis' protocol; none if not given
    #[arg(long, value_name = "N")]
    resp_port: Option<u16>,

    /// Port at which messages of `sockperf ping-pong` are answered over TCP and UDP; none if not given
    #[arg(long, value_name = "N")]
    sockperf_port: Option<u16>,

    /// How packets are delivered, by the names of `compare`
    #[arg(long, value_name = "MODE", value_parser = crate::mode_names::ModeNames, hide_possible_values = true)]
    mode: Option<Mode>,

    /// Threads that serve
    #[arg(long, value_name = "N", default_value_t = 1)]
    workers: usize,

    /// Memory of records and of what connections hold together, in MiB; records make room for connections
    #[arg(long, value_name = "MIB", default_value_t = 64)]
    memory: usize,

    /// Connections at a time; more are refused
    #[arg(long = "max-connections", alias = "connections", value_name = "N", default_value_t = 1024)]
    connections: usize,

    /// Close connections that have asked for nothing for this time, in whole seconds or with a unit such as 2min; 0: never
    #[arg(long, value_name = "TIME", default_value_t = 0, value_parser = crate::units::whole_seconds)]
    idle_timeout: u64,

    /// Time that each request takes its worker beside what the cache takes, in us or with a unit: such as 6us, exp:6us (exponential with that
    /// mean) or hist:FILE (lines of a time and its weight)
    #[arg(long, value_name = "TIME")]
    service: Option<String>,

    /// Seed from which times of --service are drawn
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Answer to no napi-get and napi-set of --engine on a device of the engine
    #[arg(long)]
    no_control: bool,

    /// Answer to Prometheus with the figures of the engine at http://ADDR:PORT/metrics, without a password (docs/metrics.md). On a
    /// device of the engine
    #[arg(long, value_name = "ADDR:PORT", value_parser = crate::export::parse_addr)]
    metrics: Option<SocketAddr>,

    /// Print the summary as one JSON object (docs/json.md)
    #[arg(long)]
    json: bool,
}

impl KvArgs {
    fn config(&self) -> anyhow::Result<ServeConfig> {
        let device = device(&self.dev, &self.ip, &self.engine, MemifRole::Server)?;
        anyhow::ensure!(
            !(self.no_control && matches!(device.device, Device::Kernel { .. })),
            "--no-control would be ignored with --over {}: there is no engine; omit it",
            self.dev
        );
        anyhow::ensure!(
            self.metrics.is_none() || !matches!(device.device, Device::Kernel { .. }),
            "--metrics would have nothing to say with --over {}: there is no engine; napier export has the kernel's figures",
            self.dev
        );
        let config = ServeConfig {
            shown: Shown::default(),
            device,
            port: self.port,
            resp_port: self.resp_port,
            sockperf_port: self.sockperf_port,
            mode: self.mode,
            workers: self.workers,
            service: self
                .service
                .as_deref()
                .map(crate::units::service)
                .transpose()?
                .map(|service| (service, self.seed)),
            limits: Limits::new(self.memory, self.connections, self.idle_timeout)?,
            control: !self.no_control,
        };
        config.check()?;
        Ok(config)
    }
}

/// Runs the server and prints its summary.
pub(crate) fn run(command: &Serve, interrupted: &AtomicBool) -> anyhow::Result<()> {
    let Serve::Kv(args) = command;
    let config = args.config().map_err(Usage)?;
    let _exporter = crate::export::of_engine(args.metrics, &config.device.cpus, &config.shown)?;
    let report = serve(&config, interrupted, &mut || {
        let resp = config.resp_port.map(|port| format!(", redis on port {port}")).unwrap_or_default();
        let sockperf = config.sockperf_port.map(|port| format!(", sockperf on port {port}")).unwrap_or_default();
        let mode = config.mode.map(|mode| format!(", mode {mode}")).unwrap_or_default();
        let tcp = if config.mode == Some(Mode::BusyRead) { "UDP only" } else { "TCP and UDP" };
        let line = format!(
            "ready: memcached on {} port {} ({tcp}){resp}{sockperf}, {} on {}{mode}",
            config.device.ip,
            config.port,
            if config.workers == 1 { "1 worker".to_owned() } else { format!("{} workers", config.workers) },
            config.device.device.name(),
        );
        // Whoever waits for the line may be gone; the server goes on.
        let mut out: Box<dyn Write> = if args.json { Box::new(std::io::stderr()) } else { Box::new(std::io::stdout()) };
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    })?;
    // Not what was interrupted, but what went wrong.
    print_report(&report, args.json, report.recording_failure.as_deref())
}

/// Prints a report, as text or as one JSON object; a capture that failed is an error behind it.
pub(crate) fn print_report(
    report: &(impl Serialize + Display),
    json: bool,
    recording_failure: Option<&str>,
) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if json {
        writeln!(out, "{}", serde_json::to_string_pretty(report)?)?;
    } else {
        write!(out, "{report}")?;
    }
    out.flush()?;
    recording_failure.map_or(Ok(()), |why| Err(crate::Told(why.to_owned()).into()))
}

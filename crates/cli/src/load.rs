//! `napier load`.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use clap::Subcommand;
use napier_kv::load::codec::Format;
use napier_kv::load::net::Proto;
use napier_lab::agent::{Agent, Secret, Served};
use napier_lab::device::Device;
use napier_lab::load::{LoadConfig, ValueSize, load_on};
use napier_lab::loads::Load;
use napier_lab::serve::device::MemifRole;

use crate::Usage;
use crate::device::{EngineArgs, device};
use crate::progress::Doing;
use crate::serve::print_report;
use crate::units;

/// What is loaded.
#[derive(Subcommand)]
pub(crate) enum LoadCommand {
    /// A server of memcached's or Redis' protocol, this one's or any other
    Kv(KvArgs),
}

/// Options of `napier load kv`.
#[derive(clap::Args)]
pub(crate) struct KvArgs {
    /// Where the server is; the port is 11211, or 6379 with --format resp, unless given
    #[arg(long, value_name = "ADDRESS[:PORT]", required_unless_present = "agent")]
    server: Option<String>,

    /// Listen there for a comparison elsewhere (`compare --dev IF --client ADDRESS:PORT`), and be its client until this is
    /// interrupted. One at a time drives it, and says what to load
    #[arg(long, value_name = "ADDRESS:PORT", requires = "secret_file", conflicts_with_all = [
        "server", "ip", "proto", "format", "rate", "connections", "depth", "keys", "value_size", "get_ratio", "seconds",
        "warmup", "runs", "seed", "no_fill",
    ])]
    agent: Option<SocketAddr>,

    /// With --agent: a file with the secret that the comparison has too
    #[arg(long, value_name = "FILE", requires = "agent")]
    secret_file: Option<PathBuf>,

    /// Where the generator's sockets are: kernel, or for the engine's own stack memif:SOCKET (the server in another
    /// process) or xdp:INTERFACE (an interface of the kernel, by AF_XDP)
    #[arg(long = "over", alias = "dev", value_name = "DEVICE", default_value = "kernel")]
    dev: String,

    /// Own address on a device of the engine, with the length of the prefix
    #[arg(long, value_name = "A[/LEN]")]
    ip: Option<String>,

    #[command(flatten)]
    engine: EngineArgs,

    /// How requests travel: tcp, udp
    #[arg(long, value_name = "PROTO", default_value = "tcp")]
    proto: Proto,

    /// How requests are written: ascii, binary, meta, resp
    #[arg(long, value_name = "FORMAT", default_value = "ascii")]
    format: Format,

    /// Requests per second such as 50k, sent whatever comes back (open loop); or max, with all windows
    /// full at any time (closed loop)
    #[arg(long, alias = "load", value_name = "RATE", default_value = "max", allow_negative_numbers = true, value_parser = units::load)]
    rate: Load,

    /// Connections
    #[arg(long, value_name = "N", default_value_t = 16)]
    connections: usize,

    /// Requests that may be without an answer on each connection
    #[arg(long, value_name = "D", default_value_t = 1)]
    depth: usize,

    /// Records that are asked for; all are set before the first run
    #[arg(long, value_name = "N", default_value_t = 16_384)]
    keys: u32,

    /// Length of values: fb_value, or a number of bytes
    #[arg(long, value_name = "SIZE", default_value = "fb_value")]
    value_size: ValueSize,

    /// Share of gets, from 0 to 1 or in percent such as 97%; the rest are sets
    #[arg(long, value_name = "SHARE", default_value_t = 0.97, allow_negative_numbers = true, value_parser = units::part)]
    get_ratio: f64,

    /// Length of each run, in seconds or with a unit such as 500ms
    #[arg(long, value_name = "TIME", default_value = "5", allow_negative_numbers = true, value_parser = units::run_length)]
    seconds: Duration,

    /// Time before each run that is not counted, in seconds or with a unit such as 500ms
    #[arg(long, value_name = "TIME", default_value = "0.5", allow_negative_numbers = true, value_parser = units::warm_up)]
    warmup: Duration,

    /// Runs; figures are medians over them
    #[arg(long, value_name = "N", default_value_t = 3)]
    runs: u32,

    /// Seed of all randomness
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Do not set the records first; gets without a value are counted
    #[arg(long)]
    no_fill: bool,

    /// Print one JSON object (docs/json.md)
    #[arg(long)]
    json: bool,
}

impl KvArgs {
    fn config(&self) -> anyhow::Result<LoadConfig> {
        let port = if self.format == Format::Resp { 6379 } else { 11_211 };
        let config = LoadConfig {
            server: parse_server(self.server.as_deref().unwrap_or_default(), port)?,
            proto: self.proto,
            format: self.format,
            rate: self.rate,
            connections: self.connections,
            depth: self.depth,
            keys: self.keys,
            value_size: self.value_size,
            get_ratio: self.get_ratio,
            length: self.seconds,
            warm_up: self.warmup,
            runs: self.runs,
            seed: self.seed,
            fill: !self.no_fill,
        };
        config.check()?;
        Ok(config)
    }
}

fn parse_server(text: &str, port: u16) -> anyhow::Result<SocketAddr> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    if let Ok(ip) = text.parse() {
        return Ok(SocketAddr::new(ip, port));
    }
    let with_port = if text.contains(':') { text.to_owned() } else { format!("{text}:{port}") };
    let mut found = with_port.to_socket_addrs().with_context(|| format!("looking up the server `{text}`"))?;
    found.next().with_context(|| format!("the server `{text}` has no address"))
}

/// Runs the load and prints what it measured.
pub(crate) fn run(command: &LoadCommand, interrupted: &AtomicBool) -> anyhow::Result<()> {
    let LoadCommand::Kv(args) = command;
    if let (Some(at), Some(file)) = (args.agent, &args.secret_file) {
        if args.dev != "kernel" {
            return Err(
                Usage(anyhow::anyhow!("an agent loads over the kernel's sockets: omit --over {}", args.dev)).into()
            );
        }
        let secret = Secret::read(file).map_err(|error| Usage(anyhow::anyhow!("--secret-file: {error}")))?;
        return serve_agent(at, secret, args.json, interrupted);
    }
    let config = args.config().map_err(Usage)?;
    let ip = args.ip.as_deref().unwrap_or("0.0.0.0");
    let device = device(&args.dev, ip, &args.engine, MemifRole::Client).map_err(Usage)?;
    if let (Device::Kernel { .. }, Some(_)) = (&device.device, &args.ip) {
        return Err(Usage(anyhow::anyhow!(
            "--ip is for devices of the engine; with --over {} the kernel chooses: omit it",
            args.dev
        ))
        .into());
    }
    let each = config.warm_up + config.length;
    let doing = Doing::new("records are set", Some(each * config.runs));
    let report = load_on(&device, &config, interrupted, &mut |run| {
        doing.now(&format!("run {} of {}, {} s each", run + 1, config.runs, each.as_secs_f64()));
    })?;
    drop(doing);
    print_report(&report, args.json, report.recording_failure.as_deref())
}

/// Is the client of comparisons until it is interrupted.
fn serve_agent(at: SocketAddr, secret: Secret, json: bool, interrupted: &AtomicBool) -> anyhow::Result<()> {
    let agent = Agent::bind(at, secret)?;
    let at = agent.at()?;
    eprintln!("ready: an agent at {at}");
    let served = Served::default();
    agent.serve(interrupted, &served, &|line| eprintln!("{line}"));
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let Served { drivers, runs, failed, refused } = &served;
    let (drivers, runs, failed, refused) = (count(drivers), count(runs), count(failed), count(refused));
    if json {
        let counts = serde_json::json!({
            "agent": at, "comparisons": drivers, "runs": runs, "failed_runs": failed, "turned_away": refused,
        });
        println!("{counts}");
    } else {
        println!("{drivers} comparisons, {runs} runs, {failed} failed; {refused} connections turned away");
    }
    Ok(())
}

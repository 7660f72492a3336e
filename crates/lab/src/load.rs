//! Several runs of one load, and what is told of them.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::ensure;
use napier_kv::load::codec::{Format, datagram_value_bytes_max};
use napier_kv::load::engine::EngineClient;
use napier_kv::load::generator::Generator;
use napier_kv::load::net::{ClientNet, KernelClient, Proto};
use napier_kv::load::plan::{Measured, Plan, Window};
use napier_kv::load::wire::SocketWire;
use napier_kv::profile::{Profile, ProfileConfig};
use napier_kv::sizes::Sizes;
use napier_kv::{KEY_BYTES_MAX, store};
use napier_sys::usage::thread_usage;
use serde::{Deserialize, Serialize};

use crate::applied::Applied;
use crate::device::Device;
use crate::loads::Load;
use crate::serve::device::{DeviceConfig, OneDevice, wait_for_peer};
use crate::stats::{Summary, median};
use crate::wrap::counted;

/// How long answers are waited for after a run.
const DRAIN: Duration = Duration::from_secs(2);

/// A datagram that is without an answer for so long is given up.
const GIVE_UP: Duration = Duration::from_millis(200);

/// How long a peer is waited for.
const LINK_MAX: Duration = Duration::from_secs(10);

/// What to load, and with what.
#[derive(Clone, Debug)]
pub struct LoadConfig {
    /// Where the server is.
    pub server: SocketAddr,
    /// How requests travel.
    pub proto: Proto,
    /// How requests are written.
    pub format: Format,
    /// Requests per second, or as many as the windows let through.
    pub rate: Load,
    /// Connections.
    pub connections: usize,
    /// Requests that may be without an answer on each.
    pub depth: usize,
    /// Records that are asked for.
    pub keys: u32,
    /// Length of values.
    pub value_size: ValueSize,
    /// Share of gets, 0 to 1.
    pub get_ratio: f64,
    /// Length of a run.
    pub length: Duration,
    /// Time before each run that is not counted.
    pub warm_up: Duration,
    /// Runs.
    pub runs: u32,
    /// From which all randomness comes.
    pub seed: u64,
    /// Set every record before the first run.
    pub fill: bool,
}

/// Length of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueSize {
    /// As measured at Facebook; bounded to what fits a datagram.
    Facebook,
    /// Always so many bytes.
    Fixed(usize),
}

impl std::str::FromStr for ValueSize {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str = "give fb_value, or a number of bytes up to 1048576";
        match text {
            "fb_value" => Ok(Self::Facebook),
            _ => match text.parse() {
                Ok(bytes) if bytes <= store::VALUE_BYTES_MAX => Ok(Self::Fixed(bytes)),
                _ => Err(WRONG),
            },
        }
    }
}

/// What several runs measured; each figure is the median over the runs.
#[derive(Clone, Debug, Serialize)]
pub struct LoadReport {
    /// Where the server is.
    pub server: String,
    /// `tcp` or `udp`.
    pub proto: String,
    /// `ascii`, `binary`, `meta` or `resp`.
    pub format: String,
    /// Requests per second that were offered, or `max`.
    pub load_rps: Load,
    /// Connections.
    pub connections: usize,
    /// Window of each.
    pub depth: usize,
    /// Length of a run in seconds.
    pub seconds: f64,
    /// The median run, figure by figure.
    pub median: LoadFigures,
    /// Each run.
    pub runs: Vec<LoadFigures>,
    /// What is in force on the device of an engine, by name; empty on the kernel's sockets.
    pub in_force: Applied,
    /// Why the file of the recording took no more; null if it took all, and without one.
    pub recording_failure: Option<String>,
}

/// What one run measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadFigures {
    /// Replies per second that came in the measured time.
    pub achieved_rps: f64,
    /// From the intended send to the reply; null without a reply.
    pub latency_us: Option<Summary>,
    /// From the actual send to the reply; null without a reply.
    pub service_latency_us: Option<Summary>,
    /// Gets that found nothing.
    pub missing: u64,
    /// Requests that the server refused.
    pub refused: u64,
    /// Requests that were given up.
    pub lost: u64,
    /// CPU time of the generator, in percent of one CPU.
    pub client_cpu_pct: f64,
}

impl LoadConfig {
    /// Checks what can be checked before anything is sent.
    ///
    /// # Errors
    /// The first field that cannot be; the message says what it may be.
    pub fn check(&self) -> anyhow::Result<()> {
        ensure!((1..=10_000).contains(&self.connections), "--connections must be 1 to 10000");
        ensure!((1..=4096).contains(&self.depth), "--depth must be 1 to 4096");
        ensure!(self.runs > 0, "--runs must be at least 1");
        ensure!((0.0..=1.0).contains(&self.get_ratio), "--get-ratio must be 0 to 1");
        ensure!(
            self.proto == Proto::Tcp || self.format != Format::Resp,
            "redis does not speak over UDP: give --proto tcp"
        );
        if let (Proto::Udp, ValueSize::Fixed(bytes)) = (self.proto, self.value_size) {
            let bytes_max = datagram_value_bytes_max(self.format, KEY_BYTES_MAX);
            ensure!(bytes <= bytes_max, "over UDP a value has at most {bytes_max} bytes: give --proto tcp");
        }
        self.profile().map(|_| ())
    }

    fn profile(&self) -> anyhow::Result<Profile> {
        let config = ProfileConfig {
            records: self.keys,
            set_share: 1.0 - self.get_ratio,
            value_sizes: Sizes::FacebookValue,
            ..ProfileConfig::default()
        };
        Ok(Profile::new(config, self.seed)?)
    }

    /// What is asked for, for a generator.
    fn plan(&self) -> anyhow::Result<Plan> {
        Ok(Plan {
            profile: self.profile()?,
            value_bytes: match self.value_size {
                ValueSize::Facebook => None,
                ValueSize::Fixed(bytes) => Some(bytes),
            },
            depth: self.depth,
            overruns: false,
            // Datagrams get lost; streams do not.
            give_up: (self.proto == Proto::Udp).then_some(GIVE_UP),
            burst: 64,
        })
    }
}

/// Runs the load on a device. `on_run` is told the number of each run before it begins.
///
/// # Errors
/// The server cannot be reached, closes, or answers what it must not; `interrupted`.
pub fn load_on(
    device: &DeviceConfig,
    config: &LoadConfig,
    interrupted: &AtomicBool,
    on_run: &mut dyn FnMut(u32),
) -> anyhow::Result<LoadReport> {
    config.check()?;
    match &device.device {
        Device::Kernel { interface: Some(interface) } => {
            anyhow::bail!("the route says which way requests take: give --over kernel, not kernel:{interface}")
        }
        Device::Kernel { interface: None } => load(KernelClient::new()?, config, interrupted, on_run),
        _ => {
            let mut one = OneDevice::start(device)?;
            one.left_to_kernel().iter().for_each(|left| eprintln!("napier: {left}"));
            wait_for_peer(&one.device, &device.device.name(), LINK_MAX)?;
            let client = EngineClient::new(&one.engine, &one.netns, config.connections);
            let report = load(client, config, interrupted, on_run)?;
            let in_force = one.in_force();
            let failure = one.finish_capture().and_then(|recorded| recorded.failure);
            Ok(LoadReport { in_force, recording_failure: failure, ..report })
        }
    }
}

/// Runs the load over a network.
///
/// # Errors
/// As [`load_on`].
pub fn load<N: ClientNet>(
    net: N,
    config: &LoadConfig,
    interrupted: &AtomicBool,
    on_run: &mut dyn FnMut(u32),
) -> anyhow::Result<LoadReport> {
    let LoadConfig { proto, format, server, connections, .. } = *config;
    let wire = SocketWire::connect(net, proto, format, server, connections)?;
    let mut generator = Generator::new(wire, connections, config.plan()?);
    if config.fill {
        let filled = generator.fill(interrupted)?;
        ensure!(filled.wrong == 0, "the server answered a set as it must not");
        ensure!(filled.refused == 0, "the server refused {} of {} sets", filled.refused, config.keys);
    }
    let pace = config.rate;
    let window = Window { warm_up: config.warm_up, measure: config.length, margin: Duration::ZERO, drain: DRAIN };
    let mut runs = Vec::with_capacity(config.runs as usize);
    for run in 0..config.runs {
        on_run(run);
        let mut cpu = Vec::with_capacity(2);
        let on_edge = &mut |_| {
            let usage = thread_usage();
            cpu.push(usage.user + usage.system);
        };
        let measured = generator.run(pace, window, (config.seed, &format!("load/{run}")), interrupted, on_edge)?;
        ensure!(!interrupted.load(Ordering::Relaxed), "interrupted");
        ensure!(
            measured.wrong == 0,
            "{} replies carried a value that was never stored under their key: the server is broken, or another \
             program stores under the same keys",
            measured.wrong
        );
        ensure!(
            measured.lost == 0 || proto == Proto::Udp,
            "the server left {} requests without an answer for {} s: it has stalled",
            measured.lost,
            DRAIN.as_secs()
        );
        let busy = cpu[1].saturating_sub(cpu[0]);
        runs.push(figures(&measured, busy));
    }
    Ok(LoadReport {
        server: server.to_string(),
        proto: proto.to_string(),
        format: format.to_string(),
        load_rps: config.rate,
        connections,
        depth: config.depth,
        seconds: config.length.as_secs_f64(),
        median: median_of(&runs),
        runs,
        in_force: Applied::new(),
        recording_failure: None,
    })
}

#[expect(clippy::cast_precision_loss, reason = "figures for a report")]
fn figures(measured: &Measured, busy: Duration) -> LoadFigures {
    let seconds = measured.window_ns as f64 / 1e9;
    LoadFigures {
        achieved_rps: rounded(measured.answered as f64 / seconds),
        latency_us: Summary::of(measured.recorder.intended()),
        service_latency_us: Summary::of(measured.recorder.actual()),
        missing: measured.missing,
        refused: measured.refused,
        lost: measured.lost,
        client_cpu_pct: rounded(100.0 * busy.as_secs_f64() / seconds),
    }
}

fn rounded(number: f64) -> f64 {
    (number * 1e3).round() / 1e3
}

fn median_of(runs: &[LoadFigures]) -> LoadFigures {
    let of = |field: &dyn Fn(&LoadFigures) -> f64| median(&mut runs.iter().map(field).collect::<Vec<_>>());
    let count = |field: fn(&LoadFigures) -> u64| {
        let mut counts: Vec<u64> = runs.iter().map(field).collect();
        counts.sort_unstable();
        counts[counts.len() / 2]
    };
    let summary = |field: fn(&LoadFigures) -> Option<Summary>| {
        let all: Vec<Summary> = runs.iter().filter_map(field).collect();
        Summary::median_of(&all)
    };
    LoadFigures {
        achieved_rps: of(&|run| run.achieved_rps),
        latency_us: summary(|run| run.latency_us),
        service_latency_us: summary(|run| run.service_latency_us),
        missing: count(|run| run.missing),
        refused: count(|run| run.refused),
        lost: count(|run| run.lost),
        client_cpu_pct: of(&|run| run.client_cpu_pct),
    }
}

impl std::fmt::Display for LoadReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { server, proto, format, load_rps, connections, depth, .. } = self;
        writeln!(
            f,
            "{server}, {format} over {proto}, {} with {} each, load {load_rps}: {} of {} s{}",
            counted(*connections, "connection"),
            counted(*depth, "request"),
            counted(self.runs.len(), "run"),
            self.seconds,
            if self.runs.len() == 1 { "" } else { ", medians" }
        )?;
        let figures = &self.median;
        writeln!(f, "replies/s    {:.0}", figures.achieved_rps)?;
        for (name, summary) in
            [("from intended send", figures.latency_us), ("from actual send", figures.service_latency_us)]
        {
            match summary {
                Some(Summary { mean, p50, p90, p99, p999, max, .. }) => writeln!(
                    f,
                    "latency us   {name:<19} mean {mean:.1}  p50 {p50:.1}  p90 {p90:.1}  p99 {p99:.1}  p99.9 {p999:.1}  \
                     max {max:.1}"
                )?,
                None => writeln!(f, "latency us   {name:<19} no reply came")?,
            }
        }
        let LoadFigures { missing, refused, lost, client_cpu_pct, .. } = figures;
        writeln!(f, "gets without a value {missing}, requests refused {refused}, lost {lost}")?;
        writeln!(f, "generator CPU {client_cpu_pct:.0} %")?;
        self.in_force.iter().try_for_each(|(name, value)| writeln!(f, "in force     {name}: {value}"))
    }
}

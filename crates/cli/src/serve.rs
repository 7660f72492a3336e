//! `napier serve`.

use std::io::Write;
use std::net::IpAddr;
use std::sync::atomic::AtomicBool;

use anyhow::Context as _;
use clap::Subcommand;
use napier_lab::modes::Mode;
use napier_lab::serve::run::{Device, ServeConfig, serve};

use crate::Usage;

/// What is served.
#[derive(Subcommand)]
pub(crate) enum Serve {
    /// A cache that memcached's and Redis' clients can use
    Kv(KvArgs),
}

/// Options of `napier serve kv`.
#[derive(clap::Args)]
pub(crate) struct KvArgs {
    /// Where its sockets are: kernel, or kernel:INTERFACE to set that interface up for the mode
    #[arg(long, value_name = "DEVICE", default_value = "kernel")]
    dev: String,

    /// Address, with the length of the prefix if it is one of the engine's own
    #[arg(long, value_name = "A[/LEN]", default_value = "127.0.0.1")]
    ip: String,

    /// Port of memcached's protocols (ASCII, meta and binary) over TCP and UDP
    #[arg(long, value_name = "N", default_value_t = 11_211)]
    port: u16,

    /// Port of Redis' protocol; none if not given
    #[arg(long, value_name = "N")]
    resp_port: Option<u16>,

    /// How packets are delivered, by the names of `compare`
    #[arg(long, value_name = "MODE")]
    mode: Option<Mode>,

    /// Threads that serve
    #[arg(long, value_name = "N", default_value_t = 1)]
    workers: usize,

    /// Memory of the records, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 64)]
    memory: usize,

    /// Print the summary as one JSON object (docs/json.md)
    #[arg(long)]
    json: bool,
}

impl KvArgs {
    fn config(&self) -> anyhow::Result<ServeConfig> {
        let (ip, prefix_len) = parse_ip(&self.ip)?;
        let config = ServeConfig {
            device: parse_device(&self.dev)?,
            ip,
            prefix_len,
            port: self.port,
            resp_port: self.resp_port,
            mode: self.mode,
            workers: self.workers,
            memory_bytes: self.memory.saturating_mul(1 << 20),
        };
        config.check()?;
        Ok(config)
    }
}

fn parse_ip(text: &str) -> anyhow::Result<(IpAddr, u8)> {
    let (ip, len) = text.split_once('/').map_or((text, None), |(ip, len)| (ip, Some(len)));
    let ip: IpAddr = ip.parse().with_context(|| format!("`{ip}` is no address; give one such as 10.0.0.1/24"))?;
    let len_max = if ip.is_ipv4() { 32 } else { 128 };
    let len = match len {
        None => len_max,
        Some(len) => len
            .parse()
            .ok()
            .filter(|len| *len <= len_max)
            .with_context(|| format!("`/{len}` is no length of a prefix; give 0 to {len_max}"))?,
    };
    Ok((ip, len))
}

fn parse_device(text: &str) -> anyhow::Result<Device> {
    match text.split_once(':') {
        None if text == "kernel" => Ok(Device::Kernel { interface: None }),
        Some(("kernel", interface)) if !interface.is_empty() => {
            Ok(Device::Kernel { interface: Some(interface.to_owned()) })
        }
        _ if text == "link" => anyhow::bail!(
            "a link has both its ends in one process, so nobody could reach this server: `napier compare` measures a \
             server and its clients on a link; give --dev kernel here"
        ),
        _ => anyhow::bail!("`{text}` is no device; give kernel or kernel:INTERFACE"),
    }
}

/// Runs the server and prints its summary.
pub(crate) fn run(command: &Serve, interrupted: &AtomicBool) -> anyhow::Result<()> {
    let Serve::Kv(args) = command;
    let config = args.config().map_err(Usage)?;
    let report = serve(&config, interrupted, &mut || {
        let resp = config.resp_port.map(|port| format!(", redis on port {port}")).unwrap_or_default();
        let mode = config.mode.map(|mode| format!(", mode {mode}")).unwrap_or_default();
        let tcp = if config.mode == Some(Mode::BusyRead) { "UDP only" } else { "TCP and UDP" };
        let line = format!(
            "ready: memcached on {} port {} ({tcp}){resp}, {} on {}{mode}",
            config.ip,
            config.port,
            if config.workers == 1 { "1 worker".to_owned() } else { format!("{} workers", config.workers) },
            config.device.name(),
        );
        // Whoever waits for the line may be gone; the server goes on.
        let mut out: Box<dyn Write> = if args.json { Box::new(std::io::stderr()) } else { Box::new(std::io::stdout()) };
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    })?;
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
    } else {
        write!(out, "{report}")?;
    }
    Ok(())
}

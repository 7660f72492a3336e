//! `napier export`, and `--metrics` of commands that run an engine.

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use napier_core::metric::Sink;
use napier_export::{Exporter, Exposition, Format, Place, Polling};
use napier_lab::shown::Shown;
use napier_linux::metrics::{self, Kernel};
use sd_notify::NotifyState;

use crate::Usage;

/// How often a signal is looked for.
const LOOK: Duration = Duration::from_millis(100);

/// How long polls are counted that are printed once.
const ONCE: Duration = Duration::from_secs(1);

/// Options of `napier export`.
#[derive(clap::Args)]
pub(crate) struct ExportArgs {
    /// Where to answer. Any program that reaches the port can read the figures: there is no password
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:19100", value_parser = parse_addr)]
    listen: SocketAddr,

    /// Only of these interfaces [default: all but loopback]
    #[arg(long, value_name = "IF", num_args = 1.., value_delimiter = ',')]
    dev: Vec<String>,

    /// Count polls by who made them as well, of each interface that there is at the start: it needs root, and makes each poll cost a little
    /// more for as long as it runs
    #[arg(long)]
    polls: bool,

    /// Print the figures once, and end
    #[arg(long, conflicts_with = "listen")]
    once: bool,

    /// With --once: how they are written [default: text, which promtool and node_exporter's textfile collector read]
    #[arg(long, value_name = "FORMAT", requires = "once")]
    format: Option<Written>,
}

/// A way of writing figures.
#[derive(Clone, Copy, ValueEnum)]
enum Written {
    /// Prometheus' text format 0.0.4
    Text,
    /// OpenMetrics 1.0
    Openmetrics,
}

/// An address and a port, as `--listen` and `--metrics` take them.
pub(crate) fn parse_addr(text: &str) -> Result<SocketAddr, String> {
    let all = text.strip_prefix(':').filter(|port| port.parse::<u16>().is_ok());
    text.parse().map_err(|_| match all {
        Some(port) => {
            format!("give an address too: 127.0.0.1:{port} for this machine alone, [::]:{port} for all who reach it")
        }
        None => "give an address and a port, such as 127.0.0.1:19100 or [::1]:19100".to_owned(),
    })
}

/// Answers until it is interrupted, or prints once.
pub(crate) fn run(args: &ExportArgs, interrupted: &AtomicBool) -> anyhow::Result<()> {
    let kernel = Arc::new(Kernel::new(&args.dev).map_err(|error| Usage(error.into()))?);
    if args.polls {
        kernel.count_polls().map_err(|error| anyhow::anyhow!("--polls: {error}"))?;
    }
    let begun = Instant::now();
    let looked_at = Arc::clone(&kernel);
    let walk = move |sink: &mut dyn Sink| kernel.walk(begun.elapsed(), sink);
    if args.once {
        if args.polls {
            std::thread::sleep(ONCE);
        }
        let format = match args.format {
            Some(Written::Openmetrics) => Format::OpenMetrics,
            Some(Written::Text) | None => Format::Plain,
        };
        let mut out = std::io::stdout().lock();
        out.write_all(Exposition::new(walk).text(format).as_bytes())?;
        return Ok(out.flush()?);
    }
    let exporter = start(args.listen, || Polling::On(metrics::polling_cpus()), walk)?;
    let line = format!("ready: http://{}/metrics", exporter.addr());
    // Whoever waits for the line may be gone; the exporter goes on.
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    tell(&[NotifyState::Ready, NotifyState::Status(&line)]);
    while !interrupted.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK);
        if args.polls {
            looked_at.look_at_polls();
        }
    }
    tell(&[NotifyState::Stopping]);
    Ok(())
}

/// `--metrics` of a command that runs engines. `cpus`: those that their threads are pinned to.
pub(crate) fn of_engine(addr: Option<SocketAddr>, cpus: &[usize], shown: &Shown) -> anyhow::Result<Option<Exporter>> {
    let Some(addr) = addr else { return Ok(None) };
    let (pinned, grouped) = (cpus.to_vec(), shown.clone());
    let polling = move || match [&pinned[..], &grouped.group_cpus()].concat() {
        none if none.is_empty() => Polling::Anywhere,
        cpus => Polling::On(cpus),
    };
    let shown = shown.clone();
    start(addr, polling, move |sink: &mut dyn Sink| shown.metrics(sink)).map(Some)
}

/// Answers at an address, off the CPUs that poll; says so where every CPU does.
fn start(
    addr: SocketAddr,
    polling: impl Fn() -> Polling + Send + 'static,
    walk: impl Fn(&mut dyn Sink) + Send + Sync + 'static,
) -> anyhow::Result<Exporter> {
    let is_told = matches!(polling(), Polling::On(_));
    let exporter = Exporter::start(addr, polling, walk)?;
    if is_told && *exporter.place() == Place::Anywhere {
        eprintln!("napier: every CPU polls: figures are gathered on one of them, at niceness 10, and may come late");
    }
    Ok(exporter)
}

/// Tells systemd, if it has started this.
fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        eprintln!("napier: telling the service manager at $NOTIFY_SOCKET: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_host_is_explained() {
        assert_eq!(parse_addr("127.0.0.1:1").map(|addr| addr.port()), Ok(1));
        assert!(parse_addr("[::1]:1").is_ok());
        assert!(parse_addr(":9100").expect_err("no host").starts_with("give an address too: 127.0.0.1:9100 "));
        for wrong in ["", "localhost:1", "127.0.0.1", "127.0.0.1:70000", ":x", "9100"] {
            assert!(parse_addr(wrong).expect_err(wrong).starts_with("give an address and a port"), "{wrong}");
        }
    }
}

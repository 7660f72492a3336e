//! `bench xdp-rr` and `bench xdp-rx`.

use std::time::Duration;

use napier_lab::bench::{self, XdpRrConfig, XdpRxConfig, XdpRxPath};
use napier_lab::device::XdpWay;

use super::{parse_seconds, shown, us};
use crate::page::plural;
use crate::progress::Doing;

/// Options of `bench xdp-rr`.
#[derive(clap::Args)]
pub(crate) struct XdpRrArgs {
    /// Round trips per run
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..))]
    round_trips: u32,
    /// Runs of each, interleaved
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: u32,
    /// How the kernel hands packets to the engine's devices: auto, zerocopy, copy, generic
    #[arg(long, value_name = "WAY", default_value = "auto")]
    xdp: XdpWay,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Options of `bench xdp-rx`.
#[derive(clap::Args)]
pub(crate) struct XdpRxArgs {
    /// Length of each run in seconds, or with a unit such as 500ms
    #[arg(long, default_value = "1", allow_negative_numbers = true, value_parser = parse_seconds)]
    seconds: f64,
    /// Runs of each mode, interleaved
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: u32,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Says how the kernel handed packets to the engine's devices, by row.
fn in_force<'a>(rows: impl Iterator<Item = (&'a str, Option<&'a str>)>) {
    for (name, af_xdp) in rows {
        if let Some(af_xdp) = af_xdp {
            println!("AF_XDP in force: {name}: {af_xdp}");
        }
    }
}

pub(super) fn xdp_rr(args: &XdpRrArgs) -> anyhow::Result<()> {
    let doing = Doing::new(&format!("{} of each row", plural(args.runs, "run")), None);
    let rows = bench::xdp_rr(&XdpRrConfig { round_trips: args.round_trips, runs: args.runs, xdp: args.xdp })?;
    drop(doing);
    if shown(args.json, "xdp-rr", &rows)? {
        return Ok(());
    }
    println!("{:<36} {:>22} {:>22}  p50 of each run", "both ends spinning (us)", "p50 [min-max]", "p99 [min-max]");
    for row in &rows {
        let runs: Vec<String> = row.runs.iter().map(|run| us(run.p50_ns)).collect();
        println!(
            "{:<36} {:>22} {:>22}  {}",
            row.path.name(),
            row.p50_ns.scaled(1e-3).to_string(),
            row.p99_ns.scaled(1e-3).to_string(),
            runs.join(" ")
        );
    }
    in_force(rows.iter().map(|row| (row.path.name(), row.af_xdp.as_deref())));
    println!(
        "\nRound trip of a 64-byte frame over a veth pair; median of {}, interleaved, of {}.",
        plural(args.runs, "run"),
        plural(args.round_trips, "round trip")
    );
    Ok(())
}

pub(super) fn xdp_rx(args: &XdpRxArgs) -> anyhow::Result<()> {
    let doing = Doing::of_rows(args.runs, args.seconds);
    let rows = bench::xdp_rx(&XdpRxConfig { length: Duration::from_secs_f64(args.seconds), runs: args.runs })?;
    drop(doing);
    if shown(args.json, "xdp-rx", &rows)? {
        return Ok(());
    }
    println!(
        "{:<31} {:>18} {:>18} {:>18} {:>10}  received in each run",
        "", "received Mpps", "sent Mpps", "sender ns/packet", "dropped"
    );
    for row in &rows {
        let runs: Vec<String> = row.runs_mpps.iter().map(|run| format!("{run:.2}")).collect();
        let path = match row.path {
            XdpRxPath::Engine => "engine, raw ports",
            XdpRxPath::Bare => "raw AF_XDP, no engine",
        };
        println!(
            "{:<31} {:>18} {:>18} {:>18} {:>10}  {}",
            format!("{}: {path}", row.mode),
            row.received_mpps.to_string(),
            row.sent_mpps.to_string(),
            row.sender_ns.to_string(),
            row.dropped.map_or_else(|| "-".to_owned(), |dropped| dropped.to_string()),
            runs.join(" ")
        );
    }
    in_force(rows.iter().map(|row| (row.mode, row.af_xdp.as_deref())));
    println!(
        "\n64-byte frames over a veth pair, 32 at a time, to a program that polls on another CPU; median of {}.\n\
         sender ns/packet: time of its processor, with the kernel's way to the receiver's ring.\n\
         dropped: by the kernel, for the ring was full or no frame was there.",
        plural(args.runs, "run")
    );
    Ok(())
}

//! `bench xdp-rr` and `bench xdp-rx`.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use napier_lab::bench::{self, Metric, XdpRrConfig, XdpRxConfig};
use napier_lab::device::XdpWay;

use super::parse_seconds;
use super::print::{BenchText, cell, figure, latency_cells, latency_heads, measured, show, table, words};
use crate::page::plural;
use crate::progress::Doing;

/// Options of `bench xdp-rr`.
#[derive(clap::Args)]
pub(crate) struct XdpRrArgs {
    /// Round trips per slice
    #[arg(long, default_value_t = 4000, value_parser = clap::value_parser!(u32).range(1..))]
    round_trips: u32,
    /// Slices of each, in random order
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=10_000))]
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
    /// Length of each slice in seconds, or with a unit such as 500ms
    #[arg(long, default_value = "0.25", allow_negative_numbers = true, value_parser = parse_seconds)]
    seconds: f64,
    /// Slices of each row, in random order
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: u32,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// How the kernel handed packets to the engine's devices, by row.
fn in_force<'a>(rows: impl Iterator<Item = (&'a str, Option<&'a str>)>) -> Vec<String> {
    rows.filter_map(|(name, af_xdp)| Some(format!("AF_XDP in force: {name}: {}.", af_xdp?))).collect()
}

pub(super) fn xdp_rr(args: &XdpRrArgs, interrupted: &AtomicBool) -> anyhow::Result<()> {
    let doing = Doing::new(&format!("{} of each row", plural(args.runs, "slice")), None);
    let config = XdpRrConfig { round_trips: args.round_trips, runs: args.runs, xdp: args.xdp };
    let found = bench::xdp_rr(&config, interrupted, &mut |row| doing.now(row))?;
    drop(doing);
    show(args.json, "xdp-rr", &found, || {
        let decided = &found.decided[0];
        let heads = std::iter::once(words("both ends spinning")).chain(latency_heads()).collect();
        let row = |(at, row): (usize, &bench::XdpRr)| {
            std::iter::once(row.path.name().to_owned()).chain(latency_cells(decided, at)).collect()
        };
        let mut notes = in_force(found.rows.iter().map(|row| (row.path.name(), row.af_xdp.as_deref())));
        let trips = plural(args.round_trips, "round trip");
        notes.push(measured(args.runs, &format!("{trips} of a 64-byte frame over a veth pair each")));
        BenchText { tables: vec![table("", heads, found.rows.iter().enumerate().map(row).collect())], notes }
    })
}

pub(super) fn xdp_rx(args: &XdpRxArgs, interrupted: &AtomicBool) -> anyhow::Result<()> {
    let doing = Doing::of_rows(args.runs, args.seconds);
    let config = XdpRxConfig { length: Duration::from_secs_f64(args.seconds), runs: args.runs };
    let found = bench::xdp_rx(&config, interrupted, &mut |row| doing.now(row))?;
    drop(doing);
    show(args.json, "xdp-rx", &found, || {
        let decided = &found.decided[0];
        let mut heads = vec![words("receiver"), figure("received Mpps"), words("of the first")];
        heads.extend(["sent Mpps", "sender ns/packet", "dropped"].map(figure));
        let row = |(at, row): (usize, &bench::XdpRx)| {
            vec![
                format!("{}: {}", row.mode, row.path.name()),
                cell(decided, at, Metric::Throughput, 1e-6),
                decided.beside_first(at, Metric::Throughput),
                row.sent_mpps.median_shown(),
                row.sender_ns.median_shown(),
                row.dropped.map_or_else(|| "-".to_owned(), |dropped| dropped.to_string()),
            ]
        };
        let mut notes = in_force(found.rows.iter().map(|row| (row.mode, row.af_xdp.as_deref())));
        notes.push(measured(args.runs, &format!("{} s each", args.seconds)));
        notes.push(
            "64-byte frames over a veth pair, 32 at a time, to a program that polls on another CPU. sender ns/packet: time of its processor, with the \
             kernel's way to the receiver's ring. dropped: by the kernel, for the ring was full or no frame was there."
                .to_owned(),
        );
        BenchText { tables: vec![table("", heads, found.rows.iter().enumerate().map(row).collect())], notes }
    })
}

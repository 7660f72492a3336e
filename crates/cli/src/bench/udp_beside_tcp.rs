//! `napier bench udp-beside-tcp`.

use std::time::Duration;

use napier_lab::bench::{self, Beside, UdpBesideTcpConfig};

use super::{parse_seconds, shown};
use crate::page::plural;
use crate::progress::Doing;
use crate::units::{self, Bare};

/// Options of `bench udp-beside-tcp`.
#[derive(clap::Args)]
pub(crate) struct UdpBesideTcpArgs {
    /// No busy loops, and the program that sends over TCP on the other CPU
    #[arg(long)]
    idle: bool,
    /// Time between two requests of the echo in us, or with a unit such as 1ms
    #[arg(long, default_value_t = 500, value_parser = parse_period)]
    period: u64,
    /// Length of each run in seconds, or with a unit such as 500ms
    #[arg(long, default_value = "2", value_parser = parse_seconds)]
    seconds: f64,
    /// Pairs of runs, without TCP and with it
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn parse_period(text: &str) -> Result<u64, String> {
    units::whole_within(text, Bare::Microseconds, 1..=1_000_000)
}

pub(super) fn udp_beside_tcp(args: &UdpBesideTcpArgs) -> anyhow::Result<()> {
    let length = Duration::from_secs_f64(args.seconds);
    let period = Duration::from_micros(args.period);
    let doing = Doing::of_rows(args.runs, args.seconds);
    let rows = bench::udp_beside_tcp(&UdpBesideTcpConfig { idle: args.idle, period, length, runs: args.runs })?;
    drop(doing);
    if shown(args.json, "udp-beside-tcp", &rows)? {
        return Ok(());
    }
    println!("{:<10} {:>24} {:>24} {:>24} {:>10}", "beside", "p50 us [min-max]", "p99 us", "max us", "TCP MB/s");
    for row in &rows {
        let us = |spread: bench::Spread| spread.scaled(1e-3).to_string();
        let name = if row.beside == Beside::Tcp { "tcp" } else { "nothing" };
        let tcp = row.tcp_bytes_per_s.map_or_else(|| "-".to_owned(), |bytes| format!("{:.1}", bytes.median * 1e-6));
        println!("{name:<10} {:>24} {:>24} {:>24} {tcp:>10}", us(row.p50_ns), us(row.p99_ns), us(row.max_ns));
    }
    for row in &rows {
        if let (Some(p50), Some(p99)) = (row.p50_ratio, row.p99_ratio) {
            println!("\nBeside TCP by alone, of each pair: p50 {p50}, p99 {p99}.");
        }
    }
    let ksoftirqd: Vec<u64> = rows.iter().map(|row| row.ksoftirqd).collect();
    let lost: u64 = rows.iter().map(|row| row.lost).sum();
    let where_ = if args.idle { "on the other CPU" } else { "on the server's CPU, with three busy loops" };
    println!(
        "Round trip of a 64-byte frame every {} us; median of {} of {} s. The program that sends over TCP has nice 19 and runs\n\
         {where_}. The echo: {}; softirq: {}. Lost: {lost}. Times that softirq\n\
         went on at normal priority, where other programs count: {ksoftirqd:?}.",
        args.period,
        plural(args.runs, "run"),
        args.seconds,
        rows[0].echo_class,
        rows[0].softirq_class
    );
    Ok(())
}

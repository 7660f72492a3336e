//! `bench udp-stream`.

use std::io::Write;
use std::time::Duration;

use clap::ValueEnum;
use napier_lab::bench::{
    self, FqConfig, QdiscConfig, TIMED_EVERY, UDP_STREAM_BYTES_MAX, UDP_STREAM_SENDERS_MAX, UdpStream, UdpStreamConfig,
    UdpStreamVariant,
};
use napier_lab::report::transmit::time;

use crate::page::plural;
use crate::progress::Doing;

use crate::Usage;

/// Options of `bench udp-stream`.
#[derive(clap::Args)]
pub(crate) struct UdpStreamArgs {
    /// Numbers of sender threads, each an experiment of its own
    #[arg(long, value_delimiter = ',', default_value = "1,4,16",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(UDP_STREAM_SENDERS_MAX)))]
    threads: Vec<u32>,
    /// locked, llist, owner, noqueue, mutex, ring, alone; all if none is given
    #[arg(long, value_delimiter = ',', value_parser = parse_stream_variant)]
    variant: Vec<UdpStreamVariant>,
    /// Queueing discipline of locked, llist and owner
    #[arg(long, value_enum, default_value_t = Discipline::Fq)]
    qdisc: Discipline,
    /// Transmit queues of the link
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    queues: u16,
    /// Bytes of each datagram
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u16).range(1..=UDP_STREAM_BYTES_MAX as i64))]
    size: u16,
    /// Runs per variant, interleaved
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: u32,
    /// Length of each run in seconds, or with a unit such as 500ms
    #[arg(long, default_value_t = 0.5, allow_negative_numbers = true, value_parser = super::parse_seconds)]
    seconds: f64,
    /// Keep each thread on one CPU: senders and transmitters in turn, the receiver on the last
    #[arg(long)]
    pin: bool,
    /// Measure each transmit inside the engine as well, about 20 ns of each, and print its histogram
    #[arg(long)]
    xmit: bool,
    /// Print the histograms of the call that sends, and of what was handled at once
    #[arg(long)]
    histogram: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Disciplines by their name in tc.
#[derive(Copy, Clone, PartialEq, Eq, ValueEnum)]
enum Discipline {
    Fq,
    Pfifo,
    PfifoFast,
    Noqueue,
}

impl Discipline {
    fn config(self) -> QdiscConfig {
        match self {
            Self::Fq => QdiscConfig::Fq(FqConfig::default()),
            Self::Pfifo => QdiscConfig::pfifo(),
            Self::PfifoFast => QdiscConfig::pfifo_fast(),
            Self::Noqueue => QdiscConfig::Noqueue,
        }
    }

    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Whether a variant can run with this discipline.
    fn suits(self, variant: UdpStreamVariant) -> bool {
        self != Self::Noqueue || variant.tx_variant().is_none()
    }
}

fn parse_stream_variant(name: &str) -> Result<UdpStreamVariant, String> {
    UdpStreamVariant::parse(name)
        .ok_or_else(|| super::no_such_variant(&UdpStreamVariant::ALL.map(UdpStreamVariant::name)))
}

/// Runs `bench udp-stream` and prints it.
pub(crate) fn udp_stream(args: &UdpStreamArgs) -> anyhow::Result<()> {
    let all = || UdpStreamVariant::ALL.into_iter().filter(|variant| args.qdisc.suits(*variant)).collect();
    let variants: Vec<_> = if args.variant.is_empty() { all() } else { args.variant.clone() };
    if let Some(variant) = variants.iter().find(|variant| !args.qdisc.suits(**variant)) {
        let name = variant.name();
        return Err(Usage(anyhow::anyhow!("{name} needs a queueing discipline; without one there is noqueue")).into());
    }
    let doing = Doing::of_rows(args.runs, args.seconds);
    let rows = bench::udp_stream(&UdpStreamConfig {
        threads: args.threads.clone(),
        variants,
        qdisc: args.qdisc.config(),
        queues: args.queues,
        size_bytes: usize::from(args.size),
        runs: args.runs,
        length: Duration::from_secs_f64(args.seconds),
        pin: args.pin,
        xmit: args.xmit,
    })?;
    drop(doing);
    if super::shown(args.json, "udp-stream", &rows)? {
        return Ok(());
    }
    Ok(print_udp_stream(&rows, args)?)
}

fn print_udp_stream(rows: &[UdpStream], args: &UdpStreamArgs) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{:>7} {:<7} {:>24} {:>18} {:>7} {:>7} {:>9} {:>9} {:>24} {:>8} {:>6}",
        "senders",
        "",
        "M packets/s [min-max]",
        "x first [min-max]",
        "p50 ns",
        "p99 ns",
        "p99.9 ns",
        "max us",
        "cycles/packet [min-max]",
        "dropped",
        "lost"
    )?;
    for row in rows {
        writeln!(
            out,
            "{:>7} {:<7} {:>24} {:>18} {:>7.0} {:>7.0} {:>9.0} {:>9.0} {:>24} {:>8} {:>6}",
            row.threads,
            row.variant.name(),
            row.packets_per_s.scaled(1e-6).to_string(),
            row.ratio_to_first.map_or_else(|| "-".to_owned(), |ratio| ratio.to_string()),
            row.p50_ns.median,
            row.p99_ns.median,
            row.p999_ns.median,
            row.max_ns.median / 1e3,
            row.cycles_per_packet.map_or_else(|| "-".to_owned(), |cycles| cycles.to_string()),
            row.dropped,
            row.lost,
        )?;
    }
    writeln!(out)?;
    for row in rows {
        print_details(&mut out, row, args.histogram)?;
    }
    let clock_ns = rows.first().map_or(0, |row| row.clock_ns);
    writeln!(
        out,
        "\n{} bytes a datagram, {} transmit queue{}, {}; median of {} of {} s, {}. Times of every {TIMED_EVERY}th \
         call;\nthe {clock_ns} ns that reading the clock takes are in them. Cycles: reference cycles of all that send, \
         without the receiver.\nalone: a sender per queue that shares nothing and publishes 64 at once: what the link \
         can do.",
        args.size,
        args.queues,
        if args.queues == 1 { "" } else { "s" },
        args.qdisc.name(),
        plural(args.runs, "run"),
        args.seconds,
        if args.pin { "each thread on one CPU" } else { "threads run where the system lets them" },
    )
}

/// Who used the CPUs and who waited for whom, line by line.
fn print_details(out: &mut impl Write, row: &UdpStream, histogram: bool) -> std::io::Result<()> {
    writeln!(out, "{:>7} {:<7} CPU, %: {}", row.threads, row.variant.name(), row.cpu)?;
    if row.lock_waits.contended > 0 {
        writeln!(out, "{:>15} waited for locks: {}", "", row.lock_waits)?;
    }
    if let Some(stay) = row.flusher_stay_max_ns {
        writeln!(out, "{:>15} longest stay of a flusher: {}", "", time(stay.max as u64))?;
    }
    if row.full_per_packet >= 0.005 {
        writeln!(out, "{:>15} found no room: {:.2} times a packet", "", row.full_per_packet)?;
    }
    if let Some(calls) = &row.xmit_calls {
        write!(out, "{:>15} time in the engine's transmit, ns:\n{calls}", "")?;
    }
    if histogram {
        write!(out, "{:>15} time in the call that sends, ns:\n{}", "", row.send_calls)?;
        if row.batch_packets.count() > 0 {
            write!(out, "{:>15} packets handled at once:\n{}", "", row.batch_packets)?;
        }
    }
    Ok(())
}

//! `bench udp-stream`.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::ValueEnum;
use napier_lab::bench::{
    self, Compared, FqConfig, Metric, QdiscConfig, TIMED_EVERY, UDP_STREAM_BYTES_MAX, UDP_STREAM_SENDERS_MAX,
    UdpStream, UdpStreamConfig, UdpStreamVariant,
};
use napier_lab::report::transmit::time;
use napier_lab::sheet::SheetTable;

use super::print::{BenchText, cell, figure, measured, show, table, words};
use crate::Usage;
use crate::page::plural;
use crate::progress::Doing;

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
    /// Slices per variant, in random order
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: u32,
    /// Length of each slice in seconds, or with a unit such as 500ms
    #[arg(long, default_value_t = 0.12, allow_negative_numbers = true, value_parser = super::parse_seconds)]
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
pub(crate) fn udp_stream(args: &UdpStreamArgs, interrupted: &AtomicBool) -> anyhow::Result<()> {
    let all = || UdpStreamVariant::ALL.into_iter().filter(|variant| args.qdisc.suits(*variant)).collect();
    let variants: Vec<_> = if args.variant.is_empty() { all() } else { args.variant.clone() };
    if let Some(variant) = variants.iter().find(|variant| !args.qdisc.suits(**variant)) {
        let name = variant.name();
        return Err(Usage(anyhow::anyhow!("{name} needs a queueing discipline; without one there is noqueue")).into());
    }
    let doing = Doing::of_rows(args.runs, args.seconds);
    let config = UdpStreamConfig {
        threads: args.threads.clone(),
        variants,
        qdisc: args.qdisc.config(),
        queues: args.queues,
        size_bytes: usize::from(args.size),
        runs: args.runs,
        length: Duration::from_secs_f64(args.seconds),
        pin: args.pin,
        xmit: args.xmit,
    };
    let found = bench::udp_stream(&config, interrupted, &mut |row| doing.now(row))?;
    drop(doing);
    show(args.json, "udp-stream", &found, || BenchText {
        tables: vec![packets(&found, config.variants.len())],
        notes: notes(&found.rows, args),
    })
}

fn packets(found: &Compared<UdpStream>, variants: usize) -> SheetTable {
    let mut heads = vec![words("variant"), figure("senders"), figure("M packets/s"), words("of the first")];
    heads.extend(["p50 ns", "p99 ns", "p99.9 ns", "cycles/packet", "dropped", "lost"].map(figure));
    let rows = found.rows.chunks(variants).zip(&found.decided).flat_map(|(rows, decided)| {
        rows.iter().enumerate().map(move |(at, row)| {
            let times = [row.p50_ns, row.p99_ns, row.p999_ns].map(|of| format!("{:.0}", of.median));
            let front = [
                row.variant.name().to_owned(),
                row.threads.to_string(),
                cell(decided, at, Metric::Throughput, 1e-6),
                decided.beside_first(at, Metric::Throughput),
            ];
            let cycles = row.cycles_per_packet.map_or_else(|| "-".to_owned(), bench::Spread::median_shown);
            front.into_iter().chain(times).chain([cycles, row.dropped.to_string(), row.lost.to_string()]).collect()
        })
    });
    table("", heads, rows.collect())
}

fn notes(rows: &[UdpStream], args: &UdpStreamArgs) -> Vec<String> {
    let mut notes: Vec<String> = rows.iter().flat_map(|row| details(row, args.histogram)).collect();
    let clock_ns = rows.first().map_or(0, |row| row.clock_ns);
    notes.push(measured(args.runs, &format!("{} s each", args.seconds)));
    notes.push(format!(
        "{} bytes a datagram, {}, {}; {}. Times of every {TIMED_EVERY}th call; the {clock_ns} ns that reading the clock takes are in them. Cycles: reference \
         cycles of all that send, without the receiver. alone: a sender per queue that shares nothing and publishes 64 at once: what the link can do.",
        args.size,
        plural(args.queues, "transmit queue"),
        args.qdisc.name(),
        if args.pin { "each thread on one CPU" } else { "threads run where the system lets them" },
    ));
    notes
}

/// Who used the CPUs and who waited for whom.
fn details(row: &UdpStream, histogram: bool) -> Vec<String> {
    let mut said = vec![format!("CPU, %: {}", row.cpu)];
    if row.lock_waits.contended > 0 {
        said.push(format!("waited for locks: {}", row.lock_waits));
    }
    if let Some(stay) = row.flusher_stay_max_ns {
        said.push(format!("longest stay of a flusher: {}", time(stay.max as u64)));
    }
    if row.full_per_packet >= 0.005 {
        said.push(format!("found no room: {:.2} times a packet", row.full_per_packet));
    }
    let calls = |what: &str, calls: &dyn std::fmt::Display| {
        format!("{what}: {}", calls.to_string().trim_end().replace('\n', "; "))
    };
    said.extend(row.xmit_calls.as_ref().map(|of| calls("time in the engine's transmit, ns", of)));
    if histogram {
        said.push(calls("time in the call that sends, ns", &row.send_calls));
        said.extend((row.batch_packets.count() > 0).then(|| calls("packets handled at once", &row.batch_packets)));
    }
    let (name, senders) = (row.variant.name(), plural(row.threads, "sender"));
    said.into_iter().map(|words| format!("{name}, {senders}: {words}")).collect()
}

//! `napier bench`: the experiments and how they are printed.

mod defer;
mod flow_table;
mod group;
mod memif;
mod print;
mod raw_rr;
mod storage;
mod tcp_flows;
mod tcp_rr;
mod udp_stream;
mod xdp;

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Subcommand;
use napier_lab::bench::{self, Compared, RxCostConfig, UdpRrConfig, WakeupConfig, measured_entry};
use napier_lab::html::HtmlFile;

use self::print::{BenchText, PAGE, figure, latency_cells, latency_heads, measured, show, table, words};
use crate::Usage;
use crate::page::plural;
use crate::progress::Doing;
use crate::units::{self, Bare};

/// What is measured, and where it is shown.
#[derive(clap::Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    bench: Bench,

    /// Write a page to this file as well: figures and tables in one HTML file that needs nothing else
    #[arg(long, value_name = "FILE", global = true)]
    html: Option<PathBuf>,
}

/// One experiment.
#[derive(Subcommand)]
pub(crate) enum Bench {
    /// What receiving a packet costs: ns and instructions, at batch 1, 8, 32 and 64
    RxCost(RxCost),
    /// From the doorbell until a thread has received the packet, for each kind of thread that may be woken
    Wakeup(Wakeup),
    /// What a deferral cycle costs, by what it finds
    Defer(defer::DeferArgs),
    /// Request and response at a fixed period, with a processing time per reply: over raw ports, or AF_XDP sockets on the kernel
    #[command(visible_alias = "xsk-rr")]
    RawRr(raw_rr::RawRrArgs),
    /// Request and response over UDP sockets, closed loop
    UdpRr(Udp),
    /// Request and response over TCP sockets, closed loop: of one byte over one connection or over many in turn; of any size
    /// over many at once (--flows)
    TcpRr(tcp_rr::TcpRrArgs),
    /// Reads and writes of a remote store at a fixed rate
    Storage(storage::StorageArgs),
    /// A polling group beside other pollers of the same CPU, asleep, at a step of load, and with senders and timers
    Group(group::GroupArgs),
    /// One side of a memif whose other side is another process
    Memif(memif::MemifArgs),
    /// Many threads send datagrams as fast as they can over few transmit queues
    UdpStream(udp_stream::UdpStreamArgs),
    /// Request and response over a veth pair by AF_XDP, and by kernel sockets beside it; all ends spin
    XdpRr(xdp::XdpRrArgs),
    /// Packets that a raw port receives over a veth pair by AF_XDP, the sender on another CPU
    XdpRx(xdp::XdpRxArgs),
}

/// Options of `bench rx-cost`.
#[derive(clap::Args)]
pub(crate) struct RxCost {
    /// Runs per row, interleaved
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: u32,
    /// Length of each run in milliseconds, or with a unit such as 1s
    #[arg(long, default_value_t = 200, value_parser = parse_millis)]
    millis: u64,
    /// Let another CPU send all the time, as testpmd rxonly is measured; raw port only
    #[arg(long)]
    other_core: bool,
    /// Leave out the instruction counts (they need valgrind and some seconds)
    #[arg(long)]
    no_instructions: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Options of `bench wakeup`.
#[derive(clap::Args)]
pub(crate) struct Wakeup {
    /// Samples per context
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    samples: u32,
    /// Idle time before each sample in us, or with a unit such as 1ms
    #[arg(long, default_value_t = 50, value_parser = parse_gap)]
    gap: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Options of `bench udp-rr`.
#[derive(clap::Args)]
pub(crate) struct Udp {
    /// Round trips per slice
    #[arg(long, default_value_t = 4000, value_parser = clap::value_parser!(u32).range(1..))]
    round_trips: u32,
    /// Slices per mode, in random order
    #[arg(long, default_value_t = 25, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: u32,
    /// Capture the server's device into this file, one section per slice; the copying is part of the figures
    #[arg(long, value_name = "FILE")]
    pcapng: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs one experiment and prints it.
pub(crate) fn run(args: &BenchArgs, interrupted: &AtomicBool) -> anyhow::Result<()> {
    if let Some(path) = &args.html {
        // Before anything runs, so that nothing is lost.
        let checked = PAGE.get_or_init(|| HtmlFile::check(path, "--html")).as_ref();
        checked.map_err(|error| Usage(anyhow::anyhow!("{error}")))?;
    }
    match &args.bench {
        Bench::RxCost(args) => rx_cost(args),
        Bench::Wakeup(args) => wakeup(args, interrupted),
        Bench::Defer(args) => defer::defer(args, interrupted),
        Bench::RawRr(args) => raw_rr::raw_rr(args, interrupted),
        Bench::UdpRr(args) => udp_rr(args, interrupted),
        Bench::TcpRr(args) => tcp_rr::tcp_rr(args, interrupted),
        Bench::Storage(args) => storage::storage(args, interrupted),
        Bench::Group(args) => group::group(args),
        Bench::Memif(args) => memif::memif(args),
        Bench::UdpStream(args) => udp_stream::udp_stream(args, interrupted),
        Bench::XdpRr(args) => xdp::xdp_rr(args, interrupted),
        Bench::XdpRx(args) => xdp::xdp_rx(args, interrupted),
    }
}

fn rx_cost(args: &RxCost) -> anyhow::Result<()> {
    if measured_entry()? {
        return Ok(());
    }
    let doing = Doing::new(&format!("{} of {} ms of each row", plural(args.runs, "run"), args.millis), None);
    let rows = bench::rx_cost(&RxCostConfig {
        runs: args.runs,
        length: Duration::from_millis(args.millis),
        instructions: !args.no_instructions,
        other_core: args.other_core,
    })?;
    drop(doing);
    let found = Compared { rows, decided: Vec::new() };
    show(args.json, "rx-cost", &found, || {
        let heads =
            vec![words("64-byte packets"), figure("batch"), figure("ns/packet [min-max]"), figure("instr/packet")];
        let row = |row: &bench::RxCost| {
            let instructions =
                row.instructions_per_packet.map_or_else(|| "-".to_owned(), |count| format!("{count:.0}"));
            vec![row.path.name().to_owned(), row.batch.to_string(), row.ns_per_packet.to_string(), instructions]
        };
        let how = if args.other_core {
            "Another CPU sends all the time; only calls that found packets count, with one clock reading each."
        } else {
            "The receiving side alone, on one CPU with the packets in its cache; each batch includes one clock reading. Instructions: user space, by \
             callgrind; -: valgrind is not installed or was not asked."
        };
        let notes = vec![format!("Median of {}. {how}", plural(args.runs, "run"))];
        BenchText { tables: vec![table("", heads, found.rows.iter().map(row).collect())], notes }
    })
}

fn wakeup(args: &Wakeup, interrupted: &AtomicBool) -> anyhow::Result<()> {
    let doing = Doing::new(&format!("{} of each row", plural(args.samples, "sample")), None);
    let config = WakeupConfig { samples: args.samples, gap: Duration::from_micros(args.gap) };
    let found = bench::wakeup(&config, interrupted, &mut |row| doing.now(row))?;
    drop(doing);
    show(args.json, "wakeup", &found, || {
        let decided = &found.decided[0];
        let mut heads = vec![words("doorbell until (us)")];
        heads.extend(["p50", "p95", "p99", "max", "sender p50"].map(figure));
        heads.push(words("p50 of the first"));
        let row = |(at, row): (usize, &bench::Wakeup)| {
            let latency = &row.latency;
            let times = [latency.p50_ns, latency.p95_ns, latency.p99_ns, latency.max_ns, row.sender.p50_ns].map(us);
            let name = std::iter::once(row.context.name().to_owned());
            name.chain(times).chain([decided.beside_first(at, bench::Metric::P50)]).collect()
        };
        let notes = vec![
            format!(
                "{} each after {} us of idleness; sender: what publishing and ringing cost it.",
                plural(args.samples, "sample"),
                args.gap
            ),
            measured(decided.rounds, "with as many samples each"),
        ];
        BenchText { tables: vec![table("", heads, found.rows.iter().enumerate().map(row).collect())], notes }
    })
}

fn us(ns: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a figure for a table")]
    let us = ns as f64 / 1000.0;
    format!("{us:.2}")
}

fn udp_rr(args: &Udp, interrupted: &AtomicBool) -> anyhow::Result<()> {
    let doing = Doing::new(&format!("{} of each row", plural(args.runs, "slice")), None);
    let config = UdpRrConfig { round_trips: args.round_trips, runs: args.runs, pcapng: args.pcapng.clone() };
    let found = bench::udp_rr(&config, interrupted, &mut |row| doing.now(row))?;
    drop(doing);
    show(args.json, "udp-rr", &found, || {
        let decided = &found.decided[0];
        let heads = std::iter::once(words("both programs")).chain(latency_heads()).collect();
        let row = |(at, row): (usize, &bench::UdpRr)| {
            std::iter::once(row.mode.name().to_owned()).chain(latency_cells(decided, at)).collect()
        };
        let how = measured(args.runs, &format!("{} of a 64-byte frame each", plural(args.round_trips, "round trip")));
        let mut notes = vec![how];
        if let Some(path) = &args.pcapng {
            let (written, dropped) =
                found.rows.iter().filter_map(|row| row.captured).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
            notes.push(format!(
                "{written} frames of the server's device are in {}; the capture dropped {dropped}.",
                path.display()
            ));
        }
        BenchText { tables: vec![table("", heads, found.rows.iter().enumerate().map(row).collect())], notes }
    })
}

/// What is said of a variant that does not exist.
fn no_such_variant(names: &[&str]) -> String {
    format!("no such variant; give {}", names.join(", "))
}

/// Length of a run.
fn parse_seconds(text: &str) -> Result<f64, String> {
    units::time_within(text, Bare::Seconds, 1e-3..=3600.0)
}

fn parse_millis(text: &str) -> Result<u64, String> {
    units::whole_within(text, Bare::Milliseconds, 1..=3_600_000)
}

fn parse_gap(text: &str) -> Result<u64, String> {
    units::whole_within(text, Bare::Microseconds, 0..=10_000_000)
}

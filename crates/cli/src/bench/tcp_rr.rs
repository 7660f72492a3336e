//! `napier bench tcp-rr`.

use napier_lab::bench::{self, TCP_CONNECTIONS_MAX, TcpRrConfig, measured_tcp_entry};

use super::print_json;

/// Options of `bench tcp-rr`.
#[derive(clap::Args)]
pub(crate) struct TcpRrArgs {
    /// Round trips per run
    #[arg(long, default_value_t = 20_000)]
    round_trips: u32,
    /// Runs per row, interleaved
    #[arg(long, default_value_t = 5)]
    runs: u32,
    /// Open connections, used in turn; several numbers give a row each
    #[arg(long, value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u32).range(1..=i64::from(TCP_CONNECTIONS_MAX)))]
    connections: Vec<u32>,
    /// Leave out the instruction counts (they need valgrind and some seconds)
    #[arg(long)]
    no_instructions: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn tcp_rr(args: &TcpRrArgs) -> anyhow::Result<()> {
    if measured_tcp_entry()? {
        return Ok(());
    }
    let tables = bench::tcp_rr(&TcpRrConfig {
        round_trips: args.round_trips.max(1),
        runs: args.runs,
        connections: args.connections.clone(),
        instructions: !args.no_instructions,
    })?;
    if args.json {
        return print_json("tcp-rr", std::slice::from_ref(&tables));
    }
    println!("{:<28} {:>11} {:>28} {:>28}", "both programs", "connections", "p50 ns [min-max]", "p99 ns [min-max]");
    for row in &tables.round_trips {
        let (p50, p99) = (row.p50_ns.to_string(), row.p99_ns.to_string());
        println!("{:<28} {:>11} {p50:>28} {p99:>28}", row.mode.name(), row.connections);
    }
    println!(
        "\n{:<28} {:>11} {:>28} {:>13}",
        "one thread, both ends", "connections", "ns/request [min-max]", "instr/request"
    );
    for row in &tables.costs {
        let instructions = row.instructions_per_request.map_or_else(|| "-".to_owned(), |count| format!("{count:.0}"));
        println!("{:<28} {:>11} {:>28} {instructions:>13}", "", row.connections, row.ns_per_request.to_string());
    }
    println!(
        "\nRound trip of one byte; median of {} runs of {} round trips. Instructions: user space, by callgrind; -: valgrind\n\
         is not installed or was not asked.",
        args.runs, args.round_trips
    );
    Ok(())
}

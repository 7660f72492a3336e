//! `napier bench tcp-rr`.

use std::sync::atomic::AtomicBool;

use napier_lab::bench::{self, TCP_CONNECTIONS_MAX, TcpRrConfig, TcpRrTables, measured_tcp_entry};

use super::shown;
use super::tcp_flows::{FlowsArgs, tcp_flows};
use crate::page::plural;
use crate::progress::Doing;

/// Most requests in flight: fewer than a ring has slots.
const IN_FLIGHT_MAX: i64 = 512;

/// Options of `bench tcp-rr`.
#[derive(clap::Args)]
pub(crate) struct TcpRrArgs {
    /// Round trips per run
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "flows")]
    round_trips: u32,
    /// Runs per row, interleaved
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: u32,
    /// Open connections, used in turn; several numbers give a row each
    #[arg(long, value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u32).range(1..=i64::from(TCP_CONNECTIONS_MAX)), conflicts_with = "flows")]
    connections: Vec<u32>,
    /// Requests that one thread with both ends keeps in flight, each over another connection; several numbers give a row
    /// each
    #[arg(long, value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u32).range(1..=IN_FLIGHT_MAX), conflicts_with = "flows")]
    in_flight: Vec<u32>,
    /// Leave out the table of two programs
    #[arg(long, conflicts_with = "flows")]
    no_round_trips: bool,
    /// Leave out the instruction counts (they need valgrind and some seconds)
    #[arg(long, conflicts_with = "flows")]
    no_instructions: bool,
    #[command(flatten)]
    flows: FlowsArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn tcp_rr(args: &TcpRrArgs, interrupted: &AtomicBool) -> anyhow::Result<()> {
    if measured_tcp_entry()? {
        return Ok(());
    }
    if let Some(flows) = args.flows.flows {
        return tcp_flows(&args.flows, flows, args.runs, args.json, interrupted);
    }
    let doing = Doing::new(&format!("{} of each row", plural(args.runs, "run")), None);
    let tables = bench::tcp_rr(&TcpRrConfig {
        round_trips: args.round_trips,
        runs: args.runs,
        connections: args.connections.clone(),
        in_flight: args.in_flight.clone(),
        round_trip_table: !args.no_round_trips,
        instructions: !args.no_instructions,
    })?;
    drop(doing);
    if shown(args.json, "tcp-rr", std::slice::from_ref(&tables))? {
        return Ok(());
    }
    if !args.no_round_trips {
        print_round_trips(&tables);
    }
    println!(
        "{:<22} {:>11} {:>9} {:>28} {:>13}",
        "one thread, both ends", "connections", "in flight", "ns/request [min-max]", "instr/request"
    );
    for row in &tables.costs {
        let instructions = row.instructions_per_request.map_or_else(|| "-".to_owned(), |count| format!("{count:.0}"));
        let ns = row.ns_per_request.to_string();
        println!("{:<22} {:>11} {:>9} {ns:>28} {instructions:>13}", "", row.connections, row.in_flight);
    }
    println!(
        "\nRound trip of one byte; median of {} of {}. In flight: requests over as many connections that one\n\
         thread sends before it receives the first. Instructions: user space, by callgrind; -: valgrind is not installed,\n\
         was not asked, or the run did not get through under it.",
        plural(args.runs, "run"),
        plural(args.round_trips, "round trip")
    );
    Ok(())
}

fn print_round_trips(tables: &TcpRrTables) {
    println!("{:<28} {:>11} {:>28} {:>28}", "both programs", "connections", "p50 ns [min-max]", "p99 ns [min-max]");
    for row in &tables.round_trips {
        let (p50, p99) = (row.p50_ns.to_string(), row.p99_ns.to_string());
        println!("{:<28} {:>11} {p50:>28} {p99:>28}", row.mode.name(), row.connections);
    }
    println!();
}

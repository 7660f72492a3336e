//! `napier bench tcp-rr`.

use std::sync::atomic::AtomicBool;

use napier_lab::bench::{
    self, BenchDecided, Compared, Metric, TCP_CONNECTIONS_MAX, TcpCost, TcpRr, TcpRrConfig, TcpRrTables,
    measured_tcp_entry,
};
use napier_lab::sheet::SheetTable;

use super::print::{BenchText, figure, latency_cells, latency_heads, measured, show, table, words};
use super::tcp_flows::{FlowsArgs, tcp_flows};
use crate::page::plural;
use crate::progress::Doing;

/// Most requests in flight: fewer than a ring has slots.
const IN_FLIGHT_MAX: i64 = 512;

/// Options of `bench tcp-rr`.
#[derive(clap::Args)]
pub(crate) struct TcpRrArgs {
    /// Round trips per slice
    #[arg(long, default_value_t = 4000, value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "flows")]
    round_trips: u32,
    /// Slices per row, in random order
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
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
    let doing = Doing::new(&format!("{} of each row", plural(args.runs, "slice")), None);
    let config = TcpRrConfig {
        round_trips: args.round_trips,
        runs: args.runs,
        connections: args.connections.clone(),
        in_flight: args.in_flight.clone(),
        round_trip_table: !args.no_round_trips,
        instructions: !args.no_instructions,
    };
    let tables = bench::tcp_rr(&config, interrupted, &mut |row| doing.now(row))?;
    drop(doing);
    let decided = tables.decided.clone();
    show(args.json, "tcp-rr", &Compared { rows: vec![tables.clone()], decided }, || {
        let mut shown = vec![costs(&tables)];
        shown.extend((!args.no_round_trips).then(|| round_trips(&tables)));
        shown.reverse();
        let notes = vec![
            measured(args.runs, &format!("{} of one byte each", plural(args.round_trips, "round trip"))),
            "In flight: requests over as many connections that one thread sends before it receives the first. Instructions: user space, by callgrind; -: \
             valgrind is not installed, was not asked, or the run did not get through under it."
                .to_owned(),
        ];
        BenchText { tables: shown, notes }
    })
}

fn round_trips(tables: &TcpRrTables) -> SheetTable {
    let heads = [words("both programs"), figure("connections")].into_iter().chain(latency_heads()).collect();
    let of_block = tables.round_trips.chunk_by(|a, b| a.connections == b.connections).zip(&tables.decided);
    let row = |(at, row): (usize, &TcpRr), decided: &BenchDecided| {
        let front = [row.mode.name().to_owned(), row.connections.to_string()];
        front.into_iter().chain(latency_cells(decided, at)).collect()
    };
    let rows = of_block.flat_map(|(rows, decided)| rows.iter().enumerate().map(move |one| row(one, decided)));
    table("", heads, rows.collect())
}

fn costs(tables: &TcpRrTables) -> SheetTable {
    let mut heads = vec![words("one thread, both ends")];
    heads.extend(["connections", "in flight", "ns/request [min-max]", "instr"].map(figure));
    heads.push(words("of the first"));
    let row = |(at, row): (usize, &TcpCost)| {
        let instructions = row.instructions_per_request.map_or_else(|| "-".to_owned(), |count| format!("{count:.0}"));
        let beside = tables.decided.last().map(|decided| decided.beside_first(at, Metric::Throughput));
        let (connections, in_flight) = (row.connections.to_string(), row.in_flight.to_string());
        vec![
            String::new(),
            connections,
            in_flight,
            row.ns_per_request.to_string(),
            instructions,
            beside.unwrap_or_default(),
        ]
    };
    table("", heads, tables.costs.iter().enumerate().map(row).collect())
}

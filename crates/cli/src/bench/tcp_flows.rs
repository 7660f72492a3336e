//! `napier bench tcp-rr --flows`.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use napier_lab::bench::{
    Compared, FLOWS_MAX, FlowsConfig, Metric, PublishedFlow, TcpFlows, TcpFlowsConfig, WORKERS_MAX,
};
use napier_lab::sheet::{ColumnHead, SheetTable, TableCell};
use napier_lab::subject::Backend;

use super::flow_table::{backends, bytes, parse_bytes, read_subjects};
use super::parse_seconds;
use super::print::{
    BenchText, figure, measured, notes_of_flows, published_times, rate, show, table, time, without_figures, words,
};
use crate::Told;
use crate::page::plural;
use crate::progress::Doing;

/// Options of the experiment with all connections at once.
#[derive(clap::Args)]
pub(super) struct FlowsArgs {
    /// So many connections at once, each with a request on its way, in place of the two tables
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(FLOWS_MAX)))]
    pub(super) flows: Option<u32>,
    /// Bytes of a request, such as 1 or 1M
    #[arg(long, value_name = "BYTES", default_value = "1", requires = "flows", value_parser = parse_bytes)]
    request: u32,
    /// Bytes of a response, such as 1, 5000 or 1M; several sizes give a block each
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1", requires = "flows", value_parser = parse_bytes)]
    response: Vec<u32>,
    /// Modes of the server's end, in the order of the rows, as in `napier compare`
    #[arg(long, value_name = "LIST", default_value = "base,threaded,workqueue", requires = "flows")]
    modes: String,
    /// Where modes are applied; both give a row each
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "engine", requires = "flows", value_parser = backends())]
    backend: Vec<Backend>,
    /// Threads of the server, each with a queue of its own
    #[arg(long, default_value_t = 1, requires = "flows", value_parser = clap::value_parser!(u16).range(1..=i64::from(WORKERS_MAX)))]
    workers: u16,
    /// Length of each slice in seconds, or with a unit such as 500ms; longer where the flows are not all answered by then
    #[arg(long, default_value_t = 0.5, allow_negative_numbers = true, requires = "flows", value_parser = parse_seconds)]
    seconds: f64,
    /// Run what needs more CPUs than there are
    #[arg(long, requires = "flows")]
    oversubscribe: bool,
}

pub(super) fn tcp_flows(
    args: &FlowsArgs,
    flows: u32,
    runs: u32,
    json: bool,
    interrupted: &AtomicBool,
) -> anyhow::Result<()> {
    let config = TcpFlowsConfig {
        flows_config: FlowsConfig {
            subjects: read_subjects(&args.modes, &args.backend)?,
            workers: args.workers,
            length: Duration::from_secs_f64(args.seconds),
            runs,
            oversubscribe: args.oversubscribe,
        },
        flows,
        request_bytes: args.request,
        response_bytes: args.response.clone(),
    };
    let doing = Doing::of_rows(runs, args.seconds);
    let found = napier_lab::bench::tcp_flows(&config, interrupted, &mut |row| doing.now(row))?;
    drop(doing);
    let rows = &found.rows;
    show(json, "tcp-rr", &found, || {
        let mut notes = vec![
            measured(runs, &format!("{} s each", args.seconds)),
            "From the send of a request to the last byte of its response.".to_owned(),
        ];
        notes.extend(notes_of_flows(rows.iter().map(|row| row.backend), rows.iter().find_map(|row| row.cpus.as_ref())));
        BenchText { tables: tables(&found), notes }
    })?;
    match rows.iter().find_map(|row| row.refused.as_ref()).filter(|_| rows.iter().all(|row| row.figures.is_none())) {
        Some(why) => Err(Told(format!("nothing was measured: {why}")).into()),
        None => Ok(()),
    }
}

fn heads(title: &str) -> Vec<ColumnHead> {
    let mut heads = vec![words(title), figure("req/resp"), figure("QPS"), words("of the first")];
    heads.extend(["50%tile", "90%tile", "99%tile"].map(figure));
    heads.extend([words("of the first"), figure("99.9%tile").goes(1)]);
    heads
}

fn tables(found: &Compared<TcpFlows>) -> Vec<SheetTable> {
    let flows = found.rows.first().map_or(0, |row| row.flows);
    let sizes = |row: &TcpFlows| format!("{}/{}", bytes(row.request_bytes), bytes(row.response_bytes));
    let blocks = found.rows.chunk_by(|a, b| a.response_bytes == b.response_bytes);
    let mut lines = Vec::new();
    let mut published = Vec::new();
    for (rows, decided) in blocks.zip(&found.decided) {
        for (at, row) in rows.iter().enumerate() {
            let name = format!("{}/{}", row.backend, row.mode);
            let Some(f) = &row.figures else {
                lines.push(without_figures(name, row.refused.as_deref().unwrap_or("no answer came"), 8));
                continue;
            };
            let [p50, p90, p99, p999] =
                [f.p50_ns, f.p90_ns, f.p99_ns, f.p999_ns].map(|of| TableCell::Figure(time(of.median)));
            let beside = |metric| TableCell::Name(decided.beside_first(at, metric));
            let front = [TableCell::Name(name), TableCell::Figure(sizes(row)), TableCell::Figure(rate(f.qps.median))];
            let back = [beside(Metric::Throughput), p50, p90, p99, beside(Metric::P99), p999];
            lines.push(front.into_iter().chain(back).collect());
            if let Some(p) = row.published.filter(|p| !published.iter().any(|(of, _)| of == p)) {
                published.push((p, sizes(row)));
            }
        }
    }
    let all = heads(&plural(flows, "flow"));
    let mut tables = vec![SheetTable { title: String::new(), heads: all.clone(), rows: lines }];
    let row = |(p, sizes): &(PublishedFlow, String)| {
        let [p50, p90, p99, p999] = published_times(p);
        vec![p.mode.to_owned(), sizes.clone(), rate(p.qps), String::new(), p50, p90, p99, String::new(), p999]
    };
    let title = "As published, on another machine (56 hyper-threads, 100 Gbit/s, 1000 flows):";
    tables.extend((!published.is_empty()).then(|| table(title, all, published.iter().map(row).collect())));
    tables
}

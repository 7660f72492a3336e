//! `napier bench tcp-rr --flows`.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use napier_lab::bench::{FLOWS_MAX, FlowsConfig, TcpFlows, TcpFlowsConfig, WORKERS_MAX};
use napier_lab::subject::Backend;

use super::flow_table::{
    Column, backends, bytes, once, parse_bytes, print_notes, print_row, print_words, rate, read_subjects, time,
};
use super::{parse_seconds, shown};
use crate::Told;

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
    /// Length of each run in seconds, or with a unit such as 500ms; longer where the flows are not all answered by then
    #[arg(long, default_value_t = 2.0, allow_negative_numbers = true, requires = "flows", value_parser = parse_seconds)]
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
    let bar = crate::progress::spinner();
    let measured = napier_lab::bench::tcp_flows(&config, interrupted, &mut |row| bar.set_message(row.to_owned()));
    bar.finish_and_clear();
    let rows = measured?;
    if !shown(json, "tcp-rr", &rows)? {
        print(&rows, args.seconds, runs);
    }
    match rows.iter().find_map(|row| row.refused.as_ref()).filter(|_| rows.iter().all(|row| row.figures.is_none())) {
        Some(why) => Err(Told(format!("nothing was measured: {why}")).into()),
        None => Ok(()),
    }
}

fn label(name: &str, request: u32, response: u32) -> String {
    format!("{name:<17}{:>11}", format!("{}/{}", bytes(request), bytes(response)))
}

fn print(rows: &[TcpFlows], seconds: f64, runs: u32) {
    let flows = rows.first().map_or(0, |row| row.flows);
    let title = format!("{flows} flows");
    println!(
        "{title:<17}{:>11}{:>9}{:>10}{:>10}{:>10}{:>10}",
        "req/resp", "QPS", "50%tile", "90%tile", "99%tile", "99.9%tile"
    );
    let column = |width, values, write| Column { width, values, write };
    for row in rows {
        let label = label(&format!("{}/{}", row.backend, row.mode), row.request_bytes, row.response_bytes);
        match (&row.figures, &row.refused) {
            (Some(f), _) => {
                let times = [f.p50_ns, f.p90_ns, f.p99_ns, f.p999_ns].map(|spread| column(10, Some(spread), time));
                let columns: Vec<_> = [column(9, Some(f.qps), rate)].into_iter().chain(times).collect();
                print_row(&label, &columns, row.runs);
            }
            (None, refused) => print_words(&format!("{label} "), refused.as_deref().unwrap_or("no answer came")),
        }
    }
    print_published(rows);
    println!();
    let runs = if runs == 1 { "One run".to_owned() } else { format!("Medians of {runs} runs") };
    print_words("", &format!("{runs} of {seconds} s; from the send of a request to the last byte of its response."));
    print_notes(rows.iter().map(|row| row.backend), rows.iter().find_map(|row| row.cpus.as_ref()));
}

#[expect(clippy::cast_precision_loss, reason = "figures of a table")]
fn print_published(rows: &[TcpFlows]) {
    let mut said = Vec::new();
    for row in rows {
        let Some(p) = row.published.filter(|p| !said.contains(p)) else { continue };
        if said.is_empty() {
            println!("\nAs published, on another machine (56 hyper-threads, 100 Gbit/s, 1000 flows):");
        }
        said.push(p);
        let label = label(p.mode, row.request_bytes, row.response_bytes);
        let times = [Some(p.p50_ns), p.p90_ns, Some(p.p99_ns), Some(p.p999_ns)];
        let times = times.map(|ns| Column { width: 10, values: ns.map(|ns| once(ns as f64)), write: time });
        let qps = Column { width: 9, values: Some(once(p.qps)), write: rate };
        print_row(&label, &[qps].into_iter().chain(times).collect::<Vec<_>>(), 1);
    }
}

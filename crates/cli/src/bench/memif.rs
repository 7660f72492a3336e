//! `bench memif`.

use std::time::Duration;

use napier_lab::bench::{self, Compared, MemifBenchConfig, MemifMode, MemifRole};

use super::print::{BenchText, figure, show, table, words};
use crate::page::plural;
use crate::progress::Doing;

/// Options of `bench memif`.
#[derive(clap::Args)]
pub(crate) struct MemifArgs {
    /// server or client; the server is to be started first, or the client waits for it
    #[arg(long, value_parser = parse_role)]
    role: MemifRole,
    /// Path of the control socket, or @ and an abstract name
    #[arg(long)]
    socket: String,
    /// forward, send, receive
    #[arg(long, default_value = "forward", value_parser = parse_mode)]
    mode: MemifMode,
    /// Packets per turn
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=64))]
    batch: u16,
    /// Packets to send first where this side forwards; they stay on the way
    #[arg(long, default_value_t = 0)]
    first: u32,
    /// Keep the thread on this CPU
    #[arg(long)]
    cpu: Option<usize>,
    /// Runs, one after the other
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: u32,
    /// Length of each run in seconds, or with a unit such as 500ms
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true, value_parser = super::parse_seconds)]
    seconds: f64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn parse_role(name: &str) -> Result<MemifRole, String> {
    match name {
        "server" => Ok(MemifRole::Server),
        "client" => Ok(MemifRole::Client),
        _ => Err("no such role; give server or client".to_owned()),
    }
}

fn parse_mode(name: &str) -> Result<MemifMode, String> {
    let found = MemifMode::ALL.into_iter().find(|mode| mode.name() == name);
    found.ok_or_else(|| format!("no such mode; give {}", MemifMode::ALL.map(MemifMode::name).join(", ")))
}

/// Runs `bench memif` and prints it.
pub(crate) fn memif(args: &MemifArgs) -> anyhow::Result<()> {
    let doing = Doing::of_rows(args.runs, args.seconds);
    let row = bench::memif(&MemifBenchConfig {
        role: args.role,
        socket: args.socket.clone(),
        mode: args.mode,
        batch: args.batch,
        first: args.first,
        cpu: args.cpu,
        runs: args.runs,
        length: Duration::from_secs_f64(args.seconds),
    })?;
    drop(doing);
    let found = Compared { rows: vec![row], decided: Vec::new() };
    show(args.json, "memif", &found, || {
        let mut heads = vec![words("mode"), figure("batch")];
        heads.extend(["M packets/s [min-max]", "ns/packet", "busy turns", "dropped"].map(figure));
        let row = &found.rows[0];
        let cells = vec![
            row.mode.name().to_owned(),
            row.batch.to_string(),
            row.packets_per_s.scaled(1e-6).to_string(),
            row.ns_per_packet.to_string(),
            row.busy_turns.to_string(),
            row.dropped.to_string(),
        ];
        let mut notes = vec![format!(
            "64-byte packets; median of {} of {} s. ns/packet is this side's, waiting included.",
            plural(row.runs, "run"),
            args.seconds
        )];
        notes.extend((row.runs < args.runs).then(|| format!("The peer went before {} more.", args.runs - row.runs)));
        BenchText { tables: vec![table("", heads, vec![cells])], notes }
    })
}

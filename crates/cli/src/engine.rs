//! `napier engine`: an engine that serves programs which were not changed (docs/engine-programs.md).

mod containers;
mod profile;

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, anyhow};
use clap::{Args, Subcommand};
use napier_door::{
    Door, DoorConfig, EngineAt, PROGRAMS_MAX, ProgramView, Reach, SOCKETS_MAX, ShownEngine, SocketView, Tally, is_name,
};
use napier_lab::device::Device;
use napier_lab::modes::Mode;
use napier_lab::serve::device::{MemifRole, OneDevice};
use napier_lab::serve::hold::hold;
use serde_json::json;

use crate::Usage;
use crate::device::{EngineArgs, device};
pub(crate) use containers::{KEEP, keep};
use profile::DoorPart;

/// Descriptors of an engine beside those of sockets.
const DESCRIPTORS: usize = 512;

/// What is done with an engine that serves programs.
#[derive(Subcommand)]
pub(crate) enum EngineCommand {
    /// Serve programs that `napier run --engine` starts, until interrupted
    Start(Box<StartArgs>),
    /// Show the sockets of the programs that an engine serves
    Ss(SsArgs),
}

/// Options of `napier engine start`.
#[derive(Args)]
pub(crate) struct StartArgs {
    /// Where packets come and go: xdp:INTERFACE (an interface of the kernel, by AF_XDP) or memif:SOCKET (a peer in another process)
    #[arg(long = "over", alias = "dev", value_name = "DEVICE", required_unless_present = "profile")]
    over: Option<String>,

    #[command(flatten)]
    engine: EngineArgs,

    /// The engine's address, with the length of the network's prefix
    #[arg(long, value_name = "A[/LEN]", required_unless_present = "profile")]
    ip: Option<String>,

    /// How packets are delivered, by the names of `compare`
    #[arg(long, value_name = "MODE", value_parser = crate::mode_names::ModeNames, hide_possible_values = true)]
    mode: Option<Mode>,

    /// By which `napier run --engine=NAME` finds it, in this network namespace [default: the interface, or the last part of the socket's path]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Serve programs of every user, not only those of this one and of root
    #[arg(long)]
    for_all_users: bool,

    /// Listen there for runtimes of containers, whose seccomp profiles name this socket as `listenerPath` (docs/engine-containers.md)
    #[arg(long, value_name = "SOCKET")]
    containers: Option<PathBuf>,

    /// A file that says all this, and which ports and networks are the engine's (docs/engine-programs.md)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["over", "ip", "mode", "name", "for_all_users", "containers", "EngineArgs"])]
    profile: Option<PathBuf>,
}

/// Options of `napier engine ss`.
#[derive(Args)]
pub(crate) struct SsArgs {
    /// The engine, if there are several in this network namespace
    #[arg(value_name = "NAME")]
    name: Option<String>,

    /// Say of each program which calls were held, which sockets are the engine's, and which stayed with the kernel and why
    #[arg(long)]
    explain: bool,

    /// Print one JSON object (docs/engine-programs.md)
    #[arg(long, conflicts_with = "explain")]
    json: bool,
}

pub(crate) fn run(command: &EngineCommand, interrupted: &AtomicBool) -> anyhow::Result<()> {
    match command {
        EngineCommand::Start(args) => start(args, interrupted),
        EngineCommand::Ss(args) => ss(args),
    }
}

fn start(args: &StartArgs, interrupted: &AtomicBool) -> anyhow::Result<()> {
    match &args.profile {
        None => start_with(args, DoorPart::default(), interrupted),
        Some(path) => {
            let (args, part) = profile::read(path).map_err(Usage)?;
            start_with(&args, part, interrupted)
        }
    }
}

fn start_with(args: &StartArgs, part: DoorPart, interrupted: &AtomicBool) -> anyhow::Result<()> {
    let (over, ip) = args.over.as_deref().zip(args.ip.as_deref()).expect("both are asked for");
    let config = device(over, ip, &args.engine, MemifRole::Server).map_err(Usage)?;
    if matches!(config.device, Device::Kernel { .. }) {
        let how = "give --over xdp:INTERFACE or memif:SOCKET; without an engine programs have the kernel's sockets as they are";
        return Err(Usage(anyhow!("{over} is no device of an engine: {how}")).into());
    }
    let name = args.name.clone().unwrap_or_else(|| name_of(&config.device));
    if !is_name(&name) {
        let how = "give --name with letters, digits and -_.@: only, at most 64";
        return Err(Usage(anyhow!("`{name}` is no name of an engine: {how}")).into());
    }
    napier_lab::serve::limits::raise_descriptors_to(SOCKETS_MAX * PROGRAMS_MAX + DESCRIPTORS);
    hold(&config, args.mode, interrupted, |one: &OneDevice| {
        let gateways = [false, true].map(|is_v6| config.gateway.is_some_and(|gateway| gateway.is_ipv6() == is_v6));
        let mut door = Door::open(DoorConfig {
            name: name.clone(),
            engine: one.engine.clone(),
            netns: one.netns.clone(),
            reach: Reach {
                addresses: vec![(config.ip, config.prefix_len)],
                gateways,
                ports: part.ports.clone(),
                peers: part.peers.clone(),
            },
            mode: args.mode,
            for_all_users: args.for_all_users,
        })?;
        if let Some(path) = &args.containers {
            door.take_containers(containers::config(path))?;
        }
        let mode = args.mode.map(|mode| format!(", mode {mode}")).unwrap_or_default();
        let line = format!("ready: {name} serves programs at {} on {}{mode}", config.ip, config.device.name());
        // The one that waits for the line may be gone; the engine goes on.
        let mut out = std::io::stdout();
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
        Ok(door)
    })
}

/// The interface, or the last part of a path.
fn name_of(device: &Device) -> String {
    let at = match device {
        Device::Xdp { interface } => interface.as_deref(),
        Device::Memif { socket } => socket.as_deref(),
        Device::Link | Device::Kernel { .. } => None,
    };
    let last = at.unwrap_or_default().rsplit('/').next().unwrap_or_default();
    last.trim_start_matches('@').trim_end_matches(".sock").to_owned()
}

fn ss(args: &SsArgs) -> anyhow::Result<()> {
    let shown = EngineAt::find(args.name.as_deref())?.show().context("asking for its sockets")?;
    let ShownEngine { mut sockets, programs, counts } = shown;
    sockets.sort_by(|one, other| {
        let key = |view: &SocketView| (view.program.clone(), view.pid, view.state.clone(), view.local, view.peer);
        key(one).cmp(&key(other))
    });
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", json!({ "sockets": sockets, "programs": programs, "counts": counts }))?;
        return Ok(());
    }
    if args.explain {
        for line in programs.iter().flat_map(explained) {
            writeln!(out, "{}", napier_linux::change::shown(&line))?;
        }
        return Ok(());
    }
    let address = |address: Option<std::net::SocketAddr>| address.map_or("-".to_owned(), |address| address.to_string());
    let head =
        ["PROGRAM", "PID", "PROTOCOL", "DOOR", "MODE", "QUEUE", "STATE", "LOCAL", "PEER", "WAITING"].map(str::to_owned);
    let rows = sockets.iter().map(|view| {
        let program = view.program.rsplit('/').next().unwrap_or_default();
        [
            program.to_owned(),
            view.pid.to_string(),
            view.protocol.clone(),
            view.door.clone(),
            view.mode.clone().unwrap_or_else(|| "-".to_owned()),
            view.queue.map_or("-".to_owned(), |queue| queue.to_string()),
            view.state.clone(),
            address(view.local),
            address(view.peer),
            view.waiting.to_string(),
        ]
    });
    let rows: Vec<_> = std::iter::once(head).chain(rows).collect();
    let widths: Vec<usize> =
        (0..rows[0].len()).map(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0)).collect();
    for row in &rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        writeln!(out, "{}", napier_linux::change::shown(cells.join("  ").trim_end()))?;
    }
    Ok(())
}

/// What the calls of a program came to, in lines.
pub(crate) fn explained(view: &ProgramView) -> Vec<String> {
    let counts = &view.counts;
    let program = view.program.rsplit('/').next().unwrap_or_default();
    let in_brackets = |tally: &Tally| if tally.sum() == 0 { String::new() } else { format!(" ({})", listed(tally)) };
    let (calls, left) = (in_brackets(&counts.calls), in_brackets(&counts.left));
    let mut lines = vec![
        format!("{program}: {} calls were held{calls}", counts.held),
        format!(
            "{program}: sockets of the engine: {} listened, {} connections were accepted, {} opened",
            counts.listened, counts.accepted, counts.connected
        ),
        format!(
            "{program}: sockets that stayed with the kernel: {}{left}; other families than IP are not held",
            counts.left_to_kernel
        ),
    ];
    if counts.fast > 0 {
        lines.push(format!(
            "{program}: connections by the fast door: {}; {} of them left it{}; bytes past their sockets {}, through them {}",
            counts.fast,
            counts.demoted,
            in_brackets(&counts.demotions),
            counts.fast_bytes,
            counts.pair_bytes
        ));
    }
    if counts.datagram_sockets > 0 {
        let lost = &counts.datagrams_lost;
        lines.push(format!(
            "{program}: UDP sockets by the fast door: {}; datagrams sent {}, received {}, lost in the door {}{}",
            counts.datagram_sockets,
            counts.datagrams_out,
            counts.datagrams_in,
            lost.sum(),
            in_brackets(lost)
        ));
    }
    if counts.watches_moved > 0 {
        lines.push(format!(
            "{program}: epoll instances that watch such a socket in place of the engine's: {}",
            counts.watches_moved
        ));
    }
    if counts.options_refused > 0 {
        lines.push(format!("{program}: options that were refused: {}", listed(&counts.refused)));
    }
    if counts.over_limit > 0 {
        lines
            .push(format!("{program}: refused because of a limit (docs/engine-programs.md): {}", listed(&counts.over)));
    }
    if counts.unheard > 0 {
        lines.push(format!("{program}: answers that a signal or the end of a thread kept from it: {}", counts.unheard));
    }
    lines
}

fn listed(tally: &Tally) -> String {
    let parts: Vec<String> = tally.iter().map(|(name, count)| format!("{name} {count}")).collect();
    parts.join(", ")
}

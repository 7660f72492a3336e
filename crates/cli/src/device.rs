//! Options that say where sockets are, of `serve` and `load`.

use std::net::IpAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use napier_lab::serve::device::{EngineConfig, MemifRole, Port};
use napier_lab::serve::run::Device;

/// Options of devices of the engine.
#[derive(clap::Args)]
pub(crate) struct EngineArgs {
    /// Side of a memif device: server makes the socket, client connects to it
    #[arg(long, value_name = "ROLE", value_parser = parse_role)]
    role: Option<MemifRole>,

    /// What a memif client must know: 1 to 24 bytes
    #[arg(long, value_name = "TEXT")]
    secret: Option<String>,

    /// Receive queues of the engine's device, each with a NAPI instance
    #[arg(long, value_name = "N", default_value_t = 1)]
    queues: u16,

    /// A neighbour that the engine need not ask for; may be given again
    #[arg(long, value_name = "IP=MAC", value_parser = parse_neighbour)]
    neighbour: Vec<(IpAddr, [u8; 6])>,

    /// Record all frames of the engine's device in this file
    #[arg(long, value_name = "FILE")]
    pcapng: Option<PathBuf>,
}

fn parse_role(text: &str) -> Result<MemifRole, &'static str> {
    match text {
        "server" => Ok(MemifRole::Server),
        "client" => Ok(MemifRole::Client),
        _ => Err("no such role; give server or client"),
    }
}

fn parse_neighbour(text: &str) -> Result<(IpAddr, [u8; 6]), &'static str> {
    const WRONG: &str = "give an address and an Ethernet address, such as 10.0.0.2=02:00:0a:00:00:02";
    let (ip, mac) = text.split_once('=').ok_or(WRONG)?;
    let bytes: Result<Vec<u8>, _> = mac.split(':').map(|byte| u8::from_str_radix(byte, 16)).collect();
    let mac = bytes.ok().and_then(|bytes| bytes.try_into().ok()).ok_or(WRONG)?;
    Ok((ip.parse().map_err(|_| WRONG)?, mac))
}

fn parse_ip(text: &str) -> anyhow::Result<(IpAddr, u8)> {
    let (ip, len) = text.split_once('/').map_or((text, None), |(ip, len)| (ip, Some(len)));
    let ip: IpAddr = ip.parse().with_context(|| format!("`{ip}` is no address; give one such as 10.0.0.1/24"))?;
    let len_max = if ip.is_ipv4() { 32 } else { 128 };
    let len = match len {
        None => len_max,
        Some(len) => len
            .parse()
            .ok()
            .filter(|len| *len <= len_max)
            .with_context(|| format!("`/{len}` is no length of a prefix; give 0 to {len_max}"))?,
    };
    Ok((ip, len))
}

/// The own address and where sockets are; `role` is the one that a memif device has unless it is given.
pub(crate) fn device(dev: &str, ip: &str, args: &EngineArgs, role: MemifRole) -> anyhow::Result<(IpAddr, Device)> {
    let (ip, prefix_len) = parse_ip(ip)?;
    let engine = |port| {
        let EngineArgs { queues, neighbour, pcapng, .. } = args;
        anyhow::ensure!(
            !ip.is_unspecified() && !ip.is_loopback(),
            "a device of the engine needs an address of its own: give --ip, such as 10.0.0.1/24"
        );
        let (queues, neighbours, pcapng) = (*queues, neighbour.clone(), pcapng.clone());
        Ok(Device::Engine(EngineConfig { port, queues, ip, prefix_len, neighbours, pcapng, cpus: Vec::new() }))
    };
    let device = match dev.split_once(':') {
        None if dev == "kernel" => Device::Kernel { interface: None },
        Some(("kernel", interface)) if !interface.is_empty() => {
            Device::Kernel { interface: Some(interface.to_owned()) }
        }
        Some(("memif", socket)) if !socket.is_empty() => engine(Port::Memif {
            socket: socket.to_owned(),
            role: args.role.unwrap_or(role),
            secret: args.secret.clone(),
        })?,
        Some(("xdp", interface)) if !interface.is_empty() => {
            engine(Port::Xdp { interface: interface.to_owned(), netns: None })?
        }
        _ if dev == "link" => anyhow::bail!(
            "a link has both its ends in one process, so nobody could be at the other end: `napier compare` measures a \
             server and its clients on a link; give --dev kernel, memif:SOCKET or xdp:INTERFACE here"
        ),
        _ => anyhow::bail!("`{dev}` is no device; give kernel, kernel:INTERFACE, memif:SOCKET or xdp:INTERFACE"),
    };
    Ok((ip, device))
}

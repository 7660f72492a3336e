//! Options that say where sockets are, of `serve` and `load`.

use std::net::IpAddr;
use std::path::PathBuf;

use napier_lab::applied::Coalesce;
use napier_lab::device::{Device, XdpWay};
use napier_lab::serve::device::{DeviceConfig, IfAddr, MemifRole};

/// Options of devices of the engine.
#[derive(clap::Args)]
pub(crate) struct EngineArgs {
    /// Side of a memif device: server makes the socket, client connects to it
    #[arg(long, value_name = "ROLE", value_parser = parse_role)]
    role: Option<MemifRole>,

    /// What a memif client must know: 1 to 24 bytes
    #[arg(long, value_name = "TEXT")]
    secret: Option<String>,

    /// How the kernel hands packets to an AF_XDP device: auto (zero copy where the driver has it), zerocopy, copy or
    /// generic [default: auto]
    #[arg(long, value_name = "WAY")]
    xdp: Option<XdpWay>,

    /// Interrupt coalescing of the engine's device: adaptive, off or a time in us or with a unit [default: adaptive]
    #[arg(long, value_name = "RULE", value_parser = crate::units::coalesce)]
    coalesce: Option<Coalesce>,

    /// Receive queues of the engine's device, each with a NAPI instance [default: all that an interface has; 1 for memif]
    #[arg(long, value_name = "N")]
    queues: Option<u16>,

    /// Station of the engine's link that forwards to other networks
    #[arg(long, value_name = "IP")]
    gateway: Option<IpAddr>,

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

/// Said before anything is set up; the engine checks again.
fn check_gateway(gateway: IpAddr, ip: IpAddr, prefix_len: u8) -> anyhow::Result<()> {
    let differ = match (gateway, ip) {
        (IpAddr::V4(gateway), IpAddr::V4(ip)) => u128::from(gateway.to_bits() ^ ip.to_bits()) << 96,
        (IpAddr::V6(gateway), IpAddr::V6(ip)) => gateway.to_bits() ^ ip.to_bits(),
        _ => {
            anyhow::bail!("--gateway {gateway} and --ip {ip} are of two families; give a gateway of the family of --ip")
        }
    };
    anyhow::ensure!(
        differ.leading_zeros() >= u32::from(prefix_len),
        "--gateway {gateway} is not on the link of --ip {ip}/{prefix_len}; give one in that network, or the length of its \
         prefix with --ip"
    );
    anyhow::ensure!(differ != 0, "--gateway {gateway} is the own address; give that of the station that forwards");
    Ok(())
}

impl EngineArgs {
    /// Refuses what a device would ignore.
    fn check_for(&self, dev: &str) -> anyhow::Result<()> {
        let of_memif = [("--role", self.role.is_some()), ("--secret", self.secret.is_some())];
        let of_engine = [
            ("--queues", self.queues.is_some()),
            ("--coalesce", self.coalesce.is_some()),
            ("--neighbour", !self.neighbour.is_empty()),
            ("--pcapng", self.pcapng.is_some()),
        ];
        let given = |options: &[(&'static str, bool)]| -> Vec<&'static str> {
            options.iter().filter(|(_, given)| *given).map(|(name, _)| *name).collect()
        };
        let of_xdp = [("--xdp", self.xdp.is_some())];
        let (wrong, whose) = match dev.split_once(':').map_or(dev, |(kind, _)| kind) {
            "kernel" => {
                ([given(&of_memif), given(&of_xdp), given(&of_engine)].concat(), "memif:SOCKET or xdp:INTERFACE")
            }
            "xdp" => (given(&of_memif), "memif:SOCKET"),
            "memif" => (given(&of_xdp), "xdp:INTERFACE"),
            _ => return Ok(()),
        };
        anyhow::ensure!(
            wrong.is_empty(),
            "{} would be ignored with --over {dev}: omit it, or give --over {whose}",
            wrong.join(", ")
        );
        Ok(())
    }
}

/// What an address is, if no device can have it as its own.
fn why_no_own(ip: IpAddr, prefix_len: u8) -> Option<&'static str> {
    if ip.is_unspecified() || ip.is_loopback() {
        return Some("no address of its own");
    }
    if ip.is_multicast() {
        return Some("a multicast address");
    }
    let IpAddr::V4(ip) = ip else { return None };
    if ip.is_broadcast() {
        return Some("the broadcast address");
    }
    // In a prefix of 31 bits both addresses are hosts (RFC 3021).
    let hosts = u32::MAX.checked_shr(prefix_len.into()).unwrap_or(0);
    match ip.to_bits() & hosts {
        _ if prefix_len >= 31 => None,
        0 => Some("the address of its network"),
        host if host == hosts => Some("the broadcast address of its network"),
        _ => None,
    }
}

/// Where sockets are; `role` is the one that a memif device has unless it is given.
pub(crate) fn device(dev: &str, ip: &str, args: &EngineArgs, role: MemifRole) -> anyhow::Result<DeviceConfig> {
    args.check_for(dev)?;
    let IfAddr { addr: ip, prefix_len } = ip.parse()?;
    let config = |device| DeviceConfig::new(device, ip, prefix_len);
    match Device::parse(dev) {
        Some(device @ Device::Kernel { .. }) => {
            anyhow::ensure!(
                args.gateway.is_none(),
                "--gateway is for a device of the engine; the kernel's routes are set with ip route"
            );
            Ok(config(device))
        }
        Some(device @ (Device::Memif { socket: Some(_) } | Device::Xdp { interface: Some(_) })) => {
            if let Some(what) = why_no_own(ip, prefix_len) {
                anyhow::bail!(
                    "a device of the engine needs an address of its own: give --ip, such as 10.0.0.1/24 \
                     ({ip}/{prefix_len} is {what})"
                );
            }
            if let Some(gateway) = args.gateway {
                check_gateway(gateway, ip, prefix_len)?;
            }
            let EngineArgs { role: given, secret, xdp, coalesce, queues, gateway, neighbour, pcapng } = args;
            Ok(DeviceConfig {
                role: given.unwrap_or(role),
                secret: secret.clone(),
                xdp: xdp.unwrap_or_default(),
                // A generator polls, and its clock is not to see what is held back.
                coalesce: coalesce.unwrap_or(if role == MemifRole::Server {
                    Coalesce::adaptive()
                } else {
                    Coalesce::default()
                }),
                queues: queues.unwrap_or(0),
                gateway: *gateway,
                neighbours: neighbour.clone(),
                pcapng: pcapng.clone(),
                ..config(device)
            })
        }
        Some(Device::Link) => anyhow::bail!(
            "a link has both its ends in one process, so no peer could be at the other end: `napier compare` measures a \\
             server and its clients on a link; give --over kernel, memif:SOCKET or xdp:INTERFACE here"
        ),
        _ => anyhow::bail!("`{dev}` is no device; give kernel, kernel:INTERFACE, memif:SOCKET or xdp:INTERFACE"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(text: &str) -> Option<&'static str> {
        let IfAddr { addr: ip, prefix_len: len } = text.parse().expect("an address");
        why_no_own(ip, len)
    }

    #[test]
    fn an_address_of_many_or_of_none_is_nobodys_own() {
        for text in
            ["10.0.0.1/24", "10.1.0.0/31", "10.1.0.1/31", "10.1.0.0/32", "10.1.0.0/8", "fd00::1/64", "fd00::/64"]
        {
            assert_eq!(own(text), None, "{text}");
        }
        for (text, what) in [
            ("0.0.0.0", "no address"),
            ("127.0.0.1", "no address"),
            ("::1", "no address"),
            ("224.0.0.1/24", "multicast"),
            ("ff02::1/64", "multicast"),
            ("255.255.255.255/32", "the broadcast"),
            ("10.1.0.0/24", "of its network"),
            ("10.1.0.255/24", "the broadcast address of its network"),
            ("10.1.0.3/30", "the broadcast address of its network"),
        ] {
            assert!(own(text).is_some_and(|why| why.contains(what)), "{text}");
        }
    }
}

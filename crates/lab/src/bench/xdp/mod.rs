//! `bench xdp-rr` and `bench xdp-rx`: devices on a veth pair in namespaces of their own, by AF_XDP.

mod rr;
mod rx;

pub use rr::{XdpRr, XdpRrConfig, XdpRrPath, xdp_rr};
pub use rx::{XdpRx, XdpRxConfig, XdpRxPath, xdp_rx};

use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd;

use anyhow::Context as _;
use napier_linux::{EndConfig as VethEndConfig, Veth, VethConfig, VethEnd};
use napier_runtime::device::{DeviceHandle, EndConfig, IfAddr, XdpConfig, XdpFilter};
use napier_runtime::engine::Engine;
use napier_runtime::socket::NetNs;

use crate::applied;
use crate::apply::writes_on_device;
use crate::bench::pin::EndCpus;
use crate::device::XdpWay;
use crate::modes::for_pollers;

const CLIENT_MAC: [u8; 6] = [2, 0, 0, 0x58, 0, 1];
const SERVER_MAC: [u8; 6] = [2, 0, 0, 0x58, 0, 2];
const CLIENT_IP: Ipv4Addr = Ipv4Addr::new(10, 88, 0, 1);
const SERVER_IP: Ipv4Addr = Ipv4Addr::new(10, 88, 0, 2);

/// A pair of interfaces. `napi` = packets between kernel sockets go through NAPI instances of the kernel.
fn veth(napi: bool) -> anyhow::Result<Veth> {
    let end = |name: &str, mac, ip: Ipv4Addr| VethEndConfig::new(name, mac).address(ip.into(), 24);
    let ends = VethConfig::new(end("client", CLIENT_MAC, CLIENT_IP), end("server", SERVER_MAC, SERVER_IP));
    let pair = Veth::new(&VethConfig { gro: napi, tso: !napi, ..ends }).context("a pair of veth interfaces")?;
    pair.left().add_neighbour(SERVER_IP.into(), SERVER_MAC)?;
    pair.right().add_neighbour(CLIENT_IP.into(), CLIENT_MAC)?;
    Ok(pair)
}

/// Everything that comes to an end of a pair.
fn config_on(end: &VethEnd, way: XdpWay) -> anyhow::Result<XdpConfig> {
    Ok(way.on(XdpConfig {
        netns: Some(end.netns().as_fd().try_clone_to_owned()?.into()),
        filter: XdpFilter::Everything,
        ..XdpConfig::on(end.name())
    }))
}

/// A device at each end of a pair.
struct Devices {
    /// Stops when this goes.
    _engine: Engine,
    client: DeviceHandle,
    server: DeviceHandle,
    client_ns: NetNs,
    server_ns: NetNs,
}

impl Devices {
    /// Everything that comes is the devices', whose programs poll: no interrupts while they do.
    fn new(pair: &Veth, way: XdpWay, cpus: EndCpus) -> anyhow::Result<Self> {
        let engine = Engine::builder().softirq_cpus(&[cpus.client, cpus.server]).start()?;
        let (client_ns, server_ns) = (engine.namespace(), engine.namespace());
        let add = |end: &VethEnd, netns: &NetNs, ip: IpAddr, cpu| -> anyhow::Result<DeviceHandle> {
            let device = engine.add_xdp(
                &config_on(end, way)?,
                EndConfig {
                    name: end.name().to_owned(),
                    netns: netns.clone(),
                    mac: [0; 6],
                    addresses: vec![IfAddr { addr: ip, prefix_len: 24 }],
                    irq_cpus: vec![cpu],
                },
            )?;
            writes_on_device(&engine, &device, for_pollers())?;
            Ok(device)
        };
        let client = add(pair.left(), &client_ns, CLIENT_IP.into(), cpus.client)?;
        let server = add(pair.right(), &server_ns, SERVER_IP.into(), cpus.server)?;
        client_ns.neighbour_add(client.ifindex(), SERVER_IP.into(), SERVER_MAC)?;
        server_ns.neighbour_add(server.ifindex(), CLIENT_IP.into(), CLIENT_MAC)?;
        Ok(Self { _engine: engine, client, server, client_ns, server_ns })
    }

    /// How the kernel hands packets to them.
    fn in_force(&self) -> Option<String> {
        self.server.xdp_info().map(|info| applied::xdp(&info))
    }
}

//! The device under test and its peer, both in the engine of this process.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;

use napier_core::frames::Template;
use napier_core::time::Span;
use napier_linux::{Veth, VethEnd};
use napier_runtime::device::{DeviceHandle, EndConfig, IfAddr, LinkConfig, XdpConfig};
use napier_runtime::engine::{Engine, EngineBuilder, StartError};
use napier_runtime::socket::NetNs;

use crate::apply::writes_on_device;
use crate::modes::{self, deferral};

/// Address of the end under test.
pub const TESTED_IP: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// Address of its peer.
pub const PEER_IP: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);

/// Where experiments send from and to.
pub(crate) const PEER_AT: SocketAddrV4 = SocketAddrV4::new(PEER_IP, 9000);
/// Likewise.
pub(crate) const TESTED_AT: SocketAddrV4 = SocketAddrV4::new(TESTED_IP, 9001);

/// Ethernet address of the end under test.
pub(crate) const TESTED_MAC: [u8; 6] = [0x02, 0, 0, 0x77, 0, 1];
/// Ethernet address of its peer.
pub(crate) const PEER_MAC: [u8; 6] = [0x02, 0, 0, 0x77, 0, 2];

/// A deferral time that no experiment lasts: with prefer-busy-poll the interrupt stays masked for good.
const FOR_GOOD: Span = Span::from_secs(600);

/// How long an interface may take to have carrier.
const CARRIER_MAX: Duration = Duration::from_secs(5);

/// Two devices that face each other, with an engine of their own.
pub struct Pair {
    /// Of both ends.
    pub engine: Engine,
    /// The end under test. Of a link: the memif client, zero copy.
    pub tested: DeviceHandle,
    /// Its peer. Of a link: the memif server, copies.
    pub peer: DeviceHandle,
    /// Where the end under test is.
    pub tested_ns: NetNs,
    /// Where its peer is.
    pub peer_ns: NetNs,
}

impl Pair {
    /// A link whose ends take their interrupts on the given processors.
    pub fn new(link: &LinkConfig, tested_cpus: &[usize], peer_cpus: &[usize]) -> anyhow::Result<Self> {
        let engine = start_engine(tested_cpus, peer_cpus)?;
        let (tested_ns, peer_ns) = (engine.namespace(), engine.namespace());
        let (tested, peer) = engine.add_link(
            link,
            Side::Tested.config(&tested_ns, tested_cpus),
            Side::Peer.config(&peer_ns, peer_cpus),
        )?;
        Self { engine, tested, peer, tested_ns, peer_ns }.introduced()
    }

    /// AF_XDP devices on both ends of a veth pair.
    pub(crate) fn over_veth(
        veth: &Veth,
        xdp: &XdpConfig,
        tested_cpus: &[usize],
        peer_cpus: &[usize],
    ) -> anyhow::Result<Self> {
        let engine = start_engine(tested_cpus, peer_cpus)?;
        let (tested_ns, peer_ns) = (engine.namespace(), engine.namespace());
        let tested = add_xdp(&engine, veth.left(), xdp, Side::Tested.config(&tested_ns, tested_cpus))?;
        let peer = add_xdp(&engine, veth.right(), xdp, Side::Peer.config(&peer_ns, peer_cpus))?;
        Self { engine, tested, peer, tested_ns, peer_ns }.introduced()
    }

    /// Each end knows the other's address.
    fn introduced(self) -> anyhow::Result<Self> {
        Side::Tested.introduce_peer(&self.tested_ns, &self.tested)?;
        Side::Peer.introduce_peer(&self.peer_ns, &self.peer)?;
        Ok(self)
    }

    /// Headers from there to there.
    pub(crate) fn template(&self) -> Template {
        Template::new(self.peer.mac(), self.tested.mac(), PEER_AT, TESTED_AT)
    }

    /// Keeps the interrupts of a device away while a program polls it with prefer-busy-poll.
    pub fn never_interrupt(&self, device: &DeviceHandle) -> anyhow::Result<()> {
        never_interrupt(&self.engine, device)
    }

    /// Defers the interrupts of both ends for programs that busy poll.
    pub(crate) fn defer_for_pollers(&self) -> anyhow::Result<()> {
        let devices = [&self.tested, &self.peer];
        devices.into_iter().try_for_each(|device| writes_on_device(&self.engine, device, modes::for_pollers()))
    }
}

/// One of the two ends.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    Tested,
    Peer,
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Self::Tested => "tested",
            Self::Peer => "peer",
        }
    }

    /// Address and Ethernet address.
    fn addresses(self) -> (Ipv4Addr, [u8; 6]) {
        match self {
            Self::Tested => (TESTED_IP, TESTED_MAC),
            Self::Peer => (PEER_IP, PEER_MAC),
        }
    }

    /// The end as the engine is to have it.
    pub(crate) fn config(self, netns: &NetNs, irq_cpus: &[usize]) -> EndConfig {
        let (addr, mac) = self.addresses();
        EndConfig {
            name: self.name().to_owned(),
            netns: netns.clone(),
            mac,
            addresses: vec![IfAddr { addr: addr.into(), prefix_len: 24 }],
            irq_cpus: irq_cpus.to_vec(),
        }
    }

    /// Tells this end where the other is.
    pub(crate) fn introduce_peer(self, netns: &NetNs, device: &DeviceHandle) -> anyhow::Result<()> {
        let other = if self == Self::Tested { Self::Peer } else { Self::Tested };
        let (addr, mac) = other.addresses();
        netns.neighbour_add(device.ifindex(), addr.into(), mac)?;
        Ok(())
    }
}

/// An engine whose softirqs run on these processors, and the workers of its pool on the first ones.
pub(crate) fn start_engine(worker_cpus: &[usize], other_cpus: &[usize]) -> Result<Engine, StartError> {
    engine_on(worker_cpus, other_cpus).start()
}

/// The same, not yet started.
pub(crate) fn engine_on(worker_cpus: &[usize], other_cpus: &[usize]) -> EngineBuilder {
    let mut softirq_cpus = [worker_cpus, other_cpus].concat();
    softirq_cpus.sort_unstable();
    softirq_cpus.dedup();
    Engine::builder().softirq_cpus(&softirq_cpus).worker_cpus(worker_cpus)
}

/// An AF_XDP device on one end of a veth pair.
pub(crate) fn add_xdp(
    engine: &Engine,
    interface: &VethEnd,
    config: &XdpConfig,
    end: EndConfig,
) -> anyhow::Result<DeviceHandle> {
    let netns = Arc::new(interface.netns().as_fd().try_clone_to_owned()?);
    let config = XdpConfig { interface: interface.name().to_owned(), netns: Some(netns), ..config.clone() };
    let device = engine.add_xdp(&config, end)?;
    // The kernel may tell of a link a while after it is there.
    ensure!(device.wait_link(CARRIER_MAX), "{} does not come up: {:?}", interface.name(), device.link_state());
    Ok(device)
}

/// Keeps the interrupts of a device away while a program polls it with prefer-busy-poll.
pub(crate) fn never_interrupt(engine: &Engine, device: &DeviceHandle) -> anyhow::Result<()> {
    writes_on_device(engine, device, deferral(1, FOR_GOOD))
}

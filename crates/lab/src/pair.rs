//! Two ends of a link in one process: the device under test and its peer.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use napier_runtime::control::NapiSet;
use napier_runtime::{DeviceHandle, EndConfig, Engine, IfAddr, LinkConfig, NetNs};

/// Address of the end under test.
pub(crate) const TESTED_IP: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// Address of its peer.
pub(crate) const PEER_IP: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);

const TESTED_MAC: [u8; 6] = [0x02, 0, 0, 0x77, 0, 1];
const PEER_MAC: [u8; 6] = [0x02, 0, 0, 0x77, 0, 2];

/// A deferral time that no experiment lasts: with prefer-busy-poll the interrupt stays masked for good.
const FOR_GOOD_NS: u64 = 600_000_000_000;

/// A link with an engine of its own.
pub(crate) struct Pair {
    pub(crate) engine: Engine,
    /// The end under test: memif client, zero copy.
    pub(crate) tested: DeviceHandle,
    /// Its peer: memif server, copies.
    pub(crate) peer: DeviceHandle,
    pub(crate) tested_ns: NetNs,
    pub(crate) peer_ns: NetNs,
}

impl Pair {
    /// A link whose ends take their interrupts on the given processors.
    pub(crate) fn new(link: &LinkConfig, tested_cpus: &[usize], peer_cpus: &[usize]) -> anyhow::Result<Self> {
        let mut softirq_cpus = [tested_cpus, peer_cpus].concat();
        softirq_cpus.sort_unstable();
        softirq_cpus.dedup();
        let engine = Engine::builder().softirq_cpus(&softirq_cpus).worker_cpus(tested_cpus).start()?;
        let (tested_ns, peer_ns) = (engine.namespace(), engine.namespace());
        let end = |name: &str, netns: &NetNs, mac, addr: Ipv4Addr, irq_cpus: &[usize]| EndConfig {
            name: name.to_owned(),
            netns: netns.clone(),
            mac,
            addresses: vec![IfAddr { addr: addr.into(), prefix_len: 24 }],
            irq_cpus: irq_cpus.to_vec(),
        };
        let (tested, peer) = engine.add_link(
            link,
            end("tested", &tested_ns, TESTED_MAC, TESTED_IP, tested_cpus),
            end("peer", &peer_ns, PEER_MAC, PEER_IP, peer_cpus),
        )?;
        tested_ns.neighbour_add(tested.ifindex(), PEER_IP.into(), PEER_MAC)?;
        peer_ns.neighbour_add(peer.ifindex(), TESTED_IP.into(), TESTED_MAC)?;
        Ok(Self { engine, tested, peer, tested_ns, peer_ns })
    }

    /// Keeps the interrupts of a device away while a program polls it with prefer-busy-poll.
    pub(crate) fn never_interrupt(&self, device: &DeviceHandle) -> anyhow::Result<()> {
        for queue in 0..device.queues() {
            self.engine.napi_set(NapiSet {
                id: Some(u64::from(device.napi_id(queue))),
                defer_hard_irqs: Some(1),
                gro_flush_timeout: Some(FOR_GOOD_NS),
                ..NapiSet::default()
            })?;
        }
        Ok(())
    }

    /// The queue of the end under test that receives this flow of its peer.
    pub(crate) fn tested_queue(&self, from: SocketAddrV4, to: SocketAddrV4) -> u16 {
        self.tested.rx_queue_of(SocketAddr::V4(from), SocketAddr::V4(to))
    }
}

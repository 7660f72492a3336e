//! A link between two name spaces, and what every test needs.
#![allow(dead_code, reason = "each test program uses a part of this")]

pub(crate) mod frames;
pub(crate) mod modes;
pub(crate) mod pcapng;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use napier_runtime::control::NapiSet;
use napier_runtime::device::{DeviceHandle, EndConfig, IfAddr, LinkConfig, NapiStats};
use napier_runtime::engine::{Engine, EngineBuilder};
use napier_runtime::event::EpollParamsRequest;
use napier_runtime::socket::{NetNs, UdpSocket};
#[allow(unused_imports, reason = "each test program uses a part of this")]
pub(crate) use napier_testkit::{Dice, PATIENCE, eventually};

/// Addresses of the end under test, which is the memif client.
pub(crate) const TESTED_V4: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
pub(crate) const TESTED_V6: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1);
pub(crate) const TESTED_MAC: [u8; 6] = [2, 0, 0, 0x77, 0, 1];
/// Addresses of its peer, which is the memif server.
pub(crate) const PEER_V4: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
pub(crate) const PEER_V6: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 2);
pub(crate) const PEER_MAC: [u8; 6] = [2, 0, 0, 0x77, 0, 2];

/// A link and its engine. At its end every frame must be back where it belongs.
pub(crate) struct Pair {
    pub(crate) engine: Engine,
    pub(crate) tested: DeviceHandle,
    pub(crate) peer: DeviceHandle,
    pub(crate) tested_ns: NetNs,
    pub(crate) peer_ns: NetNs,
}

impl Pair {
    /// A link whose ends know each other's Ethernet addresses.
    pub(crate) fn new(config: &LinkConfig) -> Self {
        Self::on(Engine::builder(), config)
    }

    /// The same in an engine of one's own.
    pub(crate) fn on(engine: EngineBuilder, config: &LinkConfig) -> Self {
        let pair = Self::strangers_on(engine, config);
        for addr in [IpAddr::from(PEER_V4), PEER_V6.into()] {
            pair.tested_ns.neighbour_add(pair.tested.ifindex(), addr, PEER_MAC).unwrap();
        }
        for addr in [IpAddr::from(TESTED_V4), TESTED_V6.into()] {
            pair.peer_ns.neighbour_add(pair.peer.ifindex(), addr, TESTED_MAC).unwrap();
        }
        pair
    }

    /// A link whose ends know nothing of each other.
    pub(crate) fn strangers(config: &LinkConfig) -> Self {
        Self::strangers_on(Engine::builder(), config)
    }

    fn strangers_on(engine: EngineBuilder, config: &LinkConfig) -> Self {
        let engine = engine.start().unwrap();
        let (tested_ns, peer_ns) = (engine.namespace(), engine.namespace());
        let tested = end("tested", &tested_ns, TESTED_MAC, &[(TESTED_V4.into(), 24), (TESTED_V6.into(), 64)]);
        let peer = end("peer", &peer_ns, PEER_MAC, &[(PEER_V4.into(), 24), (PEER_V6.into(), 64)]);
        let (tested, peer) = engine.add_link(config, tested, peer).unwrap();
        Self { engine, tested, peer, tested_ns, peer_ns }
    }

    /// napi-set on every queue of a device.
    pub(crate) fn set_all(&self, device: &DeviceHandle, set: &NapiSet) {
        for queue in 0..device.queues() {
            let id = Some(u64::from(device.napi_id(queue)));
            self.engine.napi_set(NapiSet { id, ..*set }).unwrap();
        }
    }

    /// Keeps the peer's interrupts away for good while a program polls it with prefer-busy-poll.
    pub(crate) fn peer_never_interrupts(&self) {
        let for_good_ns = 600_000_000_000;
        let set = NapiSet { defer_hard_irqs: Some(1), gro_flush_timeout: Some(for_good_ns), ..NapiSet::default() };
        self.set_all(&self.peer, &set);
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        for device in [&self.tested, &self.peer] {
            // A poll that is under way has frames in its hands; no more than that may be missing, and not for long.
            eventually("every frame is back", || device.frames_out() == 0);
        }
    }
}

/// An end whose interrupts any softirq CPU takes.
pub(crate) fn end(name: &str, netns: &NetNs, mac: [u8; 6], addresses: &[(IpAddr, u8)]) -> EndConfig {
    let addresses = addresses.iter().map(|&(addr, prefix_len)| IfAddr { addr, prefix_len }).collect();
    EndConfig { name: name.to_owned(), netns: netns.clone(), mac, addresses, irq_cpus: Vec::new() }
}

/// A socket that does not wait for ever.
pub(crate) fn bound(netns: &NetNs, addr: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind(netns, addr).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// Counters of all queues of a device.
pub(crate) fn stats_of(device: &DeviceHandle) -> NapiStats {
    let mut sum = NapiStats::default();
    for queue in 0..device.queues() {
        sum += device.napi_stats(queue);
    }
    sum
}

pub(crate) fn v4(addr: Ipv4Addr, port: u16) -> SocketAddr {
    SocketAddr::new(addr.into(), port)
}

pub(crate) fn v6(addr: Ipv6Addr, port: u16) -> SocketAddr {
    SocketAddr::new(addr.into(), port)
}

/// Parameters of an event context that prefers busy polling.
pub(crate) fn prefer(usecs: u32) -> EpollParamsRequest {
    EpollParamsRequest { busy_poll_usecs: usecs, busy_poll_budget: 64, prefer_busy_poll: 1, pad: 0 }
}

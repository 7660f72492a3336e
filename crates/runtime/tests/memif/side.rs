//! One program with one memif device, and datagrams between two of them.

use std::net::Ipv4Addr;
use std::time::Duration;

use napier_runtime::device::{DeviceHandle, EndConfig, MemifConfig, MemifRole};
use napier_runtime::engine::Engine;
use napier_runtime::socket::{NetNs, UdpSocket};

use super::common::{self, PATIENCE, PEER_MAC, PEER_V4, TESTED_MAC, TESTED_V4, eventually, v4};

/// A socket that no other test and no other run uses.
pub(super) fn socket(test: &str) -> String {
    format!("@napier-test-{}-{test}", std::process::id())
}

pub(super) fn config(role: MemifRole, socket: &str) -> MemifConfig {
    MemifConfig { ring_size: 128, retry: Duration::from_millis(20), ..MemifConfig::new(role, socket) }
}

/// One program with one memif device.
pub(super) struct Side {
    pub(super) engine: Engine,
    pub(super) device: DeviceHandle,
    pub(super) netns: NetNs,
}

pub(super) fn end(netns: &NetNs, name: &str, mac: [u8; 6], addr: Ipv4Addr) -> EndConfig {
    common::end(name, netns, mac, &[(addr.into(), 24)])
}

impl Side {
    pub(super) fn new(config: MemifConfig) -> Self {
        let engine = Engine::builder().start().unwrap();
        let netns = engine.namespace();
        let is_server = config.role == MemifRole::Server;
        let (own, other) = ((TESTED_MAC, TESTED_V4), (PEER_MAC, PEER_V4));
        let ((mac, addr), (peer_mac, peer)) = if is_server { (own, other) } else { (other, own) };
        let device = engine.add_memif(config, end(&netns, "memif0", mac, addr)).unwrap();
        netns.neighbour_add(device.ifindex(), peer.into(), peer_mac).unwrap();
        Self { engine, device, netns }
    }

    pub(super) fn linked(&self) -> &Self {
        assert!(self.device.wait_link(PATIENCE), "no peer: {:?}", self.device.link_state());
        self
    }

    pub(super) fn unlinked(&self) {
        eventually("the peer is gone", || !self.device.link_state().carrier);
    }

    pub(super) fn at_rest(&self) {
        eventually("every frame is back", || self.device.frames_out() == 0);
    }

    /// At rest, and `rx_packets` are accounted for: what a round of an instance received is counted at its end, after the
    /// receiver was woken.
    pub(super) fn has_counted(&self, rx_packets: u64) {
        self.at_rest();
        eventually("every packet is accounted for", || {
            let stats = self.device.stats();
            stats.rx_packets + stats.rx_no_frame >= rx_packets
        });
    }
}

pub(super) fn pair(test: &str, change: impl Fn(&mut MemifConfig)) -> (Side, Side) {
    let socket = socket(test);
    let side = |role| {
        let mut config = config(role, &socket);
        change(&mut config);
        Side::new(config)
    };
    let (server, client) = (side(MemifRole::Server), side(MemifRole::Client));
    server.linked();
    client.linked();
    (server, client)
}

pub(super) fn bound(netns: &NetNs, port: u16) -> UdpSocket {
    common::bound(netns, v4(Ipv4Addr::UNSPECIFIED, port))
}

/// Datagrams each way, with interrupts only: whoever receives sleeps first.
pub(super) fn datagrams(server: &Side, client: &Side, rounds: u32) {
    let (echo, asker) = (bound(&server.netns, 7), bound(&client.netns, 4000));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = [0; 2000];
            for _ in 0..rounds {
                let (length, from) = echo.recv_from(&mut buffer).expect("a request");
                echo.send_to(&buffer[..length], from).expect("room");
            }
        });
        for round in 0..rounds {
            let mut sent = vec![round as u8; 4 + round as usize * 37 % 1400];
            sent[..4].copy_from_slice(&round.to_le_bytes());
            asker.send_to(&sent, v4(TESTED_V4, 7)).expect("room");
            let mut got = [0; 2000];
            let (length, from) = asker.recv_from(&mut got).expect("an answer");
            assert_eq!((&got[..length], from), (&sent[..], v4(TESTED_V4, 7)));
        }
    });
}

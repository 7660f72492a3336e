//! Neighbours under load: what waits keeps its order, and forged messages keep nobody out.

use std::sync::atomic::Ordering;

use smoltcp::wire::{ArpOperation, Ipv4Address};

use crate::UdpSocket;
use crate::tables::neighbour::LEARNT_MAX;
use crate::testing::{self, PEER_MAC, Rig, at, device};

/// A second device, with more neighbours than the table holds.
const WIDE: u32 = 9;
const OURS: Ipv4Address = Ipv4Address::new(11, 0, 0, 1);

fn arp(operation: ArpOperation, from: [u8; 4], mac: [u8; 6]) -> Vec<u8> {
    testing::arp(operation, from.into(), mac, OURS)
}

struct Wide {
    rig: Rig,
    device: std::sync::Arc<crate::testing::TestDevice>,
}

impl Wide {
    fn new() -> Self {
        let rig = Rig::new();
        let device = device(WIDE, &[("11.0.0.1", 8)]);
        rig.ns.device_add(device.clone()).unwrap();
        Self { rig, device }
    }

    fn inject(&mut self, bytes: &[u8]) {
        let view = self.rig.ns.view();
        let mut pass = view.pass(101, WIDE).expect("the device is there");
        let mut frame = self.rig.pool.alloc().expect("a free frame");
        self.rig.host.frames.data_mut(&mut frame)[..bytes.len()].copy_from_slice(bytes);
        pass.receive(frame, u32::try_from(bytes.len()).unwrap());
    }

    fn forged(&mut self, numbers: std::ops::Range<u32>) {
        for number in numbers {
            let [_, b, c, d] = number.to_be_bytes();
            self.inject(&arp(ArpOperation::Request, [11, 100 + b, c, d], [6, 6, 6, b, c, d]));
        }
    }

    /// Payloads of the datagrams that left, and what else did.
    fn sent(&self) -> (Vec<Vec<u8>>, usize) {
        let all = std::mem::take(&mut *self.device.sent.lock().unwrap());
        let (datagrams, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|frame| frame[12..14] == [8, 0]);
        assert!(datagrams.iter().all(|frame| frame[..6] == PEER_MAC), "to the neighbour's station");
        (datagrams.into_iter().map(|frame| frame[42..].to_vec()).collect(), others.len())
    }

    fn honest_answers(&mut self) {
        self.inject(&arp(ArpOperation::Reply, [11, 0, 0, 2], PEER_MAC));
    }

    fn knows_honest(&self) -> bool {
        self.rig.ns.neighbour(WIDE, [11, 0, 0, 2].into()) == Some(PEER_MAC)
    }
}

#[test]
fn datagrams_to_a_new_neighbour_arrive_in_order() {
    let mut wide = Wide::new();
    let socket = UdpSocket::bind(&wide.rig.ns, at("11.0.0.1:9")).unwrap();
    for number in 0..8 {
        socket.send_to(&[number], at("11.0.0.2:7")).unwrap();
    }
    assert_eq!(wide.sent(), (vec![], 1));
    wide.honest_answers();
    socket.send_to(&[8], at("11.0.0.2:7")).unwrap();
    assert_eq!(wide.sent().0, (0..9).map(|number| vec![number]).collect::<Vec<_>>());
    assert_eq!(wide.rig.ns.counters().neigh_unresolved_discards, 0);
}

#[test]
fn no_datagram_overtakes_those_that_waited() {
    for round in 0..50_u32 {
        let mut wide = Wide::new();
        let socket = UdpSocket::bind(&wide.rig.ns, at("11.0.0.1:9")).unwrap();
        socket.send_to(&0_u32.to_be_bytes(), at("11.0.0.2:7")).unwrap();
        std::thread::scope(|scope| {
            let sending = scope.spawn(|| {
                for number in 1..200_u32 {
                    socket.send_to(&number.to_be_bytes(), at("11.0.0.2:7")).unwrap();
                }
            });
            for _ in 0..round * 100 {
                std::hint::spin_loop();
            }
            wide.honest_answers();
            sending.join().unwrap();
        });
        // A sender that adds one in each round of the answer has what comes after the last round dropped, and counted.
        let arrived = wide.sent().0;
        let in_order = arrived.windows(2).all(|pair| pair[0] < pair[1]);
        assert!(in_order, "round {round}: {arrived:?}");
        let dropped = wide.rig.ns.counters().neigh_unresolved_discards;
        assert_eq!(arrived.len() as u64 + dropped, 200, "round {round}: all others arrived: {arrived:?}");
    }
}

#[test]
fn an_honest_neighbour_is_learnt_under_forged_requests() {
    let mut wide = Wide::new();
    let socket = UdpSocket::bind(&wide.rig.ns, at("11.0.0.1:9")).unwrap();
    wide.forged(0..5000);
    let counters = wide.rig.ns.counters();
    assert!(counters.neigh_table_fulls > 4000, "not all strangers are taken in: {counters:?}");
    assert_eq!(counters.arp_out_replies, 5000, "but all are answered");
    let _ = wide.sent();
    // It does not introduce itself: a question of ours finds it.
    socket.send_to(b"hello", at("11.0.0.2:7")).unwrap();
    wide.forged(5000..6000);
    wide.honest_answers();
    assert!(wide.knows_honest());
    assert_eq!(wide.sent().0, [b"hello"]);
    // What answered us stays, whoever asks.
    wide.forged(6000..20_000);
    assert!(wide.knows_honest());
}

#[test]
fn a_full_table_takes_an_honest_neighbour() {
    let mut wide = Wide::new();
    let socket = UdpSocket::bind(&wide.rig.ns, at("11.0.0.1:9")).unwrap();
    // Forged, and answered too: as sure as can be.
    for number in 0..LEARNT_MAX as u32 {
        let [_, b, c, d] = number.to_be_bytes();
        let forged = [11, 100 + b, c, d];
        socket.send_to(b"x", std::net::SocketAddr::from((forged, 7))).unwrap();
        wide.inject(&arp(ArpOperation::Reply, forged, PEER_MAC));
    }
    assert_eq!(wide.rig.ns.counters().neigh_forced_gc_runs, 0);
    let _ = wide.sent();
    socket.send_to(b"hello", at("11.0.0.2:7")).unwrap();
    wide.honest_answers();
    assert!(wide.knows_honest());
    assert_eq!(wide.sent().0, [b"hello"]);
    assert_eq!(wide.rig.ns.counters().neigh_forced_gc_runs, 1);
}

#[test]
fn questions_that_nobody_answers_keep_nobody_out() {
    let mut wide = Wide::new();
    let socket = UdpSocket::bind(&wide.rig.ns, at("11.0.0.1:9")).unwrap();
    for number in 0..3000_u32 {
        let [_, b, c, d] = number.to_be_bytes();
        socket.send_to(b"x", std::net::SocketAddr::from(([11, 100 + b, c, d], 7))).unwrap();
    }
    assert!(wide.rig.ns.counters().neigh_unresolved_discards > 0, "what was given up is counted");
    let _ = wide.sent();
    socket.send_to(b"hello", at("11.0.0.2:7")).unwrap();
    wide.honest_answers();
    assert_eq!(wide.sent().0, [b"hello"]);
}

#[test]
fn an_address_that_flaps_costs_a_bounded_number_of_copies() {
    let mut wide = Wide::new();
    let honest = [11, 0, 0, 2];
    wide.inject(&arp(ArpOperation::Request, honest, PEER_MAC));
    let before = wide_generation(&wide);
    let begun = std::time::Instant::now();
    for number in 0..5000_u32 {
        wide.inject(&arp(ArpOperation::Request, honest, [2, 2, 2, 2, 2, (number % 2) as u8]));
    }
    // Each is believed at once, but no more than so many, however busy the machine is.
    let most = 256 + 100 * (begun.elapsed().as_secs() + 1);
    let changes = wide_generation(&wide) - before;
    assert!(changes <= most, "{changes} changes");
    // Those that name what is known change nothing, the others are counted.
    assert!(wide.rig.ns.counters().neigh_changes_ignored > 0 || most > 2000);
}

fn wide_generation(wide: &Wide) -> u64 {
    wide.rig.ns.tables().generation.load(Ordering::Relaxed)
}

//! What a softirq has for the name space's writer while a program is it and has no processor.

use std::sync::mpsc;
use std::time::Duration;

use napier_sys::clock::Clock;
use napier_sys::nowait::ForOthers;
use napier_testkit::PATIENCE;
use smoltcp::wire::{ArpOperation, Ipv4Address};

use crate::UdpSocket;
use crate::device::PacketClass;
use crate::tables::neighbour::{HeldPacket, Key, Neighbour};
use crate::tables::writer::LEFT_BYTES_MAX;
use crate::testing::{self, IFINDEX, PEER_MAC, Rig, at, udp};
use crate::wire::addr::Addr;

const PEER: [u8; 4] = [10, 0, 0, 2];

fn arp(operation: ArpOperation, from: [u8; 4], mac: [u8; 6]) -> Vec<u8> {
    testing::arp(operation, from.into(), mac, Ipv4Address::new(10, 0, 0, 1))
}

/// Does `work` as a softirq would, while a program writes; fails if that waits for it.
fn while_a_program_writes(rig: &mut Rig, work: impl FnOnce(&mut Rig) + Send) {
    let ns = rig.ns.clone();
    std::thread::scope(|scope| {
        // Let go where this ends, also by a panic: what waits for it is joined after that.
        let writing = ns.tables().lock();
        let (done, is_done) = mpsc::channel();
        let softirq = scope.spawn(move || {
            let _for_others = ForOthers::begin();
            work(rig);
            done.send(()).expect("the test listens");
        });
        is_done.recv_timeout(PATIENCE).expect("the softirq waits for the program");
        drop(writing);
        softirq.join().expect("the softirq goes on");
    });
}

/// Keeps a packet for the peer, as a connection does that a softirq serves.
fn hold(rig: &Rig, number: u8, bytes: usize) -> bool {
    let key = Key { ifindex: IFINDEX, addr: Addr::from_ip(PEER.into()) };
    let mut frame = vec![number; bytes];
    frame[12..14].copy_from_slice(&[8, 0]);
    rig.ns.tables().hold_for(key, HeldPacket { frame, class: PacketClass::of_flow(0) })
}

fn numbers(rig: &Rig) -> Vec<u8> {
    let sent = rig.sent();
    sent.iter().filter(|frame| frame[12..14] == [8, 0] && frame[..6] == PEER_MAC).map(|frame| frame[14]).collect()
}

#[test]
fn a_neighbour_that_asks_is_answered_at_once_and_learnt_later() {
    let mut rig = Rig::new();
    let socket = UdpSocket::bind(&rig.ns, at("10.0.0.1:7")).unwrap();
    while_a_program_writes(&mut rig, |rig| {
        rig.inject(&arp(ArpOperation::Request, PEER, PEER_MAC));
        rig.inject(&udp("10.0.0.2:9", "10.0.0.1:7", b"other traffic"));
        assert_eq!(socket.recv_from(&mut [0; 16]).unwrap().0, 13);
        assert_eq!(rig.sent().len(), 1, "the answer");
        assert_eq!(rig.ns.neighbour(IFINDEX, PEER.into()), None);
    });
    assert_eq!(rig.ns.neighbour(IFINDEX, PEER.into()), Some(PEER_MAC));
}

#[test]
fn what_waits_for_a_neighbour_leaves_in_order() {
    let mut rig = Rig::new();
    assert!(hold(&rig, 0, 60));
    while_a_program_writes(&mut rig, |rig| {
        assert!(hold(rig, 1, 60) && hold(rig, 2, 60));
        rig.inject(&arp(ArpOperation::Reply, PEER, PEER_MAC));
        assert!(hold(rig, 3, 60), "behind the answer, which nobody has heard yet");
        assert_eq!(numbers(rig), []);
    });
    assert!(hold(&rig, 4, 60), "known by now");
    assert_eq!(numbers(&rig), [0, 1, 2, 3, 4]);
    assert_eq!(rig.ns.neighbour(IFINDEX, PEER.into()), Some(PEER_MAC));
    let counters = rig.ns.counters();
    assert_eq!((counters.neigh_probes, counters.neigh_unresolved_discards), (1, 0));
}

/// A packet is left when all that was held has been sent: it goes before the neighbour is known, and so before the next
/// packet of its flow.
#[test]
fn a_packet_that_is_left_during_the_last_round_is_not_overtaken() {
    let rig = Rig::new();
    let key = Key { ifindex: IFINDEX, addr: Addr::from_ip(PEER.into()) };
    let mut writing = rig.ns.tables().lock();
    std::thread::scope(|scope| {
        let rig = &rig;
        let softirq = scope.spawn(move || {
            let _for_others = ForOthers::begin();
            hold(rig, 0, 60) && hold(rig, 1, 60)
        });
        assert!(softirq.join().expect("it does not wait"));
    });
    let neighbour = Neighbour::permanent(PEER_MAC, Clock.now());
    writing.settle(key, neighbour, 0);
    assert_eq!(rig.ns.neighbour(IFINDEX, PEER.into()), None, "what was left goes first");
    drop(writing);
    assert_eq!(numbers(&rig), [0, 1]);
    assert_eq!(rig.ns.neighbour(IFINDEX, PEER.into()), Some(PEER_MAC));
    assert_eq!(rig.ns.counters().neigh_unresolved_discards, 0);
}

/// It is lost with the writer and counted, and takes up no room any more.
#[test]
fn what_was_left_for_a_writer_that_panics_is_counted() {
    let mut rig = Rig::new();
    let ns = rig.ns.clone();
    let before = rig.ns.counters();
    let (writes, is_writing) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let program = std::thread::spawn(move || {
        let _writing = ns.tables().lock();
        writes.send(()).expect("the test listens");
        let _ = may_go_on.recv();
        panic!("a writer panics (meant by the test)");
    });
    is_writing.recv_timeout(PATIENCE).expect("the program writes");
    {
        let _for_others = ForOthers::begin();
        (0..100).for_each(|_| assert!(hold(&rig, 7, 1500)));
        rig.inject(&arp(ArpOperation::Request, PEER, PEER_MAC));
    }
    go_on.send(()).expect("the program waits");
    assert!(program.join().is_err(), "it panics");
    let lost = rig.ns.counters();
    assert_eq!(lost.neigh_unresolved_discards - before.neigh_unresolved_discards, 100);
    assert_eq!(lost.neigh_table_fulls - before.neigh_table_fulls, 1);
    assert!(rig.ns.tables().writers_have_room());
    assert!(hold(&rig, 8, 60));
    rig.inject(&arp(ArpOperation::Reply, PEER, PEER_MAC));
    assert_eq!(numbers(&rig), [8]);
}

#[test]
fn a_question_that_was_left_is_asked() {
    let mut rig = Rig::new();
    while_a_program_writes(&mut rig, |rig| {
        assert!(hold(rig, 0, 60));
        assert_eq!(rig.sent().len(), 0);
    });
    assert_eq!(rig.sent().len(), 1, "the question");
    assert_eq!(rig.ns.counters().neigh_probes, 1);
    rig.inject(&arp(ArpOperation::Reply, PEER, PEER_MAC));
    assert_eq!(numbers(&rig), [0]);
}

#[test]
fn what_is_left_for_the_writer_is_bounded() {
    let mut rig = Rig::new();
    let before = rig.ns.counters().neigh_unresolved_discards;
    while_a_program_writes(&mut rig, |rig| {
        let packets = LEFT_BYTES_MAX as usize / 1500 + 1;
        (0..packets).for_each(|_| assert!(hold(rig, 7, 1500)));
        let lost = rig.ns.counters().neigh_unresolved_discards;
        assert!(lost > before, "more than the bound is lost and counted");
        (0..5000).for_each(|_| rig.inject(&arp(ArpOperation::Request, PEER, PEER_MAC)));
        assert!(rig.ns.counters().neigh_table_fulls > 0, "what is not learnt is counted");
    });
    // The writer has let go, so there is room again.
    while_a_program_writes(&mut rig, |rig| rig.inject(&arp(ArpOperation::Reply, PEER, PEER_MAC)));
    assert_eq!(rig.ns.neighbour(IFINDEX, PEER.into()), Some(PEER_MAC));
}

#[test]
fn programs_wait_for_each_other() {
    let rig = Rig::new();
    let writing = rig.ns.tables().lock();
    let threads: Vec<_> = (0..4)
        .map(|number| {
            let ns = rig.ns.clone();
            std::thread::spawn(move || UdpSocket::bind(&ns, at(&format!("10.0.0.1:{}", 100 + number))))
        })
        .collect();
    // Some sleep by then; a bind that did not wait would be seen below.
    std::thread::sleep(Duration::from_millis(50));
    assert!(threads.iter().all(|thread| !thread.is_finished()), "one writes at a time");
    drop(writing);
    let sockets: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap().unwrap()).collect();
    assert_eq!(sockets.len(), 4);
}

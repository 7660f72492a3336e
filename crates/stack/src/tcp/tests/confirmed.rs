//! What acknowledgements say of the neighbour by which they come.

use napier_core::neighbour::Nud;
use napier_core::time::Span;
use napier_sys::clock::Clock;
use smoltcp::wire::{ArpOperation, Ipv4Address};

use crate::tables::neighbour::Key;
use crate::tcp::TcpListener;
use crate::tcp::tests::segments::{PEER, US, accepted, segment};
use crate::testing::{self, IFINDEX, PEER_MAC, Rig, at};
use crate::wire::addr::Addr;
use crate::wire::flag;

const OURS: Ipv4Address = Ipv4Address::new(10, 0, 0, 1);
const THEIRS: Ipv4Address = Ipv4Address::new(10, 0, 0, 2);

fn nud(rig: &Rig) -> Nud {
    let key = Key { ifindex: IFINDEX, addr: Addr::test("10.0.0.2") };
    rig.ns.tables().snapshot.load().neighbours.get(key).expect("it is known").nud
}

/// Answers are good no longer, as far as neighbours are concerned.
fn grow_old(rig: &Rig) {
    rig.ns.tables().lock().age(Clock.now() + Span::from_secs(46));
    assert_eq!(nud(rig), Nud::Stale);
}

/// The peer acknowledges all before this number.
fn acknowledge(rig: &mut Rig, ack: u32) {
    rig.inject(&segment(PEER, US, flag::ACK, 1001, ack, b""));
}

#[test]
fn an_acknowledgement_of_what_went_to_it_confirms_a_neighbour() {
    let mut rig = Rig::new();
    let listener = TcpListener::builder().nonblocking(true).bind(&rig.ns, at(US)).unwrap();
    // It asks for us, and is known by that.
    rig.inject(&testing::arp(ArpOperation::Request, THEIRS, PEER_MAC, OURS));
    let _ = rig.sent();
    let (stream, ours) = accepted(&mut rig, &listener);
    assert!(matches!(nud(&rig), Nud::Delay { .. }), "it is used, and nothing of ours was acknowledged but the SYN");
    stream.send(b"one").unwrap();
    acknowledge(&mut rig, ours + 3);
    assert!(matches!(nud(&rig), Nud::Reachable { .. }));
    // What was under way when it became old says nothing of it now.
    stream.send(b"two").unwrap();
    grow_old(&rig);
    acknowledge(&mut rig, ours + 6);
    assert!(matches!(nud(&rig), Nud::Delay { .. }), "the way was looked up again, which is a use");
    stream.send(b"three").unwrap();
    assert!(matches!(nud(&rig), Nud::Delay { .. }));
    acknowledge(&mut rig, ours + 6);
    assert!(matches!(nud(&rig), Nud::Delay { .. }), "nothing new");
    acknowledge(&mut rig, ours + 11);
    assert!(matches!(nud(&rig), Nud::Reachable { .. }));
    assert_eq!(rig.ns.counters().neigh_probes, 0, "it was never asked");
}

#[test]
fn a_neighbour_that_has_moved_is_not_confirmed_by_what_went_to_its_old_place() {
    const NEW: [u8; 6] = [2, 0, 0, 0, 0, 0x99];
    let mut rig = Rig::new();
    let listener = TcpListener::builder().nonblocking(true).bind(&rig.ns, at(US)).unwrap();
    rig.inject(&testing::arp(ArpOperation::Request, THEIRS, PEER_MAC, OURS));
    let _ = rig.sent();
    let (stream, ours) = accepted(&mut rig, &listener);
    stream.send(b"one").unwrap();
    rig.inject(&testing::arp(ArpOperation::Request, THEIRS, NEW, OURS));
    assert_eq!(nud(&rig), Nud::Stale);
    acknowledge(&mut rig, ours + 3);
    assert!(matches!(nud(&rig), Nud::Delay { .. }));
    stream.send(b"two").unwrap();
    acknowledge(&mut rig, ours + 6);
    assert!(matches!(nud(&rig), Nud::Reachable { .. }));
    assert_eq!(rig.ns.neighbour(IFINDEX, "10.0.0.2".parse().unwrap()), Some(NEW));
}

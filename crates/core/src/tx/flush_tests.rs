use alloc::vec::Vec;

use super::*;
use crate::tx::qdisc::{Fifo, Fq, FqConfig, Qdisc};
use crate::tx::tests::packet::Packet;

const NOW: Instant = Instant::from_ns(1);

fn flushed(root: &mut Root<Packet>, state: QdiscState, pkts: u32) -> (XmitCode, bool, Vec<(u32, DropReason)>) {
    let mut dropped = Vec::new();
    let batch = (0..pkts).map(|number| Packet::new(1, number));
    let flushed = flush(root, state, batch, NOW, 64, &mut |drop| dropped.push((drop.packet.number, drop.reason)));
    (flushed.code, flushed.run.is_some(), dropped)
}

#[test]
fn the_plan() {
    for bits in 0..32u8 {
        let bit = |at: u8| (bits >> at) & 1 != 0;
        let view =
            FlushView { deactivated: bit(0), can_bypass: bit(1), empty: bit(2), single: bit(3), running: bit(4) };
        let expected = match bits {
            bits if bits & 1 != 0 => FlushPlan::DropAll,
            0b01110 => FlushPlan::Bypass,
            _ => FlushPlan::Enqueue,
        };
        assert_eq!(plan(view), expected, "{view:?}");
    }
}

/// Scenario 80: the whole batch is dropped; the flusher is told, the others were told success at their push.
#[test]
fn deactivated() {
    let mut root = Root::new(Qdisc::Fifo(Fifo::new(10)), true);
    let (code, runs, dropped) = flushed(&mut root, QdiscState::DEACTIVATED, 3);
    assert_eq!((code.number(), runs), (1, false));
    assert_eq!(dropped, [0, 1, 2].map(|number| (number, DropReason::Deactivated)));
    assert_eq!(root.stats().drops.get(DropReason::Deactivated), 3);
    assert_eq!(super::super::push::Pushed::Handed.code(), Some(XmitCode::Success));
}

/// The flusher of several packets is told success; what came of its own, the first, is known. What is dropped is counted
/// and handed back.
#[test]
fn the_flusher_of_several_packets_is_told_success() {
    for (limit, own, kept) in [(0, XmitCode::Drop, 0), (1, XmitCode::Success, 1), (3, XmitCode::Success, 3)] {
        let mut root = Root::new(Qdisc::Fifo(Fifo::new(limit)), true);
        let (code, runs, dropped) = flushed(&mut root, QdiscState::SCHED, 3);
        assert_eq!((code, runs, root.qlen()), (XmitCode::Success, true, kept));
        let mut root_again = Root::new(Qdisc::Fifo(Fifo::new(limit)), true);
        let batch = (0..3).map(|number| Packet::new(1, number));
        assert_eq!(flush(&mut root_again, QdiscState::SCHED, batch, NOW, 64, &mut |_| {}).own, own);
        let expected: Vec<_> = (kept as u32..3).map(|number| (number, DropReason::Overlimit)).collect();
        assert_eq!(dropped, expected);
        assert_eq!(root.stats().drops.total(), 3 - kept as u64);
    }
}

/// `fq` is never passed by; a batch of two is queued; with a runner about, nobody else becomes one.
#[test]
fn who_waits() {
    let mut root = Root::new(Qdisc::Fq(Fq::new(FqConfig::default())), true);
    assert!(flushed(&mut root, QdiscState::EMPTY, 1).1);
    assert_eq!(root.qlen(), 1);
    let mut root = Root::new(Qdisc::Fifo(Fifo::new(10)), true);
    assert_eq!(flushed(&mut root, QdiscState::EMPTY, 2), (XmitCode::Success, true, Vec::new()));
    assert_eq!(flushed(&mut root, QdiscState::EMPTY, 1), (XmitCode::Success, false, Vec::new()));
    assert_eq!(root.qlen(), 3);
}

/// A packet alone: what came of it is what its sender is told.
#[test]
fn the_flusher_of_one_packet_is_told_of_it() {
    let mut root = Root::new(Qdisc::Fifo(Fifo::new(0)), false);
    assert_eq!(flushed(&mut root, QdiscState::EMPTY, 1).0, XmitCode::Drop);
    let mut root = Root::new(Qdisc::Fifo(Fifo::new(1)), false);
    assert_eq!(flushed(&mut root, QdiscState::EMPTY, 1).0, XmitCode::Success);
}

#[test]
#[should_panic(expected = "the flusher's own packet is in its batch")]
fn an_empty_batch_is_a_mistake() {
    let mut root = Root::<Packet>::new(Qdisc::Fifo(Fifo::new(10)), true);
    let _ = flush(&mut root, QdiscState::EMPTY, [], NOW, 64, &mut |_| {});
}

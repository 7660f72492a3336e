use alloc::vec::Vec;

use super::*;
use crate::tx::qdisc::{Fifo, Fq, FqConfig};
use crate::tx::queue::QueueBits;
use crate::tx::tests::packet::Packet;

const NOW: Instant = Instant::from_ns(1_000);

fn filled(pkts: u32, one_tx_queue: bool) -> Root<Packet> {
    let mut root = Root::new(Qdisc::Fifo(Fifo::new(1000)), one_tx_queue);
    (0..pkts).for_each(|number| root.enqueue(Packet::new(1, number), NOW).unwrap());
    root
}

fn numbers(chain: &VecDeque<Packet>) -> Vec<u32> {
    chain.iter().map(|packet| packet.number).collect()
}

fn open(bulk_bytes: i32) -> impl Fn(u16) -> TxQueueView {
    move |_| TxQueueView { bits: QueueBits::EMPTY, bulk_bytes }
}

/// The allowance counts the first packet; the last one may exceed it.
#[test]
fn bulk_is_bounded_by_bytes_and_by_the_quota() {
    for (bulk_bytes, quota, pkts) in
        [(0, 64, 1), (-5, 64, 1), (1000, 64, 1), (1001, 64, 2), (3000, 64, 3), (i32::MAX, 64, 65), (i32::MAX, 3, 4)]
    {
        let mut chain = VecDeque::new();
        let mut root = filled(100, true);
        assert_eq!(root.fetch(NOW, quota, open(bulk_bytes), &mut chain), Fetched::Chain { validate: true });
        assert_eq!(chain.len(), pkts, "{bulk_bytes} {quota}");
        assert_eq!((root.qlen(), root.backlog_bytes()), (100 - pkts, (100 - pkts as u64) * 1000));
        assert_eq!((root.stats().packets, root.stats().bytes), (pkts as u64, pkts as u64 * 1000));
    }
}

/// What came back goes first, one packet at a time, in its order, and unvalidated.
#[test]
fn what_came_back_goes_first() {
    let mut root = filled(5, true);
    let mut chain = VecDeque::new();
    let _ = root.fetch(NOW, 64, open(2500), &mut chain);
    assert_eq!(numbers(&chain), [0, 1, 2]);
    root.put_back(&mut chain);
    assert_eq!((root.qlen(), root.backlog_bytes(), root.stats().requeues), (5, 5000, 3));
    let mut order = Vec::new();
    for at in 0..5 {
        let fetched = root.fetch(NOW, 64, open(0), &mut chain);
        assert_eq!(fetched, Fetched::Chain { validate: at >= 3 });
        order.extend(numbers(&chain));
        chain.clear();
        // Half way, one comes back once more: still to the front.
        if at == 1 {
            chain.push_back(Packet::new(1, 9));
            root.put_back(&mut chain);
            let _ = root.fetch(NOW, 64, open(0), &mut chain);
            order.extend(numbers(&chain));
            chain.clear();
        }
    }
    assert_eq!(order, [0, 1, 9, 2, 3, 4]);
    assert_eq!(root.fetch(NOW, 64, open(0), &mut chain), Fetched::Empty);
    assert_eq!(root.stats().packets, 5, "a packet leaves once, however often it comes back");
    assert_eq!((root.qlen(), root.backlog_bytes()), (0, 0));
}

/// Scenario 83: nothing is dequeued for a stopped queue.
#[test]
fn a_stopped_queue_keeps_its_packets() {
    let stopped = |_| TxQueueView { bits: QueueBits::FROZEN, bulk_bytes: 1 };
    let mut root = filled(2, true);
    let mut chain = VecDeque::new();
    assert_eq!(root.fetch(NOW, 64, stopped, &mut chain), Fetched::Stopped);
    assert_eq!((root.qdisc().len(), chain.len()), (2, 0));
    // What came back waits for its own queue, even where one discipline serves several.
    let mut root = filled(2, false);
    chain.push_back(Packet::new(1, 9));
    root.put_back(&mut chain);
    assert_eq!(root.fetch(NOW, 64, stopped, &mut chain), Fetched::Stopped);
    assert_eq!((root.qlen(), chain.len()), (3, 0));
}

/// Several transmit queues: up to 8 more packets for the same one; the first for another waits aside and goes next.
#[test]
fn chains_for_several_transmit_queues() {
    let mut root = Root::new(Qdisc::Fifo(Fifo::new(1000)), false);
    for number in 0..14 {
        let tx_queue = u16::from(number == 1 || number == 2);
        root.enqueue(Packet { tx_queue, ..Packet::new(1, number) }, NOW).unwrap();
    }
    let mut chain = VecDeque::new();
    for expected in [&[0][..], &[1, 2], &[3, 4, 5, 6, 7, 8, 9, 10, 11], &[12, 13]] {
        let before = (root.qlen(), root.backlog_bytes());
        // The queue of the packet aside is what counts, and without one nothing is looked at.
        if expected[0] == 1 {
            let other_stopped = |queue| TxQueueView {
                bits: if queue == 1 { QueueBits::DRIVER_OFF } else { QueueBits::EMPTY },
                bulk_bytes: 0,
            };
            assert_eq!(root.fetch(NOW, 64, other_stopped, &mut chain), Fetched::Stopped);
            assert_eq!((root.qlen(), root.backlog_bytes()), before);
        }
        let _ = root.fetch(NOW, 64, open(i32::MAX), &mut chain);
        assert_eq!(numbers(&chain), expected);
        assert_eq!(root.qlen(), before.0 - expected.len());
        assert_eq!(root.backlog_bytes(), before.1 - 1000 * expected.len() as u64);
        chain.clear();
    }
    assert_eq!((root.qlen(), root.backlog_bytes(), root.stats().packets), (0, 0, 14));
}

#[test]
fn packets_that_came_back_count_against_the_limit_of_a_fifo() {
    let mut root = Root::new(Qdisc::Fifo(Fifo::new(2)), true);
    root.enqueue(Packet::new(1, 0), NOW).unwrap();
    let mut chain = VecDeque::new();
    let _ = root.fetch(NOW, 64, open(0), &mut chain);
    root.put_back(&mut chain);
    root.enqueue(Packet::new(1, 1), NOW).unwrap();
    let dropped = root.enqueue(Packet::new(1, 2), NOW).unwrap_err();
    assert_eq!((dropped.packet.number, dropped.reason), (2, DropReason::Overlimit));
    assert_eq!((root.stats().drops.get(DropReason::Overlimit), root.backlog_bytes()), (1, 2000));
}

#[test]
fn a_reset_drops_whatever_waits() {
    let mut root = filled(5, true);
    let mut chain = VecDeque::new();
    let _ = root.fetch(NOW, 64, open(1500), &mut chain);
    root.put_back(&mut chain);
    let mut dropped = Vec::new();
    root.reset(&mut |drop| dropped.push((drop.packet.number, drop.reason)));
    assert_eq!(dropped.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert!(dropped.iter().all(|(_, reason)| *reason == DropReason::Deactivated));
    assert_eq!((root.qlen(), root.backlog_bytes(), root.stats().drops.total()), (0, 0, 5));
}

#[test]
fn a_paced_discipline_says_when_to_come_back() {
    let mut root = Root::new(Qdisc::Fq(Fq::new(FqConfig::default())), true);
    let departs = NOW + crate::time::Span::from_us(7);
    root.enqueue(Packet { departs: Some(departs), ..Packet::new(1, 0) }, NOW).unwrap();
    let mut chain = VecDeque::new();
    assert_eq!(root.fetch(NOW, 64, open(0), &mut chain), Fetched::NotBefore(departs));
    assert_eq!(root.fetch(departs, 64, open(0), &mut chain), Fetched::Chain { validate: true });
}

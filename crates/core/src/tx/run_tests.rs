use alloc::vec::Vec;

use super::*;
use crate::tx::flush::flush;
use crate::tx::qdisc::{Fifo, Fq, FqConfig, Qdisc};
use crate::tx::state::QdiscState;
use crate::tx::tests::packet::Packet;

const NOW: Instant = Instant::from_ns(1_000);

/// A device that takes `room` packets and then stops its queue, or says busy without having stopped.
struct Device {
    bits: QueueBits,
    bulk_bytes: i32,
    room: usize,
    stops: bool,
    sent: Vec<u32>,
    hints: Vec<bool>,
}

impl Device {
    fn new(room: usize, bulk_bytes: i32) -> Self {
        Self { bits: QueueBits::EMPTY, bulk_bytes, room, stops: true, sent: Vec::new(), hints: Vec::new() }
    }

    fn run(&mut self, root: &mut Root<Packet>, mut run: TxRun<Packet>) -> RunEnd {
        loop {
            assert!(root.is_running());
            match run.next() {
                TxStep::Dequeue => {
                    run.on_dequeue(root, NOW, |_| TxQueueView { bits: self.bits, bulk_bytes: self.bulk_bytes });
                }
                TxStep::TxLock { .. } => run.on_tx_locked(self.bits),
                TxStep::Offer { more } => {
                    let packet = run.take();
                    if self.room == 0 {
                        run.on_busy(packet);
                        continue;
                    }
                    self.room -= 1;
                    self.sent.push(packet.number);
                    self.hints.push(more);
                    if self.room == 0 && self.stops {
                        self.bits = self.bits.stop_driver();
                    }
                    run.on_taken(self.bits);
                }
                TxStep::Relock => run.on_relocked(root),
                TxStep::Finish(end) => {
                    run.finish(root);
                    return end;
                }
            }
        }
    }
}

fn filled(pkts: u32) -> Root<Packet> {
    let mut root = Root::new(Qdisc::Fifo(Fifo::new(1000)), true);
    (0..pkts).for_each(|number| root.enqueue(Packet::new(1, number), NOW).unwrap());
    root
}

fn run(root: &mut Root<Packet>, device: &mut Device) -> RunEnd {
    let run = TxRun::begin(root, DEV_TX_WEIGHT).unwrap();
    device.run(root, run)
}

/// Scenario 81: 200 packets: 64 without bulking; 1 + 64 with a bulking allowance that does not end.
#[test]
fn the_quota_of_a_run() {
    for (bulk_bytes, pkts) in [(0, 64), (i32::MAX, 65), (10_000, 65)] {
        let mut root = filled(200);
        let mut device = Device::new(1000, bulk_bytes);
        let end = run(&mut root, &mut device);
        assert_eq!(device.sent.len(), pkts, "{bulk_bytes}");
        assert_eq!(end, RunEnd { stop: RunStop::Quota, again: true });
        assert!(device.sent.iter().copied().eq(0..pkts as u32));
    }
}

/// Chains of ten: the seventh begins with 4 left of the quota, and takes 1 + 4.
#[test]
fn bulk_is_bounded_by_what_is_left_of_the_quota() {
    let mut root = filled(200);
    let mut device = Device::new(1000, 10_000);
    let _ = run(&mut root, &mut device);
    let chains: Vec<usize> = device.hints.split_inclusive(|more| !more).map(<[bool]>::len).collect();
    assert_eq!(chains, [10, 10, 10, 10, 10, 10, 5]);
}

#[test]
fn the_quota_is_looked_at_after_a_chain() {
    for (pkts, stop) in [(63, RunStop::Empty), (64, RunStop::Quota), (65, RunStop::Quota)] {
        let mut root = filled(pkts);
        let end = run(&mut root, &mut Device::new(1000, 0));
        assert_eq!(end, RunEnd { stop, again: stop == RunStop::Quota });
    }
}

/// The doorbell may wait while more follows.
#[test]
fn more_follows() {
    let mut device = Device::new(1000, 2500);
    let _ = run(&mut filled(5), &mut device);
    assert_eq!(device.hints, [true, true, false, true, false]);
}

/// Scenario 83: a stop in mid-chain leaves the rest at the front; another run dequeues nothing; after the wake the order
/// is what it was.
#[test]
fn a_full_device_keeps_the_order() {
    for stops in [true, false] {
        let mut root = filled(10);
        let mut device = Device::new(2, 3500);
        device.stops = stops;
        let end = run(&mut root, &mut device);
        assert_eq!(end, RunEnd { stop: RunStop::Busy, again: true });
        assert_eq!(root.iter_requeued().map(|packet| packet.number).collect::<Vec<_>>(), [2, 3]);
        assert_eq!((root.qlen(), root.backlog_bytes(), root.stats().requeues), (8, 8000, 2));
        let end = run(&mut root, &mut device);
        let stop = if stops { RunStop::Stopped } else { RunStop::Busy };
        assert_eq!(end, RunEnd { stop, again: !stops });
        let (bits, schedule) = device.bits.wake_driver();
        assert_eq!((bits, schedule), (QueueBits::EMPTY, stops));
        (device.bits, device.room) = (bits, 100);
        assert_eq!(run(&mut root, &mut device), RunEnd { stop: RunStop::Empty, again: false });
        assert!(device.sent.iter().copied().eq(0..10));
    }
}

/// The stop comes with the last packet of the chain: nothing comes back, and the next look finds it stopped.
#[test]
fn a_stop_after_the_last_packet_is_no_failure() {
    let mut root = filled(4);
    let mut device = Device::new(2, 1500);
    assert_eq!(run(&mut root, &mut device), RunEnd { stop: RunStop::Stopped, again: false });
    assert_eq!((root.qlen(), root.stats().requeues), (2, 0));
}

/// The queue was stopped between the look and the transmit lock.
#[test]
fn stopped_at_the_transmit_lock() {
    for (bits, stop) in [(QueueBits::FROZEN, RunStop::Busy), (QueueBits::STACK_OFF, RunStop::Busy)] {
        let mut root = filled(2);
        let mut run = TxRun::begin(&mut root, 64).unwrap();
        run.on_dequeue(&mut root, NOW, |_| TxQueueView::default());
        assert_eq!(run.next(), TxStep::TxLock { validate: true });
        run.on_tx_locked(bits);
        assert_eq!(run.next(), TxStep::Relock);
        run.on_relocked(&mut root);
        assert_eq!(run.next(), TxStep::Finish(RunEnd { stop, again: true }));
        assert_eq!(root.stats().requeues, 1);
        run.finish(&mut root);
    }
}

/// A driver that has stopped is not offered the rest of the chain.
#[test]
fn a_stop_in_mid_chain_ends_the_offers() {
    for bits in [QueueBits::DRIVER_OFF, QueueBits::STACK_OFF] {
        let mut root = filled(3);
        let mut run = TxRun::begin(&mut root, 64).unwrap();
        run.on_dequeue(&mut root, NOW, |_| TxQueueView { bulk_bytes: 9999, ..TxQueueView::default() });
        run.on_tx_locked(QueueBits::EMPTY);
        let _ = run.take();
        run.on_taken(bits);
        assert_eq!(run.next(), TxStep::Relock);
        run.on_relocked(&mut root);
        assert_eq!(run.next(), TxStep::Finish(RunEnd { stop: RunStop::Busy, again: true }));
        assert_eq!(root.iter_requeued().map(|packet| packet.number).collect::<Vec<_>>(), [1, 2]);
        run.finish(&mut root);
    }
}

/// Freezing concerns the beginning of a chain, not its middle.
#[test]
fn a_freeze_in_mid_chain_is_not_seen() {
    let mut root = filled(2);
    let mut run = TxRun::begin(&mut root, 64).unwrap();
    run.on_dequeue(&mut root, NOW, |_| TxQueueView { bulk_bytes: 9999, ..TxQueueView::default() });
    run.on_tx_locked(QueueBits::EMPTY);
    let _ = run.take();
    run.on_taken(QueueBits::FROZEN);
    assert_eq!(run.next(), TxStep::Offer { more: false });
}

/// Scenario 75: one sender, an empty discipline that may be passed by: the driver has the packet, and the discipline
/// never held one.
#[test]
fn bypass() {
    let mut root = Root::new(Qdisc::Fifo(Fifo::new(1000)), true);
    let mut device = Device::new(10, 0);
    for number in 0..3 {
        let flushed =
            flush(&mut root, QdiscState::EMPTY, [Packet::new(1, number)], NOW, DEV_TX_WEIGHT, &mut |_| panic!());
        assert_eq!((flushed.code.number(), root.qlen()), (0, 0));
        let end = device.run(&mut root, flushed.run.unwrap());
        assert_eq!(end, RunEnd { stop: RunStop::Empty, again: false });
    }
    assert_eq!(device.sent, [0, 1, 2]);
    assert_eq!((root.stats().packets, root.stats().bytes), (3, 3000));
}

/// What others queued during a bypass is run by the one who passed by, with a whole quota.
#[test]
fn a_bypass_goes_on_with_a_run() {
    let mut root = Root::new(Qdisc::Fifo(Fifo::new(1000)), true);
    let mut run = TxRun::bypass(&mut root, Packet::new(1, 0), DEV_TX_WEIGHT);
    run.on_tx_locked(QueueBits::EMPTY);
    let _ = run.take();
    let batch = (1..=100).map(|number| Packet::new(1, number));
    let flushed = flush(&mut root, QdiscState::EMPTY, batch, NOW, DEV_TX_WEIGHT, &mut |_| panic!());
    assert!(flushed.run.is_none(), "somebody runs");
    run.on_taken(QueueBits::EMPTY);
    let mut device = Device::new(1000, 0);
    assert_eq!(device.run(&mut root, run), RunEnd { stop: RunStop::Quota, again: true });
    assert!(device.sent.iter().copied().eq(1..=64));
}

/// A bypass that fails waits like anything else, and its sender was told success.
#[test]
fn a_bypass_to_a_full_device_waits() {
    let mut root = Root::new(Qdisc::Fifo(Fifo::new(1000)), true);
    let run = TxRun::bypass(&mut root, Packet::new(1, 0), DEV_TX_WEIGHT);
    let mut device = Device::new(0, 0);
    assert_eq!(device.run(&mut root, run), RunEnd { stop: RunStop::Busy, again: true });
    assert_eq!((root.qlen(), root.backlog_bytes()), (1, 1000));
}

/// What validation takes out is gone; a chain of which nothing is left needs no transmit lock.
#[test]
fn validation_may_take_packets_out() {
    let mut root = filled(3);
    let mut run = TxRun::begin(&mut root, 64).unwrap();
    run.on_dequeue(&mut root, NOW, |_| TxQueueView { bulk_bytes: 1500, ..TxQueueView::default() });
    assert_eq!(run.tx_queue(), Some(0));
    run.chain_mut().clear();
    assert_eq!(run.tx_queue(), None);
    run.on_tx_locked(QueueBits::EMPTY);
    run.on_relocked(&mut root);
    assert_eq!(run.next(), TxStep::Dequeue);
    let mut device = Device::new(10, 0);
    let _ = device.run(&mut root, run);
    assert_eq!(device.sent, [2]);
}

#[test]
fn pacing_ends_a_run_with_a_time() {
    let mut root = Root::new(Qdisc::Fq(Fq::new(FqConfig::default())), true);
    for number in 0..2 {
        let departs = Some(NOW + crate::time::Span::from_us(number.into()));
        root.enqueue(Packet { departs, ..Packet::new(1, number) }, NOW).unwrap();
    }
    let mut device = Device::new(10, i32::MAX);
    let end = run(&mut root, &mut device);
    assert_eq!(end, RunEnd { stop: RunStop::NotBefore(NOW + crate::time::Span::from_us(1)), again: false });
    assert_eq!(device.sent, [0]);
}

#[test]
fn one_runner() {
    let mut root = filled(1);
    let run = TxRun::begin(&mut root, 64);
    assert!(run.is_some() && TxRun::begin(&mut root, 64).is_none());
}

#[test]
#[should_panic(expected = "finish answers Finish")]
fn a_run_that_is_not_over_cannot_finish() {
    let mut root = filled(1);
    TxRun::begin(&mut root, 64).unwrap().finish(&mut root);
}

#[test]
#[should_panic(expected = "take answers Offer")]
fn packets_are_offered_under_the_transmit_lock() {
    let mut root = filled(1);
    let _ = TxRun::begin(&mut root, 64).unwrap().take();
}

/// Without root lock: what passes by is counted, is not charged, and goes before what others have queued meanwhile.
#[test]
fn a_packet_that_passes_by_goes_first() {
    let mut root = filled(2);
    let mut device = Device::new(1000, 0);
    let mut first = TxRun::begin(&mut root, 1).unwrap();
    first.pass_by(&mut root, Packet::new(1, 9));
    let end = device.run(&mut root, first);
    assert_eq!(device.sent, [9, 0], "a quota of one is left for the next");
    assert_eq!(end, RunEnd { stop: RunStop::Quota, again: true });
    assert_eq!((root.stats().packets, root.qlen()), (2, 1));
}

#[test]
fn a_run_may_end_without_a_look() {
    let mut root = filled(2);
    let mut run = TxRun::begin(&mut root, 64).unwrap();
    run.on_nothing();
    assert_eq!(run.next(), TxStep::Finish(RunEnd { stop: RunStop::Empty, again: false }));
    run.finish(&mut root);
    assert!(!root.is_running() && root.qlen() == 2);
}

#[test]
#[should_panic(expected = "pass_by answers Dequeue")]
fn nothing_passes_by_a_chain() {
    let mut root = filled(2);
    let mut run = TxRun::begin(&mut root, 64).unwrap();
    run.on_dequeue(&mut root, NOW, |_| TxQueueView::default());
    run.pass_by(&mut root, Packet::new(1, 9));
}

#[test]
#[should_panic(expected = "on_nothing answers Dequeue")]
fn a_chain_is_not_nothing() {
    let mut root = filled(2);
    let mut run = TxRun::begin(&mut root, 64).unwrap();
    run.on_dequeue(&mut root, NOW, |_| TxQueueView::default());
    run.on_nothing();
}

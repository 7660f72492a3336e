use alloc::vec::Vec;

use super::*;
use crate::time::Span;
use crate::tx::DropReason;
use crate::tx::tests::packet::Packet;

const NOW: Instant = Instant::from_ns(1_000_000_000);

/// Turns of two packets of 1000 bytes, the first of four.
fn config() -> FqConfig {
    FqConfig { quantum_bytes: 2000, initial_quantum_bytes: 4000, buckets: 4, ..FqConfig::default() }
}

fn us(us: u64) -> Span {
    Span::from_us(us)
}

/// The flows of the packets that leave at once.
fn flows(fq: &mut Fq<Packet>, now: Instant) -> Vec<u32> {
    core::iter::from_fn(|| match fq.dequeue(now) {
        Dequeued::Packet(packet) => Some(packet.flow),
        Dequeued::NotBefore(_) | Dequeued::Empty => None,
    })
    .collect()
}

fn fill(fq: &mut Fq<Packet>, flow: u32, pkts: u32) {
    (0..pkts).for_each(|number| fq.enqueue(Packet::new(flow, number), NOW).unwrap());
}

/// First the initial quanta of the new flows, then the quanta in turn.
#[test]
fn flows_take_turns() {
    let mut fq = Fq::new(config());
    fill(&mut fq, 1, 8);
    fill(&mut fq, 2, 8);
    assert_eq!(flows(&mut fq, NOW), [1, 1, 1, 1, 2, 2, 2, 2, 1, 1, 2, 2, 1, 1, 2, 2]);
    assert_eq!(fq.dequeue(NOW), Dequeued::Empty);
}

/// A flow that begins to send does not wait behind those that have a backlog.
#[test]
fn new_flows_go_first() {
    let mut fq = Fq::new(config());
    fill(&mut fq, 1, 20);
    for _ in 0..4 {
        assert!(matches!(fq.dequeue(NOW), Dequeued::Packet(_)));
    }
    fill(&mut fq, 2, 1);
    assert!(matches!(fq.dequeue(NOW), Dequeued::Packet(packet) if packet.flow == 2));
    // One packet at a time does not keep it new: it is on the old list now, behind flow 1.
    assert!(matches!(fq.dequeue(NOW), Dequeued::Packet(packet) if packet.flow == 1));
    fq.enqueue(Packet::new(2, 1), NOW).unwrap();
    assert!(matches!(fq.dequeue(NOW), Dequeued::Packet(packet) if packet.flow == 1));
    assert!(matches!(fq.dequeue(NOW), Dequeued::Packet(packet) if packet.flow == 2));
}

/// Credit is kept while a flow is idle, and topped up to a quantum only after the refill delay.
#[test]
fn credit_comes_back_after_the_refill_delay() {
    for (idle, expected) in [(Span::from_ms(40), 1500), (Span::from_ms(41), 2000)] {
        let mut fq = Fq::new(FqConfig { initial_quantum_bytes: 500, ..config() });
        fill(&mut fq, 7, 1);
        assert_eq!(flows(&mut fq, NOW), [7]);
        // Its next turns, before others: it leaves the lists.
        assert_eq!(fq.dequeue_some(NOW), Dequeued::Empty);
        fq.enqueue(Packet::new(7, 1), NOW + idle).unwrap();
        let at = fq.flows.find(7, NOW, 0).unwrap();
        let credit = fq.flows.get(at).credit_bytes;
        // In debt by 500, and given a quantum when its turn came once more, without a packet.
        assert_eq!(credit, expected);
        assert_eq!(flows(&mut fq, NOW + idle), [7]);
    }
}

#[test]
fn limits() {
    let mut fq = Fq::new(FqConfig { limit_pkts: 5, flow_limit_pkts: 3, ..config() });
    let mut reasons = Vec::new();
    for (flow, number) in [(1, 0), (1, 1), (1, 2), (1, 3), (2, 0), (2, 1), (2, 2), (3, 0)] {
        reasons.push(fq.enqueue(Packet::new(flow, number), NOW).err().map(|dropped| dropped.reason));
    }
    let (flow, over) = (Some(DropReason::FlowLimit), Some(DropReason::Overlimit));
    assert_eq!(reasons, [None, None, None, flow, None, None, over, over]);
}

/// A flow drops at its limit without becoming active, and a table that is full of active flows takes no more.
#[test]
fn the_table_of_flows_is_bounded() {
    let mut fq = Fq::new(FqConfig { flows_max: 2, ..config() });
    fill(&mut fq, 1, 1);
    fill(&mut fq, 2, 1);
    assert_eq!(fq.enqueue(Packet::new(3, 0), NOW).unwrap_err().reason, DropReason::Overlimit);
    assert_eq!(flows(&mut fq, NOW), [1, 2]);
    fill(&mut fq, 3, 1);
    fill(&mut fq, 4, 1);
    assert_eq!(flows(&mut fq, NOW), [3, 4]);
    // Idle, but paced: forgetting it would let its next packet leave early.
    let mut fq = Fq::new(FqConfig { flows_max: 1, flow_max_rate: 1_000_000, initial_quantum_bytes: 1, ..config() });
    fill(&mut fq, 1, 1);
    assert_eq!(flows(&mut fq, NOW), [1]);
    assert_eq!(fq.enqueue(Packet::new(2, 0), NOW).unwrap_err().reason, DropReason::Overlimit);
    let later = NOW + us(2000);
    fq.enqueue(Packet::new(2, 0), later).unwrap();
    assert_eq!(flows(&mut fq, later), [2]);
}

#[test]
fn departure_times() {
    let mut fq = Fq::new(config());
    for (number, after) in [(0, 30), (1, 10), (2, 10), (3, 50)] {
        fq.enqueue(Packet { departs: Some(NOW + us(after)), ..Packet::new(1, number) }, NOW).unwrap();
    }
    let mut left = Vec::new();
    for after in 0..60 {
        while let Dequeued::Packet(packet) = fq.dequeue(NOW + us(after)) {
            left.push((packet.number, after));
        }
    }
    assert_eq!(left, [(1, 10), (2, 10), (0, 30), (3, 50)], "a flow leaves by time, equals as they came");
}

#[test]
fn a_flow_that_waits_does_not_hold_up_others() {
    let mut fq = Fq::new(config());
    fq.enqueue(Packet { departs: Some(NOW + us(9)), ..Packet::new(1, 0) }, NOW).unwrap();
    fq.enqueue(Packet { departs: Some(NOW + us(5)), ..Packet::new(2, 0) }, NOW).unwrap();
    fill(&mut fq, 3, 1);
    assert_eq!(flows(&mut fq, NOW), [3]);
    assert_eq!(fq.dequeue(NOW), Dequeued::NotBefore(NOW + us(5)));
    assert_eq!(flows(&mut fq, NOW + us(5)), [2]);
    assert_eq!(fq.dequeue(NOW + us(5)), Dequeued::NotBefore(NOW + us(9)));
    assert_eq!(flows(&mut fq, NOW + us(9)), [1]);
}

#[test]
fn the_horizon() {
    let at = NOW + us(100);
    let beyond = Packet { departs: Some(at + Span::from_ns(1)), ..Packet::new(1, 0) };
    for horizon_drop in [true, false] {
        let mut fq = Fq::new(FqConfig { horizon: us(100), horizon_drop, ..config() });
        fq.enqueue(Packet { departs: Some(at), ..Packet::new(2, 0) }, NOW).unwrap();
        let queued = fq.enqueue(beyond, NOW).err().map(|dropped| dropped.reason);
        assert_eq!(queued, horizon_drop.then_some(DropReason::Horizon));
        assert_eq!(flows(&mut fq, at).len(), if horizon_drop { 1 } else { 2 });
    }
}

/// 1 MB/s, 1000 bytes: after its credit of two packets a flow leaves a quantum (2000 bytes) per 2 ms, in one packet: the
/// gap is computed with the quantum, and the next turn's credit is used up by two packets.
#[test]
fn rates_pace_flows_that_have_used_their_credit() {
    let mut fq = Fq::new(FqConfig { initial_quantum_bytes: 2000, ..config() });
    (0..6).for_each(|number| fq.enqueue(Packet { rate: 1_000_000, ..Packet::new(1, number) }, NOW).unwrap());
    let mut left = Vec::new();
    for after in (0..10_000).step_by(100) {
        while let Dequeued::Packet(packet) = fq.dequeue(NOW + us(after)) {
            left.push((packet.number, after));
        }
    }
    assert_eq!(left, [(0, 0), (1, 0), (2, 2000), (3, 2000), (4, 4000), (5, 4000)]);
}

/// Below the threshold each packet is paced by its own length.
#[test]
fn slow_flows_are_paced_packet_by_packet() {
    let mut fq = Fq::new(config());
    (0..4).for_each(|number| fq.enqueue(Packet { rate: 50_000, ..Packet::new(1, number) }, NOW).unwrap());
    let mut left = Vec::new();
    let mut now = NOW;
    loop {
        match fq.dequeue(now) {
            Dequeued::Packet(_) => left.push((now - NOW).ns / 1_000_000),
            Dequeued::NotBefore(at) => now = at,
            Dequeued::Empty => break,
        }
    }
    assert_eq!(left, [0, 20, 40, 60]);
    // And its turn is over after each: others go first when it may send again.
    let mut fq = Fq::new(config());
    (0..2).for_each(|number| fq.enqueue(Packet { rate: 50_000, ..Packet::new(1, number) }, NOW).unwrap());
    let _ = fq.dequeue(NOW);
    let at = fq.flows.find(1, NOW, 0).unwrap();
    assert_eq!(fq.flows.get(at).credit_bytes, 0);
}

/// A packet that left late shortens the next gap, by half of it at most.
#[test]
fn lateness_is_made_up_for() {
    let mut fq = Fq::new(config());
    (0..4).for_each(|number| fq.enqueue(Packet { rate: 50_000, ..Packet::new(1, number) }, NOW).unwrap());
    let ms = |ms| NOW + Span::from_ms(ms);
    for (now, next) in [(0, 20), (25, 40), (70, 80), (80, 0)] {
        assert!(matches!(fq.dequeue(ms(now)), Dequeued::Packet(_)));
        let expected = if next == 0 { Dequeued::Empty } else { Dequeued::NotBefore(ms(next)) };
        assert_eq!(fq.dequeue(ms(now)), expected);
    }
}

#[test]
fn without_pacing_rates_mean_nothing_and_times_do() {
    let mut fq = Fq::new(FqConfig { pacing: false, flow_max_rate: 1000, ..config() });
    fill(&mut fq, 1, 50);
    assert_eq!(flows(&mut fq, NOW).len(), 50);
    fq.enqueue(Packet { departs: Some(NOW + us(1)), ..Packet::new(1, 0) }, NOW).unwrap();
    assert_eq!(fq.dequeue(NOW), Dequeued::NotBefore(NOW + us(1)));
}

/// No rate makes a flow wait for longer than a second.
#[test]
fn a_gap_is_a_second_at_most() {
    for rate in [0, 1] {
        let mut fq = Fq::new(config());
        (0..2).for_each(|number| fq.enqueue(Packet { rate, ..Packet::new(1, number) }, NOW).unwrap());
        assert_eq!(flows(&mut fq, NOW), [1]);
        assert_eq!(fq.dequeue(NOW), Dequeued::NotBefore(NOW + Span::from_secs(1)));
    }
}

#[test]
fn idle_flows_are_forgotten_after_three_seconds() {
    let mut fq = Fq::new(config());
    for flow in 0..10 {
        fill(&mut fq, flow, 1);
    }
    assert_eq!(flows(&mut fq, NOW).len(), 10);
    let mut now = NOW;
    for flow in 10..100 {
        now += Span::from_secs(1);
        fq.enqueue(Packet::new(flow, 0), now).unwrap();
        assert_eq!(flows(&mut fq, now), [flow]);
    }
    assert!(fq.slots()[1] <= 13);
}

#[test]
fn a_reset_forgets_everything() {
    let mut fq = Fq::new(config());
    fill(&mut fq, 1, 3);
    fq.enqueue(Packet { departs: Some(NOW + us(1)), ..Packet::new(2, 0) }, NOW).unwrap();
    assert_eq!(flows(&mut fq, NOW), [1, 1, 1]);
    fill(&mut fq, 1, 1);
    let mut dropped = Vec::new();
    fq.reset(&mut |packet| dropped.push(packet.flow));
    dropped.sort_unstable();
    assert_eq!((dropped, fq.len()), (alloc::vec![1, 2], 0));
    assert_eq!(fq.dequeue(NOW), Dequeued::Empty);
    fill(&mut fq, 1, 1);
    assert_eq!(flows(&mut fq, NOW), [1]);
}

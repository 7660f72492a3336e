use alloc::vec::Vec;

use super::*;
use crate::tx::DropReason;
use crate::tx::tests::packet::Packet;

const NOW: Instant = Instant::from_ns(5);

fn drain(qdisc: &mut Qdisc<Packet>, now: Instant) -> Vec<u32> {
    core::iter::from_fn(|| match qdisc.dequeue(now) {
        Dequeued::Packet(packet) => Some(packet.number),
        Dequeued::NotBefore(_) | Dequeued::Empty => None,
    })
    .collect()
}

#[test]
fn a_fifo_keeps_the_order_up_to_its_limit() {
    let mut qdisc = Qdisc::Fifo(Fifo::new(3));
    for number in 0..5 {
        let queued = qdisc.enqueue(Packet::new(number, number), NOW, 0);
        match queued {
            Ok(()) => assert!(number < 3),
            Err(dropped) => assert_eq!((dropped.packet.number, dropped.reason), (number, DropReason::Overlimit)),
        }
    }
    assert_eq!(drain(&mut qdisc, NOW), [0, 1, 2]);
    assert!(qdisc.enqueue(Packet::new(0, 0), NOW, 3).is_err(), "what waits outside counts");
}

#[test]
fn the_bands_of_pfifo_fast() {
    let bands: Vec<usize> = (0..16).map(priority_band).collect();
    assert_eq!(bands, [1, 2, 2, 2, 1, 2, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1]);
    assert_eq!(priority_band(0xffff_fff6), 0);
}

#[test]
fn a_lower_band_goes_first_and_each_has_its_own_limit() {
    let mut qdisc = Qdisc::Prio(Prio::new(2));
    for (number, priority) in [2, 0, 6, 2, 0, 6, 2, 0, 6].into_iter().enumerate() {
        let packet = Packet { priority, ..Packet::new(0, number as u32) };
        assert_eq!(qdisc.enqueue(packet, NOW, 100).is_ok(), number < 6, "{number}");
    }
    assert_eq!(qdisc.len(), 6);
    assert_eq!(drain(&mut qdisc, NOW), [2, 5, 1, 4, 0, 3]);
}

#[test]
fn who_may_be_passed_by() {
    for (qdisc, name, bypass) in [
        (Qdisc::<Packet>::Noqueue, "noqueue", false),
        (Qdisc::Fifo(Fifo::new(1)), "pfifo", true),
        (Qdisc::Fifo(Fifo::new(0)), "pfifo", false),
        (Qdisc::Fq(Fq::new(FqConfig::default())), "fq", false),
        (Qdisc::Prio(Prio::new(1)), "pfifo_fast", true),
    ] {
        assert_eq!((qdisc.name(), qdisc.can_bypass()), (name, bypass));
        assert!(qdisc.is_empty());
    }
}

#[test]
#[should_panic(expected = "noqueue has no enqueue operation")]
fn nothing_waits_in_noqueue() {
    let _ = Qdisc::Noqueue.enqueue(Packet::new(0, 0), NOW, 0);
}

#[test]
fn each_says_whether_something_waits_and_lets_all_of_it_go() {
    let (mut fifo, mut prio, mut fq) = (Fifo::new(4), Prio::new(4), Fq::new(FqConfig::default()));
    assert!(fifo.is_empty() && prio.is_empty() && fq.is_empty());
    for number in 0..2 {
        let packet = Packet::new(0, number);
        assert!(fifo.enqueue(packet, 0).is_ok() && prio.enqueue(packet).is_ok() && fq.enqueue(packet, NOW).is_ok());
        assert!(!fifo.is_empty() && !prio.is_empty() && !fq.is_empty());
    }
    let mut gone = Vec::new();
    let mut drop = |packet: Packet| gone.push(packet.number);
    fifo.reset(&mut drop);
    prio.reset(&mut drop);
    fq.reset(&mut drop);
    assert!(fifo.is_empty() && prio.is_empty() && fq.is_empty());
    assert_eq!(gone, [0, 1, 0, 1, 0, 1]);
}

struct Plain;

impl TxPacket for Plain {
    fn len_bytes(&self) -> u32 {
        60
    }

    fn flow_hash(&self) -> u32 {
        1
    }

    fn priority(&self) -> u32 {
        0
    }

    fn earliest_departure(&self) -> Option<Instant> {
        None
    }
}

#[test]
fn a_packet_that_says_nothing_is_not_paced_and_goes_to_the_first_queue() {
    assert_eq!((Plain.pacing_rate(), Plain.tx_queue()), (RATE_UNLIMITED, 0));
}

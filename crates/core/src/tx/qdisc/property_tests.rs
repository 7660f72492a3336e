use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::time::Span;
use crate::tx::tests::packet::Packet;

const START: Instant = Instant::from_ns(1_000_000_000);

fn settings() -> ProptestConfig {
    let cases = if cfg!(miri) { 4 } else { 256 };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

#[derive(Clone, Debug)]
enum Op {
    Enqueue { flow: u32, bytes: u32, departs_in: Option<u64>, rate: u64 },
    Dequeue { most: u8 },
    Advance { us: u16 },
}

fn op() -> impl Strategy<Value = Op> {
    let rate = prop::sample::select(alloc::vec![RATE_UNLIMITED, 10_000_000, 100_000, 20_000]);
    let packet = (0u32..6, 60u32..1515, prop::option::of(0u64..500), rate);
    prop_oneof![
        4 => packet.prop_map(|(flow, bytes, departs_in, rate)| Op::Enqueue { flow, bytes, departs_in, rate }),
        2 => (1u8..6).prop_map(|most| Op::Dequeue { most }),
        1 => (1u16..300).prop_map(|us| Op::Advance { us }),
    ]
}

fn qdiscs() -> impl Strategy<Value = Qdisc<Packet>> {
    let fq = (any::<bool>(), any::<bool>(), 1u32..8).prop_map(|(horizon_drop, pacing, flows_max)| {
        Qdisc::Fq(Fq::new(FqConfig {
            limit_pkts: 30,
            flow_limit_pkts: 8,
            horizon: Span::from_us(300),
            horizon_drop,
            pacing,
            buckets: 2,
            flows_max: flows_max as usize,
            ..FqConfig::default()
        }))
    });
    prop_oneof![
        (0usize..20).prop_map(|limit| Qdisc::Fifo(Fifo::new(limit))),
        (0usize..10).prop_map(|limit| Qdisc::Prio(Prio::new(limit))),
        fq,
    ]
}

/// What must hold of a discipline, checked beside it.
struct Checker {
    qdisc: Qdisc<Packet>,
    now: Instant,
    /// Number of the next packet of each flow, and the last departure time asked for.
    next: BTreeMap<u32, (u32, Instant)>,
    last_sent: BTreeMap<u32, u32>,
    queued: u64,
    sent: u64,
    dropped: u64,
    /// When a packet may leave, as `fq` sees it.
    departs: BTreeMap<(u32, u32), Instant>,
}

impl Checker {
    fn new(qdisc: Qdisc<Packet>) -> Self {
        let (next, last_sent) = (BTreeMap::new(), BTreeMap::new());
        Self { qdisc, now: START, next, last_sent, queued: 0, sent: 0, dropped: 0, departs: BTreeMap::new() }
    }

    /// Departure times of a flow ascend, as senders ask for them; a flow has one priority.
    fn enqueue(&mut self, flow: u32, bytes: u32, departs_in: Option<u64>, rate: u64) {
        let (number, last) = self.next.entry(flow).or_insert((0, START));
        let departs = departs_in.map(|us| (self.now + Span::from_us(us)).max(*last));
        *last = departs.unwrap_or(self.now).max(*last);
        // A packet without departure time counts as asking for now.
        let departs = departs.or((*last > self.now).then_some(*last));
        let packet = Packet { bytes, priority: flow, departs, rate, ..Packet::new(flow, *number) };
        *number += 1;
        self.queued += 1;
        // Beyond the horizon it is capped, or dropped.
        let horizon = self.now + Span::from_us(300);
        let departs = departs.map_or(self.now, |at| at.min(horizon));
        if self.qdisc.name() == "fq" {
            self.departs.insert((flow, packet.number), departs);
        }
        if self.qdisc.enqueue(packet, self.now, 0).is_err() {
            self.dropped += 1;
        }
    }

    /// The time to come back, if there is one.
    fn dequeue(&mut self, most: u8) -> Option<Instant> {
        for _ in 0..most {
            match self.qdisc.dequeue(self.now) {
                Dequeued::Packet(packet) => {
                    let last = self.last_sent.insert(packet.flow, packet.number);
                    assert!(last < Some(packet.number), "the order of flow {} is kept", packet.flow);
                    let departs = self.departs.get(&(packet.flow, packet.number));
                    assert!(departs.is_none_or(|departs| *departs <= self.now), "sent early");
                    self.sent += 1;
                }
                Dequeued::NotBefore(at) => {
                    assert!(at > self.now && !self.qdisc.is_empty());
                    return Some(at);
                }
                Dequeued::Empty => {
                    assert!(self.qdisc.is_empty());
                    return None;
                }
            }
        }
        None
    }

    fn check(&self) {
        assert_eq!(self.queued, self.sent + self.dropped + self.qdisc.len() as u64, "a packet is lost or doubled");
    }
}

proptest! {
    #![proptest_config(settings())]

    /// Order per flow, conservation, and an end: whatever waits can be got out.
    #[test]
    fn nothing_is_lost_and_flows_keep_their_order(
        qdisc in qdiscs(),
        ops in prop::collection::vec(op(), 1..if cfg!(miri) { 30 } else { 300 }),
        reset in any::<bool>(),
    ) {
        let mut checker = Checker::new(qdisc);
        for op in ops {
            match op {
                Op::Enqueue { flow, bytes, departs_in, rate } => checker.enqueue(flow, bytes, departs_in, rate),
                Op::Dequeue { most } => drop(checker.dequeue(most)),
                Op::Advance { us } => checker.now += Span::from_us(us.into()),
            }
            checker.check();
        }
        if reset {
            let mut dropped = 0;
            checker.qdisc.reset(&mut |_| dropped += 1);
            checker.dropped += dropped;
        }
        let mut waits = 0;
        while !checker.qdisc.is_empty() {
            if let Some(at) = checker.dequeue(u8::MAX) {
                checker.now = at;
                waits += 1;
                prop_assert!(waits < 1000, "no packet waits for ever");
            }
            checker.check();
        }
        checker.check();
    }

    /// Two flows that always have packets never differ by more than a quantum and a packet each.
    #[test]
    fn fq_is_fair_within_a_quantum(
        sizes in prop::collection::vec((60u32..1515, 60u32..1515, 60u32..1515), 50..100),
        quantum_bytes in 300u32..5000,
    ) {
        let config = FqConfig { quantum_bytes, initial_quantum_bytes: quantum_bytes, ..FqConfig::default() };
        let mut fq = Fq::new(config);
        for (number, (a, b, c)) in sizes.iter().enumerate() {
            for (flow, bytes) in [a, b, c].into_iter().enumerate() {
                fq.enqueue(Packet { bytes: *bytes, ..Packet::new(flow as u32, number as u32) }, START).unwrap();
            }
        }
        let mut sent = [0u64; 3];
        let mut left = [sizes.len(); 3];
        while left.iter().all(|left| *left > 0) {
            let Dequeued::Packet(packet) = fq.dequeue(START) else { panic!("packets wait") };
            sent[packet.flow as usize] += u64::from(packet.bytes);
            left[packet.flow as usize] -= 1;
            let (most, least) = (sent.iter().max().unwrap(), sent.iter().min().unwrap());
            prop_assert!(most - least <= 2 * u64::from(quantum_bytes) + 2 * 1514, "{sent:?}");
        }
    }

    /// A paced flow sends no more than its rate times the time, plus what it may send at once; and never twice as fast
    /// from one packet to the next.
    #[test]
    fn pacing_never_sends_early(
        rate in 1_000u64..100_000_000,
        sizes in prop::collection::vec(60u32..1515, 2..60),
        late_us in prop::collection::vec(0u64..2000, 60),
    ) {
        let config = FqConfig { flow_max_rate: rate, low_rate_threshold: u64::MAX - 1, ..FqConfig::default() };
        let mut fq = Fq::new(config);
        for (number, bytes) in sizes.iter().enumerate() {
            fq.enqueue(Packet { bytes: *bytes, ..Packet::new(1, number as u32) }, START).unwrap();
        }
        let mut now = START;
        let mut late = late_us.into_iter();
        let mut before: Option<(Instant, u64)> = None;
        let mut due = START;
        loop {
            match fq.dequeue(now) {
                Dequeued::Empty => break,
                Dequeued::NotBefore(at) => now = at + Span::from_us(late.next().unwrap_or(0)),
                Dequeued::Packet(packet) => {
                    prop_assert!(now >= due, "ahead of the schedule");
                    let gap_ns = (u64::from(packet.bytes) * 1_000_000_000 / rate).min(1_000_000_000);
                    if let Some((at, gap_ns)) = before {
                        prop_assert!((now - at).ns >= gap_ns / 2);
                    }
                    before = Some((now, gap_ns));
                    due += Span::from_ns(gap_ns);
                }
            }
        }
    }

    /// Memory is kept: once as much has waited as ever will, nothing grows.
    #[test]
    fn no_allocation_in_steady_state(ops in prop::collection::vec(op(), 1..100)) {
        let mut fq = Fq::new(FqConfig { limit_pkts: 20, flows_max: 6, ..FqConfig::default() });
        for flow in 0..6 {
            (0..20).for_each(|number| drop(fq.enqueue(Packet::new(flow, number), START)));
        }
        let mut now = START;
        let before = fq.slots();
        for op in ops {
            match op {
                Op::Enqueue { flow, bytes, rate, .. } => {
                    drop(fq.enqueue(Packet { bytes, rate, ..Packet::new(flow, 0) }, now));
                }
                Op::Dequeue { most } => (0..most).for_each(|_| drop(fq.dequeue(now))),
                Op::Advance { us } => now += Span::from_us(us.into()),
            }
        }
        let grown: Vec<_> = fq.slots().into_iter().zip(before).filter(|(now, before)| now > before).collect();
        prop_assert!(grown.len() <= 1, "packets and flows have their slots: {grown:?}");
        prop_assert_eq!(fq.slots()[0], before[0]);
    }
}

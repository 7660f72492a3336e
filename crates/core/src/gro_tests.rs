use alloc::vec;

use super::*;

/// A packet of `flow`; merged ones remember how many went in, and the number of the first.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
struct Packet {
    number: u32,
    flow: u32,
    hash: u32,
    mergeable: bool,
    push: bool,
    segments: u32,
    segments_max: u32,
}

impl GroPacket for Packet {
    type Memory = ();

    fn flow_hash(&self) -> u32 {
        self.hash
    }

    fn mergeable(&self) -> bool {
        self.mergeable
    }

    fn may_be_held(&self) -> bool {
        !self.push
    }

    fn same_flow(&self, held: &Self) -> bool {
        self.flow == held.flow
    }

    fn merge(&mut self, next: Self, (): &()) -> Merged<Self> {
        if self.segments + next.segments > self.segments_max {
            return Merged::Separate(next);
        }
        self.segments += next.segments;
        if next.push || self.segments == self.segments_max { Merged::Complete } else { Merged::Held }
    }

    fn segments(&self) -> u32 {
        self.segments
    }
}

const BATCH: u32 = GRO_NORMAL_BATCH;
const NO_BATCH: u32 = u32::MAX;

/// A mergeable packet; flows come to the bucket of their number.
fn of(flow: u32, number: u32) -> Packet {
    Packet { number, flow, hash: flow, mergeable: true, push: false, segments: 1, segments_max: 64 }
}

fn plain(number: u32) -> Packet {
    Packet { mergeable: false, ..of(0, number) }
}

/// A node with a record of what went up, by lists.
#[derive(Default)]
struct Node {
    gro: Gro<Packet>,
    up: Vec<Vec<Packet>>,
}

impl Node {
    fn receive(&mut self, packet: Packet, now: u64, batch: u32) {
        self.gro.receive(packet, &(), now, batch, &mut |list| self.up.push(list.collect()));
        self.check();
    }

    fn flush(&mut self, which: Flush, now: u64) {
        self.gro.flush(which, now, BATCH, &mut |list| self.up.push(list.collect()));
        self.check();
    }

    fn deliver(&mut self) {
        self.gro.deliver(&mut |list| self.up.push(list.collect()));
        assert!(self.gro.pending().is_empty());
        self.check();
    }

    fn check(&self) {
        assert_eq!(self.gro.held(), self.gro.iter_held().next().is_some());
        for (index, bucket) in self.gro.buckets.iter().enumerate() {
            assert!(bucket.len() <= BUCKET_PKTS_MAX);
            assert_eq!(self.gro.occupied >> index & 1 == 1, !bucket.is_empty());
            assert!(bucket.is_sorted_by_key(|held| held.since), "oldest first");
        }
        assert_eq!(self.gro.pending_segments, self.gro.pending.iter().map(|packet| packet.segments).sum::<u32>());
    }

    fn lists(&self) -> Vec<usize> {
        self.up.iter().map(Vec::len).collect()
    }

    fn numbers(&self) -> Vec<u32> {
        self.up.iter().flatten().map(|packet| packet.number).collect()
    }

    fn held(&self) -> Vec<u32> {
        self.gro.iter_held().map(|packet| packet.number).collect()
    }
}

/// Scenario 86: lists of 8 and 8 inside the poll, and 4 at the completion.
#[test]
fn packets_that_are_not_merged_go_up_by_batches() {
    let mut node = Node::default();
    for number in 0..20 {
        node.receive(plain(number), 5, BATCH);
    }
    assert_eq!(node.lists(), [8, 8]);
    node.flush(Flush::All, 5);
    node.deliver();
    assert_eq!(node.lists(), [8, 8, 4]);
    assert_eq!(node.numbers(), (0..20).collect::<Vec<_>>());
    node.deliver();
    assert_eq!(node.up.len(), 3, "an empty list does not go up");
}

/// Scenario 87: the oldest of the bucket is complete when a ninth flow comes.
#[test]
fn a_ninth_flow_in_a_bucket_ends_the_oldest() {
    let mut node = Node::default();
    for flow in 0..8 {
        node.receive(Packet { hash: 8 * flow + 3, ..of(flow, flow) }, u64::from(flow), BATCH);
    }
    // Another packet of the oldest flow makes it no younger.
    node.receive(Packet { hash: 3, ..of(0, 100) }, 8, BATCH);
    node.receive(of(4, 50), 8, BATCH);
    assert!(node.gro.pending().is_empty(), "another bucket has room");
    node.receive(Packet { hash: 8 * 8 + 3, ..of(8, 8) }, 8, BATCH);
    assert_eq!(node.gro.pending(), [Packet { hash: 3, segments: 2, ..of(0, 0) }]);
    assert_eq!(node.held(), [1, 2, 3, 4, 5, 6, 7, 8, 50]);
    assert!(node.up.is_empty(), "two segments are no batch");
}

/// Scenario 88: held in jiffy 7; (flush, jiffy of the completion) -> kept.
#[test]
fn which_packets_a_flush_completes() {
    for (which, now, kept) in [
        (Flush::OldOnly, 7, true),
        (Flush::OldOnly, 8, false),
        (Flush::OldOnly, 0, false), // the jiffies have wrapped
        (Flush::All, 7, false),
        (Flush::All, 8, false),
    ] {
        let mut node = Node::default();
        node.receive(of(1, 1), 7, BATCH);
        node.flush(which, now);
        assert_eq!(node.gro.held(), kept, "{which:?} at {now}");
        assert_eq!(node.gro.pending().len(), usize::from(!kept), "{which:?} at {now}");
    }
}

/// In each bucket the flush of old packets stops at the first young one.
#[test]
fn a_flush_of_old_packets_goes_bucket_by_bucket_from_the_oldest() {
    let mut node = Node::default();
    for (number, (flow, jiffy)) in (0..).zip([(2, 4), (10, 4), (1, 5), (18, 5), (9, 6), (26, 6)]) {
        node.receive(of(flow, number), jiffy, BATCH);
    }
    node.flush(Flush::OldOnly, 6);
    node.deliver();
    assert_eq!(node.numbers(), [2, 0, 1, 3]);
    assert_eq!(node.held(), [4, 5]);
    // Merging does not renew the stamp.
    node.receive(of(9, 6), 7, BATCH);
    node.flush(Flush::OldOnly, 7);
    node.deliver();
    assert_eq!(node.up[1], [Packet { segments: 2, ..of(9, 4) }, of(26, 5)]);
    assert!(!node.gro.held());
}

/// (first packet, second packet) -> (segments held, segments of each packet that went up).
#[test]
fn what_comes_of_a_merge() {
    let first = Packet { segments_max: 3, ..of(1, 0) };
    let full = Packet { segments: 3, ..first };
    let push = Packet { push: true, ..of(1, 1) };
    let rows: [(Packet, Packet, &[u32], &[u32]); 8] = [
        (first, of(1, 1), &[2], &[]),
        (first, push, &[], &[2]),
        (full, push, &[], &[3, 1]),
        (first, Packet { flow: 9, ..push }, &[1], &[1]),
        (first, Packet { segments: 2, ..of(1, 1) }, &[], &[3]),
        (full, of(1, 1), &[1], &[3]),
        (first, of(9, 1), &[1, 1], &[]),
        (first, Packet { mergeable: false, ..of(1, 1) }, &[1], &[1]),
    ];
    for (first, second, held, up) in rows {
        let mut node = Node::default();
        node.receive(first, 0, NO_BATCH);
        node.receive(second, 1, NO_BATCH);
        let segments = |packets: &mut dyn Iterator<Item = &Packet>| packets.map(|p| p.segments).collect::<Vec<_>>();
        assert_eq!(segments(&mut node.gro.iter_held()), held, "{second:?}");
        assert_eq!(segments(&mut node.gro.pending().iter()), up, "{second:?}");
    }
}

/// A packet that did not fit begins anew, with the stamp of its own arrival.
#[test]
fn a_packet_that_does_not_fit_is_stamped_anew() {
    let mut node = Node::default();
    node.receive(Packet { segments_max: 1, ..of(1, 0) }, 3, BATCH);
    node.receive(of(1, 1), 4, BATCH);
    node.flush(Flush::OldOnly, 4);
    assert_eq!(node.held(), [1]);
    assert_eq!(node.gro.pending().len(), 1);
}

/// The pending list counts segments, not packets, and the whole list goes up.
#[test]
fn the_batch_counts_segments() {
    let mut node = Node::default();
    node.receive(plain(0), 0, BATCH);
    node.receive(Packet { segments: 6, ..plain(1) }, 0, BATCH);
    assert!(node.up.is_empty(), "seven segments");
    node.receive(plain(2), 0, BATCH);
    assert_eq!(node.lists(), [3]);
    node.receive(Packet { segments: 20, ..plain(3) }, 0, BATCH);
    assert_eq!(node.lists(), [3, 1]);
    node.receive(plain(4), 0, 1);
    assert_eq!(node.lists(), [3, 1, 1], "a batch of one: at once");
}

/// A flush may fill a batch as well; what is left waits for `deliver`.
#[test]
fn a_flush_hands_up_full_batches() {
    let mut node = Node::default();
    for flow in 0..10 {
        node.receive(of(flow, flow), 0, BATCH);
    }
    node.flush(Flush::All, 0);
    assert_eq!(node.lists(), [8]);
    node.deliver();
    assert_eq!(node.numbers(), [0, 8, 1, 9, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn a_deleted_instance_drops_everything() {
    let mut node = Node::default();
    node.receive(Packet { segments: 3, ..of(1, 0) }, 0, BATCH);
    node.receive(plain(1), 0, BATCH);
    assert_eq!(node.gro.drop_all(), 4);
    assert_eq!(node.gro.drop_all(), 0);
    assert!(!node.gro.held() && node.gro.pending().is_empty());
    node.check();
    node.deliver();
    assert!(node.up.is_empty());
}

/// Whatever comes: nothing is lost or doubled, order within a flow holds, and after the first rounds the memory stays
/// where it is.
#[test]
fn nothing_is_lost_and_flows_keep_their_order() {
    let mut random = 1_u64;
    let mut draw = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let mut node = Node::default();
    let (mut received, mut warm) = (vec![0_u32; 100], None);
    let mut jiffy = 0;
    for round in 0..4000_u64 {
        for _ in 0..draw(20) {
            let flow = draw(100) as u32;
            received[flow as usize] += 1;
            let packet = Packet { push: draw(5) == 0, segments_max: 4, ..of(flow, received[flow as usize]) };
            node.receive(packet, jiffy, BATCH);
        }
        jiffy += draw(2);
        node.flush(if draw(2) == 0 { Flush::All } else { Flush::OldOnly }, jiffy);
        node.deliver();
        let memory = node.gro.buckets.each_ref().map(Vec::capacity);
        assert!(memory.iter().all(|room| *room <= BUCKET_PKTS_MAX));
        if round == 2000 {
            warm = Some((memory, node.gro.pending.capacity()));
        } else if let Some(warm) = warm {
            assert_eq!((memory, node.gro.pending.capacity()), warm, "round {round}");
        }
    }
    node.flush(Flush::All, jiffy);
    node.deliver();
    let mut seen = vec![0; 100];
    for packet in node.up.iter().flatten() {
        assert_eq!(packet.number, seen[packet.flow as usize] + 1, "flow {}", packet.flow);
        seen[packet.flow as usize] += packet.segments;
    }
    assert_eq!(seen, received);
}

/// A packet that says no more than it must is held.
#[test]
fn packets_may_be_held_unless_they_say_no() {
    struct Plain;
    impl GroPacket for Plain {
        type Memory = ();

        fn flow_hash(&self) -> u32 {
            0
        }
        fn mergeable(&self) -> bool {
            true
        }
        fn same_flow(&self, _held: &Self) -> bool {
            false
        }
        fn merge(&mut self, next: Self, (): &()) -> Merged<Self> {
            Merged::Separate(next)
        }
        fn segments(&self) -> u32 {
            1
        }
    }
    let mut gro = Gro::default();
    gro.receive(Plain, &(), 0, BATCH, &mut |_| panic!("it is held"));
    assert!(gro.held());
}

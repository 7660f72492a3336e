use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::time::Span;

/// Near the end of the numbers.
const START: Seq = Seq(u32::MAX - 4);

fn at(ns: u64) -> Instant {
    Instant::from_ns(ns)
}

fn block(start: u32, end: u32) -> SackBlock {
    SackBlock { start: START + start, end: START + end }
}

/// Segments of two bytes each, sent a nanosecond after each other.
fn queue(segments: u32) -> SentQueue {
    let mut queue = SentQueue::default();
    for place in 0..segments {
        queue.push(START + place * 2, START + place * 2 + 2, at(place.into()));
    }
    queue
}

/// The sums against the entries.
fn check(queue: &SentQueue) {
    let sum = |of: fn(&Sent) -> bool| queue.iter().filter(|entry| of(entry)).map(Sent::bytes).sum::<u32>();
    assert_eq!(queue.pipe(), sum(|entry| !entry.fate.there && !entry.fate.lost), "{queue:?}");
    assert_eq!(queue.there(), sum(|entry| entry.fate.there));
    assert_eq!(queue.lost(), sum(|entry| entry.fate.lost));
    assert!(queue.iter().all(|entry| !(entry.fate.lost && (entry.fate.there || entry.fate.again))));
    let all: Vec<&Sent> = queue.iter().collect();
    assert!(all.windows(2).all(|two| two[0].end == two[1].start));
    let lost = queue.clone().first_lost().map(|entry| entry.start);
    assert_eq!(lost, all.iter().find(|entry| entry.fate.lost).map(|entry| entry.start));
}

#[test]
fn a_block_that_grows_tells_what_is_new() {
    let mut queue = queue(5);
    let mut told = |blocks: &[SackBlock]| {
        let mut seen = Vec::new();
        queue.tell(blocks, |entry| seen.push((entry.start - START) / 2));
        check(&queue);
        seen
    };
    assert_eq!(told(&[block(2, 4)]), [1]);
    assert_eq!(told(&[block(2, 4)]), []);
    // Half of the third.
    assert_eq!(told(&[block(2, 5)]), []);
    assert_eq!(told(&[block(2, 6)]), [2]);
    assert_eq!(told(&[block(8, 10), block(2, 6)]), [4]);
    assert_eq!(told(&[block(2, 10)]), [3]);
    assert_eq!(queue.there(), 8);
    assert_eq!(queue.pipe(), 2);
}

#[test]
fn what_the_peer_threw_away_is_under_way_again() {
    let mut queue = queue(3);
    queue.tell(&[block(2, 6)], |_| {});
    queue.forget_told();
    check(&queue);
    assert_eq!(queue.pipe(), 6);
    // And it may have it once more.
    queue.tell(&[block(2, 6)], |_| {});
    assert_eq!(queue.there(), 4);
}

#[test]
fn a_long_segment_is_sent_again_as_two() {
    let mut queue = SentQueue::default();
    queue.push(START, START + 10, at(0));
    queue.judge(|_| Some(true));
    queue.send_again(START, START + 4, at(1));
    check(&queue);
    assert_eq!((queue.len(), queue.pipe(), queue.lost()), (2, 4, 6));
    assert_eq!(queue.first_lost().map(|entry| entry.start), Some(START + 4));
    queue.send_again(START + 4, START + 10, at(2));
    check(&queue);
    assert_eq!((queue.pipe(), queue.lost()), (10, 0));
    let fates: Vec<_> = queue.iter().map(|entry| (entry.fate.again, entry.at.ns)).collect();
    assert_eq!(fates, [(true, 1), (true, 2)]);
}

#[test]
fn a_look_ends_where_it_wants_to() {
    let mut queue = queue(4);
    queue.judge(|entry| (entry.at < at(2)).then_some(entry.at == at(1)));
    check(&queue);
    assert_eq!(queue.first_lost().map(|entry| entry.start), Some(START + 2));
    queue.forget_lost();
    check(&queue);
    assert_eq!(queue.pipe(), 8);
}

/// Every story of so many steps with four segments: the sums are right after each.
#[test]
fn every_story() {
    let blocks = [block(0, 2), block(2, 6), block(4, 8), block(3, 5), block(6, 8), block(0, 8)];
    let mut worlds = vec![(queue(4), 0_u32)];
    let mut seen = alloc::collections::BTreeSet::new();
    for step in 0..4_u64 {
        let mut next_worlds = Vec::new();
        for (world, first) in &worlds {
            let mut add = |queue: SentQueue, first: u32| {
                check(&queue);
                if seen.insert(alloc::format!("{queue:?}")) {
                    next_worlds.push((queue, first));
                }
            };
            for next in first + 1..=8 {
                let mut queue = world.clone();
                let mut gone = 0;
                queue.acknowledge(START + next, |part| gone += part.bytes());
                assert_eq!(gone, next - first);
                add(queue, next);
            }
            for told in blocks.iter().filter(|block| block.start - START >= *first) {
                let mut queue = world.clone();
                queue.tell(&[*told], |_| {});
                add(queue, *first);
            }
            for lost_before in 1..4 {
                let mut queue = world.clone();
                queue.judge(|entry| (entry.at < at(lost_before)).then_some(true));
                add(queue, *first);
            }
            for short in [1, 2] {
                let mut queue = world.clone();
                if let Some(lost) = queue.first_lost() {
                    let end = lost.end.earlier(lost.start + short);
                    queue.send_again(lost.start, end, at(0) + Span::from_ns(10 + step));
                }
                add(queue, *first);
            }
            for forget in [SentQueue::forget_told, SentQueue::forget_lost] {
                let mut queue = world.clone();
                forget(&mut queue);
                add(queue, *first);
            }
        }
        worlds = next_worlds;
    }
}

#[test]
fn a_loss_is_found_after_any_number_of_bytes_without_one() {
    const BYTES: u32 = 1 << 22;
    let mut queue = SentQueue::default();
    for place in 0..2100_u32 {
        let start = START + place.wrapping_mul(BYTES);
        queue.push(start, start + BYTES, at(0));
        if place < 8 {
            continue;
        }
        let first = start - 7 * BYTES;
        queue.acknowledge(first, |_| {});
        let mut loses = queue.clone();
        loses.judge(|entry| Some(entry.start == first));
        assert_eq!(loses.first_lost().map(|entry| entry.start), Some(first), "{place}");
        check(&loses);
    }
}

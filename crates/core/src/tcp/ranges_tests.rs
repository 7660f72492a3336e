use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

use super::*;

/// Near the end of the numbers.
const START: Seq = Seq(u32::MAX - 3);

fn block(start: u32, end: u32) -> SackBlock {
    SackBlock { start: START + start, end: START + end }
}

fn told(ranges: &mut Ranges) -> Vec<(u32, u32)> {
    ranges.tell().map(|block| (block.start - START, block.end - START)).collect()
}

#[test]
fn the_most_recent_comes_first() {
    let mut ranges = Ranges::default();
    for at in [2, 4, 6, 8, 10] {
        assert!(ranges.insert(block(at, at + 1)));
    }
    assert_eq!(told(&mut ranges), [(10, 11), (8, 9), (6, 7), (4, 5)]);
    // RFC 2018 section 4: the block that the segment is in, grown.
    assert!(ranges.insert(block(5, 6)));
    assert_eq!(told(&mut ranges), [(4, 7), (10, 11), (8, 9)]);
    assert_eq!(ranges.advance(START + 1), START + 1);
    assert_eq!(ranges.advance(START + 2), START + 3);
    assert_eq!(told(&mut ranges), [(4, 7), (10, 11), (8, 9)]);
    assert_eq!(ranges.advance(START + 4), START + 7);
    assert_eq!(told(&mut ranges), [(10, 11), (8, 9)]);
    assert_eq!(ranges.advance(START + 20), START + 20);
    assert!(ranges.is_silent());
}

#[test]
fn what_came_twice_is_told_once_and_first() {
    let mut ranges = Ranges::default();
    assert!(ranges.insert(block(4, 8)));
    // RFC 2883 section 4.1: out of order already.
    assert!(ranges.insert(block(5, 7)));
    assert_eq!(told(&mut ranges), [(5, 7), (4, 8)]);
    assert_eq!(told(&mut ranges), [(4, 8)]);
    // In order already.
    ranges.came_twice(block(0, 2));
    assert!(!ranges.is_silent());
    assert_eq!(told(&mut ranges), [(0, 2), (4, 8)]);
    ranges.came_twice(block(2, 2));
    assert_eq!(told(&mut ranges), [(4, 8)]);
}

#[test]
fn there_is_room_for_so_many() {
    let mut ranges = Ranges::default();
    for at in 0..RANGES_MAX as u32 {
        assert!(ranges.insert(block(2 + at * 2, 3 + at * 2)));
    }
    let beyond = 2 + RANGES_MAX as u32 * 2;
    assert!(!ranges.insert(block(beyond, beyond + 1)), "a new one");
    assert!(ranges.insert(block(3, 4)), "one that joins two");
    assert!(ranges.insert(block(beyond, beyond + 1)), "there is room again");
    assert_eq!(ranges.end(), Some(START + beyond + 1));
}

/// All stories of four segments within eight bytes, against a set of numbers.
#[test]
fn every_order_of_segments() {
    const BYTES: u32 = 8;
    let segments: Vec<(u32, u32)> =
        (0..BYTES).flat_map(|start| (start + 1..=BYTES).map(move |end| (start, end))).collect();
    let mut worlds = vec![(Ranges::default(), BTreeSet::<u32>::new(), 0_u32)];
    for _ in 0..3 {
        let mut next_worlds = Vec::new();
        for (ranges, bytes, next) in &worlds {
            for (start, end) in &segments {
                let (mut ranges, mut bytes, mut next) = (ranges.clone(), bytes.clone(), *next);
                bytes.extend(*start..*end);
                if *end <= next {
                    ranges.came_twice(block(*start, *end));
                } else if *start <= next {
                    next = ranges.advance(START + *end) - START;
                } else {
                    assert!(ranges.insert(block(*start, *end)));
                }
                let expected = (0..).find(|byte| !bytes.contains(byte)).expect("there is an end");
                assert_eq!(next, expected, "in order");
                let kept: BTreeSet<u32> =
                    ranges.iter().flat_map(|block| block.start - START..block.end - START).chain(0..next).collect();
                assert_eq!(kept, bytes);
                let all: Vec<SackBlock> = ranges.iter().collect();
                assert!(all.windows(2).all(|two| two[0].end.is_before(two[1].start)), "holes between: {all:?}");
                assert!(all.iter().all(|block| block.start.is_after(START + next)));
                let blocks: Vec<SackBlock> = ranges.clone().tell().collect();
                let twice = usize::from(ranges.twice.is_some());
                assert!(blocks[twice..].iter().all(|told| all.contains(told)), "{blocks:?} of {all:?}");
                assert_eq!(blocks.len() - twice, all.len().min(BLOCKS_MAX), "all are told");
                next_worlds.push((ranges, bytes, next));
            }
        }
        worlds = next_worlds;
    }
}

#[test]
fn blocks_have_a_length_and_lie_in_others() {
    let block = |start: u32, end: u32| SackBlock { start: Seq(u32::MAX - 4) + start, end: Seq(u32::MAX - 4) + end };
    assert_eq!(block(2, 9).bytes(), 7);
    let rows = [
        ((2, 9), true),
        ((1, 9), true),
        ((2, 10), true),
        ((0, 99), true),
        ((3, 9), false),
        ((2, 8), false),
        ((3, 8), false),
    ];
    for ((start, end), is_in) in rows {
        assert_eq!(block(2, 9).is_in(&block(start, end)), is_in, "{start} {end}");
    }
}

#[test]
fn what_is_out_of_order_or_came_twice_is_to_be_told() {
    let block = SackBlock { start: Seq(7), end: Seq(9) };
    let mut ranges = Ranges::default();
    assert!(ranges.is_empty() && ranges.is_silent());
    ranges.came_twice(block);
    assert!(ranges.is_empty() && !ranges.is_silent());
    let mut ranges = Ranges::default();
    assert!(ranges.insert(block));
    assert!(!ranges.is_empty() && !ranges.is_silent());
}

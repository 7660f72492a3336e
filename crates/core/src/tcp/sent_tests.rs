use alloc::vec;
use alloc::vec::Vec;

use napier_testkit::Dice;

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
    let lost: Vec<Seq> = all.iter().filter(|entry| entry.fate.lost).map(|entry| entry.start).collect();
    assert_eq!(queue.first_lost().map(|entry| entry.start), lost.first().copied());
    assert_eq!(queue.entries.line(true), lost);
    let mut under_way: Vec<&Sent> = all.iter().copied().filter(|entry| entry.under_way() > 0).collect();
    under_way.sort_by(|a, b| match () {
        () if is_sent_after((a.at, a.end), (b.at, b.end)) => core::cmp::Ordering::Greater,
        () => core::cmp::Ordering::Less,
    });
    assert_eq!(queue.entries.line(false), under_way.iter().map(|entry| entry.start).collect::<Vec<_>>());
    let mut runs = Runs::default();
    for there in all.iter().filter(|entry| entry.fate.there) {
        runs.join(SackBlock { start: there.start, end: there.end });
    }
    assert_eq!(queue.told, runs);
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
    queue.lose_each(|_| true);
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
fn a_look_goes_by_when_segments_were_sent() {
    let mut queue = queue(4);
    queue.lose_first();
    queue.send_again(START, START + 2, at(9));
    check(&queue);
    let mut seen = Vec::new();
    queue.lose_oldest(|entry| {
        seen.push(entry.at.ns);
        entry.at < at(3)
    });
    check(&queue);
    assert_eq!(seen, [1, 2, 3], "what was sent again is younger");
    assert_eq!(queue.first_lost().map(|entry| entry.start), Some(START + 2));
    queue.lose_oldest(|_| true);
    assert_eq!((queue.pipe(), queue.first_lost().map(|entry| entry.start)), (0, Some(START)));
    queue.forget_lost();
    check(&queue);
    assert_eq!(queue.pipe(), 8);
}

#[test]
fn what_is_longer_than_the_path_takes_is_lost_and_cut() {
    let mut queue = SentQueue::default();
    for (start, end) in [(0, 10), (10, 14), (14, 24), (24, 29), (29, 30)] {
        queue.push(START + start, START + end, at(start.into()));
    }
    queue.tell(&[block(14, 24)], |_| {});
    // The last but one has four bytes and a FIN would be behind it: the last is one.
    assert!(queue.cut(4, START + 29));
    check(&queue);
    let lens: Vec<_> = queue.iter().map(|entry| (entry.bytes(), entry.fate.lost)).collect();
    assert_eq!(lens, [(4, true), (4, true), (2, true), (4, false), (10, false), (4, true), (1, true), (1, false)]);
    assert!(!queue.cut(4, START + 29), "nothing is longer now");
    let mut with_fin = SentQueue::default();
    with_fin.push(START, START + 5, at(0));
    assert!(!with_fin.cut(4, START + 4), "a FIN needs no room");
}

/// What was told of before the numbers began anew says nothing of what has them now.
#[test]
fn what_was_told_is_forgotten_with_the_numbers() {
    const BYTES: u32 = 1 << 20;
    let mut queue = SentQueue::default();
    let mut next = START;
    for turn in 0..4096_u32 {
        for _ in 0..2 {
            queue.push(next, next + BYTES, at(0));
            next += BYTES;
        }
        if turn % 4096 == 0 {
            queue.tell(&[SackBlock { start: START + BYTES, end: START + 2 * BYTES }], |_| {});
        }
        queue.acknowledge(next, |_| {});
        check(&queue);
    }
    // All numbers were used twice.
    assert_eq!(next, START);
    queue.push(START, START + BYTES, at(1));
    queue.push(START + BYTES, START + 2 * BYTES, at(1));
    let mut count = 0;
    queue.tell(&[SackBlock { start: START + BYTES, end: START + 2 * BYTES }], |_| count += 1);
    assert_eq!((count, queue.there()), (1, BYTES));
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
            let mut add = |mut queue: SentQueue, first: u32| {
                check(&queue);
                queue.entries.looks = 0;
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
                queue.lose_oldest(|entry| entry.at < at(lost_before));
                add(queue, *first);
            }
            for short in [1, 2] {
                let mut queue = world.clone();
                if let Some(lost) = queue.first_lost().copied() {
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
        loses.lose_first();
        assert_eq!(loses.first_lost().map(|entry| entry.start), Some(first), "{place}");
        check(&loses);
    }
}

/// The same rules, said plainly: each looks at all entries.
#[derive(Default)]
struct Plain(Vec<Sent>);

impl Plain {
    fn tell(&mut self, block: SackBlock) {
        for entry in &mut self.0 {
            if !entry.start.is_before(block.start) && !entry.end.is_after(block.end) && !entry.fate.there {
                entry.fate = Fate { there: true, lost: false, again: false, ..entry.fate };
            }
        }
    }

    fn lose(&mut self, is_lost: impl Fn(&Sent) -> bool) {
        for entry in self.0.iter_mut().filter(|entry| !entry.fate.there && !entry.fate.lost && is_lost(entry)) {
            (entry.fate.lost, entry.fate.again) = (true, false);
        }
    }

    fn send_again(&mut self, start: Seq, end: Seq, now: Instant) {
        let Some(place) = self.0.iter().position(|entry| entry.start == start) else { return };
        let whole = self.0[place];
        self.0[place] =
            Sent { at: now, end, fate: Fate { lost: false, again: true, ever_again: true, ..whole.fate }, ..whole };
        if end != whole.end {
            self.0.insert(place + 1, Sent { start: end, ..whole });
        }
    }
}

/// Random stories of 60 segments and fewer, across the end of the numbers, beside the plain rules.
#[test]
fn it_is_as_the_plain_rules_say() {
    for seed in 0..60 {
        let mut dice = Dice(seed);
        let (mut queue, mut plain) = (SentQueue::default(), Plain::default());
        let (mut next, mut una) = (Seq(u32::MAX - 300), Seq(u32::MAX - 300));
        for step in 0..400_u64 {
            let now = at(step / 3);
            match below(&mut dice, 8) {
                0..3 if queue.len() < 60 => {
                    let end = next + 1 + below(&mut dice, 5);
                    queue.push(next, end, now);
                    plain.0.push(Sent { at: now, start: next, end, fate: Fate::default() });
                    next = end;
                }
                3 if next != una => {
                    let start = una + below(&mut dice, next - una);
                    let block = SackBlock { start, end: start + 1 + below(&mut dice, next - start) };
                    queue.tell(&[block], |_| {});
                    plain.tell(block);
                }
                4 => {
                    let before = at((step / 3).saturating_sub(u64::from(below(&mut dice, 20))));
                    queue.lose_oldest(|entry| entry.at < before);
                    plain.lose(|entry| entry.at < before);
                }
                5 | 6 => {
                    if let Some(lost) = queue.first_lost().copied() {
                        let end = lost.end.earlier(lost.start + 1 + below(&mut dice, 4));
                        queue.send_again(lost.start, end, now);
                        plain.send_again(lost.start, end, now);
                    }
                }
                _ if next != una => {
                    una += below(&mut dice, (next - una).min(12) + 1);
                    queue.acknowledge(una, |_| {});
                    plain.0.retain(|entry| entry.end.is_after(una));
                    if let Some(first) = plain.0.first_mut() {
                        first.start = first.start.later(una);
                    }
                }
                _ => {}
            }
            check(&queue);
            assert!(queue.iter().eq(plain.0.iter()), "seed {seed} step {step}: {queue:?}");
        }
    }
}

fn below(dice: &mut Dice, faces: u32) -> u32 {
    dice.roll(faces.into()) as u32
}

/// Ten thousand segments under way, of which one in a hundred is lost, each time that it is sent: what is looked at for an acknowledgement
/// does not depend on how many there are.
#[test]
fn what_an_acknowledgement_costs_is_what_it_changes() {
    use crate::tcp::rack::{Look, Rack};
    use crate::tcp::ranges::Ranges;

    const WINDOW: u32 = 10_000;
    const ROUNDS: u32 = 6;
    let (mut dice, mut rack, mut queue, mut ranges) =
        (Dice(7), Rack::default(), SentQueue::default(), Ranges::default());
    let first = Seq(u32::MAX - 5 * WINDOW);
    let (mut next, mut expected) = (first, first);
    let mut flying = alloc::collections::VecDeque::new();
    let mut acks = 0_u64;
    for step in 0..40 * WINDOW {
        let now = Instant::from_ns(1 + u64::from(step) * 1000);
        // One leaves: what is lost before what is new.
        if let Some(lost) = queue.first_lost().copied() {
            queue.send_again(lost.start, lost.end, now);
            flying.push_back((lost.start, now));
        } else if queue.pipe() < WINDOW && next - first < ROUNDS * WINDOW {
            queue.push(next, next + 1, now);
            flying.push_back((next, now));
            next += 1;
        }
        // One arrives, a window later.
        let rtt = Span::from_us(u64::from(WINDOW));
        let Some((_, sent)) = flying.front() else { break };
        if now - *sent < rtt {
            continue;
        }
        let Some((arrived, _)) = flying.pop_front().filter(|_| below(&mut dice, 100) > 0) else { continue };
        if arrived == expected {
            expected = ranges.advance(expected + 1);
        } else if arrived.is_after(expected) {
            assert!(ranges.insert(SackBlock { start: arrived, end: arrived + 1 }), "room for all holes");
        }
        let blocks: Vec<SackBlock> = ranges.tell().filter(|block| !block.start.is_before(expected)).take(4).collect();
        acks += 1;
        let least = rtt;
        queue.acknowledge(expected, |sent| {
            if !sent.fate.there {
                rack.delivered(sent, now, least, false);
            }
        });
        queue.tell(&blocks, |sent| rack.delivered(sent, now, least, false));
        let look = Look { now, least, smoothed: rtt, repairing: true, segment: 1 };
        let _ = rack.detect(&mut queue, &look);
    }
    assert_eq!(next - first, ROUNDS * WINDOW);
    let looks = queue.entries.looks;
    assert!(acks > u64::from(5 * WINDOW), "{acks}");
    assert!(looks < 4 * acks, "{looks} looks for {acks} acknowledgements");
}

#[test]
fn what_is_asked_about_the_queue_is_answered() {
    let mut all = queue(0);
    assert!(all.is_empty() && !all.is_full() && all.last().is_none());
    all = queue(3);
    assert!(!all.is_empty() && !all.is_full());
    assert_eq!(all.last().map(|last| last.start), Some(START + 4));
    assert!(!all.was_sent_again(START + 2));
    all.send_again(START + 2, START + 4, at(9));
    assert_eq!(all.pipe(), 6, "it was under way before");
    check(&all);
    assert_eq!([1, 2, 3, 4, 7].map(|seq| all.was_sent_again(START + seq)), [false, true, true, false, false]);
    // What the peer has is not lost.
    all.tell(&[block(0, 2)], |_| {});
    all.lose_first();
    assert_eq!((all.there(), all.lost()), (2, 0));
    let mut full = queue(SEGMENTS_MAX as u32 - 1);
    assert!(!full.is_full());
    let end = START + (SEGMENTS_MAX as u32 - 1) * 2;
    full.push(end, end + 2, at(u64::MAX));
    assert!(full.is_full());
}

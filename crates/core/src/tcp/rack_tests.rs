use alloc::vec::Vec;

use super::*;
use crate::tcp::ranges::SackBlock;

const START: Seq = Seq(u32::MAX - 2500);
const SEGMENT: u32 = 1000;

fn ms(ms: u64) -> Instant {
    Instant::ZERO + Span::from_ms(ms)
}

fn look(now: u64) -> Look {
    Look { now: ms(now), least: Span::from_ms(40), smoothed: Span::from_ms(60), repairing: false, segment: SEGMENT }
}

fn seq(segment: u32) -> Seq {
    START + segment * SEGMENT
}

/// Segments that were sent at these times.
fn sent(times: &[u64]) -> SentQueue {
    let mut queue = SentQueue::default();
    for (at, time) in (0..).zip(times) {
        queue.push(seq(at), seq(at + 1), ms(*time));
    }
    queue
}

fn deliver(rack: &mut Rack, queue: &mut SentQueue, segments: core::ops::Range<u32>, now: u64) {
    let block = SackBlock { start: seq(segments.start), end: seq(segments.end) };
    queue.tell(&[block], |sent| rack.delivered(sent, ms(now), Span::from_ms(40), false));
}

fn lost(queue: &SentQueue) -> Vec<u32> {
    queue.iter().filter(|entry| entry.fate.lost).map(|entry| (entry.start - START) / SEGMENT).collect()
}

#[test]
fn a_hole_is_lost_a_quarter_of_a_round_trip_later() {
    let (mut rack, mut queue) = (Rack::default(), sent(&[0, 1]));
    assert!(rack.detect(&mut queue, &look(30)).is_never(), "nothing was delivered");
    deliver(&mut rack, &mut queue, 1..2, 41);
    // 40 ms round trip and 10 ms of patience.
    assert_eq!(rack.detect(&mut queue, &look(41)), Deadline::at(ms(50)));
    assert!(lost(&queue).is_empty());
    assert!(rack.detect(&mut queue, &look(50)).is_never());
    assert_eq!(lost(&queue), [0]);
}

#[test]
fn three_behind_it_need_no_patience_unless_the_order_was_broken() {
    for reordered in [false, true] {
        let (mut rack, mut queue) = (Rack { reordered, ..Rack::default() }, sent(&[0, 0, 0, 0, 0]));
        deliver(&mut rack, &mut queue, 1..4, 40);
        let next = rack.detect(&mut queue, &look(40));
        assert_eq!((lost(&queue).is_empty(), next.is_never()), (reordered, !reordered));
    }
}

#[test]
fn what_is_sent_later_is_not_lost_yet() {
    let (mut rack, mut queue) = (Rack::default(), sent(&[0, 10, 20, 30]));
    deliver(&mut rack, &mut queue, 1..2, 60);
    rack.detect(&mut queue, &Look { repairing: true, ..look(60) });
    assert_eq!(lost(&queue), [0]);
}

/// RFC 8985 section 3.3: a retransmission that is lost.
#[test]
fn a_segment_that_was_sent_again_can_be_lost_again() {
    let (mut rack, mut queue) = (Rack::default(), sent(&[0, 1, 2, 3, 4]));
    deliver(&mut rack, &mut queue, 1..4, 43);
    rack.detect(&mut queue, &look(43));
    assert_eq!(lost(&queue), [0]);
    queue.send_again(seq(0), seq(1), ms(43));
    queue.push(seq(5), seq(6), ms(44));
    assert!(rack.detect(&mut queue, &Look { repairing: true, ..look(60) }).is_never());
    assert!(lost(&queue).is_empty());
    deliver(&mut rack, &mut queue, 5..6, 84);
    rack.detect(&mut queue, &Look { repairing: true, ..look(84) });
    assert_eq!(lost(&queue), [0, 4], "it, and what was sent before it");
}

#[test]
fn an_early_answer_to_what_was_sent_again_is_to_the_first_copy() {
    let (mut rack, mut queue) = (Rack::default(), sent(&[0]));
    queue.send_again(seq(0), seq(1), ms(100));
    let entry = *queue.first().unwrap();
    for (now, older, counts) in [(139, false, false), (140, false, true), (150, true, false)] {
        rack = Rack::default();
        rack.delivered(&entry, ms(now), Span::from_ms(40), older);
        assert_eq!(!rack.rtt.is_zero(), counts, "{now} {older}");
    }
    assert!(!rack.reordered);
}

#[test]
fn order_is_broken_by_what_was_never_sent_again() {
    let (mut rack, mut queue) = (Rack::default(), sent(&[0, 1, 2]));
    deliver(&mut rack, &mut queue, 2..3, 42);
    assert!(!rack.reordered);
    deliver(&mut rack, &mut queue, 1..2, 43);
    assert!(rack.reordered);
}

#[test]
fn patience_grows_once_a_round_and_ends_after_sixteen_repairs() {
    let mut rack = Rack { reordered: true, ..Rack::default() };
    let window = |rack: &Rack| rack.window(&look(0), 0).ns / 1_000_000;
    assert_eq!(window(&rack), 10);
    rack.came_twice(seq(0), seq(4));
    rack.came_twice(seq(3), seq(5));
    assert_eq!(window(&rack), 20);
    rack.came_twice(seq(4), seq(8));
    assert_eq!(window(&rack), 30);
    for round in 2..20 {
        rack.came_twice(seq(round * 4), seq(round * 4 + 4));
    }
    assert_eq!(window(&rack), 60, "a round trip at most");
    for left in (0..16).rev() {
        assert_eq!(window(&rack), 60, "{left}");
        rack.repaired();
    }
    assert_eq!(window(&rack), 10);
}

#[test]
fn after_a_timeout_the_first_is_lost_and_what_is_old() {
    let (mut rack, mut queue) = (Rack::default(), sent(&[0, 10, 230, 240]));
    rack.timed_out(&mut queue, &look(250));
    assert_eq!(lost(&queue), [0, 1, 2, 3], "without a round trip all are old enough");
    let mut queue = sent(&[0, 10, 230, 240]);
    let old = Sent { at: ms(0), start: seq(0), end: seq(0), fate: crate::tcp::sent::Fate::default() };
    rack.delivered(&old, ms(40), Span::from_ms(40), false);
    rack.timed_out(&mut queue, &look(241));
    assert_eq!(lost(&queue), [0, 1]);
}

#[test]
fn when_a_tail_is_asked_for() {
    let ms = |span: Span| span.ns / 1_000_000;
    assert_eq!(ms(probe_after(Span::ZERO, true)), 1000);
    assert_eq!(ms(probe_after(Span::from_ms(50), false)), 102);
    assert_eq!(ms(probe_after(Span::from_ms(50), true)), 300);
}

#[test]
fn three_segments_that_are_there_leave_no_time_to_one_that_is_not() {
    let rack = Rack::default();
    let windows = [0, 2 * SEGMENT, 3 * SEGMENT - 1, 3 * SEGMENT].map(|there| rack.window(&look(0), there));
    assert_eq!(windows, [Span::from_ms(10), Span::from_ms(10), Span::from_ms(10), Span::ZERO]);
}

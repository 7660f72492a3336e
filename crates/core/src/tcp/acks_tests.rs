use super::*;

const SEGMENT: u32 = 1000;

fn now(ms: u64) -> Instant {
    Instant::ZERO + Span::from_ms(ms)
}

#[test]
fn a_question_waits_for_its_answer() {
    let mut acks = Acks::default();
    acks.came(now(5), 100, 100, SEGMENT);
    assert!(acks.is_owed() && !acks.is_due(now(44)) && acks.is_due(now(45)));
    // A second one does not wait longer.
    acks.came(now(30), 100, 200, SEGMENT);
    assert_eq!(acks.deadline(now(30)), Deadline::at(now(45)));
    acks.told();
    assert!(!acks.is_owed() && acks.deadline(now(30)).is_never());
}

#[test]
fn full_segments_at_the_beginning_do_not_wait_and_later_every_second() {
    let mut acks = Acks::default();
    for _ in 0..QUICK {
        acks.came(now(0), SEGMENT, SEGMENT, SEGMENT);
        assert!(acks.is_due(now(0)));
        acks.told();
    }
    acks.came(now(0), SEGMENT, SEGMENT, SEGMENT);
    assert!(!acks.is_due(now(0)));
    acks.came(now(0), SEGMENT, 2 * SEGMENT, SEGMENT);
    assert!(acks.is_due(now(0)));
}

#[test]
fn after_a_hole_full_segments_do_not_wait() {
    let mut acks = Acks { quick: 0, ..Acks::default() };
    acks.out_of_order();
    assert!(acks.is_due(now(0)));
    acks.told();
    acks.came(now(0), SEGMENT, SEGMENT, SEGMENT);
    assert!(acks.is_due(now(0)));
    acks.told();
    acks.came(now(0), 10, 10, SEGMENT);
    assert!(!acks.is_due(now(0)));
}

#[test]
fn what_is_at_once_is() {
    let mut acks = Acks::default();
    acks.at_once();
    assert!(acks.is_due(now(0)) && acks.is_owed());
    assert_eq!(acks.deadline(now(9)), Deadline::at(now(9)));
    acks.told();
    assert!(!acks.is_due(now(1000)));
}

#[test]
fn two_full_segments_are_answered_at_once_and_not_less() {
    for (owed, at_once) in [(1000, false), (1999, false), (2000, true)] {
        let mut acks = Acks::default();
        acks.came(now(5), 500, owed, SEGMENT);
        assert_eq!(acks.is_due(now(5)), at_once, "{owed}");
    }
}

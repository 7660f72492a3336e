use super::*;

const fn ms(ms: u64) -> Instant {
    Instant { ns: ms * 1_000_000 }
}

#[test]
fn work_is_overdue_after_ten_ms_without_progress() {
    let mut overdue = Overdue::new();
    assert!(!overdue.look(ms(0), true, 7));
    assert!(!overdue.look(ms(9), true, 7));
    assert!(overdue.look(ms(10), true, 7));
    // Taken over: from the beginning.
    assert!(!overdue.look(ms(11), true, 7));
    assert!(!overdue.look(ms(20), true, 7));
    assert!(overdue.look(ms(21), true, 7));
}

#[test]
fn progress_or_a_look_without_work_begins_anew() {
    let mut overdue = Overdue::new();
    assert!(!overdue.look(ms(0), true, 1));
    assert!(!overdue.look(ms(10), true, 2));
    assert!(!overdue.look(ms(19), true, 2));
    assert!(!overdue.look(ms(19), false, 2));
    assert!(!overdue.look(ms(29), true, 2));
    assert!(!overdue.look(ms(38), true, 2));
    assert!(overdue.look(ms(39), true, 2));
    assert!(!overdue.look(ms(99), false, 2));
    assert_eq!(overdue, Overdue::new());
}

#[test]
fn a_thread_that_takes_most_of_its_processor_leaves_and_returns() {
    let mut share = Share::begin(ms(0), Span::from_ms(5));
    let mut used_ms = 5;
    let mut period = |number: u64, took_ms| {
        used_ms += took_ms;
        share.look(ms(number * 100), Span::from_ms(used_ms))
    };
    assert_eq!(period(1, 70), ShareVerdict::Stay, "as much as is allowed");
    assert_eq!(period(2, 71), ShareVerdict::Leave);
    assert_eq!(period(3, 100), ShareVerdict::Stay);
    assert_eq!(period(4, 50), ShareVerdict::Stay, "between the limits");
    assert_eq!(period(5, 49), ShareVerdict::Return);
    assert_eq!(period(6, 70), ShareVerdict::Stay);
    assert_eq!(period(8, 142), ShareVerdict::Leave, "of two periods that were looked at once");
}

#[test]
fn nothing_is_judged_within_a_period() {
    let mut share = Share::begin(ms(0), Span::ZERO);
    assert!(!share.is_due(ms(99)));
    assert_eq!(share.look(ms(99), Span::from_ms(99)), ShareVerdict::Stay);
    assert!(share.is_due(ms(100)));
    assert_eq!(share.look(ms(100), Span::from_ms(99)), ShareVerdict::Leave);
    assert!(!share.is_due(ms(150)));
}

#[test]
fn looks_at_a_stopped_queue_become_rarer() {
    let after = |in_vain| recheck_after(in_vain).ns;
    assert_eq!([0, 1, 5, 6, 7, u32::MAX].map(after), [20_000, 40_000, 640_000, 1_280_000, 1_280_000, 1_280_000]);
}

/// It doubles up to its bound while the timer is re-armed faster than it expires, and halves to nothing when that ends.
#[test]
fn slack_of_a_timer() {
    let (nothing, needed) = (Some(true), Some(false));
    let rows = [
        (0, nothing, 8),
        (0, needed, 0),
        (3, nothing, 8),
        (8, nothing, 16),
        (16, needed, 8),
        (3_000, nothing, 4_000),
        (0, None, 0),
        (5, None, 5),
    ];
    for (before, for_nothing, after) in rows {
        assert_eq!(
            timer_slack(Span::from_us(before), for_nothing),
            Span::from_us(after),
            "{before} us, {for_nothing:?}"
        );
    }
    let mut slack = Span::ZERO;
    for _ in 0..20 {
        slack = timer_slack(slack, nothing);
    }
    assert_eq!(slack, SLACK_MAX);
    for _ in 0..22 {
        slack = timer_slack(slack, needed);
    }
    assert_eq!(slack, Span::ZERO);
}

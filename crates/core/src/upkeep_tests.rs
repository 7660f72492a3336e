use super::*;

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

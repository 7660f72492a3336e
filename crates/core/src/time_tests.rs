use alloc::format;

use super::*;

const fn at(ns: u64) -> Instant {
    Instant::from_ns(ns)
}

#[test]
fn arithmetic_saturates() {
    assert_eq!(at(5) + Span::from_ns(7), at(12));
    assert_eq!(at(u64::MAX - 1) + Span::from_ns(7), at(u64::MAX));
    assert_eq!(at(12) - at(5), Span::from_ns(7));
    assert_eq!(at(5) - at(12), Span::ZERO);
    assert_eq!(Span::from_us(3) + Span::from_ms(2), Span::from_ns(2_003_000));
    assert_eq!(Span::from_secs(2), Span::from_ms(2000));
    assert_eq!(Span::from_secs(u64::MAX), Span::from_ns(u64::MAX));
    let mut now = at(1);
    now += Span::from_ns(2);
    assert_eq!(now, at(3));
}

#[test]
fn a_deadline_is_due_from_its_instant_on() {
    let deadline = Deadline::at(at(10));
    assert!(!deadline.is_due(at(9)) && deadline.is_due(at(10)) && deadline.is_due(at(11)));
    assert_eq!(deadline.instant(), Some(at(10)));
    assert!(!deadline.is_never());
}

#[test]
fn never_is_never_due_and_later_than_everything() {
    assert!(!Deadline::NEVER.is_due(at(u64::MAX)));
    assert_eq!(Deadline::NEVER.instant(), None);
    assert_eq!(Deadline::default(), Deadline::NEVER);
    let soon = Deadline::at(at(3));
    assert_eq!(Deadline::NEVER.earliest(soon), soon);
    assert_eq!(soon.earliest(Deadline::NEVER), soon);
    assert_eq!(soon.earliest(Deadline::at(at(2))), Deadline::at(at(2)));
}

/// Time-outs of 2^63 ns and more are accepted and mean never.
#[test]
fn huge_spans_mean_never() {
    for ns in [1 << 63, u64::MAX, (1 << 63) - 1] {
        assert_eq!(Deadline::after(at(5), Span::from_ns(ns)), Deadline::NEVER);
    }
    assert_eq!(Deadline::after(at(5), Span::from_ns(6)), Deadline::at(at(11)));
    assert!(Deadline::after(at(5), Span::from_secs(1 << 32)).instant().is_some());
}

/// The last instant that the kernel's clock can hold stands for never; the one before it is a time like others.
#[test]
fn the_end_of_the_kernels_clock_means_never() {
    let ktime_max = i64::MAX as u64;
    assert_eq!(Deadline::after(at(5), Span::from_ns(ktime_max - 5)), Deadline::NEVER);
    assert_eq!(Deadline::after(at(5), Span::from_ns(ktime_max - 6)), Deadline::at(at(ktime_max - 1)));
    assert_eq!(Deadline::after(at(ktime_max), Span::ZERO), Deadline::NEVER);
}

/// What a failed assertion prints tells the three types apart.
#[test]
fn debug_prints_the_unit_and_the_type() {
    assert_eq!(format!("{:?}", at(12)), "@12ns");
    assert_eq!(format!("{:?}", Span::from_us(3)), "3000ns");
    assert_eq!(format!("{:?}", Deadline::at(at(12))), "Deadline(@12ns)");
    assert_eq!(format!("{:?}", Deadline::NEVER), "Deadline(never)");
}

#[test]
fn a_span_is_a_duration() {
    assert_eq!(core::time::Duration::from(Span::from_us(7)), core::time::Duration::from_micros(7));
}

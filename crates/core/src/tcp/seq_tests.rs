use super::*;

#[test]
fn order_goes_on_where_the_numbers_begin_anew() {
    for start in [0, 1, 77, u32::MAX / 2, u32::MAX - 1, u32::MAX] {
        let first = Seq(start);
        for ahead in [1, 2, 1000, (1 << 31) - 1] {
            let next = first + ahead;
            assert!(first.is_before(next) && next.is_after(first) && !next.is_before(first));
            assert_eq!((first.later(next), next.earlier(first)), (next, first));
            assert_eq!((next - first, next.beyond(first), first.beyond(next)), (ahead, ahead, 0));
            assert!(next.is_within(first, next) && first.is_within(first, next) && !(next + 1).is_within(first, next));
            assert_eq!(next - ahead, first);
        }
        assert!(!first.is_before(first) && !first.is_after(first));
    }
}

#[test]
fn first_numbers_of_the_same_ends_grow() {
    let at = |ns| Instant::from_ns(ns);
    for ends in [0, 7, u32::MAX] {
        assert_eq!(first_number(ends, at(64)) - first_number(ends, at(0)), 1);
        let (mut before, mut ns) = (first_number(ends, at(0)), 0);
        // Up to half of their round.
        for gap_ns in [64, 1000, 1_000_000, 1_000_000_000, 130_000_000_000] {
            ns += gap_ns;
            let next = first_number(ends, at(ns));
            assert!(next.is_after(before), "{ends} {gap_ns}");
            before = next;
        }
    }
}

#[test]
fn a_number_is_shown_as_one() {
    assert_eq!(alloc::format!("{:?}", Seq(7)), "#7");
}

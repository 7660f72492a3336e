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

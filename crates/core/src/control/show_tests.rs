use super::*;

#[test]
fn a_counter_is_found_by_its_name_and_what_is_not_counted_is_left_out() {
    let mut stats = QStats::new(3, Some((QueueKind::Rx, 1)));
    assert_eq!(stats.counted().count(), 0);
    stats.set("tx-wake", 9);
    stats.set("rx-packets", 0);
    assert_eq!((stats.get("rx-packets"), stats.get("tx-wake"), stats.get("rx-bytes")), (Some(0), Some(9), None));
    assert_eq!(stats.get("no-such"), None);
    assert!(stats.counted().eq([("rx-packets", 0), ("tx-wake", 9)]));
}

#[test]
#[should_panic(expected = "a counter of qstats-get")]
fn a_counter_that_is_not_there_is_a_mistake() {
    QStats::new(1, None).set("rx-frames", 1);
}

/// The numbers of `include/uapi/linux/netdev.h` at a few places, and at the end.
#[test]
fn the_order_is_that_of_the_numbers() {
    let number = |name: &str| QSTATS.iter().position(|counter| *counter == name).map(|at| at as u16 + QSTATS_FIRST);
    for (name, want) in [("rx-packets", 8), ("rx-alloc-fail", 12), ("rx-csum-bad", 18), ("tx-hw-drops", 24)] {
        assert_eq!(number(name), Some(want), "{name}");
    }
    assert_eq!(number("tx-wake"), Some(34));
}

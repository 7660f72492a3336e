use alloc::format;
use alloc::vec::Vec;

use crate::control::*;
use crate::time::Span;

fn info(ifindex: u32, id: u32) -> NapiInfo {
    NapiInfo {
        ifindex,
        id,
        irq: None,
        pid: None,
        defer_hard_irqs: Some(3),
        gro_flush_timeout: Some(Span::from_ns(4)),
        irq_suspend_timeout: Some(Span::from_ns(5)),
        threaded: Some(ThreadedSetting::BusyPoll),
    }
}

#[test]
fn napi_get_shows_what_is_there() {
    let bare: Vec<_> = info(2, 9).attributes().collect();
    let want = [
        ("ifindex", 2),
        ("id", 9),
        ("defer-hard-irqs", 3),
        ("gro-flush-timeout", 4),
        ("irq-suspend-timeout", 5),
        ("threaded", 2),
    ];
    assert_eq!(bare, want);
    let full = NapiInfo { irq: Some(0), pid: Some(77), threaded: Some(ThreadedSetting::Workqueue), ..info(2, 9) };
    let names: Vec<_> = full.attributes().map(|(name, _)| name).collect();
    assert_eq!(names[..4], ["ifindex", "id", "irq", "pid"]);
    assert!(!names.contains(&"threaded"), "the extension has no number");
    let old = NapiInfo {
        defer_hard_irqs: None,
        gro_flush_timeout: None,
        irq_suspend_timeout: None,
        threaded: None,
        ..info(2, 9)
    };
    assert!(old.attributes().eq([("ifindex", 2), ("id", 9)]), "a kernel that shows no setting");
}

#[test]
fn a_dump_is_in_descending_order_of_ids() {
    let mut dump = [info(2, 9), info(1, 10), info(2, 12), info(2, 11)];
    sort_dump(&mut dump);
    assert_eq!(dump.map(|info| (info.ifindex, info.id)), [(1, 10), (2, 12), (2, 11), (2, 9)]);
}

#[test]
fn napi_get_refusals() {
    assert_eq!(NapiGet { id: Some(9) }.check(), Ok(9));
    assert_eq!(NapiGet::default().check().unwrap_err().errno(), Errno::EINVAL);
    assert_eq!(NapiGet { id: Some(1 << 32) }.check().unwrap_err().errno(), Errno::ENOENT);
    assert_eq!(check_dump_filter(None), Ok(None));
    assert_eq!(check_dump_filter(Some(2)), Ok(Some(2)));
    assert_eq!(check_dump_filter(Some(0)).unwrap_err().errno(), Errno::ERANGE);
    assert_eq!(check_dump_filter(Some(1 << 32)).unwrap_err().errno(), Errno::ENODEV);
}

#[test]
fn queue_get_refusals() {
    let full = QueueGet { id: Some(1), kind: Some(0), ifindex: Some(2) };
    let errno = |request: QueueGet| request.check().unwrap_err().errno();
    assert_eq!(errno(QueueGet { id: None, ..full }), Errno::EINVAL);
    assert_eq!(errno(QueueGet { kind: None, ..full }), Errno::EINVAL);
    assert_eq!(errno(QueueGet { ifindex: None, ..full }), Errno::EINVAL);
    assert_eq!(errno(QueueGet { kind: Some(2), ..full }), Errno::ERANGE);
    assert_eq!(errno(QueueGet { ifindex: Some(0), ..full }), Errno::ERANGE);
    assert_eq!(errno(QueueGet { kind: Some(2), id: None, ifindex: None }), Errno::ERANGE);
    let up = DeviceQueues { up: true, rx: 2, tx: 1 };
    let rx = full.check().unwrap();
    let tx = QueueGet { kind: Some(1), ..full }.check().unwrap();
    assert_eq!((rx.ifindex, rx.kind.name(), tx.kind.name()), (2, "rx", "tx"));
    assert_eq!(rx.queue(Some(up)), Ok(1));
    let rows = [
        (rx.queue(None).unwrap_err(), Errno::ENODEV),
        (rx.queue(Some(DeviceQueues { up: false, ..up })).unwrap_err(), Errno::ENOENT),
        (tx.queue(Some(up)).unwrap_err(), Errno::EINVAL),
        (tx.queue(Some(DeviceQueues { up: false, ..up })).unwrap_err(), Errno::ENOENT),
    ];
    for (error, errno) in rows {
        assert_eq!(error.errno(), errno);
        assert!(format!("{error}").starts_with(errno.name()));
    }
    let far = QueueGet { id: Some(1 << 32), ..full }.check().unwrap();
    assert_eq!(far.queue(Some(up)).unwrap_err().errno(), Errno::EINVAL);
}

#[test]
fn the_value_in_place_of_a_change_is_that_of_its_attribute() {
    let rows = [
        (NapiChange::DeferHardIrqs(0), NapiChange::DeferHardIrqs(3)),
        (NapiChange::GroFlushTimeout(Span::ZERO), NapiChange::GroFlushTimeout(Span::from_ns(4))),
        (NapiChange::IrqSuspendTimeout(Span::ZERO), NapiChange::IrqSuspendTimeout(Span::from_ns(5))),
        (NapiChange::Threaded(ThreadedSetting::Disabled), NapiChange::Threaded(ThreadedSetting::BusyPoll)),
    ];
    for (change, there) in rows {
        assert_eq!(info(2, 9).in_place_of(change), Some(there));
    }
    let old = NapiInfo { threaded: None, ..info(2, 9) };
    assert_eq!(old.in_place_of(rows[3].0), None);
    assert_eq!(QueueGet { id: Some(7), kind: Some(0), ifindex: Some(2) }.check().unwrap().id(), 7);
}

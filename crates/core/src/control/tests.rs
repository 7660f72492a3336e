use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use super::*;
use crate::completion::Tunables;
use crate::state::Threaded;
use crate::time::Span;

const WITH_ID: NapiSet = NapiSet {
    id: Some(9),
    defer_hard_irqs: None,
    gro_flush_timeout: None,
    irq_suspend_timeout: None,
    threaded: None,
    workqueue: false,
};

#[test]
fn errno_numbers_and_names() {
    let numbers = [
        (Errno::EPERM, 1, "EPERM"),
        (Errno::ENOENT, 2, "ENOENT"),
        (Errno::EEXIST, 17, "EEXIST"),
        (Errno::ENODEV, 19, "ENODEV"),
        (Errno::EINVAL, 22, "EINVAL"),
        (Errno::ERANGE, 34, "ERANGE"),
        (Errno::ENOPROTOOPT, 92, "ENOPROTOOPT"),
        (Errno::EOPNOTSUPP, 95, "EOPNOTSUPP"),
    ];
    for (errno, number, name) in numbers {
        assert_eq!((errno.number(), errno.name()), (number, name));
        assert_eq!(errno.to_string(), name);
        assert_eq!(Errno::from_number(number), Some(errno));
    }
    assert_eq!(Errno::from_number(0), None);
}

#[test]
fn napi_set_refusals() {
    let dhi = |count| NapiSet {
        defer_hard_irqs: Some(count),
        ..WITH_ID
    };
    let threaded = |number| NapiSet {
        threaded: Some(number),
        ..WITH_ID
    };
    let range = |attribute, max| NapiSetError::OutOfRange { attribute, max };
    let rows = [
        // The capability is looked at before anything else, the id last.
        (
            NapiSet {
                id: None,
                ..dhi(1 << 31)
            },
            false,
            NapiSetError::NotPermitted,
            Errno::EPERM,
        ),
        (WITH_ID, false, NapiSetError::NotPermitted, Errno::EPERM),
        (
            NapiSet {
                id: None,
                ..dhi(1 << 31)
            },
            true,
            range("defer-hard-irqs", (1 << 31) - 1),
            Errno::ERANGE,
        ),
        (
            NapiSet { id: None, ..dhi(1) },
            true,
            NapiSetError::MissingId,
            Errno::EINVAL,
        ),
        (
            NapiSet::default(),
            true,
            NapiSetError::MissingId,
            Errno::EINVAL,
        ),
        (
            dhi(1 << 31),
            true,
            range("defer-hard-irqs", (1 << 31) - 1),
            Errno::ERANGE,
        ),
        (
            dhi(u64::MAX),
            true,
            range("defer-hard-irqs", (1 << 31) - 1),
            Errno::ERANGE,
        ),
        (
            dhi(1 << 32),
            true,
            range("defer-hard-irqs", (1 << 31) - 1),
            Errno::ERANGE,
        ),
        (threaded(3), true, range("threaded", 2), Errno::ERANGE),
        (threaded(1 << 32), true, range("threaded", 2), Errno::ERANGE),
        (
            NapiSet {
                workqueue: true,
                ..threaded(1)
            },
            true,
            NapiSetError::ThreadedTwice,
            Errno::EINVAL,
        ),
        (
            NapiSet {
                id: Some(1 << 32),
                ..WITH_ID
            },
            true,
            NapiSetError::NoSuchNapi { id: 1 << 32 },
            Errno::ENOENT,
        ),
    ];
    for (request, cap, error, errno) in rows {
        let got = request.check(cap).unwrap_err();
        assert_eq!(got, error, "{request:?}");
        assert_eq!(got.errno(), errno);
        assert!(format!("{got}").starts_with(errno.name()), "{got}");
    }
    let lost = NapiSetError::ThreadNotCreated(Errno::ENOMEM);
    assert_eq!(lost.errno(), Errno::ENOMEM);
    assert_eq!(
        WITH_ID.check(true).unwrap().no_such_napi(),
        NapiSetError::NoSuchNapi { id: 9 }
    );
}

/// One bad attribute refuses the request as a whole.
#[test]
fn a_good_attribute_beside_a_bad_one_is_not_applied() {
    let request = NapiSet {
        threaded: Some(1),
        defer_hard_irqs: Some(1 << 31),
        ..WITH_ID
    };
    assert_eq!(request.check(true).unwrap_err().errno(), Errno::ERANGE);
}

#[test]
fn changes_come_in_the_kernels_order() {
    let request = NapiSet {
        id: Some(9),
        gro_flush_timeout: Some(u64::MAX),
        irq_suspend_timeout: Some(20),
        defer_hard_irqs: Some((1 << 31) - 1),
        threaded: Some(2),
        workqueue: false,
    };
    let checked = request.check(true).unwrap();
    assert_eq!(checked.id(), 9);
    let changes: Vec<_> = checked.changes().collect();
    let want = [
        NapiChange::Threaded(ThreadedSetting::BusyPoll),
        NapiChange::DeferHardIrqs((1 << 31) - 1),
        NapiChange::IrqSuspendTimeout(Span::from_ns(20)),
        NapiChange::GroFlushTimeout(Span::from_ns(u64::MAX)),
    ];
    assert_eq!(changes, want);
    let mut tunables = Tunables::default();
    let applied: Vec<_> = want
        .iter()
        .map(|change| change.apply(&mut tunables))
        .collect();
    assert_eq!(applied, [false, true, true, true]);
    let want = Tunables {
        defer_hard_irqs: (1 << 31) - 1,
        gro_flush_timeout: Span::from_ns(u64::MAX),
        irq_suspend_timeout: Span::from_ns(20),
    };
    assert_eq!(tunables, want);
    assert_eq!(
        WITH_ID.check(true).unwrap().changes().count(),
        0,
        "only an id: success, no change"
    );
}

#[test]
fn attributes_by_name() {
    let mut request = NapiSet::default();
    for (name, value) in [
        ("id", 1),
        ("defer-hard-irqs", 2),
        ("gro-flush-timeout", 3),
        ("irq-suspend-timeout", 4),
        ("threaded", 5),
    ] {
        request.attribute(name, value).unwrap();
    }
    let want = NapiSet {
        id: Some(1),
        defer_hard_irqs: Some(2),
        gro_flush_timeout: Some(3),
        irq_suspend_timeout: Some(4),
        threaded: Some(5),
        workqueue: false,
    };
    assert_eq!(request, want);
    for name in ["ifindex", "irq", "pid", "gro_flush_timeout", "weight", ""] {
        let error = request.attribute(name, 1).unwrap_err();
        assert_eq!(
            error,
            NapiSetError::NotAccepted {
                attribute: name.to_owned()
            }
        );
        assert_eq!(error.errno(), Errno::EINVAL);
    }
    assert_eq!(request, want);
}

#[test]
fn threaded_settings() {
    let rows = [
        (
            ThreadedSetting::Disabled,
            "disabled",
            Some(0),
            Threaded::Disabled,
        ),
        (
            ThreadedSetting::Enabled,
            "enabled",
            Some(1),
            Threaded::Enabled,
        ),
        (
            ThreadedSetting::BusyPoll,
            "busy-poll",
            Some(2),
            Threaded::BusyPoll,
        ),
        (
            ThreadedSetting::Workqueue,
            "workqueue",
            None,
            Threaded::Disabled,
        ),
    ];
    for (setting, name, number, threaded) in rows {
        assert_eq!(
            (setting.name(), setting.number(), setting.threaded()),
            (name, number, threaded)
        );
        assert_eq!(setting.to_string(), name);
        assert_eq!(ThreadedSetting::from_name(name), Some(setting));
        if let Some(number) = number {
            assert_eq!(
                ThreadedSetting::from_number(u64::from(number)),
                Some(setting)
            );
            assert_eq!(ThreadedSetting::from(threaded), setting);
        }
    }
    assert_eq!(ThreadedSetting::from_number(3), None);
    assert_eq!(ThreadedSetting::from_name("busy_poll"), None);
    let request = NapiSet {
        workqueue: true,
        ..WITH_ID
    };
    let change = request.check(true).unwrap().changes().next();
    assert_eq!(
        change,
        Some(NapiChange::Threaded(ThreadedSetting::Workqueue))
    );
}

#[test]
fn device_writes() {
    use DevAttribute::{GroFlushTimeout, NapiDeferHardIrqs, Threaded};
    let threaded = |setting| Ok(DevSetting::Threaded(setting));
    let range = Err(DevSetError::OutOfRange {
        attribute: NapiDeferHardIrqs,
        max: (1 << 31) - 1,
    });
    let rows = [
        (
            GroFlushTimeout,
            u64::MAX,
            true,
            0,
            Ok(DevSetting::GroFlushTimeout(Span::from_ns(u64::MAX))),
        ),
        (
            NapiDeferHardIrqs,
            (1 << 31) - 1,
            true,
            0,
            Ok(DevSetting::NapiDeferHardIrqs((1 << 31) - 1)),
        ),
        (NapiDeferHardIrqs, 1 << 31, true, 4, range),
        (NapiDeferHardIrqs, 1 << 32, true, 4, range),
        (Threaded, 0, true, 1, threaded(ThreadedSetting::Disabled)),
        (Threaded, 1, true, 1, threaded(ThreadedSetting::Enabled)),
        (Threaded, 2, true, 1, Err(DevSetError::NotForDevices)),
        (Threaded, 1, true, 0, Err(DevSetError::NoNapi)),
        (Threaded, 2, true, 0, Err(DevSetError::NoNapi)),
        (Threaded, 2, false, 0, Err(DevSetError::NotPermitted)),
        (GroFlushTimeout, 0, false, 1, Err(DevSetError::NotPermitted)),
        (
            NapiDeferHardIrqs,
            1 << 31,
            false,
            1,
            Err(DevSetError::NotPermitted),
        ),
    ];
    for (attribute, value, cap, listed, want) in rows {
        let got = DevSet { attribute, value }.check(cap, listed);
        assert_eq!(got, want, "{attribute:?} {value} cap={cap} listed={listed}");
    }
    assert_eq!(
        DevSetting::workqueue(true, 1),
        threaded(ThreadedSetting::Workqueue)
    );
    assert_eq!(DevSetting::workqueue(true, 0), Err(DevSetError::NoNapi));
    assert_eq!(
        DevSetting::workqueue(false, 0),
        Err(DevSetError::NotPermitted)
    );
}

#[test]
fn device_errors() {
    let errors = [
        (DevSetError::NotPermitted, Errno::EPERM),
        (DevSetError::NotANumber, Errno::EINVAL),
        (
            DevSetError::OutOfRange {
                attribute: DevAttribute::NapiDeferHardIrqs,
                max: 1,
            },
            Errno::ERANGE,
        ),
        (DevSetError::NoNapi, Errno::EOPNOTSUPP),
        (DevSetError::NotForDevices, Errno::EOPNOTSUPP),
        (DevSetError::ThreadNotCreated(Errno::EAGAIN), Errno::EAGAIN),
    ];
    for (error, errno) in errors {
        assert_eq!(error.errno(), errno);
        assert!(format!("{error}").starts_with(errno.name()));
    }
}

#[test]
fn numbers_as_sysfs_takes_them() {
    assert_eq!(parse_number("20000\n"), Ok(20000));
    assert_eq!(parse_number("0x1F"), Ok(31));
    assert_eq!(parse_number("18446744073709551615"), Ok(u64::MAX));
    for text in [
        "",
        "\n",
        "-1",
        "+1",
        "0x",
        "0x-1",
        " 1",
        "1 ",
        "1\n\n",
        "18446744073709551616",
        "busy-poll",
    ] {
        assert_eq!(parse_number(text), Err(DevSetError::NotANumber), "{text:?}");
    }
}

#[test]
fn device_names() {
    for attribute in DevAttribute::ALL {
        assert_eq!(DevAttribute::from_name(attribute.name()), Some(attribute));
        assert_eq!(
            DevAttribute::from_name(attribute.file_name()),
            Some(attribute)
        );
        assert_eq!(attribute.name().replace('-', "_"), attribute.file_name());
    }
    assert_eq!(DevAttribute::from_name("irq-suspend-timeout"), None);
}

/// The device holds what was written last, and each instance gets the same change.
#[test]
fn device_values_and_changes() {
    let mut device = DevSettings::default();
    let gft = Span::from_us(20);
    let rows = [
        (
            DevSetting::GroFlushTimeout(gft),
            NapiChange::GroFlushTimeout(gft),
        ),
        (
            DevSetting::NapiDeferHardIrqs(4),
            NapiChange::DeferHardIrqs(4),
        ),
        (
            DevSetting::Threaded(ThreadedSetting::Enabled),
            NapiChange::Threaded(ThreadedSetting::Enabled),
        ),
    ];
    for (setting, change) in rows {
        device.apply(setting);
        assert_eq!(setting.as_napi_change(), change);
    }
    let want = DevSettings {
        gro_flush_timeout: gft,
        defer_hard_irqs: 4,
        threaded: ThreadedSetting::Enabled,
    };
    assert_eq!(device, want);
    assert_eq!(
        device_threaded_in_force(ThreadedSetting::Enabled, true),
        ThreadedSetting::Enabled
    );
    assert_eq!(
        device_threaded_in_force(ThreadedSetting::Enabled, false),
        ThreadedSetting::Disabled
    );
}

fn info(ifindex: u32, id: u32) -> NapiInfo {
    NapiInfo {
        ifindex,
        id,
        irq: None,
        pid: None,
        defer_hard_irqs: 3,
        gro_flush_timeout: Span::from_ns(4),
        irq_suspend_timeout: Span::from_ns(5),
        threaded: ThreadedSetting::BusyPoll,
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
    let full = NapiInfo {
        irq: Some(0),
        pid: Some(77),
        threaded: ThreadedSetting::Workqueue,
        ..info(2, 9)
    };
    let names: Vec<_> = full.attributes().map(|(name, _)| name).collect();
    assert_eq!(names[..4], ["ifindex", "id", "irq", "pid"]);
    assert!(!names.contains(&"threaded"), "the extension has no number");
}

#[test]
fn a_dump_is_in_descending_order_of_ids() {
    let mut dump = [info(2, 9), info(1, 10), info(2, 12), info(2, 11)];
    sort_dump(&mut dump);
    assert_eq!(
        dump.map(|info| (info.ifindex, info.id)),
        [(1, 10), (2, 12), (2, 11), (2, 9)]
    );
}

#[test]
fn napi_get_refusals() {
    assert_eq!(NapiGet { id: Some(9) }.check(), Ok(9));
    assert_eq!(
        NapiGet::default().check().unwrap_err().errno(),
        Errno::EINVAL
    );
    assert_eq!(
        NapiGet { id: Some(1 << 32) }.check().unwrap_err().errno(),
        Errno::ENOENT
    );
    assert_eq!(check_dump_filter(None), Ok(None));
    assert_eq!(check_dump_filter(Some(2)), Ok(Some(2)));
    assert_eq!(
        check_dump_filter(Some(0)).unwrap_err().errno(),
        Errno::ERANGE
    );
    assert_eq!(
        check_dump_filter(Some(1 << 32)).unwrap_err().errno(),
        Errno::ENODEV
    );
}

#[test]
fn queue_get_refusals() {
    let full = QueueGet {
        id: Some(1),
        kind: Some(0),
        ifindex: Some(2),
    };
    let errno = |request: QueueGet| request.check().unwrap_err().errno();
    assert_eq!(errno(QueueGet { id: None, ..full }), Errno::EINVAL);
    assert_eq!(errno(QueueGet { kind: None, ..full }), Errno::EINVAL);
    assert_eq!(
        errno(QueueGet {
            ifindex: None,
            ..full
        }),
        Errno::EINVAL
    );
    assert_eq!(
        errno(QueueGet {
            kind: Some(2),
            ..full
        }),
        Errno::ERANGE
    );
    assert_eq!(
        errno(QueueGet {
            ifindex: Some(0),
            ..full
        }),
        Errno::ERANGE
    );
    assert_eq!(
        errno(QueueGet {
            kind: Some(2),
            id: None,
            ifindex: None
        }),
        Errno::ERANGE
    );
    let up = DeviceQueues {
        up: true,
        rx: 2,
        tx: 1,
    };
    let rx = full.check().unwrap();
    let tx = QueueGet {
        kind: Some(1),
        ..full
    }
    .check()
    .unwrap();
    assert_eq!(
        (rx.ifindex, rx.kind.name(), tx.kind.name()),
        (2, "rx", "tx")
    );
    assert_eq!(rx.queue(Some(up)), Ok(1));
    let rows = [
        (rx.queue(None).unwrap_err(), Errno::ENODEV),
        (
            rx.queue(Some(DeviceQueues { up: false, ..up }))
                .unwrap_err(),
            Errno::ENOENT,
        ),
        (tx.queue(Some(up)).unwrap_err(), Errno::EINVAL),
        (
            tx.queue(Some(DeviceQueues { up: false, ..up }))
                .unwrap_err(),
            Errno::ENOENT,
        ),
    ];
    for (error, errno) in rows {
        assert_eq!(error.errno(), errno);
        assert!(format!("{error}").starts_with(errno.name()));
    }
    let far = QueueGet {
        id: Some(1 << 32),
        ..full
    }
    .check()
    .unwrap();
    assert_eq!(far.queue(Some(up)).unwrap_err().errno(), Errno::EINVAL);
}

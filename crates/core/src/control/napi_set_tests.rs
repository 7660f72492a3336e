use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use crate::completion::Tunables;
use crate::control::*;
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
    let dhi = |count| NapiSet { defer_hard_irqs: Some(count), ..WITH_ID };
    let threaded = |number| NapiSet { threaded: Some(number), ..WITH_ID };
    let range = |attribute, max| NapiSetError::OutOfRange { attribute, max };
    let rows = [
        // The capability is looked at before anything else, the id last.
        (NapiSet { id: None, ..dhi(1 << 31) }, false, NapiSetError::NotPermitted, Errno::EPERM),
        (WITH_ID, false, NapiSetError::NotPermitted, Errno::EPERM),
        (NapiSet { id: None, ..dhi(1 << 31) }, true, range("defer-hard-irqs", (1 << 31) - 1), Errno::ERANGE),
        (NapiSet { id: None, ..dhi(1) }, true, NapiSetError::MissingId, Errno::EINVAL),
        (NapiSet::default(), true, NapiSetError::MissingId, Errno::EINVAL),
        (dhi(1 << 31), true, range("defer-hard-irqs", (1 << 31) - 1), Errno::ERANGE),
        (dhi(u64::MAX), true, range("defer-hard-irqs", (1 << 31) - 1), Errno::ERANGE),
        (dhi(1 << 32), true, range("defer-hard-irqs", (1 << 31) - 1), Errno::ERANGE),
        (threaded(3), true, range("threaded", 2), Errno::ERANGE),
        (threaded(1 << 32), true, range("threaded", 2), Errno::ERANGE),
        (NapiSet { workqueue: true, ..threaded(1) }, true, NapiSetError::ThreadedTwice, Errno::EINVAL),
        (NapiSet { id: Some(1 << 32), ..WITH_ID }, true, NapiSetError::NoSuchNapi { id: 1 << 32 }, Errno::ENOENT),
    ];
    for (request, cap, error, errno) in rows {
        let got = request.check(cap).unwrap_err();
        assert_eq!(got, error, "{request:?}");
        assert_eq!(got.errno(), errno);
        assert!(format!("{got}").starts_with(errno.name()), "{got}");
    }
    let lost = NapiSetError::ThreadNotCreated(Errno::ENOMEM);
    assert_eq!(lost.errno(), Errno::ENOMEM);
    assert_eq!(WITH_ID.check(true).unwrap().no_such_napi(), NapiSetError::NoSuchNapi { id: 9 });
}

/// One bad attribute refuses the request as a whole.
#[test]
fn a_good_attribute_beside_a_bad_one_is_not_applied() {
    let request = NapiSet { threaded: Some(1), defer_hard_irqs: Some(1 << 31), ..WITH_ID };
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
    let applied: Vec<_> = want.iter().map(|change| change.apply(&mut tunables)).collect();
    assert_eq!(applied, [false, true, true, true]);
    let want = Tunables {
        defer_hard_irqs: (1 << 31) - 1,
        gro_flush_timeout: Span::from_ns(u64::MAX),
        irq_suspend_timeout: Span::from_ns(20),
    };
    assert_eq!(tunables, want);
    assert_eq!(WITH_ID.check(true).unwrap().changes().count(), 0, "only an id: success, no change");
}

#[test]
fn attributes_by_name() {
    let mut request = NapiSet::default();
    for (name, value) in
        [("id", 1), ("defer-hard-irqs", 2), ("gro-flush-timeout", 3), ("irq-suspend-timeout", 4), ("threaded", 5)]
    {
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
        assert_eq!(error, NapiSetError::NotAccepted { attribute: name.to_owned() });
        assert_eq!(error.errno(), Errno::EINVAL);
    }
    assert_eq!(request, want);
}

#[test]
fn threaded_settings() {
    let rows = [
        (ThreadedSetting::Disabled, "disabled", Some(0), Threaded::Disabled),
        (ThreadedSetting::Enabled, "enabled", Some(1), Threaded::Enabled),
        (ThreadedSetting::BusyPoll, "busy-poll", Some(2), Threaded::BusyPoll),
        (ThreadedSetting::Workqueue, "workqueue", None, Threaded::Enabled),
    ];
    for (setting, name, number, threaded) in rows {
        assert_eq!((setting.name(), setting.number(), setting.threaded()), (name, number, threaded));
        assert_eq!(setting.to_string(), name);
        assert_eq!(ThreadedSetting::from_name(name), Some(setting));
        if let Some(number) = number {
            assert_eq!(ThreadedSetting::from_number(u64::from(number)), Some(setting));
            assert_eq!(ThreadedSetting::from(threaded), setting);
        }
    }
    assert_eq!(ThreadedSetting::from_number(3), None);
    assert_eq!(ThreadedSetting::from_name("busy_poll"), None);
    let request = NapiSet { workqueue: true, ..WITH_ID };
    let change = request.check(true).unwrap().changes().next();
    assert_eq!(change, Some(NapiChange::Threaded(ThreadedSetting::Workqueue)));
}

#[test]
fn a_request_asks_for_one_change_of_one_instance() {
    let span = Span::from_us(7);
    for change in [
        NapiChange::DeferHardIrqs(3),
        NapiChange::GroFlushTimeout(span),
        NapiChange::IrqSuspendTimeout(span),
        NapiChange::Threaded(ThreadedSetting::Disabled),
        NapiChange::Threaded(ThreadedSetting::Enabled),
        NapiChange::Threaded(ThreadedSetting::BusyPoll),
        NapiChange::Threaded(ThreadedSetting::Workqueue),
    ] {
        let request = change.request(9);
        assert_eq!(request.id, Some(9));
        let fields =
            [request.defer_hard_irqs, request.gro_flush_timeout, request.irq_suspend_timeout, request.threaded];
        let want = match change {
            NapiChange::DeferHardIrqs(_) => [Some(3), None, None, None],
            NapiChange::GroFlushTimeout(_) => [None, Some(7000), None, None],
            NapiChange::IrqSuspendTimeout(_) => [None, None, Some(7000), None],
            NapiChange::Threaded(setting) => [None, None, None, setting.number().map(u64::from)],
        };
        let pool = change == NapiChange::Threaded(ThreadedSetting::Workqueue);
        assert_eq!((fields, request.workqueue), (want, pool), "{change:?}");
    }
}

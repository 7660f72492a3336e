use alloc::format;

use crate::control::*;
use crate::time::Span;

#[test]
fn device_writes() {
    use DevAttribute::{GroFlushTimeout, NapiDeferHardIrqs, Threaded};
    let threaded = |setting| Ok(DevSetting::Threaded(setting));
    let range = Err(DevSetError::OutOfRange { attribute: NapiDeferHardIrqs, max: (1 << 31) - 1 });
    let rows = [
        (GroFlushTimeout, u64::MAX, true, 0, Ok(DevSetting::GroFlushTimeout(Span::from_ns(u64::MAX)))),
        (NapiDeferHardIrqs, (1 << 31) - 1, true, 0, Ok(DevSetting::NapiDeferHardIrqs((1 << 31) - 1))),
        (NapiDeferHardIrqs, 1 << 31, true, 4, range),
        (NapiDeferHardIrqs, 1 << 32, true, 4, range),
        (Threaded, 0, true, 1, threaded(ThreadedSetting::Disabled)),
        (Threaded, 1, true, 1, threaded(ThreadedSetting::Enabled)),
        (Threaded, 2, true, 1, Err(DevSetError::NotForDevices)),
        (Threaded, 1, true, 0, Err(DevSetError::NoNapi)),
        (Threaded, 2, true, 0, Err(DevSetError::NoNapi)),
        (Threaded, 2, false, 0, Err(DevSetError::NotPermitted)),
        (GroFlushTimeout, 0, false, 1, Err(DevSetError::NotPermitted)),
        (NapiDeferHardIrqs, 1 << 31, false, 1, Err(DevSetError::NotPermitted)),
    ];
    for (attribute, value, cap, listed, want) in rows {
        let got = DevSet { attribute, value }.check(cap, listed);
        assert_eq!(got, want, "{attribute:?} {value} cap={cap} listed={listed}");
    }
}

#[test]
fn device_errors() {
    let errors = [
        (DevSetError::NotPermitted, Errno::EPERM),
        (DevSetError::NotANumber, Errno::EINVAL),
        (DevSetError::OutOfRange { attribute: DevAttribute::NapiDeferHardIrqs, max: 1 }, Errno::ERANGE),
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
    for text in ["", "\n", "-1", "+1", "0x", "0x-1", " 1", "1 ", "1\n\n", "18446744073709551616", "busy-poll"] {
        assert_eq!(parse_number(text), Err(DevSetError::NotANumber), "{text:?}");
    }
}

#[test]
fn device_names() {
    for attribute in DevAttribute::ALL {
        assert_eq!(DevAttribute::from_name(attribute.name()), Some(attribute));
        assert_eq!(DevAttribute::from_name(attribute.file_name()), Some(attribute));
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
        (DevSetting::GroFlushTimeout(gft), NapiChange::GroFlushTimeout(gft)),
        (DevSetting::NapiDeferHardIrqs(4), NapiChange::DeferHardIrqs(4)),
        (DevSetting::Threaded(ThreadedSetting::Enabled), NapiChange::Threaded(ThreadedSetting::Enabled)),
    ];
    for (setting, change) in rows {
        device.apply(setting);
        assert_eq!(setting.as_napi_change(), change);
    }
    let want = DevSettings { gro_flush_timeout: gft, defer_hard_irqs: 4, threaded: ThreadedSetting::Enabled };
    assert_eq!(device, want);
    assert_eq!(device_threaded_in_force(ThreadedSetting::Enabled, true), ThreadedSetting::Enabled);
    assert_eq!(device_threaded_in_force(ThreadedSetting::Enabled, false), ThreadedSetting::Disabled);
}

#[test]
fn a_setting_asks_for_its_attribute() {
    use DevAttribute::{GroFlushTimeout, NapiDeferHardIrqs, Threaded};
    let rows = [
        (DevSetting::GroFlushTimeout(Span::from_ns(7)), Some((GroFlushTimeout, 7))),
        (DevSetting::NapiDeferHardIrqs(3), Some((NapiDeferHardIrqs, 3))),
        (DevSetting::Threaded(ThreadedSetting::Enabled), Some((Threaded, 1))),
        (DevSetting::Threaded(ThreadedSetting::Workqueue), None),
    ];
    for (setting, want) in rows {
        assert_eq!(setting.request().map(|write| (write.attribute, write.value)), want);
    }
}

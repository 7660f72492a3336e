use super::*;

/// Little-endian, as on the machines that the table below was written for; the code is native.
fn native(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    push(&mut bytes, kind, value);
    bytes
}

fn bytes_of(change: NapiChange) -> Vec<u8> {
    let mut bytes = Vec::new();
    assert!(push_change(&mut bytes, change));
    bytes
}

#[test]
fn a_uint_has_the_bytes_that_its_value_needs() {
    let five_s = 5_000_000_000_u64;
    let rows: [(NapiChange, u16, Vec<u8>); 8] = [
        (NapiChange::DeferHardIrqs(7), 5, 7_u32.to_ne_bytes().into()),
        (NapiChange::Threaded(ThreadedSetting::BusyPoll), 8, 2_u32.to_ne_bytes().into()),
        (NapiChange::GroFlushTimeout(Span::ZERO), 6, 0_u32.to_ne_bytes().into()),
        (NapiChange::GroFlushTimeout(Span::from_ns(u64::from(u32::MAX))), 6, u32::MAX.to_ne_bytes().into()),
        (NapiChange::GroFlushTimeout(Span::from_ns(1 << 32)), 6, (1_u64 << 32).to_ne_bytes().into()),
        (NapiChange::GroFlushTimeout(Span::from_ns(five_s)), 6, five_s.to_ne_bytes().into()),
        (NapiChange::IrqSuspendTimeout(Span::from_ns(five_s)), 7, five_s.to_ne_bytes().into()),
        (NapiChange::IrqSuspendTimeout(Span::from_ns(u64::MAX)), 7, u64::MAX.to_ne_bytes().into()),
    ];
    for (change, kind, value) in rows {
        let bytes = bytes_of(change);
        assert_eq!(bytes, native(kind, &value), "{change:?}");
        assert_eq!(bytes.len() % ALIGN, 0);
        assert_eq!(kind_at(&bytes, 0), Some(kind));
    }
    assert!(!push_change(&mut Vec::new(), NapiChange::Threaded(ThreadedSetting::Workqueue)));
}

/// What is set comes back as it was, whichever length the value has.
#[test]
fn what_is_written_is_read() {
    for ns in [0, 1, 20_000, u64::from(u32::MAX), 1 << 32, 5_000_000_000, u64::MAX] {
        let mut bytes = Vec::new();
        push(&mut bytes, IFINDEX, &3_u32.to_ne_bytes());
        push_id(&mut bytes, 515);
        let changes = [
            NapiChange::Threaded(ThreadedSetting::Enabled),
            NapiChange::DeferHardIrqs(i32::MAX as u32),
            NapiChange::IrqSuspendTimeout(Span::from_ns(ns)),
            NapiChange::GroFlushTimeout(Span::from_ns(ns / 2)),
        ];
        assert!(changes.iter().all(|change| push_change(&mut bytes, *change)));
        let want = NapiInfo {
            ifindex: 3,
            id: 515,
            irq: None,
            pid: None,
            defer_hard_irqs: Some(i32::MAX as u32),
            gro_flush_timeout: Some(Span::from_ns(ns / 2)),
            irq_suspend_timeout: Some(Span::from_ns(ns)),
            threaded: Some(ThreadedSetting::Enabled),
        };
        assert_eq!(instance(&bytes), Some(want));
    }
}

#[test]
fn what_an_older_kernel_leaves_out_is_none_and_what_a_newer_one_adds_is_passed_over() {
    let old = [native(2, &9_u32.to_ne_bytes()), native(1, &2_u32.to_ne_bytes()), native(4, &77_u32.to_ne_bytes())];
    let info = instance(&old.concat()).expect("an instance");
    assert_eq!((info.ifindex, info.id, info.pid, info.irq), (2, 9, Some(77), None));
    assert_eq!((info.defer_hard_irqs, info.gro_flush_timeout), (None, None));
    assert_eq!((info.irq_suspend_timeout, info.threaded), (None, None));
    let newer = [old.concat(), native(99, b"seven b"), native(3 | 0x8000, &5_u32.to_ne_bytes())].concat();
    assert_eq!(instance(&newer), Some(NapiInfo { irq: Some(5), ..info }));
}

#[test]
fn what_cannot_be_is_no_instance() {
    let id = native(2, &9_u32.to_ne_bytes());
    let ifindex = native(1, &2_u32.to_ne_bytes());
    let with = |attribute: Vec<u8>| instance(&[id.clone(), ifindex.clone(), attribute].concat());
    assert!(with(Vec::new()).is_some());
    let wrong: [(&str, Vec<u8>); 6] = [
        ("a uint of 2 bytes", native(6, &[1, 2])),
        ("a uint of 16 bytes", native(7, &[0; 16])),
        ("a u32 of 8 bytes", native(5, &[0; 8])),
        ("a mode that is not known", native(8, &9_u32.to_ne_bytes())),
        ("longer than there is", [&100_u16.to_ne_bytes()[..], &5_u16.to_ne_bytes(), &[0; 4]].concat()),
        ("shorter than its head", [&3_u16.to_ne_bytes()[..], &5_u16.to_ne_bytes(), &[0; 4]].concat()),
    ];
    for (what, attribute) in wrong {
        assert_eq!(with(attribute), None, "{what}");
    }
    assert_eq!((instance(&[]), instance(&id), instance(&ifindex)), (None, None, None));
    assert_eq!((kind_at(&id, 5), kind_at(&id, 100)), (None, None));
}

use super::*;

#[test]
fn names_and_modes_are_one_to_one() {
    for name in "base defer1 defer20 defer1000000 napibusy fullbusy suspend0 suspend1 suspend19999 threaded workqueue \
                 threaded-busy-poll busy-read"
        .split_whitespace()
    {
        assert_eq!(name.parse::<Mode>().unwrap().to_string(), name);
    }
    assert_eq!(format!("{:>8}|", Mode::Base), "    base|");
}

#[test]
fn what_is_no_mode_is_refused_with_what_is() {
    for name in ["", "Base", "defer", "defer-1", "defer020", "defer20us", "defer+2", "suspend", "suspend00", "group"] {
        let error = Mode::parse(name).unwrap_err();
        assert_eq!(error, ModeError::Unknown { name: name.to_owned() });
        assert!(error.to_string().contains("threaded-busy-poll"), "{error}");
    }
    assert_eq!(Mode::parse("defer0"), Err(ModeError::DeferZero));
    let too_long = Mode::parse("suspend20000").unwrap_err().to_string();
    assert_eq!(
        too_long,
        "`suspend20000` is out of range; X is from 1 to 19999 us, below the irq-suspend-timeout of 20 ms"
    );
    assert!(matches!(Mode::parse("defer99999999999"), Err(ModeError::Range { us_max: 1_000_000, .. })));
}

#[test]
fn lists() {
    assert_eq!(Mode::parse_list("base, suspend20"), Ok(vec![Mode::Base, Mode::Suspend { us: 20 }]));
    for list in ["", " , ", "base,,suspend20", "base,", ",base"] {
        assert_eq!(Mode::parse_list(list), Err(ModeError::Empty), "{list:?}");
    }
    assert_eq!(Mode::parse_list("base,base"), Err(ModeError::Twice { name: "base".to_owned() }));
    assert_eq!(Mode::parse_list(DEFAULT_MODES).unwrap().len(), 12);
    assert_eq!(Mode::parse_list(QUICK_MODES).unwrap().len(), 4);
}

#[test]
fn parameters_are_the_cover_letters() {
    let table = [
        ("base", 0, 0, 0, None, None),
        ("defer20", 100, 20_000, 0, None, None),
        ("napibusy", 100, 200_000, 0, Some((64, 64, true)), None),
        ("fullbusy", 100, 5_000_000, 0, Some((1000, 64, true)), Some(1_000_000)),
        ("suspend0", 0, 0, 20_000_000, Some((0, 64, true)), None),
        ("suspend20", 100, 20_000, 20_000_000, Some((0, 64, true)), None),
        ("threaded", 0, 0, 0, None, None),
        ("workqueue", 0, 0, 0, None, None),
        ("threaded-busy-poll", 0, 0, 0, None, None),
    ];
    for (name, defer_hard_irqs, gft, ist, epoll, wait_timeout_ns) in table {
        let params = Mode::parse(name).unwrap().params();
        let got = (params.defer_hard_irqs, params.gro_flush_timeout_ns, params.irq_suspend_timeout_ns);
        assert_eq!(got, (defer_hard_irqs, gft, ist), "{name}");
        let epoll = epoll.map(|(busy_poll_usecs, busy_poll_budget, prefer_busy_poll)| EventParams {
            busy_poll_usecs,
            busy_poll_budget,
            prefer_busy_poll,
        });
        assert_eq!(params.server, ServerStyle::EventContext { params: epoll, wait_timeout_ns }, "{name}");
    }
    let params = Mode::BusyRead.params();
    assert_eq!((params.defer_hard_irqs, params.gro_flush_timeout_ns), (100, 15_000));
    assert_eq!(params.server, ServerStyle::BlockingReceive { busy_poll_usecs: 400, prefer_busy_poll: true });
}

#[test]
fn contexts_and_cpus() {
    let of = |name: &str| (Mode::parse(name).unwrap().params().threaded, Mode::parse(name).unwrap().server_cpus(2));
    assert_eq!(of("fullbusy"), (ThreadedSetting::Disabled, 2));
    assert_eq!(of("threaded"), (ThreadedSetting::Enabled, 2));
    assert_eq!(of("workqueue"), (ThreadedSetting::Workqueue, 2));
    assert_eq!(of("threaded-busy-poll"), (ThreadedSetting::BusyPoll, 4));
}

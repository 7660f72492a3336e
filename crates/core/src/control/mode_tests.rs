use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::mem;

use super::*;

#[test]
fn names_and_modes_are_one_to_one() {
    for name in "base defer1 defer20 defer1000000 napibusy fullbusy suspend0 suspend1 suspend19999 threaded workqueue \
                 threaded-busy-poll busy-read group"
        .split_whitespace()
    {
        assert_eq!(name.parse::<Mode>().unwrap().to_string(), name);
    }
    assert_eq!(format!("{:>8}|", Mode::Base), "    base|");
}

#[test]
fn what_is_no_mode_is_refused_with_what_is() {
    for name in ["", "Base", "defer", "defer-1", "defer020", "defer+2", "suspend", "suspend00", "groups"] {
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
fn the_names_are_those_that_are_accepted() {
    let accepted = ACCEPTED.replace(" (X in us, such as defer20)", "");
    assert_eq!(accepted.split(", ").collect::<Vec<_>>(), NAMES);
}

#[test]
fn lists() {
    assert_eq!(Mode::parse_list("base, suspend20"), Ok(vec![Mode::Base, Mode::Suspend { us: 20 }]));
    for list in ["", " , ", "base,,suspend20", "base,", ",base"] {
        assert_eq!(Mode::parse_list(list), Err(ModeError::Empty), "{list:?}");
    }
    assert_eq!(Mode::parse_list("base,base"), Err(ModeError::Twice { name: "base".to_owned() }));
}

/// Every mode and its writes, in their order.
#[test]
fn plans_are_the_cover_letters() {
    let off = "defer-hard-irqs 0, gro-flush-timeout 0 ns, irq-suspend-timeout 0 ns, threaded";
    let table = [
        ("base", format!("{off} disabled")),
        ("defer20", instance(20_000, 0)),
        ("defer1000000", instance(1_000_000_000, 0)),
        ("napibusy", instance(200_000, 0) + &context(64)),
        ("fullbusy", instance(5_000_000, 0) + &context(1000) + ", a wait of at most 1000000 ns"),
        (
            "suspend0",
            "defer-hard-irqs 0, gro-flush-timeout 0 ns, irq-suspend-timeout 20000000 ns, threaded disabled".to_owned()
                + &context(0),
        ),
        ("suspend20", instance(20_000, 20_000_000) + &context(0)),
        ("threaded", format!("{off} enabled")),
        ("workqueue", format!("{off} workqueue")),
        ("threaded-busy-poll", format!("{off} busy-poll")),
        ("busy-read", instance(15_000, 0) + ", SO_BUSY_POLL 400, SO_PREFER_BUSY_POLL 1"),
    ];
    for (name, writes) in table {
        let plan = Mode::parse(name).unwrap().plan();
        let said: Vec<String> = plan.writes().map(ToString::to_string).collect();
        assert_eq!(said.join(", "), writes, "{name}");
    }
    fn instance(flush_ns: u64, suspend_ns: u64) -> String {
        format!(
            "defer-hard-irqs 100, gro-flush-timeout {flush_ns} ns, irq-suspend-timeout {suspend_ns} ns, threaded disabled"
        )
    }
    fn context(usecs: u32) -> String {
        format!(", busy_poll_usecs {usecs}, budget 64, prefer 1 (EPIOCSPARAMS)")
    }
}

/// From any mode to any other, in the engine and on a program's way back: nothing of the first is left.
#[test]
fn a_mode_sets_all_of_an_instance() {
    let kinds = |mode: Mode| mode.plan().changes().map(|change| mem::discriminant(&change)).collect::<Vec<_>>();
    let all = NAMES.map(|name| Mode::parse(&name.replace('X', "20")).unwrap());
    for mode in all {
        assert_eq!(kinds(mode), kinds(Mode::Base), "{mode}");
    }
    assert_eq!(kinds(Mode::Base).len(), 4);
}

#[test]
fn cpus() {
    let of = |name: &str| Mode::parse(name).unwrap().server_cpus(2);
    assert_eq!(["fullbusy", "threaded", "workqueue", "threaded-busy-poll", "group"].map(of), [2, 2, 2, 4, 4]);
}

#[test]
fn a_number_with_a_unit_is_told_what_it_means() {
    for (name, said) in [
        ("suspend20us", "`suspend20us` is no mode: X is in us and has no unit, so give suspend20"),
        ("suspend2ms", "`suspend2ms` is no mode: X is in us and has no unit, so give suspend2000"),
        ("defer1s", "`defer1s` is no mode: X is in us and has no unit, so give defer1000000"),
        ("suspend20 us", "`suspend20 us` is no mode: X is in us and has no unit, so give suspend20"),
        ("suspend 20", "`suspend 20` is no mode: X is in us and has no unit, so give suspend20"),
        ("suspend0.02ms", "`suspend0.02ms` is no mode: X is in us and has no unit, so give suspend20"),
        ("defer20ms", "`defer20ms` is no mode: X is in us and has no unit, so give defer20000"),
        (
            "suspend20ms",
            "`suspend20ms` is no mode: X is in us and has no unit, so that is 20000, and X is from 1 to 19999",
        ),
    ] {
        assert_eq!(Mode::parse(name).unwrap_err().to_string(), said);
    }
    for text in ["suspend0us", "suspend500ns", "suspend-20us", "suspend1.2.3us", "defer1e9s"] {
        assert!(matches!(Mode::parse(text), Err(ModeError::Unknown { .. })), "{text}");
    }
}

#[test]
fn what_polls_and_what_it_takes_is_said() {
    let epoll = "a program that waits in epoll";
    let rows = [
        ("base", false, true, None, "a softirq polls"),
        ("defer20", false, true, Some("Linux 5.8"), "a timer of 20 us polls in its place"),
        ("napibusy", false, true, Some(epoll), "200 us"),
        ("fullbusy", false, true, Some(epoll), "never idle"),
        ("suspend0", false, true, Some(epoll), "an idle one has interrupts"),
        ("suspend20", false, true, Some(epoll), "a timer of 20 us polls"),
        ("threaded", true, true, Some("Linux 5.12"), "the scheduler sees"),
        ("workqueue", true, false, None, "a pool"),
        ("threaded-busy-poll", true, true, Some("Linux 6.19"), "for ever"),
        ("busy-read", false, false, None, "a blocking receive"),
        ("group", false, false, None, "all programs"),
    ];
    for (name, threaded, simulated, asks, words) in rows {
        let mode = Mode::parse(name).unwrap();
        assert_eq!((mode.is_threaded(), mode.is_simulated()), (threaded, simulated), "{name}");
        assert_eq!(mode.asks_for().is_some(), asks.is_some(), "{name}");
        assert!(mode.asks_for().unwrap_or_default().contains(asks.unwrap_or_default()), "{name}");
        assert!(mode.in_words().contains(words), "{name}: {}", mode.in_words());
    }
    assert_eq!(Mode::ThreadedBusyPoll.server_cpus(3), 6);
}

#[test]
fn a_number_with_a_unit_may_be_any_that_a_name_could_mean() {
    for (name, meant) in [("defer20000ns", 20), ("defer2000s", 2_000_000_000)] {
        assert!(matches!(Mode::parse(name), Err(ModeError::Unit { us, .. }) if us == meant), "{name}");
    }
}

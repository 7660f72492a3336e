use alloc::format;

use super::*;

const FIRST: u32 = 9;
const N1: u32 = 20;
const N2: u32 = 21;
const OFF: EpollParams = EpollParams { busy_poll_usecs: 0, busy_poll_budget: 0, prefer_busy_poll: false };
const PREFER: EpollParams = EpollParams { prefer_busy_poll: true, ..OFF };
const NOW: Instant = Instant::from_ns(5_000_000);

fn usecs(busy_poll_usecs: u32) -> EpollParams {
    EpollParams { busy_poll_usecs, ..OFF }
}

#[test]
fn parameter_checks_in_order() {
    let request = |busy_poll_usecs, busy_poll_budget, prefer_busy_poll, pad| EpollParamsRequest {
        busy_poll_usecs,
        busy_poll_budget,
        prefer_busy_poll,
        pad,
    };
    let invalid = |field| Err(EpollParamsError::Invalid(field));
    let too_long = 1 << 31;
    let rows = [
        // All that can be wrong at once, then one thing less each time.
        (request(too_long, 65, 2, 1), false, invalid("pad")),
        (request(too_long, 65, 2, 0), false, invalid("busy_poll_usecs")),
        (request(0, 65, 2, 0), false, invalid("prefer_busy_poll")),
        (request(0, 65, 1, 1), false, invalid("pad")),
        (request(0, 65, 1, 0), false, Err(EpollParamsError::NotPermitted)),
        (request(u32::MAX, 0, 0, 0), true, invalid("busy_poll_usecs")),
    ];
    for (request, cap, want) in rows {
        assert_eq!(request.check(cap), want, "{request:?} {cap}");
    }
    for (request, cap) in [
        (request(0, 0, 0, 0), false),
        (request(too_long - 1, 64, 1, 0), false),
        (request(too_long - 1, u16::MAX, 1, 0), true),
        (request(0, 65, 0, 0), true),
    ] {
        let params = request.check(cap).unwrap();
        assert_eq!(params.busy_poll_usecs, request.busy_poll_usecs);
        assert_eq!(params.busy_poll_budget, request.busy_poll_budget);
        assert_eq!(params.prefer_busy_poll, request.prefer_busy_poll == 1);
    }
    assert_eq!(EpollParams::default(), OFF);
    assert_eq!(EpollParamsError::NotPermitted.errno(), Errno::EPERM);
    assert_eq!(EpollParamsError::Invalid("pad").errno(), Errno::EINVAL);
    for error in [EpollParamsError::NotPermitted, EpollParamsError::Invalid("prefer_busy_poll")] {
        assert!(format!("{error}").starts_with(error.errno().name()));
    }
}

#[test]
fn on_by_any_of_three() {
    assert!(!busy_poll_on(&OFF, 0));
    assert!(busy_poll_on(&usecs(1), 0) && busy_poll_on(&PREFER, 0) && busy_poll_on(&OFF, 1));
    assert!(!busy_poll_on(&EpollParams { busy_poll_budget: 64, ..OFF }, 0), "a budget alone turns nothing on");
}

/// The last event wins; ids that are none, and contexts that are off, leave the slot alone.
#[test]
fn attaching() {
    assert_eq!(attach(0, &PREFER, 0, N1, FIRST), N1);
    assert_eq!(attach(N1, &PREFER, 0, N2, FIRST), N2);
    assert_eq!(attach(N1, &PREFER, 0, 0, FIRST), N1);
    assert_eq!(attach(N1, &PREFER, 0, FIRST - 1, FIRST), N1);
    assert_eq!(attach(N1, &PREFER, 0, FIRST, FIRST), FIRST);
    assert_eq!(attach(0, &OFF, 0, N1, FIRST), 0, "parameters come before the member, or before its next event");
    assert_eq!(attach(0, &OFF, 100, N1, FIRST), N1);
}

#[test]
fn the_busy_loop_of_a_context() {
    let limit = |p: &EpollParams, sysctl| ep_busy_loop(N1, p, sysctl, FIRST).map(|params| params.limit);
    assert_eq!(limit(&OFF, 0), None);
    assert_eq!(limit(&PREFER, 0), Some(BusyLimit::For(0)), "prefer alone: one iteration");
    assert_eq!(limit(&usecs(100), 7), Some(BusyLimit::For(100)));
    assert_eq!(limit(&OFF, 100), Some(BusyLimit::For(100)));
    assert_eq!(ep_busy_loop(0, &PREFER, 100, FIRST), None, "empty slot: no loop");
    assert_eq!(ep_busy_loop(FIRST - 1, &PREFER, 100, FIRST), None);
    let all = EpollParams { busy_poll_usecs: 5, busy_poll_budget: 16, prefer_busy_poll: true };
    let want = BusyParams { prefer: true, budget_pkts: 16, limit: BusyLimit::For(5) };
    assert_eq!(ep_busy_loop(FIRST, &all, 0, FIRST), Some(want));
    assert_eq!(ep_busy_loop(N1, &usecs(5), 0, FIRST).unwrap().budget_pkts(), 8);
    assert!(!ep_busy_loop(N1, &usecs(5), 0, FIRST).unwrap().prefer);
}

/// A context with sockets of two instances polls the one whose event came last.
#[test]
fn the_slot_flips() {
    let slot = attach(0, &PREFER, 0, N1, FIRST);
    let slot = attach(slot, &PREFER, 0, N2, FIRST);
    assert!(ep_busy_loop(slot, &PREFER, 0, FIRST).is_some());
    assert_eq!(after_busy_loop(slot, &PREFER, false), EpollAfter::Resume { napi_id: N2 });
}

#[test]
fn after_the_loop() {
    assert_eq!(after_busy_loop(N1, &PREFER, true), EpollAfter::Events);
    assert_eq!(after_busy_loop(N1, &PREFER, false), EpollAfter::Resume { napi_id: N1 });
    assert_eq!(after_busy_loop(N1, &usecs(100), true), EpollAfter::Events);
    assert_eq!(after_busy_loop(N1, &usecs(100), false), EpollAfter::Nothing);
}

#[test]
fn suspension_needs_prefer_and_a_slot() {
    for rule in [suspend_on_events, resume_on_close] {
        assert_eq!(rule(N1, &PREFER, FIRST), Some(N1));
        assert_eq!(rule(FIRST, &PREFER, FIRST), Some(FIRST));
        assert_eq!(rule(0, &PREFER, FIRST), None);
        assert_eq!(rule(FIRST - 1, &PREFER, FIRST), None);
        assert_eq!(rule(N1, &usecs(100), FIRST), None, "prefer was cleared: only the timer ends a suspension");
    }
}

#[test]
fn suspend_and_resume_need_the_timeout() {
    let t = |ist| Tunables { irq_suspend_timeout: ist, ..Tunables::default() };
    assert_eq!(suspend(&t(Span::from_ms(40))), Some(Span::from_ms(40)));
    assert!(resume(&t(Span::from_ms(40))));
    assert_eq!(suspend(&t(Span::ZERO)), None);
    assert!(!resume(&t(Span::ZERO)));
}

#[test]
fn a_wait_of_zero_neither_polls_nor_sleeps() {
    let wait = EpollWait::new(NOW, Some(Span::ZERO), false);
    assert_eq!(wait.next(), WaitStep::Return0);
    let mut wait = EpollWait::new(NOW, Some(Span::ZERO), true);
    assert_eq!(wait.next(), WaitStep::Transfer);
    wait.on_transferred(0);
    assert_eq!(wait.next(), WaitStep::Return0, "what looked ready was not: no loop either");
}

#[test]
fn events_that_are_there_are_returned_without_a_poll() {
    for timeout in [None, Some(Span::ZERO), Some(Span::from_ms(1))] {
        let mut wait = EpollWait::new(NOW, timeout, true);
        assert_eq!(wait.next(), WaitStep::Transfer);
        wait.on_transferred(1);
    }
}

#[test]
fn one_busy_loop_before_each_sleep() {
    let timeout = Span::from_ms(3);
    let until = Deadline::after(NOW, timeout);
    let mut wait = EpollWait::new(NOW, Some(timeout), false);
    assert_eq!(wait.next(), WaitStep::BusyLoop);
    wait.on_busy(false);
    assert_eq!(wait.next(), WaitStep::Sleep { until });
    wait.on_woken(true);
    assert_eq!(wait.next(), WaitStep::Transfer);
    wait.on_transferred(0);
    assert_eq!(wait.next(), WaitStep::BusyLoop, "woken for nothing: round again, same deadline");
    wait.on_busy(false);
    assert_eq!(wait.next(), WaitStep::Sleep { until });
    wait.on_woken(false);
    assert_eq!(wait.next(), WaitStep::Return0);
}

#[test]
fn events_from_the_busy_loop_are_transferred() {
    let mut wait = EpollWait::new(NOW, None, false);
    wait.on_busy(true);
    assert_eq!(wait.next(), WaitStep::Transfer);
    wait.on_transferred(0);
    assert_eq!(wait.next(), WaitStep::BusyLoop);
    wait.on_busy(false);
    assert_eq!(wait.next(), WaitStep::Sleep { until: Deadline::NEVER });
}

#[test]
#[should_panic(expected = "the wait has returned its events")]
fn a_wait_is_over_once_events_were_returned() {
    let mut wait = EpollWait::new(NOW, None, true);
    wait.on_transferred(2);
    let _ = wait.next();
}

#[test]
#[should_panic(expected = "ends with events")]
fn a_sleep_without_deadline_cannot_time_out() {
    let mut wait = EpollWait::new(NOW, None, false);
    wait.on_busy(false);
    wait.on_woken(false);
}

#[test]
fn parameters_are_asked_for_as_they_are() {
    let params = EpollParams { busy_poll_usecs: 64, busy_poll_budget: 8, prefer_busy_poll: true };
    let want = EpollParamsRequest { busy_poll_usecs: 64, busy_poll_budget: 8, prefer_busy_poll: 1, pad: 0 };
    assert_eq!(EpollParamsRequest::from(params), want);
}

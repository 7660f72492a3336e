use super::*;

const START: Instant = Instant::from_ns(7 << 10);
const MS5: Option<Span> = Some(Span::from_ms(5));
const NOTHING: Scanned = Scanned { ready: false, may_busy_poll: false, need_resched: false, signal: false };
const BUSY: Scanned = Scanned { may_busy_poll: true, ..NOTHING };

/// `units` of 1024 ns after the start.
fn after(units: u64) -> Instant {
    START + Span::from_ns(units << 10)
}

/// Scans with no news, one unit each, until the call does something else; (scans that busy polled, the next step).
fn scans(mut call: PollScan, seen: Scanned) -> (u64, ScanStep) {
    for scan in 0.. {
        match call.next() {
            ScanStep::Scan { busy: true } => call.on_scanned(after(scan + 1), seen),
            other => return (scan, other),
        }
    }
    unreachable!()
}

/// Scenario 37. Each scan of one socket is two polls: the iteration and the stop.
#[test]
fn how_often_a_call_busy_polls() {
    let sleep = ScanStep::Sleep { until: Deadline::after(START, Span::from_ms(5)) };
    // Off: an ordinary scan, then sleep, whatever the sockets would do.
    let mut call = PollScan::new(START, MS5, 0);
    assert_eq!(call.next(), ScanStep::Scan { busy: false });
    call.on_scanned(after(1), BUSY);
    assert_eq!(call.next(), sleep);
    // Sockets that may not: the first scan asks them, in vain.
    assert_eq!(scans(PollScan::new(START, MS5, 100), NOTHING), (1, sleep));
    // 100 units from the end of the first scan (at 1): the scan that ends at 101 is followed by one more.
    assert_eq!(scans(PollScan::new(START, MS5, 100), BUSY), (102, sleep));
    assert_eq!(scans(PollScan::new(START, MS5, 1), BUSY), (3, sleep));
    // Time-out 0: exactly one.
    let end = ScanStep::Return(ScanEnd::TimedOut);
    assert_eq!(scans(PollScan::new(START, Some(Span::ZERO), 100), BUSY), (1, end));
    assert_eq!(scans(PollScan::new(START, Some(Span::ZERO), 100), NOTHING), (1, end));
}

/// What a first scan came to -> the step that follows, for a call of 5 ms and a call of 0.
#[test]
fn after_the_first_scan() {
    let sleep = ScanStep::Sleep { until: Deadline::after(START, Span::from_ms(5)) };
    let again = ScanStep::Scan { busy: true };
    let end = ScanStep::Return;
    let timed_out = end(ScanEnd::TimedOut);
    for (seen, want, want_zero) in [
        (NOTHING, sleep, timed_out),
        (BUSY, again, timed_out),
        (Scanned { need_resched: true, ..BUSY }, sleep, timed_out),
        (Scanned { signal: true, ..NOTHING }, end(ScanEnd::Signal), end(ScanEnd::Signal)),
        (Scanned { signal: true, ..BUSY }, end(ScanEnd::Signal), end(ScanEnd::Signal)),
        (Scanned { ready: true, ..BUSY }, end(ScanEnd::Ready), end(ScanEnd::Ready)),
        (Scanned { ready: true, signal: true, ..BUSY }, end(ScanEnd::Ready), end(ScanEnd::Ready)),
        (Scanned { ready: true, need_resched: true, ..NOTHING }, end(ScanEnd::Ready), end(ScanEnd::Ready)),
    ] {
        for (timeout, want) in [(MS5, want), (Some(Span::ZERO), want_zero)] {
            let mut call = PollScan::new(START, timeout, 100);
            call.on_scanned(after(1), seen);
            assert_eq!(call.next(), want, "{seen:?} {timeout:?}");
        }
    }
}

/// What a later scan came to, in time.
#[test]
fn a_reschedule_ends_the_busy_polling_at_any_scan() {
    let mut call = PollScan::new(START, None, 100);
    call.on_scanned(after(1), BUSY);
    call.on_scanned(after(2), BUSY);
    assert_eq!(call.next(), ScanStep::Scan { busy: true });
    call.on_scanned(after(3), Scanned { need_resched: true, ..BUSY });
    assert_eq!(call.next(), ScanStep::Sleep { until: Deadline::NEVER });
}

#[test]
fn the_clock_starts_at_the_end_of_the_first_scan() {
    let mut call = PollScan::new(START, None, 10);
    // A long first scan takes nothing from the time, even if it took longer than the limit.
    call.on_scanned(after(1000), BUSY);
    call.on_scanned(after(1010), BUSY);
    assert_eq!(call.next(), ScanStep::Scan { busy: true });
    call.on_scanned(after(1011), BUSY);
    assert_eq!(call.next(), ScanStep::Sleep { until: Deadline::NEVER });
}

/// The time-out of the call counts only when it sleeps.
#[test]
fn a_call_spins_past_its_own_time_out() {
    let mut call = PollScan::new(START, Some(Span::from_ns(5 << 10)), 100);
    for scan in 1..=50 {
        call.on_scanned(after(scan), BUSY);
        assert_eq!(call.next(), ScanStep::Scan { busy: true });
    }
    call.on_scanned(after(102), BUSY);
    assert_eq!(call.next(), ScanStep::Sleep { until: Deadline::at(after(5)) });
}

#[test]
fn after_a_sleep_it_busy_polls_no_more() {
    for timed_out in [false, true] {
        let mut call = PollScan::new(START, MS5, 100);
        call.on_scanned(after(1), NOTHING);
        call.on_woken(timed_out);
        assert_eq!(call.next(), ScanStep::Scan { busy: false });
        call.on_scanned(after(2), BUSY);
        let until = Deadline::after(START, Span::from_ms(5));
        let want = if timed_out { ScanStep::Return(ScanEnd::TimedOut) } else { ScanStep::Sleep { until } };
        assert_eq!(call.next(), want);
    }
}

/// A member that became ready at the last moment is returned, and so is one that came with a signal.
#[test]
fn the_scan_after_the_sleep_decides() {
    for (timed_out, seen, want) in [
        (true, Scanned { ready: true, ..NOTHING }, ScanEnd::Ready),
        (true, NOTHING, ScanEnd::TimedOut),
        (true, Scanned { signal: true, ..NOTHING }, ScanEnd::Signal),
        (false, Scanned { signal: true, ..NOTHING }, ScanEnd::Signal),
        (false, Scanned { signal: true, ready: true, ..NOTHING }, ScanEnd::Ready),
    ] {
        let mut call = PollScan::new(START, MS5, 0);
        call.on_scanned(after(1), NOTHING);
        call.on_woken(timed_out);
        call.on_scanned(after(2), seen);
        assert_eq!(call.next(), ScanStep::Return(want), "{timed_out} {seen:?}");
    }
}

#[test]
#[should_panic(expected = "does not time out")]
fn a_sleep_without_deadline_cannot_time_out() {
    let mut call = PollScan::new(START, None, 0);
    call.on_scanned(after(1), NOTHING);
    call.on_woken(true);
}

#[test]
#[should_panic(expected = "answers Scan")]
fn a_call_that_has_returned_scans_no_more() {
    let mut call = PollScan::new(START, None, 0);
    call.on_scanned(after(1), Scanned { ready: true, ..NOTHING });
    call.on_scanned(after(2), NOTHING);
}

use alloc::vec::Vec;

use super::*;
use crate::state::State;

const START: Instant = Instant::from_ns(1 << 20);
const UNIT: u64 = 1024;

fn params(limit: BusyLimit) -> BusyParams {
    BusyParams { prefer: false, budget_pkts: 0, limit }
}

fn after(units: u64) -> Instant {
    START + Span::from_ns(units * UNIT)
}

fn tunables(dhi: u32, gft: Span) -> Tunables {
    Tunables { defer_hard_irqs: dhi, gro_flush_timeout: gft, irq_suspend_timeout: Span::from_secs(1) }
}

#[test]
fn the_unit_is_1024_ns() {
    assert_eq!(busy_clock(Instant::from_ns(1023)), 0);
    assert_eq!(busy_clock(Instant::from_ns(1024)), 1);
    assert_eq!(busy_clock(Instant::from_ns(204_800)), 200);
}

#[test]
fn expiry_is_strict_and_survives_a_wrap() {
    assert!(busy_expired(5, 0, 5), "0 has expired from the beginning");
    assert!(!busy_expired(5, 200, 204) && !busy_expired(5, 200, 205) && busy_expired(5, 200, 206));
    let start = u64::MAX - 10;
    assert!(!busy_expired(start, 20, start) && !busy_expired(start, 20, 9) && busy_expired(start, 20, 10));
    assert!(!busy_expired(100, u32::MAX, 100 + u64::from(u32::MAX)));
    assert!(busy_expired(100, u32::MAX, 101 + u64::from(u32::MAX)));
    // The half of the range that counts as past begins one unit after the end and includes its far edge.
    assert!(busy_expired(5, 200, 205 + (1 << 63)) && !busy_expired(5, 200, 206 + (1 << 63)));
}

/// A call that does not block: one poll, then the stop.
#[test]
fn once_polls_once() {
    for budget in [0, 8, 64, u16::MAX] {
        let mut busy = BusyLoop::new(BusyParams { budget_pkts: budget, ..params(BusyLimit::Once) }, START);
        assert_eq!(busy.next(), BusyStep::Acquire);
        assert!(!busy.owner());
        busy.on_acquire(true);
        assert!(busy.owner());
        let budget_pkts = if budget == 0 { 8 } else { budget };
        assert_eq!(busy.next(), BusyStep::Poll { budget_pkts });
        busy.on_polled(0);
        assert_eq!(busy.next(), BusyStep::Stop);
        assert!(busy.owner());
        busy.on_stopped();
        assert_eq!(busy.next(), BusyStep::Leave);
        assert!(!busy.owner());
    }
}

#[test]
fn once_leaves_when_somebody_else_owns_it() {
    let mut busy = BusyLoop::new(params(BusyLimit::Once), START);
    busy.on_acquire(false);
    assert_eq!(busy.next(), BusyStep::Leave);
}

/// Polls at the clock values given until the loop wants to stop; returns the polls made.
fn polls_until_stop(limit: u32, clock: impl IntoIterator<Item = u64>) -> usize {
    let mut busy = BusyLoop::new(params(BusyLimit::For(limit)), START);
    busy.on_acquire(true);
    for (polls, units) in clock.into_iter().enumerate() {
        busy.on_polled(0);
        assert_eq!(busy.next(), BusyStep::CheckEnd);
        busy.on_ended(after(units), false, false);
        if busy.next() == BusyStep::Stop {
            return polls + 1;
        }
        assert_eq!(busy.next(), BusyStep::Poll { budget_pkts: 8 });
    }
    panic!("the loop did not end");
}

/// SO_BUSY_POLL 200 spins for more than 200 units and stops at 201.
#[test]
fn the_limit_is_looked_at_after_each_iteration() {
    assert_eq!(polls_until_stop(200, [100, 199, 200, 201, 202]), 4);
    assert_eq!(polls_until_stop(200, [500]), 1, "at least one poll");
    assert_eq!(polls_until_stop(0, [0]), 1, "limit 0: one iteration, even within the first unit");
}

#[test]
fn events_end_the_loop_and_packets_inside_count() {
    let mut busy = BusyLoop::new(params(BusyLimit::For(1000)), START);
    busy.on_acquire(true);
    busy.on_polled(3);
    busy.on_ended(START, false, false);
    busy.on_polled(8);
    busy.on_ended(START, true, false);
    assert_eq!(busy.next(), BusyStep::Stop);
    busy.on_stopped();
    assert_eq!(busy.next(), BusyStep::Leave);
    assert_eq!(busy.rx_pkts(), 11);
}

/// A loser asks again and again, with its own end condition, and never stops what it does not own.
#[test]
fn a_loser_spins_without_polling() {
    let mut busy = BusyLoop::new(params(BusyLimit::For(10)), START);
    for units in 0..=10 {
        assert_eq!(busy.next(), BusyStep::Acquire);
        busy.on_acquire(false);
        assert_eq!(busy.next(), BusyStep::CheckEnd);
        busy.on_ended(after(units), false, false);
    }
    busy.on_acquire(false);
    busy.on_ended(after(11), false, false);
    assert_eq!(busy.next(), BusyStep::Leave);
    // It becomes owner in the middle.
    let mut busy = BusyLoop::new(params(BusyLimit::For(10)), START);
    busy.on_acquire(false);
    busy.on_ended(after(1), false, false);
    busy.on_acquire(true);
    assert_eq!(busy.next(), BusyStep::Poll { budget_pkts: 8 });
}

/// Somebody wants the CPU: stop, yield, become owner again; the time limit counts from the first start.
#[test]
fn a_reschedule_does_not_renew_the_time() {
    let mut busy = BusyLoop::new(params(BusyLimit::For(100)), START);
    busy.on_acquire(true);
    busy.on_polled(0);
    busy.on_ended(after(50), false, true);
    assert_eq!(busy.next(), BusyStep::Stop);
    assert!(busy.owner());
    busy.on_stopped();
    assert_eq!(busy.next(), BusyStep::Yield);
    assert!(!busy.owner());
    busy.on_yielded(after(90), false);
    assert_eq!(busy.next(), BusyStep::Acquire);
    busy.on_acquire(true);
    busy.on_polled(0);
    busy.on_ended(after(101), false, false);
    assert_eq!(busy.next(), BusyStep::Stop);
    busy.on_stopped();
    assert_eq!(busy.next(), BusyStep::Leave);
}

#[test]
fn after_a_yield_the_end_is_looked_at_first() {
    for (units, ready) in [(101, false), (60, true)] {
        let mut busy = BusyLoop::new(params(BusyLimit::For(100)), START);
        busy.on_acquire(false);
        busy.on_ended(after(50), false, true);
        assert_eq!(busy.next(), BusyStep::Yield, "a loser has nothing to stop");
        busy.on_yielded(after(units), ready);
        assert_eq!(busy.next(), BusyStep::Leave);
    }
}

#[test]
fn the_end_goes_before_a_reschedule() {
    let mut busy = BusyLoop::new(params(BusyLimit::For(100)), START);
    busy.on_acquire(true);
    busy.on_polled(1);
    busy.on_ended(after(1), true, true);
    busy.on_stopped();
    assert_eq!(busy.next(), BusyStep::Leave);
}

#[test]
fn the_rcu_variant_leaves_on_a_reschedule() {
    for owner in [true, false] {
        let mut busy = BusyLoop::new_rcu(params(BusyLimit::For(100)), START);
        busy.on_acquire(owner);
        if owner {
            busy.on_polled(0);
        }
        busy.on_ended(after(1), false, true);
        if owner {
            assert_eq!(busy.next(), BusyStep::Stop);
            busy.on_stopped();
        }
        assert_eq!(busy.next(), BusyStep::Leave);
    }
}

#[test]
fn stop_decision_table() {
    let g = Span::from_ms(3);
    let rows = [
        // prefer, dhi, gft, left before -> decision, left after
        (false, 2, g, 0, BusyStop::PollOnce, 0),
        (false, 2, g, 1, BusyStop::PollOnce, 1),
        (true, 0, Span::ZERO, 7, BusyStop::PollOnce, 0),
        (true, 0, g, 7, BusyStop::PollOnce, 0),
        (true, 2, Span::ZERO, 0, BusyStop::PollOnce, 2),
        (true, 2, g, 0, BusyStop::ArmTimer(g), 2),
        (true, 2, g, 1, BusyStop::ArmTimer(g), 2),
        (true, 1, g, 0, BusyStop::ArmTimer(g), 1),
    ];
    for (prefer, dhi, gft, left, want, left_after) in rows {
        let mut defers_left = left;
        assert_eq!(busy_poll_stop(prefer, &tunables(dhi, gft), &mut defers_left), want);
        assert_eq!(defers_left, left_after, "prefer={prefer} dhi={dhi} gft={gft:?} left={left}");
    }
}

/// The stop loads `dhi` and spends none: after it `dhi + 1` timers and empty polls pass, the last one unmasks.
#[test]
fn one_more_timer_than_deferrals_after_a_prefer_stop() {
    use crate::completion::{Completed, Completion, complete};
    let t = tunables(2, Span::from_ms(3));
    let mut left = 0;
    let BusyStop::ArmTimer(_) = busy_poll_stop(true, &t, &mut left) else { panic!() };
    let mut timers = 1;
    loop {
        let state = State::LISTED.timer_acquire().unwrap();
        let Completion::Release(release) = complete(state, 0, false, &t, &mut left) else { panic!() };
        match release.finish(false) {
            Completed::Released { arm: Some(_), unmask: false } => timers += 1,
            Completed::Released { arm: None, unmask: true } => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(timers, 3);
}

#[test]
fn a_full_stop_poll_hands_over() {
    assert_eq!(after_stop_poll(8, 8), AfterStopPoll::HandOver);
    assert_eq!(after_stop_poll(7, 8), AfterStopPoll::Gone);
    assert_eq!(after_stop_poll(0, 8), AfterStopPoll::Gone);
    assert_eq!(after_stop_poll(64, 64), AfterStopPoll::HandOver);
}

#[test]
fn answers_out_of_turn_are_our_mistake() {
    extern crate std;
    let answers: [fn(&mut BusyLoop); 5] = [
        |busy| busy.on_acquire(true),
        |busy| busy.on_polled(0),
        |busy| busy.on_ended(START, false, false),
        BusyLoop::on_stopped,
        |busy| busy.on_yielded(START, false),
    ];
    let mut acquiring = BusyLoop::new(params(BusyLimit::For(1)), START);
    let mut phases = alloc::vec![acquiring.clone()];
    acquiring.on_acquire(true);
    phases.push(acquiring.clone());
    acquiring.on_polled(0);
    phases.push(acquiring.clone());
    acquiring.on_ended(START, false, true);
    phases.push(acquiring.clone());
    acquiring.on_stopped();
    phases.push(acquiring.clone());
    for (right, phase) in phases.iter().enumerate() {
        let accepted: Vec<_> = answers
            .iter()
            .enumerate()
            .filter(|(_, answer)| {
                let mut busy = phase.clone();
                std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| answer(&mut busy))).is_ok()
            })
            .map(|(at, _)| at)
            .collect();
        assert_eq!(accepted, [right], "{phase:?}");
    }
}

#[test]
#[should_panic(expected = "more than its budget")]
fn a_poll_may_not_exceed_its_budget() {
    let mut busy = BusyLoop::new(params(BusyLimit::Once), START);
    busy.on_acquire(true);
    busy.on_polled(9);
}

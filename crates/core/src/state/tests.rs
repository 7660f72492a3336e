use alloc::format;

use super::*;

const S: State = State::SCHED;
const IDLE: State = State::LISTED;
const OWNED: State = State::LISTED.with(S);
const BUSY: State = OWNED.with(State::IN_BUSY_POLL);
const BY_THREAD: State = OWNED.with(State::THREADED).with(State::SCHED_THREADED);
const DISABLED: State = State::ADDED;
const DISABLING: State = State::DISABLE.with(State::LISTED);

/// Every word of the kernel's bits and `POOL`; a sample of them where each costs a lot.
fn all() -> impl Iterator<Item = State> {
    (0..1 << 13).step_by(if cfg!(miri) { 61 } else { 1 }).map(State::from_bits)
}

#[test]
fn bit_numbers_and_names_are_the_kernels() {
    let names = [
        (State::SCHED, "SCHED"),
        (State::MISSED, "MISSED"),
        (State::DISABLE, "DISABLE"),
        (State::NPSVC, "NPSVC"),
        (State::LISTED, "LISTED"),
        (State::NO_BUSY_POLL, "NO_BUSY_POLL"),
        (State::IN_BUSY_POLL, "IN_BUSY_POLL"),
        (State::PREFER_BUSY_POLL, "PREFER_BUSY_POLL"),
        (State::THREADED, "THREADED"),
        (State::SCHED_THREADED, "SCHED_THREADED"),
        (State::HAS_NOTIFIER, "HAS_NOTIFIER"),
        (State::THREADED_BUSY_POLL, "THREADED_BUSY_POLL"),
        (State::POOL, "POOL"),
        (State::GROUP, "GROUP"),
    ];
    for (number, (bit, name)) in names.into_iter().enumerate() {
        assert_eq!(bit.bits(), 1 << number);
        assert_eq!(format!("{bit:?}"), format!("State({name})"));
    }
    assert_eq!(format!("{:?}", State::ADDED), "State(SCHED|NPSVC|LISTED)");
    assert_eq!(format!("{:?}", State::from_bits(0x1_0001)), "State(SCHED|0x10000)");
    assert_eq!(format!("{:?}", State::EMPTY), "State()");
}

#[test]
fn set_operations() {
    assert!(OWNED.contains(S) && OWNED.contains(OWNED) && !OWNED.contains(BUSY));
    assert!(OWNED.intersects(BUSY) && !IDLE.intersects(S) && !OWNED.intersects(State::EMPTY));
    assert_eq!(OWNED.without(S), IDLE);
    assert_eq!(IDLE.with(S), OWNED);
}

#[test]
fn schedule_prep_on_every_word() {
    for state in all() {
        let (next, got) = state.schedule_prep();
        if state.contains(State::DISABLE) {
            assert_eq!((next, got), (state, false));
        } else if state.contains(S) {
            assert_eq!((next, got), (state.with(State::MISSED), false));
        } else {
            assert_eq!((next, got), (state.with(S), true));
        }
    }
}

/// A schedule on a fully disabled instance leaves MISSED behind, enable keeps it, and the first completion polls again.
#[test]
fn missed_survives_enable() {
    let (state, got) = DISABLED.schedule_prep();
    assert!(!got);
    let state = state.enable(Threaded::Disabled).unwrap();
    assert_eq!(state, IDLE.with(State::MISSED));
    let (state, got) = state.schedule_prep();
    assert!(got, "the first packet becomes owner");
    let (state, missed) = state.complete_release();
    assert!(missed);
    assert_eq!(state, OWNED);
    assert_eq!(state.complete_release(), (IDLE, false));
}

#[test]
fn timer_on_every_word() {
    for state in all() {
        let want = if state.intersects(S.with(State::DISABLE)) {
            None
        } else {
            Some(state.with(S).without(State::PREFER_BUSY_POLL))
        };
        assert_eq!(state.timer_acquire(), want);
    }
}

#[test]
fn schedule_on_every_word() {
    for state in all().filter(|state| state.contains(S)) {
        let given = state.with(State::SCHED_THREADED);
        let want = match (state.contains(State::THREADED), state.contains(State::POOL)) {
            (false, _) => (state, Poller::Softirq),
            (true, false) => (given, Poller::Thread),
            (true, true) => (given, Poller::Pool),
        };
        assert_eq!(state.schedule(), want);
    }
}

#[test]
fn a_thread_leaves_when_its_mode_was_taken_away() {
    let busy = BY_THREAD.with(State::THREADED_BUSY_POLL).with(State::IN_BUSY_POLL);
    for state in [BY_THREAD, BY_THREAD.with(State::POOL), busy] {
        assert_eq!(state.thread_leave(), None);
        let off = state.set_threaded(Threaded::Disabled).with(State::MISSED);
        let left = off.thread_leave().unwrap();
        assert_eq!(left.without(State::POOL), OWNED.with(State::MISSED), "owned still, and what was missed stays");
        assert_eq!(left.schedule(), (left, Poller::Softirq));
    }
}

#[test]
fn the_runner_changes_between_modes() {
    for state in [IDLE, OWNED, BUSY, DISABLED] {
        assert_eq!(state.run_by_pool(true), state.with(State::POOL));
        assert_eq!(state.with(State::POOL).run_by_pool(false), state);
        assert_eq!(state.run_by_pool(false), state);
    }
}

#[test]
fn busy_acquire_on_every_word() {
    let against = S.with(State::DISABLE).with(State::IN_BUSY_POLL);
    for state in all() {
        let want = (!state.intersects(against)).then_some(state.with(S).with(State::IN_BUSY_POLL));
        assert_eq!(state.busy_acquire(), want);
    }
}

#[test]
fn a_losing_prefer_poller_leaves_its_bit_unless_disabled() {
    assert_eq!(BUSY.busy_contended(), BUSY.with(State::PREFER_BUSY_POLL));
    assert_eq!(IDLE.busy_contended(), IDLE.with(State::PREFER_BUSY_POLL));
    assert_eq!(DISABLED.busy_contended(), DISABLED);
    assert_eq!(DISABLING.busy_contended(), DISABLING);
    assert_eq!(DISABLING.with(S).busy_contended(), DISABLING.with(S));
}

/// The timer path of a stop leaves the loser's bit; the next completion clears it.
#[test]
fn the_losers_bit_goes_with_the_next_completion() {
    let state = BUSY.busy_contended().busy_stop_begin().busy_stop_release();
    assert_eq!(state, IDLE.with(State::PREFER_BUSY_POLL));
    let (state, _) = state.schedule_prep();
    assert_eq!(state.complete_release(), (IDLE, false));
}

#[test]
fn busy_stop_forgets_what_was_missed_before_and_keeps_what_comes_after() {
    let state = BUSY.with(State::MISSED).busy_stop_begin();
    assert_eq!(state, OWNED);
    let (state, _) = state.schedule_prep();
    assert_eq!(state.busy_stop_release(), IDLE.with(State::MISSED));
}

#[test]
fn completion_refused_on_every_word() {
    for state in all() {
        let want = state.contains(State::NPSVC) || state.contains(State::IN_BUSY_POLL);
        assert_eq!(state.complete_refused(), want);
    }
}

#[test]
fn complete_release_on_every_word() {
    let gone = State::MISSED.with(S).with(State::SCHED_THREADED).with(State::PREFER_BUSY_POLL);
    for state in all().filter(|state| state.contains(S) && !state.complete_refused()) {
        let missed = state.contains(State::MISSED);
        let next = state.without(gone);
        assert_eq!(state.complete_release(), (if missed { next.with(S) } else { next }, missed));
    }
}

#[test]
fn thread_turn_makes_the_bit_equal_to_the_wish() {
    let busy_mode = BY_THREAD.with(State::THREADED_BUSY_POLL);
    assert_eq!(BY_THREAD.thread_turn(), (BY_THREAD, false));
    assert_eq!(busy_mode.thread_turn(), (busy_mode.with(State::IN_BUSY_POLL), true));
    let polling = busy_mode.with(State::IN_BUSY_POLL);
    assert_eq!(polling.thread_turn(), (polling, true));
    // The mode is left, or a disable waits.
    let left = polling.set_threaded(Threaded::Enabled);
    assert_eq!(left.thread_turn(), (BY_THREAD, false));
    let disabling = polling.with(State::DISABLE);
    assert_eq!(disabling.thread_turn(), (disabling.without(State::IN_BUSY_POLL), false));
}

#[test]
fn disable_waits_for_the_owner() {
    for owned in [OWNED, BUSY, BY_THREAD] {
        assert_eq!(owned.disable_begin().disable_claim(), None);
    }
    let everything = IDLE.set_threaded(Threaded::BusyPoll).with(State::PREFER_BUSY_POLL);
    let claimed = everything.disable_begin().disable_claim().unwrap();
    assert_eq!(claimed, DISABLED.with(State::DISABLE));
    assert!(!claimed.is_disabled());
    assert_eq!(claimed.disable_end(), DISABLED);
    assert!(DISABLED.is_disabled() && !OWNED.is_disabled() && !IDLE.is_disabled());
    // An event that was missed stays missed.
    let missed = IDLE.with(State::MISSED).disable_begin().disable_claim().unwrap();
    assert!(missed.contains(State::MISSED));
}

#[test]
fn nobody_becomes_owner_while_a_disable_waits() {
    assert_eq!(DISABLING.schedule_prep(), (DISABLING, false));
    assert_eq!(DISABLING.timer_acquire(), None);
    assert_eq!(DISABLING.busy_acquire(), None);
}

#[test]
fn enable_only_what_is_disabled() {
    assert_eq!(DISABLED.enable(Threaded::Disabled), Ok(IDLE));
    assert_eq!(DISABLED.enable(Threaded::Enabled), Ok(IDLE.with(State::THREADED)));
    let busy = IDLE.with(State::THREADED).with(State::THREADED_BUSY_POLL);
    assert_eq!(DISABLED.enable(Threaded::BusyPoll), Ok(busy));
    // A mode set while disabled is kept.
    assert_eq!(DISABLED.set_threaded(Threaded::BusyPoll).enable(Threaded::Disabled), Ok(busy));
    for state in [IDLE, OWNED, BUSY, DISABLED.with(State::DISABLE), DISABLING] {
        let error = state.enable(Threaded::Disabled).unwrap_err();
        assert_eq!(error, NotDisabled(state));
        assert!(format!("{error}").contains("disable it before"));
    }
}

#[test]
fn set_threaded_sets_both_bits_and_threaded_reads_them() {
    let modes = [Threaded::Disabled, Threaded::Enabled, Threaded::BusyPoll];
    for (number, mode) in modes.into_iter().enumerate() {
        assert_eq!(mode as usize, number);
        for before in modes {
            for state in [IDLE, OWNED, DISABLED, BUSY] {
                let next = state.set_threaded(before).set_threaded(mode);
                assert_eq!(next.threaded(), mode);
                assert_eq!(next.set_threaded(Threaded::Disabled), state);
                assert_eq!(next.is_legal(), Ok(()));
            }
        }
    }
    assert!(IDLE.set_threaded(Threaded::BusyPoll).contains(State::THREADED));
}

#[test]
fn stopping_the_thread() {
    let busy_mode = State::THREADED.with(State::THREADED_BUSY_POLL);
    // Idle, owned by the thread, or disabled: cleared.
    for state in [IDLE, OWNED.with(State::SCHED_THREADED), DISABLED, DISABLED.with(State::DISABLE)] {
        assert_eq!(state.with(busy_mode).stop_thread_claim(), StopThread::Cleared(state));
    }
    // Owned by softirq or by a busy poller: not now.
    for state in [OWNED, BUSY, OWNED.with(State::DISABLE)] {
        assert_eq!(state.with(busy_mode).stop_thread_claim(), StopThread::Busy);
    }
    assert!(!BY_THREAD.stop_thread_done());
    assert!(OWNED.stop_thread_done() && IDLE.stop_thread_done());
}

#[test]
fn legal_words() {
    for state in [IDLE, OWNED, BUSY, BY_THREAD, DISABLED, DISABLING, IDLE.with(State::MISSED)] {
        assert_eq!(state.is_legal(), Ok(()));
    }
    let illegal = [
        IDLE.with(State::IN_BUSY_POLL),
        IDLE.with(State::SCHED_THREADED),
        IDLE.with(State::NPSVC),
        IDLE.with(State::THREADED_BUSY_POLL),
        DISABLED.with(State::IN_BUSY_POLL),
        DISABLED.with(State::SCHED_THREADED),
        DISABLED.with(State::PREFER_BUSY_POLL),
    ];
    for state in illegal {
        assert!(state.is_legal().is_err(), "{state:?}");
    }
}

/// No transition that the executor may apply leaves the legal words.
#[test]
fn transitions_keep_words_legal() {
    for state in all().filter(|state| state.is_legal().is_ok()) {
        let owned = state.contains(S);
        let npsvc = state.contains(State::NPSVC);
        let disable = state.contains(State::DISABLE);
        let busy = state.contains(State::IN_BUSY_POLL);
        let thread = state.contains(State::SCHED_THREADED);
        let mut next = alloc::vec![state.schedule_prep().0, state.busy_contended()];
        next.extend(state.timer_acquire());
        next.extend(state.busy_acquire());
        next.extend(state.enable(Threaded::BusyPoll));
        next.extend([Threaded::Disabled, Threaded::Enabled, Threaded::BusyPoll].map(|mode| state.set_threaded(mode)));
        if let StopThread::Cleared(cleared) = state.stop_thread_claim() {
            next.push(cleared);
        }
        if owned && !npsvc {
            if busy && !thread {
                next.push(state.busy_stop_begin());
            }
            if !busy && !thread {
                next.push(state.schedule().0);
                next.push(state.busy_stop_release());
            }
            if !busy {
                next.push(state.complete_release().0);
            }
            if thread {
                next.push(state.thread_turn().0);
                next.extend(state.thread_leave());
            }
        }
        match (disable, npsvc) {
            (false, false) => next.push(state.disable_begin()),
            (true, false) => next.extend(state.disable_claim()),
            (true, true) => next.push(state.disable_end()),
            (false, true) => {}
        }
        if !thread && !state.contains(State::THREADED) {
            next.extend([true, false].map(|pool| state.run_by_pool(pool)));
        }
        for after in next {
            assert_eq!(after.is_legal(), Ok(()), "{state:?} -> {after:?}");
        }
    }
}

macro_rules! forbidden {
    ($($name:ident: $message:literal, $call:expr;)*) => {$(
        #[test]
        #[should_panic(expected = $message)]
        fn $name() {
            let _ = $call;
        }
    )*};
}

forbidden! {
    no_schedule_of_an_idle_instance: "only an owned instance can be scheduled", IDLE.schedule();
    no_other_runner_while_threaded: "the runner changes only", IDLE.with(State::THREADED).run_by_pool(true);
    no_other_runner_under_the_thread: "the runner changes only", OWNED.with(State::SCHED_THREADED).run_by_pool(false);
    no_leave_by_somebody_else: "only its thread", OWNED.thread_leave();
    no_release_without_owner: "only an owned instance can be completed", IDLE.complete_release();
    no_release_while_busy_polled: "must not release", BUSY.complete_release();
    no_release_while_disabled: "must not release", DISABLED.complete_release();
    no_stop_without_busy_poller: "only the busy poller", OWNED.busy_stop_begin();
    no_user_stop_of_the_thread: "by thread_turn",
        BY_THREAD.with(State::IN_BUSY_POLL).busy_stop_begin();
    no_stop_release_before_begin: "busy_stop_begin comes first", BUSY.busy_stop_release();
    no_stop_release_by_the_thread: "busy_stop_begin comes first", BY_THREAD.busy_stop_release();
    no_stop_release_when_idle: "only an owned instance can be released", IDLE.busy_stop_release();
    no_turn_without_schedule: "only as owner", OWNED.with(State::THREADED).thread_turn();
    no_disable_of_disabled: "disabled already", DISABLED.disable_begin();
    no_second_disable: "a second disable", DISABLING.disable_begin();
    no_claim_before_begin: "disable_begin comes first", IDLE.disable_claim();
    no_end_before_claim: "disable_claim comes before", DISABLING.disable_end();
}

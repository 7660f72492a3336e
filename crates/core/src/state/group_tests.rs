use super::*;

const IDLE: State = State::LISTED;
const ARMED: State = IDLE.with(State::GROUP);
const POLLED: State = ARMED.with(State::SCHED);

fn all() -> impl Iterator<Item = State> {
    (0..1 << 14).step_by(if cfg!(miri) { 61 } else { 1 }).map(State::from_bits).filter(|state| state.is_legal().is_ok())
}

#[test]
fn attach_waits_for_the_owner_and_becomes_owner() {
    let owned = IDLE.with(State::SCHED);
    let (pending, at_once) = owned.group_attach_begin();
    assert_eq!((pending, at_once), (owned.with(State::DISABLE), false));
    assert_eq!(pending.group_attach_claim(), None, "owned still");
    assert_eq!(pending.schedule_prep(), (pending, false), "nobody new becomes owner");
    let (idle, _) = pending.complete_release();
    assert_eq!(idle.group_attach_claim(), Some(POLLED));
    assert_eq!(State::ADDED.group_attach_begin(), (State::ADDED.with(State::GROUP), true));
}

#[test]
fn a_claim_keeps_the_mode_for_the_time_after_the_group() {
    let threaded = IDLE.with(State::THREADED).with(State::THREADED_BUSY_POLL);
    let (pending, _) = threaded.group_attach_begin();
    let claimed = pending.group_attach_claim().unwrap();
    assert_eq!(claimed, threaded.with(State::GROUP).with(State::SCHED));
    assert_eq!(claimed.group_leave().0.schedule().0, threaded.with(State::SCHED).with(State::SCHED_THREADED));
}

#[test]
fn nobody_else_takes_what_a_group_has() {
    for state in all().filter(|state| state.contains(State::GROUP)) {
        assert_eq!(state.busy_acquire(), None);
        assert_eq!(state.busy_contended(), state);
        assert!(state.complete_refused());
    }
}

#[test]
fn a_turn_covers_what_came_before_it() {
    assert_eq!(POLLED.with(State::MISSED).group_turn(), (POLLED, GroupTurn::Poll));
    let ending = POLLED.disable_begin();
    assert_eq!(ending.group_turn(), (ending, GroupTurn::GiveUp));
    assert!(
        !POLLED.group_turn_is_due() && POLLED.with(State::MISSED).group_turn_is_due() && ending.group_turn_is_due()
    );
}

#[test]
fn a_release_sees_what_came_since_the_turn() {
    assert_eq!(POLLED.group_release(), (ARMED, false));
    assert_eq!(POLLED.with(State::MISSED).group_release(), (POLLED, true));
    let ending = POLLED.with(State::MISSED).disable_begin();
    assert_eq!(ending.group_release(), (ARMED.with(State::DISABLE), false));
    assert!(ending.group_release().0.disable_claim().is_some());
}

#[test]
fn an_event_gives_an_armed_instance_to_the_group() {
    let (owned, took) = ARMED.schedule_prep();
    assert!(took && owned.to_group());
    assert!(!IDLE.with(State::SCHED).to_group());
    assert!(ARMED.timer_acquire().unwrap().to_group());
}

#[test]
fn a_group_outlives_down_and_up() {
    let (idle, _) = POLLED.disable_begin().group_release();
    let down = idle.disable_claim().unwrap().disable_end();
    assert_eq!(down, State::ADDED.with(State::GROUP));
    assert_eq!(down.enable(crate::state::Threaded::Disabled).unwrap(), ARMED);
    assert_eq!(down.group_leave(), (State::ADDED, false));
}

#[test]
fn threads_can_be_stopped_while_a_group_polls() {
    let threaded = POLLED.with(State::THREADED);
    assert_eq!(threaded.stop_thread_claim(), crate::state::StopThread::Cleared(POLLED));
}

#[test]
#[should_panic(expected = "a member of a group is given to the group")]
fn a_member_is_not_scheduled_to_softirq() {
    let _ = POLLED.schedule();
}

#[test]
fn every_transition_of_a_group_keeps_the_word_legal() {
    for state in all() {
        if !state.intersects(State::GROUP.with(State::DISABLE)) {
            assert_eq!(state.group_attach_begin().0.is_legal(), Ok(()), "{state:?}");
        }
        if state.contains(State::DISABLE) && !state.intersects(State::NPSVC.with(State::IN_BUSY_POLL)) {
            let claimed = state.group_attach_claim();
            assert!(claimed.is_none_or(|next| next.is_legal().is_ok()), "{state:?}");
        }
        if state.contains(POLLED) && !state.intersects(State::NPSVC) {
            for next in [state.group_turn().0, state.group_release().0, state.group_leave().0] {
                assert_eq!(next.is_legal(), Ok(()), "{state:?}");
            }
        }
    }
}

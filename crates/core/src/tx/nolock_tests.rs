use super::*;

#[test]
fn who_may_pass_by() {
    for bits in 0..16 {
        let state = QdiscState::from_bits(bits);
        let empty = bits & 12 == 0;
        assert_eq!(plan(true, state), if empty { NolockPlan::TryBypass } else { NolockPlan::Enqueue });
        assert_eq!(plan(false, state), NolockPlan::Enqueue);
        assert_eq!(recheck(state), if empty { Recheck::Transmit } else { Recheck::Enqueue });
        assert_eq!(end_schedules(state), bits & 4 != 0);
    }
}

/// Scenario 84, the loser: it fails twice and leaves `MISSED`; a third sender sees that and gives up after one try.
#[test]
fn a_loser_leaves_a_mark() {
    let mut begin = NolockBegin::new();
    begin.on_tried(false);
    assert_eq!(begin.next(), BeginStep::Miss);
    let (state, was) = QdiscState::EMPTY.miss();
    begin.on_missed(was);
    assert_eq!(begin.next(), BeginStep::TryLock);
    let mut second = begin.clone();
    second.on_tried(true);
    assert_eq!(second.next(), BeginStep::Run);
    begin.on_tried(false);
    assert_eq!(begin.next(), BeginStep::GiveUp);

    let mut third = NolockBegin::new();
    third.on_tried(false);
    third.on_missed(state.miss().1);
    assert_eq!(third.next(), BeginStep::GiveUp);
    assert!(end_schedules(state), "the holder's end schedules");
}

#[test]
fn an_empty_dequeue_looks_twice_at_most() {
    let mut dequeue = NolockDequeue::new();
    assert!(!dequeue.on_empty(QdiscState::SCHED));
    for state in [QdiscState::MISSED, QdiscState::DRAINING] {
        let mut dequeue = NolockDequeue::new();
        assert!(dequeue.on_empty(state));
        assert!(!dequeue.on_empty(state));
    }
}

#[test]
fn a_stopped_queue_turns_missed_into_draining_unless_it_was_woken() {
    for (still, step) in [(true, StoppedStep::Drain), (false, StoppedStep::Miss)] {
        let mut stopped = Stopped::new();
        assert_eq!(stopped.next(), StoppedStep::ClearAndLook);
        stopped.on_looked(still);
        assert_eq!(stopped.next(), step);
    }
}

#[test]
#[should_panic(expected = "on_tried answers TryLock")]
fn a_runner_does_not_try_again() {
    let mut begin = NolockBegin::new();
    begin.on_tried(true);
    begin.on_tried(true);
}

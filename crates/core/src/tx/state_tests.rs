use super::*;

fn all() -> impl Iterator<Item = QdiscState> {
    (0..16).map(QdiscState::from_bits)
}

/// Scenario 81, last part, and the rest of the table.
#[test]
fn when_scheduling_does_something() {
    for state in all() {
        for defer_empty in [false, true] {
            let (after, appended) = state.schedule(defer_empty);
            let free = !state.intersects(QdiscState::SCHED) && !state.intersects(QdiscState::DEACTIVATED);
            assert_eq!(appended, free && defer_empty, "{state:?} {defer_empty}");
            assert_eq!(after.bits(), state.bits() | u8::from(appended));
        }
    }
}

#[test]
fn bits_come_and_go_alone() {
    for state in all() {
        assert_eq!(state.deactivate().activate(), state.activate());
        assert!(state.deactivate().intersects(QdiscState::DEACTIVATED));
        let (missed, was) = state.miss();
        assert_eq!((missed.bits(), was), (state.bits() | 4, state.bits() & 4 != 0));
        assert_eq!(state.may_hold(), state.bits() & 12 != 0);
        assert_eq!(state.clear_holding().bits(), state.bits() & 3);
        assert_eq!(state.clear_missed().bits(), state.bits() & 11);
        assert_eq!(state.drain().bits(), state.bits() | 8);
    }
}

#[test]
fn the_softirq_takes_what_was_scheduled() {
    assert_eq!(QdiscState::EMPTY.schedule(true).0.unschedule(), QdiscState::EMPTY);
}

#[test]
#[should_panic(expected = "only what was scheduled")]
fn the_softirq_takes_nothing_else() {
    let _ = QdiscState::DEACTIVATED.unschedule();
}

#[test]
fn deactivation_resets_before_and_after_the_last_runner() {
    use DeactivateStep::{Done, Mark, Reset, WaitForRunner, WaitForSenders};
    let mut deactivation = Deactivation::new();
    for step in [Mark, WaitForSenders, Reset, WaitForRunner, Reset] {
        assert_eq!(deactivation.next(), step);
        deactivation.on_done();
    }
    assert_eq!(deactivation.next(), Done);
}

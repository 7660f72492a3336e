use super::*;

const OWNED: State = State::LISTED.with(State::SCHED);

#[test]
fn decision_table() {
    let both = State::DISABLE.with(State::PREFER_BUSY_POLL);
    let flush_all = AfterPoll::Repoll { flush: Flush::All };
    let rows = [
        // work, bits, hz, decision
        (0, State::EMPTY, 250, AfterPoll::Done),
        (63, both, 250, AfterPoll::Done),
        (64, State::EMPTY, 250, flush_all),
        (64, State::EMPTY, 1000, AfterPoll::Repoll { flush: Flush::OldOnly }),
        (64, State::MISSED, 250, flush_all),
        (64, State::DISABLE, 250, AfterPoll::CompleteZero),
        (64, State::PREFER_BUSY_POLL, 250, AfterPoll::HandToBusyPoller),
        // The first match wins.
        (64, both, 250, AfterPoll::CompleteZero),
        // More than the weight counts as full.
        (65, State::EMPTY, 250, flush_all),
        (65, State::DISABLE, 250, AfterPoll::CompleteZero),
    ];
    for (work, bits, hz, want) in rows {
        assert_eq!(after_poll(OWNED.with(bits), work, NAPI_POLL_WEIGHT, hz), want, "{work} {bits:?} {hz}");
    }
}

#[test]
fn the_weight_is_the_drivers() {
    assert_eq!(after_poll(OWNED, 64, 128, 250), AfterPoll::Done);
    assert_eq!(after_poll(OWNED, 16, 16, 250), AfterPoll::Repoll { flush: Flush::All });
}

#[test]
fn only_an_owned_instance_is_polled() {
    assert!(may_poll(OWNED));
    assert!(!may_poll(State::LISTED.with(State::MISSED)));
}

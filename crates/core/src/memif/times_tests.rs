use super::times::*;
use crate::time::{Deadline, Instant, Span};

const START: Instant = Instant { ns: 1_000 };

#[test]
fn a_client_tries_at_once_and_then_after_its_time() {
    let rows = [
        (Span::from_secs(1), false, Span::from_secs(1)),
        (Span::from_secs(1), true, LOOK_EVERY),
        (Span::from_ms(2), false, Span::from_ms(2)),
        (Span::from_ms(2), true, Span::from_ms(2)),
        (Span::ZERO, false, Span::ZERO),
    ];
    for (retry, queue_full, wait) in rows {
        let mut tries = Tries::new(START, retry);
        assert_eq!(tries.due(), Deadline::at(START));
        tries.begin();
        assert!(tries.due().is_never(), "one at a time");
        let later = START + Span::from_ms(7);
        tries.ended(later, queue_full);
        assert_eq!(tries.due(), Deadline::at(later + wait), "{retry:?} {queue_full}");
    }
    let mut never = Tries::new(START, Span::from_ns(u64::MAX));
    never.ended(START, false);
    assert!(never.due().is_never());
}

#[test]
fn the_guard_looks_while_something_rings_and_then_sleeps() {
    let (again, freeing) = (GuardStep::LookAfter(RINGING), GuardStep::LookAfter(FREEING));
    let mut pace = GuardPace::default();
    for _ in 0..2 {
        assert_eq!(pace.looked(true, false), again);
        for _ in 1..LOOKS_IDLE {
            assert_eq!(pace.looked(false, false), again);
        }
        assert_eq!(pace.looked(false, false), GuardStep::AwaitRing, "and the count begins anew");
    }
    // A ringer that waits is freed however long nothing else rings, and a ring begins the count anew.
    for _ in 0..2 * LOOKS_IDLE {
        assert_eq!(pace.looked(false, true), freeing);
    }
    assert_eq!(pace.looked(true, true), freeing);
    assert_eq!(pace.looked(false, false), again);
}

use super::*;

fn all() -> impl Iterator<Item = QueueBits> {
    (0..8).map(QueueBits::from_bits)
}

#[test]
fn what_stops_a_queue() {
    for bits in all() {
        assert_eq!(bits.stopped(), bits.bits() & 3 != 0, "{bits:?}");
        assert_eq!(bits.frozen_or_stopped(), bits != QueueBits::EMPTY, "{bits:?}");
        assert_eq!(QueueBits::from_bits(bits.bits()), bits);
    }
}

/// Scenario 83: a wake schedules once, a second wake without a stop does nothing.
#[test]
fn a_wake_schedules_once() {
    let (woken, schedule) = QueueBits::EMPTY.stop_driver().wake_driver();
    assert_eq!((woken, schedule), (QueueBits::EMPTY, true));
    assert_eq!(woken.wake_driver(), (QueueBits::EMPTY, false));
}

#[test]
fn who_schedules() {
    for bits in all() {
        let (driver, stack, frozen) = (bits.bits() & 1 != 0, bits.bits() & 2 != 0, bits.bits() & 4 != 0);
        assert_eq!(bits.wake_driver(), (QueueBits(bits.0 & !1), driver), "even if the stack has it stopped");
        assert_eq!(bits.wake_stack(), (QueueBits(bits.0 & !2), stack && !driver));
        assert_eq!(bits.thaw(), (QueueBits(bits.0 & !4), frozen && !driver && !stack));
        assert_eq!(bits.start_driver(), bits.wake_driver().0);
        assert_eq!(bits.start_stack(), bits.wake_stack().0);
        for set in [bits.stop_driver(), bits.stop_stack(), bits.freeze()] {
            assert!(set.frozen_or_stopped());
            assert_eq!(set.0 & bits.0, bits.0);
        }
    }
}

#[test]
#[should_panic(expected = "no such bit")]
fn unknown_bits_are_refused() {
    let _ = QueueBits::from_bits(8);
}

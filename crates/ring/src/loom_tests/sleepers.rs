//! Several sleepers behind one bell: who was woken by a ring sees those whom the ring silenced.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

use super::{model, without};
use crate::sync::Point;
use crate::{Doorbell, Sleepers};

/// One sleeper arms the bell, a ringer takes that off and wakes another (which says nothing by itself: a system call is no
/// ordering). That one has to see that a thread sleeps still.
fn who_is_woken_sees_who_was_silenced() {
    model(|| {
        let shared = Arc::new((Doorbell::new(), Sleepers::new(), AtomicU32::new(0)));
        let sleeper = shared.clone();
        let sleeper = thread::spawn(move || {
            let (bell, sleepers, _) = &*sleeper;
            sleepers.enter();
            sleepers.announce();
            assert!(bell.arm(|| false));
        });
        let ringer = shared.clone();
        let ringer = thread::spawn(move || {
            let (bell, sleepers, woken) = &*ringer;
            if bell.ring() {
                assert!(sleepers.any(), "rung without a sleeper");
                woken.store(1, Ordering::Relaxed);
            }
        });
        let (bell, sleepers, woken) = &*shared;
        if woken.load(Ordering::Relaxed) == 1 {
            assert!(sleepers.any_behind(bell), "a sleeper is forgotten");
        }
        sleeper.join().unwrap();
        ringer.join().unwrap();
    });
}

#[test]
fn sleepers() {
    who_is_woken_sees_who_was_silenced();
}

#[test]
#[should_panic(expected = "a sleeper is forgotten")]
fn sleepers_need_the_newest_value_of_the_bell() {
    without(Point::HandOnLook, who_is_woken_sees_who_was_silenced);
}

#[test]
#[should_panic(expected = "rung without a sleeper")]
fn sleepers_need_the_fence_of_the_announcement() {
    without(Point::SleeperAnnounce, who_is_woken_sees_who_was_silenced);
}

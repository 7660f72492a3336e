//! State cell, exclusive, flag, doorbell.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

use super::{model, without};
use crate::sync::Point;
use crate::{CombiningFlag, CombiningLock, Doorbell, Exclusive, StateCell, enter_section, section_is_over};

const OWNED: u32 = 1;
const MISSED: u32 = 2;

/// Ownership by one bit of a state cell, and data that only the owner touches.
struct Owned {
    state: StateCell,
    data: UnsafeCell<u32>,
}

// SAFETY: the model checks that the data has one user at a time; loom reports it if not.
unsafe impl Sync for Owned {}

impl Owned {
    fn try_add(&self) -> bool {
        let got = self.state.update(|old| (old | OWNED, old & OWNED == 0));
        if got {
            self.data.with_mut(|data| {
                // SAFETY: OWNED is ours.
                unsafe { *data += 1 }
            });
            self.state.update(|old| (old & !OWNED, ()));
        }
        got
    }
}

fn state_cell_hands_data_over() {
    model(|| {
        let owned = Arc::new(Owned { state: StateCell::new(0), data: UnsafeCell::new(0) });
        let other = owned.clone();
        let thread = thread::spawn(move || u32::from(other.try_add()));
        let added = u32::from(owned.try_add()) + thread.join().unwrap();
        assert!(added >= 1 && owned.state.load() == 0);
        // SAFETY: the other thread has ended.
        owned.data.with(|data| assert_eq!(unsafe { *data }, added));
    });
}

#[test]
fn state_cell() {
    state_cell_hands_data_over();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn state_cell_needs_its_ordering() {
    without(Point::StateUpdate, state_cell_hands_data_over);
}

/// The shape of `napi_schedule_prep` and `napi_complete_done`: the thread that finds the owner busy marks it, and the owner
/// looks again.
fn missed_work_is_looked_at_again() {
    model(|| {
        let state = Arc::new(StateCell::new(OWNED));
        let work = Arc::new(AtomicU32::new(0));
        let (other_state, other_work) = (state.clone(), work.clone());
        let thread = thread::spawn(move || {
            other_work.store(1, Ordering::Relaxed);
            // Free: this thread would poll itself. Owned: leave a mark.
            other_state.update(|old| if old & OWNED == 0 { (OWNED, true) } else { (old | MISSED, false) })
        });
        let mut seen = 0;
        for _ in 0..2 {
            seen |= work.load(Ordering::Relaxed);
            let missed = state.update(|old| if old & MISSED != 0 { (old & !MISSED, true) } else { (0, false) });
            if !missed {
                break;
            }
        }
        let polls_itself = thread.join().unwrap();
        assert!(seen == 1 || polls_itself, "stranded work");
    });
}

#[test]
fn missed_work() {
    missed_work_is_looked_at_again();
}

#[test]
#[should_panic(expected = "stranded work")]
fn missed_work_needs_the_ordering() {
    without(Point::StateUpdate, missed_work_is_looked_at_again);
}

/// One attempt each: at most one wins, and who loses knows why.
#[test]
fn update_once_has_one_winner() {
    model(|| {
        let state = Arc::new(StateCell::new(0));
        let other = state.clone();
        let claim = |state: &StateCell| state.update_once(|old| (old == 0).then_some(OWNED));
        let thread = thread::spawn(move || claim(&other));
        let results = [claim(&state), thread.join().unwrap()];
        assert_eq!(results.iter().filter(|result| **result == Ok(0)).count(), 1);
        assert_eq!(results.iter().filter(|result| **result == Err(OWNED)).count(), 1);
    });
}

fn exclusive_hands_data_over() {
    model(|| {
        let cell = Arc::new(Exclusive::new(0));
        let other = cell.clone();
        let enter = |cell: &Exclusive<u32>| match cell.try_enter() {
            Some(mut inside) => {
                *inside += 1;
                1
            }
            None => 0,
        };
        let thread = thread::spawn(move || enter(&other));
        let added = enter(&cell) + thread.join().unwrap();
        assert_eq!(*cell.enter(), added);
    });
}

#[test]
fn exclusive() {
    exclusive_hands_data_over();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn exclusive_needs_its_ordering() {
    without(Point::ExclusiveLeave, exclusive_hands_data_over);
}

/// Ownership by a state bit implies that `enter` never panics.
#[test]
fn owners_by_state_never_meet_inside() {
    model(|| {
        let shared = Arc::new((StateCell::new(0), Exclusive::new(0)));
        let other = shared.clone();
        let run = |(state, data): &(StateCell, Exclusive<u32>)| {
            let got = state.update(|old| (old | OWNED, old & OWNED == 0));
            if got {
                *data.enter() += 1;
                state.update(|old| (old & !OWNED, ()));
            }
            u32::from(got)
        };
        let thread = thread::spawn(move || run(&other));
        let added = run(&shared) + thread.join().unwrap();
        assert_eq!(*shared.1.enter(), added);
    });
}

fn combining_flag_strands_no_work() {
    model(|| {
        let shared = Arc::new((CombiningFlag::new(), AtomicU32::new(0), AtomicU32::new(0)));
        // Each thread publishes work in a word of its own, so that nothing but the flag orders it.
        let run = |publish: fn(&(CombiningFlag, AtomicU32, AtomicU32)),
                   shared: &(CombiningFlag, AtomicU32, AtomicU32)| {
            publish(shared);
            let (flag, first, second) = shared;
            let mut held = flag.try_take();
            while let Some(flag) = held {
                for work in [first, second] {
                    if work.load(Ordering::Relaxed) == 1 {
                        work.store(2, Ordering::Relaxed);
                    }
                }
                held = flag.pass(|| [first, second].iter().any(|work| work.load(Ordering::Relaxed) == 1));
            }
        };
        let other = shared.clone();
        let thread = thread::spawn(move || run(|shared| shared.1.store(1, Ordering::Relaxed), &other));
        run(|shared| shared.2.store(1, Ordering::Relaxed), &shared);
        thread.join().unwrap();
        let done = [&shared.1, &shared.2].map(|work| work.load(Ordering::Relaxed));
        assert_eq!(done, [2, 2], "stranded work");
    });
}

#[test]
fn flag() {
    combining_flag_strands_no_work();
}

#[test]
#[should_panic(expected = "stranded work")]
fn combining_flag_needs_the_fence_before_the_take() {
    without(Point::FlagTake, combining_flag_strands_no_work);
}

#[test]
#[should_panic(expected = "stranded work")]
fn combining_flag_needs_the_fence_before_the_last_look() {
    without(Point::FlagPass, combining_flag_strands_no_work);
}

fn doorbell_wakes_the_sleeper() {
    model(|| {
        let shared = Arc::new((Doorbell::new(), AtomicU32::new(0)));
        let other = shared.clone();
        let thread = thread::spawn(move || {
            other.1.store(1, Ordering::Relaxed);
            other.0.ring()
        });
        let sleeps = shared.0.arm(|| shared.1.load(Ordering::Relaxed) == 1);
        let woken = thread.join().unwrap();
        assert!(!sleeps || woken, "lost wake-up");
    });
}

#[test]
fn doorbell() {
    doorbell_wakes_the_sleeper();
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn doorbell_needs_the_fence_of_the_sleeper() {
    without(Point::DoorbellArm, doorbell_wakes_the_sleeper);
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn doorbell_needs_the_fence_of_the_ringer() {
    without(Point::DoorbellRing, doorbell_wakes_the_sleeper);
}

/// Two ringers and a timeout: one of the three ends the sleep, and the sleeper knows whether it was rung.
#[test]
fn one_side_ends_a_sleep() {
    super::model_preempted(3, || {
        let bell = Arc::new(Doorbell::new());
        let ringers = [0, 1].map(|_| {
            let bell = bell.clone();
            thread::spawn(move || bell.ring())
        });
        assert!(bell.arm(|| false));
        let rung = bell.disarm();
        let wakes = ringers.map(|ringer| ringer.join().unwrap());
        assert_eq!(wakes.into_iter().filter(|woken| *woken).count(), usize::from(rung));
    });
}

/// A reader that acts by a switch, inside a section; who throws the switch takes over what the reader acted on as soon as
/// the section is over.
struct Switched {
    reader: Exclusive<()>,
    thrown: AtomicU32,
    data: UnsafeCell<u32>,
}

// SAFETY: the model checks that the data has one user at a time; loom reports it if not.
unsafe impl Sync for Switched {}

impl Switched {
    fn add(&self) {
        self.data.with_mut(|data| {
            // SAFETY: that no other thread is there is what the model is about.
            unsafe { *data += 1 }
        });
    }
}

fn a_switch_waits_for_its_reader() {
    model(|| {
        let shared =
            Arc::new(Switched { reader: Exclusive::new(()), thrown: AtomicU32::new(0), data: UnsafeCell::new(0) });
        let reader = shared.clone();
        let thread = thread::spawn(move || {
            for _ in 0..2 {
                let section = enter_section(&reader.reader).expect("one reader per cell");
                if reader.thrown.load(Ordering::Relaxed) == 0 {
                    reader.add();
                }
                drop(section);
            }
        });
        shared.thrown.store(1, Ordering::Relaxed);
        if section_is_over(&shared.reader) {
            shared.add();
        }
        thread.join().unwrap();
    });
}

#[test]
fn section() {
    a_switch_waits_for_its_reader();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn section_needs_the_fence_of_the_reader() {
    without(Point::SectionEnter, a_switch_waits_for_its_reader);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn section_needs_the_fence_of_the_switch() {
    without(Point::SectionWait, a_switch_waits_for_its_reader);
}

/// Each thread writes down work of its own and enters, or leaves it to the one inside, who does all that it can see.
struct Combined {
    lock: CombiningLock<u32>,
    work: [UnsafeCell<u32>; 2],
}

// SAFETY: the model checks that the data has one user at a time; loom reports it if not.
unsafe impl Sync for Combined {}

fn a_combining_lock_does_all_work() {
    model(|| {
        let shared = Arc::new(Combined { lock: CombiningLock::new(0), work: [0, 0].map(UnsafeCell::new) });
        let work = |shared: &Combined, own: usize| {
            shared.work[own].with_mut(|work| {
                // SAFETY: no thread looks before the note, or before this thread is inside.
                unsafe { *work = 1 }
            });
            let Some(mut inside) = shared.lock.enter_or_note() else { return };
            let take = |at: usize| {
                shared.work[at].with_mut(|work| {
                    // SAFETY: own work, or work that its thread has left.
                    unsafe { std::mem::take(&mut *work) }
                })
            };
            *inside += take(own);
            while let Some(again) = inside.leave() {
                inside = again;
                *inside += take(1 - own);
            }
        };
        let other = shared.clone();
        let thread = thread::spawn(move || work(&other, 0));
        work(&shared, 1);
        thread.join().unwrap();
        assert_eq!(*shared.lock.try_enter().expect("both have left"), 2, "work is stranded");
    });
}

#[test]
fn combining_lock() {
    a_combining_lock_does_all_work();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn combining_lock_needs_the_ordering_of_the_note() {
    without(Point::CombiningNote, a_combining_lock_does_all_work);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn combining_lock_needs_the_ordering_of_its_reader() {
    without(Point::CombiningRead, a_combining_lock_does_all_work);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn combining_lock_needs_the_ordering_of_the_leave() {
    without(Point::CombiningLeave, a_combining_lock_does_all_work);
}

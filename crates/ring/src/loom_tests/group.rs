//! The words of a polling group (`napier_core::group`) in cells: a CPU that parks or leaves beside a thread that gives it a member,
//! and a member that moves between two pollers.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::thread;
use napier_core::group::{CpuWord, Doing, GroupCpu, Seat, Woken};

use super::{model, model_preempted, without};
use crate::StateCell;
use crate::sync::Point;

const HERE: GroupCpu = GroupCpu(0);
const THERE: GroupCpu = GroupCpu(1);

struct World {
    seat: StateCell,
    word: StateCell,
    /// What belongs to the thread that has the turn.
    data: UnsafeCell<u32>,
}

// SAFETY: the models check that the data has one user at a time; loom reports it if not.
unsafe impl Sync for World {}

impl World {
    fn new(seat: Seat) -> Arc<Self> {
        let word = CpuWord::OFF.join().expect("it is off");
        let [seat, word] = [seat.bits(), word.bits().into()].map(StateCell::new);
        Arc::new(Self { seat, word, data: UnsafeCell::new(0) })
    }

    fn seat(&self) -> Seat {
        Seat::from_bits(self.seat.load())
    }

    fn sit<R>(&self, rule: impl Fn(Seat) -> (Seat, R)) -> R {
        self.seat.update(|bits| {
            let (next, answer) = rule(Seat::from_bits(bits));
            (next.bits(), answer)
        })
    }

    fn change<R>(&self, rule: impl Fn(CpuWord) -> (CpuWord, R)) -> R {
        self.word.update(|bits| {
            let (next, answer) = rule(CpuWord::from_bits(bits as u8));
            (next.bits().into(), answer)
        })
    }

    fn change_if(&self, rule: impl Fn(CpuWord) -> Option<CpuWord>) -> bool {
        self.change(|word| rule(word).map_or((word, false), |next| (next, true)))
    }

    fn word(&self) -> CpuWord {
        CpuWord::from_bits(self.word.load() as u8)
    }

    /// A turn of the CPU, if the member is its own to poll.
    fn turn(&self, cpu: GroupCpu) -> bool {
        let taken = self.sit(|seat| seat.take(cpu).map_or((seat, false), |next| (next, true)));
        if taken {
            self.data.with_mut(|data| {
                // SAFETY: the turn is ours.
                unsafe { *data += 1 }
            });
            self.sit(|seat| (seat.give(), ()));
        }
        taken
    }
}

/// A member of `HERE` that is armed.
fn armed() -> Seat {
    ready(HERE).take(HERE).expect("its own").arm()
}

fn ready(cpu: GroupCpu) -> Seat {
    Seat::FREE.reserve(cpu).expect("it is free").attached().0
}

fn park_beside_an_event() {
    model(|| {
        let world = World::new(armed());
        let other = world.clone();
        let thread = thread::spawn(move || {
            let cpu = other.sit(Seat::ready);
            assert_eq!(cpu, HERE);
            other.change(CpuWord::wake)
        });
        assert!(world.change_if(CpuWord::announce), "nobody tells it to leave");
        let slept = if world.seat().keeps_awake(HERE) {
            world.change(|word| (word.cancel(), ()));
            false
        } else {
            world.change_if(CpuWord::sleep)
        };
        let woken = thread.join().unwrap();
        // Who slept is roused, or sleeps without a member to poll.
        assert!(!slept || woken == Woken::Rouse, "it sleeps beside a member that waits");
        assert_eq!(world.word().doing(), Doing::Active);
    });
}

#[test]
fn a_park_sees_an_event_or_is_seen() {
    park_beside_an_event();
}

#[test]
#[should_panic(expected = "it sleeps beside a member that waits")]
fn a_park_needs_the_ordering_of_its_words() {
    without(Point::StateUpdate, park_beside_an_event);
}

fn leave_beside_a_move() {
    model(|| {
        let world = World::new(ready(THERE));
        world.change(|word| (word.go().0, ()));
        let other = world.clone();
        let thread = thread::spawn(move || {
            let wake = other.sit(|seat| seat.move_to(HERE).expect("it is a member"));
            assert!(wake, "somebody has to poll it");
            other.change(CpuWord::wake)
        });
        let stays = !world.change_if(CpuWord::leave) || {
            let came = world.seat().keeps_awake(HERE);
            if came {
                world.change(|word| (word.stay(), ()));
            }
            came
        };
        let woken = thread.join().unwrap();
        assert!(stays || woken == Woken::Gone, "the member is with a CPU that has left");
    });
}

#[test]
fn a_cpu_that_leaves_sees_what_comes_or_is_seen_to_be_gone() {
    leave_beside_a_move();
}

#[test]
#[should_panic(expected = "the member is with a CPU that has left")]
fn a_cpu_that_leaves_needs_the_ordering() {
    without(Point::StateUpdate, leave_beside_a_move);
}

fn two_pollers_of_one_member() {
    model_preempted(3, || {
        let world = World::new(ready(HERE));
        let other = world.clone();
        let thread = thread::spawn(move || u32::from(other.turn(THERE)));
        let mover = world.clone();
        let moved = thread::spawn(move || {
            let wake = mover.sit(|seat| seat.move_to(THERE).expect("it is a member"));
            assert!(wake);
        });
        let mut turns = u32::from(world.turn(HERE));
        moved.join().unwrap();
        turns += thread.join().unwrap();
        // The thread that comes after both finds all of it.
        turns += u32::from(world.turn(THERE));
        world.data.with(|data| {
            // SAFETY: both have ended.
            assert_eq!(unsafe { *data }, turns);
        });
        assert_eq!(world.seat().cpu(), THERE);
    });
}

#[test]
fn a_member_that_moves_has_one_poller() {
    two_pollers_of_one_member();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_member_that_moves_needs_the_ordering() {
    without(Point::StateUpdate, two_pollers_of_one_member);
}

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use napier_core::busy::BusyParams;
use napier_core::time::{Deadline, Instant, Span};
use napier_sys::clock::Clock;
use napier_testkit::eventually;
use rustix::fd::OwnedFd;

use crate::host::{Busy, HostSettings, IrqHandOver, Lifetime, Sleeper, Wait, Whom};
use crate::wait::deferred::{self, Work};
use crate::wait::park::{ARMED, Parker, woken_by_this_thread};

fn after(ns: u64) -> (Instant, Deadline) {
    let until = Clock.now() + Span { ns };
    (until, Deadline::at(until))
}

/// A lost wake-up shows as a sleep that runs into this deadline.
const LOST_NS: u64 = 20_000_000_000;

#[test]
fn work_that_is_there_costs_no_sleep() {
    let parker = Parker::new();
    assert!(parker.wait(|| true, Deadline::NEVER, &Clock));
}

#[test]
fn a_deadline_is_never_early() {
    let parker = Parker::new();
    for ns in [0, 1, 50_000, 3_000_000] {
        let (until, deadline) = after(ns);
        assert!(!parker.wait(|| false, deadline, &Clock));
        assert!(Clock.now() >= until);
    }
}

#[test]
fn a_deadline_in_the_past_still_looks() {
    let parker = Parker::new();
    let looked = AtomicBool::new(false);
    let seen_at_second_look = || looked.swap(true, Ordering::Relaxed);
    assert!(parker.wait(seen_at_second_look, Deadline::at(Instant { ns: 1 }), &Clock));
}

#[test]
fn nobody_asleep_means_no_call() {
    let parker = Parker::new();
    assert!(!parker.wake());
    // A sleeper that left on its own deadline leaves no announcement that would cost a call.
    assert!(!parker.wait(|| false, after(1).1, &Clock));
    assert!(!parker.wake());
}

#[test]
fn wake_all_reaches_everybody() {
    let parker = Arc::new(Parker::new());
    let closed = Arc::new(AtomicBool::new(false));
    let sleepers: Vec<_> = (0..4)
        .map(|_| {
            let (parker, closed) = (parker.clone(), closed.clone());
            thread::spawn(move || parker.wait(|| closed.load(Ordering::Acquire), after(LOST_NS).1, &Clock))
        })
        .collect();
    closed.store(true, Ordering::Release);
    parker.wake_all();
    for sleeper in sleepers {
        assert!(sleeper.join().unwrap());
    }
}

/// Every unit that a producer publishes is taken by some consumer; nobody sleeps while units are left.
fn exchange(producers: u64, consumers: u64, units_per_producer: u64, hand_on_late: bool) {
    let parker = Arc::new(Parker::new());
    let units = Arc::new(AtomicU64::new(0));
    let total = producers * units_per_producer;
    let taken = Arc::new(AtomicU64::new(0));
    let take = |units: &AtomicU64| units.try_update(Ordering::AcqRel, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok();
    thread::scope(|scope| {
        for _ in 0..consumers {
            let (parker, units, taken) = (parker.clone(), units.clone(), taken.clone());
            scope.spawn(move || {
                let work = || units.load(Ordering::Acquire) > 0 || taken.load(Ordering::Acquire) == total;
                while taken.load(Ordering::Acquire) < total {
                    if hand_on_late {
                        assert!(parker.sleep(work, after(LOST_NS).1, &Clock), "lost wake-up");
                    } else {
                        assert!(parker.wait(work, after(LOST_NS).1, &Clock), "lost wake-up");
                    }
                    if take(&units) && taken.fetch_add(1, Ordering::AcqRel) + 1 == total {
                        parker.wake_all();
                    }
                    parker.hand_on(work);
                }
            });
        }
        for _ in 0..producers {
            let (parker, units) = (parker.clone(), units.clone());
            scope.spawn(move || {
                for turn in 0..units_per_producer {
                    units.fetch_add(1, Ordering::Release);
                    parker.wake();
                    if turn % 7 == 0 {
                        thread::yield_now();
                    }
                }
            });
        }
    });
    assert_eq!(taken.load(Ordering::Relaxed), total);
}

#[test]
fn no_wake_up_is_lost_between_one_and_one() {
    exchange(1, 1, 8_000, false);
    exchange(1, 1, 8_000, true);
}

#[test]
fn no_wake_up_is_lost_between_many_and_many() {
    exchange(3, 4, 2_000, false);
    exchange(3, 4, 2_000, true);
}

#[test]
fn no_wake_up_is_lost_when_sleepers_give_up_meanwhile() {
    let parker = Arc::new(Parker::new());
    let units = Arc::new(AtomicU64::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    thread::scope(|scope| {
        // These announce and leave all the time, and take nothing of what they are woken for.
        for ns in [1, 20_000, 70_000] {
            let (parker, units, stop) = (parker.clone(), units.clone(), stop.clone());
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    parker.wait(|| units.load(Ordering::Acquire) > 0, after(ns).1, &Clock);
                }
            });
        }
        let consumer = {
            let (parker, units) = (parker.clone(), units.clone());
            scope.spawn(move || {
                for _ in 0..3_000 {
                    assert!(
                        parker.wait(|| units.load(Ordering::Acquire) > 0, after(LOST_NS).1, &Clock),
                        "lost wake-up"
                    );
                    units.store(0, Ordering::Release);
                }
            })
        };
        while !consumer.is_finished() {
            units.store(1, Ordering::Release);
            parker.wake();
            thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// A CPU whose softirq panics, or has something for the sleeper.
struct Cpu {
    bell: Arc<OwnedFd>,
    panics: AtomicBool,
    has_run: AtomicBool,
    given_back: AtomicU64,
}

impl IrqHandOver for Cpu {
    fn bell(&self) -> &Arc<OwnedFd> {
        &self.bell
    }

    fn sleep(&self, _deadline: Deadline, awake: &mut dyn FnMut()) {
        awake();
        assert!(!self.panics.load(Ordering::Relaxed), "looked for");
        self.has_run.store(true, Ordering::Relaxed);
    }

    fn end(&self) {
        self.given_back.fetch_add(1, Ordering::Relaxed);
    }
}

/// An engine that lends it, and whose thread polls and keeps the calls that it owes.
#[derive(Default)]
struct Fake {
    cpu: Option<Arc<Cpu>>,
    owed: Mutex<Vec<(Arc<dyn Sleeper>, Whom)>>,
    shares_cpu: AtomicBool,
}

impl Wait for Fake {
    fn prepare_to_wait(&self, _ready: &dyn Fn() -> bool) -> Option<Arc<dyn IrqHandOver>> {
        self.cpu.clone().map(|cpu| cpu as Arc<dyn IrqHandOver>)
    }

    fn owe_call(&self, sleeper: &dyn Fn() -> Option<Arc<dyn Sleeper>>, whom: Whom, shares_cpu: bool) -> bool {
        self.shares_cpu.store(shares_cpu, Ordering::Relaxed);
        self.owed.lock().unwrap().extend(sleeper().map(|sleeper| (sleeper, whom)));
        true
    }
}

impl Lifetime for Fake {}

impl HostSettings for Fake {
    fn sysctl_busy_read(&self) -> u32 {
        0
    }
    fn sysctl_busy_poll(&self) -> u32 {
        0
    }
    fn first_napi_id(&self) -> u32 {
        1
    }
    fn cap_net_admin(&self) -> bool {
        false
    }
}

impl Busy for Fake {
    fn busy_loop(&self, _napi_id: u32, _params: BusyParams, _ready: &mut dyn FnMut() -> bool) {}
    fn suspend_irqs(&self, _napi_id: u32) {}
    fn resume_irqs(&self, _napi_id: u32) {}
}

/// What a sleeper does for its CPU may panic: the CPU is given back, and the next sleeper gets it.
#[test]
fn a_cpu_is_given_back_after_a_panic() {
    let bell = Arc::new(std::fs::File::open("/dev/null").expect("it is there").into());
    let cpu = Cpu { bell, panics: true.into(), has_run: false.into(), given_back: 0.into() };
    let cpu = Arc::new(cpu);
    let (parker, lender) = (Parker::new(), Fake { cpu: Some(cpu.clone()), ..Fake::default() });
    let sleep = || parker.wait_in(&lender, || cpu.has_run.load(Ordering::Relaxed), after(LOST_NS).1, &Clock);
    assert!(catch_unwind(AssertUnwindSafe(sleep)).is_err());
    assert_eq!(cpu.given_back.load(Ordering::Relaxed), 1);
    cpu.panics.store(false, Ordering::Relaxed);
    assert!(sleep(), "it sleeps on the CPU again");
    assert_eq!(cpu.given_back.load(Ordering::Relaxed), 2);
}

/// Where a thread sleeps until it is told.
#[derive(Default)]
struct Place {
    parker: Parker,
    told: AtomicBool,
}

impl Sleeper for Place {
    fn call(&self, _whom: Whom) {
        self.parker.call_owed();
    }
}

impl Place {
    fn tell(self: &Arc<Self>, by: &Fake) -> bool {
        self.told.store(true, Ordering::Relaxed);
        self.parker.wake_told(by, &|| Some(self.clone()), Whom::Reader)
    }

    fn sleep(&self) -> bool {
        self.parker.wait(|| self.told.load(Ordering::Relaxed), after(LOST_NS).1, &Clock)
    }
}

/// A thread sleeps at `place`, on `cpu` if it is given.
fn with_sleeper(place: &Arc<Place>, cpu: Option<usize>, then: impl FnOnce()) {
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            cpu.into_iter().for_each(napier_sys::sched::pin_current_thread);
            place.sleep()
        });
        eventually("it is about to sleep", || place.parker.sleepers.count() == 1);
        // Announced, and not told yet: then it sleeps, or will.
        eventually("it has announced itself", || place.parker.bell.word().load(Ordering::Relaxed) == ARMED);
        then();
        assert!(sleeper.join().unwrap(), "lost wake-up");
    });
}

#[test]
fn a_poll_owes_one_call_for_all_that_it_tells() {
    let (poller, place) = (Fake::default(), Arc::new(Place::default()));
    with_sleeper(&place, None, || {
        deferred::hold(Work::Calls);
        let before = woken_by_this_thread();
        assert!(place.tell(&poller), "owed");
        assert!(!place.tell(&poller), "the announcement is taken");
        assert_eq!((woken_by_this_thread() - before, poller.owed.lock().unwrap().len()), (0, 1));
        // Other threads find no announcement either: it is this thread that calls.
        assert!(!place.parker.wake());
        let (sleeper, whom) = poller.owed.lock().unwrap().pop().unwrap();
        deferred::release(Work::Calls);
        sleeper.call(whom);
        assert_eq!((woken_by_this_thread() - before, whom), (1, Whom::Reader));
    });
}

#[test]
fn outside_of_a_poll_who_is_told_is_called_at_once() {
    let (poller, place) = (Fake::default(), Arc::new(Place::default()));
    with_sleeper(&place, None, || {
        let before = woken_by_this_thread();
        assert!(place.tell(&poller));
        assert_eq!((woken_by_this_thread() - before, poller.owed.lock().unwrap().len()), (1, 0));
    });
}

#[test]
fn a_call_that_is_owed_to_no_one_is_not_made() {
    let (poller, place) = (Fake::default(), Arc::new(Place::default()));
    with_sleeper(&place, None, || {
        deferred::hold(Work::Calls);
        assert!(place.tell(&poller), "owed");
        // It leaves by itself: here, because another wakes all.
        place.parker.wake_all();
        eventually("it has left", || place.parker.sleepers.count() == 0);
        let before = woken_by_this_thread();
        let (sleeper, whom) = poller.owed.lock().unwrap().pop().unwrap();
        deferred::release(Work::Calls);
        sleeper.call(whom);
        assert_eq!(woken_by_this_thread(), before);
    });
}

#[test]
fn a_poll_knows_whether_the_sleeper_has_its_processor() {
    let cpus = napier_sys::sched::available_cpus();
    let [here, there, ..] = cpus[..] else {
        return napier_testkit::skip!("a_poll_knows_whether_the_sleeper_has_its_processor", "needs two processors");
    };
    for (cpu, shares) in [(here, true), (there, false)] {
        let (poller, place) = (Fake::default(), Arc::new(Place::default()));
        let polls = || {
            napier_sys::sched::pin_current_thread(here);
            deferred::hold(Work::Calls);
            assert!(place.tell(&poller), "owed");
            deferred::release(Work::Calls);
            let (sleeper, whom) = poller.owed.lock().unwrap().pop().unwrap();
            sleeper.call(whom);
            poller.shares_cpu.load(Ordering::Relaxed)
        };
        with_sleeper(&place, Some(cpu), || {
            assert_eq!(thread::scope(|scope| scope.spawn(polls).join().unwrap()), shares);
        });
    }
}

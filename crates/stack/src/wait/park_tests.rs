use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use napier_core::busy::BusyParams;
use napier_core::time::{Deadline, Instant, Span};
use napier_sys::clock::Clock;
use rustix::fd::OwnedFd;

use crate::host::{Busy, HostSettings, IrqHandOver, Lifetime, Wait};
use crate::wait::park::Parker;

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

/// An engine that lends it.
struct Lender(Arc<Cpu>);

impl Wait for Lender {
    fn prepare_to_wait(&self, _ready: &dyn Fn() -> bool) -> Option<Arc<dyn IrqHandOver>> {
        Some(self.0.clone())
    }
}

impl Lifetime for Lender {}

impl HostSettings for Lender {
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

impl Busy for Lender {
    fn busy_loop(&self, _napi_id: u32, _params: BusyParams, _ready: &mut dyn FnMut() -> bool) {}
    fn suspend_irqs(&self, _napi_id: u32) {}
    fn resume_irqs(&self, _napi_id: u32) {}
}

/// What a sleeper does for its CPU may panic: the CPU is given back, and the next sleeper gets it.
#[test]
fn a_cpu_is_given_back_after_a_panic() {
    let bell = Arc::new(std::fs::File::open("/dev/null").expect("it is there").into());
    let cpu = Cpu { bell, panics: true.into(), has_run: false.into(), given_back: 0.into() };
    let (parker, lender) = (Parker::new(), Lender(Arc::new(cpu)));
    let cpu = &lender.0;
    let sleep = || parker.wait_in(&lender, || cpu.has_run.load(Ordering::Relaxed), after(LOST_NS).1, &Clock);
    assert!(catch_unwind(AssertUnwindSafe(sleep)).is_err());
    assert_eq!(cpu.given_back.load(Ordering::Relaxed), 1);
    cpu.panics.store(false, Ordering::Relaxed);
    assert!(sleep(), "it sleeps on the CPU again");
    assert_eq!(cpu.given_back.load(Ordering::Relaxed), 2);
}

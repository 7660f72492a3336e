//! The timer that is set as rarely as is safe, and the alarm of a thread with many deadlines.

use std::sync::Arc;

use loom::sync::Mutex;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use loom::thread;

use super::{model, without};
use crate::sync::Point;
use crate::{Alarm, LazyTimer};

const NEVER: u64 = LazyTimer::NEVER_NS;

/// Two expiries that one timer serves.
struct Served {
    timer: LazyTimer,
    /// When the kernel's timer fires; its lock lets one at a time set it.
    kernel: Mutex<u64>,
    expiries: [AtomicU64; 2],
}

impl Served {
    fn new() -> Arc<Self> {
        let expiries = [0; 2].map(|_| AtomicU64::new(NEVER));
        Arc::new(Self { timer: LazyTimer::new(), kernel: Mutex::new(NEVER), expiries })
    }

    fn set(&self, kernel: &mut u64, at: u64) {
        self.timer.set(at, || *kernel = at);
    }

    /// A program arms an expiry.
    fn arm(&self, which: usize, at: u64) {
        self.expiries[which].store(at, Ordering::Relaxed);
        if !self.timer.sleeper_will_look() && self.timer.fires_after(at) {
            let mut kernel = self.kernel.lock().unwrap();
            if self.timer.fires_after(at) {
                self.set(&mut kernel, at);
            }
        }
    }

    fn earliest(&self) -> u64 {
        self.timer.before_look();
        self.expiries.iter().map(|expiry| expiry.load(Ordering::Relaxed)).min().unwrap()
    }

    /// Sets the timer to the earliest expiry.
    fn set_earliest(&self) {
        let mut next = self.earliest();
        while next != NEVER {
            let mut kernel = self.kernel.lock().unwrap();
            if self.timer.off_by_ns(next) > 0 {
                self.set(&mut kernel, next);
            }
            drop(kernel);
            let again = self.earliest();
            if again >= next {
                return;
            }
            next = again;
        }
    }

    fn comes_in_time(&self) {
        assert!(*self.kernel.lock().unwrap() <= self.earliest(), "the timer comes too late");
    }
}

/// The thread goes to sleep while a program arms.
fn who_sleeps_is_called() {
    model(|| {
        let served = Served::new();
        let program = served.clone();
        let thread = thread::spawn(move || program.arm(0, 5));
        served.timer.sleeps();
        served.set_earliest();
        thread.join().unwrap();
        served.comes_in_time();
    });
}

/// One program moves the timer to a later time, for its expiry was the earliest and is put off, while another arms one in
/// between.
fn a_timer_that_is_put_off_serves_all() {
    model(|| {
        let served = Served::new();
        served.timer.sleeps();
        served.set(&mut served.kernel.lock().unwrap(), 5);
        served.expiries[0].store(10, Ordering::Relaxed);
        let program = served.clone();
        let thread = thread::spawn(move || program.arm(1, 6));
        served.set_earliest();
        thread.join().unwrap();
        served.comes_in_time();
    });
}

#[test]
fn timer_of_a_sleeper() {
    who_sleeps_is_called();
}

#[test]
#[should_panic(expected = "the timer comes too late")]
fn timer_of_a_sleeper_needs_the_fence_of_who_arms() {
    without(Point::TimerArm, who_sleeps_is_called);
}

#[test]
#[should_panic(expected = "the timer comes too late")]
fn timer_of_a_sleeper_needs_the_fence_of_who_looks() {
    without(Point::TimerLook, who_sleeps_is_called);
}

#[test]
fn timer_put_off() {
    a_timer_that_is_put_off_serves_all();
}

#[test]
#[should_panic(expected = "the timer comes too late")]
fn timer_put_off_needs_the_fence_of_who_arms() {
    without(Point::TimerArm, a_timer_that_is_put_off_serves_all);
}

#[test]
#[should_panic(expected = "the timer comes too late")]
fn timer_put_off_needs_the_fence_of_who_looks() {
    without(Point::TimerLook, a_timer_that_is_put_off_serves_all);
}

/// A thread that slept until 2 is about to sleep until 10 while 3 is asked for.
fn an_alarm_is_heard() {
    model(|| {
        let shared = Arc::new((Alarm::new(), AtomicU32::new(0)));
        shared.0.sleep_until(2);
        let asker = shared.clone();
        let thread = thread::spawn(move || {
            asker.1.store(1, Ordering::Relaxed);
            asker.0.ask(3)
        });
        let (alarm, request) = &*shared;
        alarm.begin();
        let target = if request.load(Ordering::Relaxed) == 1 { 3 } else { 10 };
        alarm.sleep_until(target);
        let sleeps = !alarm.is_sooner(target);
        let woken = thread.join().unwrap();
        assert!(target == 3 || !sleeps || woken, "sleeps too long");
    });
}

#[test]
fn alarm() {
    an_alarm_is_heard();
}

#[test]
#[should_panic(expected = "sleeps too long")]
fn alarm_needs_the_order_of_who_asks() {
    without(Point::AlarmAsk, an_alarm_is_heard);
}

#[test]
#[should_panic(expected = "sleeps too long")]
fn alarm_needs_the_order_of_the_thread() {
    without(Point::AlarmLook, an_alarm_is_heard);
}

#[test]
#[should_panic(expected = "sleeps too long")]
fn alarm_needs_the_ordering_of_the_request() {
    without(Point::AlarmBegin, an_alarm_is_heard);
}

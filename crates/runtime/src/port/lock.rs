//! Locks of the transmit path. They are held for a few packets at most and never over a wait, so waiters spin; but a
//! program's thread, unlike the kernel's, can lose its processor while it holds one, and then a waiter that only spun
//! would keep it from going on.

use napier_ring::{CombiningLock, Entered, Exclusive, Inside};

use napier_sys::give_way::GiveWay;
use napier_sys::tsc::ticks;

/// Looks at a taken lock before the processor is offered to others.
const SPINS: u32 = 128;
/// Takes the lock, and says how long that took in ticks; 0 if it was free.
#[inline]
pub(crate) fn lock<T>(cell: &Exclusive<T>) -> (Entered<'_, T>, u64) {
    match cell.try_enter() {
        Some(entered) => (entered, 0),
        // Only looks, so that the line stays with the thread that works under the lock.
        None => wait_for(|| if cell.is_entered() { None } else { cell.try_enter() }),
    }
}

/// Tries until `enter` gives something, and says how long that took in ticks.
#[cold]
pub(crate) fn wait_for<G>(mut enter: impl FnMut() -> Option<G>) -> (G, u64) {
    let begin = ticks();
    let mut give_way = GiveWay::default();
    loop {
        for _ in 0..SPINS {
            if let Some(entered) = enter() {
                return (entered, ticks().wrapping_sub(begin).max(1));
            }
            std::hint::spin_loop();
        }
        give_way.turn();
    }
}

/// Takes a root lock, and says how long that took in ticks; 0 if it was free.
#[inline]
pub(crate) fn lock_root<T>(lock: &CombiningLock<T>) -> (Inside<'_, T>, u64) {
    match lock.try_enter() {
        Some(inside) => (inside, 0),
        None => wait_for(|| if lock.is_entered() { None } else { lock.try_enter() }),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::*;
    use napier_sys::sched::{pin_current_thread, set_fifo};

    /// CPU time of the calling thread.
    fn used() -> Duration {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32) // below 10^9
    }

    /// A waiter that only offered the processor would hold it until the system takes it away, after most of a second.
    #[test]
    fn a_waiter_in_a_real_time_class_lets_the_holder_go_on() {
        let cpu = crate::available_cpus()[0];
        let (cell, held, waiting) = (Exclusive::new(()), AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                pin_current_thread(cpu);
                let entered = cell.try_enter().expect("no other thread is there yet");
                held.store(true, Ordering::Release);
                while !waiting.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
                drop(entered);
            });
            scope.spawn(|| {
                pin_current_thread(cpu);
                while !held.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
                if set_fifo(1).is_err() {
                    let test = "a_waiter_in_a_real_time_class_lets_the_holder_go_on";
                    napier_testkit::skip!(test, "SCHED_FIFO is not granted (CAP_SYS_NICE)");
                }
                waiting.store(true, Ordering::Release);
                let begin = used();
                drop(lock(&cell));
                // Its own time: how long it takes the holder to get the processor depends on what else there is.
                let spent = used() - begin;
                assert!(spent < Duration::from_millis(400), "kept the processor for {spent:?} from who holds the lock");
            });
        });
    }
}

//! Locks of the transmit path. They are held for a few packets at most and never over a wait, so waiters spin; but a
//! program's thread, unlike the kernel's, can lose its processor while it holds one, and then a waiter that only spun
//! would keep it from going on.

use napier_ring::{Entered, Exclusive, Inside, Relay};

use crate::sys::tsc::ticks;

/// Looks at a taken lock before the processor is offered to others.
const SPINS: u32 = 128;

/// Takes the lock, and says how long that took in ticks; 0 if it was free.
#[inline]
pub(crate) fn lock<T>(cell: &Exclusive<T>) -> (Entered<'_, T>, u64) {
    match cell.try_enter() {
        Some(entered) => (entered, 0),
        None => lock_slow(cell),
    }
}

#[cold]
fn lock_slow<T>(cell: &Exclusive<T>) -> (Entered<'_, T>, u64) {
    let begin = ticks();
    loop {
        for _ in 0..SPINS {
            // Only a look, so that the line stays with whoever works under the lock.
            if !cell.is_entered()
                && let Some(entered) = cell.try_enter()
            {
                return (entered, ticks().wrapping_sub(begin).max(1));
            }
            std::hint::spin_loop();
        }
        std::thread::yield_now();
    }
}

/// Takes a root lock, and says how long that took in ticks; 0 if it was free.
#[inline]
pub(crate) fn lock_root<T>(relay: &Relay<T>) -> (Inside<'_, T>, u64) {
    match relay.try_enter() {
        Some(inside) => (inside, 0),
        None => lock_root_slow(relay),
    }
}

#[cold]
fn lock_root_slow<T>(relay: &Relay<T>) -> (Inside<'_, T>, u64) {
    let begin = ticks();
    loop {
        if let Some(inside) = look(relay, SPINS) {
            return (inside, ticks().wrapping_sub(begin).max(1));
        }
        std::thread::yield_now();
    }
}

/// Looks for a while whether the lock becomes free; only looks, so that the line stays with whoever works under it.
fn look<T>(relay: &Relay<T>, times: u32) -> Option<Inside<'_, T>> {
    for _ in 0..times {
        if !relay.is_entered()
            && let Some(inside) = relay.try_enter()
        {
            return Some(inside);
        }
        std::hint::spin_loop();
    }
    None
}

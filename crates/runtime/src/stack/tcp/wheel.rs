//! Timers of connections: a wheel with one place per millisecond, and the thread that turns it.
//!
//! A connection stands in the wheel at most once for its next deadline. A deadline that moves to a later time, as with
//! every segment that is acknowledged, changes nothing here: when the place comes up, the connection says when it really
//! wants to be called and is put there. One that moves to an earlier time makes a second entry, and the first is ignored
//! when it comes up. An idle connection has no entry.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use napier_core::time::{Deadline, Instant};

use super::super::netns::Inner;
use super::conn::Conn;
use crate::clock::Clock;
use crate::park::Parker;

/// Nanoseconds per place.
const TICK_NS: u64 = 1_000_000;
/// Places; what is due later is put off once per turn of 4 s.
const SLOTS: usize = 4096;

/// Never a place's number: the first tick is that of a clock that has run for a millisecond.
pub(super) const NOT_QUEUED: u64 = 0;
const NOBODY: u64 = u64::MAX;
/// How many connections ahead of the one that is called memory is asked for.
const LOOK_AHEAD: usize = 4;

/// Deadlines of many connections.
pub(super) struct Wheel {
    places: Mutex<Places>,
    /// The earliest place with somebody in it, or `NOBODY`.
    earliest: AtomicU64,
    stop: AtomicBool,
    parker: Parker,
}

struct Places {
    slots: Box<[Vec<Arc<Conn>>]>,
    occupied: [u64; SLOTS / 64],
    /// The last tick that was called up.
    done: u64,
}

impl Wheel {
    pub(super) fn new(now: Instant) -> Self {
        let slots = (0..SLOTS).map(|_| Vec::new()).collect();
        let places = Places { slots, occupied: [0; SLOTS / 64], done: now.ns / TICK_NS };
        Self {
            places: Mutex::new(places),
            earliest: AtomicU64::new(NOBODY),
            stop: AtomicBool::new(false),
            parker: Parker::new(),
        }
    }

    /// Sees to it that `conn` is called at `at` or up to a millisecond later. `queued`: where it stands already; gives
    /// where it stands now.
    #[inline]
    pub(super) fn call_at(&self, conn: &Arc<Conn>, queued: u64, at: Instant) -> u64 {
        let tick = at.ns.div_ceil(TICK_NS);
        if queued != NOT_QUEUED && queued <= tick {
            return queued;
        }
        self.put(conn, tick)
    }

    fn put(&self, conn: &Arc<Conn>, tick: u64) -> u64 {
        let mut places = self.places();
        let tick = tick.clamp(places.done + 1, places.done + SLOTS as u64 - 1);
        let slot = slot_of(tick);
        places.slots[slot].push(conn.clone());
        places.occupied[slot / 64] |= 1 << (slot % 64);
        let sooner = tick < self.earliest.load(Ordering::Relaxed);
        if sooner {
            // Relaxed: the lock orders the writers, and the parker's fences the sleeper's look.
            self.earliest.store(tick, Ordering::Relaxed);
        }
        drop(places);
        if sooner {
            self.parker.wake();
        }
        tick
    }

    /// Takes out everybody who is due.
    fn due(&self, now: Instant, called: &mut Vec<(u64, Vec<Arc<Conn>>)>) {
        let until = now.ns / TICK_NS;
        let mut places = self.places();
        // Nobody stands further ahead than one turn, however long the thread slept.
        let last = until.min(places.done + SLOTS as u64 - 1);
        for tick in places.done + 1..=last {
            let slot = slot_of(tick);
            if places.occupied[slot / 64] & 1 << (slot % 64) != 0 {
                places.occupied[slot / 64] &= !(1 << (slot % 64));
                called.push((tick, std::mem::take(&mut places.slots[slot])));
            }
        }
        places.done = places.done.max(until);
        self.earliest.store(places.next(), Ordering::Relaxed);
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the thread, and lets go of everybody.
    pub(super) fn stop(&self) {
        // Release: pairs with the Acquire load in `turn`.
        self.stop.store(true, Ordering::Release);
        self.parker.wake_all();
        self.places().slots.iter_mut().for_each(Vec::clear);
    }

    /// The thread: turns the wheel until it is stopped or its name space is gone.
    pub(super) fn turn(&self, ns: &Weak<Inner>) {
        let mut called = Vec::new();
        loop {
            let target = self.earliest.load(Ordering::Relaxed);
            let stopped = || self.stop.load(Ordering::Acquire);
            let sooner = || stopped() || self.earliest.load(Ordering::Relaxed) < target;
            let deadline = match target {
                NOBODY => Deadline::NEVER,
                tick => Deadline::at(Instant { ns: tick * TICK_NS }),
            };
            self.parker.wait(sooner, deadline, &Clock);
            if stopped() {
                return;
            }
            let Some(ns) = ns.upgrade() else { return };
            let now = Clock.now();
            self.due(now, &mut called);
            for (tick, conns) in called.drain(..) {
                for (at, conn) in conns.iter().enumerate() {
                    if let Some(later) = conns.get(at + LOOK_AHEAD) {
                        later.fetch();
                    }
                    conn.on_timer(&ns, tick, now);
                }
            }
        }
    }
}

impl Places {
    /// The next place with somebody in it, in the order of time.
    fn next(&self) -> u64 {
        let first = self.done + 1;
        let mut offset = 0;
        while offset < SLOTS as u64 {
            let slot = slot_of(first + offset);
            let word = self.occupied[slot / 64] >> (slot % 64);
            if word != 0 {
                return first + offset + u64::from(word.trailing_zeros());
            }
            offset += 64 - slot as u64 % 64;
        }
        NOBODY
    }
}

fn slot_of(tick: u64) -> usize {
    (tick % SLOTS as u64) as usize
}

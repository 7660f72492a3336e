//! Timers of connections: a wheel with one place per millisecond, and the thread that turns it.
//!
//! A connection stands in the wheel at most once for its next deadline. A deadline that moves to a later time, as with
//! every segment that is acknowledged, changes nothing here: when the place comes up, the connection says when it really
//! wants to be called and is put there. One that moves to an earlier time makes a second entry, and the first is ignored
//! when it comes up. An idle connection has no entry.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use napier_core::time::{Deadline, Instant, Span};
use napier_ring::{Alarm, Inbox};
use napier_sys::clock::Clock;

use super::Tcp;
use super::conn::{Conn, NOT_QUEUED};
use super::memory::MemoryAccount;
use super::remnant::Remnant;
use crate::wait::park::Parker;

/// Nanoseconds per place.
const TICK_NS: u64 = 1_000_000;
/// Slots; what is due later is put off once per turn of 4 s.
const SLOTS: usize = 4096;

/// Longest time ahead for which a connection stands in the wheel: it is asked again then. So one that has ended is let go
/// of in seconds, whatever it had waited for.
const AHEAD_MAX: Span = Span::from_secs(4);

/// Calls that a place has room for in the long run: a crowd that once came at the same time leaves no more.
const ROOM_KEPT: usize = 4;
/// How many connections ahead of the one that is called memory is asked for.
const LOOK_AHEAD: usize = 4;

/// A connection, or what stays of one, and the tick at which it wants to be called.
type Call = (Callee, u64);

/// What is called.
enum Callee {
    Conn(Arc<Conn>),
    Remnant(Arc<Remnant>),
}

/// Deadlines of many connections: what threads that send and receive see of the wheel. They never wait for its thread, nor
/// it for them.
pub(super) struct Wheel {
    /// Calls that the thread has not put into their places.
    asked: Inbox<Call>,
    /// In ticks.
    alarm: Alarm,
    stop: AtomicBool,
    parker: Arc<Parker>,
    /// Which may have the thread ask all connections to give memory back.
    memory: Arc<MemoryAccount>,
}

/// The thread's own.
struct Slots {
    slots: Box<[Vec<Call>]>,
    occupied: [u64; SLOTS / 64],
    /// The last tick that was called up.
    done: u64,
}

impl Wheel {
    /// `parker`: where its thread sleeps, whom `memory` wakes too.
    pub(super) fn new(parker: Arc<Parker>, memory: Arc<MemoryAccount>) -> Self {
        Self { asked: Inbox::new(), alarm: Alarm::new(), stop: AtomicBool::new(false), parker, memory }
    }

    /// Sees to it that `conn` is called at `at` or up to a millisecond later, or before if that is far ahead. `queued`: where it stands already; gives
    /// where it stands now.
    #[inline]
    pub(super) fn call_at(&self, conn: &Arc<Conn>, queued: u64, at: Instant, now: Instant) -> u64 {
        let tick = tick_of(at, now);
        if queued != NOT_QUEUED && queued <= tick {
            return queued;
        }
        self.ask(Callee::Conn(conn.clone()), tick);
        tick
    }

    /// The same for what stays of a connection; it stands here once.
    pub(super) fn call_remnant(&self, remnant: &Arc<Remnant>, at: Instant, now: Instant) {
        self.ask(Callee::Remnant(remnant.clone()), tick_of(at, now));
    }

    fn ask(&self, callee: Callee, tick: u64) {
        self.asked.push((callee, tick));
        // Relaxed: who pushes after the thread has taken for the last time sees by that why (`Inbox::take`). A call that
        // stayed would hold the connection, and by it all that the wheel is a part of.
        if self.stop.load(Ordering::Relaxed) {
            return drop(self.asked.take());
        }
        if self.alarm.ask(tick) {
            self.parker.wake();
        }
    }

    /// Ends the thread, which lets go of everybody.
    pub(super) fn stop(&self) {
        // Release: pairs with the Acquire load in `turn`.
        self.stop.store(true, Ordering::Release);
        self.parker.wake_all();
    }

    /// The thread: turns the wheel until it is stopped or its name space is gone.
    pub(super) fn turn(&self, tcp: &Weak<Tcp>) {
        napier_sys::nowait::this_thread();
        let mut places = Slots::new(Clock.now());
        let mut called = Vec::new();
        loop {
            self.alarm.begin();
            places.take_in(&self.asked);
            let target = places.next();
            self.alarm.sleep_until(target);
            let stopped = || self.stop.load(Ordering::Acquire);
            let sooner = || stopped() || self.memory.wants_sweep() || self.alarm.is_sooner(target);
            let deadline = match target {
                Alarm::NEVER => Deadline::NEVER,
                tick => Deadline::at(Instant { ns: tick * TICK_NS }),
            };
            self.parker.wait(sooner, deadline, &Clock);
            if stopped() {
                return drop(self.asked.take());
            }
            let Some(tcp) = tcp.upgrade() else { return };
            let now = Clock.now();
            tcp.tables.host.watchdog_tick(now);
            if self.memory.takes_sweep(now) {
                tcp.sweep();
            }
            places.due(now, &mut called);
            for at in 0..called.len() {
                if let Some((Callee::Conn(later), _)) = called.get(at + LOOK_AHEAD) {
                    later.fetch();
                }
                match &called[at] {
                    (Callee::Conn(conn), tick) => conn.called(&tcp, *tick, now),
                    (Callee::Remnant(remnant), _) => tcp.called_for(remnant, now),
                }
            }
            called.clear();
        }
    }
}

impl Slots {
    fn new(now: Instant) -> Self {
        let slots = (0..SLOTS).map(|_| Vec::new()).collect();
        Self { slots, occupied: [0; SLOTS / 64], done: now.ns / TICK_NS }
    }

    fn take_in(&mut self, asked: &Inbox<Call>) {
        for call in asked.take_any() {
            self.put(call);
        }
    }

    fn put(&mut self, call: Call) {
        let tick = call.1.clamp(self.done + 1, self.done + SLOTS as u64 - 1);
        let slot = slot_of(tick);
        self.slots[slot].push(call);
        self.occupied[slot / 64] |= 1 << (slot % 64);
    }

    /// Takes out everybody who is due.
    fn due(&mut self, now: Instant, called: &mut Vec<Call>) {
        let until = now.ns / TICK_NS;
        // Nobody stands further ahead than one turn, however long the thread slept.
        let last = until.min(self.done + SLOTS as u64 - 1);
        for tick in self.done + 1..=last {
            let slot = slot_of(tick);
            if self.occupied[slot / 64] & 1 << (slot % 64) != 0 {
                self.occupied[slot / 64] &= !(1 << (slot % 64));
                let place = &mut self.slots[slot];
                called.append(place);
                if place.capacity() > ROOM_KEPT {
                    *place = Vec::new();
                }
            }
        }
        self.done = self.done.max(until);
        // Those who wait for more than a turn.
        if called.iter().any(|(_, tick)| *tick > self.done) {
            let later = called.extract_if(.., |(_, tick)| *tick > self.done).collect::<Vec<_>>();
            later.into_iter().for_each(|call| self.put(call));
        }
    }

    /// The next place with a connection in it, in the order of time.
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
        Alarm::NEVER
    }
}

/// The tick at which one that wants to be called at `at` is called, or asked again.
#[inline]
fn tick_of(at: Instant, now: Instant) -> u64 {
    at.min(now + AHEAD_MAX).ns.div_ceil(TICK_NS)
}

fn slot_of(tick: u64) -> usize {
    (tick % SLOTS as u64) as usize
}

//! A connection that a thread owns, and what others leave for the owner.
//!
//! A program owns a connection for the length of a call, and may lose its processor in it. So a softirq, a timer or the
//! poll of an instance never waits for it ([`napier_ring::Owned`], [`napier_core::backlog`]): it leaves a [`Note`]. The
//! owner works off the notes before it lets go, and only then kicks devices and tells programs.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use napier_core::backlog;
use napier_core::tcp::seq::Seq;
use napier_core::time::{Deadline, Instant};
use napier_ring::{Owner, Release};
use napier_sys::clock::Clock;

use crate::counters::Counter;
use crate::tables::Tables;
use crate::tcp::Tcp;
use crate::tcp::conn::note::{Arrived, IcmpReport, Kept, Note, REPORT_WEIGHT};
use crate::tcp::conn::{Conn, Core, Input, News};
use crate::tcp::rules::Cause;
use crate::wait::deferred::{self, Work};

/// Looks at a connection that is owned before its waiter sleeps: most calls are over sooner than that.
const SPINS: u32 = 100;

/// A connection and its owner. Letting go (a drop) works off what others have left, then kicks devices, then tells programs.
#[must_use = "the connection is free again as soon as this is dropped"]
pub(in crate::tcp) struct OwnedConn<'a> {
    conn: &'a Arc<Conn>,
    pub(super) tcp: &'a Tcp,
    /// Gone only while it is dropped.
    owner: Option<Owner<'a, Core, Note>>,
    news: News,
    /// The thread was panicking before it had the connection: the mistake is not ours.
    unwinds: bool,
    /// What came of the notes that were worked off; most often there are none.
    worked_off: Option<Box<WorkedOff>>,
}

#[derive(Default)]
struct WorkedOff {
    /// What the notes weighed.
    weight: u64,
    /// SYNs that came to the end of the connection: they may begin another.
    reopen: Vec<(Kept, Option<Seq>)>,
}

impl Conn {
    /// Owns the connection, for a program: waits while another thread has it.
    #[inline]
    pub(in crate::tcp) fn own<'a>(self: &'a Arc<Self>, tcp: &'a Tcp) -> OwnedConn<'a> {
        let owner = self.core.try_own().unwrap_or_else(|| self.wait_to_own());
        OwnedConn::new(self, tcp, owner)
    }

    /// Owns the connection if no thread does.
    #[inline]
    pub(in crate::tcp) fn try_own<'a>(self: &'a Arc<Self>, tcp: &'a Tcp) -> Option<OwnedConn<'a>> {
        self.core.try_own().map(|owner| OwnedConn::new(self, tcp, owner))
    }

    #[cold]
    fn wait_to_own(&self) -> Owner<'_, Core, Note> {
        for _ in 0..SPINS {
            std::hint::spin_loop();
            if let Some(owner) = (!self.core.is_owned()).then(|| self.core.try_own()).flatten() {
                return owner;
            }
        }
        let found = Cell::new(None);
        let look = || {
            let owner = found.take().or_else(|| self.core.own_or_note());
            let got = owner.is_some();
            found.set(owner);
            got
        };
        self.core.wait_begins();
        self.free.sleep(look, Deadline::NEVER, &Clock);
        self.core.wait_ends();
        // The next one is woken when this one lets go.
        self.free.hand_on(|| false);
        found.take().expect("a sleep without deadline ends when there is something")
    }

    /// The wheel has come to place `tick`.
    pub(in crate::tcp) fn called(self: &Arc<Self>, tcp: &Tcp, tick: u64, now: Instant) {
        match self.try_own(tcp) {
            Some(mut held) => held.on_timer(tick, now),
            None => self.leave(tcp, Note::Timer(tick)),
        }
    }

    /// Leaves a note, and works it off if no thread owns the connection. Never waits.
    pub(in crate::tcp) fn leave(self: &Arc<Self>, tcp: &Tcp, note: Note) {
        if let Some(owner) = self.core.post(note) {
            OwnedConn::new(self, tcp, owner).work_off();
        }
    }

    /// As [`leave`](Self::leave) for a segment, which is lost if too much waits already.
    #[cold]
    pub(super) fn leave_segment(self: &Arc<Self>, tcp: &Tcp, arrived: &Arrived<'_>) {
        let weight = backlog::weight_bytes(arrived.packet.len());
        // Relaxed: a limit that only grows.
        let max = self.backlog_max.load(Ordering::Relaxed);
        match self.core.post_weighed(Note::Segment(Kept::of(arrived)), weight, max) {
            Ok(None) => tcp.tables.counters.count(Counter::TcpBacklogged),
            Ok(Some(owner)) => OwnedConn::new(self, tcp, owner).work_off(),
            Err(_) => tcp.tables.counters.count(Counter::TcpBacklogDrop),
        }
    }
}

impl Conn {
    /// Takes a message about a segment that was sent, or leaves it; it is lost if too much waits.
    #[cold]
    pub(in crate::tcp) fn hear(self: &Arc<Self>, tcp: &Tcp, report: &IcmpReport) {
        if let Some(mut held) = self.try_own(tcp) {
            return held.told(report);
        }
        match self.core.post_weighed(Note::Told(*report), REPORT_WEIGHT, self.backlog_max.load(Ordering::Relaxed)) {
            Ok(None) => {}
            Ok(Some(owner)) => OwnedConn::new(self, tcp, owner).work_off(),
            Err(_) => tcp.tables.counters.count(Counter::TcpBacklogDrop),
        }
    }
}

impl<'a> OwnedConn<'a> {
    #[inline]
    fn new(conn: &'a Arc<Conn>, tcp: &'a Tcp, owner: Owner<'a, Core, Note>) -> Self {
        Self {
            conn,
            tcp,
            owner: Some(owner),
            news: News::default(),
            unwinds: std::thread::panicking(),
            worked_off: None,
        }
    }

    /// Counts what changed, publishes the conditions, sees to the next deadline; who has to know is told at the end.
    #[inline]
    pub(in crate::tcp) fn settle(&mut self, now: Instant, cause: Cause) {
        let core = self.owner.as_mut().expect("there until the drop");
        self.conn.settle(self.tcp, core, now, cause, &mut self.news);
    }

    /// Publishes the conditions that hold.
    #[inline]
    pub(in crate::tcp) fn publish_ready(&mut self) {
        let conn = self.conn;
        let look = self.look();
        let _ = conn.publish_ready(self, &look);
    }

    /// Data came.
    #[inline]
    pub(super) fn received(&mut self) {
        self.news.data_came();
        self.publish_buffers();
    }

    /// The buffers may have moved or grown.
    #[inline]
    pub(in crate::tcp) fn publish_buffers(&self) {
        self.conn.publish_buffers(self);
    }

    #[inline]
    pub(super) fn tables(&self) -> &'a Tables {
        &self.tcp.tables
    }

    pub(super) fn conn(&self) -> &'a Arc<Conn> {
        self.conn
    }

    #[cfg(test)]
    pub(in crate::tcp) fn queued_at(&self) -> u64 {
        self.queued
    }

    /// The deadline has come, for a test that does not wait for it.
    #[cfg(test)]
    pub(in crate::tcp) fn pretend_due(&mut self) {
        self.deadline = Deadline::at(Instant { ns: 1 });
    }

    #[cfg(test)]
    pub(in crate::tcp) fn is_pretended(&self) -> bool {
        self.deadline == Deadline::at(Instant { ns: 1 })
    }

    /// A panic of the owner is a mistake of ours: it ends the connection, and no thread is left waiting.
    #[cold]
    fn give_up(&self, mut owner: Owner<'a, Core, Note>) {
        owner.dead = true;
        if !self.unwinds {
            self.tables().counters.count(Counter::TcpFaults);
        }
        self.conn.publish_end(&owner);
        let mut weight = self.weight();
        let kicks = std::mem::take(&mut owner.outlet.holds_kicks);
        loop {
            for note in owner.messages() {
                match note {
                    Note::Segment(kept) => weight += backlog::weight_bytes(kept.packet.len()),
                    Note::Told(_) => weight += REPORT_WEIGHT,
                    _ => {}
                }
            }
            match owner.release(weight) {
                Release::Noted(again) => owner = again,
                Release::Freed { .. } => break,
            }
        }
        if kicks {
            deferred::release(Work::Kicks);
        }
        self.conn.free.wake_all();
        self.conn.reader.wake_all();
        self.conn.writer.wake_all();
    }

    #[inline]
    fn weight(&self) -> u64 {
        self.worked_off.as_ref().map_or(0, |worked_off| worked_off.weight)
    }

    /// Works off what others have left until nothing is, and lets go; whether there are kicks to make.
    #[cold]
    fn serve_notes(&mut self, mut owner: Owner<'a, Core, Note>, mut kicks: bool) -> bool {
        loop {
            owner.outlet.holds_kicks = kicks;
            self.owner = Some(owner);
            let panicked = catch_unwind(AssertUnwindSafe(|| self.work_off())).err();
            owner = self.owner.take().expect("still in hand");
            if let Some(panicked) = panicked {
                self.give_up(owner);
                resume_unwind(panicked);
            }
            kicks = std::mem::take(&mut owner.outlet.holds_kicks);
            match owner.release(self.weight()) {
                Release::Freed { wake } => {
                    if wake {
                        self.conn.free.wake();
                    }
                    return kicks;
                }
                Release::Noted(again) => owner = again,
            }
        }
    }

    /// The connection is free: devices are kicked, then programs told.
    #[inline(never)]
    fn spread(&mut self, kicks: bool) {
        if kicks {
            deferred::release(Work::Kicks);
        }
        if !self.news.are_none() {
            self.conn.tell(self.tcp, &mut self.news);
        }
        if let Some(worked_off) = self.worked_off.take() {
            self.reopen(&worked_off.reopen);
        }
    }

    /// SYNs that waited for the end of this connection begin others.
    #[cold]
    fn reopen(&self, kept: &[(Kept, Option<Seq>)]) {
        for (kept, first) in kept {
            self.tcp.reopen(&kept.arrived(Clock.now()), *first);
        }
    }

    #[cold]
    fn work_off(&mut self) {
        for note in self.owner.as_ref().expect("there until the drop").messages() {
            match note {
                Note::Segment(kept) => {
                    let weight = backlog::weight_bytes(kept.packet.len());
                    self.worked_off.get_or_insert_default().weight += weight;
                    let now = Clock.now();
                    if let Input::Reopen(first) = self.input(&kept.arrived(now)) {
                        self.worked_off.get_or_insert_default().reopen.push((*kept, first));
                    }
                }
                Note::Told(report) => {
                    self.worked_off.get_or_insert_default().weight += REPORT_WEIGHT;
                    self.told(&report);
                }
                Note::Timer(place) => self.on_timer(place, Clock.now()),
                Note::Room => self.on_room(),
                Note::Memory => self.saves_memory(),
                Note::GiveWay(kind) => drop(self.give_way(kind)),
                Note::LinkLost => self.link_lost(),
                Note::EngineStopped => self.engine_stopped(),
                #[cfg(test)]
                Note::Panic => panic!("injected: a note that says so"),
                Note::Reset => {
                    self.reset_on_close = true;
                    self.close();
                }
            }
        }
    }
}

impl Drop for OwnedConn<'_> {
    #[inline]
    fn drop(&mut self) {
        let Some(mut owner) = self.owner.take() else { return };
        if std::thread::panicking() {
            return self.give_up(owner);
        }
        let mut kicks = std::mem::take(&mut owner.outlet.holds_kicks);
        match owner.release(self.weight()) {
            Release::Freed { wake: false } => {}
            Release::Freed { wake: true } => _ = self.conn.free.wake(),
            Release::Noted(again) => kicks = self.serve_notes(again, kicks),
        }
        if kicks || !self.news.are_none() || self.worked_off.is_some() {
            self.spread(kicks);
        }
    }
}

impl Deref for OwnedConn<'_> {
    type Target = Core;

    #[inline]
    fn deref(&self) -> &Core {
        self.owner.as_ref().expect("there until the drop")
    }
}

impl DerefMut for OwnedConn<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Core {
        self.owner.as_mut().expect("there until the drop")
    }
}

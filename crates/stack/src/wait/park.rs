//! Sleeping until there is work: a doorbell with a futex behind it.
//!
//! The sleeper works in three steps: it announces itself on the bell, makes a full fence and looks for work once more.
//! A waker publishes work, makes a full fence and looks at the bell. At least one of the two sees the other
//! (`kernel/futex/waitwake.c` states the same rule for the word that a futex compares). A waker that finds no sleeper
//! announced makes no system call; of many wakers that find the same announcement exactly one makes the call.
//!
//! # Several sleepers
//! Wake-ups are *exclusive*, as those of `epoll_wait` are (`fs/eventpoll.c` `ep_poll` queues its waiters with
//! `__add_wait_queue_exclusive`): one ring wakes one sleeper. The bell is a single word, so a ring also silences it for
//! the sleepers that stay. Hence the rule that keeps them from being forgotten:
//!
//! > While a thread sleeps and the bell is silent, some awake thread owes a [`Parker::hand_on`].
//!
//! It follows that all sleepers of one parker must wait for the same thing: the one that is woken answers for all. Threads
//! that wait for different things (to receive, to send) need a parker each.
//!
//! The debtor is the sleeper that was woken (or found work by itself). `hand_on` sets the bell again for the others,
//! looks, and wakes the next one if work is left. [`Parker::wait`] pays the debt before it returns; [`Parker::sleep`]
//! leaves it to a caller that wants to take its share of the work first, which saves the others a needless wake-up.
//!
//! # A sleeper that works for its CPU
//! One of the sleepers may sleep where its CPU's interrupts come in ([`Parker::sleep_in`]), and is then called there. What it is
//! told by what it does there itself costs no call: it has taken its announcement off the bell as soon as it is awake.
//!
//! # A sleeper outside
//! A program may sleep on a descriptor that stands for the parker (`Parker::descriptor`, [`napier_core::waking::external`]). It
//! counts as a sleeper while it is armed, and is called beside the one of the others that is.
//!
//! # A waker that polls
//! Who is told by a poll on its own processor is called when the poll is over, once ([`Parker::wake_told`], [`napier_core::waking`]): else
//! it would take the processor from the poll for the first socket that is told. The announcement is taken at once, so the poll
//! is the awake thread of the rule above until it has made the call.

use std::io;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use napier_core::time::Deadline;
use napier_core::waking::external::Arming;
use napier_ring::{Doorbell, Sleepers, StandIn};
use napier_sys::clock::{Clock, timespec};
use napier_sys::current;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::thread::{futex, sched_getcpu};

use crate::host::{Host, IrqHandOver};
pub(crate) use crate::host::{Sleeper, Whom};
use crate::wait::deferred::{self, Work};
use crate::wait::external::ExternalSleeper;

/// Value of the bell's word while a sleeper is announced; the futex sleeps only while it reads this.
const ARMED: u32 = 1;
/// The futex variant with an absolute deadline wants a bit set; this one matches every wake-up.
const MATCH_ANY: NonZeroU32 = NonZeroU32::MAX;

/// How many sleepers the calling thread has called since it began, whatever they slept on.
#[must_use]
pub fn woken_by_this_thread() -> u64 {
    current::wakeups()
}

/// A place to sleep for any number of threads and to be woken by any number of others.
#[derive(Default)]
pub struct Parker {
    bell: Doorbell,
    sleepers: Sleepers,
    stand_in: StandIn,
    /// The processor where a thread went to sleep last. A hint: the system may wake it elsewhere.
    cpu: AtomicU32,
    /// Where the sleeper is called that works for its CPU.
    stand_in_bell: ArcSwapOption<OwnedFd>,
    /// Who sleeps on a descriptor, once one was asked for.
    external: OnceLock<Box<ExternalSleeper>>,
}

impl Parker {
    /// A parker without sleepers.
    pub fn new() -> Self {
        Self::default()
    }

    /// As [`wait`](Self::wait), and meanwhile the caller may work for its CPU.
    pub fn wait_in(&self, host: &dyn Host, has_work: impl Fn() -> bool, deadline: Deadline, clock: &Clock) -> bool {
        let found = self.sleep_in(host, &has_work, deadline, clock);
        self.hand_on(&has_work);
        found
    }

    /// As [`sleep`](Self::sleep), and meanwhile the caller may work for its CPU. For a thread that holds nothing: what was
    /// deferred on its CPU comes first ([`prepare_to_wait`](crate::host::Wait::prepare_to_wait)).
    pub fn sleep_in(&self, host: &dyn Host, has_work: impl Fn() -> bool, deadline: Deadline, clock: &Clock) -> bool {
        if has_work() {
            return true;
        }
        // The first look of a thread takes memory, so that it is taken at the first sleep, wherever that is.
        drop(self.stand_in_bell.load());
        let Some(cpu) = host.prepare_to_wait(&has_work) else { return self.sleep(has_work, deadline, clock) };
        if !self.stand_in.begin() {
            cpu.end();
            return self.sleep(has_work, deadline, clock);
        }
        self.is_called_at(cpu.bell());
        self.enter();
        let inside = InCpu { parker: self, cpu };
        self.sleep_there(&*inside.cpu, &has_work, deadline, clock)
    }

    /// Where the sleeper that works for its CPU is called. Said before the bell is armed, which shows it to wakers.
    fn is_called_at(&self, bell: &Arc<OwnedFd>) {
        // Mostly the same as the last time, and a look costs little.
        if !self.stand_in_bell.load().as_ref().is_some_and(|there| Arc::ptr_eq(there, bell)) {
            self.stand_in_bell.store(Some(bell.clone()));
        }
    }

    fn sleep_there(
        &self,
        cpu: &dyn IrqHandOver,
        has_work: &dyn Fn() -> bool,
        deadline: Deadline,
        clock: &Clock,
    ) -> bool {
        loop {
            self.sleepers.announce();
            if !self.bell.arm(has_work) {
                return true;
            }
            cpu.sleep(deadline, &mut || {
                self.bell.disarm();
            });
            if has_work() {
                return true;
            }
            if deadline.is_due(clock.now()) {
                return false;
            }
        }
    }

    /// Sleeps until `has_work` says true or `deadline` passes; the last answer of `has_work` is returned.
    ///
    /// `has_work` must become true *before* the matching [`wake`](Self::wake), and must not sleep on this parker.
    /// Signals do not end the sleep. Other sleepers are served before this returns.
    pub fn wait(&self, has_work: impl Fn() -> bool, deadline: Deadline, clock: &Clock) -> bool {
        let found = self.sleep(&has_work, deadline, clock);
        self.hand_on(&has_work);
        found
    }

    /// As [`wait`](Self::wait), but the caller owes a [`hand_on`](Self::hand_on) as soon as it has taken its work.
    pub fn sleep(&self, has_work: impl Fn() -> bool, deadline: Deadline, clock: &Clock) -> bool {
        if has_work() {
            return true;
        }
        deferred::settle(Work::Calls);
        deferred::settle(Work::ExactTimers);
        let until = deadline.instant().map(|instant| timespec(instant.ns));
        self.enter();
        let found = loop {
            // Whoever takes our announcement off the bell counts us as a sleeper.
            self.sleepers.announce();
            if !self.bell.arm(&has_work) {
                break true;
            }
            match futex::wait_bitset(self.bell.word(), futex::Flags::PRIVATE, ARMED, until.as_ref(), MATCH_ANY) {
                // Woken; rung between the look and the sleep; or a signal.
                Ok(()) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(Errno::TIMEDOUT) if deadline.is_due(clock.now()) => break has_work(),
                Err(Errno::TIMEDOUT) => {}
                Err(error) => panic!("futex refused a sleeper: {error}"),
            }
            if has_work() {
                break true;
            }
        };
        self.sleepers.leave();
        found
    }

    fn enter(&self) {
        // Relaxed: a hint.
        self.cpu.store(this_cpu(), Ordering::Relaxed);
        self.sleepers.enter();
    }

    /// Wakes one sleeper if there is one: no system call otherwise, one at most. True if the call was made.
    #[inline]
    pub fn wake(&self) -> bool {
        let rung = self.ring();
        if rung {
            self.call();
        }
        rung
    }

    /// As [`wake`](Self::wake), for what a poll delivers: if the calling thread polls, the sleeper may be called when that is over.
    /// `sleeper` gives what this parker belongs to, and is to keep it until then. True if the call was made or is owed.
    #[inline]
    pub fn wake_told(&self, host: &dyn Host, sleeper: &dyn Fn() -> Option<Arc<dyn Sleeper>>, whom: Whom) -> bool {
        let rung = self.ring();
        if rung {
            self.call_told(host, sleeper, whom);
        }
        rung
    }

    #[cold]
    fn call_told(&self, host: &dyn Host, sleeper: &dyn Fn() -> Option<Arc<dyn Sleeper>>, whom: Whom) {
        let polls = deferred::held(Work::Calls) > 0;
        // Relaxed: a hint.
        let owed = polls && host.owe_call(sleeper, whom, self.cpu.load(Ordering::Relaxed) == this_cpu());
        if !owed {
            self.call();
        }
    }

    /// Makes a call that was owed, unless all sleepers have left since.
    pub(crate) fn call_owed(&self) {
        if self.sleepers.any() {
            self.call();
        }
    }

    /// Wakes every sleeper, for changes that all must notice (closing, for one).
    pub fn wake_all(&self) {
        // Also when the bell is silent: that only says that one of the sleepers has been called already.
        if self.ring() || self.sleepers.count() > 0 {
            self.call_external();
            self.futex_wake(i32::MAX.unsigned_abs());
            if self.stand_in.is_there() {
                self.call_stand_in();
            }
        }
    }

    /// Sets the bell again for the sleepers that remain, and wakes one of them if there is work.
    #[inline]
    pub fn hand_on(&self, has_work: impl FnOnce() -> bool) {
        if self.sleepers.any_behind(&self.bell) && !self.bell.arm(has_work) {
            self.call();
        }
    }

    /// Claims the announcement on the bell; false also if the announcer has left since.
    #[inline]
    fn ring(&self) -> bool {
        self.bell.ring() && self.sleepers.any()
    }

    /// Calls one sleeper, where it sleeps, and who sleeps outside.
    #[cold]
    fn call(&self) {
        current::count_wakeup();
        if self.call_external() && !self.sleepers.any() {
            return;
        }
        if self.stand_in.is_there() {
            self.call_stand_in();
        } else {
            self.futex_wake(1);
        }
    }

    fn call_stand_in(&self) {
        if let Some(bell) = &*self.stand_in_bell.load() {
            // A full counter is a call that nobody has heard yet: just as good.
            let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
        }
    }

    fn call_external(&self) -> bool {
        self.external.get().is_some_and(|external| external.call(&self.sleepers))
    }

    fn futex_wake(&self, sleepers_max: u32) {
        futex::wake(self.bell.word(), futex::Flags::PRIVATE, sleepers_max).expect("the bell's word is valid memory");
    }
}

impl Parker {
    /// A descriptor that is readable if there may be work: until a thread that has found none says so ([`found_nothing`](Self::found_nothing)),
    /// and from the next [`wake`](Self::wake) on.
    ///
    /// # Errors
    /// Of `eventfd(2)`, the first time: EMFILE, ENFILE, ENOMEM.
    pub(crate) fn descriptor(&self) -> io::Result<BorrowedFd<'_>> {
        if self.external.get().is_none() {
            let _ = self.external.set(Box::new(ExternalSleeper::new()?));
        }
        Ok(self.external.get().expect("just made, here or elsewhere").descriptor())
    }

    /// The caller has found no work, and will not sleep here: who sleeps outside is called from now on.
    #[inline]
    pub(crate) fn found_nothing(&self, has_work: impl FnOnce() -> bool) {
        if let Some(external) = self.external.get() {
            self.arm_external(external, has_work);
        }
    }

    #[cold]
    fn arm_external(&self, external: &ExternalSleeper, has_work: impl FnOnce() -> bool) {
        deferred::settle(Work::Calls);
        deferred::settle(Work::ExactTimers);
        // One too many for a moment is a call in vain; one too few would be forgotten.
        self.enter();
        match external.found_nothing() {
            Arming::Drain => external.drain(),
            Arming::Arm => {}
            Arming::Look => self.sleepers.leave(),
            Arming::Leave => return self.sleepers.leave(),
        }
        self.look_for_external(has_work);
    }

    /// Arms the bell for who sleeps outside, looks, and calls if there is work.
    fn look_for_external(&self, has_work: impl FnOnce() -> bool) {
        self.sleepers.announce();
        if !self.bell.arm(has_work) {
            self.call();
        }
    }

    /// The caller polls until the answer is dropped: what it is told meanwhile it finds itself, so who sleeps outside is not called.
    #[inline]
    pub(crate) fn hold_external<F: Fn() -> bool>(&self, has_work: F) -> Option<HeldExternal<'_, F>> {
        let external = self.external.get()?;
        external.hold(&self.sleepers).then_some(HeldExternal { parker: self, external, has_work })
    }
}

/// Who sleeps outside is not called; as this is dropped it is again, at once if there is work.
pub(crate) struct HeldExternal<'a, F: Fn() -> bool> {
    parker: &'a Parker,
    external: &'a ExternalSleeper,
    has_work: F,
}

impl<F: Fn() -> bool> Drop for HeldExternal<'_, F> {
    fn drop(&mut self) {
        self.parker.enter();
        if self.external.release() {
            self.parker.look_for_external(&self.has_work);
        } else {
            self.parker.sleepers.leave();
        }
    }
}

pub(crate) fn this_cpu() -> u32 {
    sched_getcpu() as u32 // fewer than 2^32 processors
}

/// A sleeper that works for its CPU, until this is dropped: also by a panic of what it works at.
struct InCpu<'a> {
    parker: &'a Parker,
    cpu: Arc<dyn IrqHandOver>,
}

impl Drop for InCpu<'_> {
    fn drop(&mut self) {
        self.parker.sleepers.leave();
        self.parker.stand_in.end();
        self.cpu.end();
    }
}

#[cfg(test)]
#[path = "park_tests.rs"]
mod tests;

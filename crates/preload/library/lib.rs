//! `libnapier_modes.so`, for `fullbusy`: a program that waits for events on its epoll instances polls for packets as long as it waits.
//! What it sees of its waits is the same: one without time does not wait, and events, times, signals and cancellation end the others when
//! they would. It links nothing of Napier, and is compiled by `build.rs`.
//!
//! ```text
//! the program's wait --> look, without waiting ---------------------------------------> events
//!                        time-out 0: every 100 us one turn of `SocketPoller`, and a look -> events or none
//!                        else: Linux's own busy loop (EPIOCSPARAMS), once -------------> events
//!                              turns of `SocketPoller`, a look after each -------------> events, signal or the end
//!                              no socket with a NAPI instance: sleep, by Linux --------> events, signal or the end
//! ```
//!
//! Signals are blocked from before the first wait to after the last, and each wait has the mask that the program's would have: a
//! signal that comes between two of them meets the next. An epoll instance that does not have the parameters of the mode is waited for as if the library was
//! not there, and so is each after the program has begun to forbid itself system calls.

mod abi;
mod known;
#[allow(clippy::duplicate_mod, reason = "both sides of the library have it")]
#[expect(dead_code, reason = "some of it is for those outside")]
mod marks;
mod poller;

use core::ffi::{c_int, c_ulong};
use core::ptr::null;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use abi::{Event, Pwait, Signals, Timespec};
use marks::COUNTS_LEN;
use poller::{SocketPoller, Turn};

/// What the library did in this process: whether it ever met a wait, busy loops of Linux that found nothing, turns of waits without time,
/// and those of others. Others read them by this name; they only grow, and nothing depends on their order (`Relaxed`).
#[unsafe(export_name = "napier_modes_counts")]
pub static COUNTS: [AtomicU64; COUNTS_LEN] = [const { AtomicU64::new(0) }; COUNTS_LEN];

const MET: usize = 0;
const LOOPS: usize = 1;
const TURNS_OF_NONE: usize = 2;
const TURNS: usize = 3;

/// How often a loop whose waits have no time polls.
const SELDOM_NS: u64 = 100_000;
/// How often it looks for something to poll if there was nothing.
const RARELY_NS: u64 = 5_000_000;
/// How long it sleeps at once where nothing can be polled: first, and at most.
const SLEEP_NS: [u64; 2] = [1_000_000, 100_000_000];
/// No end.
const NEVER: u64 = u64::MAX;

/// The program has begun to forbid itself system calls, or one was refused: it is asked for none of the library's own from then on.
static CAREFUL: AtomicBool = AtomicBool::new(false);

fn count(what: usize) {
    COUNTS[what].fetch_add(1, Ordering::Relaxed);
}

/// The C library's `epoll_pwait`, asked for once.
fn next() -> Option<Pwait> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    match NEXT.load(Ordering::Relaxed) {
        0 => {
            let found = abi::next_pwait()?;
            NEXT.store(found as usize, Ordering::Relaxed);
            Some(found)
        }
        // SAFETY: nothing else is ever stored there.
        found => Some(unsafe { core::mem::transmute::<usize, Pwait>(found) }),
    }
}

/// A program's wait.
#[derive(Clone, Copy)]
struct Wait {
    epoll: c_int,
    events: *mut Event,
    max: c_int,
    mask: *const Signals,
}

impl Wait {
    /// As `epoll_pwait(2)`, with whole milliseconds.
    ///
    /// # Safety
    /// As there.
    unsafe fn plain(self, millis: c_int) -> c_int {
        let Self { epoll, events, max, mask } = self;
        match next() {
            // SAFETY: as the caller promises.
            Some(next) => unsafe { next(epoll, events, max, millis, mask) },
            // SAFETY: as the caller promises.
            None => unsafe { abi::pwait2(epoll, events, max, u64::from(millis.max(0) as u32) * 1_000_000, mask) },
        }
    }

    /// # Safety
    /// As `epoll_pwait(2)`.
    unsafe fn sleep(self, ns: u64) -> c_int {
        let Self { epoll, events, max, mask } = self;
        let millis = c_int::try_from(ns / 1_000_000).unwrap_or(c_int::MAX);
        if millis == 0 && !CAREFUL.load(Ordering::Relaxed) {
            // SAFETY: as the caller promises.
            let found = unsafe { abi::pwait2(epoll, events, max, ns, mask) };
            if found >= 0 || abi::errno() == abi::EINTR {
                return found;
            }
        }
        // SAFETY: as the caller promises.
        unsafe { self.plain(millis.max(1)) }
    }

    /// Waits for so many nanoseconds.
    ///
    /// # Safety
    /// As `epoll_pwait(2)`.
    unsafe fn last(self, ns: u64) -> c_int {
        if COUNTS[MET].load(Ordering::Relaxed) == 0 {
            COUNTS[MET].store(1, Ordering::Relaxed);
        }
        let before = abi::errno();
        // SAFETY: as the caller promises.
        let mut found = unsafe { self.plain(0) };
        if found == 0 && ns == 0 {
            // SAFETY: as the caller promises.
            found = unsafe { self.none() };
        } else if found == 0 {
            // SAFETY: as the caller promises.
            found = unsafe { self.some(ns) };
        }
        if found >= 0 {
            abi::set_errno(before);
        }
        found
    }

    /// After a wait without time that found nothing.
    ///
    /// # Safety
    /// As `epoll_pwait(2)`.
    unsafe fn none(self) -> c_int {
        let (now, last) = (abi::now(), known::polled_ns(self.epoll));
        if last.load(Ordering::Relaxed).saturating_add(SELDOM_NS) > now || self.busy_ns().is_none() {
            return 0;
        }
        let Some(mut poller) = SocketPoller::open(self.epoll) else {
            last.store(now + RARELY_NS, Ordering::Relaxed);
            return 0;
        };
        count(TURNS_OF_NONE);
        poller.turn(self.mask);
        poller.close();
        last.store(abi::now(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { self.plain(0) }
    }

    /// A wait with time, of which the first look found nothing.
    ///
    /// # Safety
    /// As `epoll_pwait(2)`.
    unsafe fn some(self, ns: u64) -> c_int {
        let until = if ns == NEVER { NEVER } else { abi::now().saturating_add(ns) };
        let blocked = abi::block();
        let own = blocked.as_ref().map_or(null(), core::ptr::from_ref);
        let wait = Self { mask: if self.mask.is_null() { own } else { self.mask }, ..self };
        // SAFETY: as the caller promises; the set lives through it.
        let found = unsafe { wait.until(until) };
        let failure = abi::errno();
        if let Some(before) = &blocked {
            abi::unblock(before);
        }
        known::polled_ns(self.epoll).store(abi::now(), Ordering::Relaxed);
        abi::set_errno(failure);
        found
    }

    /// With signals blocked.
    ///
    /// # Safety
    /// As `epoll_pwait(2)`.
    unsafe fn until(self, until: u64) -> c_int {
        let mut is_first = true;
        let mut sleep_ns = SLEEP_NS[0];
        loop {
            let left = until.saturating_sub(abi::now());
            if left == 0 {
                // SAFETY: as the caller promises.
                return unsafe { self.plain(0) };
            }
            let busy_ns = self.busy_ns();
            if is_first && busy_ns.is_some_and(|busy_ns| left >= busy_ns) {
                is_first = false;
                // Linux's loop does not look at the time that is left. Without an instance to poll, this wait is over at once.
                // SAFETY: as the caller promises.
                let found = unsafe { abi::pwait2(self.epoll, self.events, self.max, 1, self.mask) };
                match (found, abi::errno()) {
                    (0, _) => count(LOOPS),
                    // A filter of system calls that was there before the program: it is asked for no more of them.
                    (-1, failure) if failure != abi::EINTR => CAREFUL.store(true, Ordering::Relaxed),
                    _ => return found,
                }
                continue;
            }
            if let Some(poller) = busy_ns.and_then(|_| SocketPoller::open(self.epoll)) {
                // SAFETY: as the caller promises.
                let found = unsafe { self.poll(poller, until) };
                if found != 0 {
                    return found;
                }
            }
            // The time is over, or there is nothing to poll, or no more.
            let left = until.saturating_sub(abi::now());
            if left > 0 {
                // SAFETY: as the caller promises.
                let found = unsafe { self.sleep(left.min(sleep_ns)) };
                if found != 0 {
                    return found;
                }
                sleep_ns = (2 * sleep_ns).min(SLEEP_NS[1]);
            }
        }
    }

    /// Polls until there are events, a signal came, the time is over, or there is nothing to poll.
    ///
    /// # Safety
    /// As `epoll_pwait(2)`.
    unsafe fn poll(self, mut poller: SocketPoller, until: u64) -> c_int {
        loop {
            count(TURNS);
            let turn = poller.turn(self.mask);
            // SAFETY: as the caller promises.
            let found = unsafe { self.plain(0) };
            let failure = abi::errno();
            let goes_on = turn == Turn::Polled && !CAREFUL.load(Ordering::Relaxed);
            if found == 0 && goes_on && abi::now() < until {
                continue;
            }
            poller.close();
            let is_cut = found == 0 && turn == Turn::Signal;
            abi::set_errno(if is_cut { abi::EINTR } else { failure });
            return if is_cut { -1 } else { found };
        }
    }

    /// How long Linux's busy loop for it is; `None` if the mode is not in force on it.
    fn busy_ns(self) -> Option<u64> {
        if CAREFUL.load(Ordering::Relaxed) {
            return None;
        }
        let found = abi::params(self.epoll).filter(|found| found.prefer != 0 && found.usecs != 0)?;
        Some(u64::from(found.usecs) * 1000)
    }
}

/// As `epoll_wait(2)`.
///
/// # Safety
/// As there: `events` has room for `max` events.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_wait(epoll: c_int, events: *mut Event, max: c_int, timeout: c_int) -> c_int {
    // SAFETY: as the caller promises; without a mask they are the same.
    unsafe { epoll_pwait(epoll, events, max, timeout, null()) }
}

/// As `epoll_pwait(2)`.
///
/// # Safety
/// As there: `events` has room for `max` events, `mask` is null or a set.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_pwait(
    epoll: c_int,
    events: *mut Event,
    max: c_int,
    timeout: c_int,
    mask: *const Signals,
) -> c_int {
    let ns = u64::try_from(timeout).map_or(NEVER, |millis| millis * 1_000_000);
    // SAFETY: as the caller promises.
    unsafe { Wait { epoll, events, max, mask }.last(ns) }
}

/// As `epoll_pwait2(2)`.
///
/// # Safety
/// As there: `events` has room for `max` events, `timeout` is null or a time, `mask` is null or a set.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_pwait2(
    epoll: c_int,
    events: *mut Event,
    max: c_int,
    timeout: *const Timespec,
    mask: *const Signals,
) -> c_int {
    // SAFETY: the caller promises that it is null or a time.
    let ns = unsafe { timeout.as_ref() }.map_or(Some(NEVER), |span| {
        let nsec = u64::try_from(span.nsec).ok().filter(|nsec| *nsec < 1_000_000_000)?;
        Some(u64::try_from(span.sec).ok()?.saturating_mul(1_000_000_000).saturating_add(nsec))
    });
    let wait = Wait { epoll, events, max, mask };
    match ns {
        // SAFETY: as the caller promises.
        Some(ns) => unsafe { wait.last(ns) },
        // No time: Linux says so.
        // SAFETY: as the caller promises.
        None => unsafe { abi::pwait2_as(epoll, events, max, timeout, mask) },
    }
}

/// As `epoll_ctl(2)`; what is added is remembered.
///
/// # Safety
/// As there: `event` is null or an event.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_ctl(epoll: c_int, operation: c_int, fd: c_int, event: *mut Event) -> c_int {
    // SAFETY: as the caller promises.
    let failed = unsafe { abi::control_as(epoll, operation, fd, event) };
    if failed == 0 && operation == abi::EPOLL_CTL_ADD {
        known::note(epoll, fd);
    }
    failed
}

/// As `prctl(2)`; a program that is going to forbid itself system calls (`PR_SET_NO_NEW_PRIVS`, `PR_SET_SECCOMP`) is noted.
///
/// # Safety
/// As there, which depends on the operation.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prctl(operation: c_int, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong) -> c_int {
    const SET_SECCOMP: c_int = 22;
    const SET_NO_NEW_PRIVS: c_int = 38;
    if matches!(operation, SET_SECCOMP | SET_NO_NEW_PRIVS) {
        CAREFUL.store(true, Ordering::Relaxed);
    }
    // SAFETY: as the caller promises; what was not given is not read.
    unsafe { abi::prctl_as(operation, [a as usize, b as usize, c as usize, d as usize]) }
}

//! What the thread that drives a channel waits on: one descriptor for sockets, wakes and an alarm.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use napier_core::time::Deadline;
use napier_sys::clock::timespec;
use rustix::event::epoll;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use crate::kick::new_eventfd;

/// What a wake comes as.
pub(crate) const TOKEN_WAKE: u64 = 0;
/// What the alarm comes as.
pub(crate) const TOKEN_ALARM: u64 = 1;

/// What the control thread waits on.
pub(crate) struct Poll {
    epoll: OwnedFd,
    wake: OwnedFd,
    alarm: OwnedFd,
    last_token: AtomicU64,
    stopping: AtomicBool,
}

impl Poll {
    pub(crate) fn new() -> io::Result<Self> {
        let (epoll, wake) = (epoll::create(epoll::CreateFlags::CLOEXEC)?, new_eventfd()?);
        let alarm = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        let (last_token, stopping) = (AtomicU64::new(TOKEN_ALARM), AtomicBool::new(false));
        let poll = Self { epoll, wake, alarm, last_token, stopping };
        poll.watch(&poll.wake, TOKEN_WAKE)?;
        poll.watch(&poll.alarm, TOKEN_ALARM)?;
        Ok(poll)
    }

    /// Readable (level) = the token comes back.
    ///
    /// # Errors
    ///
    /// As `epoll_ctl(2)`.
    pub(crate) fn watch(&self, fd: impl AsFd, token: u64) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, epoll::EventData::new_u64(token), epoll::EventFlags::IN)?)
    }

    /// A token that nothing else has.
    pub(crate) fn next_token(&self) -> u64 {
        self.last_token.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Ends waits at this time, in place of the one that was said before.
    pub(crate) fn set_alarm(&self, at: Deadline) {
        // All zeroes put it off; no time is that early.
        let it_value = timespec(at.instant().map_or(0, |at| at.ns));
        let once = Itimerspec { it_interval: timespec(0), it_value };
        let set = timerfd_settime(&self.alarm, TimerfdTimerFlags::ABSTIME, &once);
        assert!(set.is_ok(), "an own alarm was refused: {set:?}");
    }

    pub(crate) fn wake(&self) {
        // Fails only if the thread has not heard 2^64 - 2 wakes.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// Waits for what comes, or for so long; `None` once the channel is to end.
    ///
    /// # Panics
    ///
    /// If waiting on own descriptors fails.
    pub(crate) fn wait<'a>(
        &self,
        buffer: &'a mut [MaybeUninit<epoll::Event>],
        timeout: Option<&Timespec>,
    ) -> Option<&'a [epoll::Event]> {
        let events = match napier_sys::poll::wait(self.epoll.as_fd(), buffer, timeout) {
            Ok(events) => events,
            Err(rustix::io::Errno::INTR) => &[],
            Err(error) => panic!("waiting on own descriptors failed: {error}"),
        };
        // First, so that a call that comes after the looks below is heard by the next wait.
        if events.iter().any(|event| event.data.u64() == TOKEN_WAKE) {
            let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        }
        if events.iter().any(|event| event.data.u64() == TOKEN_ALARM) {
            let _ = rustix::io::read(&self.alarm, &mut [0; 8]);
        }
        (!self.is_stopping()).then_some(events)
    }

    /// Whether the thread that waits is to end.
    pub(crate) fn is_stopping(&self) -> bool {
        // Pairs with the Release in `stop`.
        self.stopping.load(Ordering::Acquire)
    }

    /// The thread that waits is to end.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release); // Acquire in `is_stopping`
        self.wake();
    }
}

impl AsFd for Poll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

//! What the control thread waits on.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::event::epoll;
use rustix::time::Timespec;

use super::line::new_eventfd;

/// What a wake comes as.
pub(super) const TOKEN_WAKE: u64 = 0;

/// What the control thread waits on.
pub(super) struct Poll {
    epoll: OwnedFd,
    wake: OwnedFd,
    last_token: AtomicU64,
    stopping: AtomicBool,
}

impl Poll {
    pub(super) fn new() -> io::Result<Self> {
        let (epoll, wake) = (epoll::create(epoll::CreateFlags::CLOEXEC)?, new_eventfd()?);
        let poll = Self { epoll, wake, last_token: AtomicU64::new(TOKEN_WAKE), stopping: AtomicBool::new(false) };
        poll.watch(&poll.wake, TOKEN_WAKE)?;
        Ok(poll)
    }

    /// Readable (level) = the token comes back.
    ///
    /// # Errors
    ///
    /// As `epoll_ctl(2)`.
    pub(super) fn watch(&self, fd: impl AsFd, token: u64) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, epoll::EventData::new_u64(token), epoll::EventFlags::IN)?)
    }

    /// A token that nothing else has.
    pub(super) fn next_token(&self) -> u64 {
        self.last_token.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn wake(&self) {
        // Fails only if the thread has not heard 2^64 - 2 wakes.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// Waits for what comes, or for so long; `None` once the engine is going away.
    ///
    /// # Panics
    ///
    /// If waiting on own descriptors fails.
    pub(super) fn wait<'a>(
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
        // Release in `stop`.
        (!self.stopping.load(Ordering::Acquire)).then_some(events)
    }

    /// The thread that waits is to end.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Release); // Acquire in `wait`
        self.wake();
    }
}

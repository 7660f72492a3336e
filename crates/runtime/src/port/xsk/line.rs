//! The interrupt of a queue: the socket is readable.
//!
//! A softirq CPU waits for it once per unmask (`EPOLLONESHOT`), so masking costs nothing: at most one interrupt comes
//! that is not wanted any more. Unmasking waits again, unless nothing has come since the last time, and that is where the
//! kernel looks at the ring once more. So a program that polls makes no system call here until packets come.
//!
//! Each packet still costs its sender a walk to the epoll instance, under two locks, to find that no thread waits. So where
//! a queue is polled for long without an unmask its socket leaves the epoll instance, and comes back with the unmask.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use napier_ring::xsk::{OnceLine, Rearm, XskLook};
use rustix::event::epoll::EventFlags;

use crate::port::{Counter, InterruptLine, IrqCpu, Tokens};
use napier_sys::xsk::XskSocket;

/// Readable, once.
const ONCE: EventFlags = EventFlags::IN.union(EventFlags::ONESHOT);

/// Polls that found packets, without an unmask, until the socket leaves the epoll instance: leaving and coming back cost
/// as much as some ten packets do while it is there.
const POLLS_UNTIL_AWAY: u32 = 16;

/// Between two attempts to wait for an interrupt for which the kernel has no memory.
const NO_MEMORY_PAUSE: Duration = Duration::from_micros(250);

/// The interrupt line from the kernel to the CPU that serves a queue.
pub(crate) struct XskLine {
    /// Both go with the receive end: the kernel keeps a queue busy as long as anything of its socket is mapped.
    socket: Weak<XskSocket>,
    look: Weak<XskLook>,
    /// Its source is the epoll instance of who waits.
    once: OnceLine<Watcher>,
    /// Unmasks so far, whatever they found; only their difference counts.
    unmasks: AtomicU32,
    interrupts: Counter,
    put_away: Counter,
}

/// Who waits for the interrupt, and what it calls it.
struct Watcher {
    cpu: Arc<dyn IrqCpu>,
    token: u64,
}

/// What the owner of the queue has seen of its line: how long it has been polled without an unmask.
#[derive(Default)]
pub(super) struct PolledFor {
    unmasks: u32,
    received: u64,
    polls: u32,
}

impl PolledFor {
    /// A poll begins; `unmasks` and `received` as counted so far. True = the time to put the line away has come.
    #[inline]
    fn poll_begins(&mut self, unmasks: u32, received: u64) -> bool {
        if self.unmasks != unmasks {
            *self = Self { unmasks, received, polls: 0 };
        }
        if self.received == received {
            return false;
        }
        self.received = received;
        self.polls += 1;
        if self.polls < POLLS_UNTIL_AWAY {
            return false;
        }
        self.polls = 0;
        true
    }
}

impl XskLine {
    pub(super) fn new(socket: &Arc<XskSocket>, look: &Arc<XskLook>) -> Self {
        Self {
            socket: Arc::downgrade(socket),
            look: Arc::downgrade(look),
            once: OnceLine::default(),
            unmasks: AtomicU32::new(0),
            interrupts: Counter::default(),
            put_away: Counter::default(),
        }
    }

    /// A poll begins, by the owner of the queue, which has received so many packets in all. It unmasks when it gives the
    /// queue up, or the thread that it gives it to does: till then the interrupt is not needed.
    #[inline]
    pub(super) fn poll_begins(&self, polled: &mut PolledFor, received: u64) {
        // Relaxed: an unmask that is not seen puts the line away a little early.
        if polled.poll_begins(self.unmasks.load(Ordering::Relaxed), received) {
            self.put_away();
        }
    }

    /// Takes the socket out of the epoll instance until the next unmask.
    #[cold]
    #[inline(never)]
    fn put_away(&self) {
        if !self.once.is_away() && self.once.put_away(|watcher| self.leave(watcher)) {
            self.put_away.add_shared(1);
        }
    }

    /// Times that the queue was polled for so long that the socket left the epoll instance.
    pub(super) fn times_put_away(&self) -> u64 {
        self.put_away.get()
    }

    /// Out of the epoll instance.
    fn leave(&self, Watcher { cpu, .. }: &Watcher) {
        if let Some(socket) = self.socket.upgrade() {
            let left = cpu.unwatch(socket.as_fd());
            assert!(left.is_ok(), "the socket was not where it was put: {left:?}");
        }
    }
}

impl InterruptLine for XskLine {
    fn unmask(&self) -> bool {
        self.unmasks.fetch_add(1, Ordering::Relaxed);
        let Some(look) = self.look.upgrade() else { return false };
        if look.packets_wait() {
            return true;
        }
        // If it is heard later, the thread that took the interrupt takes the instance or leaves its mark on it, and unmasks or polls
        // again after us. If a thread puts the line away now, it is the next owner of the instance, which unmasks when it
        // gives it up.
        if self.once.is_armed() {
            return false;
        }
        let Some(socket) = self.socket.upgrade() else { return false };
        // Both calls look at the ring once more.
        let told = self.once.arm(|Watcher { cpu, token }, rearm| match rearm {
            Rearm::Again => cpu.rewatch(socket.as_fd(), *token, ONCE),
            Rearm::Anew => cpu.watch_for(socket.as_fd(), *token, ONCE),
        });
        let told = told.inspect_err(|_| {
            // The kernel has no memory for it now: polled until it has, with a pause, for who polls without one keeps those
            // from running who could give some back.
            std::thread::sleep(NO_MEMORY_PAUSE);
        });
        // Also if another thread has the line in hand, perhaps a program without a processor: polled until it has let go.
        !matches!(told, Ok(true))
    }

    /// See [`OnceLine::hear`].
    fn heard(&self) -> bool {
        let first = self.once.hear();
        if first {
            self.interrupts.add_shared(1);
        }
        first
    }

    fn packets_wait(&self) -> bool {
        self.look.upgrade().is_some_and(|look| look.packets_wait())
    }

    fn watch(&self, cpu: &Arc<dyn IrqCpu>, tokens: Tokens) -> rustix::io::Result<()> {
        let Some(socket) = self.socket.upgrade() else { return Ok(()) };
        let watcher = Watcher { cpu: cpu.clone(), token: tokens.doorbell };
        self.once.watch(watcher, |Watcher { cpu, token }| cpu.watch_for(socket.as_fd(), *token, ONCE))
    }

    fn move_to(&self, _from: &dyn IrqCpu, to: &Arc<dyn IrqCpu>, tokens: Tokens) -> rustix::io::Result<()> {
        let Some(socket) = self.socket.upgrade() else { return Ok(()) };
        let watcher = Watcher { cpu: to.clone(), token: tokens.doorbell };
        let join = |Watcher { cpu, token }: &Watcher| cpu.watch_for(socket.as_fd(), *token, ONCE);
        self.once.move_to(watcher, join, |watcher| self.leave(watcher))
    }

    fn unwatch(&self, _cpu: &dyn IrqCpu) {
        self.once.unwatch(|watcher| self.leave(watcher));
    }

    fn interrupts(&self) -> u64 {
        self.interrupts.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_put_away_after_many_polls_with_packets_and_no_unmask() {
        let mut polled = PolledFor::default();
        let mut received = 0;
        for _ in 0..1000 {
            assert!(!polled.poll_begins(0, 0), "polls that find nothing do not count");
        }
        for unmasks in 1..100 {
            for _ in 1..POLLS_UNTIL_AWAY {
                received += 3;
                assert!(!polled.poll_begins(unmasks, received), "too early: there was an unmask");
            }
        }
        let before = received;
        let until = (0..100).find(|_| {
            received += 1;
            polled.poll_begins(99, received)
        });
        assert!(until.is_some(), "never");
        assert!(received - before <= u64::from(POLLS_UNTIL_AWAY));
        // And again, where an unmask that came late has armed the line.
        let again = (0..100).filter(|_| {
            received += 1;
            polled.poll_begins(99, received)
        });
        assert!(again.count() >= 2);
    }
}

//! The interrupt of one receive queue: an eventfd, a timer for coalescing, and a latch.
//!
//! The producer announces packets after it published them and saw the ring's interrupt flag clear. One interrupt is
//! raised per unmask: the latch holds the next ones back until the consumer has polled and unmasks again.
//!
//! The consumer resets the latch ([`IrqLatch`]) *before* it clears the flag and fences; the producer touches it *after* its
//! own fence. So for every packet: either the consumer's second look sees it, or the producer finds the latch reset.

use core::sync::atomic::{AtomicU64, Ordering};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use napier_core::moderation::Coalesce;
use napier_ring::IrqLatch;
use napier_ring::memif::InterruptSwitch;
use rustix::event::EventfdFlags;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};

use crate::port::{Counter, InterruptLine};

/// An interrupt line from a link's producer to the CPU that serves its consumer.
///
/// That CPU waits on both descriptors, edge-triggered, and reads neither. When the doorbell is ready, the interrupt
/// has come; when the timer is ready, [`timer_fired`](Self::timer_fired) says whether it has.
pub(crate) struct LinkLine {
    doorbell: OwnedFd,
    timer: OwnedFd,
    coalesce: AtomicU64,
    pub(super) latch: IrqLatch,
    /// Set by the receive queue that the line serves.
    switch: OnceLock<InterruptSwitch>,
    interrupts: Counter,
    suppressed: Counter,
}

impl LinkLine {
    /// A line with nothing pending.
    ///
    /// # Errors
    ///
    /// As `eventfd(2)` and `timerfd_create(2)`: mostly that the process has too many files open.
    pub(super) fn new(coalesce: Coalesce) -> io::Result<Self> {
        let doorbell = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Self {
            doorbell,
            timer,
            coalesce: AtomicU64::new(pack(coalesce)),
            latch: IrqLatch::new(),
            switch: OnceLock::new(),
            interrupts: Counter::default(),
            suppressed: Counter::default(),
        })
    }

    /// The line serves the ring with this switch.
    pub(crate) fn serve(&self, switch: InterruptSwitch) {
        assert!(self.switch.set(switch).is_ok(), "a line serves one ring");
    }
}

impl InterruptLine for LinkLine {
    #[inline]
    fn note_consumed(&self, index: u16) {
        self.switch().note_consumed(index);
    }

    #[inline]
    fn mask(&self) {
        self.switch().mask();
        self.latch.quiet();
    }

    fn unmask(&self) -> bool {
        self.latch.reset();
        self.switch().unmask()
    }

    fn doorbell_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.doorbell.as_fd())
    }

    fn forget_rings(&self) {
        // Nothing to read: it has not rung.
        let _ = rustix::io::read(&self.doorbell, &mut [0; 8]);
    }

    fn timer_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.timer.as_fd())
    }

    fn timer_fired(&self) -> bool {
        let interrupt = self.latch.timer_fired();
        if interrupt {
            self.interrupts.add_shared(1);
        }
        interrupt
    }

    /// Changes coalescing, at any time, from any thread. Packets that wait by the old rule are announced at once, so
    /// none waits longer than either rule says.
    fn set_coalesce(&self, coalesce: Coalesce) -> bool {
        self.coalesce.store(pack(coalesce), Ordering::Relaxed);
        if self.latch.waits() {
            self.raise();
        }
        true
    }

    /// The coalescing in force.
    fn coalesce(&self) -> Coalesce {
        unpack(self.coalesce.load(Ordering::Relaxed))
    }

    fn packets_wait(&self) -> bool {
        self.switch().packets_wait()
    }

    fn look_suffices(&self) -> bool {
        true
    }

    fn interrupts(&self) -> u64 {
        self.interrupts.get()
    }

    /// Publications that raised no interrupt and started no timer: masked, latched or coalesced.
    fn suppressed(&self) -> u64 {
        self.suppressed.get()
    }
}

impl LinkLine {
    fn switch(&self) -> &InterruptSwitch {
        self.switch.get().expect("set when the receive queue was made")
    }

    /// The producer published, and the consumer had its interrupt masked.
    pub(crate) fn note_masked(&self) {
        self.suppressed.add_shared(1);
    }

    /// Whether the consumer has masked its interrupt since the producer published: it sees the packets by itself.
    #[inline]
    pub(crate) fn is_masked(&self) -> bool {
        self.switch().is_masked()
    }

    /// Whether an interrupt is on its way already, which also stands for what the producer has published since; that is
    /// counted. To be asked after the look at the flag.
    #[inline]
    pub(crate) fn is_announced(&self) -> bool {
        let raised = self.latch.is_raised();
        if raised {
            self.suppressed.add_shared(1);
        }
        raised
    }

    /// The producer published `frames` packets and, after a full fence, saw the interrupt unmasked; others may do the same
    /// at the same time. `true` = an interrupt was raised or its timer started.
    pub(crate) fn announce(&self, frames: u32) -> bool {
        let pending = self.latch.count(frames);
        let coalesce = self.coalesce();
        let kicked = if coalesce.due(pending) {
            self.raise()
        } else {
            let first = self.latch.start_timer();
            if first {
                self.start_timer(coalesce.rx_usecs());
            }
            first
        };
        if !kicked {
            self.suppressed.add_shared(1);
        }
        kicked
    }

    /// Rings the doorbell unless an interrupt is on its way. `true` = rung.
    fn raise(&self) -> bool {
        let ours = self.latch.raise();
        if ours {
            self.interrupts.add_shared(1);
            // Fails only if 2^64 - 2 rings were never read: no process lives to see that.
            let rung = rustix::io::write(&self.doorbell, &1u64.to_ne_bytes());
            assert!(rung.is_ok(), "a doorbell could not be rung: {rung:?}");
        }
        ours
    }

    fn start_timer(&self, usecs: u32) {
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = Timespec { tv_sec: i64::from(usecs / 1_000_000), tv_nsec: i64::from(usecs % 1_000_000) * 1000 };
        let one_shot = Itimerspec { it_interval: zero, it_value: value };
        let started = rustix::time::timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &one_shot);
        assert!(started.is_ok(), "an interrupt timer could not be started: {started:?}");
    }
}

/// Settings as one word, so that both halves change at once.
fn pack(coalesce: Coalesce) -> u64 {
    u64::from(coalesce.rx_usecs()) << 32 | u64::from(coalesce.rx_frames())
}

fn unpack(packed: u64) -> Coalesce {
    Coalesce::new((packed >> 32) as u32, packed as u32).expect("packed from settings that were checked")
}

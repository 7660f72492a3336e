//! The stop bits of one transmit queue. Source: `include/linux/netdevice.h enum netdev_queue_state_t`,
//! `net/core/dev.c netif_tx_wake_queue`, `netif_schedule_queue` (Linux 7.3).
//!
//! A transition is a pure function; the executor applies it with one compare-and-swap loop. Where it answers `true`,
//! the queue's discipline is to be scheduled ([`crate::tx::state::QdiscState::schedule`]).

use crate::bits::{set_of_bits, shown_as_set, word};

/// The bits.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct QueueBits(u8);

impl QueueBits {
    /// No bit: packets may go to the driver.
    pub const EMPTY: Self = Self(0);
    /// The driver has stopped the queue: its ring is full.
    pub const DRIVER_OFF: Self = Self::bit(0);
    /// The stack has stopped the queue: the byte limit is used up ([`crate::tx::bql`]).
    pub const STACK_OFF: Self = Self::bit(1);
    /// A thread holds all queues of the device still for a moment.
    pub const FROZEN: Self = Self::bit(2);

    /// Either of the off bits.
    #[inline]
    #[must_use]
    pub const fn stopped(self) -> bool {
        self.intersects(Self::DRIVER_OFF.with(Self::STACK_OFF))
    }

    /// Any of the three.
    #[inline]
    #[must_use]
    pub const fn frozen_or_stopped(self) -> bool {
        self.0 != 0
    }

    /// The driver's ring has no room for another packet. The driver looks at its ring once more afterwards, behind a
    /// full fence, and starts the queue again if a completion came in between.
    #[inline]
    #[must_use]
    pub const fn stop_driver(self) -> Self {
        self.with(Self::DRIVER_OFF)
    }

    /// The driver goes on, in a place where a thread transmits anyway: nothing is scheduled.
    #[inline]
    #[must_use]
    pub const fn start_driver(self) -> Self {
        self.without(Self::DRIVER_OFF)
    }

    /// The driver's ring has room again; `true`: it was stopped, schedule. A wake without stop does nothing.
    #[inline]
    #[must_use]
    pub const fn wake_driver(self) -> (Self, bool) {
        (self.without(Self::DRIVER_OFF), self.intersects(Self::DRIVER_OFF))
    }

    /// The byte limit is used up. Look at the allowance once more afterwards, behind a full fence, and take this back
    /// with [`QueueBits::start_stack`] if a completion made room in between.
    #[inline]
    #[must_use]
    pub const fn stop_stack(self) -> Self {
        self.with(Self::STACK_OFF)
    }

    /// Takes back [`QueueBits::stop_stack`]; nothing is scheduled, for the caller transmits.
    #[inline]
    #[must_use]
    pub const fn start_stack(self) -> Self {
        self.without(Self::STACK_OFF)
    }

    /// A completion has made room below the byte limit; `true`: it was stopped and the driver is not: schedule.
    #[inline]
    #[must_use]
    pub const fn wake_stack(self) -> (Self, bool) {
        (self.without(Self::STACK_OFF), self.intersects(Self::STACK_OFF) && !self.intersects(Self::DRIVER_OFF))
    }

    /// All queues are held still.
    #[inline]
    #[must_use]
    pub const fn freeze(self) -> Self {
        self.with(Self::FROZEN)
    }

    /// And go on; `true`: schedule, for a thread may have found the queue frozen.
    #[inline]
    #[must_use]
    pub const fn thaw(self) -> (Self, bool) {
        (self.without(Self::FROZEN), self.intersects(Self::FROZEN) && !self.stopped())
    }
}

set_of_bits!(QueueBits(u8): DRIVER_OFF, STACK_OFF, FROZEN);
word! {
    QueueBits(u8),
    ///
    /// # Panics
    /// If there is no such bit.
    NAMES
}
shown_as_set!(QueueBits);

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;

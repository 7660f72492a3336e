//! The stop bits of one transmit queue. Source: `include/linux/netdevice.h enum netdev_queue_state_t`,
//! `net/core/dev.c netif_tx_wake_queue`, `netif_schedule_queue` (Linux 7.3).
//!
//! A transition is a pure function; the executor applies it with one compare-and-swap loop. Where it answers `true`,
//! the queue's discipline is to be scheduled ([`crate::tx::state::QdiscState::schedule`]).

use core::fmt;

/// The bits.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct QueueBits(u8);

impl QueueBits {
    /// No bit: packets may go to the driver.
    pub const EMPTY: Self = Self(0);
    /// The driver has stopped the queue: its ring is full.
    pub const DRIVER_OFF: Self = Self(1 << 0);
    /// The stack has stopped the queue: the byte limit is used up ([`crate::tx::bql`]).
    pub const STACK_OFF: Self = Self(1 << 1);
    /// Somebody holds all queues of the device still for a moment.
    pub const FROZEN: Self = Self(1 << 2);

    const NAMES: [(Self, &'static str); 3] =
        [(Self::DRIVER_OFF, "DRIVER_OFF"), (Self::STACK_OFF, "STACK_OFF"), (Self::FROZEN, "FROZEN")];

    /// The word with these bits, e.g. out of an atomic.
    ///
    /// # Panics
    /// If there is no such bit.
    #[inline]
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        assert!(bits < 1 << 3, "no such bit");
        Self(bits)
    }

    /// The bits, e.g. for an atomic.
    #[inline]
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Either of the off bits.
    #[inline]
    #[must_use]
    pub const fn stopped(self) -> bool {
        self.intersects(Self(Self::DRIVER_OFF.0 | Self::STACK_OFF.0))
    }

    /// Any of the three.
    #[inline]
    #[must_use]
    pub const fn frozen_or_stopped(self) -> bool {
        self.0 != 0
    }

    /// True if one of `other`'s bits is set.
    #[inline]
    #[must_use]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The driver's ring has no room for another packet. The driver looks at its ring once more afterwards, behind a
    /// full fence, and starts the queue again if a completion came in between.
    #[inline]
    #[must_use]
    pub const fn stop_driver(self) -> Self {
        Self(self.0 | Self::DRIVER_OFF.0)
    }

    /// The driver goes on, in a place where somebody transmits anyway: nothing is scheduled.
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
        Self(self.0 | Self::STACK_OFF.0)
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
        Self(self.0 | Self::FROZEN.0)
    }

    /// And go on; `true`: schedule, for somebody may have found the queue frozen.
    #[inline]
    #[must_use]
    pub const fn thaw(self) -> (Self, bool) {
        (self.without(Self::FROZEN), self.intersects(Self::FROZEN) && !self.stopped())
    }

    const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl fmt::Debug for QueueBits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Self::NAMES.into_iter().filter(|(bit, _)| self.intersects(*bit)).map(|(_, name)| name);
        f.debug_set().entries(names).finish()
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;

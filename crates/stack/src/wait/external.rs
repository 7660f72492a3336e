//! Who sleeps on a descriptor: the executor of the rules in [`napier_core::waking::external`].

use std::io;

use napier_core::waking::external::{Arming, External};
use napier_ring::{Sleepers, StateCell};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};

/// A descriptor that is readable or not, and the state that says who makes it which.
pub(super) struct ExternalSleeper {
    state: StateCell,
    descriptor: OwnedFd,
}

impl ExternalSleeper {
    /// Readable: no wait has looked yet.
    pub(super) fn new() -> io::Result<Self> {
        let descriptor = eventfd(1, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { state: StateCell::new(External::Open.bits()), descriptor })
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    fn change<R>(&self, rule: impl Fn(External) -> (External, R)) -> R {
        self.state.update(|bits| {
            let (next, answer) = rule(External::from_bits(bits));
            (next.bits(), answer)
        })
    }

    fn change_if(&self, rule: impl Fn(External) -> Option<External>) -> bool {
        self.change(|state| rule(state).map_or((state, false), |next| (next, true)))
    }

    /// The caller counts as a sleeper.
    pub(super) fn found_nothing(&self) -> Arming {
        self.change(External::found_nothing)
    }

    /// Makes it unreadable; the caller counts as a sleeper.
    pub(super) fn drain(&self) {
        // It may be empty: a program has read it, which it need not do.
        let _ = rustix::io::read(&self.descriptor, &mut [0_u8; 8]);
        self.change(|state| (state.drained(), ()));
    }

    /// A wait begins to poll; true: the sleeper does not count any more.
    pub(super) fn hold(&self, sleepers: &Sleepers) -> bool {
        // A look first: mostly it is not armed, and to change the word costs more.
        let held = External::from_bits(self.state.load()).held().is_some() && self.change_if(External::held);
        if held {
            sleepers.leave();
        }
        held
    }

    /// The poll is over; true: the caller has become the sleeper.
    pub(super) fn release(&self) -> bool {
        self.change_if(External::released)
    }

    /// Makes it readable, if it is armed; true: it does not count as a sleeper any more.
    pub(super) fn call(&self, sleepers: &Sleepers) -> bool {
        if !self.change_if(External::called) {
            return false;
        }
        sleepers.leave();
        loop {
            // A full counter is readable as well.
            let _ = rustix::io::write(&self.descriptor, &1_u64.to_ne_bytes());
            if self.change(External::told) {
                return true;
            }
        }
    }
}

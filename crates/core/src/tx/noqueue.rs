//! Transmit without a discipline: loopback, and a pair of virtual devices by default. The sender calls the driver, and
//! what the driver does not take is dropped. Source: `net/core/dev.c __dev_queue_xmit`, `include/linux/netdevice.h
//! dev_xmit_recursion` (Linux 7.3).

use super::{DropReason, XmitCode};
use crate::control::Errno;

/// Most transmissions inside each other on one CPU: one more is a dead loop. Source: `include/linux/netdevice.h
/// XMIT_RECURSION_LIMIT`.
pub const NESTING_MAX: u32 = 8;

/// What a sender finds.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct NoqueueView {
    /// The device is up.
    pub up: bool,
    /// This CPU holds the transmit lock of this queue already.
    pub owned: bool,
    /// Transmissions without discipline that are under way on this CPU, in which this one is nested.
    pub nesting: u32,
}

/// A packet is dropped: it counts in `tx_dropped` of the device.
#[must_use]
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct NoqueueDrop {
    /// Why.
    pub reason: DropReason,
    /// What the sender is told.
    pub code: XmitCode,
}

impl NoqueueDrop {
    const fn down(reason: DropReason) -> Self {
        Self { reason, code: XmitCode::Error(Errno::ENETDOWN) }
    }
}

/// Decides whether to take the transmit lock.
///
/// # Errors
/// The packet is dropped. For a device that is down the kernel says `ENOMEM`, which is what its variable began with;
/// here it is `ENETDOWN`, as in the other cases.
#[inline]
pub const fn enter(view: NoqueueView) -> Result<(), NoqueueDrop> {
    if !view.up {
        Err(NoqueueDrop::down(DropReason::DeviceDown))
    } else if view.owned || view.nesting > NESTING_MAX {
        Err(NoqueueDrop::down(DropReason::DeadLoop))
    } else {
        Ok(())
    }
}

/// Decides under the transmit lock whether to call the driver, one level deeper nested. A queue that is only frozen
/// sends.
///
/// # Errors
/// The packet is dropped.
#[inline]
pub const fn locked(stopped: bool) -> Result<(), NoqueueDrop> {
    if stopped { Err(NoqueueDrop::down(DropReason::QueueStopped)) } else { Ok(()) }
}

/// The driver was called. `taken`: it has the packet.
///
/// # Errors
/// The packet is dropped.
#[inline]
pub const fn sent(taken: bool) -> Result<XmitCode, NoqueueDrop> {
    if taken { Ok(XmitCode::Success) } else { Err(NoqueueDrop::down(DropReason::QueueStopped)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UP: NoqueueView = NoqueueView { up: true, owned: false, nesting: 0 };

    fn dropped<T: core::fmt::Debug>(result: Result<T, NoqueueDrop>) -> (DropReason, i32) {
        let drop = result.unwrap_err();
        (drop.reason, drop.code.number())
    }

    #[test]
    fn who_may_call_the_driver() {
        assert_eq!(enter(UP), Ok(()));
        assert_eq!(enter(NoqueueView { nesting: NESTING_MAX, ..UP }), Ok(()));
        assert_eq!(dropped(enter(NoqueueView { nesting: NESTING_MAX + 1, ..UP })), (DropReason::DeadLoop, -100));
        assert_eq!(dropped(enter(NoqueueView { owned: true, ..UP })), (DropReason::DeadLoop, -100));
        assert_eq!(dropped(enter(NoqueueView { up: false, owned: true, ..UP })), (DropReason::DeviceDown, -100));
    }

    #[test]
    fn nothing_waits() {
        assert_eq!(locked(false), Ok(()));
        assert_eq!(dropped(locked(true)), (DropReason::QueueStopped, -100));
        assert_eq!(sent(true), Ok(XmitCode::Success));
        assert_eq!(dropped(sent(false)), (DropReason::QueueStopped, -100));
    }

    /// Scenario 85: a device that transmits to itself, on another queue each time. Nine transmissions are nested, the
    /// tenth is dropped, and all that wait for it succeed.
    #[test]
    fn a_loop_ends() {
        fn transmit(nesting: u32, calls: &mut u32) -> Result<XmitCode, NoqueueDrop> {
            enter(NoqueueView { nesting, ..UP })?;
            locked(false)?;
            *calls += 1;
            let inner = transmit(nesting + 1, calls);
            assert!(nesting < NESTING_MAX || inner.is_err());
            sent(true)
        }
        let mut calls = 0;
        assert_eq!(transmit(0, &mut calls), Ok(XmitCode::Success));
        assert_eq!(calls, NESTING_MAX + 1);
    }
}

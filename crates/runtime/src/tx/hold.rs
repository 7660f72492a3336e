//! Places where a test can hold a thread, as if it had lost its processor there.

/// A place on the transmit path.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Point {
    /// The packet is built; no other thread knows of it.
    BeforePush,
    /// A sender is to flush, or to enqueue its own packet.
    BeforeRootLock,
    /// It has taken the list, or is about to enqueue.
    UnderRootLock,
    /// It runs the queue, and has given up the root lock for the ring.
    BeforeTxLock,
    /// It is filling the ring.
    UnderTxLock,
    /// It has the transmit lock of a queue without discipline.
    UnderWire,
    /// It is about to interrupt the peer.
    BeforeBell,
    /// It has no frame, and another has the transmit lock.
    BetweenLooks,
}

impl Point {
    /// Those of a sender by way of a discipline.
    pub(super) const ALL: [Self; 5] =
        [Self::BeforePush, Self::BeforeRootLock, Self::UnderRootLock, Self::BeforeTxLock, Self::UnderTxLock];
}

crate::hold::places!(pub(super) Point);

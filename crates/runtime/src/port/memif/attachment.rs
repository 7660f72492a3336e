//! What a handshake comes to, whichever side this is.

use std::os::fd::OwnedFd;

use napier_ring::memif::remote::{Receiver, Sender};

/// What this side calls itself.
pub(super) const PROGRAM: &str = "napier";

/// The rings of one queue.
pub(super) struct RingPair {
    /// To receive, and the eventfd that the peer rings.
    pub(super) rx: Option<(Receiver, OwnedFd)>,
    /// To send, and the eventfd to ring.
    pub(super) tx: Option<(Sender, OwnedFd)>,
}

/// What a finished handshake gives a device.
pub(super) struct Attachment {
    pub(super) pairs: Vec<RingPair>,
    /// Rings to send on, of the pairs' first.
    pub(super) tx_rings: u16,
    pub(super) peer: String,
}

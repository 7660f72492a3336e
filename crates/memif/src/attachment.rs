//! What a handshake comes to, whichever side this is.

use std::os::fd::OwnedFd;

use napier_ring::memif::remote::{Receiver, Sender};

/// What this side calls itself.
pub(crate) const PROGRAM: &str = "napier";

/// The rings of one queue.
pub(crate) struct RingPair {
    /// To receive, and the eventfd that the peer rings.
    pub(crate) rx: Option<(Receiver, OwnedFd)>,
    /// To send, and the eventfd to ring.
    pub(crate) tx: Option<(Sender, OwnedFd)>,
}

/// What a finished handshake gives an interface.
pub(crate) struct Attachment {
    pub(crate) pairs: Vec<RingPair>,
    /// Rings to send on, of the pairs' first.
    pub(crate) tx_rings: u16,
    pub(crate) peer: String,
}

//! What a control channel tells the owner of an interface.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use napier_ring::memif::remote::{Receiver, Sender};

use crate::disconnect::Disconnect;
use crate::kick::Kick;

/// The ends of one queue that lead to a peer. A direction that the peer gave no ring has none.
pub struct QueueEnds {
    /// To receive, and the eventfd that the peer rings.
    pub rx: Option<(Receiver, OwnedFd)>,
    /// To send, and the peer's interrupt.
    pub tx: Option<(Sender, Arc<Kick>)>,
}

/// A peer, and the way to it.
pub struct Connection {
    /// What it calls itself.
    pub peer: String,
    /// By queue.
    pub queues: Vec<QueueEnds>,
    /// Queues that send, the first of these.
    pub tx_queues: u16,
}

/// The owner of an interface: what becomes of its peer is told to it, by the thread that drives the channel.
pub trait PeerHandler: Send + Sync {
    /// There is a peer, and packets may flow.
    ///
    /// # Errors
    /// The connection cannot be used: the peer is told, and [`disconnected`](Self::disconnected) follows.
    fn connected(&self, connection: Connection) -> io::Result<()>;

    /// There is no peer any more, or none could be reached. No thread begins to ring it from now on.
    fn disconnected(&self, why: Disconnect);

    /// A client was not let in, where there is no peer. The same reason is told once.
    fn refused(&self, why: &str);

    /// Times that an index of a peer was impossible, over all peers so far. More of them end the connection.
    fn index_errors(&self) -> u64;

    /// Some milliseconds have passed with a peer there: an interrupt may have been lost
    /// ([`InterruptSwitch::is_overlooked`](napier_ring::memif::InterruptSwitch::is_overlooked)).
    fn look(&self);
}

//! Why a connection ended, for the user and for the peer.

use std::fmt::Write as _;
use std::io;

use napier_core::memif::times::HANDSHAKE_MAX;
use napier_core::memif::{Fault, Message, Reason};
use napier_ring::ClaimError;
use napier_ring::memif::RingError;

use napier_sys::mmap::ForeignMemoryError;

/// Why a connection ended or was not made.
#[derive(Debug, thiserror::Error)]
pub enum Disconnect {
    /// The peer has closed its socket: it ended, or was killed.
    #[error("the peer is gone")]
    Gone,
    /// The peer said why.
    #[error("the peer disconnected: {0}")]
    ByPeer(Reason),
    /// The peer said something wrong.
    #[error("refused the peer: {0}")]
    Fault(#[from] Fault),
    /// A region's file.
    #[error("refused the peer: region {region} is {source}")]
    Region {
        /// Its number.
        region: u16,
        /// What is wrong.
        source: ForeignMemoryError,
    },
    /// A ring in the peer's memory.
    #[error("refused the peer: {0}")]
    Ring(#[from] RingError),
    /// A ring's descriptor.
    #[error("refused the peer: the descriptor of a ring is no eventfd")]
    NoEventfd,
    /// An index that says more than a ring can hold.
    #[error("refused the peer: a ring index of its is impossible")]
    Index,
    /// A write to its eventfd did not come back.
    #[error("refused the peer: it filled an eventfd and made the other side wait for it")]
    Waited,
    /// The handshake does not end.
    #[error("the handshake took longer than {} s", HANDSHAKE_MAX.ns / 1_000_000_000)]
    Silent,
    /// Too many clients shake hands.
    #[error("too many clients shake hands at once: this one has waited longest")]
    Crowded,
    /// Not a user whom the socket is for.
    #[error("refused the peer: its user may not use this socket")]
    NotAllowed,
    /// Its regions are mostly holes, which would become memory of ours.
    #[error("refused the peer: {holes} bytes without memory in its regions, the rings need at most {max}")]
    Sparse {
        /// Bytes without memory.
        holes: u64,
        /// Most that are taken.
        max: u64,
    },
    /// The server's queue is full.
    #[error("too many clients wait for the server on {socket}: trying again")]
    Queue {
        /// The socket.
        socket: String,
    },
    /// There is no peer.
    #[error("no program listens on {socket}: {source}")]
    NotThere {
        /// The socket.
        socket: String,
        /// What the system said.
        source: io::Error,
    },
    /// This side ends.
    #[error("the interface is closed")]
    Closing,
    /// The system refused something of ours.
    #[error("no connection could be made: {0}")]
    System(#[from] io::Error),
    /// Ours as well.
    #[error("no connection could be made: {0}")]
    Memory(#[from] ClaimError),
}

impl From<rustix::io::Errno> for Disconnect {
    fn from(error: rustix::io::Errno) -> Self {
        Self::System(error.into())
    }
}

impl Disconnect {
    /// What the peer is told, if it can hear it.
    pub(crate) fn message(&self) -> Option<Message> {
        match self {
            Self::Gone | Self::ByPeer(_) | Self::NotThere { .. } | Self::Queue { .. } => None,
            Self::Fault(fault) => Some(fault.disconnect()),
            Self::Region { .. }
            | Self::Ring(_)
            | Self::NoEventfd
            | Self::Index
            | Self::Waited
            | Self::Silent
            | Self::Crowded
            | Self::NotAllowed
            | Self::Sparse { .. }
            | Self::Closing => Some(disconnect(&self.to_string())),
            // What fails here concerns no other.
            Self::System(_) | Self::Memory(_) => Some(disconnect("the other side is out of something")),
        }
    }
}

fn disconnect(text: &str) -> Message {
    let mut reason = Reason::new("");
    // Cut, never refused.
    let _ = reason.write_str(text.strip_prefix("refused the peer: ").unwrap_or(text));
    Message::Disconnect { code: 0, reason }
}

//! What an interface is made of.

use std::io;
use std::time::Duration;

use napier_core::memif::{LOG2_RING_SIZE_MAX, RegionLayout, RegionLayoutError, Secret};

use crate::access::MemifAccess;
use crate::socket::{MemifSocketError, SocketPath};

/// Between frames and between buffers: makes the stride no power of two, so that packet heads spread over the cache sets.
pub const GAP_BYTES: u32 = 64;

/// Which side of a memif this is.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum MemifRole {
    /// Listens, and uses the client's memory.
    Server,
    /// Connects, and owns the memory.
    Client,
}

/// One interface of a control socket, at one of its two sides.
///
/// ```
/// use napier_memif::{InterfaceConfig, Memif, Secret};
///
/// let secret = Secret::new(b"between us");
/// let socket = format!("@napier-memif-doc-config-{}", std::process::id());
/// Memif::new()?.add("vpp", InterfaceConfig { queues: 2, secret, ..InterfaceConfig::server(&socket) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InterfaceConfig {
    /// Which side this is.
    pub role: MemifRole,
    /// Path of the control socket, or `@` and an abstract name.
    pub socket: String,
    /// Number of the interface on the socket: the same on both sides.
    pub id: u32,
    /// At the server: what a client must know. At the client: what it says.
    pub secret: Option<Secret>,
    /// At the server: who may connect to the socket. The same for all interfaces on it.
    pub access: MemifAccess,
    /// Queues each way, 1 to 256. A client gets at most as many as the server allows; a server allows at most this many.
    pub queues: u16,
    /// Slots of each ring: a power of two, 2 to 16384. At the server: the most that a client may have.
    pub ring_size: u32,
    /// Bytes of the longest packet, link-layer header included: 64 to 65472, a multiple of 64. Longer ones are refused.
    pub frame_bytes: u32,
    /// At the client: how long to wait before it tries to connect again.
    pub retry: Duration,
}

/// Why an interface was not added.
#[derive(Debug, thiserror::Error)]
pub enum AddInterfaceError {
    /// The size of the rings.
    #[error("a memif ring has 2 to 16384 slots, a power of two, not {ring_size}")]
    RingSize {
        /// As asked for.
        ring_size: u32,
    },
    /// The size of the frames.
    #[error("a frame has 64 to 65472 bytes, a multiple of 64, not {frame_bytes}")]
    FrameBytes {
        /// As asked for.
        frame_bytes: u32,
    },
    /// The shared memory cannot be.
    #[error("the shared memory cannot be laid out: {0}")]
    Layout(#[from] RegionLayoutError),
    /// The control socket.
    #[error(transparent)]
    Socket(#[from] MemifSocketError),
    /// A server of this control channel has the number.
    #[error("interface id {id} on {socket} exists already: choose another id")]
    IdTaken {
        /// The number.
        id: u32,
        /// The socket.
        socket: String,
    },
    /// Another interface of this control channel is on the socket.
    #[error("{socket} is there already for other users: give all interfaces on it the same access")]
    OtherAccess {
        /// The socket.
        socket: String,
    },
    /// No descriptor or no thread.
    #[error("the control channel of memif cannot be started: {0}; check the limits on open files and threads")]
    System(#[from] io::Error),
}

impl AddInterfaceError {
    /// What kind of error of the system this is.
    #[must_use]
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Self::RingSize { .. } | Self::FrameBytes { .. } | Self::Layout(_) | Self::OtherAccess { .. } => {
                io::ErrorKind::InvalidInput
            }
            Self::Socket(error) => error.kind(),
            Self::IdTaken { .. } => io::ErrorKind::AddrInUse,
            Self::System(source) => source.kind(),
        }
    }
}

/// Of its [kind](AddInterfaceError::kind), with the error inside for what it says.
impl From<AddInterfaceError> for io::Error {
    fn from(error: AddInterfaceError) -> Self {
        Self::new(error.kind(), error)
    }
}

impl InterfaceConfig {
    /// A server's interface 0 with one queue of 1024 slots each way and frames of 2048 bytes, without secret.
    #[must_use]
    pub fn server(socket: &str) -> Self {
        Self::new(MemifRole::Server, socket)
    }

    /// The same at the client.
    #[must_use]
    pub fn client(socket: &str) -> Self {
        Self::new(MemifRole::Client, socket)
    }

    /// The same in either role.
    #[must_use]
    pub fn new(role: MemifRole, socket: &str) -> Self {
        Self {
            role,
            socket: socket.to_owned(),
            id: 0,
            secret: None,
            access: MemifAccess::default(),
            queues: 1,
            ring_size: 1024,
            frame_bytes: 2048,
            retry: Duration::from_secs(1),
        }
    }

    /// Checks every field.
    ///
    /// # Errors
    ///
    /// The first field that cannot be, as an [`AddInterfaceError`].
    pub fn check(&self) -> Result<(), AddInterfaceError> {
        self.layout()?;
        Ok(SocketPath(self.socket.clone()).check()?)
    }

    /// What a client shares.
    pub(crate) fn layout(&self) -> Result<RegionLayout, AddInterfaceError> {
        let &Self { queues, ring_size, frame_bytes, .. } = self;
        if !ring_size.is_power_of_two() || !(1..=LOG2_RING_SIZE_MAX).contains(&self.log2_ring_size()) {
            return Err(AddInterfaceError::RingSize { ring_size });
        }
        if !(64..=65472).contains(&frame_bytes) || !frame_bytes.is_multiple_of(64) {
            return Err(AddInterfaceError::FrameBytes { frame_bytes });
        }
        Ok(RegionLayout::new(queues, queues, self.log2_ring_size(), frame_bytes + GAP_BYTES)?)
    }

    /// Of a size that is not 0.
    pub(crate) fn log2_ring_size(&self) -> u8 {
        self.ring_size.ilog2() as u8 // at most 31
    }
}

//! memif with a peer in another process: Napier, DPDK, VPP, or another program that speaks memif 2.0.
//!
//! A device of this kind comes up when a peer connects and loses carrier when it goes; it is there all the time. The
//! server listens on a Unix socket, several devices on one socket if their numbers differ; the client connects, again
//! and again, and owns the memory. One thread per engine (`control`) does all that waits: it accepts, connects, shakes
//! hands by the rules of [`napier_core::memif`] and notices that a peer has gone. Packets never pass through it.
//!
//! The peer is hostile until proven otherwise, and it cannot be proven: no frame lives in shared memory, nothing in it is
//! read twice, and its files must be sealed so that no access can fail ([`napier_sys::mmap`]).

mod access;
mod attachment;
mod client;
mod control;
mod down;
mod ends;
mod guard;
mod line;
mod poll;
mod port;
mod server;
mod socket;
mod state;

pub use access::MemifAccess;
pub(crate) use control::Control;
pub(crate) use ends::{MemifRx, MemifTx};
use line::Kick;
pub(crate) use line::MemifLine;
pub use socket::MemifSocketError;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use napier_core::memif::{LOG2_RING_SIZE_MAX, RegionLayout, Secret};
use napier_ring::{ArenaConfig, FramePool, FrameTable};

use crate::port::link::{LinkConfig, LinkError};
use crate::port::{AddDeviceError, IrqLine, Ports, QueuePair, RxEnd, RxQueue, SenderSpace, TxEnd, TxQueue};
use napier_sys::mmap::private_memory;
use socket::SocketPath;

/// Between frames and between buffers: makes the stride no power of two, so that packet heads spread over the cache sets.
const GAP_BYTES: u32 = 64;

/// Which side of a memif a device is.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum MemifRole {
    /// Listens, and uses the client's memory.
    Server,
    /// Connects, and owns the memory.
    Client,
}

/// A memif device with its peer in another process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemifConfig {
    /// Which side this is.
    pub role: MemifRole,
    /// Path of the control socket, or `@` and an abstract name.
    pub socket: String,
    /// Number of the interface on the socket: the same on both sides.
    pub id: u32,
    /// At the server: what a client must know. At the client: what it says.
    pub secret: Option<Secret>,
    /// At the server: who may connect to the socket. The same for all devices on it.
    pub access: MemifAccess,
    /// Queues each way, 1 to 64. A client gets at most as many as the server allows; a server allows at most this many.
    pub queues: u16,
    /// Slots of each ring: a power of two, 64 to 4096. At the server: the most that a client may have.
    pub ring_size: u32,
    /// Bytes of a frame, link-layer header included: 128 to 65472, a multiple of 64. Longer packets are refused.
    /// Below 1514 it bounds the MTU of the device; IPv6 addresses need 1344.
    pub frame_bytes: u32,
    /// Frames that each queue has to receive. 0 = twice `ring_size`; at least `ring_size` + 64.
    pub frames_per_queue: u32,
    /// Senders that can build packets at the same time without waiting for each other, where the device has a queueing
    /// discipline: 1 to 1024.
    pub senders: u16,
    /// Frames of each sender: 1 to 1024.
    pub sender_frames: u32,
    /// At the client: how long to wait before it tries to connect again.
    pub retry: Duration,
    /// Whether TCP connections stay when the peer goes, to go on with it should it come back with its ends of them. If not
    /// (the default), they end with `ENETRESET`.
    pub keep_connections: bool,
}

impl MemifConfig {
    /// A device with one queue of 1024 slots each way and frames of 2048 bytes, without secret.
    #[must_use]
    pub fn new(role: MemifRole, socket: &str) -> Self {
        let LinkConfig { ring_size, frame_bytes, senders, sender_frames, .. } = LinkConfig::default();
        Self {
            role,
            socket: socket.to_owned(),
            id: 0,
            secret: None,
            access: MemifAccess::default(),
            queues: 1,
            ring_size,
            frame_bytes,
            frames_per_queue: 0,
            senders,
            sender_frames,
            retry: Duration::from_secs(1),
            keep_connections: false,
        }
    }

    /// Checks every field.
    ///
    /// # Errors
    ///
    /// The first field that cannot be, as an [`AddMemifError`].
    pub fn check(&self) -> Result<(), AddMemifError> {
        let &Self { queues, ring_size, frame_bytes, frames_per_queue, senders, sender_frames, .. } = self;
        // The same shape as a link's.
        let link = LinkConfig {
            queues,
            ring_size,
            frame_bytes,
            frames_per_queue,
            senders,
            sender_frames,
            ..LinkConfig::default()
        };
        link.check()?;
        self.layout()?;
        Ok(SocketPath(self.socket.clone()).check()?)
    }

    /// What a client shares.
    fn layout(&self) -> Result<RegionLayout, AddMemifError> {
        let buffer_bytes = self.frame_bytes + GAP_BYTES;
        RegionLayout::new(self.queues, self.queues, self.log2_ring_size(), buffer_bytes).map_err(AddMemifError::Layout)
    }

    fn log2_ring_size(&self) -> u8 {
        (self.ring_size.ilog2() as u8).min(LOG2_RING_SIZE_MAX) // at most 31
    }

    fn frames_per_home(&self) -> u32 {
        if self.frames_per_queue == 0 { 2 * self.ring_size } else { self.frames_per_queue }
    }
}

/// Why a memif device was not added.
#[derive(Debug, thiserror::Error)]
pub enum AddMemifError {
    /// The device cannot be.
    #[error(transparent)]
    Device(#[from] AddDeviceError),
    /// Its queues, rings or frames cannot be.
    #[error(transparent)]
    Shape(#[from] LinkError),
    /// The shared memory cannot be.
    #[error("the shared memory cannot be laid out: {0}")]
    Layout(napier_core::memif::RegionLayoutError),
    /// The control socket.
    #[error(transparent)]
    Socket(#[from] MemifSocketError),
    /// A server of this engine has the number.
    #[error("interface id {id} on {socket} exists already: choose another id")]
    IdTaken {
        /// The number.
        id: u32,
        /// The socket.
        socket: String,
    },
    /// Another device of this engine is on the socket.
    #[error("{socket} is there already for other users: give all devices on it the same access")]
    OtherAccess {
        /// The socket.
        socket: String,
    },
    /// No memory for frames.
    #[error("{bytes} bytes of memory for frames: {source}; use fewer queues or smaller rings")]
    Memory {
        /// As asked for.
        bytes: usize,
        /// What the kernel said.
        source: io::Error,
    },
    /// No room in the engine's frame table.
    #[error("frames cannot be registered: {0}")]
    Arena(#[from] napier_ring::ArenaError),
    /// No descriptor or no thread.
    #[error("the control channel of memif cannot be started: {0}; check the limits on open files and threads")]
    System(#[from] io::Error),
}

/// The queues of a device, and the interrupt of each.
struct Parts {
    ports: Ports,
    lines: Vec<Arc<MemifLine>>,
}

impl Parts {
    /// Queues without peer.
    fn new(config: &MemifConfig, table: &Arc<FrameTable>) -> Result<Self, AddMemifError> {
        let lines = (0..config.queues).map(|_| MemifLine::new().map(Arc::new)).collect::<Result<Vec<_>, _>>()?;
        let stride = config.frame_bytes + GAP_BYTES;
        let bytes = usize::from(config.queues) * config.frames_per_home() as usize * stride as usize;
        let memory = private_memory(bytes).map_err(|source| AddMemifError::Memory { bytes, source })?;
        let arena = ArenaConfig {
            mapping: Arc::new(memory),
            offset: 0,
            stride: stride as usize,
            frames_per_home: config.frames_per_home(),
            homes: config.queues,
        };
        let (_, pools) = table.add_arena(arena)?;
        let queue = |(pool, line): (FramePool, &Arc<MemifLine>)| {
            let irq = IrqLine::Memif(line.clone());
            let mut tx = TxQueue::new(TxEnd::Detached, table.clone(), config.frame_bytes);
            tx.expect_forwarded(&pool);
            QueuePair { rx: RxQueue::new(RxEnd::Detached, pool, irq.clone()), tx, irq }
        };
        let queues = pools.into_iter().zip(&lines).map(queue).collect();
        let senders = SenderSpace::new(config.senders, config.sender_frames, stride, None);
        Ok(Self { ports: Ports { queues, senders }, lines })
    }
}

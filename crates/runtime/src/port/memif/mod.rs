//! memif with a peer in another process: Napier, DPDK, VPP, or another program that speaks memif 2.0.
//!
//! A device of this kind comes up when a peer connects and loses carrier when it goes; it is there all the time. All that waits
//! is done by two threads per engine (`control`), by the control channel of [`napier_memif`]; packets never pass through it.

mod control;
mod ends;
mod handler;
mod line;

pub(crate) use control::Control;
pub(crate) use ends::{MemifRx, MemifTx};
pub(crate) use line::MemifLine;
pub use napier_memif::{MemifAccess, MemifRole, MemifSocketError};

use std::io;
use std::sync::Arc;
use std::time::Duration;

use napier_memif::drive::GAP_BYTES;
use napier_memif::{AddInterfaceError, InterfaceConfig, Secret};
use napier_ring::{ArenaConfig, FramePool, FrameTable};

use crate::port::link::{LinkConfig, LinkError};
use crate::port::{AddDeviceError, IrqLine, Ports, QueuePair, RxEnd, RxQueue, SenderSpace, TxEnd, TxQueue};
use napier_sys::mmap::private_memory;

/// A memif device with its peer in another process, for [`Engine::add_memif`](crate::engine::Engine::add_memif).
///
/// ```
/// use napier_runtime::device::{MemifConfig, MemifRole, MemifSecret};
///
/// let secret = MemifSecret::new(b"between us");
/// let config = MemifConfig { queues: 2, secret, ..MemifConfig::new(MemifRole::Server, "/run/napier.sock") };
/// config.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
        Ok(self.interface().check()?)
    }

    /// What the peer has to do with.
    fn interface(&self) -> InterfaceConfig {
        let &Self { role, id, secret, access, queues, ring_size, frame_bytes, retry, .. } = self;
        let socket = self.socket.clone();
        InterfaceConfig { role, socket, id, secret, access, queues, ring_size, frame_bytes, retry }
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
    /// Its control socket or its shared memory cannot be, or it is there already.
    #[error(transparent)]
    Interface(#[from] AddInterfaceError),
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

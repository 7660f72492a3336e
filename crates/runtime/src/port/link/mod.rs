//! Links: devices made of shared memory. Both ends are in this process.
//!
//! A link has one memif region, `[C2S rings][S2C rings][frames]`, owned by its client end. The client's frames are in
//! the region, so the client copies nothing: it sends the frame that it built and receives into the frames that it
//! posted. The server's frames are private: it copies what it receives, and builds what it sends in the buffers that
//! the client posted. So a packet is copied once on the way to the server and never on the way back.
//!
//! Each queue of each end has its own frames. Two homes per queue at the client (one to receive, one to send), one
//! at the server (to receive).
//!
//! What must hold: no packet is lost without a counter ([`RxCounters`], [`TxCounters`]), and at rest
//! [`FrameAccount::out`] is 0 over all queues of an end.

mod ends;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;

use napier_core::moderation::{Coalesce, CoalesceError};
use napier_ring::memif::{
    C2sConsumer, C2sProducer, Layout, LayoutError, RingEnd, RingError, RingView, S2cConsumer, S2cProducer,
};
use napier_ring::{ArenaConfig, ArenaError, ArenaId, FramePool, FrameTable, Mapping};

use ends::PeerLine;
pub(crate) use ends::{ClientTx, ServerTx};

use crate::bounds::RING_SIZE_MAX;
use crate::port::{IrqLine, LinkLine, Ports, QueuePair, RxEnd, RxQueue, SenderSpace, TxEnd, TxQueue};
use napier_sys::mmap::{private_memory, shared_memory};

/// Most queues of a link.
const QUEUES_MAX: u16 = 64;
/// Fewest slots of a ring.
const RING_SIZE_MIN: u32 = 64;
/// Fewest and most bytes of a frame. A larger one would hold more than an IP packet can be.
const FRAME_BYTES: core::ops::RangeInclusive<u32> = 128..=65536;
/// Frames that a queue has beyond those in its ring, at least: one poll's worth (NAPI_POLL_WEIGHT).
const SPARE_FRAMES_MIN: u32 = 64;
/// Most frames of a queue.
const FRAMES_PER_QUEUE_MAX: u32 = 1 << 17;
/// Most senders of an end, and most frames of each.
const SENDERS_MAX: u16 = 1024;
/// Between frames: makes the stride no power of two, so that packet heads spread over the cache sets.
const FRAME_GAP_BYTES: u32 = 64;

/// What a link is made of. Both ends have the same shape.
///
/// ```
/// # use napier_runtime::doc_end;
/// use napier_runtime::device::LinkConfig;
/// use napier_runtime::engine::Engine;
///
/// let engine = Engine::builder().start()?;
/// let config = LinkConfig { queues: 2, ring_size: 256, ..LinkConfig::default() };
/// # let (here, there) = (doc_end(&engine, "here", 1), doc_end(&engine, "there", 2));
/// let (device, _peer) = engine.add_link(&config, here, there)?;
/// assert_eq!(device.queues(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkConfig {
    /// Queue pairs, 1 to 64.
    pub queues: u16,
    /// Slots of each ring: a power of two, 64 to 4096.
    pub ring_size: u32,
    /// Bytes of a frame, link-layer header included: 128 to 65536, a multiple of 64. Below 1514 it
    /// bounds the MTU of the devices; IPv6 addresses need 1344.
    pub frame_bytes: u32,
    /// Frames of each home (a queue's receive side, a queue's send side). 0 = twice `ring_size`. At least
    /// `ring_size` + 64; what exceeds the ring can wait in sockets.
    pub frames_per_queue: u32,
    /// Interrupt coalescing at first, µs from the first packet; 0 = interrupt at once. As `ethtool -C rx-usecs`.
    pub rx_usecs: u32,
    /// Interrupt coalescing at first, packets; 0 = by time only. As `ethtool -C rx-frames`.
    pub rx_frames: u32,
    /// Senders that can build packets at the same time without waiting for each other, per end, where the device has a
    /// queueing discipline: 1 to 1024. Each has frames of its own.
    pub senders: u16,
    /// Frames of each sender: what it can have on the way, as `SO_SNDBUF` bounds it for a kernel socket. 1 to 1024.
    pub sender_frames: u32,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            queues: 1,
            ring_size: 1024,
            frame_bytes: 2048,
            frames_per_queue: 0,
            rx_usecs: 0,
            rx_frames: 1,
            senders: 64,
            sender_frames: 128,
        }
    }
}

/// Why a link cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The number of queues.
    #[error("a link has 1 to {QUEUES_MAX} queues, not {queues}")]
    Queues {
        /// As asked for.
        queues: u16,
    },
    /// The size of the rings.
    #[error("a ring has {RING_SIZE_MIN} to {RING_SIZE_MAX} slots, a power of two, not {ring_size}")]
    RingSize {
        /// As asked for.
        ring_size: u32,
    },
    /// The size of the frames.
    #[error("a frame has 128 to 65536 bytes, a multiple of 64, not {frame_bytes}")]
    FrameBytes {
        /// As asked for.
        frame_bytes: u32,
    },
    /// The number of frames.
    #[error("a queue of this ring size needs {least} to {most} frames, not {frames}", most = FRAMES_PER_QUEUE_MAX)]
    Frames {
        /// As asked for.
        frames: u32,
        /// The ring size and one poll's worth.
        least: u32,
    },
    /// The number of senders, or of their frames.
    #[error("a link has 1 to {SENDERS_MAX} senders with 1 to {SENDERS_MAX} frames each, not {senders} with {frames}")]
    Senders {
        /// Senders asked for.
        senders: u16,
        /// Frames of each.
        frames: u32,
    },
    /// Interrupt coalescing.
    #[error(transparent)]
    Coalesce(#[from] CoalesceError),
    /// The region as a whole.
    #[error("the link's memory cannot be laid out: {0}")]
    Layout(#[from] LayoutError),
    /// The engine's frame table.
    #[error("the link's frames cannot be registered: {0}")]
    Arena(#[from] ArenaError),
    /// A ring could not be opened.
    #[error("a ring of the link cannot be opened: {0}")]
    Ring(#[from] RingError),
    /// The kernel gave no memory.
    #[error("{bytes} bytes of memory: {source}; use fewer queues or smaller rings")]
    Memory {
        /// Size of the region.
        bytes: usize,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel gave no eventfd or timerfd.
    #[error("the link's interrupt lines: {0}; a queue needs four file descriptors (see ulimit -n)")]
    Irq(io::Error),
}

impl LinkConfig {
    /// Checks every field.
    ///
    /// # Errors
    ///
    /// The first field that cannot be, as a [`LinkError`].
    pub fn check(&self) -> Result<(), LinkError> {
        let Self { queues, ring_size, frame_bytes, .. } = *self;
        if !(1..=QUEUES_MAX).contains(&queues) {
            return Err(LinkError::Queues { queues });
        }
        if !(RING_SIZE_MIN..=RING_SIZE_MAX).contains(&ring_size) || !ring_size.is_power_of_two() {
            return Err(LinkError::RingSize { ring_size });
        }
        if !FRAME_BYTES.contains(&frame_bytes) || !frame_bytes.is_multiple_of(64) {
            return Err(LinkError::FrameBytes { frame_bytes });
        }
        Coalesce::new(self.rx_usecs, self.rx_frames)?;
        let (frames, least) = (self.frames_per_home(), ring_size + SPARE_FRAMES_MIN);
        if !(least..=FRAMES_PER_QUEUE_MAX).contains(&frames) {
            return Err(LinkError::Frames { frames, least });
        }
        let (senders, frames) = (self.senders, self.sender_frames);
        if !(1..=SENDERS_MAX).contains(&senders) || !(1..=u32::from(SENDERS_MAX)).contains(&frames) {
            return Err(LinkError::Senders { senders, frames });
        }
        Ok(())
    }

    fn frames_per_home(&self) -> u32 {
        if self.frames_per_queue == 0 { 2 * self.ring_size } else { self.frames_per_queue }
    }

    /// Frames of all queues of the client; at most 2^24, checked as an arena.
    fn queue_frames(&self) -> u32 {
        self.frames_per_home() * 2 * u32::from(self.queues)
    }

    fn frame_stride(&self) -> u32 {
        self.frame_bytes + FRAME_GAP_BYTES
    }

    fn layout(&self) -> Result<Layout, LinkError> {
        self.check()?;
        let log2 = self.ring_size.ilog2() as u8; // at most 12
        let frames = self.queue_frames() + u32::from(self.senders) * self.sender_frames;
        Ok(Layout::new(self.queues, log2, frames, self.frame_stride())?)
    }
}

/// Makes a link: the client end and the server end. All interrupts start masked.
///
/// # Errors
///
/// See [`LinkError`]. Frames are registered last, so a link that cannot be made costs the table at most one arena.
pub(crate) fn create(config: &LinkConfig, table: &Arc<FrameTable>) -> Result<(Ports, Ports), LinkError> {
    let layout = config.layout()?;
    let coalesce = Coalesce::new(config.rx_usecs, config.rx_frames)?;
    let bytes = layout.region_len();
    let (_file, region) = shared_memory(bytes).map_err(|source| LinkError::Memory { bytes, source })?;
    let region = Arc::new(region);
    let line = |_| LinkLine::new(coalesce).map(Arc::new);
    let lines = (0..2 * config.queues).map(line);
    let lines: Vec<_> = lines.collect::<Result<_, _>>().map_err(LinkError::Irq)?;

    let end = Homes { table, config };
    let bytes = end.bytes(1);
    let private = private_memory(bytes).map_err(|source| LinkError::Memory { bytes, source })?;
    let (client_arena, client_pools) = end.add(region.clone(), layout.frames_offset(), 2)?;
    let (_, server_pools) = end.add(Arc::new(private), 0, 1)?;
    let (mut client_pools, mut server_pools) = (client_pools.into_iter(), server_pools.into_iter());
    let next_pool = |pools: &mut std::vec::IntoIter<FramePool>| match pools.next() {
        Some(pool) => pool,
        None => unreachable!("an arena has the homes that were asked for"),
    };

    let (mut clients, mut servers) = (Vec::new(), Vec::new());
    for (queue, lines) in (0..config.queues).zip(lines.chunks_exact(2)) {
        let rings = QueueRings { region: &region, layout: &layout, queue };
        let (rx_pool, tx_pool) = (next_pool(&mut client_pools), next_pool(&mut client_pools));
        let (client_irq, server_irq) = (&lines[0], &lines[1]);
        let (c2s, s2c) = rings.client(table, client_arena)?;
        client_irq.serve(s2c.interrupt_switch());
        let tx = ClientTx::new(c2s, tx_pool, PeerLine(server_irq.clone()));
        clients.push(QueuePair {
            rx: RxQueue::new(RxEnd::LinkClient(s2c), rx_pool, IrqLine::LinkClient(client_irq.clone())),
            tx: TxQueue::new(TxEnd::LinkClient(tx), table.clone(), config.frame_bytes),
            irq: IrqLine::LinkClient(client_irq.clone()),
        });
        let (c2s, s2c) = rings.server()?;
        server_irq.serve(c2s.interrupt_switch());
        let tx = ServerTx { ring: s2c, slots: config.ring_size, peer_irq: client_irq.clone() };
        servers.push(QueuePair {
            rx: RxQueue::new(
                RxEnd::LinkServer(c2s),
                next_pool(&mut server_pools),
                IrqLine::LinkServer(server_irq.clone()),
            ),
            tx: TxQueue::new(TxEnd::LinkServer(tx), table.clone(), config.frame_bytes),
            irq: IrqLine::LinkServer(server_irq.clone()),
        });
    }
    let senders_at = layout.frames_offset() + config.queue_frames() as usize * config.frame_stride() as usize;
    let senders = |place| SenderSpace::new(config.senders, config.sender_frames, config.frame_stride(), place);
    let client = Ports { queues: clients, senders: senders(Some((region.clone(), senders_at))) };
    Ok((client, Ports { queues: servers, senders: senders(None) }))
}

/// The frames of one end.
struct Homes<'a> {
    table: &'a Arc<FrameTable>,
    config: &'a LinkConfig,
}

impl Homes<'_> {
    /// Bytes of the frames of an end with `homes_per_queue`.
    fn bytes(&self, homes_per_queue: u16) -> usize {
        let homes = usize::from(self.config.queues * homes_per_queue);
        homes * self.config.frames_per_home() as usize * self.config.frame_stride() as usize
    }

    fn add(
        &self,
        mapping: Arc<Mapping>,
        offset: usize,
        homes_per_queue: u16,
    ) -> Result<(ArenaId, Vec<FramePool>), ArenaError> {
        self.table.add_arena(ArenaConfig {
            mapping,
            offset,
            stride: self.config.frame_stride() as usize,
            frames_per_home: self.config.frames_per_home(),
            homes: self.config.queues * homes_per_queue,
        })
    }
}

/// The two rings of a queue.
struct QueueRings<'a> {
    region: &'a Arc<Mapping>,
    layout: &'a Layout,
    queue: u16,
}

impl QueueRings<'_> {
    fn view(&self, offset: usize, end: RingEnd) -> Result<RingView, RingError> {
        RingView::new(self.region, offset, self.layout.log2_ring_size(), end)
    }

    fn client(&self, table: &FrameTable, arena: ArenaId) -> Result<(C2sProducer, S2cConsumer), RingError> {
        let c2s = self.view(self.layout.c2s_ring(self.queue), RingEnd::Client)?;
        let s2c = self.view(self.layout.s2c_ring(self.queue), RingEnd::Client)?;
        c2s.init();
        s2c.init();
        Ok((C2sProducer::new(c2s, table, arena), S2cConsumer::new(s2c, table, arena)))
    }

    fn server(&self) -> Result<(C2sConsumer, S2cProducer), RingError> {
        let c2s = self.view(self.layout.c2s_ring(self.queue), RingEnd::Server)?;
        let s2c = self.view(self.layout.s2c_ring(self.queue), RingEnd::Server)?;
        c2s.check_cookie()?;
        s2c.check_cookie()?;
        let frames = self.layout.frames();
        Ok((C2sConsumer::new(c2s, frames.clone()), S2cProducer::new(s2c, frames)))
    }
}

//! A sender and a receiver on sockets of their own, with nothing above: the limit of a machine, for benchmarks.

use std::sync::Arc;

use napier_ring::xsk::{HEADROOM_BYTES, XskRx, XskTx};
use napier_ring::{ArenaConfig, FramePool, FrameTable};

use super::open::{Inside, open_bare};
use super::{AddXdpError, XdpConfig};
use napier_sys::xsk::{Kicked, XskSocket};

/// The first queue of an interface, without a device. `XdpFilter::OwnAddresses` stands for none.
#[doc(hidden)]
pub struct BareXdp {
    tx: XskTx,
    rx: XskRx,
    to_send: FramePool,
    table: Arc<FrameTable>,
    socket: XskSocket,
    _inside: Inside,
}

impl BareXdp {
    /// Opens the queue.
    ///
    /// # Errors
    /// As [`Engine::add_xdp`](crate::engine::Engine::add_xdp).
    pub fn open(config: &XdpConfig) -> Result<Self, AddXdpError> {
        config.check()?;
        let table = Arc::new(FrameTable::new());
        let (mut inside, memory) = open_bare(config)?;
        let (socket, rings) = inside.sockets.remove(0);
        let cut = ArenaConfig {
            mapping: memory,
            offset: HEADROOM_BYTES as usize,
            stride: config.chunk_bytes as usize,
            frames_per_home: config.frames_per_home(),
            homes: 2,
        };
        let (arena, pools) = table.add_arena_with_gaps(cut, (config.chunk_bytes - HEADROOM_BYTES) as usize)?;
        let Ok([mut to_fill, to_send]) = <[FramePool; 2]>::try_from(pools) else { panic!("an arena has its homes") };
        let mut rx = XskRx::new(rings.fill, rings.rx, &table, arena);
        let tx = XskTx::new(rings.tx, rings.completion, &table, arena);
        while rx.posted() < config.ring_size
            && let Some(frame) = to_fill.alloc()
        {
            assert!(rx.post(frame).is_ok(), "an empty fill ring has room");
        }
        let mut this = Self { tx, rx, to_send, table, socket, _inside: inside };
        this.publish_fill();
        Ok(this)
    }

    /// Sends so many packets as `write` makes them, and waits until the kernel has taken them. Returns how many.
    #[inline]
    pub fn send(&mut self, count: u32, mut write: impl FnMut(&mut [u8]) -> usize) -> u32 {
        let mut pushed = 0;
        while pushed < count
            && let Some(mut frame) = self.to_send.alloc()
        {
            let bytes = write(self.table.data_mut(&mut frame));
            if let Err(frame) = self.tx.push(frame, u32::try_from(bytes).unwrap_or(0)) {
                self.to_send.free(frame);
                break;
            }
            pushed += 1;
        }
        let mut wake = self.tx.publish().wake;
        while let Some(token) = wake.take() {
            let kicked = self.socket.kick(token);
            let pool = &mut self.to_send;
            self.tx.reclaim(|frame| pool.free(frame));
            wake = match kicked {
                Kicked::Again(token) if self.tx.unsent() > 0 => Some(token),
                _ => None,
            };
        }
        pushed
    }

    /// Takes all packets that are there, and gives their frames back. Returns how many.
    #[inline]
    pub fn receive(&mut self) -> u32 {
        let mut taken = 0;
        // As many as are there now: a frame that is posted meanwhile is not seen before it is published.
        while let Some((frame, _)) = self.rx.take() {
            assert!(self.rx.post(frame).is_ok(), "it was in the fill ring before");
            taken += 1;
            if taken % 32 == 0 {
                self.publish_fill();
            }
        }
        self.publish_fill();
        taken
    }

    fn publish_fill(&mut self) {
        if let Some(wake) = self.rx.publish() {
            self.socket.wake_fill(wake);
        }
    }
}

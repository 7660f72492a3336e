//! A sender and a receiver on sockets of their own, with nothing above: the limit of a machine, for benchmarks.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;

use napier_ring::xsk::{HEADROOM_BYTES, XskRx, XskTx};
use napier_ring::{ArenaConfig, Frame, FramePool, FrameTable};

use super::open::{Inside, open_bare};
use super::{AddXdpError, XdpConfig, queues};
use napier_sys::xsk::{Kicked, XskSocket};

/// The first queue of an interface, without a device. `XdpFilter::OwnAddresses` stands for none.
#[doc(hidden)]
pub struct BareXdp {
    receiver: BareReceiver,
    sender: BareSender,
    _inside: Inside,
}

/// What receives of it.
#[doc(hidden)]
pub struct BareReceiver {
    rx: XskRx,
    table: Arc<FrameTable>,
    socket: Arc<XskSocket>,
}

/// What sends of it.
#[doc(hidden)]
pub struct BareSender {
    tx: XskTx,
    to_send: FramePool,
    table: Arc<FrameTable>,
    socket: Arc<XskSocket>,
}

impl BareXdp {
    /// Opens the queue.
    ///
    /// # Errors
    /// As [`Engine::add_xdp`](crate::engine::Engine::add_xdp).
    pub fn open(config: &XdpConfig) -> Result<Self, AddXdpError> {
        let (config, _) = &queues::fit(config)?;
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
        let socket = Arc::new(socket);
        let mut receiver = BareReceiver { rx, table: table.clone(), socket: socket.clone() };
        receiver.publish_fill();
        Ok(Self { receiver, sender: BareSender { tx, to_send, table, socket }, _inside: inside })
    }

    /// Both parts, for a thread each.
    pub fn parts(&mut self) -> (&mut BareReceiver, &mut BareSender) {
        (&mut self.receiver, &mut self.sender)
    }

    /// Takes all packets that are there, and sends each back for which `turn` says so. Returns how many were taken.
    #[inline]
    pub fn echo(&mut self, mut turn: impl FnMut(&mut [u8]) -> bool) -> u32 {
        let Self { receiver, sender, .. } = self;
        let mut taken = 0;
        while let Some((mut frame, len)) = receiver.rx.take() {
            taken += 1;
            let sent = if turn(&mut receiver.table.data_mut(&mut frame)[..len as usize]) {
                sender.tx.push(frame, len)
            } else {
                Err(frame)
            };
            // A frame that is not sent, for the ring is full, is a packet lost.
            if let Err(frame) = sent {
                receiver.give_back(frame);
            }
            sender.kick(|frame, _| receiver.give_back(frame));
        }
        receiver.publish_fill();
        taken
    }
}

impl BareSender {
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
        self.kick(|frame, pool| pool.free(frame));
        pushed
    }

    /// Has the kernel send what waits. Frames that were sent go `home`.
    fn kick(&mut self, mut home: impl FnMut(Frame, &mut FramePool)) {
        let mut wake = self.tx.publish().wake;
        while let Some(token) = wake.take() {
            let kicked = self.socket.kick(token);
            let pool = &mut self.to_send;
            self.tx.reclaim(|frame| home(frame, pool));
            wake = match kicked {
                Kicked::Again(token) if self.tx.unsent() > 0 => Some(token),
                _ => None,
            };
        }
    }
}

impl BareReceiver {
    /// Takes all packets that are there, and gives their frames back. Returns how many.
    #[inline]
    pub fn receive(&mut self) -> u32 {
        self.receive_each(|_| {})
    }

    /// The same, with a look at each.
    #[inline]
    pub fn receive_each(&mut self, mut each: impl FnMut(&[u8])) -> u32 {
        let mut taken = 0;
        // As many as are there now: a frame that is posted meanwhile is not seen before it is published.
        while let Some((mut frame, len)) = self.rx.take() {
            each(&self.table.data_mut(&mut frame)[..len as usize]);
            self.give_back(frame);
            taken += 1;
            if taken % 32 == 0 {
                self.publish_fill();
            }
        }
        self.publish_fill();
        taken
    }

    /// Its descriptor, to wait for packets.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The kernel's NAPI instance that the socket hears from; 0 if the kernel does not know it.
    pub fn napi_id(&self) -> u32 {
        self.socket.napi_id()
    }

    fn give_back(&mut self, frame: Frame) {
        assert!(self.rx.post(frame).is_ok(), "it was in the fill ring before");
    }

    fn publish_fill(&mut self) {
        if let Some(wake) = self.rx.publish() {
            self.socket.wake_fill(wake);
        }
    }
}

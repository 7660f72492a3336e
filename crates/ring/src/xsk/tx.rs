//! The transmit side of a socket: packets for the kernel to send, and frames that it has sent.

use super::chunks::Chunks;
use super::protocol::{Consumer, Descriptor, Producer, XskMemory, wants_wakeup};
use super::{KernelRing, RingKind};
use crate::{ArenaId, Frame, FrameTable};

/// The kernel sleeps on the transmit ring; a kick of the socket takes this.
#[derive(Debug)]
#[must_use = "packets wait in the ring until the socket is kicked"]
pub struct TxWake(());

/// What [`XskTx::publish`] did.
#[derive(Debug)]
#[must_use = "a token has to be paid to a kick"]
pub struct TxPublish {
    /// Packets that the kernel sees now and did not see before.
    pub published: u32,
    /// There if packets wait and the kernel sleeps.
    pub wake: Option<TxWake>,
}

/// The transmit side of an AF_XDP socket. One owner at a time.
pub struct XskTx {
    packets: Producer<KernelRing>,
    sent: Consumer<KernelRing>,
    sources: [Option<Chunks>; 2],
    outstanding: u32,
    bad_descriptors: u64,
}

impl XskTx {
    /// The side over two rings that have not been used; see [`XskRx::new`](super::XskRx::new) for the arena.
    ///
    /// # Panics
    ///
    /// If the rings are not of these kinds, or the arena is not cut into chunks.
    #[must_use]
    pub fn new(packets: KernelRing, sent: KernelRing, table: &FrameTable, arena: ArenaId) -> Self {
        assert_eq!((packets.kind(), sent.kind()), (RingKind::Packets, RingKind::Addresses), "rings of the wrong kinds");
        Self {
            packets: Producer::new(packets),
            sent: Consumer::new(sent),
            sources: [Some(Chunks::new(table, arena)), None],
            outstanding: 0,
            bad_descriptors: 0,
        }
    }

    /// Takes frames of a second arena of the socket's memory too.
    ///
    /// # Panics
    ///
    /// If there is a second one already.
    pub fn add_arena(&mut self, table: &FrameTable, arena: ArenaId) {
        assert!(self.sources[1].is_none(), "a socket takes frames of two arenas");
        self.sources[1] = Some(Chunks::new(table, arena));
    }

    /// Whether frames of this arena can be pushed.
    #[must_use]
    #[inline]
    pub fn takes(&self, arena: ArenaId) -> bool {
        self.sources.iter().flatten().any(|source| source.arena == arena)
    }

    /// Packets that can be pushed, as far as is known without a look at the kernel's indices. There are never more on the
    /// way than the completion ring has slots, so that one is never full.
    #[must_use]
    #[inline]
    pub fn free_slots(&self) -> u32 {
        self.packets.free().min(self.sent.memory.slots() - self.outstanding)
    }

    /// Adds a packet: the first `len` bytes of `frame`. The kernel sees it after [`publish`](Self::publish).
    ///
    /// # Errors
    ///
    /// The frame, if there is no room.
    ///
    /// # Panics
    ///
    /// If `len` is 0 or more than a frame, or the frame is not of one of the socket's arenas.
    #[inline]
    pub fn push(&mut self, frame: Frame, len: u32) -> Result<(), Frame> {
        if self.free_slots() == 0 {
            return Err(frame);
        }
        let source = self.sources.iter_mut().flatten().find(|source| source.arena == frame.arena());
        let Some(source) = source else { panic!("only frames of the socket's memory can be sent") };
        assert!((1..=source.capacity()).contains(&len), "a packet has 1 byte to one frame");
        let address = u64::from(source.give(frame));
        self.outstanding += 1;
        let index = self.packets.claim();
        self.packets.memory.write_packet(index, Descriptor { address, length: len, options: 0 });
        Ok(())
    }

    /// Shows the kernel what was pushed. There is a token if packets wait and the kernel sleeps, also if they were
    /// published before.
    #[inline]
    pub fn publish(&mut self) -> TxPublish {
        let published = self.packets.publish();
        let wake = self.unsent() > 0 && wants_wakeup(&self.packets.memory);
        TxPublish { published, wake: wake.then_some(TxWake(())) }
    }

    /// Packets that were published and that the kernel has not taken yet, with a look at its index.
    #[inline]
    pub fn unsent(&mut self) -> u32 {
        if self.packets.waiting() > 0 {
            self.packets.look();
        }
        self.packets.waiting()
    }

    /// Takes back the frames that the kernel has sent, and hands each to `home`. Returns how many.
    #[inline]
    pub fn reclaim(&mut self, mut home: impl FnMut(Frame)) -> u32 {
        self.sent.look();
        let mut count = 0;
        while let Some(index) = self.sent.take() {
            // Read once, and checked: the frame is one that was pushed and has not come back.
            let address = self.sent.memory.read_address(index);
            match self.sources.iter_mut().flatten().find_map(|source| source.take(address)) {
                Some(frame) => {
                    home(frame);
                    count += 1;
                }
                None => self.bad_descriptors += 1,
            }
        }
        self.sent.release();
        self.outstanding -= count;
        // What was sent has left the transmit ring too.
        if count > 0 {
            self.packets.look();
        }
        count
    }

    /// Frames that are with the kernel: pushed and not reclaimed.
    #[must_use]
    #[inline]
    pub fn in_flight(&self) -> u32 {
        self.outstanding
    }

    /// Frames that the kernel said it had sent and never had.
    #[must_use]
    pub fn bad_descriptors(&self) -> u64 {
        self.bad_descriptors
    }

    /// Times that an index of the kernel was impossible.
    #[must_use]
    pub fn index_errors(&self) -> u64 {
        self.packets.index_errors() + self.sent.index_errors()
    }
}

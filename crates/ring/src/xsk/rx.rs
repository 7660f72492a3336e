//! The receive side of a socket: frames for the kernel to fill, and packets.

use super::chunks::Chunks;
use super::protocol::{Consumer, Producer, XskMemory, XskWord, wants_wakeup};
use super::{HEADROOM_BYTES, KernelRing, RingKind};
use crate::sync::{AtomicU32, Ordering};
use crate::{ArenaId, Frame, FrameTable};

/// The kernel sleeps on the fill ring; a kick of the socket takes this.
#[derive(Debug)]
#[must_use = "the kernel waits for frames until the socket is kicked"]
pub struct FillWake(());

/// The receive side of an AF_XDP socket. One owner at a time.
pub struct XskRx {
    fill: Producer<KernelRing>,
    packets: Consumer<KernelRing>,
    chunks: Chunks,
    outstanding: u32,
    bad_descriptors: u64,
}

impl XskRx {
    /// The side over two rings that have not been used. `arena` is the socket's memory from its first chunk on, or begins at
    /// a chunk; its stride is the size of a chunk, and its frames begin [`HEADROOM_BYTES`] into their chunks.
    ///
    /// # Panics
    ///
    /// If the rings are not of these kinds, or the arena is not cut as described.
    #[must_use]
    pub fn new(fill: KernelRing, packets: KernelRing, table: &FrameTable, arena: ArenaId) -> Self {
        assert_eq!((fill.kind(), packets.kind()), (RingKind::Addresses, RingKind::Packets), "rings of the wrong kinds");
        let (fill, packets) = (Producer::new(fill), Consumer::new(packets));
        Self { fill, packets, chunks: Chunks::new(table, arena), outstanding: 0, bad_descriptors: 0 }
    }

    /// Gives the kernel a frame to fill. It may use it after [`publish`](Self::publish).
    ///
    /// # Errors
    ///
    /// The frame, if the fill ring is full.
    ///
    /// # Panics
    ///
    /// If the frame is not of the socket's arena.
    #[inline]
    pub fn post(&mut self, frame: Frame) -> Result<(), Frame> {
        assert_eq!(frame.arena(), self.chunks.arena, "only frames of the socket's memory can be posted");
        if self.fill.free() == 0 {
            self.fill.look();
            if self.fill.free() == 0 {
                return Err(frame);
            }
        }
        let chunk = self.chunks.give(frame) - HEADROOM_BYTES;
        self.outstanding += 1;
        let index = self.fill.claim();
        self.fill.memory.write_address(index, u64::from(chunk));
        Ok(())
    }

    /// Takes the oldest packet: its frame and its length in bytes. The kernel may use its slot after
    /// [`publish`](Self::publish).
    #[inline]
    pub fn take(&mut self) -> Option<(Frame, u32)> {
        if self.packets.waiting() == 0 {
            self.pending();
        }
        while let Some(index) = self.packets.take() {
            // Read once, and checked: the frame is one that was posted and has not come back.
            let descriptor = self.packets.memory.read_packet(index);
            if let Some(frame) = self.chunks.take(descriptor.address) {
                self.outstanding -= 1;
                let whole = descriptor.options == 0 && (1..=self.chunks.capacity()).contains(&descriptor.length);
                if whole {
                    return Some((frame, descriptor.length));
                }
                // Ours again, so it can be posted at once; it was in the fill ring before, so there is room again soon.
                if let Err(frame) = self.post(frame) {
                    self.keep(frame);
                }
            }
            self.bad_descriptors += 1;
        }
        None
    }

    /// Packets that wait, with a look at the kernel's index.
    #[inline]
    pub fn pending(&mut self) -> u32 {
        self.packets.look();
        self.packets.waiting()
    }

    /// Gives the slots of the packets taken so far back, and shows the kernel the frames that were posted. A token: the
    /// kernel sleeps and has to be kicked.
    #[inline]
    #[must_use = "a token has to be paid to a kick"]
    pub fn publish(&mut self) -> Option<FillWake> {
        self.packets.release();
        if self.fill.publish() == 0 {
            return None;
        }
        wants_wakeup(&self.fill.memory).then_some(FillWake(()))
    }

    /// Frames that are with the kernel: posted and not taken.
    #[must_use]
    #[inline]
    pub fn posted(&self) -> u32 {
        self.outstanding
    }

    /// Index of the oldest packet that was not taken, for [`XskLook::note_consumed`].
    #[must_use]
    #[inline]
    pub fn consumed(&self) -> u32 {
        self.packets.position()
    }

    /// A look at the receive ring beside the owner of this side.
    #[must_use]
    pub fn look(&self) -> XskLook {
        XskLook { ring: self.packets.memory.for_look(), consumed: AtomicU32::new(self.consumed()) }
    }

    /// Packets dropped because the kernel described them in a way that cannot be: another frame, no or too many bytes, or
    /// a packet in several frames.
    #[must_use]
    pub fn bad_descriptors(&self) -> u64 {
        self.bad_descriptors
    }

    /// Times that an index of the kernel was impossible.
    #[must_use]
    pub fn index_errors(&self) -> u64 {
        self.fill.index_errors() + self.packets.index_errors()
    }

    /// Counts a frame as with the kernel still, though it is in no ring: there is no owner to give it to.
    #[cold]
    fn keep(&mut self, frame: Frame) {
        self.chunks.give(frame);
        self.outstanding += 1;
    }
}

/// A look at the receive ring beside its owner: whether packets wait.
pub struct XskLook {
    ring: KernelRing,
    consumed: AtomicU32,
}

impl XskLook {
    /// The owner has taken all packets before `index`. Called before it gives the queue up.
    #[inline]
    pub fn note_consumed(&self, index: u32) {
        // Release: pairs with the Acquire in `packets_wait`; the caller of that owned the queue last, or a later owner
        // wrote a newer value and looks for itself.
        self.consumed.store(index, Ordering::Release);
    }

    /// Whether packets wait that were not taken.
    #[must_use]
    #[inline]
    pub fn packets_wait(&self) -> bool {
        self.ring.load(XskWord::Producer, Ordering::Acquire) != self.consumed.load(Ordering::Acquire)
    }
}

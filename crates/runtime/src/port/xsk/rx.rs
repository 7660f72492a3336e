//! Packets from a socket.

use std::sync::Arc;

use napier_ring::xsk::{XskLook, XskRx};
use napier_ring::{Frame, FramePool};

use super::line::{PolledFor, XskLine};
use crate::port::{RxCounters, RxHome, RxRing};
use napier_sys::xsk::XskSocket;

/// The receive end of a queue.
pub(crate) struct XskRxEnd {
    ring: XskRx,
    socket: Arc<XskSocket>,
    /// For the thread that unmasks the interrupt beside us.
    look: Arc<XskLook>,
    line: Arc<XskLine>,
    polled: PolledFor,
    /// Frames that the kernel should have.
    depth: u32,
    drives: Drives,
}

/// Whether a poll of the socket makes the kernel poll the interface.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Drives {
    No,
    /// If the kernel knows the instance, which it may learn with the first packet.
    Unknown,
    Yes,
}

impl XskRxEnd {
    /// `depth` frames are kept with the kernel. `busy` = polls of the socket are to drive the kernel's own.
    pub(super) fn new(
        ring: XskRx,
        socket: Arc<XskSocket>,
        look: Arc<XskLook>,
        line: Arc<XskLine>,
        depth: u32,
        busy: bool,
    ) -> Self {
        let drives = match (busy, socket.napi_id()) {
            (false, _) => Drives::No,
            (true, 0) => Drives::Unknown,
            (true, _) => Drives::Yes,
        };
        Self { ring, socket, look, line, polled: PolledFor::default(), depth, drives }
    }

    /// Gives the kernel as many frames as it should have, as far as there are any.
    fn fill(&mut self, pool: &mut FramePool) {
        while self.ring.posted() < self.depth
            && let Some(frame) = pool.alloc()
        {
            if let Err(frame) = self.ring.post(frame) {
                // The kernel has taken frames and not said so yet.
                return pool.free(frame);
            }
        }
    }
}

impl RxRing for XskRxEnd {
    fn begin(&mut self, pool: &mut FramePool) {
        self.fill(pool);
    }

    /// Takes the oldest packet. Where no frame can be given for it, it is dropped and its own goes back to the kernel: a
    /// queue that kept it would run dry and never be woken again.
    #[inline]
    fn receive(&mut self, home: &mut RxHome) -> Option<(Frame, u32)> {
        let RxHome { pool, counters, .. } = home;
        // A ring's worth at most: what is posted here is not published yet.
        loop {
            let (frame, length) = self.ring.take()?;
            match pool.alloc() {
                Some(fresh) => {
                    if let Err(fresh) = self.ring.post(fresh) {
                        pool.free(fresh); // `fill` makes up for it
                    }
                    return Some((frame, length));
                }
                None => {
                    counters.no_frame_drops.add(1);
                    if let Err(frame) = self.ring.post(frame) {
                        pool.free(frame);
                    }
                }
            }
        }
    }

    /// Gives the kernel the slots of what was taken, and frames in exchange.
    fn refill(&mut self, home: &mut RxHome) -> Option<u16> {
        let RxHome { pool, counters, .. } = home;
        self.fill(pool);
        if let Some(wake) = self.ring.publish() {
            self.socket.wake_fill(wake);
        }
        counters.bad_descriptors.set(self.ring.bad_descriptors());
        counters.index_errors.set(self.ring.index_errors());
        // Told here: the indices are wider than those of a line.
        self.look.note_consumed(self.ring.consumed());
        None
    }

    #[inline]
    fn pending(&mut self) -> u32 {
        self.ring.pending()
    }

    /// If nothing waits, the kernel is made to look at the interface, where it does
    /// so on request.
    #[inline]
    fn poll_begins(&mut self, counters: &RxCounters) {
        let received = counters.packets.get();
        self.line.poll_begins(&mut self.polled, received);
        if self.drives == Drives::No || self.ring.pending() > 0 {
            return;
        }
        if self.drives == Drives::Unknown {
            if received == 0 {
                return;
            }
            self.drives = if self.socket.napi_id() == 0 { Drives::No } else { Drives::Yes };
        }
        if self.drives == Drives::Yes {
            self.socket.poll_kernel();
        }
    }

    fn in_ring(&self) -> u32 {
        self.ring.posted()
    }
}

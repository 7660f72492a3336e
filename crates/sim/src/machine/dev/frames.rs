//! Packets, and the frames that hold them.

use napier_core::gro::{GroPacket, Merged};
use napier_core::time::Instant;

use napier_scenario::SocketIx;

/// Reasons that [`DropReason`] knows.
pub(crate) const DROP_REASONS: usize = 6;

/// A packet: which frame holds it and where it goes.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct RxPacket {
    pub(crate) frame: u32,
    pub(crate) socket: Option<SocketIx>,
    pub(crate) flow: u32,
    pub(crate) hash: u32,
    pub(crate) segments: u32,
    pub(crate) mergeable: bool,
    pub(crate) syn: Option<SocketIx>,
    pub(crate) napi_id: u32,
    /// It acknowledges only: it goes to its connection and makes nothing ready.
    pub(crate) is_ack: bool,
    /// When it came to the ring.
    pub(crate) came: Instant,
}

impl GroPacket for RxPacket {
    type Memory = ();

    fn flow_hash(&self) -> u32 {
        self.hash
    }

    fn mergeable(&self) -> bool {
        self.mergeable
    }

    fn same_flow(&self, held: &Self) -> bool {
        self.flow == held.flow && self.socket == held.socket
    }

    fn merge(&mut self, next: Self, (): &()) -> Merged<Self> {
        self.segments += next.segments;
        Merged::Held
    }

    fn segments(&self) -> u32 {
        self.segments
    }
}

/// Where a frame is.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum FrameAt {
    Free,
    Ring,
    Stack,
    Socket,
}

/// All frames of the machine; grows on demand.
#[derive(Default)]
pub(crate) struct Frames {
    pub(crate) at: Vec<FrameAt>,
    pub(crate) free: Vec<u32>,
}

impl Frames {
    /// A frame out of the pool.
    pub(crate) fn take(&mut self) -> u32 {
        let frame = self.free.pop().unwrap_or_else(|| {
            self.at.push(FrameAt::Free);
            self.at.len() as u32 - 1
        });
        assert!(self.at[frame as usize] == FrameAt::Free, "a frame in the pool is free");
        self.at[frame as usize] = FrameAt::Ring;
        frame
    }

    /// Moves a frame on; false if it was not where it should have been.
    pub(crate) fn go(&mut self, frame: u32, from: FrameAt, to: FrameAt) -> bool {
        let at = &mut self.at[frame as usize];
        if *at != from {
            return false;
        }
        *at = to;
        if to == FrameAt::Free {
            self.free.push(frame);
        }
        true
    }

    /// Frames that are out.
    pub(crate) fn out(&self) -> usize {
        self.at.len() - self.free.len()
    }
}

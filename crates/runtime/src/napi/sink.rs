//! Where the frames of a queue go while a raw port is bound to it.

use napier_ring::{Frame, FramePool, PacketSender};

use super::Owned;
use crate::port::FrameAccount;

/// The NAPI owner's end: frames go here instead of to the name space, and come back from here.
pub(crate) struct RawSink {
    queue: PacketSender,
}

impl RawSink {
    /// Frames go to `queue`, which has room for all of their home.
    pub(crate) fn new(queue: PacketSender) -> Self {
        Self { queue }
    }

    #[inline]
    pub(crate) fn push(&mut self, frame: Frame, len: u32) {
        self.queue.push(frame, len);
    }

    /// The program sees what was pushed.
    #[inline]
    pub(crate) fn publish(&mut self) {
        self.queue.publish();
    }

    /// Frames that the program has given back go home. Done before each poll, which needs them, and whenever they are counted.
    #[inline]
    pub(crate) fn collect(&mut self, home: &mut FramePool) {
        self.queue.collect(home);
    }
}

impl Owned {
    /// Where the frames of the queue's home are.
    pub(crate) fn account(&mut self) -> FrameAccount {
        self.collect_raw();
        self.rx.account()
    }

    /// Frames that a raw port has given back go home.
    pub(crate) fn collect_raw(&mut self) {
        if let Some(raw) = &mut self.raw {
            raw.collect(self.rx.frames_home());
        }
    }
}

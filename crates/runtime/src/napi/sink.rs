//! Where the frames of a queue go while a raw port is bound to it.

use std::sync::Arc;

use napier_ring::{Frame, FrameTable, spsc};

/// The NAPI owner's end: frames go here instead of to the name space.
pub(crate) struct RawSink {
    received: spsc::Producer<Frame>,
    frames: Arc<FrameTable>,
}

impl RawSink {
    /// Frames of `frames` go to `received`, which has room for all of their home.
    pub(crate) fn new(received: spsc::Producer<Frame>, frames: Arc<FrameTable>) -> Self {
        Self { received, frames }
    }

    #[inline]
    pub(crate) fn push(&mut self, mut frame: Frame, len: u32) {
        self.frames.set_meta(&mut frame, u64::from(len));
        let staged = self.received.stage(frame);
        assert!(staged.is_ok(), "the queue of a raw port holds all frames of its home");
    }

    /// The program sees what was pushed.
    #[inline]
    pub(crate) fn publish(&mut self) {
        self.received.publish();
    }
}

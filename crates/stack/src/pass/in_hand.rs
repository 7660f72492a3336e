//! A received frame while it is looked at: it goes home even if that panics.
//!
//! A panic while a frame is handled is a mistake of ours, and must cost that frame only. The owner of the instance catches
//! it once around a poll (`napi/mod.rs`), counts it as `RxFaults` and goes on with the next frame. What was put aside
//! before stays where it is, and what the frame had been given to keeps it.

use napier_ring::{Frame, FrameTable};

/// A frame that its holder has not given away yet.
pub(crate) struct InHand<'f> {
    frame: Option<Frame>,
    frames: &'f FrameTable,
}

impl<'f> InHand<'f> {
    #[inline]
    pub(crate) fn new(frames: &'f FrameTable, frame: Frame) -> Self {
        Self { frame: Some(frame), frames }
    }

    #[inline]
    pub(crate) fn frame(&mut self) -> &mut Frame {
        self.frame.as_mut().expect("until it is given on")
    }

    /// To a queue that keeps it.
    #[inline]
    pub(crate) fn give_on(mut self) -> Frame {
        self.frame.take().expect("until it is given on")
    }
}

impl Drop for InHand<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(frame) = self.frame.take() {
            self.frames.give_back(frame);
        }
    }
}

/// Tests put a mistake into the handling of frames that say so.
#[cfg(any(test, feature = "fuzzing"))]
pub mod injected {
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Frames are looked at: what is measured in other tests is not.
    pub static ARMED: AtomicBool = AtomicBool::new(false);
    /// A frame with these bytes in it is handled with a panic.
    pub const MARK: &[u8] = b"napier: panic here";

    pub(crate) fn fault(bytes: &[u8]) {
        if !ARMED.load(Ordering::Relaxed) {
            return;
        }
        assert!(!bytes.windows(MARK.len()).any(|bytes| bytes == MARK), "injected: a frame that says so");
    }
}

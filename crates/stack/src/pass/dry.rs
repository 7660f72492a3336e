//! Dry runs: a datagram goes its way although none has come, so that what the next one needs is in the caches.
//!
//! Source: E. Dumazet, "Busy Polling: Past, Present, Future" (netdev 2.1), "dryrun code paths even if no packet has to be processed".

use napier_ring::Frame;

use crate::pass::{RxPass, View};

/// How far a dry run came.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum DryRun {
    /// The datagram has a socket.
    Reached,
    /// It is none, or has no socket.
    Nowhere,
}

impl View<'_> {
    /// Parses the `len` bytes of a frame, finds the socket and looks whether it has room. Nothing is counted, answered, recorded,
    /// held or delivered, and the frame comes back.
    ///
    /// # Panics
    /// If the frame is shorter than `len`.
    #[must_use = "the frame goes back to its pool"]
    pub fn dry_run(&self, ifindex: u32, frame: Frame, len: u32) -> (Frame, DryRun) {
        // Without an instance: none is recorded, and no socket of a group is claimed for one.
        let mut end = None;
        let Some(mut pass) = self.pass(0, ifindex) else { return (frame, DryRun::Nowhere) };
        pass.dry = Some(&mut end);
        pass.receive(frame, len);
        drop(pass);
        end.expect("every way out of a dry run leaves the frame")
    }
}

impl RxPass<'_> {
    /// The end of a dry run.
    #[cold]
    pub(super) fn end_dry(&mut self, frame: Frame, came: DryRun) {
        **self.dry.as_mut().expect("only a dry run ends so") = Some((frame, came));
    }
}

//! The end of a name space's engine: waits end, for nothing will come any more.
//!
//! The error is ESHUTDOWN, from blocked calls and from later ones. What a socket has received already can still be read.

use std::io;
use std::sync::atomic::Ordering;

use super::netns::Inner;
use super::queue::UdpInner;
use super::seams::{Dependant, errno};
use crate::event::Interest;

/// What a socket whose engine has stopped reports.
pub(super) const STOPPED: Interest =
    Interest::from_bits(Interest::IN.bits() | Interest::ERR.bits() | Interest::HUP.bits());

/// The error of calls after the end.
#[cold]
pub(super) fn stopped() -> io::Error {
    errno(libc::ESHUTDOWN)
}

impl Inner {
    /// Whether the engine has stopped.
    #[inline]
    pub(super) fn is_stopped(&self) -> bool {
        // Acquire: pairs with the Release in `engine_stops`.
        self.stopped.load(Ordering::Acquire)
    }

    /// # Errors
    /// ESHUTDOWN if the engine has stopped. With the writers' lock held the answer stays true until it is left.
    pub(super) fn check_running(&self) -> io::Result<()> {
        if self.is_stopped() { Err(stopped()) } else { Ok(()) }
    }
}

impl Dependant for Inner {
    fn engine_stops(&self) {
        let _writer = self.lock();
        // Release: pairs with the Acquire in `is_stopped`. Under the lock: no socket is bound after this.
        self.stopped.store(true, Ordering::Release);
    }

    fn end_waits(&self) {
        self.ageing.stop();
        let snapshot = self.snapshot.load_full();
        snapshot.demux.each(|socket| socket.engine_stopped());
        snapshot.listeners.each(|listener| listener.engine_stopped());
        if let Some(tcp) = self.tcp.get() {
            tcp.engine_stopped(self);
        }
    }
}

impl UdpInner {
    fn engine_stopped(&self) {
        // Release: pairs with the Acquire in `is_stopped`.
        self.stopped.store(true, Ordering::Release);
        self.source.notify(self.napi_id.load(Ordering::Relaxed), STOPPED);
        self.parker.wake_all();
        self.send_parker.wake_all();
    }

    pub(super) fn is_stopped(&self) -> bool {
        // Acquire: pairs with the Release in `engine_stopped`.
        self.stopped.load(Ordering::Acquire)
    }
}

//! The end of the engine, for TCP: connections end with ESHUTDOWN, and their timer's thread ends.

use std::sync::atomic::Ordering;

use super::super::netns::Inner;
use super::super::stop::STOPPED;
use super::Tcp;
use super::conn::Note;
use super::listener::ListenerInner;
use crate::event::Watched as _;

impl Tcp {
    /// Ends every connection, without a word to its peer, and stops the timer's thread.
    pub(crate) fn engine_stopped(&self, ns: &Inner) {
        for conn in self.flows.close() {
            conn.leave(ns, Note::EngineStopped);
        }
        self.wheel.stop();
    }
}

impl ListenerInner {
    pub(crate) fn engine_stopped(&self) {
        // Release: pairs with the Acquire in `is_stopped`.
        self.stopped.store(true, Ordering::Release);
        self.source.notify(self.napi_id(), STOPPED);
        self.parker.wake_all();
    }

    pub(super) fn is_stopped(&self) -> bool {
        // Acquire: pairs with the Release in `engine_stopped`.
        self.stopped.load(Ordering::Acquire)
    }
}

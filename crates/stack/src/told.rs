//! Errors of UDP sockets that hosts and routers have told (`sk_err` in `net/ipv4/udp.c`): the next call has it, and a waiting
//! one ends with it.

use std::io;
use std::sync::atomic::Ordering;

use napier_core::icmp::{Told, is_for_datagrams};

use super::queue::UdpInner;
use super::seams::errno;
use super::slow::errors;
use crate::event::Interest;

impl UdpInner {
    /// A datagram of ours did not get where it was to go.
    pub(super) fn told(&self, told: Told) {
        let connected = self.ends.load().place.peer.is_some();
        if !is_for_datagrams(told, connected, self.egress.recverr.load(Ordering::Relaxed)) {
            return;
        }
        // Release: pairs with the Acquire in `is_told`; the sleepers below look again.
        self.told.store(errors::number(told.error), Ordering::Release);
        self.source.notify(self.napi_id.load(Ordering::Relaxed), Interest::ERR);
        self.parker.wake_all();
        self.send_parker.wake_all();
    }

    #[inline]
    pub(super) fn is_told(&self) -> bool {
        self.told.load(Ordering::Acquire) != 0
    }

    /// # Errors
    /// What was told, once.
    #[inline]
    pub(super) fn check_told(&self) -> io::Result<()> {
        if self.is_told() { self.take_told().map_or(Ok(()), Err) } else { Ok(()) }
    }

    /// What was told, if anything was: it is pending no more.
    #[cold]
    pub(super) fn take_told(&self) -> Option<io::Error> {
        // Relaxed: of two calls one has it.
        Some(self.told.swap(0, Ordering::Relaxed)).filter(|code| *code != 0).map(errno)
    }
}

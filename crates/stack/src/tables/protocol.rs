//! What the tables know of protocols: that they are there, hear of errors, and end with the engine.
//!
//! When the engine has stopped, waits end, for nothing will come any more. The error is ESHUTDOWN, from blocked calls and from
//! later ones. What a socket has received already can still be read.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use super::writer::Writing;
use super::{Snapshot, Tables};
use crate::errno::stopped;
use crate::host::Dependant;
use crate::wire::quote::{About, Quoted};

/// A protocol of a name space. What it receives takes a way of its own (`pass`); this is for what is rare.
pub(crate) trait Protocol: Send + Sync {
    /// Its number in the IP header.
    fn number(&self) -> u8;
    /// Takes an ICMP error about a packet of this protocol. False: no socket of ours has sent it.
    fn hear(&self, snapshot: &Snapshot, about: About, quoted: &Quoted) -> bool;
    /// The engine has stopped: ends all waits of the protocol's sockets. No socket is bound after this.
    fn engine_stopped(&self);
}

impl Tables {
    /// Whether the engine has stopped.
    #[inline]
    pub(crate) fn is_stopped(&self) -> bool {
        // Acquire: pairs with the Release in `engine_stops`.
        self.stopped.load(Ordering::Acquire)
    }

    /// # Errors
    /// ESHUTDOWN if the engine has stopped. With the writers' lock held the answer stays true until it is left.
    pub(crate) fn check_running(&self) -> io::Result<()> {
        if self.is_stopped() { Err(stopped()) } else { Ok(()) }
    }

    /// A protocol begins. It ends when it is dropped.
    pub(crate) fn add_protocol(&self, _writer: &Writing<'_>, protocol: Weak<dyn Protocol>) {
        let before = self.protocols.load();
        let there = before.iter().filter(|other| other.strong_count() > 0).cloned();
        self.protocols.store(Arc::new(there.chain([protocol]).collect()));
    }

    /// An ICMP error about a packet of ours. False: nothing of ours has sent it.
    pub(crate) fn hear(&self, snapshot: &Snapshot, about: About, quoted: &Quoted) -> bool {
        let protocols = self.protocols.load();
        let mut of_number = protocols.iter().filter_map(Weak::upgrade).filter(|p| p.number() == quoted.protocol);
        of_number.any(|protocol| protocol.hear(snapshot, about, quoted))
    }
}

impl Dependant for Tables {
    fn engine_stops(&self) {
        let _writer = self.lock();
        // Release: pairs with the Acquire in `is_stopped`. Under the lock: no socket is bound after this.
        self.stopped.store(true, Ordering::Release);
    }

    fn end_waits(&self) {
        self.ageing.stop();
        self.protocols.load().iter().filter_map(Weak::upgrade).for_each(|protocol| protocol.engine_stopped());
    }
}

//! Kicks that wait until the calling thread has let go of what others may need.
//!
//! To tell a peer of packets is a system call. A thread that owns a connection makes it when the connection is free
//! again, once for all that it has sent. The peer of a link sees the packets before, if it polls; for any other they lie
//! in the ring until then.

use std::sync::Arc;

use super::TxPath;
use super::per_thread::PerThread;
use crate::port::Bell;
use napier_stack::deferred::{self, Work};

/// What is to be done then.
enum Kick {
    /// Publish what lies in the queue's ring, and kick the peer.
    Flush(Arc<TxPath>),
    Ring(Bell),
}

impl Kick {
    fn is_flush_of(&self, path: &TxPath) -> bool {
        matches!(self, Self::Flush(of) if std::ptr::eq(&**of, path))
    }

    fn carry_out(self) {
        match self {
            Self::Flush(path) => path.kick(),
            Self::Ring(bell) => bell.ring(),
        }
    }
}

/// The kicks that a thread owes, of each queue and each peer once. A drop settles them.
pub(super) struct DeferredKicks(Vec<Kick>);

impl DeferredKicks {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    /// `bell` is to be rung, together with one for the same peer.
    fn ring_later(&mut self, bell: Bell) {
        let mut bell = Some(bell);
        for before in &mut self.0 {
            if let Kick::Ring(before) = before {
                bell = bell.take().and_then(|bell| before.merge(bell).err());
            }
        }
        self.0.extend(bell.map(Kick::Ring));
    }

    /// What lies in the ring of `path` is to be published.
    fn flush_later(&mut self, path: &TxPath) {
        if !self.0.iter().any(|other| other.is_flush_of(path)) {
            self.0.push(Kick::Flush(path.me.upgrade().expect("who sends keeps the device")));
        }
    }
}

impl Drop for DeferredKicks {
    fn drop(&mut self) {
        self.0.drain(..).for_each(Kick::carry_out);
    }
}

/// Does all that the calling thread has deferred.
fn settle() {
    // One at a time: a kick may defer another. None also where the thread ends: its kicks went with its list.
    while let Some(Some(kick)) = PerThread::with(|mine| mine.kicks.borrow_mut().0.pop()) {
        kick.carry_out();
    }
}

/// Interrupts a peer, now or when the thread may. The thread holds no lock of the transmit path.
#[inline]
pub(super) fn ring_or_defer(bell: Bell) {
    if deferred::held(Work::Kicks) == 0 { bell.ring() } else { defer_ring(bell) }
}

fn defer_ring(bell: Bell) {
    let mut bell = Some(bell);
    PerThread::with(|mine| {
        bell.take().into_iter().for_each(|bell| mine.kicks.borrow_mut().ring_later(bell));
        deferred::owe(Work::Kicks, settle);
    });
    // The thread ends, and a socket among its last belongings is closed.
    bell.into_iter().for_each(Bell::ring);
}

/// True if the calling thread may not kick now, and will publish what lies in the ring of `path` when it may.
#[inline]
pub(super) fn deferred_flush(path: &TxPath) -> bool {
    deferred::held(Work::Kicks) > 0 && defer_flush(path)
}

/// False if that cannot be: the thread ends, and a socket among its last belongings is closed.
fn defer_flush(path: &TxPath) -> bool {
    let deferred = PerThread::with(|mine| {
        mine.kicks.borrow_mut().flush_later(path);
        deferred::owe(Work::Kicks, settle);
    });
    deferred.is_some()
}

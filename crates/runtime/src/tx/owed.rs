//! Kicks that wait until the calling thread has let go of what others may need.
//!
//! To tell a peer of packets is a system call. A thread that owns a connection makes it when the connection is free
//! again, once for all that it has sent. The peer of a link sees the packets before, if it polls; for any other they lie
//! in the ring until then.

use std::cell::RefCell;
use std::sync::Arc;

use super::{TxPath, Wire};
use crate::port::Bell;
use napier_stack::put_off::{self, Work};

/// What is to be done then.
enum Owed {
    /// Publish what lies in the queue's ring, and kick the peer.
    Flush(Arc<TxPath>),
    Ring(Bell),
}

impl Owed {
    fn is_flush_of(&self, path: &TxPath) -> bool {
        matches!(self, Self::Flush(of) if std::ptr::eq(&**of, path))
    }
}

thread_local! {
    /// What it owes, of each queue and each peer once.
    static OWED: RefCell<Vec<Owed>> = const { RefCell::new(Vec::new()) };
}

fn kick_all() {
    // None also where the thread ends and its list has gone before: nothing was put there then.
    while let Ok(Some(owed)) = OWED.try_with(|owed| owed.borrow_mut().pop()) {
        match owed {
            Owed::Flush(path) => path.kick(),
            Owed::Ring(bell) => bell.ring(),
        }
    }
}

/// Interrupts a peer, now or when the thread may. The thread holds no lock of the transmit path.
#[inline]
pub(super) fn ring_or_owe(bell: Bell) {
    if put_off::held(Work::Kicks) == 0 { bell.ring() } else { owe(bell) }
}

fn owe(bell: Bell) {
    let mut bell = Some(bell);
    let _ = OWED.try_with(|owed| {
        let mut owed = owed.borrow_mut();
        for before in &mut *owed {
            if let Owed::Ring(before) = before {
                bell = bell.take().and_then(|bell| before.merge(bell).err());
            }
        }
        owed.extend(bell.take().map(Owed::Ring));
        put_off::owe(Work::Kicks, kick_all);
    });
    // The thread ends, and a socket among its last belongings is closed.
    bell.into_iter().for_each(Bell::ring);
}

impl TxPath {
    /// Publishes what was built, and tells the peer if it wants that: now, or when the thread may.
    #[inline]
    pub(crate) fn flush_or_owe(&self, wire: &mut Wire) {
        // A bell is kept until the lock is free, and longer if the thread may not ring then.
        if wire.queue.leaves_bell() || put_off::held(Work::Kicks) == 0 || !self.owe_flush() {
            wire.queue.flush();
        }
    }

    /// False if that cannot be: the thread ends, and a socket among its last belongings is closed.
    fn owe_flush(&self) -> bool {
        OWED.try_with(|owed| {
            let mut owed = owed.borrow_mut();
            if !owed.iter().any(|other| other.is_flush_of(self)) {
                owed.push(Owed::Flush(self.me.upgrade().expect("whoever sends keeps the device")));
            }
            put_off::owe(Work::Kicks, kick_all);
        })
        .is_ok()
    }
}

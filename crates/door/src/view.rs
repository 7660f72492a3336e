//! What is shown of the sockets of programs (`napier engine ss`).

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

/// A socket of a program.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SocketView {
    /// The program that it was started with.
    pub program: String,
    /// The process that made it or was seen with it last; 0 if it is not to be seen from the engine.
    pub pid: u32,
    /// By which door its bytes go: `slow`, through the pair.
    pub door: String,
    /// `fresh`, `bound`, `listening`, `connecting`, `connected`.
    pub state: String,
    /// Its own address, if it has one.
    pub local: Option<SocketAddr>,
    /// The other end's, if there is one.
    pub peer: Option<SocketAddr>,
    /// Connections that wait to be accepted, of one that listens.
    pub waiting: usize,
}

/// What calls came to, by programs and all together.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DoorCounts {
    /// Calls that were held.
    pub held: u64,
    /// Sockets that were left to the kernel, or given back to it.
    pub left_to_kernel: u64,
    /// Connections that were accepted, and that were opened.
    pub accepted: u64,
    /// See `accepted`.
    pub connected: u64,
    /// KeptOptions that were refused.
    pub options_refused: u64,
    /// Answers that a signal, or the end of the thread, kept from the program.
    pub unheard: u64,
    /// Calls that were refused because of a limit of this crate.
    pub over_limit: u64,
}

/// What a program's thread shows.
#[derive(Default)]
pub(crate) struct ShownProgram {
    parts: Mutex<ShownParts>,
}

#[derive(Default)]
struct ShownParts {
    sockets: HashMap<u64, SocketView>,
    counts: DoorCounts,
}

impl ShownProgram {
    fn parts(&self) -> MutexGuard<'_, ShownParts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn put(&self, token: u64, view: SocketView) {
        self.parts().sockets.insert(token, view);
    }

    pub(crate) fn remove(&self, token: u64) {
        self.parts().sockets.remove(&token);
    }

    pub(crate) fn count(&self, counts: &DoorCounts) {
        self.parts().counts.clone_from(counts);
    }

    pub(crate) fn all(self: &Arc<Self>) -> (Vec<SocketView>, DoorCounts) {
        let parts = self.parts();
        (parts.sockets.values().cloned().collect(), parts.counts.clone())
    }
}

impl DoorCounts {
    /// Adds those of another program.
    pub(crate) fn add(&mut self, other: &Self) {
        self.held += other.held;
        self.left_to_kernel += other.left_to_kernel;
        self.accepted += other.accepted;
        self.connected += other.connected;
        self.options_refused += other.options_refused;
        self.unheard += other.unheard;
        self.over_limit += other.over_limit;
    }
}

//! A device, as the control thread sees it.

use std::sync::Arc;
use std::time::Instant;

use napier_core::memif::RegionLayout;

use super::MemifConfig;
use super::down::Down;
use super::line::{Kick, RemoteLine};
use super::socket::Listening;
use crate::netdev::Device;
use crate::port::{RxCounters, TxCounters};

/// Where a server listens.
#[derive(Clone)]
pub(super) struct Listener {
    pub(super) token: u64,
    pub(super) socket: Arc<Listening>,
}

/// What the control thread keeps of a device's queues.
pub(super) struct PortParts {
    pub(super) lines: Vec<Arc<RemoteLine>>,
    pub(super) counters: Vec<(Arc<RxCounters>, Arc<TxCounters>)>,
}

/// A device and what it waits for.
pub(super) struct Port {
    pub(super) config: MemifConfig,
    pub(super) layout: RegionLayout,
    pub(super) device: Arc<Device>,
    pub(super) parts: PortParts,
    /// At the server: where it listens.
    pub(super) listener: Option<Listener>,
    /// The connection that has the interface, from INIT on.
    pub(super) connection: Option<u64>,
    /// While packets may flow.
    pub(super) attached: Option<Attached>,
    /// At the client, while there is no connection: when to try.
    pub(super) try_at: Option<Instant>,
    /// Why a client was refused last, as its user was told.
    pub(super) refused: Option<String>,
}

/// What is watched while packets may flow.
pub(super) struct Attached {
    /// The peer's interrupts.
    pub(super) kicks: Vec<Arc<Kick>>,
    /// Impossible indices of the peers before.
    pub(super) index_errors: u64,
}

impl Port {
    /// A device without peer.
    pub(super) fn new(
        config: MemifConfig,
        layout: RegionLayout,
        device: Arc<Device>,
        parts: PortParts,
        listener: Option<Listener>,
    ) -> Self {
        let try_at = listener.is_none().then(Instant::now);
        Self { config, layout, device, parts, listener, connection: None, attached: None, try_at, refused: None }
    }

    /// Whether this is one of a listener's interfaces.
    pub(super) fn listens_at(&self, listener: u64) -> bool {
        self.listener.as_ref().is_some_and(|own| own.token == listener)
    }

    /// Times that a peer's index was impossible.
    pub(super) fn index_errors(&self) -> u64 {
        self.parts.counters.iter().map(|(rx, tx)| rx.index_errors.get() + tx.index_errors.get()).sum()
    }

    /// What the peer did to the rings that no honest one does.
    pub(super) fn broken(&self) -> Option<Down> {
        let attached = self.attached.as_ref()?;
        if attached.kicks.iter().any(|kick| kick.is_refused()) {
            return Some(Down::Waited);
        }
        (self.index_errors() > attached.index_errors).then_some(Down::Index)
    }
}

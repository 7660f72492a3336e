//! A device, as the control thread sees it.

use std::sync::Arc;

use napier_core::memif::RegionLayout;
use napier_core::memif::times::Tries;
use napier_core::time::Span;

use super::MemifConfig;
use super::down::Down;
use super::line::{Kick, MemifLine};
use super::socket::Listening;
use crate::port::{AddedDevice, RxCounters, TxCounters};
use napier_sys::clock::Clock;

/// Where a server listens.
#[derive(Clone)]
pub(super) struct Listener {
    pub(super) token: u64,
    pub(super) socket: Arc<Listening>,
}

/// What the control thread keeps of a device's queues.
pub(super) struct PortParts {
    pub(super) lines: Vec<Arc<MemifLine>>,
    pub(super) counters: Vec<(Arc<RxCounters>, Arc<TxCounters>)>,
}

/// A device and what it waits for.
pub(super) struct Port {
    pub(super) config: MemifConfig,
    pub(super) layout: RegionLayout,
    pub(super) device: Arc<dyn AddedDevice>,
    pub(super) parts: PortParts,
    /// At the server: where it listens.
    pub(super) listener: Option<Listener>,
    /// The connection that has the interface, from INIT on.
    pub(super) connection: Option<u64>,
    /// While packets may flow.
    pub(super) attached: Option<Attached>,
    /// At the client: when to connect.
    pub(super) tries: Option<Tries>,
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
        device: Arc<dyn AddedDevice>,
        parts: PortParts,
        listener: Option<Listener>,
    ) -> Self {
        let retry = Span::from_ns(u64::try_from(config.retry.as_nanos()).unwrap_or(u64::MAX));
        let tries = listener.is_none().then(|| Tries::new(Clock.now(), retry));
        Self { config, layout, device, parts, listener, connection: None, attached: None, tries, refused: None }
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

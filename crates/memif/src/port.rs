//! An interface, as the thread that drives the channel sees it.

use std::sync::Arc;

use napier_core::memif::RegionLayout;
use napier_core::memif::times::Tries;
use napier_core::time::Span;

use crate::config::InterfaceConfig;
use crate::disconnect::Disconnect;
use crate::handler::PeerHandler;
use crate::kick::Kick;
use crate::socket::Listening;
use napier_sys::clock::Clock;

/// Where a server listens.
#[derive(Clone)]
pub(crate) struct Listener {
    pub(crate) token: u64,
    pub(crate) socket: Arc<Listening>,
}

/// An interface and what it waits for.
pub(crate) struct Port {
    /// That no other interface of the channel has.
    pub(crate) number: u64,
    /// What the peer is told that it is called.
    pub(crate) name: String,
    pub(crate) config: InterfaceConfig,
    pub(crate) layout: RegionLayout,
    pub(crate) handler: Arc<dyn PeerHandler>,
    /// At the server: where it listens.
    pub(crate) listener: Option<Listener>,
    /// The connection that has the interface, from INIT on.
    pub(crate) connection: Option<u64>,
    /// While packets may flow.
    pub(crate) attached: Option<Attached>,
    /// At the client: when to connect.
    pub(crate) tries: Option<Tries>,
    /// Why a client was refused last, as its user was told.
    pub(crate) refused: Option<String>,
}

/// What is watched while packets may flow.
pub(crate) struct Attached {
    /// The peer's interrupts.
    pub(crate) kicks: Vec<Arc<Kick>>,
    /// Impossible indices of the peers before.
    pub(crate) index_errors: u64,
}

impl Port {
    /// An interface without peer.
    pub(crate) fn new(
        name: &str,
        number: u64,
        config: InterfaceConfig,
        layout: RegionLayout,
        handler: Arc<dyn PeerHandler>,
        listener: Option<Listener>,
    ) -> Self {
        let retry = Span::from_ns(u64::try_from(config.retry.as_nanos()).unwrap_or(u64::MAX));
        let tries = listener.is_none().then(|| Tries::new(Clock.now(), retry));
        let (name, connection, attached, refused) = (name.to_owned(), None, None, None);
        Self { number, name, config, layout, handler, listener, connection, attached, tries, refused }
    }

    /// Whether this is one of a listener's interfaces.
    pub(crate) fn listens_at(&self, listener: u64) -> bool {
        self.listener.as_ref().is_some_and(|own| own.token == listener)
    }

    /// What the peer did to the rings that no honest one does.
    pub(crate) fn broken(&self) -> Option<Disconnect> {
        let attached = self.attached.as_ref()?;
        if attached.kicks.iter().any(|kick| kick.is_refused()) {
            return Some(Disconnect::Waited);
        }
        (self.handler.index_errors() > attached.index_errors).then_some(Disconnect::Index)
    }
}

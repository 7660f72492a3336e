//! What the receive path reads: the devices, and beside them the sockets of a protocol, so that a poll has both in one load.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};

use super::Devices;
use super::writer::Writing;

/// Devices and sockets of one moment.
#[derive(Clone)]
pub(crate) struct Moment<S> {
    pub(crate) devices: Devices,
    pub(crate) sockets: S,
}

/// The moment that is now.
pub(crate) struct CurrentMoment<S>(ArcSwap<Moment<S>>);

impl<S: Clone> CurrentMoment<S> {
    /// These sockets, and no device.
    pub(crate) fn new(sockets: S) -> Self {
        Self(ArcSwap::from_pointee(Moment { devices: Devices::new(Arc::new([])), sockets }))
    }

    #[inline]
    pub(crate) fn load(&self) -> Guard<Arc<Moment<S>>> {
        self.0.load()
    }

    /// Swaps in changed sockets. The guard proves that no other writer copies the same ones.
    pub(crate) fn edit(&self, _writer: &Writing<'_>, change: impl FnOnce(&mut S)) {
        let mut moment = Moment::clone(&self.0.load());
        change(&mut moment.sockets);
        self.0.store(Arc::new(moment));
    }

    /// The devices have changed.
    pub(crate) fn set_devices(&self, _writer: &Writing<'_>, devices: Devices) {
        let sockets = self.0.load().sockets.clone();
        self.0.store(Arc::new(Moment { devices, sockets }));
    }
}

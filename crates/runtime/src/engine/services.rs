//! What devices of a kind share in an engine: one service of each type.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

use crate::port::Service;

/// The services of an engine.
#[derive(Default)]
pub(super) struct Services(Mutex<Vec<Arc<dyn Service>>>);

impl Services {
    /// The service of this type; made when it is asked for first.
    pub(super) fn get<S: Service + Default>(&self) -> Arc<S> {
        let mut services = self.0.lock().expect("no panic while held");
        let known = services.iter().find_map(|service| {
            let any: Arc<dyn Any + Send + Sync> = service.clone();
            any.downcast().ok()
        });
        known.unwrap_or_else(|| {
            let new = Arc::<S>::default();
            services.push(new.clone());
            new
        })
    }

    /// Ends the services; the engine is going away.
    pub(super) fn stop(&self) {
        let services = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        services.iter().for_each(|service| service.stop());
    }
}

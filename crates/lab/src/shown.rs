//! The engine that runs now, for who looks at it from beside.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use napier_core::metric::Sink;
use napier_runtime::engine::{Engine, WeakEngine};

/// A place where a program that starts engines says which one it runs: a comparison starts one for each run. All clones are
/// one place; it keeps no engine running.
#[derive(Clone, Default)]
pub struct Shown(Arc<Mutex<Option<WeakEngine>>>);

impl Shown {
    /// This one runs now.
    pub(crate) fn set(&self, engine: &Engine) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(engine.downgrade());
    }

    /// The figures of the engine that runs; none before the first one, and between two.
    pub fn metrics(&self, sink: &mut dyn Sink) {
        let engine = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(engine) = engine.and_then(|engine| engine.upgrade()) {
            engine.metrics(sink);
        }
    }
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shown").finish_non_exhaustive()
    }
}

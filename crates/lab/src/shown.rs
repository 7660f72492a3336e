//! The engine that runs now, for readers beside it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use napier_core::metric::Sink;
use napier_runtime::engine::{Engine, WeakEngine};

/// A place where a program that starts engines says which one it runs: a comparison starts one for each run. All clones are
/// one place; it keeps no engine running.
#[derive(Clone, Default)]
pub struct Shown(Arc<Mutex<Option<WeakEngine>>>);

/// An engine is shown until this goes, which waits for readers of it: so that a reader never has the last handle to it,
/// and stops it.
#[must_use]
pub(crate) struct Showing<'a>(&'a Shown);

impl Drop for Showing<'_> {
    fn drop(&mut self) {
        *self.0.lock() = None;
    }
}

impl Shown {
    /// A reader has the lock meanwhile.
    fn lock(&self) -> MutexGuard<'_, Option<WeakEngine>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This one runs now.
    pub(crate) fn set(&self, engine: &Engine) -> Showing<'_> {
        *self.lock() = Some(engine.downgrade());
        Showing(self)
    }

    /// The figures of the engine that runs; none before the first one, and between two.
    pub fn metrics(&self, sink: &mut dyn Sink) {
        self.look(|engine| engine.metrics(sink));
    }

    /// The CPUs of its groups.
    #[must_use]
    pub fn group_cpus(&self) -> Vec<usize> {
        let mut cpus = Vec::new();
        self.look(|engine| cpus = engine.group_cpus());
        cpus
    }

    fn look(&self, at: impl FnOnce(&Engine)) {
        let shown = self.lock();
        if let Some(engine) = shown.as_ref().and_then(WeakEngine::upgrade) {
            at(&engine);
        }
    }
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shown").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use napier_core::metric::Metric;

    use super::*;

    #[test]
    fn an_engine_is_shown_until_nobody_looks_at_it() {
        let engine = Engine::builder().start().expect("it starts");
        let shown = Shown::default();
        let showing = shown.set(&engine);
        let (begins, begun) = channel();
        let looked = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                shown.metrics(&mut |_: &'static Metric, _: &[&str], _: u64| {
                    if begins.send(()).is_ok() && !looked.load(Ordering::Relaxed) {
                        std::thread::sleep(Duration::from_millis(100));
                        looked.store(true, Ordering::Relaxed);
                    }
                });
            });
            begun.recv().expect("there are figures");
            drop(showing);
            assert!(looked.load(Ordering::Relaxed), "it is still looked at");
            drop(engine);
        });
        shown.metrics(&mut |_: &'static Metric, _: &[&str], _: u64| panic!("none is shown"));
    }
}

//! Where snapshots come from.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use napier_linux::observe::{Polling, Polls};

use super::Clock;
use super::snapshot::Snapshot;

/// An engine, or the kernel.
pub(super) trait FigureSource: Send {
    /// What it is, for the first line.
    fn title(&self) -> String;

    /// What has been counted until now.
    ///
    /// # Errors
    /// [`Ended`] if it is there no more, or what was looked at cannot be read.
    fn look(&mut self, clock: &Clock) -> anyhow::Result<Snapshot>;

    /// What it traces.
    fn traced(&self) -> Traced {
        Traced::default()
    }
}

/// What counts events of the kernel while a reader looks. A process may end while another thread looks, so all clones are one,
/// and any of them undoes it.
#[derive(Clone, Default)]
pub(super) struct Traced(Arc<Mutex<Vec<Option<Polling>>>>);

impl Traced {
    pub(super) fn new(polling: Vec<Option<Polling>>) -> Self {
        Self(Arc::new(Mutex::new(polling)))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Option<Polling>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Polls of the interface at this place, since they are counted.
    pub(super) fn seen(&self, place: usize) -> Option<Polls> {
        let mut all = self.lock();
        let polling = all.get_mut(place)?.as_mut()?;
        polling.look().ok()?;
        Some(polling.so_far().clone())
    }

    /// The kernel is left as it was; nothing is counted any more.
    pub(super) fn undo(&self) {
        self.lock().clear();
    }
}

/// What was looked at has ended.
#[derive(Debug)]
pub(super) struct Ended(pub(super) String);

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} has ended", self.0)
    }
}

impl std::error::Error for Ended {}

//! Whether one of a bell's sleepers sleeps elsewhere.

use crate::sync::{AtomicBool, Ordering};

/// Of the threads that sleep behind one [`Doorbell`](crate::Doorbell), one may sleep at another place: in place of one that
/// is called there. The thread that has taken the announcement off the bell calls it there if it [is there](Self::is_there), and one of the
/// others where they sleep if not.
///
/// The bell orders it: a sleeper [begins](Self::begin) before it arms the bell, and after it [ends](Self::end) it arms the bell for
/// those that stay behind and looks for their work.
#[derive(Default)]
pub struct StandIn {
    there: AtomicBool,
}

impl StandIn {
    /// None is elsewhere.
    #[must_use]
    pub fn new() -> Self {
        Self { there: AtomicBool::new(false) }
    }

    /// The caller is going to sleep elsewhere; false: another one does already.
    #[must_use = "false means that the caller sleeps with the others"]
    pub fn begin(&self) -> bool {
        // Relaxed, as all here: the fence of `Doorbell::arm` shows it to who rings.
        !self.there.swap(true, Ordering::Relaxed)
    }

    /// The caller of [`begin`](Self::begin) does not sleep there any more.
    pub fn end(&self) {
        self.there.store(false, Ordering::Relaxed);
    }

    /// Whether a sleeper is elsewhere, asked by who has just taken the announcement off the bell, or silenced it.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.there.load(Ordering::Relaxed)
    }
}

//! An event that the program itself triggers, to interrupt or direct a wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::event::interest::Interest;
use crate::event::source::Source;
use crate::event::source::sealed::{Watchable, Watched};
use crate::host::Host;

/// A flag that any thread can raise and any context can watch for [`Interest::IN`]; the counterpart of `eventfd(2)`.
///
/// Clones name the same flag. It stays raised until [`clear`](Self::clear) is called. Being no socket, it never
/// attaches a context to a NAPI instance.
///
/// ```
/// use napier_runtime::event::UserEvent;
///
/// let stop = UserEvent::new();
/// stop.clone().trigger();
/// assert!(stop.is_triggered());
/// assert!(stop.clear() && !stop.is_triggered());
/// ```
#[derive(Clone, Default)]
pub struct UserEvent {
    owner: Arc<Handles>,
}

/// Counts the handles; contexts hold the flag alone.
#[derive(Default)]
struct Handles {
    flag: Arc<Flag>,
}

#[derive(Default)]
struct Flag {
    raised: AtomicBool,
    source: Source,
}

impl UserEvent {
    /// A flag that is not raised.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Raises the flag, and tells the contexts that watch it: each call is an edge for edge-triggered members.
    ///
    /// What the calling thread wrote before is visible to the thread that sees the flag.
    pub fn trigger(&self) {
        // Release: pairs with Acquire in `ready` and `clear`.
        self.owner.flag.raised.store(true, Ordering::Release);
        self.owner.flag.source.notify(0, Interest::IN);
    }

    /// Lowers the flag; true if it was raised.
    pub fn clear(&self) -> bool {
        // Acquire: pairs with Release in `trigger`.
        self.owner.flag.raised.swap(false, Ordering::AcqRel)
    }

    /// Whether the flag is raised.
    #[must_use]
    pub fn is_triggered(&self) -> bool {
        // Acquire: pairs with Release in `trigger`.
        self.owner.flag.raised.load(Ordering::Acquire)
    }
}

impl Drop for Handles {
    fn drop(&mut self) {
        self.flag.source.close();
    }
}

impl Watchable for UserEvent {
    fn watched(&self) -> Arc<dyn Watched> {
        self.owner.flag.clone()
    }

    fn host(&self) -> Option<Arc<dyn Host>> {
        None
    }
}

impl Watched for Flag {
    fn source(&self) -> &Source {
        &self.source
    }

    fn ready(&self) -> Interest {
        // Acquire: pairs with Release in `trigger`.
        if self.raised.load(Ordering::Acquire) { Interest::IN } else { Interest::NONE }
    }

    fn napi_id(&self) -> u32 {
        0
    }
}

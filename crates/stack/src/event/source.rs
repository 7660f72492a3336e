//! The side of a socket that contexts watch: who is subscribed, and how news reaches them.

use std::sync::{Arc, Mutex, MutexGuard};

use arc_swap::ArcSwapOption;
use napier_ring::Demand;

use crate::event::interest::Interest;
use crate::event::state::ContextState;
use crate::event::table::Slotted;
use sealed::Watched;

/// What can be a member of an [`EventContext`](crate::event::EventContext): Napier's sockets and [`UserEvent`].
///
/// The trait is sealed: readiness has to be published by a protocol that this crate keeps.
///
/// [`UserEvent`]: crate::event::UserEvent
pub trait Pollable: sealed::Watchable {
    /// The conditions that hold now, as `poll(2)` of this one with a timeout of 0 tells them. It takes nothing from contexts.
    #[must_use]
    fn readiness(&self) -> Interest {
        self.watched().ready()
    }
}

impl<T: sealed::Watchable + ?Sized> Pollable for T {}

pub(super) mod sealed {
    use std::sync::Arc;

    use super::{Interest, Source};

    /// The shared part of a socket, as a context sees it.
    pub trait Watched: Send + Sync {
        /// Where contexts subscribe. Its owner calls [`Source::close`] when the last user handle is dropped: a
        /// context keeps the shared part alive until then.
        fn source(&self) -> &Source;

        /// The conditions that hold now. Called with the context's lock held: it takes no lock that is held around
        /// [`Source::notify`], and never calls back into a context.
        fn ready(&self) -> Interest;

        /// The id that `SO_INCOMING_NAPI_ID` would name (the recorded one, valid or not); 0 for what is no socket.
        fn napi_id(&self) -> u32;
    }

    /// A handle whose shared part can be watched.
    pub trait Watchable {
        /// The shared part.
        fn watched(&self) -> Arc<dyn Watched>;
    }
}

/// One member of one context, as a delivery sees it.
pub(super) struct Subscriber {
    pub(super) context: Arc<ContextState>,
    /// The member's place in the context.
    pub(super) slot: u32,
    /// What the member is watched for; only modes are left of it while a one-shot member is silent.
    interest: Demand,
}

/// The same, as its context sees it.
pub(super) struct Member {
    pub(super) watched: Arc<dyn Watched>,
    pub(super) subscriber: Arc<Subscriber>,
    pub(super) data: u64,
}

impl Member {
    /// Whether it is the one behind `subscriber`.
    pub(super) fn is(&self, subscriber: &Arc<Subscriber>) -> bool {
        Arc::ptr_eq(&self.subscriber, subscriber)
    }
}

impl Slotted for Member {
    fn slot(&self) -> u32 {
        self.subscriber.slot
    }

    fn interest(&self) -> Interest {
        self.subscriber.interest()
    }

    fn ready(&self) -> Interest {
        self.watched.ready()
    }

    fn data(&self) -> u64 {
        self.data
    }

    fn silence(&self) {
        self.subscriber.silence();
    }
}

/// The subscription point of a socket. Readers (deliveries) take no lock; writers (membership changes) take one.
pub struct Source {
    subscribers: ArcSwapOption<Vec<Arc<Subscriber>>>,
    /// 0 means that no context is subscribed: saves most sockets the look at the list.
    watched: Demand,
    /// Serialises the writers; true once the source is closed.
    closed: Mutex<bool>,
}

/// The source's owner has closed it.
pub(super) struct Closed;

impl Source {
    /// A source that no context watches.
    pub(crate) fn new() -> Self {
        Self { subscribers: ArcSwapOption::empty(), watched: Demand::new(0), closed: Mutex::new(false) }
    }

    /// Tells every context that watches this source that `ready` conditions have come to hold.
    ///
    /// Publish them first: [`Watched::ready`](sealed::Watched::ready) must be able to see them. `napi_id` is the id
    /// recorded in the socket after the delivery, as its `napi_id()` would say; contexts that busy poll attach to it
    /// (`fs/eventpoll.c` `ep_poll_callback`). No lock, no allocation, per context at most one futex call.
    #[inline]
    pub(crate) fn notify(&self, napi_id: u32, ready: Interest) {
        // Also for the subscribers' interest and the ready queues behind it.
        if self.watched.after_news() == 0 {
            return;
        }
        if let Some(subscribers) = self.subscribers.load().as_deref() {
            for subscriber in subscribers {
                subscriber.notify(napi_id, ready);
            }
        }
    }

    /// Ends all memberships and refuses new ones. For the socket's last handle; may be called again.
    pub(crate) fn close(&self) {
        let gone = {
            let mut closed = self.writer();
            *closed = true;
            self.watched.reduce(0);
            self.subscribers.swap(None)
        };
        // Not under our lock: a context takes its own lock first and ours second.
        for subscriber in gone.iter().flat_map(|list| list.iter()) {
            subscriber.context.forget(subscriber);
        }
    }

    /// Adds a subscriber. The caller looks at the readiness after this, not before.
    pub(super) fn subscribe(&self, subscriber: Arc<Subscriber>) -> Result<(), Closed> {
        let closed = self.writer();
        if *closed {
            return Err(Closed);
        }
        let mut list = self.subscribers.load().as_deref().cloned().unwrap_or_default();
        list.push(subscriber);
        self.subscribers.store(Some(Arc::new(list)));
        self.watched.change(1);
        Ok(())
    }

    /// Removes a subscriber if it is there. A delivery that runs meanwhile may still reach it.
    pub(super) fn unsubscribe(&self, subscriber: &Arc<Subscriber>) {
        let _writer = self.writer();
        let Some(list) = self.subscribers.load_full() else {
            return;
        };
        let rest: Vec<_> = list.iter().filter(|other| !Arc::ptr_eq(other, subscriber)).cloned().collect();
        self.watched.reduce(u32::from(!rest.is_empty()));
        self.subscribers.store((!rest.is_empty()).then(|| Arc::new(rest)));
    }

    /// The subscriber through which `context` watches this source.
    pub(super) fn subscriber_of(&self, context: &ContextState) -> Option<Arc<Subscriber>> {
        let list = self.subscribers.load();
        list.as_deref()?.iter().find(|subscriber| std::ptr::eq(&*subscriber.context, context)).cloned()
    }

    fn writer(&self) -> MutexGuard<'_, bool> {
        self.closed.lock().expect("no writer of a subscriber list panics")
    }
}

impl Default for Source {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.close();
    }
}

impl Subscriber {
    pub(super) fn new(context: Arc<ContextState>, slot: u32, interest: Interest) -> Self {
        Self { context, slot, interest: Demand::new((interest | Interest::ALWAYS).bits()) }
    }

    pub(super) fn interest(&self) -> Interest {
        Interest::from_bits(self.interest.get())
    }

    /// Watches for `interest` from now on. The caller looks at the readiness after this, not before.
    pub(super) fn set_interest(&self, interest: Interest) {
        // With a full fence, as `fs/eventpoll.c` `ep_modify` has it.
        self.interest.change((interest | Interest::ALWAYS).bits());
    }

    /// Silences a one-shot member that has made its report.
    pub(super) fn silence(&self) {
        let modes = self.interest() & Interest::MODES;
        self.interest.reduce(modes.bits());
    }

    /// The order is that of `fs/eventpoll.c` `ep_poll_callback`: attach, then filter, then queue, then wake.
    #[inline]
    fn notify(&self, napi_id: u32, ready: Interest) {
        self.context.attach(napi_id);
        if self.interest().without(Interest::MODES).intersects(ready) {
            self.context.offer(self.slot);
        }
    }
}

//! The side of a socket that contexts watch: who is subscribed, and how news reaches them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::task::{Context, Poll, Waker};

use arc_swap::ArcSwapOption;
use napier_ring::Demand;

use crate::event::interest::Interest;
use crate::event::state::ContextState;
use crate::event::table::Slotted;
use crate::event::tasks::Tasks;
use crate::host::{Host, Whom};
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

    /// What holds, once there is something to receive, the peer has finished, or an error is pending; else the task of `cx` is woken when that
    /// comes. For a program with an executor of its own: it needs no context, no descriptor and no thread.
    ///
    /// The engine's thread that delivers wakes the task itself; of many sockets only the one that has news is looked at. The waker is told
    /// once, then ask again. Each socket keeps one waker each way, of the task that asked last: for several tasks that read one socket
    /// `napier-tokio` has a list. What a waker does must be short, and must not run the task: a poll waits for it.
    ///
    /// Nothing polls while the task waits: for the modes in which a program polls (`napibusy`, `fullbusy`, `suspendX`) take an
    /// [`EventContext`](crate::event::EventContext).
    ///
    /// ```
    /// use std::future::poll_fn;
    /// use napier_runtime::event::{Pollable as _, UserEvent};
    /// # use std::{sync::Arc, task::{Context, Poll, Wake}, thread};
    /// # struct Unpark(thread::Thread);
    /// # impl Wake for Unpark {
    /// #     fn wake(self: Arc<Self>) { self.0.unpark() }
    /// # }
    /// # fn block_on<T>(task: impl Future<Output = T>) -> T {
    /// #     let (waker, mut task) = (Arc::new(Unpark(thread::current())).into(), std::pin::pin!(task));
    /// #     loop {
    /// #         if let Poll::Ready(value) = task.as_mut().poll(&mut Context::from_waker(&waker)) { return value; }
    /// #         thread::park();
    /// #     }
    /// # }
    ///
    /// let stop = UserEvent::new();
    /// let asks = stop.clone();
    /// let thread = thread::spawn(move || asks.trigger());
    /// block_on(poll_fn(|cx| stop.poll_readable(cx)));
    /// assert!(stop.clear());
    /// # thread.join().unwrap();
    /// ```
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<Interest> {
        poll_ready(&*self.watched(), &|| self.host(), Whom::Reader, cx.waker())
    }

    /// As [`poll_readable`](Self::poll_readable), once sending would not block, or an error is pending. Ask after a send has said `EAGAIN`.
    fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<Interest> {
        poll_ready(&*self.watched(), &|| self.host(), Whom::Writer, cx.waker())
    }
}

impl<T: sealed::Watchable + ?Sized> Pollable for T {}

pub(super) mod sealed {
    use std::sync::Arc;

    use super::{Host, Interest, Source};

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

        /// Whose polls have news of it; none for what is no socket.
        fn host(&self) -> Option<Arc<dyn Host>>;
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
    /// The contexts, until a task waits: then there is none here for good, and `tasks` has both.
    subscribers: ArcSwapOption<Vec<Arc<Subscriber>>>,
    /// 0 means that no context is subscribed, and that no task has ever waited: saves most sockets the look at the list.
    watched: Demand,
    /// Serialises the writers; true once the source is closed.
    closed: Mutex<bool>,
    tasks: OnceLock<WithTasks>,
}

/// What a source has that a task has waited for.
struct WithTasks {
    contexts: ArcSwapOption<Vec<Arc<Subscriber>>>,
    tasks: Arc<Tasks>,
    /// Deliveries come here: not before they look at the one place for both.
    is_reached: AtomicBool,
}

/// The source's owner has closed it.
pub(super) struct Closed;

impl Source {
    /// A source that no context watches.
    pub(crate) fn new() -> Self {
        Self {
            subscribers: ArcSwapOption::empty(),
            watched: Demand::new(0),
            closed: Mutex::new(false),
            tasks: OnceLock::new(),
        }
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
        } else {
            self.notify_tasks(napi_id, ready);
        }
    }

    /// As [`notify`](Self::notify), of a source that a task has waited for.
    #[cold]
    fn notify_tasks(&self, napi_id: u32, ready: Interest) {
        let Some(with) = self.tasks.get() else { return };
        for subscriber in with.contexts.load().iter().flat_map(|contexts| contexts.iter()) {
            subscriber.notify(napi_id, ready);
        }
        with.tasks.tell(ready);
    }

    /// Where tasks wait; none of a source that is closed.
    ///
    /// A task may come while another moves the list. It passes the lock by only once that is done (`is_reached`), so the empty old place and the
    /// demand are stored before its wish. Of its fence after the wish and a delivery's fence after the news one is first: if the task's, the delivery
    /// finds the old place empty, and the wish; if the delivery's, the task's look finds the news. `ring/src/loom_tests/ready.rs`
    /// (`a_second_task`) walks it, with a twin that passes by too early.
    fn tasks(&self, host: &dyn Fn() -> Option<Arc<dyn Host>>) -> Option<&Arc<Tasks>> {
        // Acquire: pairs with the Release below.
        if let Some(with) = self.tasks.get().filter(|with| with.is_reached.load(Ordering::Acquire)) {
            return Some(&with.tasks);
        }
        let closed = self.writer();
        if *closed {
            return None;
        }
        // A delivery finds the list in the one place or the other: it is there before it leaves here.
        let with = self.tasks.get_or_init(|| WithTasks {
            contexts: ArcSwapOption::new(self.subscribers.load_full()),
            tasks: Arc::new(Tasks::new(host())),
            is_reached: AtomicBool::new(false),
        });
        self.subscribers.store(None);
        self.watched.change(1);
        // Release: pairs with the Acquire above: a task that takes no lock is not one that a delivery passes by.
        with.is_reached.store(true, Ordering::Release);
        Some(&with.tasks)
    }

    /// The contexts. For writers.
    fn contexts(&self) -> &ArcSwapOption<Vec<Arc<Subscriber>>> {
        self.tasks.get().map_or(&self.subscribers, |with| &with.contexts)
    }

    /// Ends all memberships and refuses new ones. For the socket's last handle; may be called again.
    pub(crate) fn close(&self) {
        let gone = {
            let mut closed = self.writer();
            *closed = true;
            self.watched.reduce(0);
            self.contexts().swap(None)
        };
        if let Some(with) = self.tasks.get() {
            with.tasks.close();
        }
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
        let contexts = self.contexts();
        let mut list = contexts.load().as_deref().cloned().unwrap_or_default();
        list.push(subscriber);
        contexts.store(Some(Arc::new(list)));
        self.watched.change(1);
        Ok(())
    }

    /// Removes a subscriber if it is there. A delivery that runs meanwhile may still reach it.
    pub(super) fn unsubscribe(&self, subscriber: &Arc<Subscriber>) {
        let _writer = self.writer();
        let contexts = self.contexts();
        let Some(list) = contexts.load_full() else {
            return;
        };
        let rest: Vec<_> = list.iter().filter(|other| !Arc::ptr_eq(other, subscriber)).cloned().collect();
        self.watched.reduce(u32::from(!rest.is_empty() || self.tasks.get().is_some()));
        contexts.store((!rest.is_empty()).then(|| Arc::new(rest)));
    }

    /// The subscriber through which `context` watches this source.
    pub(super) fn subscriber_of(&self, context: &ContextState) -> Option<Arc<Subscriber>> {
        // The list may be about to move.
        let _writer = self.writer();
        let list = self.contexts().load();
        list.as_deref()?.iter().find(|subscriber| std::ptr::eq(&*subscriber.context, context)).cloned()
    }

    fn writer(&self) -> MutexGuard<'_, bool> {
        self.closed.lock().expect("no writer of a subscriber list panics")
    }
}

/// What holds, if it ends a wait this way; else the task of `waker` is told.
fn poll_ready(
    watched: &dyn Watched,
    host: &dyn Fn() -> Option<Arc<dyn Host>>,
    way: Whom,
    waker: &Waker,
) -> Poll<Interest> {
    let look = || Some(watched.ready()).filter(|ready| way.is_ended_by(*ready));
    if let Some(ready) = look() {
        return Poll::Ready(ready);
    }
    let Some(tasks) = watched.source().tasks(host) else { return Poll::Ready(watched.ready() | Interest::HUP) };
    tasks.about_to_wait(&|| look().is_some());
    tasks.wait(way, waker);
    let Some(ready) = look() else { return Poll::Pending };
    tasks.waits_no_more(way);
    Poll::Ready(ready)
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

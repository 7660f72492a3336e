//! The shared half of a socket that listens: who waits to be accepted, and how many may.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use napier_core::family::SocketFamily;
use napier_core::sockopt::SocketBusy;
use napier_ring::Inbox;

use crate::event::{Interest, STOPPED, Source, Watched};
use crate::options;
use crate::tables::Tables;
use crate::tables::demux::Demuxed;
use crate::tables::reuse::ReusePort;
use crate::tcp::by_age::{ByAge, Limited};
use crate::tcp::settings::ConnSettings;
use crate::wait::Nonblocking;
use crate::wait::park::{Parker, Sleeper, Whom};
use crate::wire::addr::End;

/// What a listener is made with.
#[derive(Copy, Clone, Debug)]
pub(super) struct Limits {
    /// Connections that may wait to be accepted; one more than this fits, as in the kernel (`sk_acceptq_is_full`).
    pub(super) backlog: usize,
    /// Handshakes that may be under way.
    pub(super) syns: usize,
    /// Of the connections; they inherit it.
    pub(super) settings: ConnSettings,
}

/// What the tables, the connections and the handle of one listener share.
pub(crate) struct ListenerInner<C> {
    pub(super) local: End,
    pub(super) family: SocketFamily,
    pub(super) reuse: ReusePort,
    pub(super) limits: Limits,
    /// The recorded NAPI id, valid or not.
    pub(super) napi_id: AtomicU32,
    /// Connections that no program has accepted, as they became established: softirqs leave them here and go on.
    ready: Inbox<Arc<C>>,
    /// The same, taken over by programs that accept, which alone wait for each other.
    queue: Mutex<VecDeque<Arc<C>>>,
    /// How many there are in both; less for the moment between a push and its count.
    waiting: AtomicIsize,
    pub(super) embryos: ByAge<C>,
    closed: AtomicBool,
    /// The engine has stopped.
    pub(super) stopped: AtomicBool,
    pub(super) nonblocking: Nonblocking,
    /// The busy-poll settings, all but the id; connections inherit them.
    pub(super) busy: AtomicU64,
    pub(super) parker: Parker,
    pub(super) source: Source,
}

impl<C: Limited> ListenerInner<C> {
    pub(super) fn new(
        (local, family): (End, SocketFamily),
        reuse: ReusePort,
        limits: Limits,
        busy: &SocketBusy,
    ) -> Self {
        Self {
            local,
            family,
            reuse,
            limits,
            napi_id: AtomicU32::new(0),
            ready: Inbox::new(),
            queue: Mutex::new(VecDeque::new()),
            waiting: AtomicIsize::new(0),
            embryos: ByAge::default(),
            closed: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            nonblocking: Nonblocking::default(),
            busy: AtomicU64::new(options::pack(busy)),
            parker: Parker::new(),
            source: Source::new(),
        }
    }

    /// Whether no more connections may wait to be accepted.
    pub(super) fn is_full(&self) -> bool {
        // Relaxed: a limit, not a hand-over; instances that look at the same time may exceed it by one each.
        self.waiting.load(Ordering::Relaxed) > self.limits.backlog.cast_signed()
    }

    pub(super) fn has_waiting(&self) -> bool {
        // Acquire: pairs with the Release in `established`.
        self.waiting.load(Ordering::Acquire) > 0
    }

    pub(super) fn embryo_gone(&self) {
        self.embryos.uncounted();
    }

    /// A handshake is complete. Gives those that no program will accept, which are to be reset.
    #[must_use = "they are to be reset"]
    pub(super) fn established(self: &Arc<Self>, conn: &Arc<C>, tables: &Tables) -> Vec<Arc<C>>
    where
        C: Send + Sync + 'static,
    {
        // Before it is counted: whoever is told of it finds it.
        self.ready.push(conn.clone());
        // Release: pairs with the Acquire in `has_waiting`.
        self.waiting.fetch_add(1, Ordering::Release);
        // Relaxed: if `close` has taken the list before our push, the push shows what it wrote (`Inbox::push`).
        if self.closed.load(Ordering::Relaxed) {
            return self.abandon(self.ready.take());
        }
        self.source.notify(self.napi_id.load(Ordering::Relaxed), Interest::IN);
        self.parker.wake_told(&*tables.host, &|| Some(self.clone()), Whom::Reader);
        Vec::new()
    }

    pub(super) fn accept(&self) -> Option<Arc<C>> {
        let mut queue = self.queue();
        queue.extend(self.ready.take_any());
        let conn = queue.pop_front()?;
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        Some(conn)
    }

    #[cfg(test)]
    pub(super) fn first_waiting(&self) -> Option<Arc<C>> {
        let mut queue = self.queue();
        queue.extend(self.ready.take());
        queue.front().cloned()
    }

    /// No connection will be accepted any more. Gives those that wait, which are to be reset.
    #[must_use = "they are to be reset"]
    pub(super) fn close(&self) -> Vec<Arc<C>> {
        self.source.close();
        self.closed.store(true, Ordering::Relaxed);
        let accepted = std::mem::take(&mut *self.queue());
        self.abandon(accepted.into_iter().chain(self.ready.take()))
    }

    fn abandon(&self, waiting: impl Iterator<Item = Arc<C>>) -> Vec<Arc<C>> {
        let abandoned: Vec<_> = waiting.collect();
        self.waiting.fetch_sub(abandoned.len().cast_signed(), Ordering::Relaxed);
        abandoned
    }

    /// The engine has stopped.
    pub(super) fn engine_stopped(&self) {
        // Release: pairs with the Acquire in `is_stopped`.
        self.stopped.store(true, Ordering::Release);
        self.source.notify(self.napi_id.load(Ordering::Relaxed), STOPPED);
        self.parker.wake_all();
    }

    pub(super) fn is_stopped(&self) -> bool {
        // Acquire: pairs with the Release in `engine_stopped`.
        self.stopped.load(Ordering::Acquire)
    }

    pub(super) fn busy(&self) -> SocketBusy {
        // Relaxed: the settings order nothing, nor does the id.
        let napi_id = self.napi_id.load(Ordering::Relaxed);
        SocketBusy { napi_id, ..options::unpack(self.busy.load(Ordering::Relaxed)) }
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<Arc<C>>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C> Demuxed for ListenerInner<C> {
    fn recorded_napi(&self) -> &AtomicU32 {
        &self.napi_id
    }
}

impl<C: Limited + Send + Sync> Sleeper for ListenerInner<C> {
    fn call(&self, _whom: Whom) {
        self.parker.call_owed();
    }
}

impl<C: Limited + Send + Sync> Watched for ListenerInner<C> {
    fn source(&self) -> &Source {
        &self.source
    }

    fn ready(&self) -> Interest {
        let ready = if self.has_waiting() { Interest::IN } else { Interest::NONE };
        if self.is_stopped() { ready | STOPPED } else { ready }
    }

    fn napi_id(&self) -> u32 {
        // Relaxed: the id is a hint that orders nothing.
        self.napi_id.load(Ordering::Relaxed)
    }
}

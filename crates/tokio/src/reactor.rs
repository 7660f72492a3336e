//! The engine's part of a runtime: a context, and the task that hands its events on.

use std::fmt;
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use napier_runtime::control::mode::Mode;
use napier_runtime::engine::Engine;
use napier_runtime::event::{
    EpollParams, EpollParamsError, EpollParamsRequest, Event, EventContext, EventStats, Interest, Pollable, Timeout,
    WaitError,
};
use tokio::io::Interest as Readiness;
use tokio::io::unix::AsyncFd;
use tokio::task::{self, AbortHandle};

/// Longest busy-poll time of a reactor, in busy-poll microseconds: as exact as tokio's timers are.
pub const BUSY_POLL_USECS_MAX: u32 = 1000;

/// Members of a reactor's context.
const MEMBERS_MAX: u32 = 1 << 17;
/// Events that one turn of the task hands on, before others have their turn.
const EVENTS_PER_TURN: usize = 64;
/// What sockets are watched for: once, edge by edge.
const WATCHED: Interest = Interest::IN.with(Interest::OUT).with(Interest::RDHUP).with(Interest::EDGE);

/// The engine's part of a tokio runtime; clones name the same one. With the last clone and the last socket its task ends.
///
/// ```
/// use napier_tokio::{Reactor, UdpSocket};
///
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let (engine, device, _) = napier_runtime::doc_link()?;
///     // Both halves of a mode, before sockets are there.
///     engine.set_mode(&device, "suspend20".parse()?)?;
///     let reactor = Reactor::start(&engine)?;
///     reactor.set_mode("suspend20".parse()?)?;
///     let socket = UdpSocket::bind(&reactor, device.netns(), "10.77.0.1:7")?;
///     assert_eq!(socket.local_addr()?.port(), 7);
///     Ok(())
/// }
/// ```
#[derive(Clone)]
pub struct Reactor {
    shared: Arc<Shared>,
}

struct Shared {
    context: EventContext,
    sockets: Arc<Sockets>,
    task: AbortHandle,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Reactor {
    /// Begins a reactor for sockets of `engine`, in the runtime that the caller runs in.
    ///
    /// # Errors
    /// EMFILE, ENFILE, ENOMEM of `eventfd(2)`; what the runtime says to the descriptor.
    ///
    /// # Panics
    /// Outside of a tokio runtime, and in one without its I/O driver (`enable_io`).
    pub fn start(engine: &Engine) -> io::Result<Self> {
        let context = EventContext::with_members_max(engine, MEMBERS_MAX);
        context.descriptor()?;
        let sockets = Arc::new(Sockets::default());
        // The call that took its place is unsafe, for descriptors that may be closed meanwhile: a context's own is not, while there is one.
        #[expect(deprecated, reason = "the safe one of the two")]
        let descriptor = AsyncFd::with_interest(context.clone(), Readiness::READABLE)?;
        let turns = Turns::new(descriptor, sockets.clone());
        let task = tokio::spawn(turns).abort_handle();
        Ok(Self { shared: Arc::new(Shared { context, sockets, task }) })
    }

    /// Sets the busy-polling parameters, which act on sockets that are added after it, and on others from their next event on.
    ///
    /// # Errors
    /// As [`EventContext::set_params`]; a busy-poll time above [`BUSY_POLL_USECS_MAX`] is out of range here.
    pub fn set_params(&self, params: impl Into<EpollParamsRequest>) -> Result<(), EpollParamsError> {
        let request = params.into();
        if request.busy_poll_usecs > BUSY_POLL_USECS_MAX {
            return Err(EpollParamsError::Invalid("busy_poll_usecs (a reactor polls for 1000 at most)"));
        }
        self.shared.context.set_params(request)
    }

    /// Sets what a mode says of a context's parameters, as [`EventContext::set_mode`]; the other half is the device's
    /// ([`Engine::set_mode`]).
    ///
    /// # Errors
    /// As there; no mode polls for longer than [`BUSY_POLL_USECS_MAX`].
    pub fn set_mode(&self, mode: Mode) -> Result<(), EpollParamsError> {
        self.shared.context.set_mode(mode)
    }

    /// The busy-polling parameters.
    #[must_use]
    pub fn params(&self) -> EpollParams {
        self.shared.context.params()
    }

    /// A reading of the counters of its context.
    #[must_use]
    pub fn stats(&self) -> EventStats {
        self.shared.context.stats()
    }

    /// Watches a socket, which does not block from now on.
    pub(crate) fn watch<S: Pollable>(&self, socket: &S) -> io::Result<Watching> {
        let (number, waiters) = self.shared.sockets.enter();
        let watching = Watching { number, waiters, reactor: self.clone() };
        self.shared.context.add(socket, WATCHED, number)?;
        Ok(watching)
    }
}

impl fmt::Debug for Reactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reactor").field("context", &self.shared.context).finish_non_exhaustive()
    }
}

/// A socket among those that are watched, until this is dropped. Its membership ends with the socket.
pub(crate) struct Watching {
    number: u64,
    waiters: Arc<Waiters>,
    reactor: Reactor,
}

impl Watching {
    pub(crate) fn reactor(&self) -> &Reactor {
        &self.reactor
    }

    pub(crate) fn waiters(&self) -> &Waiters {
        &self.waiters
    }

    /// A task of the socket runs.
    pub(crate) fn has_come(&self) {
        self.waiters.has_come(&self.reactor.shared.sockets.told);
    }

    /// No task hands events on any more.
    pub(crate) fn has_ended(&self) -> bool {
        // Acquire: pairs with the Release in `end`, before all waiters are told.
        self.reactor.shared.sockets.ended.load(Ordering::Acquire)
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.has_come();
        self.reactor.shared.sockets.leave(self.number);
    }
}

/// In which direction a task waits.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    Read,
    Write,
}

impl Direction {
    const BOTH: [Self; 2] = [Self::Read, Self::Write];

    /// Whether `ready` ends its wait.
    const fn is_ended_by(self, ready: Interest) -> bool {
        match self {
            Self::Read => ready.ends_read_wait(),
            Self::Write => ready.ends_write_wait(),
        }
    }
}

/// Wakers that one socket keeps in a direction. More are of tasks that wait no longer, or try once in vain.
const WAKERS_MAX: usize = 32;

/// The tasks that wait for one socket, in each direction. All are told, and try again.
#[derive(Default)]
pub(crate) struct Waiters {
    wakers: [Mutex<Vec<Waker>>; 2],
    /// The round in which they were told, until one of them runs; 0: none.
    told_in: AtomicU32,
}

impl Waiters {
    /// The task of `cx` waits. It tries once more after this.
    pub(crate) fn wait(&self, direction: Direction, cx: &Context<'_>) {
        let mut wakers = lock(&self.wakers[direction as usize]);
        if wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
            return;
        }
        let many = if wakers.len() >= WAKERS_MAX { std::mem::take(&mut *wakers) } else { Vec::new() };
        wakers.push(cx.waker().clone());
        drop(wakers);
        many.into_iter().for_each(Waker::wake);
    }

    fn tell(&self, ready: Interest, told: &Outstanding) {
        for direction in Direction::BOTH {
            if direction.is_ended_by(ready) {
                let wakers = std::mem::take(&mut *lock(&self.wakers[direction as usize]));
                if !wakers.is_empty() {
                    told.add(&self.told_in);
                }
                wakers.into_iter().for_each(Waker::wake);
            }
        }
    }

    fn has_come(&self, told: &Outstanding) {
        // Relaxed: it counts, and orders nothing. The usual answer is no.
        if self.told_in.load(Ordering::Relaxed) != 0 {
            told.take(&self.told_in);
        }
    }
}

/// How many sockets were told in this round and have no task yet that ran since: the round, and how many. Nothing is ordered by it.
#[derive(Default)]
struct Outstanding(AtomicU64);

impl Outstanding {
    const fn round(word: u64) -> u32 {
        (word >> 32) as u32 // the upper half
    }

    /// Begins the next round, in which none is told yet.
    fn begin(&self) {
        let next = Self::round(self.0.load(Ordering::Relaxed)).checked_add(1).unwrap_or(1);
        self.0.store(u64::from(next) << 32, Ordering::Relaxed);
    }

    /// A socket's tasks are to be woken.
    fn add(&self, told_in: &AtomicU32) {
        let round = Self::round(self.0.load(Ordering::Relaxed));
        if told_in.swap(round, Ordering::Relaxed) != round {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A task of the socket runs. What is of a round before counts no more.
    fn take(&self, told_in: &AtomicU32) {
        let round = told_in.swap(0, Ordering::Relaxed);
        let less = |word: u64| (round != 0 && Self::round(word) == round).then(|| word - 1);
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    fn are_left(&self) -> bool {
        self.0.load(Ordering::Relaxed) as u32 != 0 // the lower half
    }
}

/// The sockets of a reactor by number: place and generation, so that an event of one that is gone tells no other.
#[derive(Default)]
struct Sockets {
    places: Mutex<Places>,
    told: Outstanding,
    /// No task hands events on any more.
    ended: AtomicBool,
}

#[derive(Default)]
struct Places {
    places: Vec<Numbered>,
    free: Vec<u32>,
}

#[derive(Default)]
struct Numbered {
    generation: u32,
    waiters: Option<Arc<Waiters>>,
}

impl Sockets {
    fn enter(&self) -> (u64, Arc<Waiters>) {
        let mut guard = lock(&self.places);
        let Places { places, free } = &mut *guard;
        let at = free.pop().unwrap_or_else(|| {
            places.push(Numbered::default());
            u32::try_from(places.len() - 1).expect("fewer sockets than a context has members")
        });
        let place = &mut places[at as usize];
        let waiters = Arc::<Waiters>::default();
        place.waiters = Some(waiters.clone());
        (u64::from(place.generation) << 32 | u64::from(at), waiters)
    }

    fn leave(&self, number: u64) {
        let mut places = lock(&self.places);
        let at = number as u32; // the lower half
        let place = &mut places.places[at as usize];
        place.generation = place.generation.wrapping_add(1);
        place.waiters = None;
        places.free.push(at);
    }

    fn tell(&self, events: &[Event]) {
        self.told.begin();
        for event in events {
            let waiters = {
                let places = lock(&self.places);
                let place = places.places.get(event.data as u32 as usize);
                let meant = place.filter(|place| u64::from(place.generation) == event.data >> 32);
                meant.and_then(|place| place.waiters.clone())
            };
            if let Some(waiters) = waiters {
                waiters.tell(event.events, &self.told);
            }
        }
    }

    /// No events are handed on from here on: all tasks look, and find that.
    fn end(&self) {
        // Release: pairs with the Acquire in `has_ended`. Who waits after it sees it, who waited before is told.
        self.ended.store(true, Ordering::Release);
        let all: Vec<_> = lock(&self.places).places.iter().filter_map(|place| place.waiters.clone()).collect();
        all.iter().for_each(|waiters| waiters.tell(Interest::ERR, &self.told));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The reactor's task.
struct Turns {
    descriptor: AsyncFd<EventContext>,
    sockets: Arc<Sockets>,
    events: [Event; EVENTS_PER_TURN],
    /// Tasks were told in the last turn.
    has_told: bool,
}

impl Turns {
    fn new(descriptor: AsyncFd<EventContext>, sockets: Arc<Sockets>) -> Self {
        Self { descriptor, sockets, events: [Event::default(); EVENTS_PER_TURN], has_told: false }
    }
}

/// However it ends: with the engine, with the runtime, by a panic.
impl Drop for Turns {
    fn drop(&mut self) {
        self.sockets.end();
    }
}

impl Future for Turns {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { descriptor, sockets, events, has_told } = &mut *self;
        // A task that was told and has not run yet may be the one of `block_on`: it runs when no other is left, so not while this polls. The
        // runtime looks at its own descriptors then, which is a system call; but once, for the task may have ended too.
        if std::mem::take(has_told) && sockets.told.are_left() {
            return pin!(task::yield_now()).poll(cx);
        }
        loop {
            match descriptor.get_ref().wait(events, Timeout::Outside) {
                Ok(0) => {}
                Ok(found) => {
                    sockets.tell(&events[..found]);
                    // Behind the tasks that were told. Not by yielding: the runtime would look at its own descriptors each time.
                    *has_told = true;
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Err(WaitError::Stopped) => return Poll::Ready(()),
                Err(WaitError::NoRoom) => unreachable!("there is room"),
            }
            // Nothing, and the descriptor is not readable from here on. What the runtime knows of it may be older.
            match descriptor.poll_read_ready(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(mut readable)) => readable.clear_ready(),
                // The runtime ends.
                Poll::Ready(Err(_)) => return Poll::Ready(()),
            }
        }
    }
}

#[cfg(test)]
#[path = "reactor_tests.rs"]
mod tests;

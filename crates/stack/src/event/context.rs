//! The public handle of an event context: membership, parameters, end.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::{Arc, Weak};

use napier_core::control::mode::Mode;
use napier_core::event::{EpollParams, EpollParamsError, EpollParamsRequest, resume_on_close};

use crate::event::errors::{AddError, DeleteError, ModifyError};
use crate::event::interest::Interest;
use crate::event::source::{Member, Pollable, Subscriber};
use crate::event::state::ContextState;
use crate::host::{EventStats, Host};

/// A set of watched sockets and the threads that wait for them; the counterpart of an epoll descriptor.
///
/// Clones name the same context, as duplicated descriptors do. All methods may be called from any thread at any time.
/// When the last clone is dropped the members are let go, and an instance whose interrupts the context keeps suspended
/// is resumed (`fs/eventpoll.c` `ep_free`).
///
/// # Busy polling
/// A context busy polls if [`set_params`](Self::set_params) or the engine-wide `busy_poll` asks for it. It polls *one*
/// instance: that of the member which was added or had news last. Hence
/// * a context should hold sockets of one instance only, else the instance polled keeps changing;
/// * parameters are to be set before sockets are added: adding attaches, modifying does not, and the next event does;
/// * after a busy loop that found nothing the context polls nothing until the next event.
///
/// ```
/// # use napier_runtime::doc_link;
/// use napier_runtime::event::{Event, EventContext, Interest, Timeout};
/// use napier_runtime::socket::UdpSocket;
///
/// let (engine, device, peer) = doc_link()?;
/// let context = EventContext::new(&engine);
/// context.set_mode("suspend20".parse()?)?; // before sockets are added; the device has the other half
/// engine.set_mode(&device, "suspend20".parse()?)?;
/// let server = UdpSocket::bind(device.netns(), "10.77.0.1:7")?;
/// context.add(&server, Interest::IN, 1)?;
/// UdpSocket::bind(peer.netns(), "10.77.0.2:0")?.send_to(b"hello", "10.77.0.1:7".parse()?)?;
/// let mut events = [Event::default(); 16];
/// let ready = context.wait(&mut events, Timeout::Never)?;
/// assert_eq!((ready, events[0].data), (1, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct EventContext {
    owner: Arc<Handles>,
}

/// Counts the handles; sockets and deliveries hold the state alone.
struct Handles {
    state: Arc<ContextState>,
}

impl EventContext {
    /// How many members a context can have unless it is made with another capacity.
    pub const MEMBERS_DEFAULT: u32 = 4096;

    /// A context without members, of this engine.
    #[must_use]
    pub fn new(engine: impl Into<Arc<dyn Host>>) -> Self {
        Self::with_members_max(engine, Self::MEMBERS_DEFAULT)
    }

    /// A context for at most `members_max` members instead of [`MEMBERS_DEFAULT`](Self::MEMBERS_DEFAULT).
    #[must_use]
    pub fn with_members_max(engine: impl Into<Arc<dyn Host>>, members_max: u32) -> Self {
        let host = engine.into();
        let state = Arc::new(ContextState::new(host.clone(), members_max));
        let dependant: Weak<ContextState> = Arc::downgrade(&state);
        host.add_dependant(dependant);
        Self { owner: Arc::new(Handles { state }) }
    }

    /// Watches `socket` for `interest`; its events will carry `data`. A socket that is ready is reported at once.
    ///
    /// A socket may be a member of several contexts. It stops being one when it is closed.
    ///
    /// # Errors
    /// [`AddError`]: the socket is a member already, or closed; the interest has unsupported bits; no room.
    pub fn add<P: Pollable + ?Sized>(&self, socket: &P, interest: Interest, data: u64) -> Result<(), AddError> {
        if !interest.unsupported().is_empty() {
            return Err(AddError::Unsupported(interest.unsupported()));
        }
        let state = self.state();
        let watched = socket.watched();
        let subscriber;
        {
            let mut table = state.table();
            if watched.source().subscriber_of(state).is_some() {
                return Err(AddError::Exists);
            }
            let members_max = table.members_max();
            let slot = table.vacancy().ok_or(AddError::Full { members_max })?;
            subscriber = Arc::new(Subscriber::new(state.clone(), slot, interest));
            watched.source().subscribe(subscriber.clone()).map_err(|_closed| AddError::Closed)?;
            table.insert(Member { watched: watched.clone(), subscriber: subscriber.clone(), data });
        }
        // As `fs/eventpoll.c` `ep_insert`: look, attach, queue.
        let ready = watched.ready().intersects(subscriber.interest().without(Interest::MODES));
        state.attach(watched.napi_id());
        if ready {
            state.offer(subscriber.slot);
        }
        Ok(())
    }

    /// Changes what `socket` is watched for, and its data; wakes up a one-shot member that has reported.
    ///
    /// This does not make the context attach to the socket's instance for busy polling.
    ///
    /// # Errors
    /// [`ModifyError`]: the socket is not a member; the interest has unsupported bits.
    pub fn modify<P: Pollable + ?Sized>(&self, socket: &P, interest: Interest, data: u64) -> Result<(), ModifyError> {
        if !interest.unsupported().is_empty() {
            return Err(ModifyError::Unsupported(interest.unsupported()));
        }
        let state = self.state();
        let watched = socket.watched();
        let subscriber = watched.source().subscriber_of(state).ok_or(ModifyError::NotMember)?;
        {
            let mut table = state.table();
            let member =
                table.member_mut(subscriber.slot, |member| member.is(&subscriber)).ok_or(ModifyError::NotMember)?;
            member.data = data;
            subscriber.set_interest(interest);
        }
        if watched.ready().intersects(interest.without(Interest::MODES) | Interest::ALWAYS) {
            state.offer(subscriber.slot);
        }
        Ok(())
    }

    /// Stops watching `socket`. No wait that starts after this reports it.
    ///
    /// # Errors
    /// [`DeleteError`]: the socket is not a member.
    pub fn delete<P: Pollable + ?Sized>(&self, socket: &P) -> Result<(), DeleteError> {
        let state = self.state();
        let watched = socket.watched();
        let source = watched.source();
        let mut table = state.table();
        let subscriber = source.subscriber_of(state).ok_or(DeleteError::NotMember)?;
        let member = table.remove(subscriber.slot, |member| member.is(&subscriber)).ok_or(DeleteError::NotMember)?;
        source.unsubscribe(&subscriber);
        // The member may hold the last reference to the socket: it is dropped after the lock is released.
        drop(table);
        drop(member);
        Ok(())
    }

    /// Sets the busy-polling parameters (`EPIOCSPARAMS`); on an error nothing is changed. [`EpollParams`] is what a program writes;
    /// [`EpollParamsRequest`] has the fields as the kernel's struct has them.
    ///
    /// They are stored one by one: a wait in another thread may see some of them before the others.
    ///
    /// # Errors
    /// [`EpollParamsError`], checked in the kernel's order (`fs/eventpoll.c` `ep_eventpoll_bp_ioctl`).
    pub fn set_params(&self, params: impl Into<EpollParamsRequest>) -> Result<(), EpollParamsError> {
        let params = params.into().check(self.state().host.cap_net_admin())?;
        self.state().params.store(params);
        Ok(())
    }

    /// Sets what a mode says of a context's parameters: what an epoll instance gets of `napier run --mode`. All zero if it says nothing, as in
    /// `base` and `deferX`. The other half is the device's (`Engine::set_mode`). In `fullbusy` a wait is to have a
    /// timeout of a millisecond at least, for one that must not wait never polls again and again.
    ///
    /// # Errors
    /// None today: no mode has parameters that need a capability.
    pub fn set_mode(&self, mode: Mode) -> Result<(), EpollParamsError> {
        self.set_params(mode.plan().context().unwrap_or_default())
    }

    /// The busy-polling parameters (`EPIOCGPARAMS`); all zero in a new context.
    #[must_use]
    pub fn params(&self) -> EpollParams {
        self.state().params.load()
    }

    /// A descriptor by which a program waits for the context in `epoll(7)`, `poll(2)` or io_uring, beside descriptors of the kernel; made at the
    /// first call.
    ///
    /// Readable (`POLLIN`) unless a [`wait`](Self::wait) has found nothing and nothing has happened since. So call `wait` with
    /// [`Timeout::Outside`](crate::event::Timeout::Outside) until it returns 0, and sleep on the descriptor then; a program that sleeps
    /// sooner wakes up at once and finds nothing at worst. When it is told edge by edge (`EPOLLET`, mio, tokio's `AsyncFd`) it *must* wait
    /// until 0 comes: there is a new edge only after that. [`Timeout::Now`](crate::event::Timeout::Now) does as well where no mode is set that
    /// suspends interrupts. Neither read the descriptor nor write to it. Once the engine has stopped it is readable for good.
    ///
    /// A wait that finds events makes no system call for it, nor does a delivery while it is readable.
    ///
    /// ```
    /// use napier_runtime::engine::Engine;
    /// use napier_runtime::event::{Event, EventContext, Interest, Timeout, UserEvent};
    /// use rustix::event::{PollFd, PollFlags, poll};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let engine = Engine::builder().start()?;
    /// let context = EventContext::new(&engine);
    /// let flag = UserEvent::new();
    /// context.add(&flag, Interest::IN | Interest::EDGE, 7)?;
    /// let descriptor = context.descriptor()?;
    /// let is_readable = || poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&Default::default()));
    ///
    /// let mut events = [Event::default(); 64];
    /// assert_eq!(context.wait(&mut events, Timeout::Outside)?, 0);
    /// assert_eq!(is_readable()?, 0);
    /// flag.trigger();
    /// assert_eq!(is_readable()?, 1);
    /// assert_eq!(context.wait(&mut events, Timeout::Outside)?, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// EMFILE, ENFILE, ENOMEM of `eventfd(2)`, the first time.
    pub fn descriptor(&self) -> io::Result<BorrowedFd<'_>> {
        self.state().parker.descriptor()
    }

    /// The instance that a wait would busy poll now, or 0.
    #[must_use]
    pub fn napi_id(&self) -> u32 {
        self.state().napi_id()
    }

    /// A reading of the context's counters.
    #[must_use]
    pub fn stats(&self) -> EventStats {
        self.state().counters.snapshot()
    }

    pub(super) fn state(&self) -> &Arc<ContextState> {
        &self.owner.state
    }
}

/// The context's [descriptor](EventContext::descriptor).
///
/// # Panics
/// If there is none yet and none can be made: call [`EventContext::descriptor`] before to have the error.
impl AsFd for EventContext {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor().expect("a descriptor can be made; EventContext::descriptor() gives the error")
    }
}

/// As [`AsFd`].
impl AsRawFd for EventContext {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl fmt::Debug for EventContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventContext")
            .field("params", &self.params())
            .field("napi_id", &self.napi_id())
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

impl Drop for Handles {
    fn drop(&mut self) {
        // Members hold the state and the state holds members: this is where the circle is cut.
        let members = self.state.table().clear();
        for member in &members {
            member.watched.source().unsubscribe(&member.subscriber);
        }
        drop(members);
        let (params, first_id) = (self.state.params.load(), self.state.host.first_napi_id());
        if let Some(napi_id) = resume_on_close(self.state.napi_id(), &params, first_id) {
            self.state.host.resume_irqs(napi_id);
        }
    }
}

//! Sockets of the engine and descriptors of the kernel, in one wait.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use napier_core::time::Deadline;
use napier_sys::clock::{Clock, timespec};
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use crate::event::context::EventContext;
use crate::event::errors::WaitError;
use crate::event::interest::{Event, Interest, Timeout};

/// Of so many waits that find sockets one looks at the descriptors too, first: it is the one system call among them.
const WAITS_A_LOOK: u32 = 32;
/// Descriptors that one look takes.
const LOOK_MAX: usize = 64;

/// An event context with descriptors of the kernel as members beside its sockets: pipes, timers, signals, sockets of the kernel, whatever
/// `epoll(7)` takes.
///
/// Sockets, parameters and modes are [`context`](Self::context)'s. A wait busy polls as that one's does, and then sleeps for both. While sockets have news the
/// descriptors are looked at in one wait of 32, so that these cost no system call; else in each. It is a descriptor itself ([`AsFd`]) that
/// another `epoll` or `poll` takes, by the same rule as [`EventContext::descriptor`]: sleep there after a [`wait`](Self::wait) with
/// [`Timeout::Outside`] has returned 0.
///
/// ```
/// use napier_runtime::engine::Engine;
/// use napier_runtime::event::{Event, EventContext, Interest, JointContext, Timeout, UserEvent};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let engine = Engine::builder().start()?;
/// let joint = JointContext::new(EventContext::new(&engine))?;
/// let (flag, (reads, writes)) = (UserEvent::new(), std::io::pipe()?);
/// joint.context().add(&flag, Interest::IN | Interest::EDGE, 1)?;
/// joint.add(&reads, Interest::IN, 2)?;
///
/// let mut events = [Event::default(); 8];
/// std::io::Write::write_all(&mut &writes, b"x")?;
/// assert_eq!((joint.wait(&mut events, Timeout::Never)?, events[0].data), (1, 2));
/// # Ok(())
/// # }
/// ```
pub struct JointContext {
    context: EventContext,
    /// The kernel's members.
    members: OwnedFd,
    /// Those, and the context.
    both: OwnedFd,
    /// Waits that have found sockets. Relaxed: it orders nothing.
    turns: AtomicU32,
}

impl JointContext {
    /// A context with sockets as `context` has them, and without descriptors.
    ///
    /// # Errors
    /// EMFILE, ENFILE, ENOMEM of `epoll_create1(2)` and `eventfd(2)`.
    pub fn new(context: EventContext) -> io::Result<Self> {
        let [members, both] =
            [epoll::create(epoll::CreateFlags::CLOEXEC)?, epoll::create(epoll::CreateFlags::CLOEXEC)?];
        for member in [members.as_fd(), context.descriptor()?] {
            epoll::add(&both, member, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        }
        Ok(Self { context, members, both, turns: AtomicU32::new(0) })
    }

    /// The context of the sockets. What it waits for alone are these.
    #[must_use]
    pub const fn context(&self) -> &EventContext {
        &self.context
    }

    /// Watches a descriptor; its events carry `data`. It stays a member until all duplicates of it are closed.
    ///
    /// # Errors
    /// Those of `EPOLL_CTL_ADD`: EEXIST, EPERM for a file that cannot be waited for, ENOSPC, ENOMEM.
    pub fn add(&self, descriptor: impl AsFd, interest: Interest, data: u64) -> io::Result<()> {
        Ok(epoll::add(&self.members, descriptor, epoll::EventData::new_u64(data), flags(interest))?)
    }

    /// Changes what a descriptor is watched for, and its data; wakes up a one-shot member that has reported.
    ///
    /// # Errors
    /// Those of `EPOLL_CTL_MOD`: ENOENT if it is no member.
    pub fn modify(&self, descriptor: impl AsFd, interest: Interest, data: u64) -> io::Result<()> {
        Ok(epoll::modify(&self.members, descriptor, epoll::EventData::new_u64(data), flags(interest))?)
    }

    /// Stops watching a descriptor.
    ///
    /// # Errors
    /// Those of `EPOLL_CTL_DEL`: ENOENT if it is no member.
    pub fn delete(&self, descriptor: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.members, descriptor)?)
    }

    /// Waits until sockets or descriptors are ready, or `timeout` (as for [`EventContext::wait`]) passes; gives how many of `events` were filled. A signal does not end it.
    ///
    /// # Errors
    /// As [`EventContext::wait`]: EINVAL if `events` is empty, ESHUTDOWN once the engine has stopped.
    pub fn wait(&self, events: &mut [Event], timeout: impl Into<Timeout>) -> io::Result<usize> {
        let timeout = timeout.into();
        if events.is_empty() {
            return Err(WaitError::NoRoom.into());
        }
        let timeout = if timeout == Timeout::After(Duration::ZERO) { Timeout::Now } else { timeout };
        let until = match timeout {
            Timeout::After(_) => timeout.span().map_or(Deadline::NEVER, |span| Deadline::after(Clock.now(), span)),
            Timeout::Now | Timeout::Never | Timeout::Outside => Deadline::NEVER,
        };
        let polls = if timeout == Timeout::Now { Timeout::Now } else { Timeout::Outside };
        loop {
            let found = self.look(events, polls)?;
            if found > 0 || matches!(timeout, Timeout::Now | Timeout::Outside) {
                return Ok(found);
            }
            let now = Clock.now();
            if until.is_due(now) {
                return Ok(0);
            }
            let left = until.instant().map(|until| timespec((until - now).ns));
            match epoll::wait(&self.both, &mut [NO_EVENT; 2], left.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// One look at both. The sockets' part busy polls, and is ready to sleep if it finds nothing.
    fn look(&self, events: &mut [Event], polls: Timeout) -> io::Result<usize> {
        let has_turn = self.turns.fetch_add(1, Ordering::Relaxed).is_multiple_of(WAITS_A_LOOK);
        // Not all of the room, or sockets would never have their turn.
        let half = events.len().div_ceil(2);
        let first = if has_turn { self.look_at_members(&mut events[..half])? } else { 0 };
        if first == events.len() {
            return Ok(first);
        }
        // Who has something already does not poll for more.
        let own = self.context.wait(&mut events[first..], if first > 0 { Timeout::Now } else { polls })?;
        if own > 0 || first > 0 {
            return Ok(first + own);
        }
        self.look_at_members(events)
    }

    fn look_at_members(&self, events: &mut [Event]) -> io::Result<usize> {
        let mut news = [NO_EVENT; LOOK_MAX];
        let room = events.len().min(LOOK_MAX);
        let found = match epoll::wait(&self.members, &mut news[..room], Some(&Timespec::default())) {
            Ok(found) => found,
            Err(Errno::INTR) => 0,
            Err(error) => return Err(error.into()),
        };
        for (event, news) in events.iter_mut().zip(&news[..found]) {
            let (flags, data) = (news.flags, news.data);
            *event = Event { events: Interest::from_bits(flags.bits()), data: data.u64() };
        }
        Ok(found)
    }
}

impl AsFd for JointContext {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.both.as_fd()
    }
}

impl fmt::Debug for JointContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JointContext")
            .field("context", &self.context)
            .field("members", &self.members)
            .finish_non_exhaustive()
    }
}

const NO_EVENT: epoll::Event = epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) };

/// The kernel has the same numbers, and refuses those that it does not know.
fn flags(interest: Interest) -> epoll::EventFlags {
    epoll::EventFlags::from_bits_retain(interest.bits())
}

//! The thread of a program: it waits for its calls, for sockets that are not carried, and for what its carrier leaves to it.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use napier_linux::Netns;
use napier_linux::process::{Notifier, wait_for_one};
use napier_runtime::event::{Event, EventContext, Timeout, WaitError};
use rustix::event::{EventfdFlags, epoll, eventfd};

use super::carrier::CarriedProgram;
use super::{DatagramCalls, Offer, ServedProgram};
use crate::limits::SOCKETS_MAX;
use crate::near::NearBell;
use crate::view::ShownProgram;

/// Tokens that are no socket's: their generation is beyond all.
const CALLS: u64 = u64::MAX;
const CONTEXT: u64 = u64::MAX - 1;
const STOP: u64 = u64::MAX - 2;
const BELL: u64 = u64::MAX - 3;
const LEFT: u64 = u64::MAX - 4;

/// Events that are taken at one time.
const EVENTS_MAX: usize = 64;

/// Serves a program until nothing of it runs any more, or `stop` can be read; in the network namespace `place`, if it is another than the engine's. What it still calls is for [`Goodbye::let_all_go_on`].
pub(crate) fn serve(
    offer: &Arc<Offer>,
    name: &str,
    notifier: Notifier,
    place: Option<&Netns>,
    shown: &Arc<ShownProgram>,
    stop: &OwnedFd,
) -> Goodbye {
    let _counted = offer.engine.count_thread("door", None);
    // What the program gets of the kernel's is of its own namespace from here on.
    let entered = place.map_or(Ok(()), |place| place.enter().map_err(io::Error::other));
    let (mut notifier, is_served) = match entered.and_then(|()| ThreadWaits::new(offer, &notifier, stop)) {
        Ok(waits) => serve_by(offer, (name, shown), notifier, &waits),
        Err(_) => (notifier, false),
    };
    notifier.let_kept_go_on();
    let mut left = Goodbye(notifier);
    if !is_served {
        // It counts as a program until the door closes.
        left.until(Some(stop));
    }
    left
}

/// The same by a carrier; and whether it was served to its end.
fn serve_by(
    offer: &Arc<Offer>,
    (name, shown): (&str, &Arc<ShownProgram>),
    notifier: Notifier,
    waits: &ThreadWaits,
) -> (Notifier, bool) {
    let carrier = offer.carriers.iter().min_by_key(|carrier| carrier.load()).expect("there is one");
    let make = |number| ServedProgram::new(offer, (name, shown), notifier, (carrier, waits), number);
    let carried = carrier.take(&waits.to_thread, make);
    let served = catch_unwind(AssertUnwindSafe(|| run(&carried, waits)));
    (carrier.end(carried), matches!(served, Ok(Ok(()))))
}

/// What the thread of a program waits for.
pub(super) struct ThreadWaits {
    pub(super) epoll: Arc<OwnedFd>,
    pub(super) context: EventContext,
    /// By which other programs of the engine tell of connections.
    pub(super) bell: Arc<NearBell>,
    /// By which the carrier tells of what it leaves to it.
    pub(super) to_thread: Arc<OwnedFd>,
}

impl ThreadWaits {
    fn new(offer: &Offer, calls: &Notifier, stop: &OwnedFd) -> io::Result<Self> {
        let context = EventContext::with_members_max(&offer.engine, SOCKETS_MAX as u32 * 2);
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let watch = |fd, token| epoll::add(&epoll, fd, epoll::EventData::new_u64(token), epoll::EventFlags::IN);
        watch(calls.as_fd(), CALLS)?;
        watch(context.descriptor()?, CONTEXT)?;
        watch(stop.as_fd(), STOP)?;
        let bell = NearBell::new()?;
        watch(bell.as_fd(), BELL)?;
        let to_thread = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        watch(to_thread.as_fd(), LEFT)?;
        Ok(Self { epoll: Arc::new(epoll), context, bell: Arc::new(bell), to_thread: Arc::new(to_thread) })
    }
}

/// A program that is not served any more, and may live on.
pub(crate) struct Goodbye(Notifier);

impl Goodbye {
    /// One that never was served.
    pub(crate) const fn of(notifier: Notifier) -> Self {
        Self(notifier)
    }

    /// What is left of the program goes on with the kernel's sockets, as long as it and this process live: a call without an answer would wait
    /// for ever. When this process has ended the keeper does the same.
    pub(crate) fn let_all_go_on(mut self) {
        self.until(None);
    }

    fn until(&mut self, stop: Option<&OwnedFd>) {
        let notifier = &mut self.0;
        // Each turn waits for a call, and the last process of the program ends it.
        loop {
            match notifier.receive() {
                Ok(Some(held)) => drop(notifier.go_on(held)),
                Ok(None) => {}
                Err(_) => return,
            }
            let fds = [Some(notifier.as_fd()), stop.map(OwnedFd::as_fd)];
            let fds: Vec<_> = fds.into_iter().flatten().collect();
            match wait_for_one(&fds, Duration::from_secs(3600)) {
                Ok(Some(1)) | Err(_) => return,
                Ok(_) => {}
            }
        }
    }
}

/// Until no process of the program is left and what it wrote is sent, or the door closes.
fn run(carried: &CarriedProgram, waits: &ThreadWaits) -> io::Result<()> {
    let mut events = [Event::default(); EVENTS_MAX];
    let mut ready = Vec::with_capacity(EVENTS_MAX);
    let mut has_more = false;
    loop {
        let timeout = if has_more { Timeout::Now } else { Timeout::Outside };
        let found = match waits.context.wait(&mut events, timeout) {
            Ok(found) => found,
            Err(WaitError::Stopped) => return Err(io::ErrorKind::BrokenPipe.into()),
            Err(WaitError::NoRoom) => unreachable!("there is room"),
        };
        let until = {
            let mut program = carried.lock()?;
            events[..found].iter().for_each(|event| program.net_event(event.data, event.events));
            program.until(found > 0 || has_more)
        };
        ready.clear();
        match epoll::wait(&waits.epoll, rustix::buffer::spare_capacity(&mut ready), until.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut program = carried.lock()?;
        for event in ready.iter().filter(|event| event.data.u64() != CONTEXT) {
            match event.data.u64() {
                STOP => return Ok(()),
                BELL => {
                    for token in program.bell.heard() {
                        program.take_connections(token);
                        DatagramCalls(&mut program).pump(token);
                    }
                }
                LEFT => carried.take_left().into_iter().for_each(|(token, found)| program.found(token, found)),
                CALLS => program.calls_event()?,
                token => program.pair_event(token, event.flags),
            }
        }
        has_more = program.go_on();
        if program.is_over && program.sockets.is_empty() {
            return Ok(());
        }
    }
}

//! Event contexts under the names of epoll, and user events.

use std::ffi::c_int;
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use libc::{epoll_event, timespec};
use napier_runtime::event::{Event, EventContext, Interest, Timeout, UserEvent, WaitError};

use crate::error::{Failure, enter};
use crate::socket::WatchChange;
use crate::table::{HANDLES, Object, on};

/// A timeout of napier_epoll_wait: the wait does all that one without limit does up to the sleep, and gives 0 in place of it. The caller
/// sleeps then, on napier_epoll_fd.
pub const NAPIER_OUTSIDE: i32 = i32::MIN;

/// Events that one wait gives, at most.
const EVENTS_MAX: usize = 64;

/// As epoll_create1(2), in an engine and in its mode (napier_set_mode). flags: 0 or EPOLL_CLOEXEC. It has 4096 members at most.
///
/// Threads: any.
///
/// Gives the handle of a context; -1 and EBADF, EINVAL, EMFILE.
#[unsafe(no_mangle)]
pub extern "C" fn napier_epoll_create1(engine: c_int, flags: c_int) -> c_int {
    on(engine, |object| {
        if flags & !libc::EPOLL_CLOEXEC != 0 {
            return Err(Failure::of(libc::EINVAL));
        }
        let context = object.engine()?.context(EventContext::MEMBERS_DEFAULT)?;
        HANDLES.add(Object::Context(context))
    })
}

/// As epoll_ctl(2), for sockets and user events of this library. operation: EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLL_CTL_DEL; events: EPOLLIN,
/// EPOLLOUT, EPOLLRDHUP, EPOLLERR, EPOLLHUP, EPOLLET, EPOLLONESHOT. A socket of datagrams without address gets one; a stream
/// has to listen, or its connect has to have been called.
///
/// Threads: any, also while others wait.
///
/// Gives 0; -1 and EBADF, EINVAL, EFAULT, EEXIST, ENOENT, ENOSPC.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn napier_epoll_ctl(
    context: c_int,
    operation: c_int,
    member: c_int,
    event: *const epoll_event,
) -> c_int {
    on(context, |object| {
        let context = object.context()?;
        let asked = || {
            if event.is_null() {
                return Err(Failure::new(libc::EFAULT, "the event is NULL"));
            }
            // SAFETY: the caller's event is there.
            let event = unsafe { event.read_unaligned() };
            Ok((Interest::from_bits(event.events), event.u64))
        };
        let watch = match operation {
            libc::EPOLL_CTL_ADD => asked().map(|(interest, data)| WatchChange::Add(interest, data))?,
            libc::EPOLL_CTL_MOD => asked().map(|(interest, data)| WatchChange::Modify(interest, data))?,
            libc::EPOLL_CTL_DEL => WatchChange::Delete,
            _ => return Err(Failure::invalid("the operation is EPOLL_CTL_ADD, EPOLL_CTL_MOD or EPOLL_CTL_DEL")),
        };
        HANDLES.with(member, |member| match member {
            Object::Socket(socket) => socket.watch(context, watch),
            Object::Event(event) => watch.of(context, event),
            // As for a file that cannot be watched (fs/eventpoll.c do_epoll_ctl).
            Object::Engine(_) | Object::Netns(_) | Object::Device(_) | Object::Context(_) | Object::Port(_) => {
                Err(Failure::new(libc::EPERM, "a context watches sockets and user events"))
            }
        })?;
        Ok(0)
    })
}

/// As epoll_wait(2): 64 events at most for each call. It busy polls before it sleeps, as the mode says; signals do not end it
/// (napier_user_event does). timeout_ms: negative for ever; NAPIER_OUTSIDE.
///
/// Threads: any; an event wakes one of those that wait.
///
/// Gives how many events there are, 0 at the end of the time; -1 and EBADF, EINVAL, EFAULT, ESHUTDOWN.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn napier_epoll_wait(
    context: c_int,
    events: *mut epoll_event,
    max: c_int,
    timeout_ms: c_int,
) -> c_int {
    let timeout = match timeout_ms {
        NAPIER_OUTSIDE => Timeout::Outside,
        0 => Timeout::Now,
        ms => u64::try_from(ms).map_or(Timeout::Never, |ms| Timeout::After(Duration::from_millis(ms))),
    };
    // SAFETY: as the caller of this has to keep.
    unsafe { wait(context, events, max, timeout) }
}

/// As napier_epoll_wait, to the nanosecond. timeout: NULL for ever.
///
/// Threads: as napier_epoll_wait.
///
/// Gives as napier_epoll_wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn napier_epoll_pwait2(
    context: c_int,
    events: *mut epoll_event,
    max: c_int,
    timeout: *const timespec,
) -> c_int {
    let wanted = if timeout.is_null() {
        Some(Timeout::Never)
    } else {
        // SAFETY: the caller's time is there.
        let time = unsafe { timeout.read_unaligned() };
        let ns = u32::try_from(time.tv_nsec).ok().filter(|ns| *ns < 1_000_000_000);
        let both = u64::try_from(time.tv_sec).ok().zip(ns);
        both.map(|(s, ns)| if (s, ns) == (0, 0) { Timeout::Now } else { Timeout::After(Duration::new(s, ns)) })
    };
    match wanted {
        // SAFETY: as the caller of this has to keep.
        Some(timeout) => unsafe { wait(context, events, max, timeout) },
        None => on(context, |_| Err(Failure::invalid("the timeout is no time"))),
    }
}

/// # Safety
/// There is room for `max` events.
unsafe fn wait(context: c_int, events: *mut epoll_event, max: c_int, timeout: Timeout) -> c_int {
    on(context, |object| {
        let context = object.context()?;
        let max = usize::try_from(max).ok().filter(|max| *max > 0);
        let max = max.ok_or_else(|| Failure::invalid("there is no room for events"))?.min(EVENTS_MAX);
        if events.is_null() {
            return Err(Failure::new(libc::EFAULT, "events is NULL"));
        }
        let mut found = [Event::default(); EVENTS_MAX];
        let count = context.wait(&mut found[..max], timeout).map_err(|error| match error {
            WaitError::Stopped => Failure::of(libc::ESHUTDOWN),
            WaitError::NoRoom => Failure::of(libc::EINVAL),
        })?;
        for (at, event) in found[..count].iter().enumerate() {
            let event = epoll_event { events: event.events.bits(), u64: event.data };
            // SAFETY: the caller has room for as many.
            let place = unsafe { events.add(at) };
            // SAFETY: the same; the struct need not be aligned.
            unsafe { place.write_unaligned(event) };
        }
        Ok(count as c_int) // at most 64
    })
}

/// A descriptor of the kernel by which a program waits for a context in its own epoll, poll or io_uring. It is readable unless a wait has found
/// nothing and nothing has happened since: call napier_epoll_wait with NAPIER_OUTSIDE until it gives 0, and sleep then. Neither read nor
/// close it: it goes with the context.
///
/// Threads: any.
///
/// Gives the descriptor; -1 and EBADF, EINVAL, EMFILE, ENFILE, ENOMEM.
#[unsafe(no_mangle)]
pub extern "C" fn napier_epoll_fd(context: c_int) -> c_int {
    on(context, |object| Ok(object.context()?.descriptor()?.as_raw_fd()))
}

/// Makes a flag that contexts can watch for EPOLLIN, as an eventfd(2): for a thread that is to end another one's wait.
///
/// Threads: any.
///
/// Gives its handle; -1 and EMFILE.
#[unsafe(no_mangle)]
pub extern "C" fn napier_user_event() -> c_int {
    enter(|| HANDLES.add(Object::Event(UserEvent::new())))
}

/// Raises a flag. What the calling thread wrote before is seen by the thread that sees the flag.
///
/// Threads: any.
///
/// Gives 0; -1 and EBADF, EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn napier_user_event_trigger(event: c_int) -> c_int {
    on(event, |object| {
        object.event()?.trigger();
        Ok(0)
    })
}

/// Lowers a flag.
///
/// Threads: any.
///
/// Gives 1 if it was raised, else 0; -1 and EBADF, EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn napier_user_event_clear(event: c_int) -> c_int {
    on(event, |object| Ok(object.event()?.clear().into()))
}

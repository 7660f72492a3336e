//! `libnapier_modes.so`: waits for events that never last longer than 1 ms, for `fullbusy`. A wait with a time-out of 0 never busy polls
//! (`fs/eventpoll.c ep_poll`), and one without end sleeps after its busy loop; here both are waits of 1 ms, the second as many as it
//! takes. What a program sees is the same, but for the time that an empty wait of 0 takes. It links nothing of Napier.

use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

use libc::{c_int, c_long, c_void, epoll_event, sigset_t, timespec};

/// Time between two waits, in ms.
const ONCE_MS: c_int = 1;

/// All signals are blocked until it is dropped: one that came between two waits would be lost to the second.
struct Blocked {
    before: sigset_t,
}

impl Blocked {
    fn begin() -> Option<Self> {
        let (mut all, mut before) = (MaybeUninit::<sigset_t>::uninit(), MaybeUninit::<sigset_t>::uninit());
        // SAFETY: it has room for a set, which the call fills.
        unsafe { libc::sigfillset(all.as_mut_ptr()) };
        // SAFETY: the first is a set since the call above, the second has room for one.
        let failed = unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) };
        // SAFETY: the call has filled it.
        (failed == 0).then(|| Self { before: unsafe { before.assume_init() } })
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: it is a set, which the call only reads.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut()) };
    }
}

/// Waits for `span` (none: without end) by short calls; each returns at an event, a signal or an error. A call gets the mask that is in
/// force while it waits: the caller's, for between the calls signals are blocked, so that each meets a wait as it would one long one.
fn bounded(span: Option<Duration>, mask: *const sigset_t, call: impl Fn(*const sigset_t) -> c_int) -> c_int {
    let begun = Instant::now();
    let found = call(mask);
    let is_over = || span.is_some_and(|span| begun.elapsed() >= span);
    if found != 0 || is_over() {
        return found;
    }
    let blocked = Blocked::begin();
    let own = blocked.as_ref().map_or(mask, |blocked| &raw const blocked.before);
    let mask = if mask.is_null() { own } else { mask };
    loop {
        let found = call(mask);
        if found != 0 || is_over() {
            return found;
        }
    }
}

fn millis(timeout: c_int) -> Option<Duration> {
    u64::try_from(timeout).ok().map(Duration::from_millis)
}

/// The function that this one stands before.
macro_rules! next {
    ($name:literal as $kind:ty) => {{
        // SAFETY: the name ends with a zero.
        let found: *mut c_void = unsafe { libc::dlsym(libc::RTLD_NEXT, $name.as_ptr()) };
        assert!(!found.is_null(), "the C library has it");
        // SAFETY: the C library declares it so; `epoll_wait(2)`.
        unsafe { std::mem::transmute::<*mut c_void, $kind>(found) }
    }};
}

/// As `epoll_wait(2)`.
///
/// # Safety
/// As there: `events` has room for `max` events.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_wait(epoll: c_int, events: *mut epoll_event, max: c_int, timeout: c_int) -> c_int {
    // SAFETY: as the caller promises; without a mask they are the same.
    unsafe { epoll_pwait(epoll, events, max, timeout, std::ptr::null()) }
}

/// As `epoll_pwait(2)`.
///
/// # Safety
/// As there: `events` has room for `max` events, `mask` is null or a set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_pwait(
    epoll: c_int,
    events: *mut epoll_event,
    max: c_int,
    timeout: c_int,
    mask: *const sigset_t,
) -> c_int {
    type Next = unsafe extern "C" fn(c_int, *mut epoll_event, c_int, c_int, *const sigset_t) -> c_int;
    let next = next!(c"epoll_pwait" as Next);
    // SAFETY: as the caller promises.
    bounded(millis(timeout), mask, |mask| unsafe { next(epoll, events, max, ONCE_MS, mask) })
}

/// As `epoll_pwait2(2)`.
///
/// # Safety
/// As there: `events` has room for `max` events, `timeout` is null or a time, `mask` is null or a set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_pwait2(
    epoll: c_int,
    events: *mut epoll_event,
    max: c_int,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    type Next = unsafe extern "C" fn(c_int, *mut epoll_event, c_int, *const timespec, *const sigset_t) -> c_int;
    let next = next!(c"epoll_pwait2" as Next);
    // SAFETY: the caller promises that it is null or a time.
    let wanted = unsafe { timeout.as_ref() };
    let span = wanted.map(|span| {
        let nanos = u32::try_from(span.tv_nsec).unwrap_or(0).min(999_999_999);
        Duration::new(u64::try_from(span.tv_sec).unwrap_or(0), nanos)
    });
    // A wait that is shorter than 1 ms by itself stays so, and one that is none is 1 ms.
    let short = wanted.filter(|span| span.tv_sec == 0 && (1..1_000_000).contains(&span.tv_nsec));
    let once = short.copied().unwrap_or(timespec { tv_sec: 0, tv_nsec: c_long::from(ONCE_MS) * 1_000_000 });
    // SAFETY: as the caller promises, and `once` lives through the calls.
    bounded(span, mask, |mask| unsafe { next(epoll, events, max, &raw const once, mask) })
}

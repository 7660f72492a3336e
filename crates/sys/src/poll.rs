//! Waiting on an epoll descriptor with time-outs of less than a millisecond, also where `epoll_pwait2(2)` is not to be had.

use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::time::Timespec;

/// Most events of one wait.
pub const EVENTS_MAX: usize = 128;

/// Waits until a member of the epoll descriptor is ready or the time is up; `None` = for ever. At most [`EVENTS_MAX`] events.
///
/// The call that does it (`epoll_pwait2`, Linux 5.11) is refused by filters of containers that do not know it and by tools
/// that carry programs out instruction by instruction. Then it is two calls: `ppoll` on the descriptor, and a look.
///
/// # Errors
/// `EINTR` after a signal; what else `epoll_wait(2)` names is a mistake of the caller.
#[inline]
pub fn wait<'a>(
    epoll: BorrowedFd<'_>,
    events: &'a mut [MaybeUninit<Event>],
    timeout: Option<&Timespec>,
) -> Result<&'a [Event], Errno> {
    static IN_TWO: AtomicBool = AtomicBool::new(false);
    if !IN_TWO.load(Ordering::Relaxed) {
        match one_call(epoll, events, timeout) {
            // SAFETY: the call has written so many from the first.
            Ok(ready) => return Ok(unsafe { events[..ready].assume_init_ref() }),
            // A filter may refuse with either.
            Err(Errno::NOSYS | Errno::PERM) => IN_TWO.store(true, Ordering::Relaxed),
            Err(error) => return Err(error),
        }
    }
    in_two(epoll, events, timeout)
}

fn one_call(
    epoll: BorrowedFd<'_>,
    events: &mut [MaybeUninit<Event>],
    timeout: Option<&Timespec>,
) -> Result<usize, Errno> {
    let most = events.len().min(EVENTS_MAX);
    epoll::wait(epoll, &mut events[..most], timeout).map(|(ready, _)| ready.len())
}

#[cold]
fn in_two<'a>(
    epoll: BorrowedFd<'_>,
    events: &'a mut [MaybeUninit<Event>],
    timeout: Option<&Timespec>,
) -> Result<&'a [Event], Errno> {
    poll(&mut [PollFd::from_borrowed_fd(epoll, PollFlags::IN)], timeout)?;
    let mut raw = [libc::epoll_event { events: 0, u64: 0 }; EVENTS_MAX];
    let most = libc::c_int::try_from(events.len().min(EVENTS_MAX)).expect("at most 128");
    // SAFETY: the descriptor is open while it is borrowed, `raw` has room for `most` events and lives through the call, which
    // does not wait.
    let ready = unsafe { libc::epoll_wait(epoll.as_raw_fd(), raw.as_mut_ptr(), most, 0) };
    let ready = usize::try_from(ready)
        .map_err(|_| Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL))?;
    for (event, raw) in events.iter_mut().zip(&raw[..ready]) {
        event.write(Event { flags: EventFlags::from_bits_retain(raw.events), data: EventData::new_u64(raw.u64) });
    }
    // SAFETY: each of them was written just now.
    Ok(unsafe { events[..ready].assume_init_ref() })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use rustix::event::epoll::CreateFlags;
    use rustix::event::{EventfdFlags, eventfd};

    use super::*;

    #[test]
    fn both_ways_see_the_same() {
        let poll = epoll::create(CreateFlags::CLOEXEC).unwrap();
        let bells = [7, 9].map(|token| {
            let bell = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
            epoll::add(&poll, &bell, EventData::new_u64(token), EventFlags::IN).unwrap();
            bell
        });
        let brief = Timespec { tv_sec: 0, tv_nsec: 1000 };
        for way in [wait, in_two] {
            let mut events = [const { MaybeUninit::uninit() }; 4];
            assert_eq!(tokens(way(poll.as_fd(), &mut events, Some(&brief)).unwrap()), []);
            rustix::io::write(&bells[1], &1_u64.to_ne_bytes()).unwrap();
            assert_eq!(tokens(way(poll.as_fd(), &mut events, None).unwrap()), [9]);
            rustix::io::read(&bells[1], &mut [0; 8]).unwrap();
        }
    }

    fn tokens(events: &[Event]) -> Vec<u64> {
        events.iter().map(|event| event.data.u64()).collect()
    }
}

//! Epoll instances of another process, in which one file takes the place of another under the same number.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::fcntl_dupfd_cloexec;

/// An instance that watches a file: what for, and what it says then.
#[derive(Debug)]
pub(crate) struct WatchedBy {
    pub(crate) epoll: OwnedFd,
    pub(crate) events: u32,
    pub(crate) data: u64,
}

/// Lets each instance watch `to` instead of `from`, both under this number: what is watched is known by file and number (`fs/eventpoll.c
/// ep_find`), and the number is looked up among the descriptors of the one that calls. So that is a thread with a table of its own, in which the
/// number means these files, and which ends with the thread. How many instances do.
pub(crate) fn watch_instead(
    watches: &[WatchedBy],
    number: i32,
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
) -> io::Result<usize> {
    let act = || -> io::Result<usize> {
        // SAFETY: the thread has copies of all descriptors from here on, under the same numbers; it changes its own only.
        if unsafe { libc::unshare(libc::CLONE_FILES) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // Above the number, which may be any one's of this process.
        let above = |fd: BorrowedFd<'_>| fcntl_dupfd_cloexec(fd, number.saturating_add(1));
        let (from, to) = (above(from)?, above(to)?);
        let mut moved = 0;
        for watch in watches {
            let epoll = above(watch.epoll.as_fd())?;
            // It may be gone meanwhile.
            let _ = epoll::delete(&epoll, under(number, &from)?);
            let flags = EventFlags::from_bits_retain(watch.events);
            let added = epoll::add(&epoll, under(number, &to)?, EventData::new_u64(watch.data), flags);
            moved += usize::from(added.is_ok());
        }
        Ok(moved)
    };
    std::thread::scope(|scope| scope.spawn(act).join()).unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
}

/// Lets a number of this thread's own table be a file.
fn under(number: i32, file: &OwnedFd) -> io::Result<BorrowedFd<'static>> {
    // SAFETY: nothing in this thread uses what the number was before, and no other thread has this table.
    if unsafe { libc::dup2(file.as_raw_fd(), number) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open as long as the thread lives, which is as long as it is used.
    Ok(unsafe { BorrowedFd::borrow_raw(number) })
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, send, socketpair};

    use super::*;

    #[test]
    fn an_instance_watches_another_file_under_the_number() {
        let pair = || socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).expect("a pair");
        let ((old, _old_end), (new, new_end)) = (pair(), pair());
        let instance = epoll::create(epoll::CreateFlags::CLOEXEC).expect("an instance");
        epoll::add(&instance, &old, EventData::new_u64(1), EventFlags::IN).expect("watched");
        let watch =
            WatchedBy { epoll: rustix::io::dup(&instance).expect("a copy"), events: EventFlags::IN.bits(), data: 7 };
        let number = old.as_raw_fd();
        let moved = watch_instead(&[watch], number, old.as_fd(), new.as_fd()).expect("moved");
        assert_eq!(moved, 1);
        send(&new_end, b"x", rustix::net::SendFlags::empty()).expect("sent");
        let mut found = Vec::with_capacity(4);
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        epoll::wait(&instance, rustix::buffer::spare_capacity(&mut found), Some(&now)).expect("asked");
        let found: Vec<u64> = found.iter().map(|event| event.data.u64()).collect();
        assert_eq!(found, [7], "the new one, by what was said of the old one");
        // The number is still this process's own file: that one is not watched any more.
        let error = epoll::delete(&instance, &old).expect_err("it is not there");
        assert_eq!(error, rustix::io::Errno::NOENT);
    }
}

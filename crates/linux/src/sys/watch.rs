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

/// Members of an instance that may have one number: their files are other descriptors' by now.
const SAME_NUMBER_MAX: u32 = 16;

/// Whether a descriptor of a thread is an instance that watches, under a number, the file that the thread has there. True also where that
/// cannot be told for the many members with this number. Source: `kernel/kcmp.c kcmp_epoll_target`, `fs/eventpoll.c get_epoll_tfile_raw_ptr`.
///
/// # Errors
/// As `kcmp(2)`: `ENOSYS` of a kernel that lacks it, `EPERM`.
pub(crate) fn may_watch(tid: u32, instance: i32, number: i32) -> io::Result<bool> {
    /// `include/uapi/linux/kcmp.h`, as `Slot`.
    const KCMP_EPOLL_TFD: libc::c_int = 7;
    #[repr(C)]
    struct Slot {
        instance: i32,
        number: i32,
        nth: u32,
    }
    let tid = tid.cast_signed();
    for nth in 0..SAME_NUMBER_MAX {
        let slot = Slot { instance, number, nth };
        let number = libc::c_ulong::from(number.cast_unsigned());
        // SAFETY: `slot` lives through the call, which only reads it.
        let order = unsafe { libc::syscall(libc::SYS_kcmp, tid, tid, KCMP_EPOLL_TFD, number, &raw const slot) };
        match order {
            0 => return Ok(true),
            1.. => {}
            _ => {
                let error = io::Error::last_os_error();
                let is_none = [libc::EBADF, libc::EINVAL, libc::ENOENT].contains(&error.raw_os_error().unwrap_or(0));
                return if is_none { Ok(false) } else { Err(error) };
            }
        }
    }
    Ok(true)
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
    fn an_instance_is_known_by_what_it_watches_under_a_number() {
        let own = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
        let pair = || socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).expect("a pair");
        let (one, other) = pair();
        let instance = epoll::create(epoll::CreateFlags::CLOEXEC).expect("an instance");
        let says = |of: &OwnedFd, number: i32| may_watch(own, of.as_raw_fd(), number);
        if says(&instance, one.as_raw_fd()).is_err() {
            return napier_testkit::skip!("an_instance_is_known_by_what_it_watches_under_a_number", "there is no kcmp");
        }
        assert!(!says(&instance, one.as_raw_fd()).expect("told"), "it watches nothing");
        epoll::add(&instance, &one, EventData::new_u64(1), EventFlags::IN).expect("watched");
        assert!(says(&instance, one.as_raw_fd()).expect("told"));
        assert!(!says(&instance, other.as_raw_fd()).expect("told"), "another member");
        assert!(!says(&other, one.as_raw_fd()).expect("told"), "no instance");
        // High enough that no other test gets it.
        let high = fcntl_dupfd_cloexec(&one, 900).expect("a copy");
        assert!(!says(&instance, high.as_raw_fd()).expect("told"), "the file has another number, too");
        assert!(!says(&instance, i32::MAX).expect("told"), "no descriptor");
        // What was watched under this number lives on under another one: the first member with it is not the last.
        epoll::add(&instance, &high, EventData::new_u64(2), EventFlags::IN).expect("watched");
        let number = high.as_raw_fd();
        drop(high);
        let high = fcntl_dupfd_cloexec(&other, number).expect("a copy");
        assert_eq!(high.as_raw_fd(), number, "it is free");
        assert!(!says(&instance, number).expect("told"), "the member is the former file");
        epoll::add(&instance, &high, EventData::new_u64(3), EventFlags::IN).expect("watched");
        assert!(says(&instance, number).expect("told"));
    }

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

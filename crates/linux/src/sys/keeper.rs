//! A process that lets held system calls go on when their supervisor has ended: without one they would fail with ENOSYS, for the rest
//! of the life of each process that has the filter.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::mm::{MapFlags, ProtFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{PidfdFlags, getpid, pidfd_open};

use super::held::SeenUnanswered;
use super::seccomp::{self, Call};

/// Where the supervisor receives its calls, shared with the keeper: the kernel itself writes there which call it handed out last, so the
/// keeper knows it wherever the supervisor was killed.
#[derive(Debug)]
pub(crate) struct Handed(NonNull<libc::seccomp_notif>);

impl Handed {
    fn new() -> io::Result<Self> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: the address is the kernel's choice, so nothing that is there is replaced.
        let page = unsafe {
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), size_of::<libc::seccomp_notif>(), protection, flags)
        }?;
        NonNull::new(page.cast()).map(Self).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    /// The next call; `None` if its thread has ended meanwhile.
    pub(crate) fn receive(&mut self, listener: BorrowedFd<'_>) -> io::Result<Option<Call>> {
        // SAFETY: the page is mapped as long as this lives; the keeper writes to it only when this process has ended.
        seccomp::receive(listener, unsafe { self.0.as_mut() })
    }
}

impl Drop for Handed {
    fn drop(&mut self) {
        // SAFETY: the mapping is of this size, and nothing borrows from it.
        let _ = unsafe { rustix::mm::munmap(self.0.as_ptr().cast(), size_of::<libc::seccomp_notif>()) };
    }
}

/// The way by which a keeper is told what to keep. Dropped without having told, the keeper ends.
#[derive(Debug)]
pub(crate) struct Keeper {
    socket: OwnedFd,
}

impl AsFd for Keeper {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Starts a keeper, as no child of this process and of a session of its own: what ends this process's group does not end it.
/// It has nothing of this process open, and ends with the last process that has the filter.
pub(crate) fn start() -> io::Result<(Keeper, Handed)> {
    let mut handed = Handed::new()?;
    let supervisor = pidfd_open(getpid(), PidfdFlags::empty())?;
    let keeper = start_beside(&supervisor, &mut handed, &[])?;
    Ok((keeper, handed))
}

/// The same for a supervisor that is another process, and writes down which calls it has not answered.
pub(crate) fn start_for(supervisor: &OwnedFd, unanswered: &SeenUnanswered) -> io::Result<Keeper> {
    start_beside(supervisor, &mut Handed::new()?, unanswered.words())
}

fn start_beside(supervisor: &OwnedFd, handed: &mut Handed, unanswered: &[AtomicU64]) -> io::Result<Keeper> {
    let (socket, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    // SAFETY: the child calls the system only, until it ends: no allocation, no lock.
    match unsafe { libc::fork() } {
        -1 => return Err(io::Error::last_os_error()),
        0 => {
            // SAFETY: as above.
            if unsafe { libc::fork() } == 0 {
                // SAFETY: the page is mapped in this process too, and its supervisor writes to it as long as that lives.
                keep(&theirs, supervisor, unsafe { handed.0.as_mut() }, unanswered);
            }
            end()
        }
        child => {
            let mut status = 0;
            // SAFETY: `status` lives through the call. It is this process's child, which ends at once.
            while unsafe { libc::waitpid(child, &raw mut status, 0) } < 0
                && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
            {}
        }
    }
    Ok(Keeper { socket })
}

fn end() -> ! {
    // SAFETY: it ends the process without running anything of it.
    unsafe { libc::_exit(0) }
}

/// The keeper's whole life.
fn keep(socket: &OwnedFd, supervisor: &OwnedFd, handed: &mut libc::seccomp_notif, unanswered: &[AtomicU64]) -> ! {
    leave_the_group();
    let Ok([socket, supervisor]) = keep_only([socket.as_raw_fd(), supervisor.as_raw_fd()]) else { end() };
    // The supervisor's side is closed if nothing was started.
    let Ok(listener) = seccomp::taken(socket.as_fd(), rustix::net::RecvFlags::empty()) else { end() };
    drop(socket);
    let mut is_alone = false;
    loop {
        let of_calls = if is_alone { PollFlags::IN } else { PollFlags::empty() };
        let mut asked = [PollFd::new(&listener, of_calls), PollFd::new(&supervisor, PollFlags::IN)];
        let count = if is_alone { 1 } else { 2 };
        match poll(&mut asked[..count], None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => end(),
        }
        let (calls, ended) = (asked[0].revents(), !is_alone && !asked[1].revents().is_empty());
        // Nothing has the filter any more.
        if calls.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            end();
        }
        if ended {
            is_alone = true;
            // The one that the supervisor had in its hands: not known any more if it was answered.
            let _ = seccomp::let_go(listener.as_fd(), handed.id);
            for id in unanswered {
                // Relaxed: the process that wrote it has ended.
                let _ = seccomp::let_go(listener.as_fd(), id.load(Ordering::Relaxed));
            }
        }
        if is_alone
            && calls.contains(PollFlags::IN)
            && let Ok(Some(call)) = seccomp::receive(listener.as_fd(), handed)
        {
            let _ = seccomp::let_go(listener.as_fd(), call.id);
        }
    }
}

/// In a session of its own, where no signal but SIGKILL does anything.
fn leave_the_group() {
    let _ = rustix::process::setsid();
    let _ = rustix::process::chdir("/");
    let _ = rustix::thread::set_name(c"napier-keeper");
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: it has room for a set, which the call fills.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: it is a set since the call above.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, all.as_ptr(), std::ptr::null_mut()) };
}

/// Closes all descriptors but two: the rest is the supervisor's, whose locks and pipes others wait for.
fn keep_only(fds: [i32; 2]) -> io::Result<[OwnedFd; 2]> {
    // Above those that they are moved to.
    let mut high = [0; 2];
    for (high, fd) in high.iter_mut().zip(fds) {
        // SAFETY: it takes numbers only.
        *high = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) };
    }
    for (to, high) in (0..).zip(high) {
        // SAFETY: as above. Nothing in this process uses the numbers 0 and 1 any more.
        if unsafe { libc::dup2(high, to) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    // SAFETY: as above; nothing in this process uses one of them any more.
    unsafe { libc::syscall(libc::SYS_close_range, 2, libc::c_uint::MAX, 0) };
    // SAFETY: they are open, and no other value has them.
    let own = |fd| unsafe { OwnedFd::from_raw_fd(fd) };
    Ok([own(0), own(1)])
}

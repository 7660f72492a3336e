//! Calls on sockets of a program, held until the one that has its sockets has answered.
//!
//! ```text
//! program: socket, bind, listen, accept, connect, get/setsockopt, ... --held--> Notifier --answer, descriptor--> the call returns
//!                                                     \--> the keeper, if that process has ended: --> the call goes on with the kernel
//! ```
//!
//! Nothing that is read here may be believed: the memory of the program may change between two looks, its thread may have ended and its number be
//! another's. So whatever was read for a call counts only if [`Notifier::is_waiting`] says so afterwards.

mod caller;
mod kinds;
mod rights;
mod watches;

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::given::{Given, Giver};
use super::thread;
use crate::sys::held::{self, UNANSWERED_MAX, Unanswered};
use crate::sys::seccomp::{self, Call};
pub use kinds::{HeldPage, HeldSends, SocketCall};
pub use rights::{CallerRights, Capability, OptionRights};
pub use watches::Watches;

/// What a notification descriptor is by its link. Source: `kernel/seccomp.c init_listener`.
const LISTENER_LINK: &str = "anon_inode:seccomp notify";

/// A call that is held.
#[derive(Copy, Clone, Debug)]
pub struct HeldSocketCall {
    call: Call,
    /// Which one; `None`: none that is asked for, so it is to go on.
    pub what: Option<SocketCall>,
    /// Where its id is written while it is not answered.
    slot: Option<usize>,
}

impl HeldSocketCall {
    /// The thread that makes it; 0 if this process does not see it.
    #[must_use]
    pub const fn tid(&self) -> u32 {
        self.call.tid
    }

    /// An argument as it stands in the register.
    ///
    /// # Panics
    /// If `at` is more than 5.
    #[must_use]
    pub const fn argument(&self, at: usize) -> u64 {
        self.call.arguments[at]
    }

    /// An argument that is an int.
    ///
    /// # Panics
    /// If `at` is more than 5.
    #[must_use]
    pub const fn int(&self, at: usize) -> i32 {
        self.call.arguments[at] as u32 as i32
    }

    /// Whether it is this very call, held once.
    #[must_use]
    pub const fn is_same(&self, other: &Self) -> bool {
        self.call.id == other.call.id
    }

    /// Whether it is the same call with the same arguments by the same thread: what a call is that a signal has interrupted and that is made
    /// again.
    #[must_use]
    pub fn is_again(&self, other: &Self) -> bool {
        let parts = |call: &Call| (call.tid, call.number, call.arguments);
        parts(&self.call) == parts(&other.call)
    }
}

/// Held calls of a program.
#[derive(Debug)]
pub struct Notifier {
    listener: OwnedFd,
    unanswered: Unanswered,
    free: Vec<usize>,
    /// The ids that are written there.
    kept: Vec<u64>,
    /// The one that came last.
    last: u64,
    giver: Giver,
}

impl Notifier {
    /// Calls that may wait at one time; see [`Notifier::keep`].
    pub const KEPT_MAX: usize = UNANSWERED_MAX;

    /// Takes over what [`Program::start_held`](super::Program::start_held) gave for this page.
    ///
    /// # Errors
    /// `InvalidInput`: it is no notification descriptor.
    pub fn new(listener: OwnedFd, page: HeldPage) -> io::Result<Self> {
        let link = fs::read_link(format!("/proc/self/fd/{}", listener.as_raw_fd()))?;
        if link.as_os_str() != LISTENER_LINK {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "what came along holds no calls"));
        }
        Ok(Self {
            listener,
            unanswered: page.0,
            free: (0..UNANSWERED_MAX).rev().collect(),
            kept: vec![0; UNANSWERED_MAX],
            last: 0,
            giver: Giver::default(),
        })
    }

    /// The next call; `None` if none waits.
    ///
    /// # Errors
    /// `EOF`: no process has the filter any more, so none will come.
    pub fn receive(&mut self) -> io::Result<Option<HeldSocketCall>> {
        let mut asked = [PollFd::new(&self.listener, PollFlags::IN)];
        match poll(&mut asked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
            Err(rustix::io::Errno::INTR) => return Ok(None),
            polled => polled?,
        };
        let found = asked[0].revents();
        if found.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if !found.contains(PollFlags::IN) {
            return Ok(None);
        }
        let found = seccomp::receive(self.listener.as_fd(), self.unanswered.next_call())?;
        let Some(call) = found else { return Ok(None) };
        self.last = call.id;
        Ok(Some(HeldSocketCall { what: SocketCall::of(call.number), call, slot: None }))
    }

    /// Whether the call still waits: what was read of its thread since it came is of that thread.
    #[must_use]
    pub fn is_waiting(&self, held: &HeldSocketCall) -> bool {
        seccomp::is_waiting(self.listener.as_fd(), &held.call)
    }

    /// Notes that a call is answered later; false: too many are, and it has to be answered now.
    pub fn keep(&mut self, held: &mut HeldSocketCall) -> bool {
        let Some(slot) = self.free.pop() else { return false };
        self.note(slot, held.call.id);
        held.slot = Some(slot);
        true
    }

    fn note(&mut self, slot: usize, id: u64) {
        self.kept[slot] = id;
        self.unanswered.set(slot, id);
    }

    /// Lets all calls go on that are kept, and the one that came last.
    pub fn let_kept_go_on(&mut self) {
        for id in self.kept.iter().chain([&self.last]) {
            // What has been answered is not known any more.
            let _ = seccomp::let_go(self.listener.as_fd(), *id);
        }
    }

    /// Frees what [`Self::keep`] took, once the call has its answer and not before: the keeper lets go on what stands there.
    fn answered(&mut self, held: &HeldSocketCall) {
        if let Some(slot) = held.slot {
            self.note(slot, 0);
            self.free.push(slot);
        }
    }

    /// Lets the call return a value, or fail with an error of `errno(3)`.
    ///
    /// # Errors
    /// None that is known.
    pub fn answer(&mut self, held: HeldSocketCall, result: Result<i32, i32>) -> io::Result<Given> {
        let (value, error) = (result.unwrap_or(0), result.err().unwrap_or(0));
        let told = held::answer(self.listener.as_fd(), held.call.id, value.into(), error);
        self.answered(&held);
        told.map(Given::from)
    }

    /// Lets the call go on as if it had not been held.
    ///
    /// # Errors
    /// None that is known.
    pub fn go_on(&mut self, held: HeldSocketCall) -> io::Result<()> {
        let let_go = seccomp::let_go(self.listener.as_fd(), held.call.id);
        self.answered(&held);
        let_go
    }

    /// Lets the call return a new descriptor. If this process is killed meanwhile the program may have it beside one of the kernel's, which it gets then.
    ///
    /// # Errors
    /// None that is known.
    pub fn give(&mut self, held: HeldSocketCall, fd: impl AsFd, close_on_exec: bool) -> io::Result<Given> {
        let given = self.giver.give(self.listener.as_fd(), &held.call, fd.as_fd(), close_on_exec);
        self.answered(&held);
        given
    }

    /// Puts another open file in the place of one of the program's descriptors; the call still waits. Other descriptors of what was there, and
    /// epoll instances that watch it, keep it.
    ///
    /// # Errors
    /// `EBADF`: it has no such descriptor.
    pub fn replace(&self, held: &HeldSocketCall, number: i32, fd: impl AsFd, close_on_exec: bool) -> io::Result<Given> {
        held::add(self.listener.as_fd(), held.call.id, fd.as_fd(), Some(number), close_on_exec).map(Given::from)
    }

    /// A copy of a descriptor of a thread, which must not live long: while it does, the program's close is not seen.
    ///
    /// # Errors
    /// `EBADF`: it has no such descriptor; `EPERM`: this process may not look at it (`ptrace(2)`, access mode `PTRACE_MODE_ATTACH_REALCREDS`).
    pub fn copy_of(&self, tid: u32, number: i32) -> io::Result<OwnedFd> {
        thread::copy_of(tid, number)
    }

    /// Reads memory of the thread that makes a call.
    ///
    /// # Errors
    /// `EFAULT` unless all of it is there.
    pub fn read(&self, held: &HeldSocketCall, address: u64, into: &mut [u8]) -> io::Result<()> {
        let wanted = into.len();
        all(held::read_memory(held.call.tid, address, into)?, wanted)
    }

    /// The memory of the thread that makes a call, to be written: it is that one's, and no other's that has got its number, for as long as this
    /// lives.
    ///
    /// # Errors
    /// `EINTR`: the call does not wait any more; `EACCES`: this process may not look at it (`ptrace(2)`).
    pub fn memory_of(&self, held: &HeldSocketCall) -> io::Result<CallMemory> {
        let opened = File::options().write(true).open(format!("/proc/{}/mem", held.call.tid));
        // After it is open: what was opened is of the thread that waits.
        if !self.is_waiting(held) {
            return Err(io::Error::from_raw_os_error(libc::EINTR));
        }
        opened.map(CallMemory)
    }
}

/// The memory of a thread whose call is held; see [`Notifier::memory_of`].
#[derive(Debug)]
pub struct CallMemory(File);

impl CallMemory {
    /// Writes there.
    ///
    /// # Errors
    /// `EFAULT` unless all of it is there.
    pub fn write(&self, address: u64, from: &[u8]) -> io::Result<()> {
        self.0.write_all_at(from, address).map_err(|_| io::Error::from_raw_os_error(libc::EFAULT))
    }
}

fn all(count: usize, wanted: usize) -> io::Result<()> {
    if count == wanted { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EFAULT)) }
}

impl AsFd for Notifier {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_no_calls_is_refused() {
        let listener = File::open("/dev/null").expect("it is there").into();
        let page = HeldPage::make().expect("a file");
        let refused = Notifier::new(listener, page).expect_err("it is no notification descriptor");
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn memory_is_written_where_it_is() {
        let mut cell = [1_u8, 2, 3];
        let memory = CallMemory(File::options().write(true).open("/proc/self/mem").expect("own memory"));
        memory.write(cell.as_mut_ptr() as u64, &[9, 8]).expect("it is there");
        assert_eq!(std::hint::black_box(cell), [9, 8, 3]);
        for nowhere in [8, u64::MAX - 1] {
            let error = memory.write(nowhere, &[1]).expect_err("nothing is there");
            assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
        }
    }
}

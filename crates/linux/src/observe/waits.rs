//! What the threads of a program wait in: the call, and the descriptors that it waits for. Source: `proc_pid_syscall(5)`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use serde::Serialize;

/// Threads of a process that are looked at.
const THREADS_MAX: usize = 256;
/// Descriptors of one call that are looked at.
const DESCRIPTORS_MAX: usize = 4096;

/// A way to wait for packets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// `epoll_wait(2)` and its like.
    Epoll,
    /// `poll(2)`.
    Poll,
    /// `select(2)`.
    Select,
    /// A receive or a read that blocks.
    Receive,
    /// `io_uring_enter(2)`.
    Ring,
}

/// In how many looks a thread waited in which way for which descriptor.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize)]
pub struct Waits {
    /// Looks at threads that waited, in whatever call.
    pub waiting: u32,
    /// Looks at threads that ran.
    pub running: u32,
    /// By way and descriptor.
    #[serde(skip)]
    pub found: BTreeMap<(How, i32), u32>,
    /// What the descriptors were when they were waited for. A number is given again: before a program has sockets it reads files, and
    /// before it is that program it waits for its start.
    #[serde(skip)]
    pub(crate) what: BTreeMap<i32, PathBuf>,
    /// The kernel or its rights do not show it.
    pub is_hidden: bool,
}

impl Waits {
    /// Descriptors that were waited for in this way.
    pub fn of(&self, how: How) -> impl Iterator<Item = i32> + '_ {
        self.found.keys().filter(move |(found, _)| *found == how).map(|(_, fd)| *fd)
    }

    /// Without waits for descriptors that are something else by now.
    #[must_use]
    pub fn still_of(mut self, pid: u32) -> Self {
        let Self { found, what, .. } = &mut self;
        what.retain(|fd, what| target(pid, *fd).as_ref() == Some(what));
        found.retain(|(_, fd), _| what.contains_key(fd));
        self
    }

    /// Looks at all threads of a process once.
    pub fn look(&mut self, pid: u32) {
        let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return };
        let mut memory = None;
        let mut looked_at = BTreeSet::new();
        for thread in threads.flatten().take(THREADS_MAX) {
            let line = match fs::read_to_string(thread.path().join("syscall")) {
                Ok(line) => line,
                Err(error) => {
                    // A thread that has ended is no refusal.
                    self.is_hidden |=
                        thread.path().join("stat").exists() && error.kind() != std::io::ErrorKind::NotFound;
                    continue;
                }
            };
            let Some((number, arguments)) = call(&line) else {
                self.running += 1;
                continue;
            };
            self.waiting += 1;
            let read = |at: u64, bytes: usize| {
                let file = memory.get_or_insert_with(|| File::open(format!("/proc/{pid}/mem")).ok()).as_ref()?;
                let mut buffer = vec![0; bytes];
                file.read_exact_at(&mut buffer, at).ok().map(|()| buffer)
            };
            let Some((how, fds)) = waits_for(number, &arguments, read) else { continue };
            for fd in fds {
                if looked_at.insert(fd) {
                    self.recognise(pid, fd);
                }
                if self.what.contains_key(&fd) {
                    *self.found.entry((how, fd)).or_default() += 1;
                }
            }
        }
    }

    /// Forgets waits for what had this number before.
    fn recognise(&mut self, pid: u32, fd: i32) {
        let now = target(pid, fd);
        if self.what.get(&fd) != now.as_ref() {
            self.found.retain(|(_, found), _| *found != fd);
            self.what.remove(&fd);
            self.what.extend(now.map(|what| (fd, what)));
        }
    }
}

/// What a descriptor of a process is: a path, or the kind and the number of what has none.
fn target(pid: u32, fd: i32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/fd/{fd}")).ok()
}

/// Number and arguments of the call that a thread is in; `None` if it runs.
fn call(line: &str) -> Option<(i64, [u64; 6])> {
    let mut words = line.split_whitespace();
    let number = words.next()?.parse().ok().filter(|number| *number >= 0)?;
    let mut arguments = [0; 6];
    for argument in &mut arguments {
        *argument = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
    }
    Some((number, arguments))
}

/// The way in which a call waits, and for which descriptors. `read` reads the program's memory.
fn waits_for(
    number: i64,
    arguments: &[u64; 6],
    read: impl FnMut(u64, usize) -> Option<Vec<u8>>,
) -> Option<(How, BTreeSet<i32>)> {
    let fd = i32::try_from(arguments[0]).ok();
    let how = how(number)?;
    let fds = match how {
        How::Poll => polled(arguments, read)?,
        How::Select => selected(arguments, read)?,
        How::Epoll | How::Receive | How::Ring => [fd?].into(),
    };
    Some((how, fds))
}

fn how(number: i64) -> Option<How> {
    Some(match number {
        libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => How::Epoll,
        libc::SYS_ppoll => How::Poll,
        libc::SYS_pselect6 => How::Select,
        libc::SYS_recvfrom | libc::SYS_recvmsg | libc::SYS_recvmmsg | libc::SYS_read | libc::SYS_readv => How::Receive,
        libc::SYS_io_uring_enter => How::Ring,
        number => return old(number),
    })
}

/// Calls that newer architectures do not have.
#[cfg(target_arch = "x86_64")]
fn old(number: i64) -> Option<How> {
    Some(match number {
        libc::SYS_epoll_wait => How::Epoll,
        libc::SYS_poll => How::Poll,
        libc::SYS_select => How::Select,
        _ => return None,
    })
}

#[cfg(not(target_arch = "x86_64"))]
const fn old(_: i64) -> Option<How> {
    None
}

/// An array of `struct pollfd`, and its length.
fn polled(arguments: &[u64; 6], mut read: impl FnMut(u64, usize) -> Option<Vec<u8>>) -> Option<BTreeSet<i32>> {
    let count = usize::try_from(arguments[1]).ok()?.min(DESCRIPTORS_MAX);
    let bytes = read(arguments[0], count * 8)?;
    let fd = |one: &[u8]| i32::from_ne_bytes([one[0], one[1], one[2], one[3]]);
    Some(bytes.chunks_exact(8).map(fd).filter(|fd| *fd >= 0).collect())
}

/// How many there are, and the set of those that are to be read: a bit for each, in words of the machine.
fn selected(arguments: &[u64; 6], mut read: impl FnMut(u64, usize) -> Option<Vec<u8>>) -> Option<BTreeSet<i32>> {
    let count = usize::try_from(arguments[0]).ok()?.min(DESCRIPTORS_MAX);
    if arguments[1] == 0 {
        return Some(BTreeSet::new());
    }
    let bytes = read(arguments[1], count.div_ceil(64) * 8)?;
    let words = bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("8 bytes")));
    let bits = words
        .enumerate()
        .flat_map(|(at, word)| (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at * 64 + bit));
    Some(bits.filter(|fd| *fd < count).filter_map(|fd| i32::try_from(fd).ok()).collect())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;
    use std::sync::mpsc::{self, Receiver};
    use std::thread;

    use rustix::event::{PollFd, PollFlags, poll};

    use super::*;

    #[test]
    fn lines_of_calls_are_read() {
        assert_eq!(call("running\n"), None);
        assert_eq!(call("-1 0x7ffd 0x7f13\n"), None);
        assert_eq!(call("232 0x5 0x1 0x2 0x3 0x4 0xff 0x7ffd 0x7f13\n"), Some((232, [5, 1, 2, 3, 4, 255])));
        assert_eq!(how(libc::SYS_futex), None);
    }

    #[test]
    fn sets_and_arrays_are_read_from_memory() {
        let set = |at: u64, bytes: usize| {
            assert_eq!((at, bytes), (0x1000, 16));
            let mut set = vec![0; 16];
            set[..8].copy_from_slice(&(1_u64 << 5).to_ne_bytes());
            set[8..].copy_from_slice(&(0b11_u64).to_ne_bytes());
            Some(set)
        };
        assert_eq!(selected(&[65, 0x1000, 0, 0, 0, 0], set), Some([5, 64].into()), "65 is beyond");
        assert_eq!(selected(&[65, 0, 0, 0, 0, 0], |_, _| None), Some(BTreeSet::new()));
        let array = |_, bytes| {
            assert_eq!(bytes, 16);
            Some([7_i32, 1, -1, 1].iter().flat_map(|word| word.to_ne_bytes()).collect())
        };
        assert_eq!(polled(&[0x1000, 2, 0, 0, 0, 0], array), Some([7].into()), "a negative one is passed over");
    }

    /// Waits in `poll` for a descriptor, and then gives it back.
    fn waiting_for(fd: std::os::fd::OwnedFd) -> (Receiver<()>, thread::JoinHandle<std::os::fd::OwnedFd>) {
        let (begun, has_begun) = mpsc::channel();
        let waiting = thread::spawn(move || {
            begun.send(()).expect("heard");
            poll(&mut [PollFd::new(&fd, PollFlags::IN)], None).expect("it ends");
            fd
        });
        (has_begun, waiting)
    }

    #[test]
    fn a_thread_that_waits_is_seen_until_its_descriptor_is_another() {
        let test = "a_thread_that_waits_is_seen_until_its_descriptor_is_another";
        if !std::path::Path::new("/proc/self/syscall").exists() {
            return napier_testkit::skip!(test, "no /proc/self/syscall");
        }
        let (reader, writer) = std::io::pipe().expect("a pipe");
        // A number that no other test of this process is given.
        let reader = rustix::io::fcntl_dupfd_cloexec(&reader, 700).expect("a descriptor");
        let (number, own) = (reader.as_raw_fd(), std::process::id());
        let (has_begun, waiting) = waiting_for(reader);
        has_begun.recv().expect("it runs");
        let mut waits = Waits::default();
        let is_seen = |waits: &Waits| waits.of(How::Poll).any(|fd| fd == number);
        napier_testkit::eventually("it waits", || {
            waits.look(own);
            is_seen(&waits)
        });
        drop(writer);
        let mut reader = waiting.join().expect("it ends");
        assert!(is_seen(&waits.clone().still_of(own)));
        let socket = std::net::UdpSocket::bind(("127.0.0.1", 0)).expect("a socket");
        rustix::io::dup2(&socket, &mut reader).expect("the same number");
        assert!(!is_seen(&waits.clone().still_of(own)), "nothing waited for the socket");
        // Nor are waits for the one added to those for the other.
        waits.found.insert((How::Poll, number), 1_000_000);
        let (has_begun, waiting) = waiting_for(reader);
        has_begun.recv().expect("it runs");
        napier_testkit::eventually("it waits for the socket", || {
            waits.look(own);
            waits.found.get(&(How::Poll, number)).is_some_and(|looks| *looks < 1_000_000)
        });
        let at = socket.local_addr().expect("an address");
        socket.send_to(b"end", at).expect("sent");
        waiting.join().expect("it ends");
    }
}

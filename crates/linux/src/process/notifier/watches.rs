//! Epoll instances of a program that watch a socket whose place another one takes.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags, RawDir, open, readlinkat_raw};

use super::super::thread::copy_of;
use super::{HeldSocketCall, Notifier};
use crate::sys::watch::{WatchedBy, may_watch, watch_instead};

/// Descriptors of a program that are looked at, and instances among them.
const DESCRIPTORS_MAX: usize = 1 << 16;
const INSTANCES_MAX: usize = 64;
/// What an epoll instance is by its link. Source: `fs/eventpoll.c do_epoll_create`.
const INSTANCE_LINK: &[u8] = b"anon_inode:[eventpoll]";

/// The instances, each with what it watches the socket for.
#[derive(Default, Debug)]
pub struct Watches(Vec<WatchedBy>);

impl Watches {
    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether none watches it.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Lets them watch another file under the same number of the program, for the same and with the same data; how many of them do.
    ///
    /// # Errors
    /// As `unshare(2)` and `dup(2)`: this process may not have so high a number.
    pub fn move_to(&self, number: i32, from: impl AsFd, to: impl AsFd) -> io::Result<usize> {
        if self.is_empty() {
            return Ok(0);
        }
        watch_instead(&self.0, number, from.as_fd(), to.as_fd())
    }
}

impl Notifier {
    /// The epoll instances of the process that makes a call which watch a file by this number: in a process's own, not those that it has given away
    /// or shares with one that it was forked from under another number. It counts if the call still waits afterwards.
    #[must_use]
    pub fn watches(&self, held: &HeldSocketCall, number: i32, inode: u64) -> Watches {
        Watches(watching(held.tid(), number, inode))
    }
}

/// Each descriptor is looked at, so that costs two system calls at most and no memory.
fn watching(tid: u32, number: i32, inode: u64) -> Vec<WatchedBy> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut found = Vec::new();
    let Ok(folder) = open(format!("/proc/{tid}/fd"), flags, Mode::empty()) else { return found };
    let mut room = [const { MaybeUninit::uninit() }; 16 << 10];
    let mut entries = RawDir::new(&folder, &mut room);
    for _ in 0..DESCRIPTORS_MAX {
        let Some(Ok(entry)) = entries.next() else { break };
        let name = entry.file_name();
        let Some(at) = name.to_str().ok().and_then(|name| name.parse().ok()) else { continue };
        if may_watch(tid, at, number).unwrap_or_else(|_| is_instance(&folder, name)) {
            found.extend(watched_by(tid, at, number, inode));
        }
        if found.len() >= INSTANCES_MAX {
            break;
        }
    }
    found
}

fn is_instance(folder: &OwnedFd, name: &CStr) -> bool {
    // One byte more, that a longer one is not taken for it.
    let mut room = [MaybeUninit::uninit(); INSTANCE_LINK.len() + 1];
    readlinkat_raw(folder, name, &mut room).is_ok_and(|(link, _)| link == INSTANCE_LINK)
}

/// An instance, if it watches the file under the number.
fn watched_by(tid: u32, instance: i32, number: i32, inode: u64) -> Option<WatchedBy> {
    let info = fs::read_to_string(format!("/proc/{tid}/fdinfo/{instance}")).ok()?;
    let (events, data) = member(&info, number, inode)?;
    Some(WatchedBy { epoll: copy_of(tid, instance).ok()?, events, data })
}

/// Events and data of a member of an instance by the text of that one's `fdinfo`, of which there is a line for each.
fn member(info: &str, number: i32, inode: u64) -> Option<(u32, u64)> {
    info.match_indices(&format!(" ino:{inode:x} ")).find_map(|(at, _)| {
        let begin = info[..at].rfind('\n').map_or(0, |end| end + 1);
        watched(info[begin..].lines().next()?, number, inode)
    })
}

/// Events and data of a line of an instance's `fdinfo`, if it is of this file and number. Source: `proc_pid_fdinfo(5)`, `fs/eventpoll.c
/// ep_show_fdinfo`.
fn watched(line: &str, number: i32, inode: u64) -> Option<(u32, u64)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let ["tfd:", at, "events:", events, "data:", data, _, of, _] = words.as_slice() else { return None };
    let of = u64::from_str_radix(of.strip_prefix("ino:")?, 16).ok()?;
    let is_it = at.parse::<i32>().is_ok_and(|at| at == number) && of == inode;
    if !is_it {
        return None;
    }
    Some((u32::from_str_radix(events, 16).ok()?, u64::from_str_radix(data, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::io::{BufRead as _, BufReader};
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::MetadataExt as _;
    use std::process::{Command, Stdio};
    use std::time::Instant;

    use rustix::event::epoll::{self, EventData, EventFlags};

    use super::*;

    #[test]
    fn a_line_says_what_a_file_is_watched_for() {
        let line = "tfd:       12 events: 80002019 data:     7f00deadbeef  pos:0 ino:2f1 sdev:9";
        assert_eq!(watched(line, 12, 0x2f1), Some((0x8000_2019, 0x7f00_dead_beef)));
        assert_eq!(watched(line, 13, 0x2f1), None);
        assert_eq!(watched(line, 12, 0x2f2), None);
        assert_eq!(watched("pos:\t0", 12, 0x2f1), None);
    }

    #[test]
    fn the_kernel_writes_such_lines() {
        let instance = epoll::create(epoll::CreateFlags::CLOEXEC).expect("an instance");
        let (one, _other) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let events = EventFlags::IN | EventFlags::ET;
        epoll::add(&instance, &one, EventData::new_u64(u64::MAX - 1), events).expect("watched");
        let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", instance.as_raw_fd())).expect("it is there");
        let inode = fs::metadata(format!("/proc/self/fd/{}", one.as_raw_fd())).expect("it is there").ino();
        let (found, data) = member(&info, one.as_raw_fd(), inode).unwrap_or_else(|| panic!("{info}"));
        assert_eq!((found & events.bits(), data), (events.bits(), u64::MAX - 1));
        assert_eq!(member(&info, one.as_raw_fd(), inode + 1), None);
    }

    #[test]
    fn instances_that_watch_a_file_are_found_among_all_descriptors() {
        let instances = [0; 3].map(|_| epoll::create(epoll::CreateFlags::CLOEXEC).expect("an instance"));
        let (one, other) = std::os::unix::net::UnixStream::pair().expect("a pair");
        for (instance, data) in instances.iter().take(2).zip(0..) {
            epoll::add(instance, &other, EventData::new_u64(7), EventFlags::IN).expect("watched");
            epoll::add(instance, &one, EventData::new_u64(data), EventFlags::IN).expect("watched");
        }
        let inode = rustix::fs::fstat(&one).expect("it is there").st_ino;
        let tid = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
        let mut found: Vec<u64> = watching(tid, one.as_raw_fd(), inode).iter().map(|one| one.data).collect();
        found.sort_unstable();
        assert_eq!(found, [0, 1]);
        assert!(watching(tid, one.as_raw_fd(), inode + 1).is_empty(), "another file");
        assert!(watching(u32::MAX, one.as_raw_fd(), inode).is_empty(), "no thread");
    }

    #[test]
    fn an_instance_is_known_by_its_link() {
        let instance = epoll::create(epoll::CreateFlags::CLOEXEC).expect("an instance");
        let (one, _other) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let folder = fs::File::open("/proc/self/fd").expect("it is there").into();
        let says = |number: i32| is_instance(&folder, &CString::new(number.to_string()).expect("digits"));
        assert!(says(instance.as_raw_fd()) && !says(one.as_raw_fd()) && !says(i32::MAX));
    }

    /// A program that has so many descriptors: half of them sockets that one instance watches; two more sockets, of which it watches the first.
    const PROGRAM: &str = "
import os, resource, select, socket, sys
count = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (count + 100, max(count + 100, resource.getrlimit(resource.RLIMIT_NOFILE)[1])))
instance = select.epoll()
sockets = [socket.socket(socket.AF_UNIX) for _ in range(count)]
for one in sockets[:count // 2]:
    instance.register(one, select.EPOLLIN)
pair = socket.socketpair()
instance.register(pair[0], select.EPOLLIN)
print(*(word for one in pair for word in (one.fileno(), os.fstat(one.fileno()).st_ino)), flush=True)
sys.stdin.read()
";

    #[test]
    #[ignore = "a measurement: cargo test --release -p napier-linux --lib -- --ignored --nocapture until_instances_are_found"]
    fn until_instances_are_found() {
        for count in ["300", "2400"] {
            let mut command = Command::new(napier_testkit::python());
            command.args(["-c", PROGRAM, count]).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut program = command.spawn().expect("Python");
            let mut said = String::new();
            BufReader::new(program.stdout.take().expect("a pipe")).read_line(&mut said).expect("text");
            let said: Vec<u64> = said.split_whitespace().map(|word| word.parse().expect("a number")).collect();
            for (at, what) in [(0, "is watched"), (2, "is not")] {
                let (number, inode) = (said[at] as i32, said[at + 1]);
                let look = |_| {
                    let begun = Instant::now();
                    let found = watching(program.id(), number, inode).len();
                    assert_eq!(found, usize::from(at == 0));
                    begun.elapsed().as_micros()
                };
                let (first, mut took) = (look(0), [0; 21].map(look));
                took.sort_unstable();
                println!(
                    "{count} descriptors, one that {what}: at first {first} us, then {} [{}, {}]",
                    took[10], took[0], took[20]
                );
            }
            drop(program.stdin.take());
            program.wait().expect("it ends");
        }
    }
}

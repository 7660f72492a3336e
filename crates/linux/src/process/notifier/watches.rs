//! Epoll instances of a program that watch a socket whose place another one takes.

use std::fs;
use std::io;
use std::os::fd::AsFd;

use super::{HeldSocketCall, Notifier};
use crate::sys::watch::{WatchedBy, watch_instead};

/// Descriptors of a program that are looked at, and instances among them.
const DESCRIPTORS_MAX: usize = 1 << 16;
const INSTANCES_MAX: usize = 64;
/// What an epoll instance is by its link. Source: `fs/eventpoll.c do_epoll_create`.
const INSTANCE_LINK: &str = "anon_inode:[eventpoll]";

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
        let mut found = Vec::new();
        let folder = format!("/proc/{}", held.tid());
        let Ok(descriptors) = fs::read_dir(format!("{folder}/fd")) else { return Watches::default() };
        for entry in descriptors.flatten().take(DESCRIPTORS_MAX) {
            if found.len() >= INSTANCES_MAX
                || !fs::read_link(entry.path()).is_ok_and(|link| link.as_os_str() == INSTANCE_LINK)
            {
                continue;
            }
            let Some(at) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
            let info = fs::read_to_string(format!("{folder}/fdinfo/{at}")).unwrap_or_default();
            let Some((events, data)) = info.lines().find_map(|line| watched(line, number, inode)) else { continue };
            if let Ok(epoll) = self.copy_of(held.tid(), at) {
                found.push(WatchedBy { epoll, events, data });
            }
        }
        Watches(found)
    }
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
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::MetadataExt as _;

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
        let found: Vec<_> = info.lines().filter_map(|line| watched(line, one.as_raw_fd(), inode)).collect();
        let [(found, data)] = found.as_slice() else { panic!("{info}") };
        assert_eq!((found & events.bits(), *data), (events.bits(), u64::MAX - 1));
    }
}

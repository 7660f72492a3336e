//! Descriptors of the kernel beside sockets, in one wait.

use std::io::{PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};

use crate::event::tests::fake::{FakeEngine, FakeSocket, N1};
use crate::event::{Event, EventContext, Interest, JointContext, Timeout};
use crate::host::Dependant as _;

struct Rig {
    joint: JointContext,
    socket: FakeSocket,
    reads: PipeReader,
    writes: PipeWriter,
}

const SOCKET: u64 = 1;
const PIPE: u64 = 2;

impl Rig {
    fn new() -> Self {
        let joint = JointContext::new(Arc::new(FakeEngine::default()).context()).unwrap();
        let (socket, (reads, writes)) = (FakeSocket::new(), std::io::pipe().unwrap());
        joint.context().add(&socket, Interest::IN, SOCKET).unwrap();
        joint.add(&reads, Interest::IN, PIPE).unwrap();
        Self { joint, socket, reads, writes }
    }

    fn write(&self) {
        (&self.writes).write_all(b"x").unwrap();
    }

    fn read_socket(&self) {
        assert!(self.socket.receive_all() > 0);
    }

    fn read(&self) {
        (&self.reads).read_exact(&mut [0]).unwrap();
    }
}

/// The data words of what is ready, sorted.
fn look(joint: &JointContext, room: usize, timeout: Timeout) -> Vec<u64> {
    let mut events = vec![Event::default(); room];
    let found = joint.wait(&mut events, timeout).unwrap();
    let mut words: Vec<u64> = events[..found].iter().map(|event| event.data).collect();
    words.sort_unstable();
    words
}

fn is_readable(descriptor: &impl AsFd) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut [PollFd::new(descriptor, PollFlags::IN)], Some(&now)).unwrap() == 1
}

#[test]
fn each_kind_is_reported_with_its_word() {
    let rig = Rig::new();
    for timeout in
        [Timeout::Now, Timeout::Outside, Timeout::After(Duration::from_micros(1)), Timeout::After(Duration::ZERO)]
    {
        assert_eq!(look(&rig.joint, 8, timeout), []);
    }
    rig.write();
    for timeout in [Timeout::Now, Timeout::Never] {
        assert_eq!(look(&rig.joint, 8, timeout), [PIPE]);
    }
    rig.read();
    rig.socket.deliver(N1);
    assert_eq!(look(&rig.joint, 8, Timeout::Never), [SOCKET]);
    rig.socket.receive_all();
    assert_eq!(look(&rig.joint, 8, Timeout::Now), []);
}

#[test]
fn neither_kind_starves_the_other() {
    let rig = Rig::new();
    for room in [1, 2, 8] {
        rig.write();
        rig.socket.deliver(N1);
        let mut seen = [0; 3];
        for _ in 0..100 {
            look(&rig.joint, room, Timeout::Now).into_iter().for_each(|word| seen[word as usize] += 1);
        }
        assert!(seen[SOCKET as usize] > 50 && seen[PIPE as usize] > 1, "{room}: {seen:?}");
        rig.read();
        rig.socket.receive_all();
    }
}

#[test]
fn a_sleeper_is_woken_by_either() {
    let rig = Rig::new();
    for round in 0..200 {
        thread::scope(|scope| {
            let sleeps = scope.spawn(|| look(&rig.joint, 8, Timeout::Never));
            if round % 3 == 0 {
                thread::sleep(Duration::from_millis(1));
            }
            let word = if round % 2 == 0 { SOCKET } else { PIPE };
            if word == SOCKET {
                rig.socket.deliver(N1)
            } else {
                rig.write()
            }
            assert_eq!(sleeps.join().unwrap(), [word]);
            if word == SOCKET { rig.read_socket() } else { rig.read() }
        });
    }
}

#[test]
fn a_member_is_changed_and_deleted_as_in_epoll() {
    let rig = Rig::new();
    rig.write();
    rig.joint.modify(&rig.reads, Interest::IN | Interest::EDGE, 7).unwrap();
    assert_eq!(look(&rig.joint, 8, Timeout::Now), [7]);
    assert_eq!(look(&rig.joint, 8, Timeout::Now), [], "an edge is told of once");
    rig.joint.delete(&rig.reads).unwrap();
    rig.write();
    assert_eq!(look(&rig.joint, 8, Timeout::Now), []);
    let refused = |result: std::io::Result<()>| result.unwrap_err().raw_os_error();
    assert_eq!(refused(rig.joint.delete(&rig.reads)), Some(libc::ENOENT));
    rig.joint.add(&rig.reads, Interest::IN, PIPE).unwrap();
    assert_eq!(refused(rig.joint.add(&rig.reads, Interest::IN, PIPE)), Some(libc::EEXIST));
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    assert_eq!(refused(rig.joint.add(&file, Interest::IN, 0)), Some(libc::EPERM));
}

#[test]
fn it_nests() {
    let rig = Rig::new();
    assert!(is_readable(&rig.joint), "no wait has looked");
    assert_eq!(look(&rig.joint, 8, Timeout::Outside), []);
    assert!(!is_readable(&rig.joint));
    for word in [SOCKET, PIPE] {
        if word == SOCKET {
            rig.socket.deliver(N1)
        } else {
            rig.write()
        }
        assert!(is_readable(&rig.joint));
        assert_eq!(look(&rig.joint, 8, Timeout::Outside), [word]);
        if word == SOCKET {
            rig.read_socket()
        } else {
            rig.read()
        }
        assert_eq!(look(&rig.joint, 8, Timeout::Outside), []);
        assert!(!is_readable(&rig.joint));
    }
}

#[test]
fn errors_are_those_of_a_wait() {
    let engine = Arc::new(FakeEngine::default());
    let context: EventContext = engine.context();
    let joint = JointContext::new(context).unwrap();
    let refused = |events: &mut [Event]| joint.wait(events, Timeout::Never).unwrap_err().raw_os_error();
    for _ in 0..3 {
        assert_eq!(refused(&mut []), Some(libc::EINVAL));
    }
    joint.context().state().engine_stops();
    assert_eq!(refused(&mut [Event::default()]), Some(libc::ESHUTDOWN));
}

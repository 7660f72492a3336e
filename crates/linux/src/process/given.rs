//! Descriptors that held calls return.
//!
//! ```text
//! held --add: the program has it--> told --answer--> the call returns its number
//!                                    |\--> a signal ends the call: the one that its thread makes again gets that number
//!                                    \---> this process is killed: the keeper lets the call go on, which gets another one from the kernel
//! ```
//!
//! In one step (`SECCOMP_ADDFD_FLAG_SEND`) the call counts as answered before its thread has the descriptor, and returns 0 if this process is killed
//! then (`kernel/seccomp.c seccomp_notify_addfd`). In two the first descriptor stays in the program, which does not know of it, until that ends; so
//! does one whose call is not made again, and one that is no socket: whether it is still there is known by its inode, and epoll instances have one
//! in common.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::{FileType, fstat};

use super::thread::copy_of;
use crate::sys::held::{self, AnswerHeard};
use crate::sys::seccomp::Call;

/// So many are remembered.
const UNTOLD_MAX: usize = 64;

/// What became of an answer.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Given {
    /// The program has it; of a descriptor: its number there.
    Heard(i32),
    /// The call does not wait any more, so the program knows nothing of it.
    Gone,
    /// The kernel refuses to give it: the limit of the program's descriptors, with its number. The call has been answered with it.
    Refused(i32),
}

impl From<AnswerHeard> for Given {
    fn from(told: AnswerHeard) -> Self {
        match told {
            AnswerHeard::Heard(number) => Self::Heard(number),
            AnswerHeard::Gone => Self::Gone,
        }
    }
}

/// Gives descriptors to the held calls of one program.
#[derive(Default, Debug)]
pub(super) struct Giver {
    /// Those that the program has and has not been told of, the latest first.
    untold: VecDeque<Untold>,
}

/// A descriptor of a call that a signal ended before it was told the number.
#[derive(Debug)]
struct Untold {
    tid: u32,
    number: i32,
    inode: u64,
}

impl Giver {
    /// Lets a call return a new descriptor.
    ///
    /// # Errors
    /// None that is known.
    pub(super) fn give(
        &mut self,
        listener: BorrowedFd<'_>,
        call: &Call,
        fd: BorrowedFd<'_>,
        close_on_exec: bool,
    ) -> io::Result<Given> {
        match self.add(listener, call, fd, close_on_exec) {
            Ok(AnswerHeard::Heard(number)) => self.tell(listener, call, fd, number),
            Ok(AnswerHeard::Gone) => Ok(Given::Gone),
            Err(error) => {
                let error = error.raw_os_error().unwrap_or(libc::EIO);
                Ok(match held::answer(listener, call.id, 0, error)? {
                    AnswerHeard::Heard(_) => Given::Refused(error),
                    AnswerHeard::Gone => Given::Gone,
                })
            }
        }
    }

    /// The first step.
    fn add(
        &mut self,
        listener: BorrowedFd<'_>,
        call: &Call,
        fd: BorrowedFd<'_>,
        close_on_exec: bool,
    ) -> io::Result<AnswerHeard> {
        held::add(listener, call.id, fd, self.take(call.tid), close_on_exec)
    }

    /// The second one.
    fn tell(&mut self, listener: BorrowedFd<'_>, call: &Call, fd: BorrowedFd<'_>, number: i32) -> io::Result<Given> {
        let told = held::answer(listener, call.id, number.into(), 0)?;
        if told == AnswerHeard::Gone {
            self.note(call.tid, number, fd);
            return Ok(Given::Gone);
        }
        Ok(Given::Heard(number))
    }

    /// Remembers a socket.
    fn note(&mut self, tid: u32, number: i32, fd: BorrowedFd<'_>) {
        let Some(inode) = socket_inode(fd) else { return };
        self.untold.truncate(UNTOLD_MAX - 1);
        self.untold.push_front(Untold { tid, number, inode });
    }

    /// The number of one that the thread has not been told of, if it still has it there.
    fn take(&mut self, tid: u32) -> Option<i32> {
        let at = self.untold.iter().position(|untold| untold.tid == tid)?;
        let Untold { number, inode, .. } = self.untold.remove(at)?;
        let copy = copy_of(tid, number).ok()?;
        (socket_inode(&copy) == Some(inode)).then_some(number)
    }
}

/// What a socket is known by; `None` for other files.
fn socket_inode(file: impl std::os::fd::AsFd) -> Option<u64> {
    let found = fstat(file).ok()?;
    (FileType::from_raw_mode(found.st_mode) == FileType::Socket).then_some(found.st_ino)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
    use std::os::unix::net::UnixStream;
    use std::process::{Child, Command, Stdio};

    use rustix::event::epoll::{CreateFlags, create};
    use rustix::process::{Pid, Signal, kill_process};

    use super::*;
    use crate::sys::keeper::{self, Handed};
    use crate::sys::seccomp::{self, EPOLL_CREATE1, SOCKET};

    /// Says the number of what it has made, and how many descriptors it has got. A call that a signal ends is made again. The module for sockets makes
    /// an epoll instance when it is loaded.
    const CALLER: &str = "
import os, select, signal
signal.signal(signal.SIGUSR1, lambda *_: None)
signal.siginterrupt(signal.SIGUSR1, False)
before = len(os.listdir('/proc/self/fd'))
made = MADE
after = len(os.listdir('/proc/self/fd'))
print(made.fileno(), after - before)
";

    struct Held {
        listener: OwnedFd,
        handed: Handed,
        caller: Child,
    }

    impl Held {
        fn start(test: &str, call: i32, made: &str) -> Option<Self> {
            let (keeper, handed) = keeper::start().expect("a process");
            let mut command = Command::new(napier_testkit::python());
            command.args(["-c", &CALLER.replace("MADE", made)]).stdout(Stdio::piped());
            match seccomp::spawn(&mut command, &[call], keeper) {
                Ok((caller, listener)) => Some(Self { listener, handed, caller }),
                Err(error) => {
                    napier_testkit::skip!(test, "no call can be held: {error}");
                    None
                }
            }
        }

        fn next(&mut self) -> Call {
            loop {
                if let Some(call) = self.handed.receive(self.listener.as_fd()).expect("a listener") {
                    return call;
                }
                assert!(self.caller.try_wait().expect("a child").is_none(), "it makes the call");
            }
        }

        /// Lets a signal end a call between the steps; the number of the one that comes in its place, and what the program says.
        fn interrupted(mut self, fd: BorrowedFd<'_>) -> (i32, Given, String) {
            let (mut giver, call) = (Giver::default(), self.next());
            let AnswerHeard::Heard(number) = giver.add(self.listener.as_fd(), &call, fd, true).expect("added") else {
                panic!("it waits");
            };
            let caller = Pid::from_child(&self.caller);
            kill_process(caller, Signal::USR1).expect("it lives");
            napier_testkit::eventually("the signal ends the call", || {
                !seccomp::is_waiting(self.listener.as_fd(), &call)
            });
            let told = giver.tell(self.listener.as_fd(), &call, fd, number).expect("an answer");
            assert_eq!(told, Given::Gone);
            let again = self.next();
            assert_eq!((again.tid, again.number), (call.tid, call.number));
            let given = giver.give(self.listener.as_fd(), &again, fd, true).expect("given");
            let mut said = String::new();
            self.caller.stdout.take().expect("a pipe").read_to_string(&mut said).expect("text");
            self.caller.wait().expect("it ends");
            (number, given, said)
        }
    }

    #[test]
    fn a_call_that_is_made_again_gets_the_socket_that_it_was_not_told_of() {
        let test = "a_call_that_is_made_again_gets_the_socket_that_it_was_not_told_of";
        let Some(held) = Held::start(test, SOCKET, "__import__('socket').socket()") else { return };
        let (socket, _other) = UnixStream::pair().expect("a pair");
        let (number, given, said) = held.interrupted(socket.as_fd());
        assert_eq!((given, said), (Given::Heard(number), format!("{number} 1\n")));
    }

    #[test]
    fn an_instance_of_which_a_call_was_not_told_is_left_for_another_one() {
        let test = "an_instance_of_which_a_call_was_not_told_is_left_for_another_one";
        let Some(held) = Held::start(test, EPOLL_CREATE1, "select.epoll()") else { return };
        let instance = create(CreateFlags::CLOEXEC).expect("an instance");
        let (number, given, said) = held.interrupted(instance.as_fd());
        let next = number + 1;
        assert_eq!((given, said), (Given::Heard(next), format!("{next} 2\n")));
    }

    #[test]
    fn what_a_thread_was_not_told_of_is_taken_once_and_only_if_it_is_still_there() {
        let tid = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
        let ((one, other), mut giver) = (UnixStream::pair().expect("a pair"), Giver::default());
        giver.note(tid, one.as_raw_fd(), one.as_fd());
        assert_eq!(giver.take(tid + 1), None, "it is another thread's");
        assert_eq!(giver.take(tid), Some(one.as_raw_fd()));
        assert_eq!(giver.take(tid), None, "it has been taken");
        giver.note(tid, one.as_raw_fd(), other.as_fd());
        assert_eq!(giver.take(tid), None, "another file has the number");
        for _ in 0..=UNTOLD_MAX {
            giver.note(tid, one.as_raw_fd(), one.as_fd());
        }
        assert_eq!(giver.untold.len(), UNTOLD_MAX);
    }
}

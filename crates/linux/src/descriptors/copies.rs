//! What is done with copies of a program's descriptors: on threads of their own, one copy at a time, each closed as soon as it was
//! asked.
//!
//! A copy has effects. While it is there, a close of the program's does not end the object: its port stays taken, and it stays in epoll
//! sets. If the program closes in that moment, the close of the copy is the last one, and what the object does then happens here: with
//! `SO_LINGER` it takes as long as the program has said. So a thread that hangs in a close is left to it, and another one goes on. Source:
//! `fs/file_table.c __fput`, `net/ipv4/af_inet.c inet_release`.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use super::{Kind, Process};
use crate::setting::KeyError;

/// A descriptor that is to be copied, if it still is what it was.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) process: Process,
    pub(crate) fd: i32,
    pub(crate) kind: Kind,
}

/// Without an answer for so long, a thread counts as one that hangs in a close.
const PATIENCE: Duration = Duration::from_millis(50);
/// So often, when there is nothing more to begin: the program has set the time of its close in between. 2 s, for on a busy
/// machine a thread may wait as long for a processor, and what it does not answer is as good as not there.
const IN_VAIN_MAX: u32 = 40;
/// Threads that may hang at a time; with more of them nothing is copied.
const HANDS_MAX: usize = 64;
/// How many there are.
static HANDS: AtomicUsize = AtomicUsize::new(0);

/// Calls `act` with a copy of each, and gives the answers in their order. What could not be copied for the number of those that hang is
/// [`KeyError::Away`].
pub(crate) fn each<R: Send + 'static>(
    asked: Vec<Asked>,
    act: impl Fn(usize, BorrowedFd<'_>) -> R + Send + Sync + 'static,
) -> Vec<Result<R, KeyError>> {
    let mut answers: Vec<Option<Result<R, KeyError>>> = asked.iter().map(|_| None).collect();
    let mut open = asked.len();
    let work = Arc::new(Work { asked, next: AtomicUsize::new(0), act });
    let (sender, receiver) = channel();
    let mut in_vain = 0;
    let mut may_go_on = open > 0 && hand(&work, &sender);
    while open > 0 && may_go_on {
        if let Ok((at, answer)) = receiver.recv_timeout(PATIENCE) {
            answers[at] = Some(answer);
            (open, in_vain) = (open - 1, 0);
            continue;
        }
        in_vain += 1;
        // Relaxed: whether there is more to take is asked again.
        let is_all_taken = work.next.load(Ordering::Relaxed) >= answers.len();
        may_go_on = if is_all_taken { in_vain < IN_VAIN_MAX } else { hand(&work, &sender) };
    }
    let late = || Err(KeyError::Away("descriptors that a program has closed are waited for".to_owned()));
    answers.into_iter().map(|answer| answer.unwrap_or_else(late)).collect()
}

/// The same for one.
pub(crate) fn one<R: Send + 'static>(
    process: &Process,
    fd: i32,
    kind: Kind,
    act: impl Fn(BorrowedFd<'_>) -> Result<R, KeyError> + Send + Sync + 'static,
) -> Result<R, KeyError> {
    let asked = vec![Asked { process: process.clone(), fd, kind }];
    each(asked, move |_, fd| act(fd)).pop().expect("one was asked")?
}

struct Work<F> {
    asked: Vec<Asked>,
    next: AtomicUsize,
    act: F,
}

type Answer<R> = (usize, Result<R, KeyError>);

/// Starts one more thread on the work; whether there may be one more.
fn hand<R: Send + 'static, F: Fn(usize, BorrowedFd<'_>) -> R + Send + Sync + 'static>(
    work: &Arc<Work<F>>,
    sender: &Sender<Answer<R>>,
) -> bool {
    // Relaxed: a count, which nothing else depends on.
    if HANDS.fetch_add(1, Ordering::Relaxed) >= HANDS_MAX {
        HANDS.fetch_sub(1, Ordering::Relaxed);
        return false;
    }
    let (work, sender) = (work.clone(), sender.clone());
    let begun = std::thread::Builder::new().name("copies".to_owned()).spawn(move || {
        loop {
            // Relaxed: which thread takes which is all the same, and the list was there before the thread.
            let at = work.next.fetch_add(1, Ordering::Relaxed);
            let Some(Asked { process, fd, kind }) = work.asked.get(at) else { break };
            let answer = match process.duplicate_of(*fd, *kind) {
                Err(error) => Err(error),
                Ok(copy) => {
                    let answer = (work.act)(at, copy.as_fd());
                    // Its close may take its time: no thread waits for that.
                    if rustix::net::sockopt::socket_linger(&copy).is_ok_and(|linger| linger.is_some()) {
                        let _ = sender.send((at, Ok(answer)));
                        continue;
                    }
                    // Closed first, for the thread that is told would take this one's place on its CPU.
                    drop(copy);
                    Ok(answer)
                }
            };
            let _ = sender.send((at, answer));
        }
        HANDS.fetch_sub(1, Ordering::Relaxed);
    });
    if begun.is_err() {
        HANDS.fetch_sub(1, Ordering::Relaxed);
    }
    begun.is_ok()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd as _;
    use std::sync::Mutex;

    use super::*;

    /// A program closes a socket with `SO_LINGER` while it is copied: the close of the copy is the last one, and takes an hour.
    #[test]
    fn a_close_that_takes_its_time_is_waited_for_by_nobody() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let mut client = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
        client.set_nonblocking(true).expect("set");
        while client.write(&[0; 1 << 16]).is_ok() {}
        let hour = Some(Duration::from_secs(3600));
        rustix::net::sockopt::set_socket_linger(&client, hour).expect("set");
        let (fd, inode) = (client.as_raw_fd(), rustix::fs::fstat(&client).expect("told").st_ino);
        let own = Process::open(std::process::id()).expect("it runs");
        let client = Mutex::new(Some(client));
        let asked = Asked { process: own.clone(), fd, kind: Kind::Socket(inode) };
        let closed = each(vec![asked], move |_, _| drop(client.lock().expect("one has it").take()));
        assert!(matches!(closed[..], [Ok(())]), "{closed:?}");
        // The copy is what holds it now, and others are copied all the same.
        let other = TcpListener::bind("127.0.0.1:0").expect("bound");
        let kind = Kind::Socket(rustix::fs::fstat(&other).expect("told").st_ino);
        assert!(one(&own, other.as_raw_fd(), kind, |_| Ok(())).is_ok());
        assert!(HANDS.load(Ordering::Relaxed) > 0, "the close has an hour");
    }

    #[test]
    fn a_number_that_another_has_by_now_is_not_asked() {
        let own = Process::open(std::process::id()).expect("it runs");
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let asked = |kind| Asked { process: own.clone(), fd: listener.as_raw_fd(), kind };
        let answers = each(vec![asked(Kind::Epoll), asked(Kind::Socket(1))], |_, _| unreachable!("it is another"));
        assert!(answers.iter().all(|answer| matches!(answer, Err(KeyError::Gone(_)))), "{answers:?}");
    }
}

//! A program, from outside: its threads in `/proc`, its descriptors by `pidfd_getfd(2)`.

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;

use super::machine::{names, text};
use super::{Epoll, EpollParams, FactsError, Program, Socket, Thread};
use crate::change::KeyError;
use crate::process::copies::{self, Asked};
use crate::process::{Kind, Process};
use crate::socket::BusyOption;
use crate::{Netns, epoll, socket};

/// Descriptors of a program that are looked at; of more it is said.
const DESCRIPTORS_MAX: usize = 16384;

/// The namespace of a process, or of a thread.
///
/// # Errors
/// There is no such process, or it is another user's.
pub fn namespace_of(pid: u32) -> io::Result<Netns> {
    Ok(Netns::of(File::open(format!("/proc/{pid}/ns/net"))?.into()))
}

pub(super) fn read(pid: u32, unseen: &mut Vec<String>) -> Result<Program, FactsError> {
    let name = text(&format!("/proc/{pid}/comm")).ok_or(FactsError::NoProgram { pid })?;
    let tids = names(&format!("/proc/{pid}/task"), "").into_iter().filter_map(|tid| tid.parse().ok());
    let threads = tids.filter_map(|tid| Thread::of(tid).ok()).collect();
    let mut program = Program { pid, name, threads, epolls: Vec::new(), sockets: Vec::new() };
    if let Err(why) = descriptors(&mut program, unseen) {
        unseen.push(format!("epoll instances and sockets of {pid}: {why}"));
    }
    Ok(program)
}

fn descriptors(program: &mut Program, unseen: &mut Vec<String>) -> Result<(), KeyError> {
    let pid = program.pid;
    let process = Process::open(pid)?;
    let mut found = process.descriptors()?;
    if found.len() > DESCRIPTORS_MAX {
        unseen.push(format!("descriptors of {pid} beyond the first {DESCRIPTORS_MAX}"));
        found.truncate(DESCRIPTORS_MAX);
    }
    // A copy has effects: each is there for these calls only, and its close keeps nobody waiting.
    let asked = found.iter().map(|(fd, kind)| Asked { process: process.clone(), fd: *fd, kind: *kind }).collect();
    let wanted = found.clone();
    let answers = copies::each(asked, move |at, copy| match wanted[at] {
        (fd, Kind::Epoll) => Seen::Epoll(epoll_facts(pid, fd, copy)),
        (fd, Kind::Socket(_)) => Seen::Socket(socket_facts(fd, copy)),
    });
    for answer in answers {
        match answer {
            Ok(Seen::Epoll(epoll)) => program.epolls.push(epoll),
            Ok(Seen::Socket(socket)) => program.sockets.extend(socket),
            // A descriptor that was closed meanwhile is passed over.
            Err(KeyError::Gone(_) | KeyError::Away(_)) => {}
            Err(error) => return Err(error),
        }
    }
    program.epolls.sort_by_key(|epoll| epoll.fd);
    program.sockets.sort_by_key(|socket| socket.fd);
    Ok(())
}

enum Seen {
    Epoll(Epoll),
    Socket(Option<Socket>),
}

fn epoll_facts(pid: u32, fd: i32, own: BorrowedFd<'_>) -> Epoll {
    let params = epoll::params(own).ok().map(|params| EpollParams {
        busy_poll_usecs: params.busy_poll_usecs,
        busy_poll_budget: params.busy_poll_budget,
        prefer_busy_poll: params.prefer_busy_poll,
    });
    // `proc_pid_fdinfo(5)`: a line for each descriptor that it waits for.
    let info = text(&format!("/proc/{pid}/fdinfo/{fd}")).unwrap_or_default();
    let member = |line: &str| line.strip_prefix("tfd:")?.split_whitespace().next()?.parse().ok();
    Epoll { fd, params, members: info.lines().filter_map(member).collect() }
}

/// `None` for a socket that neither busy polls nor has received from an instance.
fn socket_facts(fd: i32, own: BorrowedFd<'_>) -> Option<Socket> {
    let get = |option| socket::get(own, option).unwrap_or(0);
    let napi_id = u32::try_from(get(BusyOption::IncomingNapiId)).ok().filter(|id| *id != 0);
    let busy_poll_usecs = u32::try_from(get(BusyOption::BusyPoll)).unwrap_or(0);
    let prefer_busy_poll = get(BusyOption::PreferBusyPoll) != 0;
    let is_any = napi_id.is_some() || busy_poll_usecs != 0 || prefer_busy_poll;
    is_any.then_some(Socket { fd, busy_poll_usecs, prefer_busy_poll, napi_id })
}

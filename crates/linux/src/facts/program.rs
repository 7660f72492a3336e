//! A program, from outside: its threads in `/proc`, its descriptors by `pidfd_getfd(2)`.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::machine::{names, text};
use super::{Epoll, EpollParams, FactsError, Program, Socket, Thread};
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
        unseen.push(format!("epoll instances and sockets of {pid}: {why}; needs CAP_SYS_PTRACE"));
    }
    Ok(program)
}

fn descriptors(program: &mut Program, unseen: &mut Vec<String>) -> io::Result<()> {
    let pid = program.pid;
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::NotFound)?;
    let process = pidfd_open(raw, PidfdFlags::empty())?;
    let mut denied = None;
    for (count, entry) in fs::read_dir(format!("/proc/{pid}/fd"))?.enumerate() {
        if count == DESCRIPTORS_MAX {
            unseen.push(format!("descriptors of {pid} beyond the first {DESCRIPTORS_MAX}"));
            break;
        }
        let Ok(entry) = entry else { continue };
        let Ok(target) = fs::read_link(entry.path()) else { continue };
        let target = target.to_string_lossy();
        let Some(fd) = entry.file_name().to_str().and_then(|fd| fd.parse::<i32>().ok()) else { continue };
        let (is_epoll, is_socket) = (target == "anon_inode:[eventpoll]", target.starts_with("socket:"));
        if !is_epoll && !is_socket {
            continue;
        }
        // A descriptor that was closed meanwhile is passed over.
        match pidfd_getfd(&process, fd, PidfdGetfdFlags::empty()) {
            Ok(own) if is_epoll => program.epolls.push(epoll_facts(pid, fd, &own)),
            Ok(own) => program.sockets.extend(socket_facts(fd, &own)),
            Err(error @ (rustix::io::Errno::PERM | rustix::io::Errno::ACCESS | rustix::io::Errno::NOSYS)) => {
                denied = Some(error);
                break;
            }
            Err(_) => {}
        }
    }
    program.epolls.sort_by_key(|epoll| epoll.fd);
    program.sockets.sort_by_key(|socket| socket.fd);
    denied.map_or(Ok(()), |error| Err(error.into()))
}

fn epoll_facts(pid: u32, fd: i32, own: &OwnedFd) -> Epoll {
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
fn socket_facts(fd: i32, own: &OwnedFd) -> Option<Socket> {
    let get = |option| socket::get(own, option).unwrap_or(0);
    let napi_id = u32::try_from(get(BusyOption::IncomingNapiId)).ok().filter(|id| *id != 0);
    let busy_poll_usecs = u32::try_from(get(BusyOption::BusyPoll)).unwrap_or(0);
    let prefer_busy_poll = get(BusyOption::PreferBusyPoll) != 0;
    let is_any = napi_id.is_some() || busy_poll_usecs != 0 || prefer_busy_poll;
    is_any.then_some(Socket { fd, busy_poll_usecs, prefer_busy_poll, napi_id })
}

//! The calls of application threads.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use napier_core::time::Span;
use napier_scenario::{Answer, Call, Callable, SocketIx};
use rustix::event::{PollFd, PollFlags, Timespec, epoll};
use rustix::net::RecvFlags;

use super::rig::KernelRig;
use super::{Refused, control};
use crate::real::answers::{Made, answer, epoll_params, errno};
use crate::real::clock::RunPace;
use crate::real::{failed, refused};

/// `SO_INCOMING_NAPI_ID`.
const INCOMING_NAPI_ID: i32 = 56;
const NS_PER_S: u64 = 1_000_000_000;

/// Makes a call.
pub(super) fn make(rig: &KernelRig<'_>, pace: RunPace<'_>, call: &Call) -> Made {
    let answer = match call {
        Call::EpollWait { epoll, timeout, max_events } => return wait(rig, pace, epoll.at(), *timeout, *max_events),
        Call::Recv { socket, nonblock, timeout } => recv(rig, pace, *socket, *nonblock, *timeout)?,
        Call::Poll { sockets, timeout } => poll(rig, pace, sockets, *timeout)?,
        Call::EpollClose { epoll } => {
            drop(rig.close_epoll(epoll.at()));
            Answer::Number(0)
        }
        call => quick(rig, call)?,
    };
    Ok((answer, Vec::new()))
}

fn quick(rig: &KernelRig<'_>, call: &Call) -> Result<Answer, Refused> {
    match call {
        Call::Socket { socket } => {
            if rig.scenario.machine.sockets[socket.at()].connected {
                return Err(refused("a socket that is opened later is not connected by this executor"));
            }
            rig.open_socket(socket.at())?;
            Ok(Answer::Number(0))
        }
        Call::SetSockOpt { socket, option, value, optlen } => {
            let bytes = value.to_ne_bytes();
            let bytes = bytes.get(..*optlen as usize).ok_or_else(|| refused("an option of more than 4 bytes"))?;
            answer(napier_linux::socket::set_number(open(rig, *socket)?.as_fd(), *option, bytes))
        }
        Call::GetSockOpt { socket, option } => {
            match napier_linux::socket::get_number(open(rig, *socket)?.as_fd(), *option) {
                Err(error) => errno(&error).map(Answer::Error),
                Ok(value) => {
                    let id = (*option == INCOMING_NAPI_ID).then(|| u64::from(value.unsigned_abs()));
                    let name = id.filter(|id| *id != 0).and_then(|id| rig.name_of_id(id));
                    Ok(name.map_or(Answer::Number(value.into()), Answer::Text))
                }
            }
        }
        Call::EpollAdd { .. } | Call::EpollMod { .. } | Call::EpollDel { .. } => member(rig, call),
        Call::EpollSetParams { epoll, params } => {
            answer(napier_linux::epoll::request_params(context(rig, epoll.at())?.as_fd(), *params))
        }
        Call::EpollGetParams { epoll } => {
            let params = napier_linux::epoll::params(context(rig, epoll.at())?.as_fd());
            let params = params.map_err(|error| failed("reading the parameters of an epoll", error))?;
            Ok(epoll_params(params.busy_poll_usecs, params.busy_poll_budget, params.prefer_busy_poll))
        }
        Call::Ioctl { on, number } => {
            let done = match on {
                Callable::Socket(socket) => napier_linux::epoll::ioctl(open(rig, *socket)?.as_fd(), *number),
                Callable::Epoll(epoll) => napier_linux::epoll::ioctl(context(rig, epoll.at())?.as_fd(), *number),
            };
            answer(done.ok_or_else(|| refused("what the ioctl does with its argument is not known"))?)
        }
        call => control::make(rig, call),
    }
}

fn open(rig: &KernelRig<'_>, socket: SocketIx) -> Result<Arc<std::net::UdpSocket>, Refused> {
    rig.socket(socket.at()).ok_or_else(|| refused("a socket that is not open has no descriptor"))
}

fn context(rig: &KernelRig<'_>, position: usize) -> Result<Arc<OwnedFd>, Refused> {
    rig.epoll(position).ok_or_else(|| refused("an event context that is closed has no descriptor"))
}

fn timespec(span: Duration) -> Timespec {
    let ns = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    let part = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
    Timespec { tv_sec: part(ns / NS_PER_S), tv_nsec: part(ns % NS_PER_S) }
}

fn recv(
    rig: &KernelRig<'_>,
    pace: RunPace<'_>,
    socket: SocketIx,
    nonblock: bool,
    timeout: Option<Span>,
) -> Result<Answer, Refused> {
    let open = open(rig, socket)?;
    if !nonblock {
        let set = open.set_read_timeout(Some(pace.limit(timeout).max(Duration::from_micros(1))));
        set.map_err(|error| failed("setting a time-out", error))?;
    }
    let flags = if nonblock { RecvFlags::DONTWAIT } else { RecvFlags::empty() };
    match rustix::net::recv(&*open, &mut [0; 2048], flags) {
        Ok(_) => Ok(Answer::Number(1)),
        Err(error) => errno(&error.into()).map(Answer::Error),
    }
}

fn poll(
    rig: &KernelRig<'_>,
    pace: RunPace<'_>,
    sockets: &[SocketIx],
    timeout: Option<Span>,
) -> Result<Answer, Refused> {
    let open = sockets.iter().map(|socket| open(rig, *socket)).collect::<Result<Vec<_>, _>>()?;
    let mut fds: Vec<_> = open.iter().map(|socket| PollFd::new(&**socket, PollFlags::IN)).collect();
    match rustix::event::poll(&mut fds, Some(&timespec(pace.limit(timeout)))) {
        Ok(ready) => Ok(Answer::Number(i64::try_from(ready).unwrap_or(i64::MAX))),
        Err(error) => errno(&error.into()).map(Answer::Error),
    }
}

fn wait(rig: &KernelRig<'_>, pace: RunPace<'_>, position: usize, timeout: Option<Span>, max_events: i64) -> Made {
    let context = context(rig, position)?;
    let none = epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) };
    let mut events = vec![none; usize::try_from(max_events).expect("checked before the start")];
    let found = epoll::wait(&*context, events.as_mut_slice(), Some(&timespec(pace.limit(timeout))));
    match found {
        Ok(found) => {
            let socket = |event: &epoll::Event| SocketIx(u16::try_from(event.data.u64()).expect("a socket's number"));
            let ready = events[..found].iter().map(socket).collect();
            Ok((Answer::Number(i64::try_from(found).unwrap_or(i64::MAX)), ready))
        }
        Err(error) => Ok((Answer::Error(errno(&error.into())?), Vec::new())),
    }
}

fn member(rig: &KernelRig<'_>, call: &Call) -> Result<Answer, Refused> {
    let (Call::EpollAdd { epoll, socket } | Call::EpollMod { epoll, socket } | Call::EpollDel { epoll, socket }) = call
    else {
        unreachable!("only these three change members")
    };
    let (context, open) = (context(rig, epoll.at())?, open(rig, *socket)?);
    let data = epoll::EventData::new_u64(socket.0.into());
    let done = match call {
        Call::EpollAdd { .. } => epoll::add(&*context, &*open, data, epoll::EventFlags::IN),
        Call::EpollMod { .. } => epoll::modify(&*context, &*open, data, epoll::EventFlags::IN),
        _ => epoll::delete(&*context, &*open),
    };
    answer(done.map_err(Into::into))
}

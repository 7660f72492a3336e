//! The calls of application threads.

use std::time::Duration;

use napier_core::sockopt::BusyOption;
use napier_core::time::Span;
use napier_runtime::event::{Event, Interest, Timeout};
use napier_runtime::socket::SocketOption;
use napier_scenario::{Answer, Call, SocketIx};

use super::rig::EngineRig;
use super::{Refused, control};
use crate::real::answers::{Made, answer, epoll_params, errno};
use crate::real::clock::RunPace;
use crate::real::refused;

/// Makes a call.
pub(super) fn make(rig: &EngineRig<'_>, pace: RunPace<'_>, capable: bool, call: &Call) -> Made {
    let answer = match call {
        Call::Recv { socket, nonblock, timeout } => recv(rig, pace, *socket, *nonblock, *timeout)?,
        Call::EpollWait { epoll, timeout, max_events } => {
            return wait(rig, pace, epoll.at(), *timeout, *max_events);
        }
        Call::EpollClose { epoll } => {
            drop(rig.close_epoll(epoll.at()));
            Answer::Number(0)
        }
        call => {
            let _capable = rig.capable(capable);
            quick(rig, call, capable)?
        }
    };
    Ok((answer, Vec::new()))
}

fn quick(rig: &EngineRig<'_>, call: &Call, capable: bool) -> Result<Answer, Refused> {
    match call {
        Call::Socket { socket } => {
            rig.open_socket(socket.at())?;
            Ok(Answer::Number(0))
        }
        Call::SetSockOpt { socket, option, value, .. } => set_option(rig, *socket, *option, *value),
        Call::GetSockOpt { socket, option } => get_option(rig, *socket, *option),
        Call::EpollAdd { .. } | Call::EpollMod { .. } | Call::EpollDel { .. } => member(rig, call),
        Call::EpollSetParams { epoll, params } => {
            let set = context(rig, epoll.at())?.set_params(*params);
            Ok(set.map_err(|error| error.errno()).into())
        }
        Call::EpollGetParams { epoll } => {
            let params = context(rig, epoll.at())?.params();
            Ok(epoll_params(params.busy_poll_usecs, params.busy_poll_budget, params.prefer_busy_poll))
        }
        call => control::make(rig, call, capable),
    }
}

fn open(rig: &EngineRig<'_>, socket: SocketIx) -> Result<std::sync::Arc<napier_runtime::socket::UdpSocket>, Refused> {
    rig.socket(socket.at()).ok_or_else(|| refused("a socket of the engine that is not open cannot be named"))
}

fn context(rig: &EngineRig<'_>, position: usize) -> Result<napier_runtime::event::EventContext, Refused> {
    rig.epoll(position).ok_or_else(|| refused("an event context of the engine that is closed cannot be named"))
}

fn recv(
    rig: &EngineRig<'_>,
    pace: RunPace<'_>,
    socket: SocketIx,
    nonblock: bool,
    timeout: Option<Span>,
) -> Result<Answer, Refused> {
    let open = open(rig, socket)?;
    let timeout = pace.limit(timeout).max(Duration::from_nanos(1));
    let set = open.set_nonblocking(nonblock).and_then(|()| open.set_read_timeout(Some(timeout)));
    set.expect("a time that is not zero is taken");
    match open.recv_merged(&mut [0; 2048]) {
        Ok(merged) => {
            rig.took(socket, merged.segments);
            Ok(Answer::Number(1))
        }
        Err(error) => Ok(Answer::Error(errno(&error)?)),
    }
}

fn wait(rig: &EngineRig<'_>, pace: RunPace<'_>, position: usize, timeout: Option<Span>, max_events: i64) -> Made {
    let context = context(rig, position)?;
    let room = usize::try_from(max_events).expect("checked before the start");
    let mut events = vec![Event::default(); room];
    let timeout = match timeout {
        Some(span) if span.is_zero() => Timeout::Now,
        timeout => Timeout::After(pace.limit(timeout)),
    };
    match context.wait(&mut events, timeout) {
        Ok(found) => {
            let number = i64::try_from(found).expect("at most as many as there was room for");
            let socket = |event: &Event| SocketIx(u16::try_from(event.data).expect("the number of a socket"));
            Ok((Answer::Number(number), events[..found].iter().map(socket).collect()))
        }
        Err(error) => Ok((Answer::Error(errno(&error.into())?), Vec::new())),
    }
}

fn member(rig: &EngineRig<'_>, call: &Call) -> Result<Answer, Refused> {
    let (Call::EpollAdd { epoll, socket } | Call::EpollMod { epoll, socket } | Call::EpollDel { epoll, socket }) = call
    else {
        unreachable!("only these three change members")
    };
    let (context, open) = (context(rig, epoll.at())?, open(rig, *socket)?);
    let data = u64::from(socket.0);
    answer(match call {
        Call::EpollAdd { .. } => context.add(&*open, Interest::IN, data).map_err(Into::into),
        Call::EpollMod { .. } => context.modify(&*open, Interest::IN, data).map_err(Into::into),
        _ => context.delete(&*open).map_err(Into::into),
    })
}

fn option(number: i32) -> Result<SocketOption, Refused> {
    let known = SocketOption::ALL.into_iter().find(|option| option.number() == number);
    known.ok_or_else(|| refused(format!("the engine has no socket option {number}")))
}

fn set_option(rig: &EngineRig<'_>, socket: SocketIx, number: i32, value: i32) -> Result<Answer, Refused> {
    answer(open(rig, socket)?.setsockopt(option(number)?, value).map_err(Into::into))
}

fn get_option(rig: &EngineRig<'_>, socket: SocketIx, number: i32) -> Result<Answer, Refused> {
    match open(rig, socket)?.getsockopt(option(number)?) {
        Err(error) => Ok(Answer::Error(errno(&error.into())?)),
        Ok(value) => {
            let id =
                (BusyOption::from_number(number) == Some(BusyOption::IncomingNapiId)).then(|| value.unsigned_abs());
            let name = id.filter(|id| *id != 0).and_then(|id| rig.name_of_id(id));
            Ok(name.map_or(Answer::Number(value.into()), Answer::Text))
        }
    }
}

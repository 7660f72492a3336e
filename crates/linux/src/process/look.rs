//! What the watcher asks of descriptors, and sets: each by a copy that is there for these calls only.

use std::os::fd::BorrowedFd;

use rustix::net::getpeername;

use crate::descriptors::copies::{self, Asked};
use crate::descriptors::ring::RingState;
use crate::descriptors::values::{
    EpollValue, SocketValue, epoll_value, is_internet, read_option, set_epoll, write_option,
};
use crate::setting::KeyError;
use crate::sys;

/// Asks instances.
pub(super) fn epolls(asked: &[Asked]) -> Vec<Result<EpollValue, KeyError>> {
    let answers = copies::each(asked.to_vec(), |_, fd| epoll_value(fd));
    answers.into_iter().map(|answer| answer.and_then(|answer| answer)).collect()
}

/// Sets instances, if they still have what they had, or have it by another descriptor.
pub(super) fn set_epolls(asked: &[(Asked, EpollValue)], wanted: EpollValue) -> Vec<Result<(), KeyError>> {
    let before: Vec<EpollValue> = asked.iter().map(|(_, found)| *found).collect();
    let asked = asked.iter().map(|(one, _)| one.clone()).collect();
    let answers = copies::each(asked, move |at, fd| match epoll_value(fd)? {
        found if found == wanted => Ok(()),
        found if found == before[at] => set_one(fd, wanted),
        _ => Err(KeyError::Away("it was changed meanwhile".to_owned())),
    });
    answers.into_iter().map(|answer| answer.and_then(|answer| answer)).collect()
}

fn set_one(fd: BorrowedFd<'_>, wanted: EpollValue) -> Result<(), KeyError> {
    set_epoll(fd, wanted)?;
    let found = epoll_value(fd)?;
    if found == wanted { Ok(()) } else { Err(KeyError::ReadsAs { found: found.to_string() }) }
}

/// Asks rings.
pub(super) fn rings(asked: &[Asked]) -> Vec<Result<RingState, KeyError>> {
    let answers = copies::each(asked.to_vec(), |_, fd| RingState::of(fd));
    answers.into_iter().map(|answer| answer.and_then(|answer| answer)).collect()
}

/// Sets rings, if they still have what they had.
pub(super) fn set_rings(asked: &[(Asked, RingState)], wanted: RingState) -> Vec<Result<(), KeyError>> {
    let before: Vec<RingState> = asked.iter().map(|(_, found)| *found).collect();
    let asked = asked.iter().map(|(one, _)| one.clone()).collect();
    let answers = copies::each(asked, move |at, fd| {
        if RingState::of(fd)? != before[at] {
            return Err(KeyError::Away("it was changed meanwhile".to_owned()));
        }
        wanted.set(fd)?;
        match RingState::of(fd) {
            // In use, and so not shown: the kernel has taken it.
            Err(KeyError::Away(_)) => Ok(()),
            Ok(found) if found != wanted => Err(KeyError::ReadsAs { found: found.to_string() }),
            read => read.map(|_| ()),
        }
    });
    answers.into_iter().map(|answer| answer.and_then(|answer| answer)).collect()
}

/// What is known of the first of those descriptors that is the same open instance. Where the kernel does not tell, it is the one with
/// its number in another process, as a child has it of its parent.
pub(super) fn same_instance<T>(one: (u32, i32), others: impl Iterator<Item = ((u32, i32), T)>) -> Option<T> {
    let others = others.take(INSTANCES_MAX);
    for (place, known) in others {
        let is_same = sys::same_file(one, place).unwrap_or(place.1 == one.1);
        if is_same && place != one {
            return Some(known);
        }
    }
    None
}

/// Instances that one is compared with.
const INSTANCES_MAX: usize = 4096;

/// What a socket has.
pub(super) struct SocketSeen {
    /// Options that shall be set, and what they are; `None` for one that no kernel tells.
    pub(super) options: Vec<(SocketValue, Option<i32>)>,
    pub(super) cookie: Option<u64>,
    pub(super) is_connected: bool,
}

/// Asks sockets; `None` for what a mode is not about.
pub(super) fn sockets(asked: &[Asked], wanted: &[SocketValue]) -> Vec<Result<Option<SocketSeen>, KeyError>> {
    let wanted = wanted.to_vec();
    let answers = copies::each(asked.to_vec(), move |_, fd| {
        if !is_internet(fd) {
            return Ok(None);
        }
        let options = wanted.iter().map(|wanted| Ok((*wanted, read_option(fd, *wanted)?)));
        let options = options.collect::<Result<Vec<_>, KeyError>>()?;
        Ok(Some(SocketSeen { options, cookie: cookie(fd), is_connected: getpeername(fd).is_ok() }))
    });
    answers.into_iter().map(|answer| answer.and_then(|answer| answer)).collect()
}

/// Sets sockets; whether something had to be.
pub(super) fn set_sockets(asked: &[(Asked, SocketSeen)]) -> Vec<Result<bool, KeyError>> {
    let wanted: Vec<Vec<SocketValue>> = asked
        .iter()
        .map(|(_, seen)| {
            let differing = seen.options.iter().filter(|(wanted, found)| *found != Some(wanted.value));
            differing.map(|(wanted, _)| *wanted).collect()
        })
        .collect();
    let is_any: Vec<bool> = wanted.iter().map(|wanted| !wanted.is_empty()).collect();
    let (at, asked): (Vec<usize>, Vec<Asked>) =
        asked.iter().enumerate().filter(|(at, _)| is_any[*at]).map(|(at, (one, _))| (at, one.clone())).unzip();
    let places = at.clone();
    let answers = copies::each(asked, move |nth, fd| {
        for wanted in &wanted[places[nth]] {
            write_option(fd, *wanted)?;
            match read_option(fd, *wanted)? {
                Some(found) if found != wanted.value => return Err(KeyError::ReadsAs { found: found.to_string() }),
                _ => {}
            }
        }
        Ok(true)
    });
    let mut all: Vec<Result<bool, KeyError>> = is_any.iter().map(|_| Ok(false)).collect();
    for (at, answer) in at.into_iter().zip(answers) {
        all[at] = answer.and_then(|answer| answer);
    }
    all
}

/// `SO_COOKIE`.
pub(super) fn cookie(fd: BorrowedFd<'_>) -> Option<u64> {
    sys::socket_cookie(fd, libc::SO_COOKIE).ok()
}

//! Parameters of epoll instances and options of sockets: as text, and read and set on a descriptor.

use std::fmt;
use std::os::fd::BorrowedFd;

use napier_core::event::EpollParams;
use napier_core::sockopt::{BusyOption, SockOptError};
use serde::{Deserialize, Serialize};

use crate::setting::KeyError;
use crate::{KernelError, epoll, socket, sys};

/// Parameters of an epoll instance.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash, Serialize, Deserialize)]
pub struct EpollValue {
    /// Busy-poll time in microseconds.
    pub busy_poll_usecs: u32,
    /// Packets per poll.
    pub busy_poll_budget: u16,
    /// Whether interrupts stay masked while the program polls.
    pub prefer_busy_poll: bool,
}

impl EpollValue {
    pub(crate) fn params(self) -> EpollParams {
        let Self { busy_poll_usecs, busy_poll_budget, prefer_busy_poll } = self;
        EpollParams { busy_poll_usecs, busy_poll_budget, prefer_busy_poll }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('/');
        let value = Self {
            busy_poll_usecs: parts.next()?.parse().ok()?,
            busy_poll_budget: parts.next()?.parse().ok()?,
            prefer_busy_poll: parts.next()?.parse::<u8>().ok()? != 0,
        };
        parts.next().is_none().then_some(value)
    }
}

impl From<EpollParams> for EpollValue {
    fn from(params: EpollParams) -> Self {
        let EpollParams { busy_poll_usecs, busy_poll_budget, prefer_busy_poll } = params;
        Self { busy_poll_usecs, busy_poll_budget, prefer_busy_poll }
    }
}

impl fmt::Display for EpollValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.busy_poll_usecs, self.busy_poll_budget, u8::from(self.prefer_busy_poll))
    }
}

/// An option of a socket, by its number, and its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
pub struct SocketValue {
    /// `SO_BUSY_POLL` and its like.
    pub option: i32,
    /// Its value.
    pub value: i32,
}

impl SocketValue {
    fn known(self) -> Result<BusyOption, KeyError> {
        let wrong = || KeyError::Value { value: self.option.to_string(), what: "a busy-poll option" };
        BusyOption::from_number(self.option).ok_or_else(wrong)
    }
}

/// What a socket is made with. Source: `net/core/sock.c sock_init_data_uid`.
pub(crate) fn initial(option: SocketValue) -> i32 {
    if option.option != BusyOption::BusyPoll as i32 {
        return 0;
    }
    let busy_read = std::fs::read_to_string("/proc/sys/net/core/busy_read");
    busy_read.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

pub(crate) fn epoll_value(fd: BorrowedFd<'_>) -> Result<EpollValue, KeyError> {
    epoll::params(fd).map(Into::into).map_err(KeyError::of)
}

pub(crate) fn set_epoll(fd: BorrowedFd<'_>, value: EpollValue) -> Result<(), KeyError> {
    epoll::set_params(fd, value.params()).map_err(KeyError::of)
}

pub(crate) fn read_option(fd: BorrowedFd<'_>, option: SocketValue) -> Result<Option<i32>, KeyError> {
    match socket::get(fd, option.known()?) {
        Ok(value) => Ok(Some(value)),
        Err(KernelError::Refused(SockOptError::WriteOnly(_))) => Ok(None),
        Err(error) => Err(KeyError::of(error)),
    }
}

pub(crate) fn write_option(fd: BorrowedFd<'_>, option: SocketValue) -> Result<(), KeyError> {
    socket::set(fd, option.known()?, option.value).map_err(KeyError::of)
}

/// Whether packets of an interface can come to it: IPv4, IPv6, AF_XDP.
pub(crate) fn is_internet(fd: BorrowedFd<'_>) -> bool {
    let domain = sys::socket_option(fd, libc::SO_DOMAIN);
    domain.is_ok_and(|domain| [libc::AF_INET, libc::AF_INET6, libc::AF_XDP].contains(&domain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_as_they_are_shown() {
        let value = EpollValue { busy_poll_usecs: 64, busy_poll_budget: 8, prefer_busy_poll: true };
        assert_eq!((value.to_string().as_str(), EpollValue::parse("64/8/1")), ("64/8/1", Some(value)));
        assert!(["", "1/2", "1/2/3/4", "a/b/c"].iter().all(|text| EpollValue::parse(text).is_none()));
    }
}

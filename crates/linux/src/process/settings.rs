//! What a mode sets on a program's own descriptors.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};

use napier_core::control::plan::{Plan, Write};
use napier_core::event::EpollParams;
use napier_core::sockopt::{BusyOption, SockOptError};
use serde::{Deserialize, Serialize};

use super::{Kind, Process, steer};
use crate::change::KeyError;
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
    fn params(self) -> EpollParams {
        let Self { busy_poll_usecs, busy_poll_budget, prefer_busy_poll } = self;
        EpollParams { busy_poll_usecs, busy_poll_budget, prefer_busy_poll }
    }

    fn parse(text: &str) -> Option<Self> {
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

/// What of a descriptor is noted by itself: where it was not as it is when it is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum DescriptorSetting {
    /// The parameters of an epoll instance, as `usecs/budget/prefer`.
    Epoll,
    /// An option of a socket.
    Socket {
        /// The socket.
        inode: u64,
        /// The option's number.
        option: i32,
    },
}

impl DescriptorSetting {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Epoll => "EPIOCSPARAMS",
            Self::Socket { option, .. } => BusyOption::from_number(*option).map_or("an option", BusyOption::name),
        }
    }

    pub(crate) fn read(&self, fd: BorrowedFd<'_>) -> Result<Option<String>, KeyError> {
        match self {
            Self::Epoll => epoll_value(fd).map(|value| Some(value.to_string())),
            Self::Socket { inode, option } => {
                same_socket(fd, *inode)?;
                read_option(fd, SocketValue { option: *option, value: 0 })
                    .map(|value| value.map(|value| value.to_string()))
            }
        }
    }

    pub(crate) fn write(&self, fd: BorrowedFd<'_>, text: &str) -> Result<(), KeyError> {
        let wrong = || KeyError::Value { value: text.to_owned(), what: self.name() };
        match self {
            Self::Epoll => set_epoll(fd, EpollValue::parse(text).ok_or_else(wrong)?),
            Self::Socket { inode, option } => {
                same_socket(fd, *inode)?;
                write_option(fd, SocketValue { option: *option, value: text.parse().map_err(|_| wrong())? })
            }
        }
    }
}

/// What a mode sets on each epoll instance and each internet socket of a program.
#[derive(Clone, PartialEq, Eq, Debug, Default, Hash, Serialize, Deserialize)]
pub struct ProgramSettings {
    /// For epoll instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoll: Option<EpollValue>,
    /// For sockets, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sockets: Vec<SocketValue>,
    /// Whether listeners of one port get the connections of one receive queue each.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub steer: bool,
}

impl ProgramSettings {
    /// What of a plan is for descriptors.
    #[must_use]
    pub fn of(plan: &Plan) -> Self {
        let option = |write: &Write| match write {
            Write::Socket(option, value) => Some(SocketValue { option: *option as i32, value: *value }),
            _ => None,
        };
        Self {
            epoll: plan.context().map(Into::into),
            sockets: plan.writes().filter_map(option).collect(),
            steer: false,
        }
    }

    /// Whether a mode leaves descriptors as they are.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.epoll.is_none() && self.sockets.is_empty() && !self.steer
    }

    /// In words, a line for each kind of descriptor.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let epoll = self
            .epoll
            .map(|value| format!("every epoll descriptor of the program: {}", Write::Context(value.params())));
        let name = |option: &SocketValue| BusyOption::from_number(option.option).map_or("an option", BusyOption::name);
        let socket = |option| format!("every internet socket of the program: {} {}", name(option), option.value);
        let steer = self.steer.then(|| {
            "every group of listeners of the program (SO_REUSEPORT): connections by receive queue (SO_ATTACH_REUSEPORT_CBPF)".to_owned()
        });
        epoll.into_iter().chain(self.sockets.iter().map(socket)).chain(steer).collect()
    }

    /// Makes those of a process's descriptors that have these settings as they were made.
    pub(crate) fn put_back(&self, process: &Process) -> Result<(), KeyError> {
        let mut refused = Ok(());
        let is_of_sockets = !self.sockets.is_empty() || self.steer;
        for (fd, kind) in process.descriptors()? {
            if matches!(kind, Kind::Socket(_)) && !is_of_sockets {
                continue;
            }
            let done = process.duplicate_of(fd, kind).and_then(|copy| match (kind, self.epoll) {
                (Kind::Epoll, Some(ours)) if epoll_value(copy.as_fd())? == ours => {
                    set_epoll(copy.as_fd(), EpollValue::default())
                }
                (Kind::Socket(_), _) if is_internet(copy.as_fd()) => self.put_back_socket(copy.as_fd()),
                _ => Ok(()),
            });
            match done {
                // Closed since.
                Ok(()) | Err(KeyError::Gone(_)) => {}
                Err(error) => refused = Err(error),
            }
        }
        refused
    }

    fn put_back_socket(&self, fd: BorrowedFd<'_>) -> Result<(), KeyError> {
        if self.steer {
            steer::put_back(fd)?;
        }
        for ours in self.sockets.iter().rev() {
            // One that cannot be read is as it was made if it is 0.
            if read_option(fd, *ours)?.is_none_or(|now| now == ours.value) {
                write_option(fd, SocketValue { value: initial(*ours), ..*ours })?;
            }
        }
        Ok(())
    }
}

/// What a socket is made with. Source: `net/core/sock.c sock_init_data_uid`.
pub(super) fn initial(option: SocketValue) -> i32 {
    if option.option != BusyOption::BusyPoll as i32 {
        return 0;
    }
    let busy_read = std::fs::read_to_string("/proc/sys/net/core/busy_read");
    busy_read.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

pub(super) fn epoll_value(fd: BorrowedFd<'_>) -> Result<EpollValue, KeyError> {
    epoll::params(fd).map(Into::into).map_err(KeyError::of)
}

pub(super) fn set_epoll(fd: BorrowedFd<'_>, value: EpollValue) -> Result<(), KeyError> {
    epoll::set_params(fd, value.params()).map_err(KeyError::of)
}

pub(super) fn read_option(fd: BorrowedFd<'_>, option: SocketValue) -> Result<Option<i32>, KeyError> {
    match socket::get(fd, option.known()?) {
        Ok(value) => Ok(Some(value)),
        Err(KernelError::Refused(SockOptError::WriteOnly(_))) => Ok(None),
        Err(error) => Err(KeyError::of(error)),
    }
}

pub(super) fn write_option(fd: BorrowedFd<'_>, option: SocketValue) -> Result<(), KeyError> {
    socket::set(fd, option.known()?, option.value).map_err(KeyError::of)
}

/// Whether packets of an interface can come to it: IPv4, IPv6, AF_XDP.
pub(super) fn is_internet(fd: BorrowedFd<'_>) -> bool {
    let domain = sys::socket_option(fd, libc::SO_DOMAIN);
    domain.is_ok_and(|domain| [libc::AF_INET, libc::AF_INET6, libc::AF_XDP].contains(&domain))
}

fn same_socket(fd: BorrowedFd<'_>, inode: u64) -> Result<(), KeyError> {
    let found = rustix::fs::fstat(fd).map_err(|error| KeyError::Io(error.into()))?;
    if found.st_ino == inode { Ok(()) } else { Err(KeyError::Gone("the socket is closed".to_owned())) }
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

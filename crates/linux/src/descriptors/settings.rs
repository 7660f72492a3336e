//! What one descriptor of a program is set to.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::os::fd::BorrowedFd;

use napier_core::sockopt::BusyOption;
use serde::{Deserialize, Serialize};

use super::ring::RingState;
use super::sockets::{self, Wanted};
use super::values::{EpollValue, SocketValue, epoll_value, read_option, set_epoll, write_option};
use super::{Kind, Process, ProcessRef, copies, holders, steer};
use crate::setting::{KeyError, Setting};
use crate::sys;

/// What of a descriptor is noted by itself: where it was not as it is when it is made, and of a socket that may outlive its program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum DescriptorSetting {
    /// The parameters of an epoll instance, as `usecs/budget/prefer`.
    Epoll,
    /// An option of a socket.
    Socket {
        /// The socket.
        inode: u64,
        /// `SO_COOKIE`, which no other socket gets.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cookie: Option<u64>,
        /// The option's number.
        option: i32,
    },
    /// Whether a ring of io_uring busy polls: `off`, or `usecs/prefer`.
    Ring {
        /// The ring.
        inode: u64,
    },
    /// The program by which its group gets connections.
    Steering {
        /// The socket.
        inode: u64,
        /// `SO_COOKIE`, which no other socket gets.
        cookie: Option<u64>,
    },
}

impl DescriptorSetting {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Epoll => "EPIOCSPARAMS",
            Self::Socket { option, .. } => BusyOption::from_number(*option).map_or("an option", BusyOption::name),
            Self::Ring { .. } => "IORING_REGISTER_NAPI",
            Self::Steering { .. } => "SO_ATTACH_REUSEPORT_CBPF",
        }
    }

    /// What a descriptor of a process has; or the socket, if it is another's by now.
    fn read(&self, process: &ProcessRef, fd: i32) -> Result<Option<String>, KeyError> {
        match *self {
            Self::Epoll => self.with(process, fd, move |fd| epoll_value(fd).map(|value| Some(value.to_string()))),
            Self::Socket { option, .. } => self.with(process, fd, move |fd| {
                read_option(fd, SocketValue { option, value: 0 }).map(|value| value.map(|value| value.to_string()))
            }),
            Self::Ring { .. } => self.with(process, fd, |fd| RingState::of(fd).map(|state| Some(state.to_string()))),
            Self::Steering { .. } => self.with(process, fd, |_| Ok(None)),
        }
    }

    fn write(&self, process: &ProcessRef, fd: i32, text: &str) -> Result<(), KeyError> {
        let wrong = || KeyError::Value { value: text.to_owned(), what: self.name() };
        match *self {
            Self::Epoll => {
                let value = EpollValue::parse(text).ok_or_else(wrong)?;
                self.with(process, fd, move |fd| set_epoll(fd, value))
            }
            Self::Socket { option, .. } => {
                let value = SocketValue { option, value: text.parse().map_err(|_| wrong())? };
                self.with(process, fd, move |fd| write_option(fd, value))
            }
            Self::Ring { .. } => {
                let state = RingState::parse(text).ok_or_else(wrong)?;
                self.with(process, fd, move |fd| state.set(fd))
            }
            Self::Steering { .. } => self.with(process, fd, steer::put_back),
        }
    }

    /// Calls `act` with the descriptor. A socket that its process has no more may be with another one: that it came from, or
    /// that it was passed to.
    fn with<R: Send + 'static>(
        &self,
        process: &ProcessRef,
        fd: i32,
        act: impl Fn(BorrowedFd<'_>) -> Result<R, KeyError> + Clone + Send + Sync + 'static,
    ) -> Result<R, KeyError> {
        let (inode, cookie) = match *self {
            Self::Epoll => return copies::one(&Process::again(process)?, fd, Kind::Epoll, act),
            Self::Ring { inode } => return copies::one(&Process::again(process)?, fd, Kind::Ring(inode), act),
            Self::Socket { inode, cookie, .. } | Self::Steering { inode, cookie } => (inode, cookie),
        };
        let checked = move |fd: BorrowedFd<'_>| {
            let found = sys::socket_cookie(fd, libc::SO_COOKIE).ok();
            match cookie {
                Some(cookie) if found != Some(cookie) => Err(KeyError::Gone("the socket is closed".to_owned())),
                _ => act(fd),
            }
        };
        let own =
            Process::again(process).and_then(|process| copies::one(&process, fd, Kind::Socket(inode), checked.clone()));
        match own {
            Err(KeyError::Gone(_)) => {
                holders::with(inode, |process, fd| copies::one(process, fd, Kind::Socket(inode), checked.clone()))
            }
            done => done,
        }
    }

    /// Whether nothing is left that has it. Asks no descriptor.
    pub(crate) fn is_over(&self, process: &ProcessRef) -> bool {
        match *self {
            Self::Epoll | Self::Ring { .. } => Process::again(process).is_err(),
            Self::Socket { inode, .. } | Self::Steering { inode, .. } => !holders::is_open(inode),
        }
    }
}

/// A descriptor of a process that its program had set itself.
#[derive(Clone, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
pub struct DescriptorKey {
    /// The process.
    pub process: ProcessRef,
    /// Its number there.
    pub fd: i32,
    /// What of it.
    pub setting: DescriptorSetting,
}

impl Setting for DescriptorKey {
    fn read(&self) -> Result<Option<String>, KeyError> {
        self.setting.read(&self.process, self.fd)
    }

    fn write(&self, value: &str) -> Result<(), KeyError> {
        self.setting.write(&self.process, self.fd, value)
    }

    fn command(&self, _value: &str) -> Option<String> {
        None
    }

    fn is_of_program(&self) -> bool {
        true
    }
}

impl fmt::Display for DescriptorKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of descriptor {} of {}", self.setting.name(), self.fd, self.process)
    }
}

/// What programs had set themselves, as entries say: it is not made as it was made.
#[derive(Debug, Default)]
pub struct OwnSettings {
    pub(super) epolls: HashSet<(ProcessRef, i32)>,
    /// By inode.
    pub(super) rings: HashSet<u64>,
    /// By inode and option.
    sockets: HashMap<(u64, i32), i32>,
}

impl OwnSettings {
    /// Takes note of what a descriptor had. The newest one of a number is about the object that has it now.
    pub(crate) fn note(&mut self, key: &DescriptorKey, before: Option<&str>) {
        let DescriptorKey { process, fd, setting } = key;
        match setting {
            DescriptorSetting::Epoll if before == Some(EpollValue::default().to_string().as_str()) => {
                self.epolls.remove(&(process.clone(), *fd));
            }
            DescriptorSetting::Epoll => {
                self.epolls.insert((process.clone(), *fd));
            }
            DescriptorSetting::Socket { inode, option, .. } => {
                let before = before.and_then(|before| before.parse().ok());
                self.sockets.extend(before.map(|before| ((*inode, *option), before)));
            }
            DescriptorSetting::Ring { inode } => {
                self.rings.insert(*inode);
            }
            DescriptorSetting::Steering { .. } => {}
        }
    }

    /// The same with what a process had accepted: that has what its listener had.
    pub(super) fn with_accepted(&self, process: &Process) -> HashMap<(u64, i32), i32> {
        let mut all = self.sockets.clone();
        if all.is_empty() {
            return all;
        }
        let rows = sockets::list_in(process.netns_apart().as_ref(), Wanted::Tcp).unwrap_or_default();
        let options: HashSet<i32> = self.sockets.keys().map(|(_, option)| *option).collect();
        let mut by_port = HashMap::new();
        for row in rows.iter().filter(|row| row.is_listening) {
            let own = options.iter().filter_map(|option| Some((*option, *self.sockets.get(&(row.inode, *option))?)));
            by_port.extend(own.map(|(option, before)| ((row.port, option), before)));
        }
        for row in rows.iter().filter(|row| !row.is_listening && row.inode != 0) {
            let own = options.iter().filter_map(|option| Some((*option, *by_port.get(&(row.port, *option))?)));
            own.for_each(|(option, before)| {
                all.entry((row.inode, option)).or_insert(before);
            });
        }
        all
    }
}

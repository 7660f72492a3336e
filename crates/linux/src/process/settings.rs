//! What a mode sets on a program's own descriptors.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::os::fd::BorrowedFd;

use napier_core::control::plan::{Plan, Write};
use napier_core::event::EpollParams;
use napier_core::sockopt::{BusyOption, SockOptError};
use serde::{Deserialize, Serialize};

use super::copies::{self, Asked};
use super::sockets::{self, Wanted};
use super::{Kind, Process, ProcessRef, holders, steer};
use crate::change::{Entry, Key, KeyError};
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
            Self::Steering { .. } => "SO_ATTACH_REUSEPORT_CBPF",
        }
    }

    /// What a descriptor of a process has; or the socket, if it is another's by now.
    pub(crate) fn read(&self, process: &ProcessRef, fd: i32) -> Result<Option<String>, KeyError> {
        match *self {
            Self::Epoll => self.with(process, fd, move |fd| epoll_value(fd).map(|value| Some(value.to_string()))),
            Self::Socket { option, .. } => self.with(process, fd, move |fd| {
                read_option(fd, SocketValue { option, value: 0 }).map(|value| value.map(|value| value.to_string()))
            }),
            Self::Steering { .. } => self.with(process, fd, |_| Ok(None)),
        }
    }

    pub(crate) fn write(&self, process: &ProcessRef, fd: i32, text: &str) -> Result<(), KeyError> {
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
            Self::Epoll => Process::again(process).is_err(),
            Self::Socket { inode, .. } | Self::Steering { inode, .. } => !holders::is_open(inode),
        }
    }
}

/// What programs had set themselves, as entries say: it is not made as it was made.
#[derive(Debug, Default)]
pub struct OwnSettings {
    epolls: HashSet<(ProcessRef, i32)>,
    /// By inode and option.
    sockets: HashMap<(u64, i32), i32>,
}

impl OwnSettings {
    /// Of descriptors that are noted by themselves.
    #[must_use]
    pub fn of(entries: &[Entry]) -> Self {
        let mut own = Self::default();
        for entry in entries {
            let Key::Descriptor { process, fd, setting } = &entry.key else { continue };
            match setting {
                // The newest one of a number is about the instance that has it now.
                DescriptorSetting::Epoll if entry.before == Some(EpollValue::default().to_string()) => {
                    own.epolls.remove(&(process.clone(), *fd));
                }
                DescriptorSetting::Epoll => {
                    own.epolls.insert((process.clone(), *fd));
                }
                DescriptorSetting::Socket { inode, option, .. } => {
                    let before = entry.before.as_deref().and_then(|before| before.parse().ok());
                    own.sockets.extend(before.map(|before| ((*inode, *option), before)));
                }
                DescriptorSetting::Steering { .. } => {}
            }
        }
        own
    }

    /// The same with what they had accepted: that has what its listener had.
    fn with_accepted(&self) -> HashMap<(u64, i32), i32> {
        let mut all = self.sockets.clone();
        if all.is_empty() {
            return all;
        }
        let rows = sockets::list(Wanted::Tcp).unwrap_or_default();
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

    /// Makes those of a process's descriptors that have these settings as they were made, but for those that it had set itself.
    pub(crate) fn put_back(&self, process: &Process, own: &OwnSettings) -> Result<(), KeyError> {
        let is_of_sockets = !self.sockets.is_empty() || self.steer;
        let is_ours = |fd: i32, kind: Kind| match kind {
            Kind::Epoll => self.epoll.is_some() && !own.epolls.contains(&(process.who().clone(), fd)),
            Kind::Socket(_) => is_of_sockets,
        };
        let found = process.descriptors()?.into_iter().filter(|(fd, kind)| is_ours(*fd, *kind));
        let asked: Vec<Asked> = found.map(|(fd, kind)| Asked { process: process.clone(), fd, kind }).collect();
        let kinds: Vec<Kind> = asked.iter().map(|asked| asked.kind).collect();
        let (settings, sockets) = (self.clone(), own.with_accepted());
        let answers = copies::each(asked, move |at, fd| match (kinds[at], settings.epoll) {
            (Kind::Epoll, Some(ours)) if epoll_value(fd)? == ours => set_epoll(fd, EpollValue::default()),
            (Kind::Socket(inode), _) if is_internet(fd) => {
                let before =
                    |ours: SocketValue| sockets.get(&(inode, ours.option)).copied().unwrap_or_else(|| initial(ours));
                settings.put_back_socket(fd, &before)
            }
            _ => Ok(()),
        });
        let refused = answers.into_iter().filter_map(|answer| answer.and_then(|done| done).err());
        // Closed since.
        let refused = refused.filter(|error| !matches!(error, KeyError::Gone(_))).last();
        refused.map_or(Ok(()), Err)
    }

    fn put_back_socket(&self, fd: BorrowedFd<'_>, before: &dyn Fn(SocketValue) -> i32) -> Result<(), KeyError> {
        if self.steer {
            steer::put_back(fd)?;
        }
        for ours in self.sockets.iter().rev() {
            let value = before(*ours);
            // One that cannot be read is as it was made if it is 0.
            if value != ours.value && read_option(fd, *ours)?.is_none_or(|now| now == ours.value) {
                write_option(fd, SocketValue { value, ..*ours })?;
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

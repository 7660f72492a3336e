//! What a mode sets on all descriptors of a program.

use std::fmt;
use std::os::fd::BorrowedFd;

use napier_core::control::plan::{Plan, Write};
use napier_core::sockopt::BusyOption;
use serde::{Deserialize, Serialize};

use super::copies::{self, Asked};
use super::ring::{RingState, RingValue};
use super::settings::OwnSettings;
use super::values::{EpollValue, SocketValue, epoll_value, initial, is_internet, read_option, set_epoll, write_option};
use super::{Kind, Process, ProcessRef, steer};
use crate::setting::{KeyError, Setting};

/// A program's descriptors have what its mode says.
pub const IN_FORCE: &str = "in force";
/// A program's descriptors are as they were made.
pub const AS_MADE: &str = "as made";

/// What a mode sets on each epoll instance, each internet socket and each ring of io_uring of a program.
#[derive(Clone, PartialEq, Eq, Debug, Default, Hash, Serialize, Deserialize)]
pub struct ProgramSettings {
    /// For epoll instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoll: Option<EpollValue>,
    /// For sockets, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sockets: Vec<SocketValue>,
    /// For rings of io_uring.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ring: Option<RingValue>,
    /// Whether listeners of one port get the connections of one receive queue each.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub steer: bool,
}

/// Why suspension is nothing for a ring. Source: `fs/eventpoll.c`, which alone calls `napi_suspend_irqs`.
pub const ONLY_EPOLL: &str = "only epoll suspends interrupts";

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
            ring: RingValue::of(plan),
            steer: false,
        }
    }

    /// Whether a mode leaves descriptors as they are.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.epoll.is_none() && self.sockets.is_empty() && self.ring.is_none() && !self.steer
    }

    /// Whether a mode has a part for epoll instances that rings of io_uring cannot have: suspension.
    #[must_use]
    pub const fn leaves_rings(&self) -> bool {
        self.epoll.is_some() && self.ring.is_none()
    }

    /// In words, a line for each kind of descriptor.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let epoll = self
            .epoll
            .map(|value| format!("every epoll descriptor of the program: {}", Write::Context(value.params())));
        let name = |option: &SocketValue| BusyOption::from_number(option.option).map_or("an option", BusyOption::name);
        let socket = |option| format!("every internet socket of the program: {} {}", name(option), option.value);
        let ring = self.ring.map(|RingValue { busy_poll_usecs, prefer_busy_poll }| {
            let prefer = u8::from(prefer_busy_poll);
            format!("every ring of io_uring of the program: busy_poll_to {busy_poll_usecs}, prefer {prefer} (IORING_REGISTER_NAPI)")
        });
        let left = self.leaves_rings().then(|| format!("rings of io_uring of the program: left, for {ONLY_EPOLL}"));
        let steer = self.steer.then(|| {
            "every group of listeners of the program (SO_REUSEPORT): connections by receive queue (SO_ATTACH_REUSEPORT_CBPF)".to_owned()
        });
        epoll.into_iter().chain(self.sockets.iter().map(socket)).chain(ring).chain(left).chain(steer).collect()
    }

    /// Makes those of a process's descriptors that have these settings as they were made, but for those that it had set itself.
    fn put_back(&self, process: &Process, own: &OwnSettings) -> Result<(), KeyError> {
        let is_of_sockets = !self.sockets.is_empty() || self.steer;
        let is_ours = |fd: i32, kind: Kind| match kind {
            Kind::Epoll => self.epoll.is_some() && !own.epolls.contains(&(process.who().clone(), fd)),
            Kind::Socket(_) => is_of_sockets,
            Kind::Ring(inode) => self.ring.is_some() && !own.rings.contains(&inode),
        };
        let found = process.descriptors()?.into_iter().filter(|(fd, kind)| is_ours(*fd, *kind));
        let asked: Vec<Asked> = found.map(|(fd, kind)| Asked { process: process.clone(), fd, kind }).collect();
        let kinds: Vec<Kind> = asked.iter().map(|asked| asked.kind).collect();
        let (settings, sockets) = (self.clone(), own.with_accepted(process));
        let answers = copies::each(asked, move |at, fd| match (kinds[at], settings.epoll) {
            (Kind::Epoll, Some(ours)) if epoll_value(fd)? == ours => set_epoll(fd, EpollValue::default()),
            (Kind::Socket(inode), _) if is_internet(fd) => {
                let before =
                    |ours: SocketValue| sockets.get(&(inode, ours.option)).copied().unwrap_or_else(|| initial(ours));
                settings.put_back_socket(fd, &before)
            }
            (Kind::Ring(_), _) if settings.ring.map(RingState::Polls) == Some(RingState::of(fd)?) => {
                RingState::Off.set(fd)
            }
            _ => Ok(()),
        });
        let refused = answers.into_iter().filter_map(|answer| answer.and_then(|done| done).err());
        // Closed since.
        let refused = refused.filter(|error| !matches!(error, KeyError::Gone(_)));
        // What can be tried again counts more than what cannot.
        refused.min_by_key(|error| matches!(error, KeyError::Fixed(_))).map_or(Ok(()), Err)
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

/// All descriptors of a process that a mode is about, as far as they were as they are made: [`IN_FORCE`] or [`AS_MADE`].
#[derive(Clone, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
pub struct ProgramKey {
    /// The process.
    pub process: ProcessRef,
    /// What they have.
    pub settings: ProgramSettings,
}

impl ProgramKey {
    /// Makes the program's descriptors as they were made, but for those that it had set itself.
    pub(crate) fn put_back(&self, own: &OwnSettings) -> Result<(), KeyError> {
        self.settings.put_back(&Process::again(&self.process)?, own)
    }
}

impl Setting for ProgramKey {
    fn read(&self) -> Result<Option<String>, KeyError> {
        // There may be none, or some of each.
        Process::again(&self.process).map(|_| None)
    }

    fn write(&self, value: &str) -> Result<(), KeyError> {
        if value != AS_MADE {
            return Err(KeyError::Value { value: value.to_owned(), what: "a program's descriptors" });
        }
        self.put_back(&OwnSettings::default())
    }

    fn command(&self, _value: &str) -> Option<String> {
        None
    }

    fn is_of_program(&self) -> bool {
        true
    }
}

impl fmt::Display for ProgramKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "descriptors of {}", self.process)
    }
}

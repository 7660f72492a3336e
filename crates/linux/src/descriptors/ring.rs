//! Busy polling of rings of io_uring: read from `/proc`, set by registering the ring. Source: `io_uring/napi.c`, `io_uring/fdinfo.c`, since
//! Linux 6.9.
//!
//! To register answers with what was there and sets at once, so what is there is read from `fdinfo` alone. That shows nothing of a ring that is
//! in use in this moment (the kernel takes the ring's lock only if it is free): then it is read again.

use std::fmt;
use std::fs;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::thread;
use std::time::Duration;

use napier_core::control::plan::Plan;
use napier_core::sockopt::BusyOption;
use serde::{Deserialize, Serialize};

use super::Kind;
use crate::setting::KeyError;
use crate::sys;

/// How a ring busy polls.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash, Serialize, Deserialize)]
pub struct RingValue {
    /// Busy-poll time in microseconds, at most 10,000.
    pub busy_poll_usecs: u32,
    /// Whether interrupts stay masked while it polls.
    pub prefer_busy_poll: bool,
}

/// What is longer is cut by the kernel (`io_napi_register_napi`).
const LONGEST_US: u32 = 10_000;

impl RingValue {
    /// What a mode is for rings; `None` where it has nothing that acts there. Suspension is such a mode: only epoll suspends interrupts
    /// (`fs/eventpoll.c` alone calls `napi_suspend_irqs`).
    pub(super) fn of(plan: &Plan) -> Option<Self> {
        let (usecs, prefer_busy_poll) = match plan.context() {
            // Waits that poll as long as they last: a ring has no longer time than this one.
            Some(params) if plan.wait().is_some() => (LONGEST_US, params.prefer_busy_poll),
            Some(params) => (params.busy_poll_usecs, params.prefer_busy_poll),
            None => {
                let option = |wanted| plan.option(wanted).and_then(|value| u32::try_from(value).ok()).unwrap_or(0);
                (option(BusyOption::BusyPoll), option(BusyOption::PreferBusyPoll) > 0)
            }
        };
        (usecs > 0).then_some(Self { busy_poll_usecs: usecs.min(LONGEST_US), prefer_busy_poll })
    }
}

impl fmt::Display for RingValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.busy_poll_usecs, u8::from(self.prefer_busy_poll))
    }
}

/// What a ring has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RingState {
    /// It does not poll.
    Off,
    /// It polls the instances that its sockets receive from.
    Polls(RingValue),
    /// It polls instances that its program has named, and that no kernel tells.
    Named(RingValue),
}

/// A ring that does not poll, as text.
const OFF: &str = "off";
/// What `fdinfo` says of each ring, whatever it can do.
const OF_ALL: &str = "SqThread:";
/// Looks at a ring that is in use, and the time between two of them.
const LOOKS_MAX: u32 = 20;
const AGAIN: Duration = Duration::from_micros(200);

impl RingState {
    /// As a journal has it.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text == OFF {
            return Some(Self::Off);
        }
        let (usecs, prefer) = text.split_once('/')?;
        let value =
            RingValue { busy_poll_usecs: usecs.parse().ok()?, prefer_busy_poll: prefer.parse::<u8>().ok()? != 0 };
        Some(Self::Polls(value))
    }

    /// As the kernel shows it: `napi_busy_poll_to` in µs before Linux 6.11, `napi_busy_poll_dt` in ns since.
    fn shown(info: &str) -> Option<Self> {
        let of =
            |name: &str| info.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':').map(str::trim));
        if of("NAPI")? != "enabled" {
            return Some(Self::Off);
        }
        let ns = of("napi_busy_poll_dt").and_then(|ns| ns.parse::<u64>().ok()).map(|ns| ns / 1000);
        let usecs = ns.or_else(|| of("napi_busy_poll_to")?.parse().ok())?;
        let value = RingValue {
            busy_poll_usecs: u32::try_from(usecs).unwrap_or(u32::MAX),
            prefer_busy_poll: of("napi_prefer_busy_poll") == Some("true"),
        };
        Some(if of("napi tracking") == Some("static") { Self::Named(value) } else { Self::Polls(value) })
    }

    /// Of a ring, by a file of `fdinfo`.
    pub(crate) fn read(fdinfo: &str) -> Result<Self, KeyError> {
        for _ in 0..LOOKS_MAX {
            let info = fs::read_to_string(fdinfo).map_err(KeyError::Io)?;
            match Self::shown(&info) {
                Some(state) => return Ok(state),
                None if info.contains(OF_ALL) => {
                    let what = "this kernel has no busy polling of rings (since Linux 6.9)";
                    return Err(KeyError::NotHere(what.to_owned()));
                }
                None => thread::sleep(AGAIN),
            }
        }
        Err(KeyError::Away("the ring is in use".to_owned()))
    }

    /// Of a ring.
    pub(crate) fn of(fd: BorrowedFd<'_>) -> Result<Self, KeyError> {
        Self::read(&format!("/proc/self/fdinfo/{}", fd.as_raw_fd()))
    }

    /// Makes a ring so.
    pub(crate) fn set(self, fd: BorrowedFd<'_>) -> Result<(), KeyError> {
        let done = match self {
            Self::Off => sys::ring::unregister(fd),
            Self::Polls(RingValue { busy_poll_usecs, prefer_busy_poll }) => {
                sys::ring::register(fd, busy_poll_usecs, prefer_busy_poll)
            }
            Self::Named(_) => return Err(KeyError::Value { value: self.to_string(), what: "a ring" }),
        };
        done.map_err(|error| match error.raw_os_error() {
            Some(libc::EEXIST | libc::EACCES) if self == Self::Off => KeyError::Fixed(KEEPS.to_owned()),
            Some(libc::EEXIST) => KeyError::Refused(ONE_THREAD.to_owned()),
            Some(libc::EACCES) => KeyError::Refused(RESTRICTED.to_owned()),
            Some(libc::EINVAL) => KeyError::NotHere("it is a ring for devices that are polled".to_owned()),
            _ => KeyError::Io(error),
        })
    }
}

/// Whether rings are all that could wait for a process's sockets: it has both, and no epoll instance.
pub(crate) fn are_alone<'a>(kinds: impl Iterator<Item = &'a Kind>) -> bool {
    let (mut rings, mut sockets, mut epolls) = (false, false, false);
    for kind in kinds {
        match kind {
            Kind::Epoll => epolls = true,
            Kind::Socket(_) => sockets = true,
            Kind::Ring(_) => rings = true,
        }
    }
    rings && sockets && !epolls
}

/// Source: `io_uring/register.c __io_uring_register`.
const ONE_THREAD: &str = "it is made for one thread (IORING_SETUP_SINGLE_ISSUER) and enabled, so the kernel takes settings from that thread \
                          alone (EEXIST): run the program under --strict, which is in time for rings that are enabled after they are made \
                          (IORING_SETUP_R_DISABLED), or take threaded";
/// Of one that was set before that.
const KEEPS: &str = "a ring of io_uring that takes settings from its own thread alone (IORING_SETUP_SINGLE_ISSUER) keeps what it has until it is closed";
/// Source: likewise.
const RESTRICTED: &str =
    "its program has restricted what it may be registered for (IORING_REGISTER_RESTRICTIONS): take threaded";

impl fmt::Display for RingState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str(OFF),
            Self::Polls(value) => value.fmt(f),
            Self::Named(value) => write!(f, "{value}, instances by the program"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLLS: RingState = RingState::Polls(RingValue { busy_poll_usecs: 64, prefer_busy_poll: true });

    #[test]
    fn what_a_kernel_shows_of_a_ring_is_read() {
        let enabled = |rest: &str| format!("SqThread:\t-1\nNAPI:\tenabled\n{rest}");
        let since = "napi tracking:\tdynamic\nnapi_busy_poll_dt:\t64000\nnapi_prefer_busy_poll:\ttrue\n";
        assert_eq!(RingState::shown(&enabled(since)), Some(POLLS));
        assert_eq!(RingState::shown(&enabled("napi_busy_poll_to:\t64\nnapi_prefer_busy_poll:\ttrue\n")), Some(POLLS));
        let named = RingState::shown(&enabled(&since.replace("dynamic", "static")));
        assert!(matches!(named, Some(RingState::Named(value)) if value.busy_poll_usecs == 64));
        assert_eq!(RingState::shown("SqThread:\t-1\nNAPI:\tdisabled\n"), Some(RingState::Off));
        assert_eq!(RingState::shown("pos:\t0\nflags:\t02000002\n"), None, "it is in use");
    }

    #[test]
    fn rings_are_alone_where_nothing_else_could_wait_for_sockets() {
        let alone = |kinds: &[Kind]| are_alone(kinds.iter());
        assert!(alone(&[Kind::Ring(1), Kind::Socket(2)]));
        assert!(!alone(&[Kind::Ring(1)]), "it is for files");
        assert!(!alone(&[Kind::Ring(1), Kind::Socket(2), Kind::Epoll]) && !alone(&[Kind::Socket(2)]));
    }

    #[test]
    fn a_state_is_read_as_it_is_shown() {
        for state in [RingState::Off, POLLS] {
            assert_eq!(RingState::parse(&state.to_string()), Some(state));
        }
        assert!(["", "64", "64/x", "64/1/2"].iter().all(|text| RingState::parse(text).is_none()));
        let folder = napier_testkit::Folder::new("fdinfo");
        let file = folder.file("old");
        std::fs::write(&file, "SqThread:\t-1\n").expect("written");
        assert!(matches!(RingState::read(&file), Err(KeyError::NotHere(_))));
        std::fs::write(&file, "pos:\t0\n").expect("written");
        assert!(matches!(RingState::read(&file), Err(KeyError::Away(_))));
    }
}

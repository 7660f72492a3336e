//! What a call comes to, as scenarios spell it.

use std::io;

use napier_core::control::Errno;
use napier_scenario::{Answer, SocketIx};

use super::refused;
use crate::Refused;

/// Index of the first device in scenarios; 1 is loopback there.
pub(crate) const FIRST_IFINDEX: u64 = 2;

/// What a call comes to: its answer, and the sockets that a wait found ready.
pub(crate) type Made = Result<(Answer, Vec<SocketIx>), Refused>;

/// A number of the kernel by its name.
///
/// # Errors
/// Scenarios have no name for it.
pub(crate) fn errno(error: &io::Error) -> Result<Errno, Refused> {
    let number = error.raw_os_error().and_then(Errno::from_number);
    number.ok_or_else(|| refused(format!("a call failed with an error that scenarios have no name for: {error}")))
}

/// The answer of a call that returns nothing else.
///
/// # Errors
/// As [`errno`].
pub(crate) fn answer(result: io::Result<()>) -> Result<Answer, Refused> {
    match result {
        Ok(()) => Ok(Answer::Number(0)),
        Err(error) => errno(&error).map(Answer::Error),
    }
}

/// What `EPIOCGPARAMS` answers.
pub(crate) fn epoll_params(busy_poll_usecs: u32, busy_poll_budget: u16, prefer_busy_poll: bool) -> Answer {
    let pairs = [
        ("busy_poll_usecs", u64::from(busy_poll_usecs)),
        ("busy_poll_budget", busy_poll_budget.into()),
        ("prefer_busy_poll", prefer_busy_poll.into()),
        ("pad", 0),
    ];
    Answer::Attributes(pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_string())).collect())
}

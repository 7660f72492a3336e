//! Names of modes as users give them, and the lists that are compared.

use napier_core::control::mode;
use napier_core::control::plan::Plan;
use napier_core::sockopt::BusyOption;

pub use napier_core::control::mode::{ACCEPTED, Mode, NAMES};
pub(crate) use napier_core::control::mode::{busy_context, busy_socket, deferral, for_pollers};

use crate::suggest::did_you_mean;

/// How a server receives in a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerStyle {
    /// Each worker waits in an event context (epoll).
    EventContext,
    /// Each worker blocks in a receive on its socket.
    BlockingReceive,
}

impl ServerStyle {
    /// What a plan is of use for: a socket busy polls in receives that find nothing, and a server that waits in an event
    /// context has none.
    pub fn of(plan: &Plan) -> Self {
        if plan.option(BusyOption::BusyPoll).is_some() { Self::BlockingReceive } else { Self::EventContext }
    }
}

/// Why what a user gave is no mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModeError {
    /// It is no name, or no list of names.
    #[error("{}", told(.0))]
    Name(#[from] mode::ModeError),
    /// A copy that is none.
    #[error(
        "`{name}` is no copy of a mode; a mode is there once more with @2 to @{max} behind it, such as base,base@2"
    )]
    Copy {
        /// As given.
        name: String,
        /// Largest number of a copy.
        max: u8,
    },
}

/// With the name that may have been meant.
fn told(error: &mode::ModeError) -> String {
    match error {
        mode::ModeError::Unknown { name } => {
            format!("`{name}` is no mode{}; give one of {ACCEPTED}", did_you_mean(name, NAMES))
        }
        other => other.to_string(),
    }
}

/// As [`Mode::parse`], with what may have been meant.
///
/// # Errors
/// [`ModeError::Name`].
pub fn parse(name: &str) -> Result<Mode, ModeError> {
    Ok(Mode::parse(name)?)
}

/// As [`Mode::parse_list`], with what may have been meant.
///
/// # Errors
/// [`ModeError::Name`].
pub fn parse_list(names: &str) -> Result<Vec<Mode>, ModeError> {
    Ok(Mode::parse_list(names)?)
}

/// What is compared if nothing else is asked for: the cover letter's modes, and those of the documents on threaded NAPI
/// and on busy polling.
pub const DEFAULT_MODES: &str = "base,defer20,defer200,napibusy,fullbusy,suspend0,suspend20,suspend200,threaded,workqueue,\
                                 threaded-busy-poll,busy-read";

/// What `--quick` compares: one of each kind.
pub const QUICK_MODES: &str = "base,defer20,fullbusy,suspend20";

/// Why a mode of groups has no row of the kernel.
pub const NO_GROUPS: &str = "Linux has no groups of polling CPUs: only an engine has";

#[cfg(test)]
mod tests;

//! One small error type per operation; each converts into `std::io::Error` with the number that epoll uses.

use std::io;

use thiserror::Error;

use crate::event::interest::Interest;

/// Why [`EventContext::add`](crate::event::EventContext::add) refused a member.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Error)]
pub enum AddError {
    /// `EEXIST`.
    #[error("the socket is a member of this context already: use modify to change its interest")]
    Exists,
    /// `EINVAL`.
    #[error("event contexts do not support {0:?}: use IN, OUT, ERR, HUP, EDGE and ONESHOT only")]
    Unsupported(Interest),
    /// `ENOSPC`.
    #[error("the context holds {members_max} members, its maximum: make it with a larger capacity")]
    Full {
        /// The capacity given when the context was made.
        members_max: u32,
    },
    /// `EBADF`.
    #[error("the socket is closed: add sockets before closing them")]
    Closed,
}

/// Why [`EventContext::modify`](crate::event::EventContext::modify) changed nothing.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Error)]
pub enum ModifyError {
    /// `ENOENT`.
    #[error("the socket is not a member of this context: add it first")]
    NotMember,
    /// `EINVAL`.
    #[error("event contexts do not support {0:?}: use IN, OUT, ERR, HUP, EDGE and ONESHOT only")]
    Unsupported(Interest),
}

/// Why [`EventContext::delete`](crate::event::EventContext::delete) removed nothing.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Error)]
pub enum DeleteError {
    /// `ENOENT`.
    #[error("the socket is not a member of this context: it was never added, or is deleted or closed")]
    NotMember,
}

/// Why [`EventContext::wait`](crate::event::EventContext::wait) did not wait.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Error)]
pub enum WaitError {
    /// `EINVAL`.
    #[error("there is no room for events: pass a slice of at least one element")]
    NoRoom,
    /// `ESHUTDOWN`.
    #[error("the engine has stopped, so nothing will happen any more: keep a handle to it while you wait")]
    Stopped,
}

impl From<AddError> for io::Error {
    fn from(error: AddError) -> Self {
        Self::from_raw_os_error(match error {
            AddError::Exists => libc::EEXIST,
            AddError::Unsupported(_) => libc::EINVAL,
            AddError::Full { .. } => libc::ENOSPC,
            AddError::Closed => libc::EBADF,
        })
    }
}

impl From<ModifyError> for io::Error {
    fn from(error: ModifyError) -> Self {
        Self::from_raw_os_error(match error {
            ModifyError::NotMember => libc::ENOENT,
            ModifyError::Unsupported(_) => libc::EINVAL,
        })
    }
}

impl From<DeleteError> for io::Error {
    fn from(error: DeleteError) -> Self {
        Self::from_raw_os_error(match error {
            DeleteError::NotMember => libc::ENOENT,
        })
    }
}

impl From<WaitError> for io::Error {
    fn from(error: WaitError) -> Self {
        Self::from_raw_os_error(match error {
            WaitError::NoRoom => libc::EINVAL,
            WaitError::Stopped => libc::ESHUTDOWN,
        })
    }
}

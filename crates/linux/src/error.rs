//! What the kernel refuses, in the words of `core`.

use std::fmt::Display;
use std::io;

use napier_core::control::{DevSetError, Errno, NapiSetError, QueryError};
use napier_core::event::EpollParamsError;
use napier_core::sockopt::SockOptError;

/// Why the kernel did not do something. `R` is the operation's own enum in `core`, so that a refusal reads the same
/// whether the engine or the kernel refused.
#[derive(Debug, thiserror::Error)]
pub enum KernelError<R: Refusal> {
    /// A refusal that the rules have too.
    #[error("{0}")]
    Refused(R),
    /// This kernel has no such setting.
    #[error("{}: {what}", errno.name())]
    NotHere {
        /// What is missing, and since when kernels have it.
        what: &'static str,
        /// The kernel's number for it.
        errno: Errno,
    },
    /// Something else, as the system says it.
    #[error("{0}")]
    Other(#[from] io::Error),
}

/// A refusal in `core`'s words.
pub trait Refusal: Display {
    /// The kernel's error number for it.
    fn number(&self) -> Errno;
}

macro_rules! refusals {
    ($($name:ty),*) => {
        $(impl Refusal for $name {
            fn number(&self) -> Errno {
                self.errno()
            }
        })*
    };
}

refusals!(NapiSetError, QueryError, DevSetError, SockOptError, EpollParamsError);

impl<R: Refusal> KernelError<R> {
    /// The kernel's error number, if it is one that `core` names.
    #[must_use]
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::Refused(refusal) => Some(refusal.number()),
            Self::NotHere { errno, .. } => Some(*errno),
            Self::Other(error) => errno_of(error),
        }
    }

    /// Whether a capability or a kernel feature is missing, rather than something being wrong: a test is skipped then.
    #[must_use]
    pub fn is_privilege(&self) -> bool {
        matches!(self, Self::NotHere { .. }) || self.errno() == Some(Errno::EPERM)
    }
}

impl<R: Refusal> From<KernelError<R>> for io::Error {
    fn from(error: KernelError<R>) -> Self {
        let text = error.to_string();
        match error {
            KernelError::Other(error) => error,
            // Where a kernel lacks something the number differs from interface to interface; the kind does not.
            KernelError::NotHere { .. } => Self::new(io::ErrorKind::Unsupported, text),
            KernelError::Refused(refusal) => Self::new(Self::from_raw_os_error(refusal.number().number()).kind(), text),
        }
    }
}

pub(crate) fn errno_of(error: &io::Error) -> Option<Errno> {
    error.raw_os_error().and_then(Errno::from_number)
}

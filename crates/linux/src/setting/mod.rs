//! What one setting of this machine is to those that change it: read, written and compared as text. Each kind of setting is a type
//! that implements [`Setting`], and knows no other kind.

pub(crate) mod text;

use std::fmt;
use std::io;

use napier_core::control::Errno;
use serde::{Deserialize, Serialize};

use crate::error::{KernelError, Refusal, errno_of};
use crate::link;

/// One value of this machine. Its text is as the tool that people set it with shows it.
pub(crate) trait Setting: fmt::Display {
    /// What is there; `None` where the kernel does not tell.
    fn read(&self) -> Result<Option<String>, KeyError>;

    /// Writes a value. It is not read back.
    fn write(&self, value: &str) -> Result<(), KeyError>;

    /// The command by which a person would do the same, where there is one.
    fn command(&self, value: &str) -> Option<String>;

    /// Whether two texts that differ are the same value: lists and masks of CPUs have several spellings.
    fn same(&self, _one: &str, _other: &str) -> bool {
        false
    }

    /// The interface that it ends with.
    fn device(&self) -> Option<&DeviceRef> {
        None
    }

    /// Whether it is of a queue, which may be switched off.
    fn is_of_queue(&self) -> bool {
        false
    }

    /// Whether it ends with a process.
    fn is_of_program(&self) -> bool {
        false
    }

    /// Whether it can cut the machine off from who writes it: who delivers packets, on which CPU and in which class, how many queues
    /// there are, what the interface offloads.
    fn may_cut_off(&self) -> bool {
        false
    }

    /// Why a value would be refused, as far as that can be known without writing it.
    fn refusal(&self, _value: &str) -> Option<KeyError> {
        None
    }

    /// Why a write was refused, in words.
    fn why(&self, error: &KeyError) -> String {
        error.to_string()
    }
}

/// An interface: by its number, which a new name does not change. The name is for people.
#[derive(Clone, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
pub struct DeviceRef {
    /// Number.
    pub ifindex: u32,
    /// Name when it was found.
    pub name: String,
}

impl DeviceRef {
    /// The interface of that name in the namespace of the calling thread.
    ///
    /// # Errors
    /// There is none.
    pub fn named(name: &str) -> io::Result<Self> {
        Ok(Self { ifindex: link::index(name)?, name: name.to_owned() })
    }

    /// Its name now.
    ///
    /// # Errors
    /// [`KeyError::Gone`] if this namespace has no such interface any more.
    pub fn name_now(&self) -> Result<String, KeyError> {
        link::name(self.ifindex).map_err(|error| self.not_there(error))
    }

    /// Whether it is up.
    ///
    /// # Errors
    /// As [`DeviceRef::name_now`].
    pub fn is_up(&self) -> Result<bool, KeyError> {
        link::name_and_state(self.ifindex).map(|(_, is_up)| is_up).map_err(|error| self.not_there(error))
    }

    fn not_there(&self, error: io::Error) -> KeyError {
        match errno_of(&error) {
            Some(Errno::ENODEV) | None => KeyError::Gone(format!("{} is gone from this namespace", self.name)),
            _ => KeyError::Io(error),
        }
    }
}

/// Why a value was not read or written.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// What it belongs to is gone.
    #[error("{0}")]
    Gone(String),
    /// This machine has no such setting.
    #[error("{0}")]
    NotHere(String),
    /// What it belongs to is away, and comes back with the value that it has: a queue that is switched off.
    #[error("{0}")]
    Away(String),
    /// Nothing can set it any more: it goes with what it belongs to.
    #[error("{0}")]
    Fixed(String),
    /// A capability is missing.
    #[error("not permitted: it needs {0}")]
    Denied(&'static str),
    /// It is not a value of that setting.
    #[error("`{value}` is no value of {what}")]
    Value {
        /// As given.
        value: String,
        /// The setting.
        what: &'static str,
    },
    /// What was written is not what is read.
    #[error("it reads as {found} after it was written")]
    ReadsAs {
        /// What is read.
        found: String,
    },
    /// As the rules and the kernel say it.
    #[error("{0}")]
    Refused(String),
    /// As the system says it.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl KeyError {
    /// Whether a capability or a kernel feature is missing, rather than something being wrong.
    #[must_use]
    pub fn is_privilege(&self) -> bool {
        matches!(self, Self::Denied(_) | Self::NotHere(_))
    }

    /// A refusal in `core`'s words.
    pub(crate) fn of<R: Refusal>(error: KernelError<R>) -> Self {
        match error {
            KernelError::NotHere { .. } => Self::NotHere(error.to_string()),
            KernelError::Refused(_) if error.errno() == Some(Errno::EPERM) => Self::Denied("CAP_NET_ADMIN"),
            KernelError::Refused(refusal) => Self::Refused(refusal.to_string()),
            KernelError::Other(error) => Self::Io(error),
        }
    }
}

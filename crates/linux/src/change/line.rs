//! What shall be at one place of this machine, and what was there before it was written.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::key::Key;
use crate::setting::{DeviceRef, KeyError};

/// What shall be in force at one place.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Line {
    /// Where.
    pub key: Key,
    /// What shall be there.
    pub value: String,
}

impl Line {
    /// The setting `value` at `key`.
    pub fn new(key: Key, value: impl Into<String>) -> Self {
        Self { key, value: value.into() }
    }

    /// Whether it can cut the machine off from who writes it: who delivers packets, on which CPU and in which class, how many queues
    /// there are, what the interface offloads.
    #[must_use]
    pub fn may_cut_off(&self) -> bool {
        self.key.setting().may_cut_off()
    }

    /// The command by which a person would do the same, where there is one.
    #[must_use]
    pub fn command(&self) -> Option<String> {
        self.key.command(&self.value)
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.key, self.value)
    }
}

/// What was there before a line was written.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// Where.
    pub key: Key,
    /// What was there; `None` where the kernel does not tell.
    pub before: Option<String>,
    /// What was written.
    pub after: String,
    /// What it may have been made by undoing a later entry: a file of an interface is written to each instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub or: Option<String>,
}

impl Entry {
    pub(super) fn with_device(&self, now: &DeviceRef) -> Self {
        Self { key: self.key.with_device(now), ..self.clone() }
    }

    /// What would become of it now: `None` if it is as it was before.
    ///
    /// # Errors
    /// It cannot be read: gone, away, not permitted.
    pub fn pending(&self) -> Result<Option<String>, KeyError> {
        let Some(before) = &self.before else { return Ok(None) };
        match self.key.read()? {
            Some(now) if self.key.same(&now, before) => Ok(None),
            _ => Ok(Some(before.clone())),
        }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let before = self.before.as_deref().unwrap_or("(not told)");
        write!(f, "{}: {before} -> {}", self.key, self.after)
    }
}

//! Who is compared: a mode, applied somewhere.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::modes::Mode;

/// Where a mode is applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// The engine of this process.
    #[default]
    Engine,
    /// The kernel that this machine runs.
    Kernel,
}

/// As `--peer` names it.
impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Engine => "engine",
            Self::Kernel => "kernel",
        })
    }
}

/// One row of a comparison, at any load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Subject {
    /// Where the mode is applied.
    pub backend: Backend,
    /// How packets are delivered.
    pub mode: Mode,
}

impl Subject {
    /// A mode of the engine.
    pub const fn engine(mode: Mode) -> Self {
        Self { backend: Backend::Engine, mode }
    }

    /// A mode of the kernel.
    pub const fn kernel(mode: Mode) -> Self {
        Self { backend: Backend::Kernel, mode }
    }

    /// The subject's name beside others: the backend is named where there is more than one.
    pub fn name(&self, among_backends: bool) -> String {
        if among_backends { format!("{}/{}", self.backend, self.mode) } else { self.mode.to_string() }
    }
}

/// The mode, and the backend if it is not the engine.
impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name(self.backend != Backend::Engine))
    }
}

/// The modes in order, each with every backend: what is to be compared stands side by side, and runs one after the other.
pub fn subjects(modes: &[Mode], backends: &[Backend]) -> Vec<Subject> {
    modes.iter().flat_map(|&mode| backends.iter().map(move |&backend| Subject { backend, mode })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backends_alternate_and_are_named_where_there_are_two() {
        let all = subjects(&[Mode::Base, Mode::Defer { us: 20 }], &[Backend::Engine, Backend::Kernel]);
        let names: Vec<String> = all.iter().map(|subject| subject.name(true)).collect();
        assert_eq!(names, ["engine/base", "kernel/base", "engine/defer20", "kernel/defer20"]);
        assert_eq!((all[0].to_string(), all[1].to_string()), ("base".to_owned(), "kernel/base".to_owned()));
        assert_eq!(all[0].name(false), "base");
    }
}

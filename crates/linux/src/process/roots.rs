//! Which processes are a program's.

use std::collections::BTreeSet;

use super::tree::descendants;
use crate::cgroup::Cgroup;

/// Which processes are a program's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Roots {
    /// This process and its descendants.
    Process(u32),
    /// The descendants of the calling process: all that it has started, and, where it is a subreaper
    /// (`PR_SET_CHILD_SUBREAPER`), those whose parents have ended.
    Children,
    /// All that are in a control group, also those that get there later.
    Cgroup(Cgroup),
}

impl Roots {
    /// Those that there are now.
    #[must_use]
    pub fn pids(&self) -> BTreeSet<u32> {
        let own = std::process::id();
        match self {
            Self::Process(pid) => descendants(*pid).into_iter().chain([*pid]).collect(),
            Self::Children => descendants(own).into_iter().collect(),
            // A unit may start this command itself.
            Self::Cgroup(group) => group.pids().into_iter().filter(|pid| *pid != own).collect(),
        }
    }

    /// Whether no process can become one of them any more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        match self {
            Self::Process(_) | Self::Children => self.pids().is_empty(),
            Self::Cgroup(group) => group.is_gone(),
        }
    }
}

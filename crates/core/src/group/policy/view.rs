//! What a turn of a policy sees.

use crate::group::GroupCpu;
use crate::time::Span;

/// A member as a turn sees it.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct MemberView {
    /// The CPU that has it.
    pub cpu: GroupCpu,
    /// The one that had it before, if it has moved.
    pub last: Option<GroupCpu>,
    /// How long its oldest packet has waited.
    pub age: Span,
    /// Packets that wait.
    pub backlog: u32,
    /// Share of a CPU that it took lately, in thousandths ([`crate::group::Load`]).
    pub load: u16,
    /// Time that one packet of it takes, as the last polls had it.
    pub per_packet: Span,
    /// It cannot be moved now: it is in a turn of a CPU that has stopped, or it is taken out of the group.
    pub fixed: bool,
}

/// What a CPU of the group is doing.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum CpuState {
    /// It polls. `silent`: since when no turn of it has ended.
    Active {
        /// How long ago its last turn ended.
        silent: Span,
    },
    /// It sleeps.
    Parked,
    /// It is leaving the group: nothing goes to it.
    Leaving,
}

/// A CPU as a turn sees it.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct CpuView {
    /// Which.
    pub cpu: GroupCpu,
    /// What it is doing.
    pub state: CpuState,
    /// CPUs with the same number are threads of one core.
    pub core: u16,
    /// Memory node.
    pub node: u16,
}

/// How far two CPUs are from each other.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Distance {
    /// One and the same.
    Same,
    /// Threads of one core: the nearest caches are shared.
    Sibling,
    /// On one memory node.
    Node,
    /// On different nodes.
    Other,
}

impl CpuView {
    /// The distance to another.
    #[must_use]
    pub const fn distance(&self, other: &Self) -> Distance {
        if self.cpu.0 == other.cpu.0 {
            Distance::Same
        } else if self.node != other.node {
            Distance::Other
        } else if self.core == other.core {
            Distance::Sibling
        } else {
            Distance::Node
        }
    }
}

//! Groups of CPUs in scenarios: what exists, what is done to them, what is seen. The rules are those of `napier_core::group`.

use napier_core::group::Settings;

use super::{CpuIx, NapiIx, Policy};

/// `[[group]]`: CPUs that poll instances for ever.
#[derive(Clone, PartialEq, Debug)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Its CPUs at the start.
    pub cpus: Vec<CpuIx>,
    /// Its members at the start.
    pub members: Vec<NapiIx>,
    /// Policy, target and the like.
    pub settings: Settings,
    /// Scheduling class of its threads. Default fair.
    pub policy: Policy,
}

/// A group: position in [`super::Machine::groups`].
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GroupIx(pub u16);

impl GroupIx {
    /// As a position.
    #[inline]
    #[must_use]
    pub const fn at(self) -> usize {
        self.0 as usize
    }
}

/// What a call does to a group.
#[derive(Clone, PartialEq, Debug)]
pub enum GroupDeed {
    /// An instance becomes a member.
    Attach(NapiIx),
    /// A member goes back to interrupts.
    Detach(NapiIx),
    /// A CPU comes to the group.
    AttachCpu(CpuIx),
    /// A CPU leaves it.
    DetachCpu(CpuIx),
    /// Other settings.
    Set(Settings),
    /// All members go back to interrupts, and all CPUs leave.
    Delete,
}

/// A call about a group.
#[derive(Clone, PartialEq, Debug)]
pub struct GroupCall {
    /// Which.
    pub group: GroupIx,
    /// What.
    pub deed: GroupDeed,
}

impl GroupCall {
    /// The name in files and logs.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self.deed {
            GroupDeed::Attach(_) => "group-attach",
            GroupDeed::Detach(_) => "group-detach",
            GroupDeed::AttachCpu(_) => "group-attach-cpu",
            GroupDeed::DetachCpu(_) => "group-detach-cpu",
            GroupDeed::Set(_) => "group-set",
            GroupDeed::Delete => "group-del",
        }
    }
}

/// What a group must look like at a moment. Fields that are `None` are not looked at.
#[derive(Clone, PartialEq, Debug)]
pub struct GroupCheck {
    /// Which.
    pub group: GroupIx,
    /// CPUs that are not asleep.
    pub active: Option<u32>,
    /// A member, and the CPU that has it.
    pub member: Option<(NapiIx, CpuIx)>,
}

/// Something about a group that happened.
#[derive(Clone, PartialEq, Debug)]
#[expect(missing_docs, reason = "the fields are named for what they hold")]
pub enum GroupEvent {
    /// A CPU went to sleep.
    Park { cpu: CpuIx },
    /// A CPU that slept was woken.
    Wake { cpu: CpuIx },
    /// A member went to another CPU.
    Move { napi: NapiIx, to: CpuIx },
}

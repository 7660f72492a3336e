//! Which groups there are, and what of a request is wrong. A request is carried out whole or not at all.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::{GroupCpu, Settings};
use crate::time::Span;

/// Smallest target: less than a turn takes.
pub const DELAY_TARGET_MIN: Span = Span::from_us(1);
/// Largest target.
pub const DELAY_TARGET_MAX: Span = Span::from_secs(1);
/// Shortest time after which a CPU parks, and after which it is taken for stopped: a few rounds.
const PATIENCE_MIN: [(&str, Span); 2] = [("shrink-after", Span::from_us(1)), ("stall-after", Span::from_us(10))];
/// Longest name of a group.
pub const NAME_BYTES_MAX: usize = 32;

/// A member, by a number that the executor gives each queue of its devices.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MemberId(pub u32);

/// One group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupSpec {
    /// Its name.
    pub name: String,
    /// Its CPUs, in the order in which they came.
    pub cpus: Vec<GroupCpu>,
    /// Its members, likewise.
    pub members: Vec<MemberId>,
    /// What was set.
    pub settings: Settings,
}

/// Why a request about groups is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the fields are named for what they hold")]
pub enum GroupError {
    /// The name cannot be one.
    BadName { name: String },
    /// There is such a group already.
    NameTaken { name: String },
    /// There is no such group.
    NoSuchGroup { name: String },
    /// A group needs a CPU.
    NoCpus { name: String },
    /// The machine does not have it.
    NoSuchCpu { cpu: GroupCpu, cpus: u16 },
    /// The machine has it, and it is switched off.
    CpuOffline { cpu: GroupCpu },
    /// Named twice, or in this group already.
    CpuTwice { cpu: GroupCpu },
    /// It is in another group.
    CpuTaken { cpu: GroupCpu, group: String },
    /// It is not in this group.
    CpuNotHere { cpu: GroupCpu, group: String },
    /// The last CPU of a group with members.
    LastCpu { cpu: GroupCpu, group: String, members: usize },
    /// There is no such queue.
    NoSuchMember { member: String },
    /// Named twice, or in this group already.
    MemberTwice { member: String },
    /// It is in another group.
    MemberTaken { member: String, group: String },
    /// It is not in this group.
    MemberNotHere { member: String, group: String },
    /// Outside what can be asked for.
    DelayTarget { got: Span },
    /// Too short: a CPU would be taken for stopped, or calm, between two rounds.
    TooShort { what: &'static str, got: Span, min: Span },
    /// More CPUs than the group has.
    MinActive { got: u16, cpus: usize },
}

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadName { name } => {
                write!(f, "{name:?} cannot name a group: take 1 to {NAME_BYTES_MAX} letters, digits, - and _")
            }
            Self::NameTaken { name } => write!(f, "there is a group {name} already: take another name, or change it"),
            Self::NoSuchGroup { name } => write!(f, "there is no group {name}: make it first"),
            Self::NoCpus { name } => write!(f, "group {name} has no CPU: name at least one"),
            Self::NoSuchCpu { cpu, cpus } => {
                write!(f, "CPU {} is not there: this machine has 0 to {}", cpu.0, cpus.saturating_sub(1))
            }
            Self::CpuOffline { cpu } => write!(f, "CPU {} is offline: switch it on, or leave it out", cpu.0),
            Self::CpuTwice { cpu } => write!(f, "CPU {} is in the group already: name it once", cpu.0),
            Self::CpuTaken { cpu, group } => write!(f, "CPU {} is in group {group}: detach it there first", cpu.0),
            Self::CpuNotHere { cpu, group } => write!(f, "CPU {} is not in group {group}", cpu.0),
            Self::LastCpu { cpu, group, members } => write!(
                f,
                "CPU {} is the last one of group {group}, which polls {members} queues: attach another CPU, or detach \
                 the queues first",
                cpu.0
            ),
            Self::NoSuchMember { member } => write!(f, "there is no queue {member}: name one as DEVICE/QUEUE"),
            Self::MemberTwice { member } => write!(f, "{member} is in the group already: name it once"),
            Self::MemberTaken { member, group } => write!(f, "{member} is in group {group}: detach it there first"),
            Self::MemberNotHere { member, group } => write!(f, "{member} is not in group {group}"),
            Self::DelayTarget { got } => write!(
                f,
                "a delay target of {} ns: it is {} ns to {} ns",
                got.ns, DELAY_TARGET_MIN.ns, DELAY_TARGET_MAX.ns
            ),
            Self::TooShort { what, got, min } => write!(f, "{what} of {} ns: it is at least {} ns", got.ns, min.ns),
            Self::MinActive { got, cpus } => {
                write!(
                    f,
                    "min-active {got} for a group of {cpus} CPU{}: it is 0 to {cpus}",
                    if *cpus == 1 { "" } else { "s" }
                )
            }
        }
    }
}

impl core::error::Error for GroupError {}

type Result<T> = core::result::Result<T, GroupError>;

/// What an executor knows of the machine.
#[derive(Copy, Clone, Debug)]
pub struct Machine<'a> {
    /// CPUs, numbered from 0.
    pub cpus: u16,
    /// Those that are switched off.
    pub offline: &'a [GroupCpu],
}

/// All groups: which CPU and which member is where.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Groups {
    all: Vec<GroupSpec>,
}

impl Groups {
    /// None yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { all: Vec::new() }
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> &[GroupSpec] {
        &self.all
    }

    /// The position of a group.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn find(&self, name: &str) -> Result<usize> {
        let position = self.all.iter().position(|group| group.name == name);
        position.ok_or_else(|| GroupError::NoSuchGroup { name: name.to_owned() })
    }

    /// The group that a member is in.
    #[must_use]
    pub fn of_member(&self, member: MemberId) -> Option<usize> {
        self.all.iter().position(|group| group.members.contains(&member))
    }

    /// A new group without members.
    ///
    /// # Errors
    /// The name, a CPU or a value cannot be; nothing has changed.
    pub fn create(&mut self, name: &str, cpus: &[GroupCpu], settings: Settings, machine: Machine<'_>) -> Result<()> {
        check_name(name)?;
        if self.find(name).is_ok() {
            return Err(GroupError::NameTaken { name: name.to_owned() });
        }
        if cpus.is_empty() {
            return Err(GroupError::NoCpus { name: name.to_owned() });
        }
        for (at, cpu) in cpus.iter().enumerate() {
            if cpus[..at].contains(cpu) {
                return Err(GroupError::CpuTwice { cpu: *cpu });
            }
            self.check_cpu(*cpu, machine)?;
        }
        check_settings(&settings, cpus.len())?;
        self.all.push(GroupSpec { name: name.to_owned(), cpus: cpus.to_vec(), members: Vec::new(), settings });
        Ok(())
    }

    /// The group is gone; the answer is what it was, so that its members can be detached.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn delete(&mut self, name: &str) -> Result<GroupSpec> {
        let at = self.find(name)?;
        Ok(self.all.remove(at))
    }

    /// A CPU comes to a group.
    ///
    /// # Errors
    /// It cannot; nothing has changed.
    pub fn attach_cpu(&mut self, name: &str, cpu: GroupCpu, machine: Machine<'_>) -> Result<()> {
        let at = self.find(name)?;
        if self.all[at].cpus.contains(&cpu) {
            return Err(GroupError::CpuTwice { cpu });
        }
        self.check_cpu(cpu, machine)?;
        self.all[at].cpus.push(cpu);
        Ok(())
    }

    /// A CPU leaves its group. If that leaves fewer than [`Settings::min_active`], that is lowered.
    ///
    /// # Errors
    /// It is not there, or the last one of a group with members; nothing has changed.
    pub fn detach_cpu(&mut self, name: &str, cpu: GroupCpu) -> Result<()> {
        let at = self.find(name)?;
        let group = &mut self.all[at];
        let Some(position) = group.cpus.iter().position(|one| *one == cpu) else {
            return Err(GroupError::CpuNotHere { cpu, group: name.to_owned() });
        };
        if group.cpus.len() == 1 && !group.members.is_empty() {
            return Err(GroupError::LastCpu { cpu, group: name.to_owned(), members: group.members.len() });
        }
        group.cpus.remove(position);
        group.settings.min_active = group.settings.min_active.min(group.cpus.len() as u16);
        Ok(())
    }

    /// A queue comes to a group; `called` is its name in errors, `known` whether there is such a queue.
    ///
    /// # Errors
    /// It cannot; nothing has changed.
    pub fn attach(&mut self, name: &str, member: MemberId, called: &str, known: bool) -> Result<()> {
        let at = self.find(name)?;
        let called = || called.to_owned();
        if !known {
            return Err(GroupError::NoSuchMember { member: called() });
        }
        match self.of_member(member) {
            Some(other) if other == at => return Err(GroupError::MemberTwice { member: called() }),
            Some(other) => {
                return Err(GroupError::MemberTaken { member: called(), group: self.all[other].name.clone() });
            }
            None => {}
        }
        if self.all[at].cpus.is_empty() {
            return Err(GroupError::NoCpus { name: name.to_owned() });
        }
        self.all[at].members.push(member);
        Ok(())
    }

    /// A queue leaves its group.
    ///
    /// # Errors
    /// It is not there.
    pub fn detach(&mut self, name: &str, member: MemberId, called: &str) -> Result<()> {
        let at = self.find(name)?;
        let Some(position) = self.all[at].members.iter().position(|one| *one == member) else {
            return Err(GroupError::MemberNotHere { member: called.to_owned(), group: name.to_owned() });
        };
        self.all[at].members.remove(position);
        Ok(())
    }

    /// Other settings.
    ///
    /// # Errors
    /// A value is out of range; nothing has changed.
    pub fn set(&mut self, name: &str, settings: Settings) -> Result<()> {
        let at = self.find(name)?;
        check_settings(&settings, self.all[at].cpus.len())?;
        self.all[at].settings = settings;
        Ok(())
    }

    fn check_cpu(&self, cpu: GroupCpu, machine: Machine<'_>) -> Result<()> {
        if cpu.0 >= machine.cpus {
            return Err(GroupError::NoSuchCpu { cpu, cpus: machine.cpus });
        }
        if machine.offline.contains(&cpu) {
            return Err(GroupError::CpuOffline { cpu });
        }
        match self.all.iter().find(|group| group.cpus.contains(&cpu)) {
            Some(group) => Err(GroupError::CpuTaken { cpu, group: group.name.clone() }),
            None => Ok(()),
        }
    }
}

fn check_name(name: &str) -> Result<()> {
    let fine = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(fine) {
        return Err(GroupError::BadName { name: name.chars().take(NAME_BYTES_MAX).collect() });
    }
    Ok(())
}

fn check_settings(settings: &Settings, cpus: usize) -> Result<()> {
    if settings.delay_target < DELAY_TARGET_MIN || settings.delay_target > DELAY_TARGET_MAX {
        return Err(GroupError::DelayTarget { got: settings.delay_target });
    }
    for ((what, min), got) in PATIENCE_MIN.into_iter().zip([settings.shrink_after, settings.stall_after]) {
        if got < min {
            return Err(GroupError::TooShort { what, got, min });
        }
    }
    if usize::from(settings.min_active) > cpus {
        return Err(GroupError::MinActive { got: settings.min_active, cpus });
    }
    Ok(())
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;

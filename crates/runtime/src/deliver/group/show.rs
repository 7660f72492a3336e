//! Groups as they are, for those that ask.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use napier_core::group::{Doing, Phase, Settings};

use super::{CpuPoller, Group, GroupClass, GroupMember, GroupTable};

/// A group as it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupInfo {
    /// Its name.
    pub name: String,
    /// What was set.
    pub settings: Settings,
    /// In which class its threads are to run.
    pub class: GroupClass,
    /// Its CPUs.
    pub cpus: Vec<PollerInfo>,
    /// Its members.
    pub members: Vec<GroupMemberInfo>,
}

/// A CPU of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PollerInfo {
    /// The processor.
    pub cpu: u16,
    /// Its thread's id at the system.
    pub pid: u32,
    /// Its thread runs as `SCHED_FIFO`.
    pub fifo: bool,
    /// The system keeps other threads from it.
    pub isolated: bool,
    /// What it is doing.
    pub doing: Doing,
    /// Times that it went to sleep.
    pub parks: u64,
    /// Times that it wanted to, and found something to do.
    pub vain_parks: u64,
}

/// The group of an instance.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupOfNapi {
    /// Name of the group.
    pub name: String,
    /// The CPU that has it.
    pub cpu: u16,
    /// That CPU's thread, by its id at the system.
    pub pid: u32,
}

/// A member of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupMemberInfo {
    /// Id of its instance.
    pub napi_id: u32,
    /// Name of the device.
    pub device: String,
    /// Its queue.
    pub queue: u16,
    /// The CPU that has it.
    pub cpu: u16,
    /// Its interrupt is armed: no thread polls.
    pub armed: bool,
    /// Times that it went to another CPU.
    pub moves: u64,
}

impl GroupTable {
    /// All groups, in the order in which they were made.
    pub(crate) fn infos(&self) -> Vec<GroupInfo> {
        self.running.load().iter().map(|group| group.info()).collect()
    }

    /// The CPUs of all groups.
    pub(crate) fn cpus(&self) -> Vec<usize> {
        let of = |group: &Arc<Group>| group.pollers.load().iter().map(|one| one.cpu.0.into()).collect::<Vec<_>>();
        self.running.load().iter().flat_map(of).collect()
    }
}

impl Group {
    fn info(&self) -> GroupInfo {
        let cpu = |poller: &Arc<CpuPoller>| PollerInfo {
            cpu: poller.cpu.0,
            pid: poller.pid.load(Ordering::Relaxed),
            fifo: poller.fifo.load(Ordering::Relaxed),
            isolated: !poller.shared.load(Ordering::Relaxed),
            doing: poller.word().doing(),
            parks: poller.parks.load(Ordering::Relaxed),
            vain_parks: poller.vain_parks.load(Ordering::Relaxed),
        };
        let member = |member: &Arc<GroupMember>| GroupMemberInfo {
            napi_id: member.napi.id(),
            device: member.napi.device.name.clone(),
            queue: member.napi.queue,
            cpu: member.seat().cpu().0,
            armed: member.seat().phase() == Phase::Armed,
            moves: member.moves.load(Ordering::Relaxed),
        };
        GroupInfo {
            name: self.name.clone(),
            settings: *self.settings.lock().expect("only stored"),
            class: *self.class.lock().expect("only stored"),
            cpus: self.pollers.load().iter().map(cpu).collect(),
            members: self.members.load().iter().map(member).collect(),
        }
    }
}

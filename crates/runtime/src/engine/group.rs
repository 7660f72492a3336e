//! CPU polling groups of an engine.

use napier_core::group::{GroupCpu, GroupError, Settings};

use super::Engine;
pub use crate::deliver::group::{GroupChangeError, GroupClass, GroupInfo, GroupMemberInfo, GroupOfNapi, PollerInfo};
pub use napier_core::group::{Doing, Policy, Settings as GroupSettings};

impl Engine {
    /// Makes a group of CPUs, each with a thread of its own. Queues come to it by [`Engine::group_attach`].
    ///
    /// # Errors
    /// See [`GroupChangeError`]; nothing has changed then.
    pub fn group_new(&self, name: &str, cpus: &[usize], settings: Settings) -> Result<(), GroupChangeError> {
        let cpus = cpus.iter().map(|cpu| group_cpu(*cpu)).collect::<Result<Vec<_>, _>>()?;
        self.inner.deliver.groups.create(&self.inner.deliver, name, &cpus, settings)
    }

    /// Takes a group away: its queues are polled as if it had never been there, its threads end.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn group_del(&self, name: &str) -> Result<(), GroupChangeError> {
        self.inner.deliver.groups.delete(&self.inner.deliver, name)
    }

    /// The group polls the queue of this instance from now on, and no other thread does. Waits until its owner lets go.
    ///
    /// # Errors
    /// See [`GroupChangeError`]; nothing has changed then.
    pub fn group_attach(&self, name: &str, napi_id: u32) -> Result<(), GroupChangeError> {
        self.inner.deliver.groups.attach(&self.inner.deliver, name, napi_id)
    }

    /// The queue leaves its group: the instance is polled once more, completed, and goes on in the mode that is set for it.
    ///
    /// # Errors
    /// See [`GroupChangeError`]; nothing has changed then.
    pub fn group_detach(&self, name: &str, napi_id: u32) -> Result<(), GroupChangeError> {
        self.inner.deliver.groups.detach(&self.inner.deliver, name, napi_id)
    }

    /// A CPU comes to a group, at any time.
    ///
    /// # Errors
    /// See [`GroupChangeError`]; nothing has changed then.
    pub fn group_attach_cpu(&self, name: &str, cpu: usize) -> Result<(), GroupChangeError> {
        self.inner.deliver.groups.attach_cpu(&self.inner.deliver, name, group_cpu(cpu)?)
    }

    /// A CPU leaves its group, at any time; its queues go to the others. The last one of a group with queues does not leave.
    ///
    /// # Errors
    /// See [`GroupChangeError`]; nothing has changed then.
    pub fn group_detach_cpu(&self, name: &str, cpu: usize) -> Result<(), GroupChangeError> {
        self.inner.deliver.groups.detach_cpu(name, group_cpu(cpu)?)
    }

    /// Other settings, from the policy's next turn on.
    ///
    /// # Errors
    /// See [`GroupChangeError`]; nothing has changed then.
    pub fn group_set(&self, name: &str, settings: Settings) -> Result<(), GroupChangeError> {
        self.inner.deliver.groups.set(&self.inner.deliver, name, settings)
    }

    /// The scheduling class of its threads, those that come later too; [`GroupClass::Auto`] at first.
    ///
    /// # Errors
    /// There is no such group, or the class is not granted; nothing has changed then.
    pub fn group_set_class(&self, name: &str, class: GroupClass) -> Result<(), GroupChangeError> {
        self.inner.deliver.groups.set_class(name, class)
    }

    /// The group that polls this instance; `None` without one, or without an enabled instance of this id.
    #[must_use]
    pub fn group_of(&self, napi_id: u32) -> Option<GroupOfNapi> {
        let deliver = &self.inner.deliver;
        deliver.groups.of(deliver.napi_by_id(napi_id)?)
    }

    /// All groups as they are, in the order in which they were made.
    #[must_use]
    pub fn groups(&self) -> Vec<GroupInfo> {
        self.inner.deliver.groups.infos()
    }

    /// The CPUs of all groups: threads poll there, whatever others are pinned to.
    #[must_use]
    pub fn group_cpus(&self) -> Vec<usize> {
        self.inner.deliver.groups.cpus()
    }
}

fn group_cpu(cpu: usize) -> Result<GroupCpu, GroupError> {
    let cpus = u16::MAX;
    u16::try_from(cpu).map(GroupCpu).map_err(|_| GroupError::NoSuchCpu { cpu: GroupCpu(cpus), cpus })
}

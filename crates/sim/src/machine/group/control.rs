//! Calls about groups. One at a time; an instance is taken and given back under its device's lock.

use napier_core::control::Errno;
use napier_core::group::{Doing, GroupCpu, GroupError, MemberId, Phase, Settings, Woken};
use napier_core::state::{DISABLE_PAUSE_MIN, State};

use super::super::coverage::Decision;
use super::super::napi::Owner;
use super::super::vm::K;
use super::super::world::World;
use napier_scenario::{GroupCall, GroupDeed};

/// The error number that stands for a refusal.
fn errno(error: &GroupError) -> Errno {
    match error {
        GroupError::NoSuchGroup { .. } | GroupError::CpuNotHere { .. } | GroupError::MemberNotHere { .. } => {
            Errno::ENOENT
        }
        GroupError::NameTaken { .. } | GroupError::CpuTwice { .. } | GroupError::MemberTwice { .. } => Errno::EEXIST,
        GroupError::CpuTaken { .. } | GroupError::MemberTaken { .. } | GroupError::LastCpu { .. } => Errno::EBUSY,
        GroupError::NoSuchCpu { .. } | GroupError::CpuOffline { .. } | GroupError::NoSuchMember { .. } => Errno::ENODEV,
        GroupError::DelayTarget { .. } | GroupError::TooShort { .. } | GroupError::MinActive { .. } => Errno::ERANGE,
        GroupError::BadName { .. } | GroupError::NoCpus { .. } => Errno::EINVAL,
    }
}

impl K {
    pub(in super::super) async fn group_call(&self, call: &GroupCall, capable: bool) -> Result<(), Errno> {
        if !capable {
            return Err(Errno::EPERM);
        }
        while std::mem::replace(&mut self.w().groups.locked, true) {
            self.pause(DISABLE_PAUSE_MIN).await;
        }
        let result = self.do_to_group(call.group.at(), &call.deed).await;
        self.w().groups.locked = false;
        result.map_err(|error| errno(&error))
    }

    async fn do_to_group(&self, group: usize, deed: &GroupDeed) -> Result<(), GroupError> {
        let name = self.w().groups.all[group].name.clone();
        match deed {
            GroupDeed::Attach(napi) => {
                {
                    let mut w = self.w();
                    let called = w.napi_name(napi.at());
                    w.groups.table.attach(&name, MemberId(napi.0.into()), &called, true)?;
                }
                self.attach_member(group, napi.at()).await;
            }
            GroupDeed::Detach(napi) => {
                {
                    let mut w = self.w();
                    let called = w.napi_name(napi.at());
                    w.groups.table.detach(&name, MemberId(napi.0.into()), &called)?;
                }
                self.detach_member(napi.at()).await;
            }
            GroupDeed::AttachCpu(cpu) => {
                let mut w = self.w();
                let whole = w.groups.cpus();
                w.groups.table.attach_cpu(&name, GroupCpu(cpu.0), whole)?;
                w.groups.all[group].cpus.push(cpu.at());
                w.join(group, cpu.at());
            }
            GroupDeed::DetachCpu(cpu) => {
                self.w().groups.table.detach_cpu(&name, GroupCpu(cpu.0))?;
                self.w().keep_settings(group, &name);
                self.detach_cpu(cpu.at()).await;
            }
            GroupDeed::Set(settings) => {
                self.w().groups.table.set(&name, *settings)?;
                self.w().set_group(group, *settings);
            }
            GroupDeed::Delete => {
                let gone = self.w().groups.table.delete(&name)?;
                for member in gone.members {
                    self.detach_member(member.0 as usize).await;
                }
                for cpu in gone.cpus {
                    self.detach_cpu(cpu.0.into()).await;
                }
            }
        }
        Ok(())
    }

    async fn attach_member(&self, group: usize, napi: usize) {
        let dev = self.w().napis[napi].dev;
        self.lock(dev).await;
        self.w().reserve(group, napi);
        self.op().await;
        let absent = !self.w().napis[napi].present;
        if absent || self.w().begin_attach(napi) {
            let mut w = self.w();
            w.hit(Decision::GroupAttachDown);
            w.groups.members[napi].seat = w.groups.members[napi].seat.unhold().0;
            drop(w);
            self.unlock(dev);
            return;
        }
        self.op().await;
        while !self.w().claim(napi) {
            self.w().hit(Decision::GroupAttachWaits);
            self.pause(DISABLE_PAUSE_MIN).await;
        }
        self.op().await;
        let cpu = {
            let mut w = self.w();
            w.hit(Decision::GroupAttached);
            let (next, cpu) = w.groups.members[napi].seat.attached();
            w.groups.members[napi].seat = next;
            w.groups.pollers[usize::from(cpu.0)].waking += 1;
            w.touch(napi);
            cpu
        };
        self.op().await;
        let woken = self.w().wake_for(cpu);
        assert!(woken != Woken::Gone, "CPUs leave under the same lock");
        self.unlock(dev);
    }

    async fn detach_member(&self, napi: usize) {
        let dev = self.w().napis[napi].dev;
        self.lock(dev).await;
        {
            let mut w = self.w();
            let held = w.groups.members[napi].seat.hold();
            w.groups.members[napi].seat = held.expect("members are held under the lock");
        }
        self.op().await;
        while !self.take_held(napi).await {
            self.pause(DISABLE_PAUSE_MIN).await;
        }
        let schedule = {
            let mut w = self.w();
            w.hit(Decision::GroupDetached);
            let schedule = w.napis[napi].present && w.transition(napi, State::group_leave);
            if schedule {
                w.hand_over(napi, Owner::Ctx(self.me));
            }
            w.groups.members[napi].seat = w.groups.members[napi].seat.free();
            w.touch(napi);
            schedule
        };
        self.op().await;
        if schedule {
            self.bh_off();
            self.schedule_owned(napi).await;
            self.bh_on().await;
        }
        self.unlock(dev);
    }

    /// The turn of a member that the caller holds; false: not yet.
    async fn take_held(&self, napi: usize) -> bool {
        {
            let mut w = self.w();
            let seat = w.groups.members[napi].seat;
            if let Some(next) = seat.take_held() {
                w.groups.members[napi].seat = next;
                return true;
            }
            if seat.phase() != Phase::Armed {
                return false;
            }
            if !w.napis[napi].present || w.napis[napi].word.is_disabled() {
                w.groups.members[napi].seat = seat.take_armed();
                return true;
            }
        }
        // It is armed: the caller does what an event does, and keeps the instance for itself.
        if !self.schedule_prep(napi).await {
            return false;
        }
        let mut w = self.w();
        w.hit(Decision::GroupDetachedArmed);
        w.mask_for_group(napi);
        w.groups.members[napi].seat = w.groups.members[napi].seat.take_armed();
        true
    }

    /// A CPU leaves; its members have gone to others when it has, by what the policy decides.
    async fn detach_cpu(&self, cpu: usize) {
        let rouse = {
            let mut w = self.w();
            let poller = &mut w.groups.pollers[cpu];
            let (next, woken) = poller.word.go();
            poller.word = next;
            poller.leaving = true;
            let ctx = poller.ctx;
            if woken == Woken::Rouse {
                w.wake(ctx);
            }
            woken
        };
        assert!(rouse != Woken::Gone, "the table knows who is in the group");
        while self.w().groups.pollers[cpu].leaving {
            self.pause(DISABLE_PAUSE_MIN).await;
        }
        assert_eq!(self.w().groups.pollers[cpu].word.doing(), Doing::Off, "it has left");
    }
}

impl World {
    /// Settings as the table has them, which may have changed with the number of CPUs.
    fn keep_settings(&mut self, group: usize, name: &str) {
        let at = self.groups.table.find(name).expect("it was there a moment ago");
        let settings = self.groups.table.all()[at].settings;
        self.set_group(group, settings);
    }

    /// New settings are looked at by all CPUs, those that sleep too.
    fn set_group(&mut self, group: usize, settings: Settings) {
        self.groups.all[group].decider.set(settings);
        for cpu in self.groups.all[group].cpus.clone() {
            let _ = self.wake_poller(GroupCpu(cpu as u16));
        }
    }
}

//! Calls about groups. One at a time; an instance is taken and given back under its device's lock.

use napier_core::control::Errno;
use napier_core::group::{Doing, GroupCpu, GroupError, MemberId, Phase, Woken};
use napier_core::state::{DISABLE_PAUSE_MIN, State};

use crate::machine::dev::napi::NapiOwner;
use crate::machine::kernel::lifecycle::{dev_lock, dev_unlock};
use crate::machine::kernel::schedule::{schedule_owned, schedule_prep};
use crate::machine::sim::coverage::Decision;
use crate::machine::vm::K;
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

pub(crate) async fn group_call(k: &K, call: &GroupCall, capable: bool) -> Result<(), Errno> {
    if !capable {
        return Err(Errno::EPERM);
    }
    while std::mem::replace(&mut k.w().groups.locked, true) {
        k.pause(DISABLE_PAUSE_MIN).await;
    }
    let result = do_to_group(k, call.group.at(), &call.deed).await;
    k.w().groups.locked = false;
    result.map_err(|error| errno(&error))
}

async fn do_to_group(k: &K, group: usize, deed: &GroupDeed) -> Result<(), GroupError> {
    let name = k.w().groups.all[group].name.clone();
    match deed {
        GroupDeed::Attach(napi) => {
            {
                let mut w = k.w();
                let called = w.napi_name(napi.at());
                w.groups.table.attach(&name, MemberId(napi.0.into()), &called, true)?;
            }
            attach_member(k, group, napi.at()).await;
        }
        GroupDeed::Detach(napi) => {
            {
                let mut w = k.w();
                let called = w.napi_name(napi.at());
                w.groups.table.detach(&name, MemberId(napi.0.into()), &called)?;
            }
            detach_member(k, napi.at()).await;
        }
        GroupDeed::AttachCpu(cpu) => {
            let mut w = k.w();
            let whole = w.groups.cpus();
            w.groups.table.attach_cpu(&name, GroupCpu(cpu.0), whole)?;
            w.groups.all[group].cpus.push(cpu.at());
            w.join(group, cpu.at());
        }
        GroupDeed::DetachCpu(cpu) => {
            k.w().groups.table.detach_cpu(&name, GroupCpu(cpu.0))?;
            k.w().keep_settings(group, &name);
            detach_cpu(k, cpu.at()).await;
            // Another may have gone to sleep because this one was awake.
            k.w().wake_group(group);
        }
        GroupDeed::Set(settings) => {
            k.w().groups.table.set(&name, *settings)?;
            k.w().set_group(group, *settings);
        }
        GroupDeed::Delete => {
            let gone = k.w().groups.table.delete(&name)?;
            for member in gone.members {
                detach_member(k, member.0 as usize).await;
            }
            for cpu in gone.cpus {
                detach_cpu(k, cpu.0.into()).await;
            }
        }
    }
    Ok(())
}

async fn attach_member(k: &K, group: usize, napi: usize) {
    let dev = k.w().napis[napi].dev;
    dev_lock(k, dev).await;
    k.w().reserve(group, napi);
    k.op().await;
    let absent = !k.w().napis[napi].present;
    if absent || k.w().begin_attach(napi) {
        let mut w = k.w();
        w.hit(Decision::GroupAttachDown);
        w.groups.members[napi].seat = w.groups.members[napi].seat.unhold().0;
        drop(w);
        dev_unlock(k, dev);
        return;
    }
    k.op().await;
    while !k.w().claim(napi) {
        k.w().hit(Decision::GroupAttachWaits);
        k.pause(DISABLE_PAUSE_MIN).await;
    }
    k.op().await;
    let cpu = {
        let mut w = k.w();
        w.hit(Decision::GroupAttached);
        let (next, cpu) = w.groups.members[napi].seat.attached();
        w.groups.members[napi].seat = next;
        w.groups.pollers[usize::from(cpu.0)].waking += 1;
        w.touch(napi);
        cpu
    };
    k.op().await;
    let woken = k.w().wake_for(cpu);
    assert!(woken != Woken::Gone, "CPUs leave under the same lock");
    dev_unlock(k, dev);
}

async fn detach_member(k: &K, napi: usize) {
    let dev = k.w().napis[napi].dev;
    dev_lock(k, dev).await;
    {
        let mut w = k.w();
        let held = w.groups.members[napi].seat.hold();
        w.groups.members[napi].seat = held.expect("members are held under the lock");
    }
    k.op().await;
    while !take_held(k, napi).await {
        k.pause(DISABLE_PAUSE_MIN).await;
    }
    let schedule = {
        let mut w = k.w();
        w.hit(Decision::GroupDetached);
        let schedule = w.napis[napi].present && w.transition(napi, State::group_leave);
        if schedule {
            w.hand_over(napi, NapiOwner::Ctx(k.me));
        }
        w.groups.members[napi].seat = w.groups.members[napi].seat.free();
        w.touch(napi);
        schedule
    };
    k.op().await;
    if schedule {
        k.bh_off();
        schedule_owned(k, napi).await;
        k.bh_on().await;
    }
    dev_unlock(k, dev);
}

/// The turn of a member that the caller holds; false: not yet.
async fn take_held(k: &K, napi: usize) -> bool {
    {
        let mut w = k.w();
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
    if !schedule_prep(k, napi).await {
        return false;
    }
    let mut w = k.w();
    w.hit(Decision::GroupDetachedArmed);
    w.mask_for_group(napi);
    w.groups.members[napi].seat = w.groups.members[napi].seat.take_armed();
    true
}

/// A CPU leaves; its members have gone to others when it has, by what the policy decides.
async fn detach_cpu(k: &K, cpu: usize) {
    let rouse = {
        let mut w = k.w();
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
    while k.w().groups.pollers[cpu].leaving {
        k.pause(DISABLE_PAUSE_MIN).await;
    }
    assert_eq!(k.w().groups.pollers[cpu].word.doing(), Doing::Off, "it has left");
}

//! How a CPU of a group goes to sleep, and leaves its group.

use napier_core::completion::Flush;
use napier_core::group::{ArmStep, Arming, Doing, GroupCpu};

use crate::machine::kernel::schedule::device_interrupt;
use crate::machine::sim::coverage::Decision;
use crate::machine::sim::plant::Plant;
use crate::machine::vm::K;
use napier_scenario::Event;

pub(crate) fn as_group_cpu(k: &K) -> GroupCpu {
    GroupCpu(k.cpu() as u16)
}

/// Two-phase park: announced, every member armed, slept.
pub(crate) async fn group_park(k: &K) {
    if !k.w().announce_park(k.cpu()) {
        return;
    }
    k.op().await;
    let napis = k.w().napis.len();
    for napi in 0..napis {
        let me = as_group_cpu(k);
        if !k.w().groups.members[napi].seat.keeps_awake(me) {
            continue;
        }
        let taken = k.w().groups.members[napi].seat.take(me);
        let armed = match taken {
            Ok(next) => {
                k.w().groups.members[napi].seat = next;
                k.op().await;
                group_arm(k, napi).await
            }
            Err(_) => false,
        };
        if !armed {
            k.w().undo_park(k.cpu());
            return;
        }
    }
    k.op().await;
    // Nothing happens between this and the sleep.
    if k.w().fall_asleep(k.cpu()) {
        group_sleep(k).await;
    }
}

/// Sleeps until woken, or until another CPU has to be taken over from.
pub(crate) async fn group_sleep(k: &K) {
    loop {
        let until = k.w().watch_until(k.cpu());
        k.block(until).await;
        let mut w = k.w();
        if w.groups.pollers[k.cpu()].word.doing() != Doing::Asleep {
            break;
        }
        if w.one_stopped(k.cpu()) {
            w.hit(Decision::GroupTookOver);
            w.groups.pollers[k.cpu()].word = w.groups.pollers[k.cpu()].word.cancel();
            break;
        }
    }
}

/// Arms one member, in a turn of it; false if it has something to poll.
async fn group_arm(k: &K, napi: usize) -> bool {
    let mut arming = Arming::new();
    loop {
        match arming.next() {
            ArmStep::Look => {
                let mut w = k.w();
                w.flush(napi, Flush::All);
                w.deliver(napi);
                let found = !w.napis[napi].ring.is_empty() || w.tx_done(napi);
                arming.on_looked(found);
            }
            ArmStep::Arm => {
                let mut w = k.w();
                w.groups.members[napi].seat = w.groups.members[napi].seat.arm();
                arming.on_done();
            }
            ArmStep::Release => match k.w().release_armed(napi) {
                Some(missed) => arming.on_released(missed),
                None => return true,
            },
            ArmStep::Unmask => {
                let mut w = k.w();
                w.rearm_irq(napi);
                w.napis[napi].unmasks += 1;
                let index = w.napis[napi].index;
                w.note(Event::Unmask { napi: index });
                if w.plant == Plant::ParkWithoutSecondLook {
                    w.finished(napi);
                    return true;
                }
                arming.on_done();
            }
            ArmStep::Event => {
                k.w().hit(Decision::GroupArmEvent);
                device_interrupt(k, napi).await;
                k.w().finished(napi);
                return false;
            }
            ArmStep::Ready => {
                let cpu = k.w().seat_ready(napi);
                k.op().await;
                let _ = k.w().wake_for(cpu);
                return false;
            }
            ArmStep::Give => {
                let mut w = k.w();
                w.groups.members[napi].seat = w.groups.members[napi].seat.give();
                return false;
            }
            ArmStep::Armed => {
                k.w().finished(napi);
                return true;
            }
        }
        k.op().await;
    }
}

/// The CPU was told to leave: it does if it has no member. True: it has left.
pub(crate) async fn leave_group(k: &K) -> bool {
    if k.w().has_members(k.cpu()) {
        return false;
    }
    k.op().await;
    {
        let mut w = k.w();
        let word = w.groups.pollers[k.cpu()].word;
        w.groups.pollers[k.cpu()].word = word.leave().expect("it was told to");
    }
    k.op().await;
    let mut w = k.w();
    if w.has_members(k.cpu()) {
        w.groups.pollers[k.cpu()].word = w.groups.pollers[k.cpu()].word.stay();
        return false;
    }
    w.left_group(k.cpu());
    true
}

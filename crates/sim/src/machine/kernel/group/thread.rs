//! The thread of a CPU of a group: its turns, what its policy decides, how it parks. Interrupts cut into it as into any
//! thread; the softirqs that they raise run when a poll is over and bottom halves are enabled again.

use napier_core::completion::Flush;
use napier_core::group::{Decision as Decided, Doing, GroupCpu, NoTurn, Woken};
use napier_core::state::{GroupTurn, State};
use napier_core::time::{Deadline, Span};

use crate::machine::cpu::work::Work;
use crate::machine::group::ASIDE;
use crate::machine::kernel::group::park::{as_group_cpu, group_park, group_sleep, leave_group};
use crate::machine::kernel::poll::drive;
use crate::machine::sim::coverage::Decision;
use crate::machine::sim::plant::Plant;
use crate::machine::vm::K;
use napier_scenario::PollContext;

/// The policy is asked once in so long.
const DECIDE_EVERY: Span = Span::from_us(1);

/// The thread's code; it sleeps while its CPU is in no group.
pub(crate) async fn group_main(k: K) {
    loop {
        let doing = k.w().groups.pollers[k.cpu()].word.doing();
        match doing {
            Doing::Off => k.block(Deadline::NEVER).await,
            Doing::Asleep => group_sleep(&k).await,
            Doing::Active | Doing::Announced => {
                k.w().awake_again(k.cpu());
                group_round(&k).await;
            }
        }
    }
}

/// A turn of each member, and what comes between.
async fn group_round(k: &K) {
    let mut polled = false;
    let napis = k.w().napis.len();
    for napi in 0..napis {
        if k.w().groups.members[napi].seat.keeps_awake(as_group_cpu(k)) {
            polled |= group_turn(k, napi).await;
        }
    }
    if !polled {
        k.work(Work::SpinPause).await;
    }
    {
        let mut w = k.w();
        let now = w.now;
        w.groups.pollers[k.cpu()].turned = now;
    }
    group_decide(k).await;
    let park = std::mem::take(&mut k.w().groups.pollers[k.cpu()].asked_to_park);
    let going = k.w().groups.pollers[k.cpu()].word.is_going();
    if park {
        group_park(k).await;
    } else if going && leave_group(k).await {
        return;
    }
    k.cond_resched().await;
    let aside = {
        let mut w = k.w();
        let (now, others) = (w.now, w.others_wait(k.cpu()));
        w.groups.pollers[k.cpu()].way.asks(now, others)
    };
    if aside {
        k.w().hit(Decision::GroupStepAside);
        k.pause(ASIDE).await;
    }
}

/// One turn of a member; false if it was not to be had.
async fn group_turn(k: &K, napi: usize) -> bool {
    {
        let mut w = k.w();
        let seat = w.groups.members[napi].seat;
        match seat.take(as_group_cpu(k)) {
            Ok(next) => w.groups.members[napi].seat = next,
            Err(NoTurn::Busy) if w.plant == Plant::TwoPollers => {}
            Err(_) => return false,
        }
        w.touch(napi);
    }
    k.op().await;
    let turn = k.w().group_turn(napi);
    if turn == GroupTurn::GiveUp {
        give_up(k, napi).await;
        return true;
    }
    k.bh_off();
    let begun = k.w().now;
    let weight = k.w().napis[napi].weight;
    let work = drive(k, napi, weight, PollContext::Group).await;
    {
        let mut w = k.w();
        let flush = Flush::for_hz(w.hz);
        w.flush(napi, flush);
        w.deliver(napi);
        w.polled_by_group(napi, k.cpu(), work, begun);
        w.groups.members[napi].seat = w.groups.members[napi].seat.give();
        w.touch(napi);
    }
    k.bh_on().await;
    true
}

/// A disable waits: the member keeps its place, and the instance is let go.
async fn give_up(k: &K, napi: usize) {
    {
        let mut w = k.w();
        w.hit(Decision::GroupGaveUp);
        w.groups.members[napi].seat = w.groups.members[napi].seat.arm();
    }
    k.op().await;
    let mut w = k.w();
    let missed = w.transition(napi, State::group_release);
    assert!(!missed, "a disable takes all");
    w.disown(napi);
}

/// Asks the policy, if no CPU has for a while, and does what it says.
async fn group_decide(k: &K) {
    let (group, looked, decisions, which) = {
        let mut w = k.w();
        let (now, group) = (w.now, w.groups.pollers[k.cpu()].group);
        if w.groups.all[group].deciding || now - w.groups.all[group].decided < DECIDE_EVERY {
            return;
        }
        w.groups.all[group].decided = now;
        w.groups.all[group].deciding = true;
        let (members, which) = w.member_views(group);
        let cpus = w.cpu_views(group);
        let looked = (members.len() + cpus.len()) as u64;
        (group, looked, w.groups.all[group].decider.decide(now, &members, &cpus).to_vec(), which)
    };
    k.works(&[(Work::GroupLook, looked)]).await;
    k.w().groups.all[group].deciding = false;
    for decision in decisions {
        k.op().await;
        match decision {
            Decided::Wake(cpu) => drop(k.w().wake_poller(cpu)),
            Decided::Park(cpu) => k.w().groups.pollers[usize::from(cpu.0)].asked_to_park = true,
            Decided::Move { member, to } => move_member(k, which[member], to).await,
        }
    }
}

async fn move_member(k: &K, napi: usize, to: GroupCpu) {
    let mut to = Some(to);
    while let Some(cpu) = to {
        if !k.w().send_member(napi, cpu) {
            return;
        }
        k.op().await;
        // The CPU may have left in between: on to another.
        let woken = k.w().wake_for(cpu);
        to = match woken {
            Woken::Gone => k.w().other_cpu(napi),
            Woken::Awake | Woken::Rouse => None,
        };
    }
}

//! How a CPU of a group goes to sleep: announce, arm each member and look again, sleep.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use napier_core::completion::Flush;
use napier_core::group::{ArmStep, Arming, CpuWord, Doing, Policy, Seat};
use napier_core::state::State;
use napier_core::time::{Deadline, Instant, Span};

use super::{CpuPoller, Group, GroupMember, instant, sleeps};
use crate::deliver::Deliver;
use crate::napi::Context;

/// How often a CPU that sleeps looks whether others still do, if all did.
const ALL_ASLEEP: Span = Span::from_ms(100);

impl Group {
    /// Tries to park; false if there was something to do, or the CPU is told to leave.
    pub(super) fn park(&self, cx: Context, deliver: &Deliver, poller: &CpuPoller) -> bool {
        if !self.announce(poller) {
            return false;
        }
        let slept = self.arm_all(cx, deliver, poller) && poller.change_if(CpuWord::sleep);
        if !slept {
            poller.change(|word| (word.cancel(), ()));
            poller.vain_parks.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        poller.parks.fetch_add(1, Ordering::Relaxed);
        let awake = || !sleeps(poller) || self.stop.load(Ordering::Acquire);
        let stall = Span::from_ns(self.stall_ns.load(Ordering::Relaxed));
        loop {
            // Who sleeps looks after those that poll. With all asleep one may be woken, which tells nobody.
            let active = self.others(poller).map(|other| other.word().doing() == Doing::Active);
            let until = match active.reduce(|one, another| one || another) {
                Some(true) => Deadline::after(deliver.clock.now(), stall),
                Some(false) => Deadline::after(deliver.clock.now(), ALL_ASLEEP.max(stall)),
                None => Deadline::NEVER,
            };
            if poller.parker.wait(awake, until, &deliver.clock) {
                break;
            }
            if self.somebody_stopped(poller, deliver.clock.now(), stall) {
                poller.change(|word| (word.cancel(), ()));
                break;
            }
        }
        // It was asleep, and not silent; what was asked for before is done.
        poller.seen_ns.store(deliver.clock.now().ns, Ordering::Relaxed);
        poller.shall_park.store(false, Ordering::Relaxed);
        true
    }

    /// Arms the members of a CPU; true if none of them keeps it awake.
    fn arm_all(&self, cx: Context, deliver: &Deliver, poller: &CpuPoller) -> bool {
        let members = self.members.load();
        // Nobody tells a sleeper of what senders push: such a group keeps a CPU awake, and moves its members there first.
        let own = members.iter().filter(|member| member.seat().cpu() == poller.cpu);
        if own.clone().any(|member| member.has_run.load(Ordering::Relaxed)) {
            return false;
        }
        for member in members.iter() {
            if member.sit_if(|seat| seat.take(poller.cpu).ok()) {
                if member.has_run.load(Ordering::Relaxed) {
                    member.sit(|seat| (seat.give(), ()));
                    return false;
                }
                self.arm(cx, deliver, member);
            }
        }
        // Once more, with the announcement standing: also for what was moved here meanwhile, and for members that came.
        !self.members.load().iter().any(|member| member.seat().keeps_awake(poller.cpu))
    }

    /// Arms one member, whose turn the caller has.
    fn arm(&self, cx: Context, deliver: &Deliver, member: &GroupMember) {
        let napi = &*member.napi;
        let (mut arming, mut waiting) = (Arming::new(), None);
        loop {
            match arming.next() {
                ArmStep::Look => {
                    // The first look comes before anything is undone; the second is what unmasking says.
                    let found = waiting.take().unwrap_or_else(|| {
                        let mut owned = napi.owned.enter();
                        napi.flush_held(&mut owned, Flush::All);
                        owned.rx.pending() > 0
                    });
                    arming.on_looked(found);
                }
                ArmStep::Arm => {
                    member.sit(|seat| (seat.arm(), ()));
                    arming.on_done();
                }
                ArmStep::Release => {
                    let missed = napi.state.update(|bits| {
                        let (next, missed) = State::from_bits(bits).group_release();
                        (next.bits(), missed)
                    });
                    arming.on_released(missed);
                }
                ArmStep::Unmask => {
                    napi.counters.unmasked();
                    waiting = Some(napi.irq.unmask());
                    arming.on_done();
                }
                ArmStep::Event => return deliver.interrupt(cx, napi),
                ArmStep::Ready => {
                    let cpu = member.sit(Seat::ready);
                    return self.wake(member, cpu);
                }
                ArmStep::Give => return member.sit(|seat| (seat.give(), ())),
                ArmStep::Armed => return,
            }
        }
    }
}

impl CpuPoller {
    /// It should poll, and has not come round for so long.
    pub(super) fn is_silent(&self, now: Instant, stall: Span) -> bool {
        self.word().doing() == Doing::Active && now - instant(&self.seen_ns) >= stall
    }
}

impl Group {
    /// The CPU says that it is about to sleep; false if it is needed for members that there are, or has members while others are awake. What it goes by cannot
    /// change meanwhile: others park, and settings change, under the same lock.
    fn announce(&self, poller: &CpuPoller) -> bool {
        let Some(turn) = self.try_turn() else { return false };
        let settings = turn.decider.settings();
        let awake = |other: &CpuPoller| {
            let word = other.word();
            other.cpu != poller.cpu && !word.is_going() && word.doing() == Doing::Active
        };
        let others = self.pollers.load().iter().filter(|other| awake(other)).count();
        let members = self.members.load();
        let has_members = members.iter().any(|member| member.seat().keeps_awake(poller.cpu));
        let is_needed = settings.policy == Policy::Static || others < usize::from(settings.min_active);
        // Whatever the settings say, a group without members has nothing to poll. The first that comes wakes all.
        let may_sleep = members.is_empty() || !(is_needed || others > 0 && has_members);
        may_sleep && poller.change_if(CpuWord::announce)
    }

    /// The other CPUs.
    fn others(&self, poller: &CpuPoller) -> impl Iterator<Item = Arc<CpuPoller>> {
        let cpu = poller.cpu;
        self.pollers.load_full().to_vec().into_iter().filter(move |other| other.cpu != cpu)
    }

    /// A CPU that should poll members has not come round for so long.
    fn somebody_stopped(&self, poller: &CpuPoller, now: Instant, stall: Span) -> bool {
        let members = self.members.load();
        self.others(poller).any(|other| {
            other.is_silent(now, stall) && members.iter().any(|member| member.seat().keeps_awake(other.cpu))
        })
    }

    /// A CPU that was told to leave has no member any more, and is gone.
    pub(super) fn has_left(&self, poller: &CpuPoller) -> bool {
        let has_one = || self.members.load().iter().any(|member| member.seat().keeps_awake(poller.cpu));
        if has_one() || !poller.change_if(CpuWord::leave) {
            return false;
        }
        if has_one() {
            poller.change(|word| (word.stay(), ()));
            return false;
        }
        true
    }
}

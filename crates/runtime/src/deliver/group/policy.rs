//! When the policy is asked, what it sees, and what is done of what it says. Whichever CPU comes first asks; the others do not wait.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, MutexGuard, TryLockError};

use napier_core::group::{CpuState, CpuView, Decider, Decision, Doing, GroupCpu, MemberView, Phase};
use napier_core::time::{Instant, Span};

use super::{CpuPoller, Group, GroupMember, NOWHERE, instant};

/// The policy is asked at most this often.
const PERIOD: Span = Span::from_us(2);
/// If there is nothing to decide: how soon it is seen that this has changed.
const LONG_PERIOD: Span = Span::from_us(100);

/// The policy, and the room for what it sees.
pub(super) struct Turn {
    pub(super) decider: Decider,
    members: Vec<MemberView>,
    cpus: Vec<CpuView>,
}

impl Turn {
    pub(super) const fn new(decider: Decider) -> Self {
        Self { decider, members: Vec::new(), cpus: Vec::new() }
    }

    /// Looks at everything.
    fn look(&mut self, group: &Group, of: &[Arc<GroupMember>], now: Instant) {
        self.members.clear();
        self.cpus.clear();
        let stall = self.decider.settings().stall_after;
        self.cpus.extend(group.pollers.load().iter().map(|poller| cpu_view(poller, now)));
        for member in of {
            let view = member_view(member, now);
            let home = self.cpus.iter().find(|cpu| cpu.cpu == view.cpu);
            let stopped = home.is_some_and(|cpu| matches!(cpu.state, CpuState::Active { silent } if silent >= stall));
            let seat = member.seat();
            let fixed = seat.is_held() || stopped && seat.phase() == Phase::Turn;
            self.members.push(MemberView { fixed, ..view });
        }
    }

    /// Where a new member goes.
    pub(super) fn place(&mut self, group: &Group, now: Instant) -> Option<GroupCpu> {
        self.look(group, &group.members.load(), now);
        self.decider.place(&self.members, &self.cpus)
    }
}

pub(super) fn member_view(member: &GroupMember, now: Instant) -> MemberView {
    let seat = member.seat();
    // What its last turn left says nothing of one that nobody polls.
    let of_turn = |figure: &AtomicU32| if seat.phase() == Phase::Armed { 0 } else { figure.load(Ordering::Relaxed) };
    let backlog = of_turn(&member.backlog);
    // It has waited since the last turn at most; without a packet nobody waits.
    let waits = seat.phase() == Phase::Ready && (backlog > 0 || member.napi.irq.packets_wait());
    let since = instant(&member.turn_ended_ns);
    let last = member.last_cpu.load(Ordering::Relaxed);
    MemberView {
        cpu: seat.cpu(),
        last: (last != NOWHERE).then_some(GroupCpu(last as u16)),
        age: if waits { now.max(since) - since } else { Span::ZERO },
        backlog,
        load: of_turn(&member.load_permille) as u16,
        per_packet: Span::from_ns(member.per_packet_ns.load(Ordering::Relaxed)),
        fixed: false,
    }
}

fn cpu_view(poller: &CpuPoller, now: Instant) -> CpuView {
    let word = poller.word();
    let seen = instant(&poller.seen_ns);
    let state = match word.doing() {
        _ if word.is_going() => CpuState::Leaving,
        Doing::Off => CpuState::Leaving,
        Doing::Asleep => CpuState::Parked,
        Doing::Active | Doing::Announced => CpuState::Active { silent: now.max(seen) - seen },
    };
    CpuView { cpu: poller.cpu, state, core: poller.place.core, node: poller.place.node }
}

impl Group {
    /// The right to decide, if no other thread has it.
    pub(super) fn try_turn(&self) -> Option<MutexGuard<'_, Turn>> {
        match self.turn.try_lock() {
            Ok(turn) => Some(turn),
            Err(TryLockError::Poisoned(turn)) => Some(turn.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Asks the policy, if it is time and no other thread is asking.
    pub(super) fn ask_policy(&self, poller: &CpuPoller, now: Instant) {
        if now.ns.saturating_sub(self.decided_ns.load(Ordering::Relaxed)) < PERIOD.ns {
            return;
        }
        let Some(mut turn) = self.try_turn() else { return self.rescue(poller, now) };
        self.decided_ns.store(now.ns, Ordering::Relaxed);
        let seen = self.members.load();
        turn.look(self, &seen, now);
        if let [only] = &turn.cpus[..]
            && turn.decider.settings().min_awake(1) == 1
            && only.state != CpuState::Leaving
        {
            self.decided_ns.store((now + LONG_PERIOD).ns, Ordering::Relaxed);
        }
        let Turn { decider, members, cpus } = &mut *turn;
        for decision in decider.decide(now, members, cpus) {
            match *decision {
                Decision::Park(cpu) => self.with_poller(cpu, |poller| poller.shall_park.store(true, Ordering::Relaxed)),
                Decision::Wake(cpu) => self.with_poller(cpu, |poller| _ = poller.wake()),
                Decision::Move { member, to } => {
                    if let Some(member) = seen.get(member) {
                        self.move_member(member, to);
                    }
                }
            }
        }
    }

    /// Who is asking has been stopped in the midst of it: this CPU takes what that one and others that are silent should poll.
    #[cold]
    pub(super) fn rescue(&self, poller: &CpuPoller, now: Instant) {
        let stall = Span::from_ns(self.stall_ns.load(Ordering::Relaxed));
        if now - instant(&self.decided_ns) < stall || poller.word().is_going() {
            return;
        }
        for member in self.members.load().iter().filter(|member| !member.seat().is_held()) {
            let home = member.seat().cpu();
            let stopped = self.poller(home).is_some_and(|home| home.is_silent(now, stall));
            if home != poller.cpu && stopped {
                self.move_member(member, poller.cpu);
            }
        }
    }

    fn with_poller(&self, cpu: GroupCpu, act: impl FnOnce(&CpuPoller)) {
        if let Some(poller) = self.pollers.load().iter().find(|poller| poller.cpu == cpu) {
            act(poller);
        }
    }
}

//! The thread of a group's CPU, named `group/<name>/<cpu>`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use napier_core::completion::Flush;
use napier_core::context::PollContext;
use napier_core::group::{GroupCpu, Phase, Seat};
use napier_core::poll::NAPI_POLL_WEIGHT;
use napier_core::state::{GroupTurn, State};
use napier_core::time::{Instant, Span};
use napier_stack::deferred::{Deferring, Work};
use napier_sys::sched::pin_thread;
use napier_sys::tsc::ticks;

use super::class::{step_aside, way};
use super::{CpuPoller, Group, GroupMember, instant, sleeps};
use crate::bounds::HZ;
use crate::deliver::Deliver;
use crate::napi::Context;
use crate::threads::ThreadRole;
use crate::tx::{OwnerTurn, PerThread};

/// Rounds in a row without a packet after which who waits for room on a transmit queue is told.
const LOOK_EVERY: u32 = 64;
/// And after which the processor is offered to others: as often as a thread that busy polls does it.
const YIELD_EVERY: u32 = 256;

impl Group {
    /// Starts the thread of a CPU.
    ///
    /// # Errors
    /// The system refused a thread.
    pub(super) fn start(self: &Arc<Self>, deliver: &Arc<Deliver>, poller: &Arc<CpuPoller>) -> std::io::Result<()> {
        let (group, deliver, of) = (self.clone(), deliver.clone(), poller.clone());
        let (report, began) = std::sync::mpsc::sync_channel(1);
        let name = format!("group/{}/{}", self.name, poller.cpu.0);
        let handle = std::thread::Builder::new().name(name).spawn(move || {
            deliver.unpin_thread();
            let role = ThreadRole::Group { name: group.name.clone(), cpu: of.cpu.0.into() };
            PerThread::begin_duty(&deliver.threads, role);
            of.pid.store(rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs(), Ordering::Relaxed);
            let _ = report.send(());
            drop(report);
            group.main(&deliver, &of);
            PerThread::end_duty(&deliver.threads);
        })?;
        began.recv().map_err(std::io::Error::other)?;
        pin_thread(poller.pid.load(Ordering::Relaxed), poller.cpu.0.into());
        *poller.thread.lock().expect("only stored") = Some(handle);
        Ok(())
    }
}

impl Group {
    /// Who waits for room on a queue of this CPU is told if there is some.
    fn look_for_senders(&self, cpu: GroupCpu) {
        let members = self.members.load();
        let own = members.iter().filter(|member| member.has_run.load(Ordering::Relaxed) && member.seat().cpu() == cpu);
        own.for_each(|member| member.napi.tx_path().look_for_senders());
    }
}

impl Group {
    fn main(&self, deliver: &Deliver, poller: &CpuPoller) {
        Context::begin_duty();
        napier_sys::nowait::this_thread();
        let cx = Context::current();
        napier_sys::sched::exact_timers();
        let (mut empty_rounds, mut last, mut way, mut due) = (0_u32, ticks(), way(), 0);
        while !self.stop.load(Ordering::Acquire) {
            let members = self.members.load();
            let (mut work, mut spun_at, mut now) = (0, None, instant(&poller.seen_ns));
            // One member has its turn in any case, each round another one: what a look cannot see waits no longer than that, and the
            // path that a packet takes stays warm.
            due = if due + 1 < members.len() { due + 1 } else { 0 };
            for (nth, member) in members.iter().enumerate() {
                if member.seat().cpu() != poller.cpu || nth != due && member.is_quiet(now) {
                    continue;
                }
                if let Some(found) = self.turn(cx, deliver, member, poller.cpu, &mut now) {
                    work += found;
                    spun_at = Some(member);
                }
            }
            if spun_at.is_none() {
                now = deliver.clock.now();
            }
            poller.seen_ns.store(now.ns, Ordering::Relaxed);
            let served = serve_softirq(cx, deliver, poller.cpu, now);
            if served {
                now = deliver.clock.now();
                poller.seen_ns.store(now.ns, Ordering::Relaxed);
            }
            self.ask_policy(poller, now);
            let aside = step_aside(poller, &mut way, now);
            if poller.word().is_going() && self.has_left(poller) {
                return;
            }
            let ticks = ticks();
            if work > 0 {
                empty_rounds = 0;
            } else {
                let spun = if served || aside { 0 } else { ticks.wrapping_sub(last) };
                match spun_at {
                    Some(member) => member.napi.counters.spun(spun),
                    None => PerThread::spun(spun),
                }
                empty_rounds = empty_rounds.wrapping_add(1);
                std::hint::spin_loop();
            }
            last = ticks;
            let (shall_park, is_empty) = (poller.shall_park.swap(false, Ordering::Relaxed), members.is_empty());
            drop(members);
            if (shall_park || is_empty) && self.park(cx, deliver, poller) {
                (empty_rounds, last) = (0, napier_sys::tsc::ticks());
            } else if empty_rounds > 0 && empty_rounds.is_multiple_of(LOOK_EVERY) {
                self.look_for_senders(poller.cpu);
                if empty_rounds.is_multiple_of(YIELD_EVERY) {
                    std::thread::yield_now();
                }
            }
        }
    }

    /// An interrupt has woken the softirq thread of the member's CPU, and the group's thread is asleep: the packet does not wait
    /// for a second thread to wake.
    pub(super) fn first_turn(&self, cx: Context, deliver: &Deliver, member: &GroupMember, cpu: GroupCpu) {
        let is_of_cpu = cx.thread_of().is_some() && cx.thread_of() == deliver.softirq.index_of(cpu.0.into());
        // Who is polling already, or was told to leave that to others, only wakes.
        let may = is_of_cpu && cx.handles().is_none() && !cx.kicks_only();
        if may && self.poller(cpu).is_some_and(|poller| sleeps(&poller)) {
            let mut now = Instant::ZERO;
            let _ = self.turn(cx, deliver, member, cpu, &mut now);
        }
    }

    /// A turn of a member: its packets, if it is this CPU's to poll. `None`: it is not. `now` becomes the time of
    /// its end, or of its beginning if nothing was there: the clock is read once then.
    fn turn(
        &self,
        cx: Context,
        deliver: &Deliver,
        member: &GroupMember,
        cpu: GroupCpu,
        now: &mut Instant,
    ) -> Option<u32> {
        if !member.sit_if(|seat| seat.take(cpu).ok()) {
            return None;
        }
        let napi = &*member.napi;
        let (turn, missed) = napi.state.update(|bits| {
            let state = State::from_bits(bits);
            let (next, turn) = state.group_turn();
            (next.bits(), (turn, state.contains(State::MISSED)))
        });
        match turn {
            // An interrupt came although the group has the instance: who had it before unmasked after the group had masked.
            GroupTurn::Poll if missed => napi.mask(),
            GroupTurn::Poll => {}
            GroupTurn::GiveUp => {
                member.give_up();
                return None;
            }
        }
        let began = deliver.clock.now();
        *now = began;
        let (work, backlog, held) = {
            let _calls = Deferring::begin(Work::Calls);
            let mut owned = napi.owned.enter();
            napi.tx_path().napi_polled();
            let work = napi.drive(cx, &mut owned, NAPI_POLL_WEIGHT, PollContext::Group);
            napi.flush_held(&mut owned, Flush::for_hz(HZ));
            if work == 0 && deliver.groups.dry_runs {
                napi.polled_in_vain(&mut owned);
            }
            (work, owned.rx.pending(), owned.merging.held())
        };
        let run = if member.has_run.load(Ordering::Relaxed) { member.run_turn() } else { OwnerTurn::Idle };
        // What waits for its time, or for room, is no reason to keep the processor from others.
        let served = run == OwnerTurn::Served;
        if work > 0 || served {
            *now = deliver.clock.now();
        }
        let idle = work == 0 && backlog == 0 && !held && run == OwnerTurn::Idle && napi.irq.look_suffices();
        member.idle.store(idle, Ordering::Relaxed);
        note_turn(member, began, *now, work, backlog);
        let moved = member.sit(|seat| (seat.give(), seat.cpu()));
        if moved != cpu {
            self.wake(member, moved);
        }
        Some(work + u32::from(served))
    }
}

/// While a CPU of a group is awake it does what was raised on it, and what is due. False: it was nothing.
fn serve_softirq(cx: Context, deliver: &Deliver, cpu: GroupCpu, now: Instant) -> bool {
    deliver.softirq.index_of(cpu.0.into()).is_some_and(|index| deliver.softirq[index as usize].serve(cx, deliver, now))
}

impl GroupMember {
    /// What senders have pushed goes on its way.
    fn run_turn(&self) -> OwnerTurn {
        let mut own = self.own.enter();
        self.napi.tx_path().owner_turn(&mut own.run)
    }

    /// A disable waits for the instance.
    fn give_up(&self) {
        self.sit(|seat| (Seat::arm(seat), ()));
        // Nothing is unmasked: enabling does that.
        let _ = self.napi.state.update(|bits| {
            let (next, missed) = State::from_bits(bits).group_release();
            (next.bits(), missed)
        });
    }

    /// A turn would find nothing, as far as a look tells, which costs a few loads of words that are not written meanwhile. It does
    /// not see frames that came home, or a load that sinks.
    #[inline]
    fn is_quiet(&self, now: Instant) -> bool {
        // Relaxed: mostly the CPU that looks has written it. An old one costs a turn, or lets it wait until it is due.
        if !self.idle.load(Ordering::Relaxed) || self.seat().phase() != Phase::Ready {
            return false;
        }
        let (napi, path) = (&*self.napi, self.napi.tx_path());
        #[cfg(test)]
        if napi.never_empty.load(Ordering::Relaxed) {
            return false;
        }
        let wanted = napi.irq.packets_wait()
            || napi.state().group_turn_is_due()
            || path.wants_poll()
            || self.has_run.load(Ordering::Relaxed) && path.wants_owner();
        if !wanted {
            self.turn_ended_ns.store(now.ns, Ordering::Relaxed);
        }
        !wanted
    }
}

/// What a turn says for the policy.
fn note_turn(member: &GroupMember, began: Instant, now: Instant, work: u32, backlog: u32) {
    let spent = if work > 0 { now - began } else { Span::ZERO };
    let mut own = member.own.enter();
    own.load.polled(now, spent);
    member.load_permille.store(own.load.permille(now).into(), Ordering::Relaxed);
    drop(own);
    if work > 0 {
        member.per_packet_ns.store(spent.ns / u64::from(work), Ordering::Relaxed);
    }
    member.backlog.store(backlog, Ordering::Relaxed);
    member.turn_ended_ns.store(now.ns, Ordering::Relaxed);
}

#[cfg(test)]
#[path = "poll_tests.rs"]
mod tests;

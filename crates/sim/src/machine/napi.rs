//! A simulated NAPI instance: its word, who owns it, its timer.

use std::collections::VecDeque;

use napier_core::completion::Tunables;
use napier_core::control::ThreadedSetting;
use napier_core::state::State;
use napier_core::time::{Deadline, Instant, Span};

use super::device::Packet;
use super::event::{Ev, HardIrq};
use super::gro::Merge;
use super::nic::Nic;
use super::vm::CtxId;
use super::world::World;
use napier_scenario::{CpuIx, Event, NapiIx, Quirk};

/// Who owns an instance. Kept beside the word, by the executor alone, so that the two can be compared.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Owner {
    /// It is disabled.
    Disabled,
    /// It is on a CPU's poll list, or that CPU's softirq polls it.
    Cpu(usize),
    /// Its thread.
    Thread,
    /// A context that has just got it, or busy polls.
    Ctx(CtxId),
    /// A group of CPUs; which of them is in the member's own word.
    Group,
}

/// The one timer of an instance.
#[derive(Copy, Clone, Default, Debug)]
pub(super) struct Timer {
    pub(super) armed: bool,
    pub(super) cpu: usize,
    pub(super) generation: u32,
}

/// One instance.
pub(super) struct Napi {
    /// Position among all instances.
    pub(super) index: NapiIx,
    pub(super) dev: usize,
    pub(super) queue: u16,
    pub(super) irq_cpu: usize,
    /// It is LISTED.
    pub(super) present: bool,
    pub(super) word: State,
    pub(super) owner: Option<Owner>,
    pub(super) defers_left: u32,
    /// The largest value that was ever loaded.
    pub(super) defers_max: u32,
    pub(super) tunables: Tunables,
    pub(super) threaded: ThreadedSetting,
    /// 0: none. Kept after the id is hidden.
    pub(super) id: u32,
    pub(super) id_visible: bool,
    pub(super) timer: Timer,
    /// Timer callbacks that have begun and not ended.
    pub(super) callbacks: u32,
    /// Contexts between their release and their arming or unmasking.
    pub(super) finishing: u32,
    /// The timer was armed by a context that had released before the instance was disabled.
    pub(super) armed_late: bool,
    /// MISSED may be set without an owner: left by an attempt on a disabled instance, or by the timer path of a stop.
    pub(super) missed_kept: bool,
    /// Who is inside the driver's poll.
    pub(super) polling: Option<CtxId>,
    pub(super) quirk: Quirk,
    pub(super) weight: u32,
    // The device's side.
    pub(super) masked: bool,
    pub(super) ring: VecDeque<Packet>,
    pub(super) irq_latched: bool,
    pub(super) merge: Merge,
    /// Frames of an `AF_XDP` ring that wait for a poll to send them.
    pub(super) to_send: u32,
    /// When a busy poll last ended.
    pub(super) busy_at: Instant,
    // The thread.
    pub(super) kthread: CtxId,
    pub(super) has_thread: bool,
    pub(super) thread_stop: bool,
    // Counters.
    /// Moderation of the card itself, in runs for figures.
    pub(super) nic: Option<Nic>,
    pub(super) polls: u64,
    pub(super) empty_polls: u64,
    pub(super) packets: u64,
    pub(super) interrupts: u64,
    pub(super) timer_fires: u64,
    pub(super) unmasks: u64,
}

impl World {
    /// Applies a rule to the word, in one step.
    #[inline]
    pub(super) fn transition<R>(&mut self, napi: usize, rule: impl FnOnce(State) -> (State, R)) -> R {
        let n = &mut self.napis[napi];
        let before = n.word;
        let (next, answer) = rule(before);
        n.word = next;
        self.touch(napi);
        let taken = !before.contains(State::SCHED) && next.contains(State::SCHED);
        // A group that attaches waits as a disable does, and ends as owner.
        let attached = next.contains(State::GROUP) && !next.contains(State::DISABLE);
        if taken && before.contains(State::DISABLE) && !next.contains(State::NPSVC) && !attached {
            let name = self.napi_name(napi);
            self.fail(format!("{name}: a new owner while a disable waits"));
        }
        answer
    }

    /// Applies a rule that may decline.
    #[inline]
    pub(super) fn transition_if(&mut self, napi: usize, rule: impl FnOnce(State) -> Option<State>) -> bool {
        self.transition(napi, |word| rule(word).map_or((word, false), |next| (next, true)))
    }

    /// The instance is to be checked after this step.
    #[inline]
    pub(super) fn touch(&mut self, napi: usize) {
        if !self.dirty.contains(&napi) {
            self.dirty.push(napi);
        }
    }

    /// The instance gets an owner; it must have none.
    pub(super) fn own(&mut self, napi: usize, owner: Owner) {
        let before = self.napis[napi].owner.replace(owner);
        if let Some(before) = before {
            let name = self.napi_name(napi);
            self.fail(format!("{name}: {owner:?} became owner beside {before:?}"));
        }
        self.touch(napi);
    }

    /// The owner hands the instance on.
    pub(super) fn hand_over(&mut self, napi: usize, to: Owner) {
        if self.napis[napi].owner.replace(to).is_none() {
            let name = self.napi_name(napi);
            self.fail(format!("{name}: handed to {to:?} without an owner"));
        }
        self.touch(napi);
    }

    /// The owner lets go.
    pub(super) fn disown(&mut self, napi: usize) {
        if self.napis[napi].owner.take().is_none() {
            let name = self.napi_name(napi);
            self.fail(format!("{name}: released without an owner"));
        }
        self.touch(napi);
    }

    /// A point in time as seen by the rules: now.
    pub(super) fn after(&self, span: Span) -> Deadline {
        Deadline::after(self.now, span)
    }

    /// `device/queue`.
    pub(super) fn napi_name(&self, napi: usize) -> String {
        let n = &self.napis[napi];
        format!("{}/{}", self.devs[n.dev].name, n.queue)
    }

    /// The enabled instance with this id.
    #[inline]
    pub(super) fn by_id(&self, id: u32) -> Option<usize> {
        self.napis.iter().position(|n| n.id_visible && n.id == id)
    }

    /// Arms the timer on `cpu`; the last arming wins.
    pub(super) fn arm(&mut self, napi: usize, span: Span, cpu: usize) {
        let at = self.after(span);
        // The disable has claimed the instance and may have cancelled the timer already.
        let late = self.napis[napi].word.contains(State::NPSVC);
        let timer = &mut self.napis[napi].timer;
        *timer = Timer { armed: true, cpu, generation: timer.generation + 1 };
        let generation = timer.generation;
        self.napis[napi].armed_late = late;
        let index = self.napis[napi].index;
        self.note(Event::TimerStart { napi: index, after: span, cpu: CpuIx(cpu as u16) });
        self.push(at, Ev::Timer { napi, generation });
        self.touch(napi);
    }

    /// Disarms.
    pub(super) fn cancel_timer(&mut self, napi: usize) {
        let timer = &mut self.napis[napi].timer;
        timer.generation += 1;
        if std::mem::take(&mut timer.armed) {
            let index = self.napis[napi].index;
            self.note(Event::TimerCancel { napi: index });
        }
        self.touch(napi);
    }

    /// The hardware timer expires: its CPU is interrupted. Until the handler begins the timer counts as armed.
    pub(super) fn timer_expires(&mut self, napi: usize, generation: u32) -> Option<usize> {
        let timer = self.napis[napi].timer;
        if !timer.armed || timer.generation != generation {
            return None;
        }
        self.cpus[timer.cpu].hard_queue.push_back(HardIrq::Timer { napi, generation });
        Some(timer.cpu)
    }
}

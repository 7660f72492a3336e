//! A simulated NAPI instance: its word, who owns it, its timer.

use std::collections::VecDeque;

use napier_core::completion::Tunables;
use napier_core::control::ThreadedSetting;
use napier_core::state::State;
use napier_core::time::{Instant, Span};

use crate::machine::dev::Devices;
use crate::machine::dev::frames::RxPacket;
use crate::machine::dev::gro::Merge;
use crate::machine::dev::nic::Nic;
use crate::machine::dev::tune::Tuner;
use crate::machine::sim::event::{CtxId, Ev, HardIrq};
use napier_scenario::{CpuIx, Event, NapiIx, Quirk};

/// Who owns an instance. Kept beside the word, by the executor alone, so that the two can be compared.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum NapiOwner {
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
pub(crate) struct Timer {
    pub(crate) armed: bool,
    pub(crate) cpu: usize,
    pub(crate) generation: u32,
}

/// One instance.
pub(crate) struct Napi {
    /// Position among all instances.
    pub(crate) index: NapiIx,
    pub(crate) dev: usize,
    pub(crate) queue: u16,
    pub(crate) irq_cpu: usize,
    /// It is LISTED.
    pub(crate) present: bool,
    pub(crate) word: State,
    pub(crate) owner: Option<NapiOwner>,
    pub(crate) defers_left: u32,
    /// The largest value that was ever loaded.
    pub(crate) defers_max: u32,
    pub(crate) tunables: Tunables,
    pub(crate) threaded: ThreadedSetting,
    /// 0: none. Kept after the id is hidden.
    pub(crate) id: u32,
    pub(crate) id_visible: bool,
    pub(crate) timer: Timer,
    /// Timer callbacks that have begun and not ended.
    pub(crate) callbacks: u32,
    /// Contexts that have released or enabled the instance, and may yet arm its timer, unmask its interrupt or look at its ring.
    pub(crate) finishing: u32,
    /// The timer was armed by a context that had released before the instance was disabled.
    pub(crate) armed_late: bool,
    /// MISSED may be set without an owner: left by an attempt on a disabled instance, or by the timer path of a stop.
    pub(crate) missed_kept: bool,
    /// Who is inside the driver's poll.
    pub(crate) polling: Option<CtxId>,
    pub(crate) quirk: Quirk,
    pub(crate) weight: u32,
    // The device's side.
    pub(crate) masked: bool,
    pub(crate) ring: VecDeque<RxPacket>,
    pub(crate) irq_latched: bool,
    pub(crate) merge: Merge,
    /// Frames of an `AF_XDP` ring that wait for a poll to send them.
    pub(crate) to_send: u32,
    /// When a busy poll last ended.
    pub(crate) busy_at: Instant,
    // The thread.
    pub(crate) kthread: CtxId,
    pub(crate) has_thread: bool,
    pub(crate) thread_stop: bool,
    // Counters.
    /// Moderation of the card itself, in runs for figures.
    pub(crate) nic: Option<Nic>,
    /// What changes its settings by what comes, in runs for figures.
    pub(crate) tuner: Option<Box<dyn Tuner>>,
    pub(crate) polls: u64,
    pub(crate) empty_polls: u64,
    pub(crate) packets: u64,
    /// Bytes of frames that came, in runs for figures.
    pub(crate) wire_bytes: u64,
    pub(crate) interrupts: u64,
    pub(crate) timer_fires: u64,
    pub(crate) unmasks: u64,
}

pub(crate) fn new_instance(index: NapiIx, dev: usize, queue: u16, irq_cpu: usize, kthread: usize, weight: u32) -> Napi {
    Napi {
        index,
        dev,
        queue,
        irq_cpu,
        present: false,
        word: State::SCHED.with(State::NPSVC),
        owner: Some(NapiOwner::Disabled),
        defers_left: 0,
        defers_max: 0,
        tunables: Tunables::default(),
        threaded: ThreadedSetting::Disabled,
        id: 0,
        id_visible: false,
        timer: Timer::default(),
        callbacks: 0,
        finishing: 0,
        armed_late: false,
        missed_kept: false,
        polling: None,
        quirk: Quirk::None,
        weight,
        masked: true,
        ring: VecDeque::new(),
        irq_latched: false,
        merge: Merge::default(),
        to_send: 0,
        busy_at: Instant::ZERO,
        kthread,
        has_thread: false,
        thread_stop: false,
        nic: None,
        tuner: None,
        polls: 0,
        empty_polls: 0,
        packets: 0,
        wire_bytes: 0,
        interrupts: 0,
        timer_fires: 0,
        unmasks: 0,
    }
}

impl Devices {
    /// Applies a rule to the word, in one step.
    #[inline]
    pub(crate) fn transition<R>(&mut self, napi: usize, rule: impl FnOnce(State) -> (State, R)) -> R {
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
    pub(crate) fn transition_if(&mut self, napi: usize, rule: impl FnOnce(State) -> Option<State>) -> bool {
        self.transition(napi, |word| rule(word).map_or((word, false), |next| (next, true)))
    }

    /// The instance is to be checked after this step.
    #[inline]
    pub(crate) fn touch(&mut self, napi: usize) {
        if !self.dirty.contains(&napi) {
            self.dirty.push(napi);
        }
    }

    /// The instance gets an owner; it must have none.
    pub(crate) fn own(&mut self, napi: usize, owner: NapiOwner) {
        let before = self.napis[napi].owner.replace(owner);
        if let Some(before) = before {
            let name = self.napi_name(napi);
            self.fail(format!("{name}: {owner:?} became owner beside {before:?}"));
        }
        self.touch(napi);
    }

    /// The owner hands the instance on.
    pub(crate) fn hand_over(&mut self, napi: usize, to: NapiOwner) {
        if self.napis[napi].owner.replace(to).is_none() {
            let name = self.napi_name(napi);
            self.fail(format!("{name}: handed to {to:?} without an owner"));
        }
        self.touch(napi);
    }

    /// The owner lets go.
    pub(crate) fn disown(&mut self, napi: usize) {
        if self.napis[napi].owner.take().is_none() {
            let name = self.napi_name(napi);
            self.fail(format!("{name}: released without an owner"));
        }
        self.touch(napi);
    }

    /// One attempt; a prefer poller that loses leaves its mark.
    pub(crate) fn try_busy_acquire(&mut self, napi: usize, prefer: bool, me: usize) -> bool {
        if self.transition_if(napi, State::busy_acquire) {
            self.own(napi, NapiOwner::Ctx(me));
            return true;
        }
        if prefer {
            self.transition(napi, |word| (word.busy_contended(), ()));
        }
        false
    }

    /// `device/queue`.
    pub(crate) fn napi_name(&self, napi: usize) -> String {
        let n = &self.napis[napi];
        format!("{}/{}", self.devs[n.dev].name, n.queue)
    }

    /// The enabled instance with this id.
    #[inline]
    pub(crate) fn by_id(&self, id: u32) -> Option<usize> {
        self.napis.iter().position(|n| n.id_visible && n.id == id)
    }

    /// Arms the timer on `cpu`; the last arming wins.
    pub(crate) fn arm(&mut self, napi: usize, span: Span, cpu: usize) {
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
    pub(crate) fn cancel_timer(&mut self, napi: usize) {
        let timer = &mut self.napis[napi].timer;
        timer.generation += 1;
        if std::mem::take(&mut timer.armed) {
            let index = self.napis[napi].index;
            self.note(Event::TimerCancel { napi: index });
        }
        self.touch(napi);
    }

    /// The hardware timer expires: its CPU is interrupted. Until the handler begins the timer counts as armed.
    pub(crate) fn timer_expires(&mut self, napi: usize, generation: u32) -> Option<usize> {
        let timer = self.napis[napi].timer;
        if !timer.armed || timer.generation != generation {
            return None;
        }
        self.cpus[timer.cpu].hard_queue.push_back(HardIrq::Timer { napi, generation });
        Some(timer.cpu)
    }

    /// The driver's poll begins: by the owner alone, and never twice at once.
    pub(crate) fn enter_poll(&mut self, napi: usize, me: CtxId) {
        let n = &mut self.napis[napi];
        let wrong = if let Some(other) = n.polling {
            Some(format!("polled by context {me} while {other} polls"))
        } else if !n.word.contains(State::SCHED) {
            Some("polled without an owner".to_owned())
        } else if n.word.contains(State::NPSVC) {
            Some("polled while disabled".to_owned())
        } else {
            None
        };
        n.polling = Some(me);
        if let Some(wrong) = wrong {
            let name = self.napi_name(napi);
            self.fail(format!("{name}: {wrong}"));
        }
    }

    /// The driver's poll ends.
    pub(crate) fn leave_poll(&mut self, napi: usize, me: CtxId) {
        let n = &mut self.napis[napi];
        if n.polling.take() != Some(me) && n.quirk == Quirk::None {
            let name = self.napi_name(napi);
            self.fail(format!("{name}: a poll ended that had not begun"));
        }
    }

    /// The context that has released or enabled the instance has armed or unmasked and looked at the ring, or will do neither.
    pub(crate) fn finished(&mut self, napi: usize) {
        self.napis[napi].finishing -= 1;
        self.touch(napi);
    }
}

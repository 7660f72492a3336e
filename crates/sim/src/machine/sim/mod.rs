//! What every part of the machine stands on: the clock, the events that are to come, chance, the log, and whether a rule is broken.

pub(crate) mod coverage;
pub(crate) mod event;
pub(crate) mod plant;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use napier_core::time::{Deadline, Instant, Span};
use napier_rng::Xoshiro256PlusPlus;
use rand::RngExt;

use crate::machine::sim::coverage::{Coverage, Decision};
use crate::machine::sim::event::{Ev, Queued};
use crate::machine::sim::plant::{Options, Plant};
use napier_scenario::{Event, Machine, Seen};

/// The floor of the machine; it knows no part of it.
pub(crate) struct Sim {
    pub(crate) now: Instant,
    /// Time zero of the timeline.
    pub(crate) epoch: Instant,
    pub(crate) horizon: Instant,
    /// What happens first, if it is known to: before all of the heap. What a CPU spends is over before anything else more often than not, and
    /// never goes through the heap then.
    front: Option<Queued>,
    heap: BinaryHeap<Reverse<Queued>>,
    /// The events themselves, apart from the heap, which moves what it has again and again; and the places among them that are free.
    events: Vec<Ev>,
    free: Vec<u32>,
    seq: u64,
    pub(crate) hz: u32,
    jitter: Option<Xoshiro256PlusPlus>,
    late_irqs: Option<Xoshiro256PlusPlus>,
    pub(crate) plant: Plant,
    pub(crate) log: Option<Vec<Seen>>,
    /// The timeline has begun: what happens is logged.
    pub(crate) started: bool,
    pub(crate) cover: Coverage,
    pub(crate) broken: Option<String>,
    pub(crate) steps: u64,
    pub(crate) steps_max: u64,
    /// The last instant at which something happened, and the steps before it.
    instant: (Instant, u64),
}

/// Steps at one instant after which time is taken to stand still.
pub(crate) const STEPS_PER_INSTANT_MAX: u64 = 1_000_000;

/// What a law says of a run that breaks it.
pub(crate) type LawResult = Result<(), String>;

impl Sim {
    pub(crate) fn new(machine: &Machine, options: &Options) -> Self {
        let rng = |on: bool, name: &str| on.then(|| napier_rng::stream(machine.seed, name));
        Self {
            now: Instant::ZERO,
            epoch: Instant::ZERO,
            horizon: Instant::ZERO,
            front: None,
            heap: BinaryHeap::with_capacity(64),
            events: Vec::new(),
            free: Vec::new(),
            seq: 0,
            hz: machine.hz,
            jitter: rng(machine.jitter, "jitter"),
            late_irqs: rng(machine.late_interrupts, "late interrupts"),
            plant: options.plant,
            log: options.log.then(Vec::new),
            started: false,
            cover: Coverage::default(),
            broken: None,
            steps: 0,
            steps_max: options.steps_max.unwrap_or(u64::MAX),
            instant: (Instant::ZERO, 0),
        }
    }

    /// The current jiffy.
    pub(crate) fn jiffy(&self) -> u64 {
        self.now.ns / (1_000_000_000 / u64::from(self.hz))
    }

    /// A point in time as seen by the rules: now.
    pub(crate) fn after(&self, span: Span) -> Deadline {
        Deadline::after(self.now, span)
    }

    /// Pushes an event; [`Deadline::NEVER`] is dropped.
    pub(crate) fn push(&mut self, at: Deadline, event: Ev) {
        if let Some(at) = at.instant() {
            self.push_at(at.max(self.now), event);
        }
    }

    pub(crate) fn push_at(&mut self, at: Instant, event: Ev) {
        self.seq += 1;
        let slot = match self.free.pop() {
            Some(slot) => {
                self.events[slot as usize] = event;
                slot
            }
            None => {
                self.events.push(event);
                (self.events.len() - 1) as u32
            }
        };
        let queued = Queued { at_ns: at.ns, seq: self.seq, slot };
        if self.next().is_some_and(|first| *first < queued) {
            self.heap.push(Reverse(queued));
        } else if let Some(second) = self.front.replace(queued) {
            self.heap.push(Reverse(second));
        }
    }

    fn next(&self) -> Option<&Queued> {
        self.front.as_ref().or_else(|| self.heap.peek().map(|Reverse(queued)| queued))
    }

    #[inline]
    pub(crate) fn next_event_at(&self) -> Instant {
        self.next().map_or(Instant::from_ns(u64::MAX), |queued| Instant::from_ns(queued.at_ns))
    }

    /// Takes the next event up to `until` and moves the clock to it.
    pub(crate) fn pop_event(&mut self, until: Instant) -> Option<Ev> {
        if self.next_event_at() > until {
            return None;
        }
        let queued = self.front.take().or_else(|| self.heap.pop().map(|Reverse(queued)| queued))?;
        assert!(queued.at_ns >= self.now.ns, "time does not go back");
        self.now = Instant::from_ns(queued.at_ns);
        self.free.push(queued.slot);
        Some(self.events[queued.slot as usize])
    }

    /// A cost as it turns out this time.
    #[inline]
    pub(crate) fn jittered(&mut self, span: Span) -> u64 {
        match &mut self.jitter {
            // 0.25 to 2 times, so that steps of different CPUs overtake each other.
            Some(rng) if span.ns > 0 => (span.ns * u64::from(rng.random_range(64_u32..512))).div_ceil(256),
            _ => span.ns,
        }
    }

    /// How late an interrupt is.
    pub(crate) fn irq_delay(&mut self) -> Span {
        let Some(rng) = &mut self.late_irqs else { return Span::ZERO };
        if rng.random_range(0..8_u32) == 0 { Span::from_ns(rng.random_range(0..20_000)) } else { Span::ZERO }
    }

    /// Asks the late-interrupt stream for one more, spurious, interrupt.
    pub(crate) fn spurious(&mut self) -> bool {
        self.late_irqs.as_mut().is_some_and(|rng| rng.random_range(0..16_u32) == 0)
    }

    /// Logs what happened.
    #[inline]
    pub(crate) fn note(&mut self, event: Event) {
        self.cover.event(&event);
        if !self.started {
            return;
        }
        let at = Instant::from_ns(self.now.ns - self.epoch.ns);
        if let Some(log) = &mut self.log {
            log.push(Seen { at, event });
        }
    }

    /// Counts a decision of the rules.
    #[inline]
    pub(crate) fn hit(&mut self, decision: Decision) {
        self.cover.decision(decision);
    }

    /// Something must hold and does not.
    #[cold]
    pub(crate) fn fail(&mut self, why: String) {
        let at = self.now.ns.saturating_sub(self.epoch.ns);
        self.broken.get_or_insert_with(|| format!("at {:.3} us: {why}", at as f64 / 1000.0));
    }

    /// What must hold at the end of every run for figures, if nothing is broken yet.
    pub(crate) fn must(&mut self, held: LawResult) {
        if let Err(why) = held
            && self.broken.is_none()
        {
            self.fail(why);
        }
    }

    /// Counts a step; too many at one instant are a loop without an end.
    #[inline]
    pub(crate) fn count_step(&mut self) {
        self.steps += 1;
        if self.now != self.instant.0 {
            self.instant = (self.now, self.steps);
        } else if self.steps - self.instant.1 > STEPS_PER_INSTANT_MAX {
            self.fail("time stands still".to_owned());
        }
    }

    /// Something is broken, or the run took too many steps.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.broken.is_some() || self.steps > self.steps_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pushed and popped in any order: by time, and those of one instant as they were pushed.
    #[test]
    fn events_come_in_order_of_time_and_of_their_pushing() {
        let mut sim = Sim::new(&Machine::bare(1, 1000, 1), &Options::default());
        let mut rng = napier_rng::stream(7, "events");
        let (mut waiting, mut pushed) = (Vec::new(), 0);
        for _ in 0..8_000 {
            if rng.random_bool(0.55) {
                let at = sim.now + Span::from_ns(rng.random_range(0..8));
                sim.push_at(at, Ev::Step { step: pushed, left: 0 });
                waiting.push((at, pushed));
                pushed += 1;
            } else {
                waiting.sort_unstable();
                let first = if waiting.is_empty() { None } else { Some(waiting.remove(0)) };
                assert_eq!(sim.next_event_at(), first.map_or(Instant::from_ns(u64::MAX), |(at, _)| at));
                let popped = sim.pop_event(Instant::from_ns(u64::MAX)).map(|event| (sim.now, event));
                assert_eq!(popped, first.map(|(at, step)| (at, Ev::Step { step, left: 0 })));
            }
        }
        assert!(pushed > 4_000 && !waiting.is_empty());
    }
}

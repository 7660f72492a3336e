//! What stands in each lane of a picture, made of events and of what the CPUs did.

use napier_core::context::PollContext;
use napier_core::time::{Instant, Span};
use napier_scenario::{Event, ThreadIx};
use napier_sim::machine::trace::{Ran, Who};

use super::{BEGIN, Timeline, WINDOW};

/// From when until when, cut to the picture.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct Stretch {
    pub(super) from: Instant,
    pub(super) to: Instant,
}

impl Stretch {
    pub(super) fn new(from: Instant, to: Instant) -> Self {
        Self { from, to }
    }

    /// What of it is in the picture.
    fn cut(self) -> Option<Self> {
        let (from, to) = (self.from.max(BEGIN), self.to.min(BEGIN + WINDOW));
        (from < to).then_some(Self { from, to })
    }

    fn contains(self, at: Instant) -> bool {
        self.from <= at && at < self.to
    }
}

/// What a stretch of a CPU's time was for.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Doing {
    /// The handler of an interrupt.
    Handler,
    /// Polls because it was asked to: softirq, or the thread of an instance.
    Asked,
    /// Polls by itself, until something comes.
    Busy,
    /// A system call, or waking up.
    Call,
    /// The program works for the packet of this number, from 1; 0 for one before the picture.
    Works(usize),
}

/// A timer of the instance that was armed.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct Armed {
    pub(super) stretch: Stretch,
    pub(super) after: Span,
    /// It expired at the end of the stretch; else it was armed anew, or cancelled, or the picture ends.
    pub(super) fired: bool,
}

impl Timeline {
    /// When the interrupt was masked, in the picture.
    pub(super) fn masked(&self) -> Vec<Stretch> {
        let mut since = self.masked_at_first.then_some(Instant::ZERO);
        let mut stretches = Vec::new();
        for seen in &self.story.events {
            match (&seen.event, since) {
                (Event::Mask { .. }, None) => since = Some(seen.at),
                (Event::Unmask { .. }, Some(from)) => {
                    stretches.push(Stretch::new(from, seen.at));
                    since = None;
                }
                _ => {}
            }
        }
        stretches.extend(since.map(|from| Stretch::new(from, BEGIN + WINDOW)));
        stretches.into_iter().filter_map(Stretch::cut).collect()
    }

    /// When the device interrupted, in the picture: each interrupt masks.
    pub(super) fn interrupts(&self) -> Vec<Instant> {
        self.times(|event| matches!(event, Event::Mask { .. }))
    }

    fn times(&self, of: impl Fn(&Event) -> bool) -> Vec<Instant> {
        let inside = Stretch::new(BEGIN, BEGIN + WINDOW);
        self.story
            .events
            .iter()
            .filter(|seen| inside.contains(seen.at) && of(&seen.event))
            .map(|seen| seen.at)
            .collect()
    }

    /// Timers that were armed.
    pub(super) fn timers(&self) -> Vec<Armed> {
        let mut armed: Option<(Instant, Span)> = None;
        let mut all = Vec::new();
        let mut end = |armed: &mut Option<(Instant, Span)>, at: Instant, fired: bool| {
            all.extend(armed.take().and_then(|(from, after)| {
                let stretch = Stretch::new(from, at).cut()?;
                Some(Armed { stretch, after, fired: fired && stretch.to == at })
            }));
        };
        for seen in &self.story.events {
            match seen.event {
                Event::TimerStart { after, .. } => {
                    end(&mut armed, seen.at, false);
                    armed = Some((seen.at, after));
                }
                Event::TimerFire { .. } => end(&mut armed, seen.at, true),
                Event::TimerCancel { .. } => end(&mut armed, seen.at, false),
                _ => {}
            }
        }
        end(&mut armed, BEGIN + WINDOW, false);
        all
    }

    /// What interrupts and softirqs did.
    pub(super) fn levels(&self) -> Vec<(Stretch, Doing)> {
        let of = |ran: &&Ran| matches!(ran.who, Who::Interrupt | Who::Softirq);
        let doing = |ran: &Ran| if ran.who == Who::Interrupt { Doing::Handler } else { Doing::Asked };
        merged(self.story.ran.iter().filter(of).map(|ran| (Stretch::new(ran.from, ran.to), doing(ran))))
    }

    /// What the thread that polls did.
    pub(super) fn poller(&self) -> Vec<(Stretch, Doing)> {
        let of = |ran: &&Ran| matches!(ran.who, Who::NapiThread(_) | Who::Group);
        let forever = self.story.events.iter().any(|seen| {
            matches!(seen.event, Event::Poll { context: PollContext::KthreadBusy | PollContext::Group, .. })
        });
        let doing = if forever { Doing::Busy } else { Doing::Asked };
        merged(self.story.ran.iter().filter(of).map(|ran| (Stretch::new(ran.from, ran.to), doing)))
    }

    /// What the program did.
    pub(super) fn program(&self) -> Vec<(Stretch, Doing)> {
        let before = self.story.works.iter().filter(|(begun, _)| *begun < BEGIN).count();
        let mut parts = Vec::new();
        for ran in self.story.ran.iter().filter(|ran| ran.who == Who::Thread(ThreadIx(0)) && ran.to > BEGIN) {
            let mut from = ran.from;
            for (number, (begun, ended)) in self.story.works.iter().enumerate() {
                let (begun, ended) = ((*begun).max(from), (*ended).min(ran.to));
                if begun >= ended {
                    continue;
                }
                parts.push((Stretch::new(from, begun), Doing::Call));
                parts.push((Stretch::new(begun, ended), Doing::Works((number + 1).saturating_sub(before))));
                from = ended;
            }
            parts.push((Stretch::new(from, ran.to), Doing::Call));
        }
        let polls = self.times(|event| matches!(event, Event::Poll { context: PollContext::User, .. }));
        let mut merged = merged(parts.into_iter());
        for (stretch, doing) in &mut merged {
            if *doing == Doing::Call && polls.iter().any(|at| stretch.contains(*at)) {
                *doing = Doing::Busy;
            }
        }
        merged
    }

    /// Polls that found packets, and how many; by the program, or by others.
    pub(super) fn finds(&self, of: impl Fn(PollContext) -> bool) -> Vec<(Instant, u32)> {
        let inside = Stretch::new(BEGIN, BEGIN + WINDOW);
        let found =
            self.story.events.iter().filter(|seen| inside.contains(seen.at)).filter_map(|seen| match seen.event {
                Event::Poll { context, work, .. } if work > 0 && of(context) => Some((seen.at, work)),
                _ => None,
            });
        found.collect()
    }

    /// When the interrupt is unmasked that is masked at the end of the picture, and the empty polls until then.
    pub(super) fn afterwards(&self) -> Option<(Option<Instant>, usize)> {
        let end = BEGIN + WINDOW;
        self.masked().last().filter(|last| last.to == end)?;
        let later = || self.story.events.iter().filter(|seen| seen.at >= end);
        let unmasked = later().find(|seen| matches!(seen.event, Event::Unmask { .. })).map(|seen| seen.at);
        let until = unmasked.unwrap_or(Instant::from_ns(u64::MAX));
        let polls = later().filter(|seen| seen.at < until && matches!(seen.event, Event::Poll { work: 0, .. })).count();
        Some((unmasked, polls))
    }
}

/// In the picture, with equal neighbours as one.
fn merged(parts: impl Iterator<Item = (Stretch, Doing)>) -> Vec<(Stretch, Doing)> {
    let mut all: Vec<(Stretch, Doing)> = Vec::new();
    for (stretch, doing) in parts {
        let Some(stretch) = stretch.cut() else { continue };
        match all.last_mut() {
            Some((last, was)) if last.to == stretch.from && *was == doing => last.to = stretch.to,
            _ => all.push((stretch, doing)),
        }
    }
    all
}

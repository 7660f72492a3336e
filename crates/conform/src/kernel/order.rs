//! What was recorded, in the order in which a scenario has it.
//!
//! A poll is recorded when it has ended, after the timer that its completion armed (`net/core/dev.c __napi_poll`); a timer that is
//! armed again or expires is recorded as cancelled first (`kernel/time/hrtimer.c debug_deactivate`).

use std::collections::BTreeSet;

use napier_core::context::PollContext;
use napier_core::time::Span;
use napier_scenario::{Event, NapiIx, Seen, SocketIx};

use super::drive::KernelRun;
use super::rig::KernelRig;

/// Longest time between the arming of a timer and the end of the poll that armed it.
const IN_POLL_US: u64 = 500;
/// How far what a timer was armed with may look off, beside a twentieth of it: the record is made a moment later.
const LATE_NS: u64 = 200_000;

/// What happened.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Deed {
    Poll { napi: NapiIx, work: u32, budget: u32 },
    Start { napi: NapiIx, expires_ns: u64, was_armed: bool },
    Fire { napi: NapiIx },
    Cancel { napi: NapiIx },
    Deliver { socket: SocketIx },
    Stopped { napi: NapiIx },
}

impl Deed {
    fn timer_or_poll(self) -> Option<NapiIx> {
        match self {
            Self::Poll { napi, .. } | Self::Start { napi, .. } | Self::Fire { napi } | Self::Cancel { napi } => {
                Some(napi)
            }
            Self::Deliver { .. } | Self::Stopped { .. } => None,
        }
    }
}

/// One record.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct Noted {
    pub(super) at_us: u64,
    pub(super) cpu: u32,
    pub(super) tid: u32,
    pub(super) in_softirq: bool,
    pub(super) deed: Deed,
}

/// What is known beforehand.
pub(super) struct RecordsKnown {
    /// What timers can be armed with.
    pub(super) spans: Vec<Span>,
    /// How many times slower than usual the machine may be.
    pub(super) slow: u64,
    /// When packets are sent to which instance, in us.
    pub(super) sent: Vec<(u64, NapiIx)>,
}

/// Records as events.
pub(super) fn events(rig: &KernelRig<'_>, run: &KernelRun, noted: Vec<Noted>, known: &RecordsKnown) -> Vec<Seen> {
    let noted = polls_first(without_false_cancels(noted), IN_POLL_US * known.slow);
    let by_thread = |note: &Noted| !note.in_softirq && !run.callers.contains(&note.tid);
    let busy_still: BTreeSet<usize> =
        run.busy_ends().flat_map(|(since, napi)| not_told_yet(&noted, since, napi, &known.sent, &by_thread)).collect();
    let mut seen: Vec<Seen> = Vec::new();
    let mut last_cpu = None;
    for (position, note) in noted.into_iter().enumerate() {
        let Some(at) = run.driven.window.place_us(note.at_us) else { continue };
        let event = match event(rig, run, &note, known) {
            Event::Poll { napi, cpu, work, budget, .. } if busy_still.contains(&position) => {
                Event::Poll { napi, context: PollContext::KthreadBusy, cpu, work, budget }
            }
            event => event,
        };
        // Packets that go up together are one delivery.
        if let (Event::Deliver { socket, packets }, Some(last)) = (&event, seen.last_mut())
            && let Event::Deliver { socket: before, packets: sum } = &mut last.event
            && before == socket
            && last_cpu == Some(note.cpu)
        {
            *sum += packets;
            continue;
        }
        last_cpu = Some(note.cpu);
        seen.push(Seen { at, event });
    }
    seen
}

fn event(rig: &KernelRig<'_>, run: &KernelRun, note: &Noted, known: &RecordsKnown) -> Event {
    let cpu = rig.cpu_ix(note.cpu);
    match note.deed {
        Deed::Poll { napi, work, budget } => {
            let context = match (note.in_softirq, run.callers.contains(&note.tid)) {
                // Where other softirqs have kept the processor busy, its ksoftirqd does this one as well: not the scenario's doing.
                (true, _) => PollContext::Softirq,
                (false, true) => PollContext::User,
                (false, false) if run.is_busy_thread(napi, note.at_us) => PollContext::KthreadBusy,
                (false, false) => PollContext::Kthread,
            };
            Event::Poll { napi, context, cpu, work, budget }
        }
        Deed::Start { napi, expires_ns, .. } => {
            let after = expires_ns.saturating_sub(note.at_us * 1000);
            Event::TimerStart { napi, after: meant(after, known), cpu }
        }
        Deed::Fire { napi } => Event::TimerFire { napi, cpu },
        Deed::Cancel { napi } => Event::TimerCancel { napi },
        Deed::Deliver { socket } => Event::Deliver { socket, packets: 1 },
        Deed::Stopped { napi } => Event::KthreadStop { napi },
    }
}

/// Polls of a thread that polled without end and was told at `since` not to: all but the last one that follows the one before without a cause of
/// its own, which is the one that completes. When the thread has seen it is not recorded, and on a slow machine it polls often until then.
fn not_told_yet(
    noted: &[Noted],
    since_us: u64,
    instance: NapiIx,
    sent: &[(u64, NapiIx)],
    by_thread: &dyn Fn(&Noted) -> bool,
) -> Vec<usize> {
    let own = noted.iter().enumerate().filter(|(_, note)| {
        note.at_us >= since_us && matches!(note.deed, Deed::Poll { napi, .. } | Deed::Fire { napi } if napi == instance)
    });
    let own: Vec<_> = own.collect();
    let is_poll = |note: &Noted| matches!(note.deed, Deed::Poll { .. }) && by_thread(note);
    let goes_on = |pair: &[(usize, &Noted)]| {
        let (_, this) = pair[0];
        let (_, next) = pair[1];
        let is_caused = sent.iter().any(|(at, napi)| *napi == instance && (this.at_us + 1..=next.at_us).contains(at));
        is_poll(this) && is_poll(next) && !is_caused
    };
    own.windows(2).take_while(|pair| goes_on(pair)).map(|pair| pair[0].0).collect()
}

/// The time-out of the scenario that a timer was armed with, or what it looks like if it is none of them.
fn meant(after_ns: u64, known: &RecordsKnown) -> Span {
    let nearest = known.spans.iter().min_by_key(|span| span.ns.abs_diff(after_ns));
    let near = nearest.filter(|span| span.ns.abs_diff(after_ns) <= span.ns / 20 + LATE_NS * known.slow);
    near.copied().unwrap_or(Span::from_ns(after_ns))
}

/// Without those that the kernel records when it arms a timer again, and when it expires.
fn without_false_cancels(noted: Vec<Noted>) -> Vec<Noted> {
    let is_true = |position: usize, note: &Noted| {
        let Deed::Cancel { napi } = note.deed else { return true };
        let next = noted[position + 1..]
            .iter()
            .find(|next| next.deed.timer_or_poll() == Some(napi) && !matches!(next.deed, Deed::Poll { .. }));
        !matches!(next.map(|next| next.deed), Some(Deed::Fire { .. } | Deed::Start { was_armed: true, .. }))
    };
    noted.iter().enumerate().filter(|(position, note)| is_true(*position, note)).map(|(_, note)| *note).collect()
}

/// Each poll before the timer that it armed.
fn polls_first(mut noted: Vec<Noted>, in_poll_us: u64) -> Vec<Noted> {
    for position in 0..noted.len() {
        let Deed::Poll { napi, .. } = noted[position].deed else { continue };
        let before = noted[..position].iter().rposition(|note| note.deed.timer_or_poll() == Some(napi));
        let Some(before) = before else { continue };
        let (poll, start) = (noted[position], noted[before]);
        let same = (poll.cpu, poll.tid, poll.in_softirq) == (start.cpu, start.tid, start.in_softirq);
        if matches!(start.deed, Deed::Start { .. }) && same && poll.at_us - start.at_us <= in_poll_us {
            noted[before..=position].rotate_right(1);
            noted[before].at_us = start.at_us;
        }
    }
    noted
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAPI: NapiIx = NapiIx(0);

    fn note(at_us: u64, in_softirq: bool, deed: Deed) -> Noted {
        Noted { at_us, cpu: 0, tid: 1, in_softirq, deed }
    }

    fn poll(at_us: u64, in_softirq: bool) -> Noted {
        note(at_us, in_softirq, Deed::Poll { napi: NAPI, work: 0, budget: 64 })
    }

    fn start(at_us: u64, in_softirq: bool, was_armed: bool) -> Noted {
        note(at_us, in_softirq, Deed::Start { napi: NAPI, expires_ns: 0, was_armed })
    }

    #[test]
    fn a_poll_comes_before_the_timer_that_it_armed_and_after_one_of_a_stop() {
        // A stop arms, and the poll that follows in softirq arms again.
        let noted = vec![poll(10, false), start(11, false, false), start(14, true, true), poll(15, true)];
        let kinds: Vec<_> = polls_first(noted, IN_POLL_US).iter().map(|note| (note.at_us, note.in_softirq)).collect();
        assert_eq!(kinds, vec![(10, false), (11, false), (14, true), (14, true)]);
        let noted = vec![start(11, false, false), poll(2_000, false)];
        assert_eq!(polls_first(noted.clone(), IN_POLL_US), noted, "another call");
    }

    #[test]
    fn a_timer_that_expires_or_is_armed_again_was_not_cancelled() {
        let cancel = |at_us| note(at_us, false, Deed::Cancel { napi: NAPI });
        let fire = note(31, true, Deed::Fire { napi: NAPI });
        let noted = vec![cancel(10), start(10, false, true), poll(12, true), cancel(30), fire, cancel(50)];
        let left = without_false_cancels(noted);
        assert_eq!(left.iter().map(|note| note.at_us).collect::<Vec<_>>(), vec![10, 12, 31, 50]);
    }

    #[test]
    fn a_thread_polls_on_until_it_has_seen_that_it_shall_not() {
        // Told at 10 us, and it completes at 14; a packet comes at 20.
        let noted =
            vec![poll(9, false), poll(11, false), poll(12, false), poll(14, false), poll(21, false), poll(25, true)];
        let by_thread = |note: &Noted| !note.in_softirq;
        assert_eq!(not_told_yet(&noted, 10, NAPI, &[(20, NAPI)], &by_thread), [1, 2]);
        // It had seen it at once.
        assert_eq!(not_told_yet(&noted, 13, NAPI, &[(20, NAPI)], &by_thread), [0_usize; 0]);
        // A timer, and packets of another instance.
        let fire = note(13, true, Deed::Fire { napi: NAPI });
        let timed = vec![poll(11, false), poll(12, false), fire, poll(14, false), poll(16, false)];
        assert_eq!(not_told_yet(&timed, 10, NAPI, &[(12, NapiIx(1))], &by_thread), [0]);
    }

    #[test]
    fn what_a_timer_was_armed_with_is_a_time_out_of_the_scenario() {
        let known = RecordsKnown { spans: vec![Span::from_ms(5), Span::from_ms(40)], slow: 1, sent: Vec::new() };
        assert_eq!(meant(4_990_000, &known), Span::from_ms(5));
        assert_eq!(meant(20_000_000, &known), Span::from_ns(20_000_000));
    }
}

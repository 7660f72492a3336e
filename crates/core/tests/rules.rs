//! Properties of single rules under random answers.
use napier_core::busy::{BusyLimit, BusyLoop, BusyParams, BusyStep, busy_clock};
use napier_core::completion::{Completed, Completion, Flush, Tunables, complete};
use napier_core::control::{Errno, NapiSet};
use napier_core::event::{EpollWait, WaitStep};
use napier_core::moderation::{Coalesce, Moderated, Moderation};
use napier_core::rss::{KEY_BYTES, ToeplitzTable, toeplitz};
use napier_core::softirq::{NetRxRun, NetRxStep, PollLists};
use napier_core::state::State;
use napier_core::time::{Deadline, Instant, Span};
use proptest::prelude::*;

fn settings() -> ProptestConfig {
    let cases = if cfg!(miri) { 4 } else { 256 };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

const ANSWERS_MAX: usize = if cfg!(miri) { 20 } else { 300 };

/// The receive run written down once more, as plainly as can be: lists are vectors, nothing is shared.
#[derive(Default)]
struct PlainCpu {
    list: Vec<u8>,
}

impl PlainCpu {
    /// Returns the ids polled and whether the run was squeezed. `poll` gives work, whether to repoll, the ids that it
    /// schedules, and the time after it.
    fn run(
        &mut self,
        budget: i32,
        until: u64,
        mut poll: impl FnMut(u8) -> (u32, bool, Vec<u8>, u64),
    ) -> (Vec<u8>, bool) {
        let mut polled = Vec::new();
        let mut left = i64::from(budget);
        let mut list = std::mem::take(&mut self.list);
        let mut repoll = Vec::new();
        let squeezed = loop {
            if list.is_empty() {
                if repoll.is_empty() && !self.list.is_empty() {
                    list = std::mem::take(&mut self.list);
                    continue;
                }
                break false;
            }
            let id = list.remove(0);
            polled.push(id);
            let (work, again, scheduled, now) = poll(id);
            self.list.extend(scheduled);
            if again {
                repoll.push(id);
            }
            left -= i64::from(work);
            if left <= 0 || now >= until {
                break true;
            }
        };
        list.append(&mut self.list);
        list.append(&mut repoll);
        self.list = list;
        (polled, squeezed)
    }
}

proptest! {
    #![proptest_config(settings())]

    /// Twelve instances on one CPU: the same polls, squeezes and leftovers as the plain version, and nobody is lost.
    #[test]
    fn receive_runs_match_the_plain_version(
        first in 1u8..12,
        budget in -3i32..200,
        answers in prop::collection::vec((0u32..65, 0u64..40, 0u8..12), 1..ANSWERS_MAX),
    ) {
        const IDS: u8 = 12;
        let limit = Span::from_ns(300);
        let mut lists = PollLists::new();
        let mut plain = PlainCpu::default();
        let mut waiting = [false; IDS as usize];
        let mut now = 0;
        let mut answers = answers.into_iter();
        let mut raised = false;
        for id in 0..first {
            raised |= lists.push_back(id);
            plain.list.push(id);
            waiting[usize::from(id)] = true;
        }
        prop_assert!(raised);
        while answers.len() > 0 {
            let begin = Instant::from_ns(now);
            let mut log = Vec::new();
            let mut run = NetRxRun::begin(&mut lists, begin, budget, limit);
            let reraise = loop {
                match run.next(&mut lists) {
                    NetRxStep::Finish { reraise } => break reraise,
                    NetRxStep::Poll(id) => {
                        prop_assert!(std::mem::replace(&mut waiting[usize::from(id)], false), "polled while not scheduled");
                        let (work, took, other) = answers.next().unwrap_or((0, 0, id));
                        now += took;
                        let mut scheduled = Vec::new();
                        if other != id && !waiting[usize::from(other)] {
                            waiting[usize::from(other)] = true;
                            prop_assert!(!lists.push_back(other), "no raise inside a run");
                            scheduled.push(other);
                        }
                        let again = work == 64;
                        waiting[usize::from(id)] |= again;
                        run.polled(&mut lists, Instant::from_ns(now), id, work, again);
                        log.push((id, work, again, scheduled, now));
                    }
                }
            };
            let mut replay = log.iter();
            let (polled, squeezed) = plain.run(budget, begin.ns + limit.ns, |id| {
                let (expected, work, again, scheduled, now) = replay.next().expect("the plain version polls more");
                assert_eq!(id, *expected);
                (*work, *again, scheduled.clone(), *now)
            });
            prop_assert_eq!(polled.len(), log.len());
            prop_assert_eq!(run.squeezed(), squeezed);
            prop_assert_eq!(lists.iter().copied().collect::<Vec<_>>(), plain.list.clone());
            prop_assert_eq!(reraise, !plain.list.is_empty());
            prop_assert_eq!(lists.len(), waiting.iter().filter(|waits| **waits).count());
            if !reraise {
                // A device event on an idle CPU.
                prop_assert!(lists.push_back(0), "an idle CPU is raised");
                plain.list.push(0);
                waiting[0] = true;
            }
        }
    }

    /// Any answers: a stop comes only to an owner and ends ownership, a poll only by an owner, at least one attempt is
    /// made, nothing goes on after the end, and the packets add up.
    #[test]
    fn busy_loops_are_well_behaved(
        prefer in any::<bool>(),
        budget in 0u16..70,
        usecs in 0u32..50,
        once in any::<bool>(),
        rcu in any::<bool>(),
        start in 0u64..1 << 40,
        answers in prop::collection::vec((any::<bool>(), 0u32..70, 0u64..8192, 0u8..20), 1..ANSWERS_MAX),
    ) {
        let limit = if once { BusyLimit::Once } else { BusyLimit::For(usecs) };
        let params = BusyParams { prefer, budget_pkts: budget, limit };
        let mut now = Instant::from_ns(start);
        let mut busy = if rcu { BusyLoop::new_rcu(params, now) } else { BusyLoop::new(params, now) };
        let in_force = u32::from(params.budget_pkts());
        let (mut attempts, mut pkts, mut ended) = (0, 0u64, false);
        for (yes, work, took, rare) in answers {
            now += Span::from_ns(took);
            let ready = rare == 0;
            let resched = rare == 1;
            match busy.next() {
                BusyStep::Acquire => {
                    prop_assert!(!busy.owner() && !ended);
                    attempts += 1;
                    busy.on_acquire(yes);
                }
                BusyStep::Poll { budget_pkts } => {
                    prop_assert!(busy.owner() && !ended);
                    prop_assert_eq!(u32::from(budget_pkts), in_force);
                    pkts += u64::from(work.min(in_force));
                    busy.on_polled(work.min(in_force));
                }
                BusyStep::CheckEnd => {
                    prop_assert!(!once && !ended);
                    let late = usecs == 0 || busy_clock(now) > (start >> 10) + u64::from(usecs);
                    ended = ready || late || (resched && rcu);
                    busy.on_ended(now, ready, resched);
                    let stays = matches!(busy.next(), BusyStep::Acquire | BusyStep::Poll { .. });
                    prop_assert_eq!(stays, !ended && !resched);
                }
                BusyStep::Stop => {
                    prop_assert!(busy.owner());
                    busy.on_stopped();
                    prop_assert!(!busy.owner());
                }
                BusyStep::Yield => {
                    prop_assert!(!busy.owner() && !ended && !rcu);
                    busy.on_yielded(now, ready);
                }
                BusyStep::Leave => {
                    prop_assert!(!busy.owner() && attempts > 0);
                    break;
                }
            }
        }
        prop_assert_eq!(busy.rx_pkts(), pkts);
    }

    /// Any answers: before each sleep there was a busy loop since the last look, a wait of zero does neither, and a
    /// wait without time-out never returns empty.
    #[test]
    fn waits_are_well_behaved(
        timeout in prop::option::of(0u64..3),
        ready in any::<bool>(),
        answers in prop::collection::vec(any::<bool>(), 1..ANSWERS_MAX),
    ) {
        let timeout = timeout.map(Span::from_ms);
        let now = Instant::from_ns(77);
        let mut wait = EpollWait::new(now, timeout, ready);
        let (mut looped, mut woken) = (false, ready);
        for yes in answers {
            match wait.next() {
                WaitStep::Transfer => {
                    prop_assert!(woken, "nobody said that there are events");
                    wait.on_transferred(usize::from(yes));
                    if yes {
                        break;
                    }
                    woken = false;
                    looped = false;
                }
                WaitStep::Return0 => {
                    prop_assert!(timeout.is_some());
                    break;
                }
                WaitStep::BusyLoop => {
                    prop_assert!(timeout != Some(Span::ZERO));
                    looped = true;
                    woken = yes;
                    wait.on_busy(yes);
                }
                WaitStep::Sleep { until } => {
                    prop_assert!(looped && timeout != Some(Span::ZERO));
                    prop_assert_eq!(until, timeout.map_or(Deadline::NEVER, |span| Deadline::after(now, span)));
                    woken = yes || timeout.is_none();
                    wait.on_woken(woken);
                }
            }
        }
    }

    /// A masked interrupt always has a timer; frames are flushed completely exactly when no timer will do it.
    #[test]
    fn completions_never_strand(
        work in 0u32..100,
        dhi in 0u32..5,
        left in 0u32..5,
        gft in 0u64..2,
        held in any::<bool>(),
    ) {
        let gro_flush_timeout = Span::from_us(gft);
        let t = Tunables { defer_hard_irqs: dhi, gro_flush_timeout, irq_suspend_timeout: Span::from_ms(1) };
        let mut after = left;
        let state = State::LISTED.with(State::SCHED);
        let Completion::Release(release) = complete(state, work, held, &t, &mut after) else {
            return Err(TestCaseError::fail("refused"));
        };
        let Completed::Released { arm, unmask } = release.finish(false) else {
            return Err(TestCaseError::fail("rescheduled"));
        };
        prop_assert!(unmask || arm == Some(gro_flush_timeout));
        prop_assert_eq!(release.flush == Flush::All, arm.is_none());
        let loaded = if work > 0 { dhi } else { left };
        prop_assert_eq!(after, loaded.saturating_sub(1));
        prop_assert_eq!(release.finish(true), Completed::Reschedule);
    }

    /// Frames are announced within rx-usecs and rx-frames, once until the receiver unmasks, and never not at all.
    #[test]
    fn moderation_announces_in_time(
        usecs in 0u32..50,
        frames_max in 0u32..20,
        steps in prop::collection::vec((0u32..5, 0u64..20_000, any::<bool>()), 1..ANSWERS_MAX),
    ) {
        let Ok(coalesce) = Coalesce::new(usecs, frames_max) else {
            prop_assert!(usecs == 0 && frames_max > 1);
            return Ok(());
        };
        let mut line = Moderation::new(coalesce);
        let (mut now, mut waiting, mut since, mut told) = (Instant::ZERO, 0u32, Instant::ZERO, false);
        for (frames, took, unmask) in steps {
            let next = now + Span::from_ns(took);
            if line.deadline().is_due(next) {
                now = line.deadline().instant().unwrap();
                prop_assert!(!told && line.on_timer(now), "the timer tells");
                told = true;
            }
            now = next;
            if unmask && told {
                line.on_unmask();
                (told, waiting) = (false, 0);
            }
            if waiting == 0 {
                since = now;
            }
            waiting += frames;
            match line.on_frames(frames, now) {
                Moderated::Fire => {
                    prop_assert!(!told && frames > 0);
                    told = true;
                }
                Moderated::StartTimer(span) => {
                    prop_assert_eq!(span, Span::from_us(usecs.into()));
                    prop_assert_eq!(waiting, frames, "only the first frames start a timer");
                }
                Moderated::Wait => {}
            }
            if waiting > 0 && !told {
                prop_assert_eq!(line.deadline(), Deadline::after(since, Span::from_us(usecs.into())));
                prop_assert!(frames_max == 0 || waiting < frames_max);
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "builds a table for each case")]
    fn toeplitz_table_is_the_definition(
        key in prop::array::uniform32(any::<u8>()),
        tail in prop::array::uniform8(any::<u8>()),
        input in prop::collection::vec(any::<u8>(), 0..37),
    ) {
        let mut whole = [0; KEY_BYTES];
        whole[..32].copy_from_slice(&key);
        whole[32..].copy_from_slice(&tail);
        prop_assert_eq!(ToeplitzTable::new(&whole).hash(&input), toeplitz(&whole, &input));
    }

    #[test]
    fn deadlines_order(a in any::<u64>(), b in any::<u64>(), now in any::<u64>(), span in any::<u64>()) {
        let (a, b, now) = (Deadline::at(Instant::from_ns(a)), Deadline::at(Instant::from_ns(b)), Instant::from_ns(now));
        prop_assert_eq!(a.earliest(b).is_due(now), a.is_due(now) || b.is_due(now));
        prop_assert_eq!(a.earliest(b), b.earliest(a));
        let after = Deadline::after(now, Span::from_ns(span));
        prop_assert!(!after.is_due(now) || span == 0);
        prop_assert!(after.is_never() || after.instant() == Some(now + Span::from_ns(span)));
    }

    /// A request is accepted exactly when it is in range, and then comes out as it went in.
    #[test]
    fn napi_set_accepts_what_is_in_range(
        id in prop::option::of(0u64..1 << 33),
        dhi in prop::option::of(prop_oneof![0u64..10, (1u64 << 31) - 2..(1 << 31) + 2, any::<u64>()]),
        gft in prop::option::of(any::<u64>()),
        ist in prop::option::of(any::<u64>()),
        threaded in prop::option::of(0u64..5),
        cap in any::<bool>(),
    ) {
        let request = NapiSet {
            id,
            defer_hard_irqs: dhi,
            gro_flush_timeout: gft,
            irq_suspend_timeout: ist,
            threaded,
            workqueue: false,
        };
        let in_range = dhi.is_none_or(|dhi| dhi < 1 << 31) && threaded.is_none_or(|number| number <= 2);
        let want = match id {
            _ if !cap => Err(Errno::EPERM),
            _ if !in_range => Err(Errno::ERANGE),
            None => Err(Errno::EINVAL),
            Some(id) => u32::try_from(id).map_err(|_| Errno::ENOENT),
        };
        let got = request.check(cap);
        prop_assert_eq!(got.as_ref().map(|checked| checked.id()).map_err(|error| error.errno()), want);
        if let Ok(checked) = got {
            let given = [threaded.is_some(), dhi.is_some(), ist.is_some(), gft.is_some()];
            prop_assert_eq!(checked.changes().count(), given.iter().filter(|given| **given).count());
            let mut tunables = Tunables::default();
            for change in checked.changes() {
                change.apply(&mut tunables);
            }
            prop_assert_eq!(u64::from(tunables.defer_hard_irqs), dhi.unwrap_or(0));
            prop_assert_eq!(tunables.gro_flush_timeout.ns, gft.unwrap_or(0));
            prop_assert_eq!(tunables.irq_suspend_timeout.ns, ist.unwrap_or(0));
        }
    }
}

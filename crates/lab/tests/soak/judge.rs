//! Whose fault a silence is: the disturbance's, that of a system that gave no CPU, or ours.

use std::fmt::Write as _;

use crate::child::Silence;
use crate::disturb::{Disturbance, Kind};
use crate::watch::{Span, ThreadAt, Watched};

/// What a connection may be still beyond all that is known to have held it up.
pub(crate) const BEYOND_MAX_NS: u64 = 100_000_000;

/// Why a silence was as long as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Blame {
    /// No longer than it may be.
    Fine,
    /// A thread of the programs was runnable and not run for the rest of it.
    NoCpu { thread: String, waited_ns: u64 },
    /// A watchdog above everything else was not run for the rest of it: the machine was not there.
    NoMachine { cpu: usize, late_ns: u64 },
    /// Nothing else is known.
    Fault,
}

/// A silence and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Judged {
    pub(crate) silence: Silence,
    /// Of it beyond the times in which a program was stopped.
    pub(crate) beyond_ns: u64,
    pub(crate) verdict: Blame,
}

/// Judges one silence.
pub(crate) fn judge(silence: Silence, done: &[Disturbance], seen: &Watched) -> Judged {
    let span = Span { from_ns: silence.from_ns, to_ns: silence.to_ns };
    // One after the other, so none counts twice.
    let stops = done.iter().filter(|one| matches!(one.kind, Kind::Stop { .. }));
    let beyond_ns = span.ns() - stops.map(|one| one.span.overlap_ns(span)).sum::<u64>();
    Judged { silence, beyond_ns, verdict: verdict(span, beyond_ns, seen) }
}

fn verdict(span: Span, beyond_ns: u64, seen: &Watched) -> Blame {
    if beyond_ns <= BEYOND_MAX_NS {
        return Blame::Fine;
    }
    let explains = |ns: u64| ns + BEYOND_MAX_NS >= beyond_ns;
    let mut late_ns = std::collections::BTreeMap::<usize, u64>::new();
    for (cpu, late) in &seen.late {
        *late_ns.entry(*cpu).or_default() += late.overlap_ns(span);
    }
    if let Some((&cpu, &late_ns)) = late_ns.iter().max_by_key(|(_, ns)| **ns).filter(|(_, ns)| explains(**ns)) {
        return Blame::NoMachine { cpu, late_ns };
    }
    let waited = seen
        .threads
        .iter()
        .filter(|(name, _)| !(seen.real_time && is_real_time(name)))
        .map(|(name, samples)| (name, growth(samples, span, |at| at.wait_ns)));
    match waited.max_by_key(|(_, ns)| *ns) {
        Some((thread, waited_ns)) if explains(waited_ns) => Blame::NoCpu { thread: thread.clone(), waited_ns },
        _ => Blame::Fault,
    }
}

/// Whether this thread stands above the programs and its class is the engine's affair: where it waits long, there was a
/// processor that it could have had, for one is disturbed at a time.
fn is_real_time(thread: &str) -> bool {
    thread.contains(" softirq/")
}

/// By how much a count of a thread grew, from the last sample before the span to the first one after it.
fn growth(samples: &[ThreadAt], span: Span, of: impl Fn(&ThreadAt) -> u64) -> u64 {
    let around = around(samples, span);
    match (around.first(), around.last()) {
        (Some(first), Some(last)) => of(last).saturating_sub(of(first)),
        _ => 0,
    }
}

fn around(samples: &[ThreadAt], span: Span) -> &[ThreadAt] {
    let from = samples.partition_point(|at| at.at_ns <= span.from_ns).saturating_sub(1);
    let to = (samples.partition_point(|at| at.at_ns < span.to_ns) + 1).min(samples.len());
    &samples[from.min(to)..to]
}

/// Silences that overlap are one incident; the worst of each, in order of time.
pub(crate) fn incidents(mut judged: Vec<Judged>) -> Vec<(Judged, usize)> {
    judged.sort_by_key(|one| one.silence.from_ns);
    let mut incidents: Vec<(Judged, usize, u64)> = Vec::new();
    for one in judged {
        match incidents.last_mut() {
            Some((worst, count, until_ns)) if one.silence.from_ns <= *until_ns => {
                *until_ns = one.silence.to_ns.max(*until_ns);
                *count += 1;
                // A fault is not hidden by a longer silence that has an excuse.
                let rank = |judged: &Judged| (judged.verdict == Blame::Fault, judged.beyond_ns);
                if rank(&one) > rank(worst) {
                    *worst = one;
                }
            }
            _ => incidents.push((one.clone(), 1, one.silence.to_ns)),
        }
    }
    incidents.into_iter().map(|(worst, count, _)| (worst, count)).collect()
}

/// What was known of that time: disturbances, and each thread's states, CPU time and waiting.
pub(crate) fn journal(judged: &Judged, connections: usize, done: &[Disturbance], seen: &Watched) -> String {
    let Silence { connection, from_ns, to_ns, answered } = judged.silence;
    let span = Span { from_ns, to_ns };
    let ms = |ns: u64| format!("{}.{} ms", ns / 1_000_000, ns / 100_000 % 10);
    let mut text = String::new();
    let end = if answered { "" } else { ", to the end" };
    let _ = writeln!(
        text,
        "connection {connection} (and {} others) was still for {}{end}, {} beyond what was done: {:?}",
        connections - 1,
        ms(span.ns()),
        ms(judged.beyond_ns),
        judged.verdict
    );
    let wide = Span { from_ns: from_ns.saturating_sub(2_000_000_000), to_ns };
    for one in done.iter().filter(|one| one.span.overlap_ns(wide) > 0) {
        #[expect(clippy::cast_possible_wrap, reason = "times of one run")]
        let begins = (one.span.from_ns as i64 - from_ns as i64) / 1_000_000;
        let _ = writeln!(text, "  {:?} from {begins} ms after its begin, for {}", one.kind, ms(one.span.ns()));
    }
    for (name, samples) in &seen.threads {
        let states: String = around(samples, span).iter().map(|at| at.state).take(100).collect();
        let (ran, waited) = (growth(samples, span, |at| at.run_ns), growth(samples, span, |at| at.wait_ns));
        let _ = writeln!(text, "  {name:<32} ran {:>10}, waited for a CPU {:>10}, {states}", ms(ran), ms(waited));
    }
    for (cpu, late) in seen.late.iter().filter(|(_, late)| late.overlap_ns(span) > 0) {
        let _ = writeln!(text, "  watchdog of CPU {cpu} late by {}", ms(late.ns()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn silence(from_ms: u64, to_ms: u64) -> Silence {
        Silence { connection: 3, from_ns: from_ms * MS, to_ns: to_ms * MS, answered: true }
    }

    fn stop(from_ms: u64, to_ms: u64) -> Disturbance {
        Disturbance { kind: Kind::Stop { server: true }, span: Span { from_ns: from_ms * MS, to_ns: to_ms * MS } }
    }

    /// A thread that waited for a CPU for so long between 1000 and 1500 ms, which is seen a sample later.
    fn waited(ms: u64) -> Watched {
        let at =
            |at_ms: u64, wait_ms: u64| ThreadAt { at_ns: at_ms * MS, state: 'R', run_ns: 7, wait_ns: wait_ms * MS };
        let samples = vec![at(900, 40), at(990, 50), at(1400, 50), at(1510, 50 + ms), at(1600, 50 + ms)];
        Watched { threads: [("server/1 softirq/0".to_owned(), samples)].into(), late: Vec::new(), real_time: false }
    }

    #[test]
    fn a_silence_without_a_reason_is_a_fault() {
        let judged = judge(silence(1000, 1500), &[], &waited(0));
        assert_eq!((judged.beyond_ns, judged.verdict), (500 * MS, Blame::Fault));
        assert_eq!(judge(silence(1000, 1100), &[], &waited(0)).verdict, Blame::Fine);
    }

    #[test]
    fn a_stop_counts_as_long_as_it_was() {
        let done = [stop(0, 100), stop(1100, 1450)];
        assert_eq!(judge(silence(1000, 1500), &done, &waited(0)).beyond_ns, 150 * MS);
        assert_eq!(judge(silence(1000, 1500), &done, &waited(0)).verdict, Blame::Fault);
        assert_eq!(judge(silence(1050, 1500), &done, &waited(0)).verdict, Blame::Fine);
        let busy = Disturbance { kind: Kind::BusyLoops(4), ..done[1] };
        assert_eq!(judge(silence(1000, 1500), &[busy], &waited(0)).verdict, Blame::Fault, "programs share a CPU");
    }

    #[test]
    fn waiting_for_a_cpu_excuses_what_it_took_and_no_more() {
        let seen = waited(400);
        let excused = Blame::NoCpu { thread: "server/1 softirq/0".to_owned(), waited_ns: 400 * MS };
        assert_eq!(judge(silence(1000, 1500), &[], &seen).verdict, excused);
        assert_eq!(judge(silence(900, 1501), &[], &seen).verdict, Blame::Fault);
        assert_eq!(judge(silence(400, 800), &[], &seen).verdict, Blame::Fault, "that was later");
        assert_eq!(judge(silence(2000, 2400), &[], &seen).verdict, Blame::Fault, "that was before");
    }

    #[test]
    fn a_softirq_thread_that_waits_above_the_programs_is_no_excuse() {
        let seen = Watched { real_time: true, ..waited(400) };
        assert_eq!(judge(silence(1000, 1500), &[], &seen).verdict, Blame::Fault);
    }

    #[test]
    fn a_machine_that_was_not_there_is_no_fault() {
        let late = |from_ms: u64, to_ms: u64| (1, Span { from_ns: from_ms * MS, to_ns: to_ms * MS });
        let seen = Watched { late: vec![late(1000, 1200), late(1250, 1500)], ..waited(0) };
        let excused = Blame::NoMachine { cpu: 1, late_ns: 450 * MS };
        assert_eq!(judge(silence(1000, 1500), &[], &seen).verdict, excused);
        let seen = Watched { late: vec![late(1000, 1200)], ..waited(0) };
        assert_eq!(judge(silence(1000, 1500), &[], &seen).verdict, Blame::Fault);
    }

    #[test]
    fn a_fault_is_not_hidden_by_what_happened_beside_it() {
        let judged = |from_ms, to_ms, verdict| Judged {
            silence: silence(from_ms, to_ms),
            beyond_ns: (to_ms - from_ms) * MS,
            verdict,
        };
        let host = || Blame::NoMachine { cpu: 0, late_ns: 0 };
        let all = vec![judged(900, 950, Blame::Fine), judged(100, 800, host()), judged(300, 600, Blame::Fault)];
        let incidents = incidents(all);
        let short: Vec<_> = incidents.iter().map(|(worst, count)| (worst.silence.to_ns / MS, *count)).collect();
        assert_eq!(short, [(600, 2), (950, 1)]);
        let (worst, count) = &incidents[0];
        let text = journal(worst, *count, &[stop(200, 400)], &waited(0));
        assert!(text.contains("(and 1 others) was still for 300.0 ms") && text.contains("softirq/0"), "{text}");
        assert!(text.contains("Stop { server: true } from -100 ms after its begin, for 200.0 ms"), "{text}");
    }
}

//! What can be said of the slices of a load: figures with their intervals, and verdicts on pairs of modes.

use std::time::Duration;

use napier_verdict::{Metric, Pair, Slices, Verdict};

use super::found::LoadFound;
use crate::report::decided::metrics_at;
use crate::report::{Decided, DecidedMode, DecidedPair, Estimated, LeftOut, PairVerdict};
use crate::subject::Subject;

/// `None` if nothing was measured.
pub(super) fn decided(load: &LoadFound, subjects: &[Subject], slice: Duration) -> Option<Decided> {
    let slices = &load.slices;
    if slices.all().is_empty() {
        return None;
    }
    let left_out = slices.left_out_of_all();
    let taken = slices.taken();
    let pairs = verdicts(load, subjects);
    let round_minutes = load.took.as_secs_f64() / 60.0 / f64::from(load.rounds.max(1));
    let more = pairs.iter().filter_map(|pair| match pair.verdict {
        PairVerdict::Undecided { more_rounds } => more_rounds,
        PairVerdict::Better { .. } | PairVerdict::NoDifferent { .. } => None,
    });
    let more_minutes = more.max().map(|rounds| round(f64::from(rounds) * round_minutes, 10.0).max(0.1));
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Some(Decided {
        load_rps: load.load,
        rounds: load.rounds,
        slice_ms: round(slice.as_secs_f64() * 1e3, 1e3),
        left_out: LeftOut {
            slices: count(left_out.slices),
            of: count(left_out.of),
            causes: left_out.causes.iter().map(|(cause, number)| (cause.to_string(), count(*number))).collect(),
        },
        taken,
        modes: subjects.iter().enumerate().filter_map(|(at, subject)| mode(load, at, *subject)).collect(),
        pairs,
        more_minutes,
    })
}

fn mode(load: &LoadFound, at: usize, mode: Subject) -> Option<DecidedMode> {
    let (kept, left_out) = load.counts(at);
    let of = |metric, scale| load.slices.estimate(at, metric).map(|estimate| Estimated::of(estimate, scale));
    (kept + left_out > 0).then(|| DecidedMode {
        mode,
        p50_us: of(Metric::P50, 1e-3),
        p99_us: of(Metric::P99, 1e-3),
        p999_us: of(Metric::P999, 1e-3),
        cpu_pct: of(Metric::Cpu, 1e2),
        throughput_rps: of(Metric::Throughput, 1.0),
        kept,
        left_out,
    })
}

/// Of each two modes of a backend, and of a mode in two backends; of those that keep up, for the latency of the others is that of
/// their queue. A closed loop is compared by what is answered, a rate by what it costs in latency.
fn verdicts(load: &LoadFound, subjects: &[Subject]) -> Vec<DecidedPair> {
    let slices: &Slices = &load.slices;
    if slices.taken() {
        return Vec::new();
    }
    let up: Vec<usize> = (0..subjects.len()).filter(|at| load.counts(*at).0 > 0 && load.keeps_up(*at)).collect();
    let is_pair = |a: usize, b: usize| {
        let (a, b) = (subjects[a], subjects[b]);
        a.backend == b.backend || a.mode == b.mode
    };
    let pairs: Vec<(usize, usize)> = up
        .iter()
        .flat_map(|a| up.iter().filter(move |b| a < *b).map(move |b| (*a, *b)))
        .filter(|(a, b)| is_pair(*a, *b))
        .collect();
    let pair = |pair: Pair| DecidedPair {
        a: subjects[pair.a],
        b: subjects[pair.b],
        metric: pair.metric,
        ratio: pair.ratio.map(|ratio| Estimated::of(ratio, 1.0)),
        verdict: match pair.verdict {
            Verdict::Better { which } => PairVerdict::Better { better: subjects[which] },
            Verdict::NoDifferent { within } => PairVerdict::NoDifferent { within_pct: round(within * 100.0, 1e3) },
            Verdict::Undecided { more_rounds, .. } => PairVerdict::Undecided { more_rounds },
        },
    };
    slices.verdicts(&pairs, metrics_at(load.load)).into_iter().map(pair).collect()
}

/// Whether a pair needs more rounds.
pub(super) fn is_undecided(pair: &DecidedPair) -> bool {
    matches!(pair.verdict, PairVerdict::Undecided { .. })
}

fn round(number: f64, steps: f64) -> f64 {
    (number * steps).round() / steps
}

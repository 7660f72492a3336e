//! From figures to verdicts.

use crate::look::{Look, Ratio};
use crate::numbers::{normal_bound, student_bound};
use crate::rank::{Evidence, Signed};
use crate::{Estimate, Metric, Pair, Settings, Verdict, Why};

/// More rounds than so many times those that are there are not foretold: what they rest on is too little known.
const FORETOLD_TIMES: f64 = 20.0;

/// What is known of two candidates in one figure.
struct Known {
    ratio: Option<Ratio>,
    evidence: Evidence,
    signed: Signed,
    /// Whether the test says that they differ, all others considered.
    differ: bool,
}

/// Verdicts of pairs in each of the metrics.
pub(crate) fn judge(look: &Look, pairs: &[(usize, usize)], metrics: &[Metric], settings: &Settings) -> Vec<Pair> {
    let asked: Vec<(usize, usize, Metric)> =
        pairs.iter().flat_map(|(a, b)| metrics.iter().map(|metric| (*a, *b, *metric))).collect();
    let mut known: Vec<Known> = asked.iter().map(|(a, b, metric)| know(look, *a, *b, *metric)).collect();
    let error = (1.0 - settings.level) / f64::from(settings.looks.max(1));
    holm(&mut known, error);
    let each = error / asked.len() as f64;
    let said = |((a, b, metric), known): ((usize, usize, Metric), &Known)| {
        let ratio = known.ratio.as_ref().map(|ratio| ratio.estimate);
        Pair { a, b, metric, ratio, verdict: verdict(known, (a, b), metric, each, settings) }
    };
    asked.into_iter().zip(&known).map(said).collect()
}

fn know(look: &Look, a: usize, b: usize, metric: Metric) -> Known {
    let evidence = look.evidence(a, b, metric);
    Known { ratio: look.ratio(a, b, metric), signed: evidence.test(0.0), evidence, differ: false }
}

/// Holm's correction: the smallest p is held against the error divided by all tests, the next one by one test less, until one fails.
fn holm(known: &mut [Known], error: f64) {
    let mut order: Vec<usize> = (0..known.len()).collect();
    order.sort_by(|a, b| known[*a].signed.p.total_cmp(&known[*b].signed.p));
    for (done, at) in order.iter().enumerate() {
        if known[*at].signed.p > error / (known.len() - done) as f64 {
            break;
        }
        known[*at].differ = true;
    }
}

fn verdict(known: &Known, (a, b): (usize, usize), metric: Metric, error: f64, settings: &Settings) -> Verdict {
    let undecided = |why, more_rounds| Verdict::Undecided { why, more_rounds };
    let Some(ratio) = &known.ratio else { return undecided(Why::NoFigure, None) };
    if ratio.rounds < settings.rounds_min as usize {
        return undecided(Why::FewRounds, Some(settings.rounds_min - ratio.rounds as u32));
    }
    let Estimate { value, .. } = ratio.estimate;
    let (log, least) = (value.ln(), settings.least.ln_1p());
    let agree = log * known.signed.z > 0.0;
    if known.differ && agree && log.abs() >= least {
        let a_is_better = (log < 0.0) != metric.higher_is_better();
        return Verdict::Better { which: if a_is_better { a } else { b } };
    }
    let reach = reach(ratio, error);
    let lies_within = |within: &&f64| {
        let bound = within.ln_1p();
        log.abs() + reach <= bound && apart_from(&known.evidence, bound).is_some_and(|signed| signed.p <= error)
    };
    if let Some(within) = settings.within.iter().find(lies_within) {
        return Verdict::NoDifferent { within: *within };
    }
    let enough = known.evidence.least_p() <= error;
    let why = match (known.differ && !agree, enough) {
        (true, _) => Why::Contrary,
        (false, false) => Why::FewRounds,
        (false, true) => Why::Uncertain,
    };
    undecided(why, more_rounds(known, ratio, error, settings))
}

/// The test that rounds lie above `-bound`, or that they lie below `bound`, whichever is less sure; `None` if one of them is not so at
/// all. Rounds have to agree with the ratio of all requests: where a tenth of the time goes in pauses that were not seen, the p99 of
/// all requests is that of the pauses, and alike for any two candidates.
fn apart_from(evidence: &Evidence, bound: f64) -> Option<Signed> {
    let (above, below) = (evidence.test(bound), evidence.test(-bound));
    let less_sure = if above.p > below.p { above } else { below };
    (above.z > 0.0 && below.z < 0.0).then_some(less_sure)
}

/// How far the logarithm of the ratio may be from what was seen, at the corrected level.
fn reach(ratio: &Ratio, error: f64) -> f64 {
    ratio.error * student_bound(error, (ratio.rounds - 1) as f64)
}

/// How many rounds more would decide, if they are like those that are there: what is uncertain shrinks with the square root of
/// their number, the rest stays.
fn more_rounds(known: &Known, ratio: &Ratio, error: f64, settings: &Settings) -> Option<u32> {
    let rounds = ratio.rounds as f64;
    let log = ratio.estimate.value.ln();
    // What the exact distribution takes at least.
    let exact = rounds / known.evidence.rounds().max(1) as f64 * (1.0 - error.log2()).ceil();
    let by_ranks = |signed: Signed| rounds * (normal_bound(error / 2.0) / signed.z.abs()).powi(2);
    let may_differ = log * known.signed.z > 0.0 && log.abs() >= settings.least.ln_1p();
    let differ = may_differ.then(|| by_ranks(known.signed));
    let widest = settings.within.iter().copied().fold(0.0, f64::max).ln_1p();
    let room = widest - log.abs();
    let same = apart_from(&known.evidence, widest).filter(|_| room > 0.0);
    let same = same.map(|signed| by_ranks(signed).max(rounds * (reach(ratio, error) / room).powi(2)));
    let total = [differ, same].into_iter().flatten().reduce(f64::min)?.max(exact);
    let more = (total - rounds).ceil().max(1.0);
    (more <= FORETOLD_TIMES * rounds).then_some(more as u32)
}

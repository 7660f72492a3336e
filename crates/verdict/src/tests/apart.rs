//! Two runs that were not measured next to each other.

use super::world::{Candidate, QUIET, SHAPES, World, up_to};
use crate::{Metric, Settings, Slices, Verdict};

const METRICS: &[Metric] = &[Metric::P99, Metric::Cpu];

fn run(world: &World, candidates: &[Candidate], seed: u64) -> Slices {
    up_to(&world.slices(candidates, seed), world.rounds, Settings::DEFAULT)
}

/// Verdicts of each candidate beside itself in another run.
fn verdicts(world: &World, first: &[Candidate], second: &[Candidate], seed: u64) -> Vec<Verdict> {
    let both = run(world, first, seed).beside(&run(world, second, seed + 10_000));
    let pairs: Vec<(usize, usize)> = (0..first.len()).map(|at| (at, first.len() + at)).collect();
    both.verdicts(&pairs, METRICS).into_iter().map(|pair| pair.verdict).collect()
}

/// The same in both runs: a winner is named in at most 1 of 20 comparisons, of whatever shape.
#[test]
fn the_same_has_a_winner_in_at_most_one_of_twenty() {
    let same = [(1.0, 1.0), (1.2, 0.8)];
    let mut named = 0;
    let all = 3 * 60;
    for shape in SHAPES {
        for seed in 0..60 {
            let said = verdicts(&World { shape, requests: 1000, ..QUIET }, &same, &same, seed);
            named += u32::from(said.iter().any(|verdict| matches!(verdict, Verdict::Better { .. })));
        }
    }
    println!("a winner in {named} of {all}");
    assert!(named * 20 <= all, "{named} of {all}");
}

/// One that is 15 % better is called so, and never the other; what is alike is called no different.
#[test]
fn what_differs_is_found_and_what_is_alike_too() {
    let (mut found, mut alike) = (0, 0);
    for seed in 0..20 {
        let said = verdicts(&QUIET, &[(1.0, 1.0)], &[(0.85, 1.0)], seed);
        assert!(!matches!(said[0], Verdict::Better { which: 0 }), "{said:?}");
        found += u32::from(said[0] == Verdict::Better { which: 1 });
        alike += u32::from(matches!(said[1], Verdict::NoDifferent { within } if within <= 0.10));
    }
    println!("found in {found} of 20, alike within 10 % in {alike}");
    assert!(found >= 18 && alike >= 15, "{found} {alike}");
}

/// The ratio is that of all rounds of each, though the runs have not the same rounds; within a run all is as it was.
#[test]
fn a_ratio_is_of_all_rounds_of_each() {
    let long = run(&World { rounds: 60, ..QUIET }, &[(1.0, 1.0), (1.1, 1.0)], 1);
    let short = run(&World { rounds: 30, ..QUIET }, &[(2.0, 1.0)], 2);
    let both = long.beside(&short);
    assert_eq!(both.candidates(), 3);
    let ratio = both.ratio(0, 2, Metric::P99).expect("both have figures");
    let each = long.estimate(0, Metric::P99).unwrap().value / short.estimate(0, Metric::P99).unwrap().value;
    assert!((ratio.value / each - 1.0).abs() < 1e-3, "{ratio:?} {each}");
    let interval = ratio.interval.expect("there are rounds enough");
    assert!(interval.low < 0.5 && 0.5 < interval.high && interval.high < 0.6, "{ratio:?}");
    assert_eq!(both.ratio(0, 1, Metric::P99).unwrap().value, long.ratio(0, 1, Metric::P99).unwrap().value);
}

/// What a file keeps of latencies gives the same figures.
#[test]
fn bins_by_number_give_the_same_quantiles() {
    let whole = run(&QUIET, &[(1.0, 1.0)], 3).latency(0);
    let kept = crate::Histogram::of_bins(whole.bins().iter().copied());
    assert_eq!((kept.bins(), kept.count()), (whole.bins(), whole.count()));
    for q in [0.5, 0.99, 0.999] {
        assert_eq!(kept.quantile(q), whole.quantile(q));
    }
}

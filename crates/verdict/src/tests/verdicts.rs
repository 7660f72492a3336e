//! Winners where there are none, and where there are.

use super::world::{Candidate, QUIET, SHAPES, Shape, World, up_to};
use crate::{Beside, Cause, Metric, Pair, Rule, Settings, Slice, Slices, Verdict, Why};

const BOTH: [Metric; 2] = [Metric::P99, Metric::Cpu];

fn settings(looks: u32) -> Settings {
    Settings { looks, resamples: 300, ..Settings::DEFAULT }
}

/// Verdicts at each of four looks.
fn looked(world: &World, candidates: &[Candidate], seed: u64, metrics: &[Metric]) -> Vec<Vec<Pair>> {
    let slices = world.slices(candidates, seed);
    let look = |look| up_to(&slices, world.rounds * look / 4, settings(4)).pairs(metrics);
    (1..=4).map(look).collect()
}

/// The verdict of the first look that has one, as measuring would stop there; else the last.
fn first(world: &World, candidates: &[Candidate], seed: u64, metric: Metric) -> Verdict {
    let all = looked(world, candidates, seed, &[metric]);
    let decided = all.iter().map(|pairs| pairs[0].verdict).find(Verdict::is_decided);
    decided.unwrap_or(all[3][0].verdict)
}

fn names_a_winner(pairs: &[Pair]) -> bool {
    pairs.iter().any(|pair| matches!(pair.verdict, Verdict::Better { .. }))
}

/// How many experiments of equal candidates name any winner, in any figure, at any look.
fn false_winners(world: &World, candidates: usize, experiments: u64) -> u64 {
    let equal = vec![(1.0, 1.0); candidates];
    let named = |seed: &u64| looked(world, &equal, *seed, &BOTH).iter().any(|pairs| names_a_winner(pairs));
    (0..experiments).filter(named).count() as u64
}

#[test]
fn equal_candidates_have_no_winner() {
    for (shape, drifts) in [(Shape::Exponential, false), (Shape::Bimodal, true)] {
        let world = World { shape, rounds: 24, requests: 600, noise: 0.2, drifts, ..QUIET };
        let named = false_winners(&world, 2, 200);
        println!("two, {shape:?}: {named} of 200");
        assert!(named <= 10, "two, {shape:?}: {named} of 200");
    }
    let world = World { rounds: 24, requests: 500, noise: 0.2, paused: 0.15, seen: 0.5, ..QUIET };
    let named = false_winners(&world, 12, 40);
    println!("twelve, pauses: {named} of 40");
    assert!(named <= 2, "twelve: {named} of 40");
}

/// Latencies and CPU time that differ by 15 % are told apart in 40 rounds of 50 ms.
#[test]
fn differences_of_15_percent_are_decided() {
    for shape in SHAPES {
        let world = World { shape, drifts: true, ..QUIET };
        let mut decided = [0; 2];
        for seed in 0..20 {
            let slices = up_to(&world.slices(&[(1.15, 1.15), (1.0, 1.0)], seed), world.rounds, settings(4));
            let wins = slices.pairs(&BOTH).into_iter().map(|pair| pair.verdict == Verdict::Better { which: 1 });
            decided.iter_mut().zip(wins).for_each(|(decided, wins)| *decided += u32::from(wins));
        }
        println!("{shape:?}: p99 and CPU decided in {decided:?} of 20");
        assert!(decided.iter().all(|decided| *decided >= 18), "{shape:?}: {decided:?}");
    }
}

/// What is the same is said to be the same, within 10 %.
#[test]
fn equal_candidates_are_no_different() {
    let within = |seed: &u64| {
        let slices = up_to(&QUIET.slices(&[(1.0, 1.0), (1.0, 1.0)], *seed), 40, settings(4));
        let small = |pair: &Pair| matches!(pair.verdict, Verdict::NoDifferent { within } if within <= 0.1);
        slices.pairs(&BOTH).iter().all(small)
    };
    let said = (0..20).filter(within).count();
    assert!(said >= 18, "{said} of 20");
    // A difference of 1.5 % is sure, and no merit.
    let world = World { noise: 0.002, requests: 300, ..QUIET };
    let slices = up_to(&world.slices(&[(1.0, 1.0), (1.0, 1.015)], 1), 40, settings(1));
    assert_eq!(slices.pairs(&[Metric::Cpu])[0].verdict, Verdict::NoDifferent { within: 0.02 });
}

/// Verdicts beside a machine that pauses: right or undecided, never the opposite.
fn beside_pauses(world: &World, difference: f64, experiments: u64, metric: Metric) -> [u64; 4] {
    let mut counts = [0; 4];
    for seed in 0..experiments {
        let of = match first(world, &[(difference, difference), (1.0, 1.0)], seed, metric) {
            Verdict::Better { which: 1 } => 0,
            Verdict::Undecided { .. } => 1,
            Verdict::NoDifferent { .. } => 2,
            Verdict::Better { .. } => 3,
        };
        counts[of] += 1;
    }
    counts
}

#[test]
fn pauses_do_not_turn_a_verdict() {
    for seen in [1.0, 0.5] {
        for metric in BOTH {
            let world = World { paused: 0.15, seen, requests: 1500, ..QUIET };
            let [right, undecided, none, opposite] = beside_pauses(&world, 1.3, 40, metric);
            println!("{seen} seen, {metric}: {right} right, {undecided} undecided, {none} none, {opposite} opposite");
            assert!(opposite == 0 && none <= 2, "{seen} {metric}: {right} {undecided} {none} {opposite}");
            assert!(seen < 1.0 || right >= 36, "{metric}: {right}");
        }
    }
}

#[test]
fn a_pair_is_the_same_from_both_sides() {
    let slices = up_to(&QUIET.slices(&[(1.0, 1.0), (1.1, 1.02), (1.01, 1.4)], 5), 20, settings(2));
    let all = [Metric::P50, Metric::P99, Metric::P999, Metric::Cpu, Metric::Throughput];
    let there = slices.verdicts(&[(0, 1), (0, 2), (1, 2)], &all);
    let back = slices.verdicts(&[(1, 0), (2, 0), (2, 1)], &all);
    for (there, back) in there.iter().zip(&back) {
        assert_eq!(there.verdict, back.verdict, "{there:?} {back:?}");
        let (ratio, inverse) = (there.ratio.expect("figures"), back.ratio.expect("figures").inverse());
        let near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-9;
        let (one, other) = (ratio.interval.expect("rounds"), inverse.interval.expect("rounds"));
        assert!(near(ratio.value, inverse.value) && near(one.low, other.low) && near(one.high, other.high));
        assert!(one.low <= ratio.value && ratio.value <= one.high);
    }
}

#[test]
fn the_order_of_slices_does_not_matter() {
    let made = World { paused: 0.15, ..QUIET }.slices(&[(1.0, 1.0), (1.1, 0.9), (1.0, 1.4)], 6);
    let forth = up_to(&made, 40, settings(1));
    let mut turned = made;
    turned.reverse();
    let back = up_to(&turned, 40, settings(1));
    assert_eq!(forth.pairs(&BOTH), back.pairs(&BOTH));
    assert_eq!(forth.estimate(1, Metric::P999), back.estimate(1, Metric::P999));
    assert_eq!(forth.pairs(&BOTH), forth.clone().pairs(&BOTH), "the same seed, the same answer");
}

/// What is left out is counted by its cause, and figures are of the rest.
#[test]
fn slices_are_left_out_by_the_rule() {
    let mut made = QUIET.slices(&[(1.0, 1.0), (1.0, 1.0)], 8);
    for slice in made.iter_mut().filter(|slice| slice.round < 10) {
        slice.cpu_ns = 50_000_000;
        slice.beside.stolen_ns = Some(20_000_000);
    }
    let slices = up_to(&made, 40, settings(1));
    let left_out = slices.left_out(1);
    assert_eq!((left_out.slices, left_out.of, left_out.causes.get(&Cause::Stolen)), (10, 40, Some(&10)));
    assert_eq!((slices.kept(0).count(), slices.rounds(), slices.taken()), (30, 40, false));
    assert!(slices.estimate(0, Metric::Cpu).expect("a figure").value < 0.45);
    assert!(up_to(&made, 19, settings(1)).taken() && !up_to(&made, 20, settings(1)).taken());
    let gone = up_to(&made, 10, settings(1));
    assert_eq!(gone.estimate(0, Metric::P99), None);
    let pair = gone.pairs(&[Metric::P99])[0];
    assert_eq!((pair.ratio, pair.verdict), (None, Verdict::Undecided { why: Why::NoFigure, more_rounds: None }));
}

#[test]
fn the_rule_knows_its_bounds() {
    let causes = |beside: Beside| Rule::DEFAULT.left_out(&beside, 50_000_000, 2);
    let quiet = Beside {
        others_ns: Some(5_000_000),
        stolen_ns: Some(0),
        client_waited_ns: Some(500_000),
        pause_ns: Some(500_000),
    };
    assert_eq!((causes(quiet), causes(Beside::default())), (None, None));
    assert_eq!(causes(Beside { others_ns: Some(5_000_001), ..quiet }), Some(Cause::Others));
    assert_eq!(causes(Beside { stolen_ns: Some(2_000_001), ..quiet }), Some(Cause::Stolen));
    assert_eq!(causes(Beside { client_waited_ns: Some(500_001), ..quiet }), Some(Cause::ClientWaited));
    assert_eq!(causes(Beside { pause_ns: Some(500_001), ..quiet }), Some(Cause::Paused));
}

/// Shares of what was due that slices answer in time, in per mille.
fn in_time(shares: &[u64]) -> Option<(f64, f64, f64)> {
    let mut slices = Slices::new(1, settings(1));
    for (&in_time, round) in shares.iter().zip(0..) {
        let slice = &QUIET.slices(&[(1.0, 1.0)], 1)[0];
        slices.add(Slice { round, due: 1000, in_time, ..slice.clone() });
    }
    let found = slices.in_time(0)?;
    let interval = found.interval.expect("there always is one");
    Some((found.value, interval.low, interval.high))
}

#[test]
fn a_candidate_keeps_up_if_as_many_slices_do() {
    assert_eq!(in_time(&[]), None);
    assert_eq!(in_time(&[900]), Some((0.9, 0.9, 0.9)));
    // Of few slices all count.
    assert_eq!(in_time(&[1000, 990, 500]), Some((0.99, 0.5, 1.0)));
    // Of many, one in five with a pause is not the median, and does not reach its interval.
    let mut many = vec![1000; 80];
    many.extend([100; 20]);
    assert_eq!(in_time(&many), Some((1.0, 1.0, 1.0)));
    // As many as not: open.
    many.extend([100; 60]);
    assert_eq!(in_time(&many), Some((0.55, 0.1, 1.0)));
    many.extend([100; 60]);
    assert_eq!(in_time(&many), Some((0.1, 0.1, 0.1)));
}

#[test]
fn where_the_machine_was_taken_away_one_quiet_slice_is_not_the_row() {
    let mut slices = Slices::new(1, settings(1));
    for round in 0..20 {
        let slice = &QUIET.slices(&[(1.0, 1.0)], 1)[0];
        let beside = Beside { pause_ns: (round > 0).then_some(slice.window_ns), ..slice.beside };
        slices.add(Slice { round, due: 1000, in_time: if round == 0 { 1000 } else { 600 }, beside, ..slice.clone() });
    }
    assert!(slices.taken() && slices.kept(0).count() == 1);
    assert_eq!(slices.in_time(0).map(|found| found.value), Some(0.6));
}

#[test]
fn what_is_undecided_says_how_much_longer() {
    let made = World { rounds: 90, requests: 1500, noise: 0.2, ..QUIET }.slices(&[(1.15, 1.0), (1.0, 1.0)], 3);
    let few = up_to(&made, 3, settings(1)).pairs(&[Metric::P99])[0].verdict;
    assert_eq!(few, Verdict::Undecided { why: Why::FewRounds, more_rounds: Some(2) });
    let Verdict::Undecided { more_rounds: Some(more), .. } =
        up_to(&made, 8, settings(1)).pairs(&[Metric::P99])[0].verdict
    else {
        panic!("8 rounds cannot tell");
    };
    assert!((1..=160).contains(&more), "{more}");
    assert!(up_to(&made, 90, settings(1)).is_decided(&[Metric::P99]));
    // Too few requests for the figure in any number of neighbouring rounds.
    let made = World { requests: 20, ..QUIET }.slices(&[(2.0, 1.0), (1.0, 1.0)], 3);
    let rare = up_to(&made, 40, settings(1)).pairs(&[Metric::P999])[0].verdict;
    assert!(matches!(rare, Verdict::Undecided { .. }), "{rare:?}");
}

#[test]
#[ignore = "long: a thousand experiments of each kind"]
fn deep_winners_are_rare_where_there_are_none() {
    for shape in SHAPES {
        for (candidates, experiments) in [(2, 1000), (12, 200)] {
            let world = World { shape, rounds: 40, requests: 600, noise: 0.2, drifts: true, ..QUIET };
            let named = false_winners(&world, candidates, experiments);
            println!("{candidates} of {shape:?}: {named} of {experiments}");
            assert!(named * 20 <= experiments, "{candidates} of {shape:?}: {named} of {experiments}");
        }
    }
}

#[test]
#[ignore = "long: hundreds of experiments of each kind"]
fn deep_pauses_do_not_turn_a_verdict() {
    for seen in [1.0, 0.5, 0.0] {
        for metric in BOTH {
            for difference in [1.15, 1.5] {
                let world = World { paused: 0.15, seen, requests: 1500, ..QUIET };
                let counts = beside_pauses(&world, difference, 200, metric);
                println!("{seen} seen, {metric} {difference}: right, undecided, none, opposite {counts:?}");
                assert!(counts[3] == 0 && (seen == 0.0 || counts[2] <= 10), "{counts:?}");
            }
        }
    }
}

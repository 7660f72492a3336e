//! How often the truth lies in an interval.

use super::world::{QUIET, SHAPES, Shape, World, up_to};
use crate::{Estimate, Metric, Settings};

fn holds(estimate: Option<Estimate>, truth: f64) -> bool {
    let interval = estimate.and_then(|estimate| estimate.interval).expect("rounds enough");
    interval.low <= truth && truth <= interval.high
}

/// In how many of `experiments` the truth lies in the intervals of a candidate's p50, p99 and CPU, and of the ratio of p99 to
/// another one that is 1.2 times as slow.
fn coverage(world: &World, experiments: u64) -> [u64; 4] {
    let settings = Settings { resamples: 400, ..Settings::DEFAULT };
    let truth = [0.5, 0.99].map(|q| world.shape.quantile(q, world.noise));
    let mut held = [0; 4];
    for seed in 0..experiments {
        let slices = up_to(&world.slices(&[(1.0, 1.0), (1.2, 1.2)], seed), world.rounds, settings);
        let one = [
            holds(slices.estimate(0, Metric::P50), truth[0]),
            holds(slices.estimate(0, Metric::P99), truth[1]),
            holds(slices.estimate(0, Metric::Cpu), 0.4),
            holds(slices.ratio(1, 0, Metric::P99), 1.2),
        ];
        held.iter_mut().zip(one).for_each(|(held, one)| *held += u64::from(one));
    }
    held
}

/// Of 150, 142 are wanted; chance alone gives 134 to 149.
#[test]
fn intervals_hold_the_truth() {
    for shape in SHAPES {
        let held = coverage(&World { shape, rounds: 25, requests: 800, noise: 0.02, ..QUIET }, 150);
        println!("{shape:?}: {held:?} of 150");
        assert!(held.iter().all(|held| *held >= 134), "{shape:?}: {held:?}");
    }
}

/// Five rounds are few; the interval is wide enough for that.
#[test]
fn intervals_of_few_rounds_hold_the_truth() {
    let held = coverage(&World { rounds: 6, requests: 800, noise: 0.02, ..QUIET }, 200);
    println!("6 rounds: {held:?} of 200");
    assert!(held.iter().all(|held| *held >= 178), "{held:?}");
}

/// What drifts under both alike is not in their ratio.
#[test]
fn drift_is_not_in_the_ratio() {
    let world = World { rounds: 30, requests: 800, drifts: true, noise: 0.02, ..QUIET };
    let held = coverage(&world, 150);
    assert!(held[3] >= 134, "{held:?}");
    let width = |world: &World| {
        let slices = up_to(&world.slices(&[(1.0, 1.0), (1.2, 1.2)], 7), world.rounds, Settings::DEFAULT);
        let of = |estimate: Option<Estimate>| {
            let interval = estimate.and_then(|it| it.interval).expect("rounds enough");
            (interval.high / interval.low).ln()
        };
        (of(slices.estimate(0, Metric::Cpu)), of(slices.ratio(1, 0, Metric::Cpu)))
    };
    let (own, ratio) = width(&World { noise: 0.005, ..world });
    assert!(ratio < 0.3 * own, "{ratio} {own}");
}

#[test]
#[ignore = "long: a thousand experiments of each shape"]
fn deep_intervals_hold_the_truth() {
    for shape in SHAPES {
        for drifts in [false, true] {
            let held = coverage(&World { shape, requests: 1000, noise: 0.05, drifts, ..QUIET }, 1000);
            println!("{shape:?}, drifts {drifts}: {held:?} of 1000");
            assert!(held[3] >= 925, "{held:?}");
            // Drift is not in the truth of one candidate.
            assert!(drifts || held.iter().all(|held| *held >= 915), "{held:?}");
        }
    }
    let world = World { shape: Shape::Bimodal, rounds: 12, ..QUIET };
    println!("12 rounds of bimodal: {:?} of 1000", coverage(&world, 1000));
}

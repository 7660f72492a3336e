//! The paired randomisation test: signed ranks, with their exact distribution.
//!
//! The order of the candidates within a round is random. If two of them are the same, which of the two figures of a round belongs to
//! which is chance, and so is the sign of each round's difference: 2^n equally likely outcomes. Ranks in place of the differences
//! make a round with a huge difference, such as one that was disturbed unseen, weigh no more than n rounds can.

use crate::numbers::normal_above;

/// Above so many differences the normal distribution is used. It is wider in its ends than the exact one, so it errs to the safe side.
const EXACT_MAX: usize = 64;

/// What the signs of differences say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Signed {
    /// How likely signs as one-sided as these are if there is no difference.
    pub(crate) p: f64,
    /// The sum of signed ranks in standard deviations; its sign is that of most differences.
    pub(crate) z: f64,
}

/// The least that `p` can be with `n` differences.
pub(crate) fn least_p(n: usize) -> f64 {
    0.5_f64.powi(n.saturating_sub(1).min(1000) as i32)
}

/// Tests differences, one for each round or group of rounds.
pub(crate) fn test(differences: &[f64]) -> Signed {
    let ranks = doubled_ranks(differences);
    // Differences of exactly 0 have a rank and no sign (Pratt).
    let signed: Vec<(u32, bool)> = differences
        .iter()
        .zip(&ranks)
        .filter(|(difference, _)| **difference != 0.0)
        .map(|(difference, rank)| (*rank, *difference > 0.0))
        .collect();
    let sum_of = |up: bool| signed.iter().filter(|(_, is)| *is == up).map(|(rank, _)| u64::from(*rank)).sum::<u64>();
    let (up, down) = (sum_of(true), sum_of(false));
    let deviation = signed.iter().map(|(rank, _)| f64::from(*rank).powi(2)).sum::<f64>().sqrt();
    if deviation == 0.0 {
        return Signed { p: 1.0, z: 0.0 };
    }
    let z = (up as f64 - down as f64) / deviation;
    let ranks: Vec<u32> = signed.iter().map(|(rank, _)| *rank).collect();
    let one_side = if ranks.len() <= EXACT_MAX { at_least(&ranks, up.max(down)) } else { normal_above(z.abs()) };
    Signed { p: (2.0 * one_side).min(1.0), z }
}

/// Twice the rank of each difference by size, equal ones sharing theirs, so that all are whole numbers.
fn doubled_ranks(differences: &[f64]) -> Vec<u32> {
    let mut order: Vec<usize> = (0..differences.len()).collect();
    order.sort_by(|a, b| differences[*a].abs().total_cmp(&differences[*b].abs()));
    let mut ranks = vec![0; differences.len()];
    for equal in order.chunk_by(|a, b| differences[*a].abs() == differences[*b].abs()) {
        let first = order.partition_point(|at| differences[*at].abs() < differences[equal[0]].abs());
        equal.iter().for_each(|at| ranks[*at] = (2 * first + equal.len() + 1) as u32);
    }
    ranks
}

/// How likely it is that the ranks to which a coin gives a plus have a sum of `sum` or more.
fn at_least(ranks: &[u32], sum: u64) -> f64 {
    let all: u64 = ranks.iter().map(|rank| u64::from(*rank)).sum();
    let mut chance = vec![0.0; all as usize + 1];
    chance[0] = 1.0;
    let mut reached = 0;
    for rank in ranks.iter().map(|rank| *rank as usize) {
        reached += rank;
        for at in (0..=reached).rev() {
            let without = chance[at];
            let with = if at >= rank { chance[at - rank] } else { 0.0 };
            chance[at] = 0.5 * (without + with);
        }
    }
    chance[sum as usize..].iter().sum()
}

#[cfg(test)]
mod tests {
    use napier_rng::{Xoshiro256PlusPlus, open_unit, stream};

    use super::{at_least, doubled_ranks, least_p, test};
    use crate::numbers::normal_above;

    #[test]
    fn ranks_are_shared_by_equal_differences() {
        assert_eq!(doubled_ranks(&[3.0, -1.0, 1.0, 0.0, -7.0]), [8, 5, 5, 2, 10]);
    }

    /// Every outcome counted, of six differences with equal ones and zeros among them.
    #[test]
    fn p_is_the_share_of_outcomes() {
        for seen in [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0, 1.0, -2.0, 4.0, 4.0, 0.0], [-1.0, 2.0, -3.0, 4.0, -5.0, 6.0]]
        {
            let sum = |of: &[f64]| {
                let ranks = doubled_ranks(of);
                let signs = of.iter().map(|of| if *of == 0.0 { 0.0 } else { of.signum() });
                signs.zip(ranks).map(|(sign, rank)| sign * f64::from(rank)).sum::<f64>().abs()
            };
            let outcomes = (0..64).map(|signs: u32| {
                let flip = |at: usize| if signs >> at & 1 == 1 { -seen[at] } else { seen[at] };
                sum(&(0..6).map(flip).collect::<Vec<f64>>())
            });
            let as_far = outcomes.filter(|outcome| *outcome >= sum(&seen)).count();
            assert!((test(&seen).p - as_far as f64 / 64.0).abs() < 1e-12, "{seen:?}");
        }
        assert_eq!(test(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).p, least_p(6));
        assert_eq!(test(&[0.0; 9]).p, 1.0);
    }

    /// Far out the normal distribution gives more than the exact one.
    #[test]
    fn the_normal_distribution_is_on_the_safe_side() {
        let ranks: Vec<u32> = (1..=64).map(|rank| 2 * rank).collect();
        let deviation = ranks.iter().map(|rank| f64::from(*rank).powi(2)).sum::<f64>().sqrt();
        let middle = f64::from(ranks.iter().sum::<u32>()) / 2.0;
        for z in [3.0, 4.0, 5.0] {
            let sum = (middle + z * deviation / 2.0).ceil();
            let (exact, normal) = (at_least(&ranks, sum as u64), normal_above(2.0 * (sum - middle) / deviation));
            assert!(exact <= normal && exact > 0.1 * normal, "{z}: {exact:e} {normal:e}");
        }
    }

    /// The p of a sign-flip test of another statistic, by 2,000 random flips.
    fn flipped(statistic: impl Fn(&[f64]) -> f64, seen: &[f64], rng: &mut Xoshiro256PlusPlus) -> f64 {
        let far = statistic(seen).abs() * (1.0 - 1e-9);
        let as_far = (0..2000).filter(|_| {
            let mut flip = |of: &f64| if open_unit(rng) < 0.5 { -of } else { *of };
            statistic(&seen.iter().map(&mut flip).collect::<Vec<_>>()).abs() >= far
        });
        f64::from(as_far.count() as u32 + 1) / 2001.0
    }

    fn mean(of: &[f64]) -> f64 {
        of.iter().sum::<f64>() / of.len() as f64
    }

    /// The mean with the outer tenths taken as what bounds them.
    fn winsorised(of: &[f64]) -> f64 {
        let mut sizes: Vec<f64> = of.iter().map(|of| of.abs()).collect();
        sizes.sort_by(f64::total_cmp);
        let bound = sizes[sizes.len() * 8 / 10];
        mean(&of.iter().map(|of| of.clamp(-bound, bound)).collect::<Vec<_>>())
    }

    fn signs(of: &[f64]) -> f64 {
        of.iter().map(|of| of.signum()).sum()
    }

    /// Which statistic finds a difference most often, of 40 rounds at an error of 1 %.
    #[test]
    #[ignore = "long: a thousand experiments of each kind"]
    fn deep_ranks_have_the_most_power_with_heavy_tails() {
        let mut rng = stream(1, "power");
        for (name, share, size) in [("normal", 0.0, 1.0), ("5 % ten times", 0.05, 10.0), ("20 % ten times", 0.2, 10.0)]
        {
            let mut found = [0_u32; 4];
            for _ in 0..1000 {
                let seen: Vec<f64> = (0..40)
                    .map(|_| {
                        let normal = (-2.0 * open_unit(&mut rng).ln()).sqrt()
                            * (std::f64::consts::TAU * open_unit(&mut rng)).cos();
                        0.6 + normal * if open_unit(&mut rng) < share { size } else { 1.0 }
                    })
                    .collect();
                let p = [
                    test(&seen).p,
                    flipped(mean, &seen, &mut rng),
                    flipped(winsorised, &seen, &mut rng),
                    flipped(signs, &seen, &mut rng),
                ];
                found.iter_mut().zip(p).for_each(|(found, p)| *found += u32::from(p <= 0.01));
            }
            println!("{name}: ranks, mean, winsorised, signs: {found:?} of 1000");
            assert!(found[0] + 50 >= found.into_iter().max().expect("four"), "{name}: {found:?}");
        }
    }
}

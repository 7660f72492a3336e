//! Histograms against the sorted values.

use napier_rng::{below, stream};

use crate::Histogram;

fn values(seed: u64, count: usize, bits: u32) -> Vec<u64> {
    let mut rng = stream(seed, "values");
    let mut value = || u64::from(below(&mut rng, u32::MAX)) << 31 >> (63 - 1 - below(&mut rng, bits));
    (0..count).map(|_| value()).collect()
}

fn of(values: &[u64]) -> Histogram {
    values.iter().map(|value| (*value, 1)).collect()
}

#[test]
fn quantiles_are_those_of_the_values() {
    for (seed, count, bits) in [(1, 1, 20), (2, 7, 30), (3, 1000, 8), (4, 5000, 40), (5, 5000, 61)] {
        let mut sorted = values(seed, count, bits);
        let all = of(&sorted);
        sorted.sort_unstable();
        assert_eq!((all.count(), all.max()), (count as u64, sorted.last().copied()));
        let mean = sorted.iter().map(|value| *value as f64).sum::<f64>() / count as f64;
        assert!((all.mean().expect("values") / mean - 1.0).abs() < 1e-9);
        for q in [0.0, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0] {
            let exact = sorted[((q * count as f64).ceil() as usize).saturating_sub(1)] as f64;
            let is = all.quantile(q).expect("values") as f64;
            assert!((is - exact).abs() <= exact / 128.0 + 0.5, "{seed} {q}: {is} {exact}");
        }
    }
}

#[test]
fn small_values_are_exact_and_bins_narrow() {
    for value in (0..2000).chain([u64::MAX, u64::MAX / 3, 1 << 40, (1 << 40) - 1]) {
        let one = of(&[value]);
        let (lowest, count) = one.iter().next().expect("a bin");
        assert!(lowest <= value && value - lowest <= value / 128 && count == 1, "{value} {lowest}");
        assert!(value >= 256 || lowest == value);
        // The largest value is known as it is.
        assert!(one.quantile(1.0).expect("a value") <= value);
    }
    let all = of(&(0..100_000).collect::<Vec<u64>>());
    let bins: Vec<(u64, u64)> = all.iter().collect();
    assert!(bins.windows(2).all(|two| two[0].0 < two[1].0 && two[1].0 - two[0].0 == two[0].1), "no gap, no overlap");
}

#[test]
fn merging_is_recording_all() {
    let (a, b) = (values(6, 3000, 40), values(7, 500, 12));
    let mut merged = of(&a);
    merged.merge(&of(&b));
    assert_eq!(merged, of(&[a.clone(), b.clone()].concat()));
    let mut weighted = of(&b);
    weighted.merge_weighted(&of(&a), 3);
    weighted.merge_weighted(&of(&a), 0);
    weighted.merge(&Histogram::new());
    assert_eq!(weighted, of(&[b, a.clone(), a.clone(), a].concat()));
    let again: Histogram = weighted.iter().collect();
    assert!(again.iter().eq(weighted.iter()), "bins are read back as they are");
}

#[test]
fn nothing_has_no_figures() {
    let mut none = Histogram::new();
    none.record(7, 0);
    assert_eq!((none.quantile(0.5), none.mean(), none.max(), none.count()), (None, None, None, 0));
    assert_eq!(none, Histogram::default());
}

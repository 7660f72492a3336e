use super::*;

#[test]
fn repeats_from_its_seed_and_differs_by_name() {
    let take = |seed, name| Poisson::new(100_000, seed, name).take(1000).collect::<Vec<_>>();
    assert_eq!(take(3, "arrivals"), take(3, "arrivals"));
    assert_ne!(take(3, "arrivals"), take(4, "arrivals"));
    assert_ne!(take(3, "arrivals"), take(3, "arrivals/1"));
}

#[test]
fn never_goes_back() {
    let instants: Vec<u64> = Poisson::new(5_000_000, 1, "a").take(100_000).collect();
    assert!(instants.windows(2).all(|pair| pair[0] <= pair[1]));
}

#[test]
fn gaps_have_the_mean_and_the_spread_of_an_exponential() {
    for rate_rps in [1_000_u64, 333_333, 5_000_000] {
        let n = 200_000;
        let instants: Vec<u64> = Poisson::new(rate_rps, 9, "gaps").take(n).collect();
        let mean_want = 1e9 / rate_rps as f64;
        let mean = *instants.last().unwrap() as f64 / n as f64;
        assert!((mean / mean_want - 1.0).abs() < 0.01, "rate {rate_rps}: mean {mean}");
        let variance = instants.windows(2).map(|p| ((p[1] - p[0]) as f64 - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "rate {rate_rps}: deviation {}", variance.sqrt());
    }
}

#[test]
fn counts_in_a_window_have_the_variance_of_a_poisson() {
    let mut counts = vec![0_f64; 1000];
    for at_ns in Poisson::new(100_000, 5, "counts") {
        match counts.get_mut((at_ns / 1_000_000) as usize) {
            Some(count) => *count += 1.0,
            None => break,
        }
    }
    let mean = counts.iter().sum::<f64>() / 1000.0;
    let variance = counts.iter().map(|c| (c - mean).powi(2)).sum::<f64>() / 1000.0;
    assert!((mean - 100.0).abs() < 1.5, "{mean}");
    assert!((0.85..1.15).contains(&(variance / mean)), "{}", variance / mean);
}

#[test]
#[should_panic(expected = "rate of 0")]
fn refuses_a_rate_of_zero() {
    let _ = Poisson::new(0, 1, "a");
}

use super::*;
use napier_rng::stream;

const N: usize = 400_000;

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn close(got: f64, want: f64, share: f64) {
    assert!((got / want - 1.0).abs() < share, "got {got}, want {want}");
}

/// Gamma by Lanczos' series (g = 7, n = 9): good to 13 digits, far more than the tests need.
fn gamma(x: f64) -> f64 {
    let terms = [
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    let x = x - 1.0;
    let sum =
        terms.iter().enumerate().fold(0.999_999_999_999_809_9, |sum, (i, term)| sum + term / (x + i as f64 + 1.0));
    let t = x + 7.5;
    (2.0 * std::f64::consts::PI).sqrt() * t.powf(x + 0.5) * (-t).exp() * sum
}

#[test]
fn key_sizes_have_the_moments_of_their_distribution() {
    let (location, scale, shape) = KEY;
    let mut rng = stream(1, "keys");
    let drawn = sorted((0..N).map(|_| generalized_extreme(open_unit(&mut rng), KEY)).collect());
    let (g1, g2) = (gamma(1.0 - shape), gamma(1.0 - 2.0 * shape));
    let mean = mean(&drawn);
    close(mean, location + scale * (g1 - 1.0) / shape, 0.002);
    let deviation = (drawn.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / N as f64).sqrt();
    close(deviation, scale / shape * (g2 - g1 * g1).sqrt(), 0.02);
    for quantile in [0.1_f64, 0.5, 0.9, 0.99] {
        let want = location + scale * ((-quantile.ln()).powf(-shape) - 1.0) / shape;
        close(drawn[(quantile * N as f64) as usize], want, 0.01);
    }
}

#[test]
fn value_tail_has_the_moments_of_its_distribution() {
    let (location, scale, shape) = VALUE;
    let mut rng = stream(1, "values");
    let drawn = sorted((0..N).map(|_| generalized_pareto(open_unit(&mut rng), VALUE)).collect());
    assert!(drawn[0] >= location);
    close(mean(&drawn), location + scale / (1.0 - shape), 0.01);
    for quantile in [0.1_f64, 0.5, 0.9, 0.99] {
        let want = location + scale * ((1.0 - quantile).powf(-shape) - 1.0) / shape;
        close(drawn[(quantile * N as f64) as usize], want, 0.02);
    }
}

#[test]
fn small_values_have_their_own_probabilities() {
    let mut rng = stream(2, "values");
    let mut counts = [0_usize; 15];
    let mut larger = 0;
    for _ in 0..N {
        match counts.get_mut(usize::from(Sizes::FacebookValue.draw(&mut rng, 0, 1000))) {
            Some(count) => *count += 1,
            None => larger += 1,
        }
    }
    for (count, probability) in counts.iter().zip(SMALL_VALUE) {
        let want = probability * N as f64;
        assert!((*count as f64 - want).abs() < 5.0 * want.sqrt() + 1.0, "{count} for {want}");
    }
    close(larger as f64 / N as f64, 1.0 - SMALL_VALUE.iter().sum::<f64>(), 0.01);
}

#[test]
fn bounds_hold() {
    let mut rng = stream(3, "bounds");
    for _ in 0..N {
        assert!((1..=250).contains(&Sizes::FacebookKey.draw(&mut rng, 1, 250)));
        assert!((0..=700).contains(&Sizes::FacebookValue.draw(&mut rng, 0, 700)));
    }
    assert_eq!(Sizes::Fixed(9000).draw(&mut rng, 1, 250), 250);
    assert_eq!(Sizes::Fixed(0).draw(&mut rng, 1, 250), 1);
    assert_eq!(Sizes::Fixed(17).draw(&mut rng, 1, 250), 17);
    assert_eq!((Sizes::Fixed(17).name(), Sizes::FacebookKey.name()), ("fixed:17".into(), "fb_key".into()));
}

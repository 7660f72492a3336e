//! Quantiles of the normal and of Student's distribution.

use std::f64::consts::{FRAC_PI_2, PI, SQRT_2};

/// The share of a normal distribution that lies above `z`.
///
/// The complementary error function by the rational Chebyshev fit of Press et al., Numerical Recipes, 6.2: relative error below
/// 1.2e-7 everywhere, far out as well.
pub(crate) fn normal_above(z: f64) -> f64 {
    const FIT: [f64; 10] = [
        -1.265_512_23,
        1.000_023_68,
        0.374_091_96,
        0.096_784_18,
        -0.186_288_06,
        0.278_868_07,
        -1.135_203_98,
        1.488_515_87,
        -0.822_152_23,
        0.170_872_77,
    ];
    let x = z.abs() / SQRT_2;
    let t = 1.0 / (1.0 + 0.5 * x);
    let exponent = FIT.iter().rev().fold(0.0, |sum, term| sum * t + term);
    let above = 0.5 * t * (exponent - x * x).exp();
    if z < 0.0 { 1.0 - above } else { above }
}

/// The `z` above which the share `p` of a normal distribution lies, for `p` up to 0.5.
pub(crate) fn normal_bound(p: f64) -> f64 {
    let (mut low, mut high) = (0.0, 38.0);
    // 38 / 2^48 is far below what the function above is good for.
    for _ in 0..48 {
        let middle = 0.5 * (low + high);
        if normal_above(middle) > p { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// The `t` beyond which the share `p` of Student's distribution with `n` degrees of freedom, 1 or more, lies, above and below together.
///
/// Hill, Algorithm 396: Student's t-quantiles, CACM 13 (1970).
#[must_use]
pub fn student_bound(p: f64, n: f64) -> f64 {
    if n < 1.5 {
        return 1.0 / (p * FRAC_PI_2).tan();
    }
    if n < 2.5 {
        return (2.0 / (p * (2.0 - p)) - 2.0).sqrt();
    }
    let a = 1.0 / (n - 0.5);
    let b = 48.0 / (a * a);
    let mut c = ((20_700.0 * a / b - 98.0) * a - 16.0) * a + 96.36;
    let d = ((94.5 / (b + c) - 3.0) / b + 1.0) * (a * PI / 2.0).sqrt() * n;
    let mut y = (d * p).powf(2.0 / n);
    if y > 0.05 + a {
        let x = -normal_bound(p * 0.5);
        y = x * x;
        if n < 5.0 {
            c += 0.3 * (n - 4.5) * (x + 0.6);
        }
        c += (((0.05 * d * x - 5.0) * x - 7.0) * x - 2.0) * x + b;
        y = (((((0.4 * y + 6.3) * y + 36.0) * y + 94.5) / c - y - 3.0) / b + 1.0) * x;
        y = (a * y * y).exp_m1();
    } else {
        let tail = 1.0 / (((n + 6.0) / (n * y) - 0.089 * d - 0.822) * (n + 2.0) * 3.0) + 0.5 / (n + 4.0);
        y = (tail * y - 1.0) * (n + 1.0) / (n + 2.0) + 1.0 / y;
    }
    (n * y).sqrt()
}

#[cfg(test)]
mod tests {
    use super::{normal_above, normal_bound, student_bound};

    fn near(is: f64, should: f64) -> bool {
        (is / should - 1.0).abs() < 2e-4
    }

    /// From printed tables.
    #[test]
    fn bounds_are_those_of_tables() {
        for (z, p) in [(0.0, 0.5), (1.281_552, 0.1), (1.959_964, 0.025), (3.090_232, 0.001), (4.753_424, 1e-6)] {
            assert!(near(normal_above(z), p), "{z}: {}", normal_above(z));
            assert!((normal_bound(p) - z).abs() < 1e-4, "{p}: {}", normal_bound(p));
        }
        assert!(near(normal_above(-1.281_552), 0.9));
        let table = [
            (0.05, 1.0, 12.7062),
            (0.05, 2.0, 4.302_65),
            (0.05, 4.0, 2.776_45),
            (0.05, 9.0, 2.262_16),
            (0.001, 4.0, 8.610_30),
            (0.001, 9.0, 4.780_91),
            (0.001, 39.0, 3.558_1),
            (0.05, 39.0, 2.022_69),
            (0.05, 1000.0, 1.962_34),
        ];
        for (p, n, t) in table {
            assert!(near(student_bound(p, n), t), "{p} {n}: {} {t}", student_bound(p, n));
        }
    }
}

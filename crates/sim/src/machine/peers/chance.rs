//! Chance, the same on every machine.

/// `-ln(x)` of a number above 0 and at most 1, by additions, products and quotients alone: those are the same on every machine,
/// which functions of the C library are not.
pub(crate) fn minus_ln(x: f64) -> f64 {
    let (mut mantissa, mut halvings) = (x, 0.0);
    while mantissa < 0.75 {
        mantissa *= 2.0;
        halvings += 1.0;
    }
    // ln(m) = 2 atanh((m - 1) / (m + 1)); the argument is at most 1/7, so that ten terms are more than enough.
    let part = (mantissa - 1.0) / (mantissa + 1.0);
    let (square, mut power, mut sum) = (part * part, part, 0.0);
    for odd in (1..=19).step_by(2) {
        sum += power / f64::from(odd);
        power *= square;
    }
    halvings * std::f64::consts::LN_2 - 2.0 * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_is_one() {
        for x in [f64::EPSILON, 1e-9, 0.1, 0.374, 0.5, 0.7499, 0.75, 0.9, 0.999, 1.0] {
            assert!((minus_ln(x) + x.ln()).abs() < 1e-13 * (1.0 - x.ln()), "{x}");
        }
    }
}

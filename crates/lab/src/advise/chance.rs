//! How much chance there is in a percentile of runs: by how much it differs among parts of their time.

use napier_sim::machine::figures::Figures;
use napier_verdict::student_bound;

use super::queues::select_us;

/// Parts of the time.
const PARTS: usize = 10;
/// So many of 100 intervals do not have what they are for.
const OUTSIDE: f64 = 0.05;

/// Half of the interval that has p99 in 95 of 100 cases, in percent of it: by parts of the time, each of all runs together. Latencies are
/// what `of` takes of a run, in the order in which answers came. `None`: in one of the parts there is no answer.
///
/// Source: batch means, as in A. Law, "Simulation Modeling and Analysis", section 9.5.3.
#[must_use]
pub fn p99_within_pct(runs: &[&Figures], of: fn(&Figures) -> &[u64]) -> Option<f64> {
    let mut parts: Vec<Vec<u64>> = vec![Vec::new(); PARTS];
    for run in runs {
        let mut from = 0;
        for (nth, slice) in run.slices.iter().enumerate() {
            let latencies = of(run).get(from..slice.latencies).unwrap_or_default();
            parts[nth * PARTS / run.slices.len()].extend_from_slice(latencies);
            from = slice.latencies;
        }
    }
    let all = select_us(&mut parts.concat(), 99);
    let each: Vec<f64> = parts.iter_mut().map(|part| select_us(part, 99)).collect();
    let mean = each.iter().sum::<f64>() / PARTS as f64;
    let variance = each.iter().map(|us| (us - mean).powi(2)).sum::<f64>() / (PARTS - 1) as f64;
    let within = student_bound(OUTSIDE, (PARTS - 1) as f64) * (variance / PARTS as f64).sqrt() / all * 100.0;
    within.is_finite().then_some(within)
}

#[cfg(test)]
mod tests {
    use napier_sim::machine::figures::RunSlice;

    use super::*;

    /// A run of 50 slices with as many answers each, the nth of which take what `of` says.
    fn run(of: impl Fn(usize) -> u64) -> Figures {
        let latency_ns = (0..50).flat_map(|nth| [of(nth); 20]).collect();
        let slices = (1..=50).map(|nth| RunSlice { latencies: nth * 20, ..RunSlice::default() }).collect();
        Figures { latency_ns, slices, ..Figures::default() }
    }

    fn within(runs: &[&Figures]) -> Option<f64> {
        p99_within_pct(runs, |run| &run.latency_ns)
    }

    #[test]
    fn what_differs_among_parts_of_the_time_is_chance() {
        let (same, other) = (run(|_| 1000), run(|nth| 1000 + 100 * (nth as u64 / 5 % 2)));
        assert_eq!(within(&[&same]), Some(0.0));
        // Five parts of 1.0 us and five of 1.1: a standard deviation of 0.0527 us, of ten; p99 of all is 1.1 us.
        // Student's distribution with nine degrees of freedom has 95 of 100 within 2.262.
        let expected = 2.262 * (0.0025_f64 * 10.0 / 9.0 / 10.0).sqrt() / 1.1 * 100.0;
        assert!((within(&[&other]).expect("answers") - expected).abs() < 1e-3);
        // Parts are of all runs together: what one has in turn is no chance if another has it always.
        assert_eq!(within(&[&other, &run(|_| 2000)]), Some(0.0));
    }

    #[test]
    fn without_answers_nothing_is_said() {
        assert_eq!(within(&[]), None);
        let mut stopped = run(|_| 1000);
        for slice in &mut stopped.slices[30..] {
            slice.latencies = 600;
        }
        assert_eq!(within(&[&stopped]), None);
    }
}

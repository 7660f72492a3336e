use super::*;

/// Figures in which every latency is `us` and every other figure follows from `n`.
pub(crate) fn figures(n: f64, us: f64) -> Figures {
    let latency = Summary { mean: us, p50: us, p90: us, p95: us, p99: us, p999: us, max: us };
    Figures {
        achieved_rps: n,
        latency_us: latency,
        service_latency_us: latency,
        cpu: CpuSplit { total_pct: n, useful_pct: Some(n), spin_pct: Some(0.0) },
        cycles_per_request: Some(n),
        interrupts_per_s: Some(n),
        polls_per_s: Some(n),
        empty_polls_pct: Some(n),
        work_per_poll: Some(n),
        context_switches_per_s: Some(n),
        ..Figures::default()
    }
}

#[test]
fn intended_and_actual_are_kept_apart() {
    let mut recorder = Recorder::new();
    recorder.record(0, 30_000, 40_000);
    assert_eq!(recorder.len(), 1);
    let (intended, actual) = (Summary::of(recorder.intended()).unwrap(), Summary::of(recorder.actual()).unwrap());
    assert!((intended.p99 / 40.0 - 1.0).abs() < 0.001 && (actual.p99 / 10.0 - 1.0).abs() < 0.001);
    assert!(Summary::of(Recorder::new().intended()).is_none());
}

#[test]
fn percentiles_of_a_known_distribution() {
    let mut recorder = Recorder::new();
    (1..=10_000).for_each(|us| recorder.record(0, 0, us * 1000));
    let s = Summary::of(recorder.intended()).unwrap();
    for (got, want) in [
        (s.mean, 5_000.5),
        (s.p50, 5_000.0),
        (s.p90, 9_000.0),
        (s.p95, 9_500.0),
        (s.p99, 9_900.0),
        (s.p999, 9_990.0),
        (s.max, 10_000.0),
    ] {
        assert!((got / want - 1.0).abs() < 0.001, "{got} for {want}");
    }
}

#[test]
fn what_is_beyond_the_scale_counts_as_its_end() {
    let mut recorder = Recorder::new();
    recorder.record(0, 0, u64::MAX);
    let max = Summary::of(recorder.intended()).unwrap().max;
    assert!((6.0e7..6.1e7).contains(&max), "{max} us");
}

#[test]
#[should_panic(expected = "time goes forward")]
fn a_reply_before_its_request_is_our_mistake() {
    Recorder::new().record(5, 5, 4);
}

#[test]
fn median_and_spread_of_runs() {
    let measured = Measured::of(&[figures(3.0, 30.0), figures(1.0, 50.0), figures(2.0, 10.0)]).unwrap();
    assert_eq!(measured.median, figures(2.0, 30.0), "each figure on its own");
    assert_eq!(measured.spread, Spread { min: figures(1.0, 10.0), max: figures(3.0, 50.0) });
    assert_eq!(measured.runs, 3);
    assert_eq!(Measured::of(&[figures(1.0, 2.0), figures(2.0, 4.0)]).unwrap().median, figures(1.5, 3.0));
    assert_eq!(Measured::of(&[]), None);
}

#[test]
fn a_figure_known_in_some_runs_is_the_median_of_those() {
    let mut with = figures(1.0, 1.0);
    with.events_per_wait = Some(4.0);
    let measured = Measured::of(&[figures(1.0, 1.0), with, figures(1.0, 1.0)]).unwrap();
    assert_eq!(measured.median.events_per_wait, Some(4.0));
    assert_eq!(Measured::of(&[figures(1.0, 1.0)]).unwrap().median.events_per_wait, None);
}

#[test]
fn cpu_is_split_over_all_cpus() {
    let cpu = CpuSplit::of(1_500, Some(500), 1_000, 2);
    assert_eq!(cpu, CpuSplit { total_pct: 75.0, useful_pct: Some(50.0), spin_pct: Some(25.0) });
    assert_eq!(CpuSplit::of(100, Some(900), 1_000, 1).spin_pct, Some(10.0), "never more than the whole");
}

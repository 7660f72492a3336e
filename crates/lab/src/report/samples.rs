//! Rows for the tests of the report: the cover letter's own figures where it has them.

use napier_verdict::Metric;

use super::*;
use crate::loads::Shortfall;
use crate::stats::{Cdf, CoreUse, CpuSplit, Figures, SideUse, Summary};

/// The names in a JSON object, sorted.
pub(crate) fn keys(value: &serde_json::Value) -> Vec<&str> {
    let mut keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

pub(crate) fn latency(p99: f64) -> Summary {
    Summary { mean: p99 * 0.4, p50: p99 * 0.35, p90: p99 * 0.7, p95: p99 * 0.8, p99, p999: p99 * 1.4, max: p99 * 3.0 }
}

pub(crate) fn figures(rps: f64, p99: f64, cpu: f64) -> Figures {
    Figures {
        achieved_rps: rps,
        in_time_pct: None,
        latency_us: latency(p99),
        service_latency_us: latency(p99 * 0.9),
        cpu: CpuSplit { total_pct: cpu, useful_pct: Some(cpu * 0.75), spin_pct: Some(cpu * 0.25) },
        cycles_per_request: Some(cpu * 440.0),
        cores: None,
        interrupts_per_s: Some(156_754.0 / cpu),
        polls_per_s: Some(20_000.0 * cpu),
        empty_polls_pct: Some(cpu * 0.92),
        work_per_poll: Some(40.0 / cpu),
        events_per_wait: Some(1.97),
        run_delay_ms_per_s: Some(0.5),
        timers_per_s: Some(cpu * 10.0),
        softirqs_per_s: None,
        softirq_polls_per_s: Some(rps * 0.5),
        context_switches_per_s: None,
        latency_cdf: Some(Cdf::from_us(|pct| p99 * (0.3 + 0.35 * (2.0 - (100.0 - pct).max(1e-3).log10())))),
    }
}

/// A row whose three runs lie `spread` (a share) around the figures.
pub(crate) fn row(mode: &str, load: Load, rps: f64, p99: f64, cpu: f64, spread: f64) -> Row {
    let in_time_pct = match load {
        Load::Rps(due_rps) => Some((100.0 * rps / due_rps as f64).min(100.0)),
        Load::Max => None,
    };
    let at = |factor: f64| Figures { in_time_pct, ..figures(rps * factor, p99 * factor, cpu * factor) };
    let measured = Measured::of(&[at(1.0 - spread), at(1.0), at(1.0 + spread)]).unwrap();
    Row {
        subject: Subject::engine(mode.parse().unwrap()),
        load,
        outcome: Outcome::Measured(Box::new(measured)),
        lost: None,
        left_out: 0,
    }
}

/// The same figures, but predicted.
pub(crate) fn predicted(mode: &str, load: Load, rps: f64, p99: f64, cpu: f64) -> Row {
    let Outcome::Measured(figures) = row(mode, load, rps, p99, cpu, 0.1).outcome else {
        unreachable!("it was measured")
    };
    Row {
        subject: Subject::sim(mode.parse().unwrap()),
        load,
        outcome: Outcome::Predicted { figures, sustained: true },
        lost: None,
        left_out: 0,
    }
}

/// Some machine that was simulated.
pub(crate) fn prediction() -> Prediction {
    Prediction {
        machine: "mine.toml".to_owned(),
        title: "fitted to a comparison".to_owned(),
        machine_figures: 24,
        machine_figures_fitted: 10,
        runs: 3,
    }
}

pub(crate) fn refused(mode: &str, load: Load, reason: &str) -> Row {
    Row {
        subject: Subject::engine(mode.parse().unwrap()),
        load,
        outcome: Outcome::Refused(reason.to_owned()),
        lost: None,
        left_out: 0,
    }
}

/// A machine that had nothing else to do.
pub(crate) fn quiet(load_rps: Load) -> MachineUse {
    MachineUse {
        load_rps,
        pause_p99_us: 0.0,
        pause_p999_us: 12.0,
        pause_max_us: 90.0,
        others_pct: 0.2,
        stolen_pct: 0.0,
        client_waited_ms_per_s: Some(0.1),
    }
}

/// What `base` and `fullbusy` sustain.
pub(crate) fn sustained() -> Vec<Sustained> {
    let one = |mode: &str, rps, failed_rps, why: Shortfall, at_most: Option<(f64, f64)>| Sustained {
        subject: Subject::engine(mode.parse().unwrap()),
        start_rps: 300_000,
        rps,
        low_rps: None,
        high_rps: None,
        kept_up_at_most: None,
        fell_behind_at_least: None,
        failed_rps: Some(failed_rps),
        why: Some(why.to_string()),
        p99_us: at_most.map(|(p99_us, _)| p99_us),
        cpu_pct: at_most.map(|(_, cpu_pct)| cpu_pct),
        taken: None,
    };
    vec![
        one("base", 480_000, 505_000, Shortfall::Answered { pct: 96.0 }, Some((310.0, 98.0))),
        one("fullbusy", 1_500_000, 1_570_000, Shortfall::Late { p99_us: 7100.0 }, Some((40.0, 100.0))),
        one("napibusy", 0, 1000, Shortfall::Answered { pct: 3.0 }, None),
    ]
}

/// What rounds would have decided of the rows of a report: apart where the ranges are, no different where that is within 10 %, undecided else.
pub(crate) fn decide(mut report: Report) -> Report {
    let loads = report.by_load().into_iter();
    let all = loads.filter(|(_, rows)| rows.iter().any(|row| row.measured().is_some()));
    report.decided = all.map(|(load, rows)| decided(load, &rows)).collect();
    report
}

fn decided(load: Load, rows: &[&Row]) -> Decided {
    let measured: Vec<(Subject, &Measured)> =
        rows.iter().filter_map(|row| Some((row.subject, row.measured()?))).collect();
    let estimate = |one: &Measured, metric| {
        let figure = verdict::of(metric);
        let (low, high) = (figure(&one.spread.min), figure(&one.spread.max));
        Estimated { value: figure(&one.median), low: Some(low), high: Some(high) }
    };
    let modes = measured.iter().map(|(mode, one)| {
        let of = |metric| Some(estimate(one, metric));
        DecidedMode {
            mode: *mode,
            p50_us: of(Metric::P50),
            p99_us: of(Metric::P99),
            p999_us: of(Metric::P999),
            cpu_pct: of(Metric::Cpu),
            throughput_rps: of(Metric::Throughput),
            kept: 40,
            left_out: 0,
        }
    });
    let modes: Vec<DecidedMode> = modes.collect();
    let mut pairs = Vec::new();
    for (i, (a, one)) in measured.iter().enumerate() {
        for (b, other) in &measured[i + 1..] {
            if a.backend != b.backend && !a.is_row_of(b) {
                continue;
            }
            for metric in if load == Load::Max { [Metric::Throughput, Metric::Cpu] } else { [Metric::P99, Metric::Cpu] }
            {
                let (x, y) = (estimate(one, metric), estimate(other, metric));
                let over = |x: Option<f64>, y: Option<f64>| x.zip(y).map(|(x, y)| x / y);
                let (low, high) = (over(x.low, y.high).unwrap(), over(x.high, y.low).unwrap());
                let less = if metric == Metric::Throughput { (b, a) } else { (a, b) };
                let verdict = if high < 1.0 {
                    PairVerdict::Better { better: *less.0 }
                } else if low > 1.0 {
                    PairVerdict::Better { better: *less.1 }
                } else if low >= 1.0 / 1.1 && high <= 1.1 {
                    PairVerdict::NoDifferent { within_pct: 10.0 }
                } else {
                    PairVerdict::Undecided { more_rounds: Some(20) }
                };
                let ratio = Some(Estimated { value: x.value / y.value, low: Some(low), high: Some(high) });
                pairs.push(DecidedPair { a: *a, b: *b, metric, ratio, verdict });
            }
        }
    }
    let of = 40 * u32::try_from(modes.len()).unwrap();
    let left_out = LeftOut { slices: 0, of, causes: BTreeMap::new() };
    let more_minutes = pairs.iter().any(|pair| matches!(pair.verdict, PairVerdict::Undecided { .. })).then_some(1.5);
    Decided { load_rps: load, rounds: 40, slice_ms: 50.0, left_out, taken: false, modes, pairs, more_minutes }
}

/// The same report, with the machine taken away at a load.
pub(crate) fn taken(mut report: Report, load: Load) -> Report {
    let decided = report.decided.iter_mut().find(|decided| decided.load_rps == load).unwrap();
    decided.taken = true;
    let slices = decided.left_out.of / 2 + 10;
    decided.left_out.slices = slices;
    decided.left_out.causes = [("others had the CPUs".to_owned(), slices)].into();
    report
}

pub(crate) fn cover_letter() -> Report {
    Report { took_minutes: Some(3.6), ..decide(measured()) }
}

fn measured() -> Report {
    let (low, high) = (Load::Rps(200_000), Load::Rps(1_000_000));
    let reason = "needs 5 CPUs for 2 queues (a thread per queue polls for ever), and this process may use 2; run it \
                  with --queues 1 on a machine with 3 CPUs or leave the mode out";
    Report {
        host: Host {
            cpu_model: "AMD EPYC 7662 64-Core Processor".into(),
            cpus: 64,
            kernel: "6.12.0".into(),
            notes: [("CPUs".to_owned(), "client on CPU 0".to_owned())].into(),
            in_force: [("softirq threads".to_owned(), "SCHED_FIFO 50".to_owned())].into(),
        },
        commit: "0123456789ab".into(),
        workload: Workload {
            name: "kv".into(),
            backend: "engine".into(),
            device: "link".into(),
            proto: "udp".into(),
            format: "ascii".into(),
            program: None,
            seed: 1,
            flows: 64,
            queues: 2,
            server_cpus: 2,
            records: 16_384,
            set_pct: 3.0,
            key_sizes: "fb_key".into(),
            value_sizes: "fb_value".into(),
            popularity: "uniform".into(),
            service: None,
            seconds: Some(5.0),
            request_cost_us: Some(0.6),
        },
        rows: vec![
            row("base", low, 199_954.0, 415.0, 26.0, 0.01),
            row("defer20", low, 199_985.0, 153.0, 26.0, 0.01),
            row("defer200", low, 199_997.0, 304.0, 18.0, 0.01),
            row("fullbusy", low, 199_993.0, 132.0, 100.0, 0.001),
            row("suspend20", low, 200_014.0, 151.0, 30.0, 0.01),
            refused("threaded-busy-poll", low, reason),
            row("base", high, 915_792.0, 6_239.0, 97.0, 0.01),
            row("fullbusy", high, 1_000_102.0, 213.0, 100.0, 0.01),
            row("suspend20", high, 1_000_095.0, 226.0, 89.0, 0.05),
            row("base", Load::Max, 1_054_805.0, 5_743.0, 100.0, 0.01),
            row("fullbusy", Load::Max, 1_248_006.0, 3_979.0, 100.0, 0.01),
            row("suspend20", Load::Max, 1_226_845.0, 3_985.0, 100.0, 0.01),
        ],
        failures: Vec::new(),
        ended: None,
        memory: Some(Memory { after_first_run_kib: 30 << 10, at_end_kib: 31 << 10, peak_kib: 60 << 10 }),
        machine: vec![quiet(low), quiet(high), quiet(Load::Max)],
        sustained: Vec::new(),
        searched_again: None,
        loads_wrong: None,
        prediction: None,
        at_start: None,
        decided: Vec::new(),
        took_minutes: None,
        slices: Vec::new(),
    }
}

/// The engine beside the kernel at one load, both measured in `base`, the kernel refused in `workqueue`.
pub(crate) fn beside_the_kernel() -> Report {
    let kernel = |mut row: Row| {
        row.subject = Subject::kernel(row.subject.mode);
        if let Outcome::Measured(measured) = &mut row.outcome {
            let median = &mut measured.median;
            let side = SideUse { user_pct: 40.0, system_pct: 20.0, irq_pct: 0.5, softirq_pct: 25.0 };
            median.cores = Some(CoreUse {
                busy_pct: 150.0,
                process_pct: 140.0,
                client_softirq_pct: Some(25.0),
                client: Some(side),
                server: side,
            });
            (median.context_switches_per_s, median.softirqs_per_s) = (Some(50_000.0), Some(2000.0));
            (median.interrupts_per_s, median.polls_per_s, median.cpu.spin_pct) = (None, None, None);
        }
        row
    };
    let load = Load::Rps(200_000);
    let rows = vec![
        row("base", load, 200_000.0, 30.0, 50.0, 0.1),
        kernel(row("base", load, 200_000.0, 20.0, 60.0, 0.1)),
        row("workqueue", load, 200_000.0, 40.0, 50.0, 0.1),
        kernel(refused("workqueue", load, "not here")),
    ];
    decide(Report { rows, ..cover_letter() })
}

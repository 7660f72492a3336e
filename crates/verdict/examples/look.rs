//! How much CPU time one look takes: 12 candidates, 40 rounds, all pairs in two figures. `cargo run --release --example look -p napier-verdict`

use std::fs;

use napier_rng::{open_unit, stream};
use napier_verdict::{Beside, Histogram, Metric, Settings, Slice, Slices};

/// CPU time of this process so far, in ms.
fn cpu_ms() -> f64 {
    let text = fs::read_to_string("/proc/self/schedstat").expect("a kernel with schedstat");
    text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).expect("a number") / 1e6
}

fn main() {
    let mut rng = stream(1, "latencies");
    for disturbed in [false, true] {
        let mut slices = Slices::new(12, Settings { looks: 4, ..Settings::DEFAULT });
        for round in 0..40 {
            for candidate in 0..12 {
                let mut latencies: Vec<u64> = (0..3000).map(|_| (-50e3 * open_unit(&mut rng).ln()) as u64).collect();
                latencies.sort_unstable();
                let latency: Histogram = latencies.into_iter().map(|latency| (latency, 1)).collect();
                let cpu_ns = (20e6 * (1.0 + 0.1 * open_unit(&mut rng))) as u64;
                let pause_ns = Some(if disturbed && open_unit(&mut rng) < 0.3 { 20_000_000 } else { 0 });
                let beside = Beside { pause_ns, ..Beside::default() };
                let (window_ns, cpus, due, in_time, answered) = (50_000_000, 1, 3000, 3000, 3000);
                slices.add(Slice {
                    candidate,
                    round,
                    window_ns,
                    cpus,
                    latency,
                    cpu_ns,
                    due,
                    in_time,
                    answered,
                    beside,
                });
            }
        }
        let begin = cpu_ms();
        let pairs = slices.pairs(&[Metric::P99, Metric::Cpu]);
        let decided = pairs.iter().filter(|pair| pair.verdict.is_decided()).count();
        let took = cpu_ms() - begin;
        println!("disturbed {disturbed}: {took:.1} ms for {} verdicts, {decided} of them decided", pairs.len());
    }
}

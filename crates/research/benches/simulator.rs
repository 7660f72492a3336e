//! Machine steps per second, on one core, of the simulated server of `plans/irq-suspension.toml`: at a light and a heavy load, in
//! modes that take interrupts, suspend them and spin. Accounting and invariants are on, as in `napier sim plan`.
//!
//! ```sh
//! cargo bench -p napier-research --bench simulator
//! ```

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use criterion::{Criterion, SamplingMode, Throughput};
use napier_core::time::Span;
use napier_lab::loads::Load;
use napier_research::plan::{self, Plan};
use napier_sim::machine::figures::Length;
use rustix::time::{ClockId, clock_gettime};

/// Requests per second over the plan's 8 queues, of which one is simulated.
const LOADS: [(&str, u64); 2] = [("light", 200_000), ("heavy", 800_000)];
const MODES: [&str; 3] = ["base", "suspend20", "fullbusy"];

/// CPU time of the process, which does not count what other programs take.
struct CpuTime;

impl Measurement for CpuTime {
    type Intermediate = u64;
    type Value = u64;

    fn start(&self) -> u64 {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }

    fn end(&self, begun: u64) -> u64 {
        self.start() - begun
    }

    fn add(&self, one: &u64, other: &u64) -> u64 {
        one + other
    }

    fn zero(&self) -> u64 {
        0
    }

    fn to_f64(&self, ns: &u64) -> f64 {
        *ns as f64
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}

/// Runs the one cell of a plan; how many steps that took.
fn steps(plan: &Plan) -> u64 {
    let cells: Vec<_> = plan.cells().collect();
    plan::run(plan, &cells, 1, &AtomicBool::new(false), &|_, _| ())[0].figure("steps").expect("the rules hold") as u64
}

fn main() {
    let whole = plan::named("irq-suspension").expect("it comes along");
    let length = Length { warm_up: Span::from_ms(20), measured: Span::from_ms(180) };
    let mut criterion = Criterion::default().with_measurement(CpuTime).configure_from_args();
    let mut group = criterion.benchmark_group("steps");
    group.sampling_mode(SamplingMode::Flat).sample_size(20).measurement_time(Duration::from_secs(5));
    for (load, rate) in LOADS {
        for mode in MODES {
            let mut plan = whole.clone();
            plan.keep_modes(&[mode.to_owned()]).expect("a mode of it");
            plan.loads.retain(|load| load.load == Load::Rps(rate));
            (plan.loads[0].length, plan.seeds) = (length, 1);
            // For the figure that no table has.
            plan.published.columns.push("steps");
            // The same in every run.
            group.throughput(Throughput::Elements(steps(&plan)));
            group.bench_function(format!("{load}/{mode}"), |bencher| bencher.iter(|| steps(&plan)));
        }
    }
    group.finish();
    criterion.final_summary();
}

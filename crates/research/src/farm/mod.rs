//! Campaigns of the farm: many seeds on some threads, and what came of them.

mod report;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use napier_scenario::Scenario;
use napier_sim::farm;
use napier_sim::machine::{Coverage, Plant};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

pub use report::{json, table};

/// A campaign.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// The first seed; the others count up from it.
    pub seed: u64,
    /// How many seeds.
    pub runs: u64,
    /// No new seed is begun after this.
    pub time_limit: Option<Duration>,
    /// Threads.
    pub jobs: usize,
}

/// What went wrong.
#[derive(Clone, Debug)]
pub struct Failure {
    /// In which seed.
    pub seed: u64,
    /// What, in the seed's own scenario.
    pub why: String,
    /// A smaller scenario with the same symptom.
    pub scenario: Scenario,
    /// What goes wrong in that.
    pub small_why: String,
}

/// What a campaign came to.
#[derive(Clone, Debug)]
pub struct FarmReport {
    /// The campaign.
    pub campaign: Campaign,
    /// Seeds that were run.
    pub runs: u64,
    /// Steps of all of them.
    pub steps: u64,
    /// CPU time of all threads.
    pub cpu_time: Duration,
    /// Time on the wall.
    pub wall_time: Duration,
    /// Seeds that failed, in order.
    pub failed_seeds: Vec<u64>,
    /// The first failure, made small.
    pub failure: Option<Failure>,
    /// How often each event and decision occurred.
    pub coverage: Coverage,
    /// Events and decisions that never occurred.
    pub missing: Vec<&'static str>,
    /// For each planted mistake the seeds that it took to find it; `None`: it was not found.
    pub canaries: Vec<(Plant, Option<u64>)>,
}

impl FarmReport {
    /// Every seed held, everything occurred, and every canary was found.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.failed_seeds.is_empty()
            && self.missing.is_empty()
            && self.canaries.iter().all(|(_, seeds)| seeds.is_some())
    }

    /// What did not hold, in a sentence; `None` if it [`passed`](Self::passed).
    #[must_use]
    pub fn why_not_passed(&self) -> Option<String> {
        let not_found = self.canaries.iter().filter(|(_, seeds)| seeds.is_none()).count();
        match (self.failed_seeds.len(), self.missing.len(), not_found) {
            (0, 0, 0) => None,
            (0, 0, found) => Some(format!("{found} planted mistakes were not found")),
            (0, missing, _) => Some(format!(
                "no seed failed, but {missing} kinds of events and decisions never occurred, so that nothing is said of \
                 them: {} are too few seeds, give more --runs or --seconds (300 runs are enough as a rule)",
                self.runs
            )),
            (failed, ..) => Some(format!("{failed} of {} seeds failed", self.runs)),
        }
    }

    /// Steps per second of CPU time.
    #[must_use]
    pub fn steps_per_core_s(&self) -> f64 {
        self.steps as f64 / self.cpu_time.as_secs_f64().max(1e-9)
    }
}

/// Seeds within which a planted mistake must be found.
const CANARY_SEEDS_MAX: u64 = 20_000;

/// Runs a campaign. `progress` is called now and then with the seeds that are done; `stop` ends it early.
#[must_use]
pub fn run(campaign: &Campaign, stop: &AtomicBool, progress: &(dyn Fn(u64) + Sync)) -> FarmReport {
    let begun = Instant::now();
    let shared = FarmShared { next: AtomicU64::new(0), done: AtomicU64::new(0), sums: Mutex::new(Sums::default()) };
    std::thread::scope(|scope| {
        for _ in 0..campaign.jobs.max(1) {
            scope.spawn(|| work(campaign, &shared, begun, stop, progress));
        }
    });
    let wall_time = begun.elapsed();
    let sums = shared.sums.into_inner().expect("no panic while held");
    let failure = sums.failures.first_key_value().map(|(seed, why)| {
        let (scenario, small_why) = farm::explain(*seed, Plant::Nothing);
        Failure { seed: *seed, why: why.clone(), scenario, small_why }
    });
    FarmReport {
        campaign: campaign.clone(),
        runs: sums.runs,
        steps: sums.steps,
        cpu_time: sums.cpu_time,
        wall_time,
        failed_seeds: sums.failures.into_keys().collect(),
        failure,
        missing: farm::missing(&sums.coverage),
        coverage: sums.coverage,
        canaries: canaries(campaign, stop),
    }
}

struct FarmShared {
    next: AtomicU64,
    done: AtomicU64,
    sums: Mutex<Sums>,
}

#[derive(Default)]
struct Sums {
    runs: u64,
    steps: u64,
    cpu_time: Duration,
    coverage: Coverage,
    failures: BTreeMap<u64, String>,
}

/// One thread's part.
fn work(campaign: &Campaign, shared: &FarmShared, begun: Instant, stop: &AtomicBool, progress: &(dyn Fn(u64) + Sync)) {
    let mut own = Sums::default();
    let cpu_before = thread_cpu_time();
    loop {
        let over = campaign.time_limit.is_some_and(|limit| begun.elapsed() >= limit);
        let index = shared.next.fetch_add(1, Ordering::Relaxed);
        if index >= campaign.runs || over || stop.load(Ordering::Relaxed) {
            break;
        }
        let seed = campaign.seed.wrapping_add(index);
        let outcome = farm::run_seed(seed);
        own.runs += 1;
        own.steps += outcome.steps;
        own.coverage.add(&outcome.coverage);
        if let Some(why) = outcome.broken {
            own.failures.insert(seed, why);
        }
        let done = shared.done.fetch_add(1, Ordering::Relaxed) + 1;
        if done.is_multiple_of(64) {
            progress(done);
        }
    }
    own.cpu_time = thread_cpu_time().saturating_sub(cpu_before);
    let mut sums = shared.sums.lock().expect("no panic while held");
    sums.runs += own.runs;
    sums.steps += own.steps;
    sums.cpu_time += own.cpu_time;
    sums.coverage.add(&own.coverage);
    sums.failures.append(&mut own.failures);
}

fn canaries(campaign: &Campaign, stop: &AtomicBool) -> Vec<(Plant, Option<u64>)> {
    let search = |plant: Plant| {
        let found = farm::find_canary(plant, campaign.seed, CANARY_SEEDS_MAX, stop);
        (plant, found.map(|seed| seed.wrapping_sub(campaign.seed) + 1))
    };
    farm::CANARIES.iter().map(|plant| search(*plant)).collect()
}

fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// A failure as a file: the scenario, with what went wrong as a comment above it.
#[must_use]
pub fn scenario_file(failure: &Failure) -> String {
    format!(
        "# Seed {} of the farm: {}\n# Made small it is: {}\n{}",
        failure.seed,
        failure.why,
        failure.small_why,
        failure.scenario.to_toml()
    )
}

/// Where a campaign's failures are written unless the user says otherwise.
#[must_use]
pub fn default_folder(seed: u64) -> PathBuf {
    PathBuf::from(format!("napier-farm-{seed}"))
}

/// A seed from the command line: a number, or any other text (a commit) by its hash.
#[must_use]
pub fn seed_from(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| napier_rng::seed_of(text))
}

/// The object that `--json` prints; `docs/json.md` has the keys.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "documented in docs/json.md under the same names")]
pub struct JsonReport {
    pub commit: String,
    pub seed: u64,
    pub jobs: usize,
    pub runs: u64,
    pub steps: u64,
    pub cpu_s: f64,
    pub wall_s: f64,
    pub steps_per_core_s: f64,
    pub result: String,
    pub failed_seeds: Vec<u64>,
    pub failure: Option<JsonFailure>,
    pub events: BTreeMap<String, u64>,
    pub decisions: BTreeMap<String, u64>,
    pub missing: Vec<String>,
    pub canaries: Vec<JsonCanary>,
}

/// The first failure.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "documented in docs/json.md under the same names")]
pub struct JsonFailure {
    pub seed: u64,
    pub why: String,
    pub steps_in_timeline: usize,
    pub scenario: String,
}

/// A planted mistake.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "documented in docs/json.md under the same names")]
pub struct JsonCanary {
    pub mistake: String,
    pub seeds: Option<u64>,
}

/// Its name up to version 0.2.
#[deprecated(since = "0.3.0", note = "it is `FarmReport`")]
pub type Report = FarmReport;

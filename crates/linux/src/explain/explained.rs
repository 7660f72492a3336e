//! How long the stages of all requests took.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::{Cause, PolledBy, Request, Stage};

/// Times are kept to a hundredth of their value, up to a minute.
const DIGITS: u8 = 2;
const LONGEST_NS: u64 = 60_000_000_000;

/// Adds up requests.
#[derive(Debug)]
pub struct Tally {
    whole: Times,
    stages: [Times; Stage::ALL.len()],
    causes: BTreeMap<Cause, u64>,
    polled_by: BTreeMap<PolledBy, u64>,
    idle_before: u64,
    ran_before: BTreeMap<String, u64>,
    off_cpu_ns: u64,
    lost: u64,
}

#[derive(Debug)]
struct Times {
    histogram: Histogram<u64>,
    sum_ns: u64,
}

/// What a window has shown.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Explained {
    /// Its length.
    pub seconds: f64,
    /// Requests that were answered, from the first thing that is seen of them to their answer.
    pub requests: u64,
    /// The whole of them.
    pub whole: StageFigures,
    /// Their stages, in the order of [`Stage::ALL`], which together are the whole.
    pub stages: Vec<StageFigures>,
    /// What made an instance be polled.
    pub causes: BTreeMap<Cause, u64>,
    /// Who polled.
    pub polled_by: BTreeMap<PolledBy, u64>,
    /// Requests whose thread found its CPU idle.
    pub idle_before: u64,
    /// Of the others: which thread had the CPU before.
    pub ran_before: BTreeMap<String, u64>,
    /// Of the last stage, for a request: how long its thread had no CPU.
    pub off_cpu_mean_us: f64,
    /// Receives of the program whose packet was not seen to come.
    pub unmatched: u64,
    /// Requests that were read and not answered on their connection.
    pub unanswered: u64,
    /// Events that were lost because the reader did not keep up.
    pub lost_events: u64,
}

/// How long something took.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct StageFigures {
    /// Its name.
    pub name: String,
    /// Requests that had it.
    pub requests: u64,
    /// Of these, half.
    pub p50_us: f64,
    /// Of these, 99 of 100.
    pub p99_us: f64,
    /// Of these, the longest.
    pub max_us: f64,
    /// Of all requests: what one without this stage has of it is 0, so that means add up to the mean of the whole.
    pub mean_us: f64,
    /// Of the time of all requests.
    pub share_pct: f64,
    /// Upper bounds in ns, powers of 2, with how many requests took no longer and more than the bound before.
    pub histogram: Vec<(u64, u64)>,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            whole: Times::default(),
            stages: std::array::from_fn(|_| Times::default()),
            causes: BTreeMap::new(),
            polled_by: BTreeMap::new(),
            idle_before: 0,
            ran_before: BTreeMap::new(),
            off_cpu_ns: 0,
            lost: 0,
        }
    }
}

impl Tally {
    /// Adds a request.
    pub fn add(&mut self, request: &Request) {
        self.whole.add(request.total_ns());
        for stage in Stage::ALL {
            if let Some(ns) = request.stage_ns(stage) {
                self.stages[stage as usize].add(ns);
            }
        }
        *self.causes.entry(request.cause).or_default() += 1;
        *self.polled_by.entry(request.polled_by).or_default() += 1;
        match request.before.map(|before| before.name()) {
            Some(Some(name)) => *self.ran_before.entry(name).or_default() += 1,
            Some(None) => self.idle_before += 1,
            None => {}
        }
        self.off_cpu_ns += request.off_cpu_ns;
    }

    /// Events are missing.
    pub const fn lost(&mut self, events: u64) {
        self.lost += events;
    }

    /// What is to be said of all; `left`: [`Story::left`](super::Story::left).
    #[must_use]
    pub fn explained(&self, span: Duration, (unmatched, unanswered): (u64, u64)) -> Explained {
        let requests = self.whole.histogram.len();
        let figures = |name: String, times: &Times| times.figures(name, requests, self.whole.sum_ns);
        Explained {
            seconds: span.as_secs_f64(),
            requests,
            whole: figures("whole".to_owned(), &self.whole),
            stages: Stage::ALL.iter().map(|stage| figures(stage.name(), &self.stages[*stage as usize])).collect(),
            causes: self.causes.clone(),
            polled_by: self.polled_by.clone(),
            idle_before: self.idle_before,
            ran_before: self.ran_before.clone(),
            off_cpu_mean_us: us(self.off_cpu_ns) / count(requests.max(1)),
            unmatched,
            unanswered,
            lost_events: self.lost,
        }
    }
}

impl Default for Times {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).expect("bounds that are known");
        Self { histogram, sum_ns: 0 }
    }
}

impl Times {
    fn add(&mut self, ns: u64) {
        self.histogram.saturating_record(ns);
        self.sum_ns += ns;
    }

    fn figures(&self, name: String, requests: u64, all_ns: u64) -> StageFigures {
        let at = |quantile: f64| us(self.histogram.value_at_quantile(quantile));
        let mut histogram: BTreeMap<u64, u64> = BTreeMap::new();
        for value in self.histogram.iter_recorded() {
            *histogram.entry(value.value_iterated_to().next_power_of_two()).or_default() += value.count_at_value();
        }
        StageFigures {
            name,
            requests: self.histogram.len(),
            p50_us: at(0.5),
            p99_us: at(0.99),
            max_us: us(self.histogram.max()),
            mean_us: us(self.sum_ns) / count(requests.max(1)),
            share_pct: us(self.sum_ns) * 100.0 / us(all_ns.max(1)),
            histogram: histogram.into_iter().collect(),
        }
    }
}

impl Explained {
    /// The stage that takes most of the time; `None` without a request.
    #[must_use]
    pub fn longest(&self) -> Option<Stage> {
        let by_mean = |stage: &Stage| self.of(*stage).mean_us;
        let most = Stage::ALL.into_iter().max_by(|one, other| by_mean(one).total_cmp(&by_mean(other)));
        most.filter(|_| self.requests > 0)
    }

    /// The figures of a stage.
    #[must_use]
    pub fn of(&self, stage: Stage) -> &StageFigures {
        &self.stages[stage as usize]
    }
}

#[expect(clippy::cast_precision_loss, reason = "figures to be read")]
fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

#[expect(clippy::cast_precision_loss, reason = "figures to be read")]
fn count(count: u64) -> f64 {
    count as f64
}

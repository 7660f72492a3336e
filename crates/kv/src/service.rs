//! How long a request occupies its worker beside what the cache itself takes, so that a server can be as slow as one
//! that does more.
//!
//! The time is spent as work: a chain of multiplications that was timed once, not a look at a clock until it is late
//! enough. A worker that an interrupt takes from its CPU meanwhile has its work still before it, as any program has;
//! with a clock the interrupt would be free.

mod hdr;

use std::fmt;
use std::hint::black_box;
use std::path::Path;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use napier_rng as rng;

/// Longest time of a request, in ns: one second.
pub const SERVICE_NS_MAX: f64 = 1e9;

/// An exponential draw is cut at so many times its mean, which one in 500 million exceeds.
const EXPONENTIAL_MAX: f64 = 20.0;

/// Most lines of a histogram.
const BUCKETS_MAX: usize = 100_000;

/// Largest file of a histogram: each bucket a short line.
const HISTOGRAM_BYTES_MAX: u64 = 16 << 20;

/// Time that each request takes in its worker. Cloning shares.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    name: String,
    times: Times,
}

#[derive(Clone, Debug, PartialEq)]
enum Times {
    /// Always so many ns.
    Fixed(f64),
    /// Exponential with this mean in ns.
    Exponential(f64),
    /// Values in ns, each with the sum of the weights up to it, divided by all.
    Histogram(Arc<[(f64, f64)]>),
}

/// Text that is no time of service.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// Neither a time nor a distribution.
    #[error("`{text}` is no time of service; give one such as 6us, 500ns or 1.5ms, exp:6us, or hist:FILE")]
    Unknown {
        /// As given.
        text: String,
    },
    /// More than a second, or nothing.
    #[error("a time of service of {text} cannot be had; give more than 0 and at most 1s")]
    Range {
        /// As given.
        text: String,
    },
    /// A file that cannot be read.
    #[error("the histogram {path}: {error}")]
    File {
        /// As given.
        path: String,
        /// What the system says.
        error: std::io::Error,
    },
    /// A line that is no bucket.
    #[error(
        "the histogram {path}, line {line}: `{text}` is no bucket; write a time and its weight, such as `6us 12.5`"
    )]
    Bucket {
        /// As given.
        path: String,
        /// From 1.
        line: usize,
        /// The line.
        text: String,
    },
    /// A log of histograms that cannot be read.
    #[error(
        "the log of histograms {path}: {why}; give one that HdrHistogram's writer of logs wrote, with values in ns up to a second"
    )]
    Log {
        /// As given.
        path: String,
        /// What is wrong.
        why: String,
    },
    /// No bucket with a weight, or too many.
    #[error("the histogram {path} has {buckets} buckets with a weight; give 1 to {BUCKETS_MAX}")]
    Buckets {
        /// As given.
        path: String,
        /// How many there are.
        buckets: usize,
    },
}

impl FromStr for Service {
    type Err = ServiceError;

    /// `6us`, `exp:6us` or `hist:FILE`; the file is read: lines of a time and a weight, or a log of HdrHistogram.
    fn from_str(text: &str) -> Result<Self, ServiceError> {
        let times = if let Some(mean) = text.strip_prefix("exp:") {
            Times::Exponential(time_ns(mean)?)
        } else if let Some(path) = text.strip_prefix("hist:") {
            let read = napier_linux::given::read_text(Path::new(path), HISTOGRAM_BYTES_MAX);
            let content = read.map_err(|error| ServiceError::File { path: path.to_owned(), error })?;
            Times::Histogram(histogram(path, &content)?)
        } else {
            Times::Fixed(time_ns(text)?)
        };
        Ok(Self { name: text.to_owned(), times })
    }
}

/// As it was given.
impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name)
    }
}

impl Service {
    /// A distribution of times that were seen, in ns; those that are no time count as the least that is. `None` without any.
    #[must_use]
    pub fn of_times_ns(name: &str, mut times_ns: Vec<f64>) -> Option<Self> {
        times_ns.sort_by(f64::total_cmp);
        let count = times_ns.len().min(BUCKETS_MAX);
        // Of more than there may be buckets every so many.
        let nth = |at: usize| times_ns[at * times_ns.len() / count].clamp(1.0, SERVICE_NS_MAX);
        let buckets = (0..count).map(|at| (nth(at), (at + 1) as f64 / count as f64)).collect();
        (count > 0).then(|| Self { name: name.to_owned(), times: Times::Histogram(buckets) })
    }

    /// Mean time, in µs.
    pub fn mean_us(&self) -> f64 {
        let mean_ns = match &self.times {
            Times::Fixed(ns) | Times::Exponential(ns) => *ns,
            Times::Histogram(buckets) => {
                let mut before = 0.0;
                buckets.iter().map(|&(ns, up_to)| ns * (up_to - std::mem::replace(&mut before, up_to))).sum()
            }
        };
        mean_ns / 1e3
    }

    /// The times at so many points, evenly spread over the distribution, in ns; one if there is but one time.
    pub fn points_ns(&self, count: usize) -> Vec<u64> {
        let count = if matches!(self.times, Times::Fixed(_)) { 1 } else { count };
        (0..count).map(|at| self.quantile_ns((at as f64 + 0.5) / count as f64).round() as u64).collect()
    }

    /// The time at a point of the distribution, 0 < `unit` < 1, in ns.
    fn quantile_ns(&self, unit: f64) -> f64 {
        match &self.times {
            Times::Fixed(ns) => *ns,
            Times::Exponential(mean_ns) => mean_ns * (-(1.0 - unit).ln()).min(EXPONENTIAL_MAX),
            Times::Histogram(buckets) => {
                let at = buckets.partition_point(|&(_, up_to)| up_to <= unit);
                buckets[at.min(buckets.len() - 1)].0
            }
        }
    }
}

/// A time with its unit, in ns.
fn time_ns(text: &str) -> Result<f64, ServiceError> {
    let unknown = || ServiceError::Unknown { text: text.to_owned() };
    let units = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    let split = units.into_iter().find_map(|(unit, ns)| Some((text.strip_suffix(unit)?, ns)));
    let (number, unit_ns) = split.ok_or_else(unknown)?;
    // Digits and at most one point: `1e3`, `inf` and `-1` would also be numbers to `parse`.
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return Err(unknown());
    }
    let ns = number.parse::<f64>().map_err(|_| unknown())? * unit_ns;
    if ns > 0.0 && ns <= SERVICE_NS_MAX { Ok(ns) } else { Err(ServiceError::Range { text: text.to_owned() }) }
}

/// Those of a file, of whichever kind it is.
fn histogram(path: &str, content: &str) -> Result<Arc<[(f64, f64)]>, ServiceError> {
    if !hdr::is_log(content) {
        return buckets(path, content);
    }
    let log = |why: String| ServiceError::Log { path: path.to_owned(), why };
    let values = hdr::values(content).map_err(log)?;
    if values.iter().any(|(ns, _)| *ns > SERVICE_NS_MAX) {
        return Err(log("it has times of more than a second".to_owned()));
    }
    let mut sum = 0.0;
    let upto = |(ns, count): (f64, f64)| {
        sum += count;
        (ns.max(1.0), sum)
    };
    of_sums(path, values.into_iter().map(upto).collect(), sum)
}

/// Lines of a time and a weight; empty ones, and what is behind `#`, are left aside.
fn buckets(path: &str, content: &str) -> Result<Arc<[(f64, f64)]>, ServiceError> {
    let (mut buckets, mut sum) = (Vec::new(), 0.0);
    for (number, line) in content.lines().enumerate() {
        let text = line.split('#').next().unwrap_or_default().trim();
        if text.is_empty() {
            continue;
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        let bucket = match words[..] {
            [time, weight] => time_ns(time).ok().zip(weight.parse::<f64>().ok()),
            _ => None,
        };
        let Some((ns, weight)) = bucket.filter(|(_, weight)| weight.is_finite() && *weight >= 0.0) else {
            return Err(ServiceError::Bucket { path: path.to_owned(), line: number + 1, text: text.to_owned() });
        };
        if weight > 0.0 {
            sum += weight;
            buckets.push((ns, sum));
        }
    }
    of_sums(path, buckets, sum)
}

/// Of times and the sum of the weights up to each.
fn of_sums(path: &str, buckets: Vec<(f64, f64)>, sum: f64) -> Result<Arc<[(f64, f64)]>, ServiceError> {
    if buckets.is_empty() || buckets.len() > BUCKETS_MAX || !sum.is_finite() {
        return Err(ServiceError::Buckets { path: path.to_owned(), buckets: buckets.len() });
    }
    Ok(buckets.into_iter().map(|(ns, up_to)| (ns, up_to / sum)).collect())
}

/// The times of one worker's requests, drawn one by one. Any thread may hold it, one at a time draws.
#[derive(Debug)]
pub struct ServiceStream {
    service: Service,
    seed: u64,
    /// Draws so far. Relaxed: one thread draws, and that a run is over is known otherwise.
    drawn: AtomicU64,
}

impl ServiceStream {
    /// The stream `name` of a seed: the same pair gives the same times.
    pub fn new(service: &Service, seed: u64, name: &str) -> Self {
        Self { service: service.clone(), seed: rng::mix(seed ^ rng::seed_of(name)), drawn: AtomicU64::new(0) }
    }

    /// Begins anew.
    pub fn restart(&self) {
        self.drawn.store(0, Ordering::Relaxed);
    }

    /// The next time, in ns.
    pub fn draw_ns(&self) -> f64 {
        let drawn = self.drawn.load(Ordering::Relaxed);
        self.drawn.store(drawn + 1, Ordering::Relaxed);
        // Half a step off, so that it is neither 0 nor 1.
        let unit = ((rng::mix(self.seed ^ rng::mix(drawn)) >> 12) as f64 + 0.5) / (1_u64 << 52) as f64;
        self.service.quantile_ns(unit)
    }

    /// Works for the next time.
    pub fn work(&self) {
        let rounds = self.draw_ns() * rounds_per_ns();
        chain(rounds.round() as u64);
    }
}

/// Multiplications, each of which waits for the one before it.
fn chain(rounds: u64) {
    let mut value = black_box(1_u64);
    for _ in 0..rounds {
        value = value.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 1;
    }
    black_box(value);
}

/// Rounds of [`chain`] in a nanosecond on this machine, taken once: the fastest of several trials, for whatever disturbs
/// one makes it slower.
fn rounds_per_ns() -> f64 {
    const TRIALS: usize = 20;
    const ROUNDS: u64 = 50_000;
    static MEASURED: OnceLock<f64> = OnceLock::new();
    *MEASURED.get_or_init(|| {
        let trial = |_| {
            let begun = Instant::now();
            chain(ROUNDS);
            begun.elapsed().as_nanos().max(1) as f64
        };
        let fastest_ns = (0..TRIALS).map(trial).fold(f64::INFINITY, f64::min);
        ROUNDS as f64 / fastest_ns
    })
}

/// Takes the speed of this machine, so that the first request does not have to.
pub fn calibrate() {
    let _ = rounds_per_ns();
}

#[cfg(test)]
mod tests;

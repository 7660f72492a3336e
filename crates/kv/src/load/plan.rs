//! What a load generator is to ask for, and what a run of it measures.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::profile::Profile;
use crate::recorder::Recorder;

/// What is asked for, and what becomes of requests without an answer.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Keys, sizes, shares.
    pub profile: Profile,
    /// Length of every value in bytes, in place of the profile's.
    pub value_bytes: Option<usize>,
    /// Requests of one flow that may be without an answer.
    pub depth: usize,
    /// A request that is due while all windows are full takes the place of the oldest one of its flow, which is lost;
    /// otherwise it waits, and its time runs.
    pub overruns: bool,
    /// A request without an answer for so long is given up; `None`: never in a run.
    pub give_up: Option<Duration>,
    /// Most requests that are sent before replies are looked at again.
    pub burst: usize,
}

/// What a run measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// Latencies of the requests that were due in the measured time.
    pub recorder: Recorder,
    /// Replies that came in the measured time.
    pub answered: u64,
    /// Requests that were due in the measured time and were sent.
    pub sent: u64,
    /// Requests that were due in the measured time, sent or not; of more than a million that were not sent the rest is not counted.
    #[serde(default)]
    pub due: u64,
    /// Those of them that were answered in the measured time.
    #[serde(default)]
    pub in_time: u64,
    /// The shortest time from the actual send to the reply in all of the run, warm-up counted, in ns: what the way takes by itself.
    #[serde(default)]
    pub fastest_ns: u64,
    /// Replies that came, late ones too.
    pub replies: u64,
    /// Gets that found nothing.
    pub missing: u64,
    /// Requests that the server refused.
    pub refused: u64,
    /// Values that are not those of their keys, replies of another kind than the request's, and what is no reply.
    pub wrong: u64,
    /// Requests that were given up, those included that are out when the run ends.
    pub lost: u64,
    /// Length of the measured time in ns.
    pub window_ns: u64,
    /// The longest time, in the measured time and its margins, for which the generator's loop did not go on though it had not asked to sleep,
    /// in ns: what the machine took from it.
    #[serde(default)]
    pub paused_ns: u64,
}

/// When a run begins and ends.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Window {
    /// Before anything counts.
    pub warm_up: Duration,
    /// What counts.
    pub measure: Duration,
    /// How long requests are sent before and after it beside the warm-up, while counters are read: what that takes the generator is no
    /// latency of a request that counts.
    #[serde(default)]
    pub margin: Duration,
    /// How long answers are waited for afterwards.
    pub drain: Duration,
}

impl Measured {
    /// Replies per second of the measured time.
    #[must_use]
    pub fn answered_per_s(&self) -> f64 {
        self.answered as f64 * 1e9 / self.window_ns.max(1) as f64
    }

    /// Nothing yet.
    pub fn new(window_ns: u64) -> Self {
        let recorder = Recorder::new();
        Self {
            recorder,
            answered: 0,
            sent: 0,
            due: 0,
            in_time: 0,
            fastest_ns: u64::MAX,
            replies: 0,
            missing: 0,
            refused: 0,
            wrong: 0,
            lost: 0,
            window_ns,
            paused_ns: 0,
        }
    }

    /// Both together, as of one run.
    pub fn add(&mut self, other: &Self) {
        self.recorder.add(&other.recorder);
        self.answered += other.answered;
        self.sent += other.sent;
        self.due += other.due;
        self.in_time += other.in_time;
        self.fastest_ns = self.fastest_ns.min(other.fastest_ns);
        self.replies += other.replies;
        self.missing += other.missing;
        self.refused += other.refused;
        self.wrong += other.wrong;
        self.lost += other.lost;
        self.window_ns += other.window_ns;
        self.paused_ns = self.paused_ns.max(other.paused_ns);
    }
}

/// A time in ns.
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).expect("no run lasts 584 years")
}

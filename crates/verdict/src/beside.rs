//! What the machine did beside, and when a slice is left out for it.

use std::fmt;

/// What the machine did beside in one slice. `None` is what cannot be known here; it leaves no slice out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Beside {
    /// CPU time that other programs had of the CPUs in use, in ns. What the candidate itself makes the kernel do is not among it.
    pub others_ns: Option<u64>,
    /// Time for which the host gave the CPUs in use to others, in ns.
    pub stolen_ns: Option<u64>,
    /// How long threads of the client were ready to run and had no CPU, in ns.
    pub client_waited_ns: Option<u64>,
    /// The longest gap of a loop that never sleeps, such as a client that sends by the clock, in ns.
    pub pause_ns: Option<u64>,
}

/// Why a slice is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// A loop that never sleeps stood still.
    Paused,
    /// The client's threads waited for a CPU.
    ClientWaited,
    /// The host gave the CPUs to others.
    Stolen,
    /// Other programs had the CPUs.
    Others,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Paused => "the machine paused",
            Self::ClientWaited => "the client waited for its CPU",
            Self::Stolen => "the host took the CPUs",
            Self::Others => "other programs took the CPUs",
        })
    }
}

/// When a slice is left out: bounds that are the same for all candidates and are fixed before anything is measured.
///
/// Nothing of the candidate's own figures is looked at, neither its latencies nor its CPU time: else the rule would choose
/// what is compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    /// Share of the slice's length that a pause may take.
    pub pause: f64,
    /// Share of the slice's length that the client's threads may wait.
    pub client_waited: f64,
    /// Share of the CPU time of all CPUs in use that the host may take.
    pub stolen: f64,
    /// Share of the CPU time of all CPUs in use that other programs may take.
    pub others: f64,
}

impl Rule {
    /// The bounds in use, each for a reason.
    ///
    /// - A pause and a wait of the client: **1 %**. A request that comes in a pause waits for its end, so a pause of 1 % of the slice
    ///   delays 1 % of the requests: with more of it p99 is that of the pause.
    /// - The host: **2 %**, others: **5 %** of the CPUs. They need not hit a moment in which something was to be done; with more than that
    ///   CPU time and caches are no longer those of the candidate.
    ///
    /// What the server's own threads wait for is not asked: they also wait for what the candidate itself runs on their CPU.
    pub const DEFAULT: Self = Self { pause: 0.01, client_waited: 0.01, stolen: 0.02, others: 0.05 };

    /// Why a slice of `window_ns` on `cpus` CPUs is left out; `None` if it is kept.
    #[must_use]
    pub fn left_out(&self, beside: &Beside, window_ns: u64, cpus: u32) -> Option<Cause> {
        let window = window_ns as f64;
        let all = window * f64::from(cpus.max(1));
        let over = |time: Option<u64>, bound: f64, of: f64| time.is_some_and(|time| time as f64 > bound * of);
        [
            (Cause::Paused, over(beside.pause_ns, self.pause, window)),
            (Cause::ClientWaited, over(beside.client_waited_ns, self.client_waited, window)),
            (Cause::Stolen, over(beside.stolen_ns, self.stolen, all)),
            (Cause::Others, over(beside.others_ns, self.others, all)),
        ]
        .into_iter()
        .find_map(|(cause, over)| over.then_some(cause))
    }
}

impl Default for Rule {
    fn default() -> Self {
        Self::DEFAULT
    }
}

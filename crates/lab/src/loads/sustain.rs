//! The search for the most that a mode sustains, in open loop.

use std::fmt;

/// A load that was not sustained, and why.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shortfall {
    /// Less than 99 % of what was due was answered meanwhile, so what waits grows.
    Answered {
        /// What was answered of it, in percent.
        pct: f64,
    },
    /// Nearly all was answered, but too late.
    Late {
        /// 99th percentile, in µs.
        p99_us: f64,
    },
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answered { pct } => write!(f, "{} answered", floored_pct(*pct)),
            Self::Late { p99_us } => write!(f, "p99 {:.1} ms", p99_us / 1e3),
        }
    }
}

/// A share that stands beside the least that is enough: never rounded up to that.
pub(crate) fn floored_pct(pct: f64) -> String {
    format!("{:.0} %", pct.floor())
}

/// Requests that may be on their way at the end of a run, however short it is, without a word of overload.
const IN_HAND: f64 = 10.0;

/// Of the requests that were due in a run the share that was answered in it, in percent. As many as may be on their way at the end of any
/// run count as answered: a few, and those that the way to the server and back holds by itself.
#[must_use]
pub fn in_time_pct_of(due: u64, in_time: u64, on_way: f64) -> f64 {
    if due == 0 {
        return 100.0;
    }
    let late = (due.saturating_sub(in_time) as f64 - on_way - IN_HAND).max(0.0);
    100.0 * (1.0 - late / due as f64)
}

/// The same where only what was answered per second is known: Poisson arrivals at a rate give no more than about as many as it says.
#[must_use]
pub fn in_time_pct_by_rate(rate_rps: u64, achieved_rps: f64, seconds: f64) -> f64 {
    let chance_rps = CHANCE * (rate_rps as f64 / seconds.max(1e-9)).sqrt();
    let due_rps = (rate_rps as f64 - chance_rps).max(1.0);
    (100.0 * achieved_rps / due_rps).clamp(0.0, 100.0)
}

/// Standard deviations of the arrivals that are put down to chance.
const CHANCE: f64 = 3.0;

/// Searches the largest load that is sustained: doubles from a start until one is not, or halves until one is, and then
/// halves what is unknown.
///
/// Ask [`next_rps`](Self::next_rps), run that load, tell [`on_run`](Self::on_run), until there is no next. A load that fails
/// is tried once more, since a pause of the machine looks the same.
#[derive(Clone, Debug)]
pub struct SustainSearch {
    start_rps: u64,
    sustained_rps: u64,
    failed: Option<(u64, Shortfall)>,
    /// Failed once, and not yet again.
    doubtful_rps: Option<u64>,
    tries_left: u32,
}

impl SustainSearch {
    /// Share of what is due that must be answered meanwhile.
    pub const ACHIEVED_MIN: f64 = 0.99;

    /// Longest 99th percentile, in µs. A queue that grows by a hundredth of the load grows by this much in half a second.
    pub const P99_US_MAX: f64 = 5000.0;

    /// What is unknown in the end, as a share of what failed.
    pub const PRECISION: f64 = 0.05;

    const RPS_MAX: u64 = 100_000_000;

    /// A search from `start_rps` with at most `tries_max` runs.
    pub fn new(start_rps: u64, tries_max: u32) -> Self {
        let start_rps = start_rps.clamp(1, Self::RPS_MAX);
        Self { start_rps, sustained_rps: 0, failed: None, doubtful_rps: None, tries_left: tries_max }
    }

    /// The same with loads of which it is known how they came out: what is above one that failed is not sustained.
    #[must_use]
    pub fn knowing(mut self, known: impl IntoIterator<Item = (u64, Result<(), Shortfall>)>) -> Self {
        let known: Vec<(u64, Result<(), Shortfall>)> = known.into_iter().collect();
        let failed = known.iter().filter_map(|(rps, outcome)| Some((*rps, outcome.err()?)));
        self.failed = failed.min_by_key(|(rps, _)| *rps);
        let below = |rps: u64| self.failed.is_none_or(|(failed_rps, _)| rps < failed_rps);
        let sustained = known.iter().filter(|(rps, outcome)| outcome.is_ok() && below(*rps));
        self.sustained_rps = sustained.map(|(rps, _)| *rps).max().unwrap_or(0);
        self
    }

    /// Whether so many of the requests that were due, in percent, are enough to say that the load was sustained.
    #[must_use]
    pub fn is_enough(in_time_pct: f64) -> bool {
        in_time_pct >= 100.0 * Self::ACHIEVED_MIN
    }

    /// Whether a run sustained its load, by the share of what was due that was answered meanwhile, and the 99th percentile.
    ///
    /// # Errors
    /// Why it did not.
    pub fn judge(in_time_pct: f64, p99_us: f64) -> Result<(), Shortfall> {
        if !Self::is_enough(in_time_pct) {
            return Err(Shortfall::Answered { pct: in_time_pct });
        }
        if p99_us > Self::P99_US_MAX { Err(Shortfall::Late { p99_us }) } else { Ok(()) }
    }

    /// The load to try next; `None` when the search is over: little is unknown, or no try is left.
    pub fn next_rps(&self) -> Option<u64> {
        if self.tries_left == 0 {
            return None;
        }
        if let Some(doubtful_rps) = self.doubtful_rps {
            return Some(doubtful_rps);
        }
        let next_rps = match (self.sustained_rps, self.failed) {
            (0, None) => self.start_rps,
            (sustained_rps, None) => (sustained_rps * 2).min(Self::RPS_MAX),
            (0, Some((failed_rps, _))) => failed_rps / 2,
            (sustained_rps, Some((failed_rps, _))) => {
                let unknown_rps = failed_rps - sustained_rps;
                if unknown_rps as f64 <= Self::PRECISION * failed_rps as f64 {
                    return None;
                }
                sustained_rps + unknown_rps / 2
            }
        };
        (next_rps > self.sustained_rps).then_some(next_rps)
    }

    /// What became of a run at `rps`.
    ///
    /// # Panics
    /// If that was not the load to try.
    pub fn on_run(&mut self, rps: u64, outcome: Result<(), Shortfall>) {
        assert_eq!(Some(rps), self.next_rps(), "not the load that was asked for");
        self.tries_left -= 1;
        match outcome {
            Ok(()) => {
                self.sustained_rps = rps;
                self.doubtful_rps = None;
            }
            Err(why) if self.doubtful_rps == Some(rps) => {
                self.failed = Some((rps, why));
                self.doubtful_rps = None;
            }
            Err(_) => self.doubtful_rps = Some(rps),
        }
    }

    /// The largest load that was sustained; 0 if none was.
    pub fn sustained_rps(&self) -> u64 {
        self.sustained_rps
    }

    /// The smallest load that was not, with why; `None` if all were.
    pub fn failed(&self) -> Option<(u64, Shortfall)> {
        self.failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A subject that answers up to a rate; its latency rises before.
    fn fake(rps: u64, knee_rps: u64) -> Result<(), Shortfall> {
        let in_time_pct = 100.0 * rps.min(knee_rps) as f64 / rps as f64;
        SustainSearch::judge(in_time_pct, if rps * 100 > knee_rps * 98 { 9000.0 } else { 50.0 })
    }

    fn found(start_rps: u64, mut subject: impl FnMut(u64) -> Result<(), Shortfall>) -> (SustainSearch, u32) {
        let mut search = SustainSearch::new(start_rps, 40);
        let mut tries = 0;
        while let Some(rps) = search.next_rps() {
            search.on_run(rps, subject(rps));
            tries += 1;
        }
        (search, tries)
    }

    #[test]
    fn the_most_that_is_sustained_is_found_from_below_and_from_above() {
        for (start_rps, knee_rps) in
            [(100_000, 870_000), (870_000, 100_000), (50_000, 51_000), (300, 123), (1_000_000, 3_000_000)]
        {
            let (search, tries) = found(start_rps, |rps| fake(rps, knee_rps));
            let got = search.sustained_rps();
            assert!(tries <= 16 && got <= knee_rps && got * 100 >= knee_rps * 92, "{got} of {knee_rps} in {tries}");
            assert!(search.failed().is_some_and(|(rps, _)| rps > got), "{search:?}");
        }
    }

    #[test]
    fn a_pause_of_the_machine_does_not_end_a_search() {
        let mut runs = 0;
        let (search, _) = found(100_000, |rps| {
            runs += 1;
            // Every third run is disturbed.
            if runs % 3 == 0 { Err(Shortfall::Late { p99_us: 7e3 }) } else { fake(rps, 870_000) }
        });
        assert!((800_000..870_000).contains(&search.sustained_rps()), "{search:?}");
    }

    #[test]
    fn what_is_known_is_not_asked_again_and_never_contradicted() {
        let late = || Err(Shortfall::Late { p99_us: 9e3 });
        let knowing = |known: Vec<(u64, Result<(), Shortfall>)>| SustainSearch::new(5000, 40).knowing(known);
        let mut search = knowing(vec![(20_000, Ok(())), (40_000, Ok(())), (80_000, late())]);
        assert_eq!((search.sustained_rps(), search.next_rps()), (40_000, Some(60_000)));
        search.on_run(60_000, Ok(()));
        assert_eq!(search.next_rps(), Some(70_000));
        assert_eq!(knowing(vec![(20_000, Ok(()))]).next_rps(), Some(40_000), "and up from there");
        assert_eq!(knowing(vec![(20_000, late())]).next_rps(), Some(10_000), "or down");
        assert_eq!(knowing(Vec::new()).next_rps(), Some(5000));
        // A load above one that failed proves nothing.
        let torn = knowing(vec![(20_000, Ok(())), (40_000, late()), (60_000, Ok(()))]);
        assert_eq!((torn.sustained_rps(), torn.failed().map(|(rps, _)| rps)), (20_000, Some(40_000)));
    }

    #[test]
    fn it_ends_whatever_happens() {
        for start_rps in [0, 1, 2, 1_000_000, u64::MAX] {
            let (all, _) = found(start_rps, |_| Ok(()));
            assert_eq!((all.sustained_rps(), all.failed()), (SustainSearch::RPS_MAX, None));
            let (none, _) = found(start_rps, |_| Err(Shortfall::Answered { pct: 3.0 }));
            assert_eq!(none.sustained_rps(), 0);
        }
        let mut few = SustainSearch::new(1000, 2);
        few.on_run(1000, Ok(()));
        few.on_run(2000, Ok(()));
        assert_eq!((few.next_rps(), few.sustained_rps()), (None, 2000));
    }

    #[test]
    fn a_load_is_sustained_if_it_is_answered_and_in_time() {
        assert_eq!(SustainSearch::judge(99.0, 5000.0), Ok(()));
        assert_eq!(SustainSearch::judge(97.0, 10.0).unwrap_err().to_string(), "97 % answered");
        assert_eq!(SustainSearch::judge(98.9, 10.0).unwrap_err().to_string(), "98 % answered", "99 % would be enough");
        assert_eq!(SustainSearch::judge(100.0, 5100.0).unwrap_err().to_string(), "p99 5.1 ms");
    }

    #[test]
    fn a_few_that_are_on_their_way_are_not_behind() {
        assert_eq!(in_time_pct_of(300, 290, 0.0), 100.0);
        assert_eq!(in_time_pct_of(1000, 890, 0.0), 90.0);
        assert_eq!(in_time_pct_of(1000, 790, 100.0), 90.0);
        assert_eq!(in_time_pct_of(0, 0, 0.0), 100.0);
        // Where only rates are known: 6850 of 7003 in 0.3 s is chance, and 6000 is not.
        assert!(SustainSearch::is_enough(in_time_pct_by_rate(7003, 6850.0, 0.3)));
        assert!(!SustainSearch::is_enough(in_time_pct_by_rate(7003, 6000.0, 0.3)));
    }
}

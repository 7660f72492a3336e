//! What else the machine did beside the runs of a load, and whether it was taken away by that.

use serde::{Deserialize, Serialize};

use super::Row;
use super::answer::us;
use crate::loads::Load;

/// Others' share of the CPUs from which on the machine counts as taken away, in %.
const OTHERS_PCT_MAX: f64 = 5.0;

/// The host's share likewise.
const STOLEN_PCT_MAX: f64 = 2.0;

/// Time that the generator waited for its CPU likewise, in ms per second.
const WAITED_MS_PER_S_MAX: f64 = 10.0;

/// Pauses that explain this share of the lowest p99 make it the machine's.
const PAUSE_SHARE_MAX: f64 = 0.5;

/// What else happened on the machine at one load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MachineUse {
    /// The load.
    pub load_rps: Load,
    /// How long a request that comes at any moment would wait because an empty loop is not run, in µs: 99th percentile.
    pub pause_p99_us: f64,
    /// The same, 99.9th percentile.
    pub pause_p999_us: f64,
    /// Longest pause of the empty loop, in µs.
    pub pause_max_us: f64,
    /// CPU time of other programs, and of the kernel outside of this process, in % of the CPUs in use.
    pub others_pct: f64,
    /// CPU time that the host took, in % of the CPUs in use.
    pub stolen_pct: f64,
    /// Milliseconds per second that the generator could have run and had no CPU; null where it is another process.
    pub client_waited_ms_per_s: Option<f64>,
}

impl MachineUse {
    /// What took the machine away, so that none can be called the best; `None` if nothing did.
    pub(crate) fn taken(&self, rows: &[&Row]) -> Option<String> {
        let p99s = rows.iter().filter_map(|row| Some(row.measured()?.median.latency_us.p99));
        self.taken_from(p99s.fold(f64::INFINITY, f64::min))
    }

    /// Whether others take so much of the CPUs, in %, that nothing is decided.
    pub(crate) fn is_crowded(others_pct: f64) -> bool {
        others_pct >= OTHERS_PCT_MAX
    }

    /// The same for rows of which the lowest p99 is so long, in us.
    #[must_use]
    pub fn taken_from(&self, lowest_us: f64) -> Option<String> {
        let waited = self.client_waited_ms_per_s.unwrap_or(0.0);
        if Self::is_crowded(self.others_pct) {
            Some(format!("others took {:.0} % of the CPUs", self.others_pct))
        } else if self.stolen_pct >= STOLEN_PCT_MAX {
            Some(format!("the host took {:.0} % of the CPUs", self.stolen_pct))
        } else if waited >= WAITED_MS_PER_S_MAX {
            Some(format!("the client waited {waited:.0} ms/s for its CPU"))
        } else if self.load_rps != Load::Max && self.pause_p99_us >= PAUSE_SHARE_MAX * lowest_us {
            Some(format!("an empty loop alone paused {} us at p99", us(self.pause_p99_us)))
        } else {
            None
        }
    }

    /// As the line below a block says it.
    pub(crate) fn text(&self) -> String {
        let waited = self.client_waited_ms_per_s;
        let waited = waited.map_or_else(String::new, |ms| format!(", and the client waited {ms:.1} ms/s for its CPU"));
        format!(
            "This machine: an empty loop paused {} us at p99, {} us at p99.9, {} us at most; others took {:.1} % of the CPUs, the \
             host {:.1} %{waited}.",
            us(self.pause_p99_us),
            us(self.pause_p999_us),
            us(self.pause_max_us),
            self.others_pct,
            self.stolen_pct,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples::{quiet, row};

    #[test]
    fn a_quiet_machine_is_not_taken() {
        let load = Load::Rps(1000);
        let rows = [row("base", load, 1e3, 50.0, 20.0, 0.0)];
        let taken = |machine: MachineUse| machine.taken(&rows.iter().collect::<Vec<_>>());
        let quiet = quiet(load);
        assert_eq!(taken(quiet), None);
        for (machine, word) in [
            (MachineUse { others_pct: 40.0, ..quiet }, "others took 40 %"),
            (MachineUse { stolen_pct: 2.0, ..quiet }, "the host took 2 %"),
            (MachineUse { client_waited_ms_per_s: Some(30.0), ..quiet }, "the client waited 30 ms/s"),
            (MachineUse { pause_p99_us: 30.0, ..quiet }, "paused 30.0 us at p99"),
        ] {
            assert!(taken(machine).is_some_and(|why| why.contains(word)), "{machine:?}");
        }
        let closed = MachineUse { load_rps: Load::Max, pause_p99_us: 30.0, ..quiet };
        assert_eq!(taken(closed), None, "a rate is not decided by its tail");
    }

    #[test]
    fn the_line_has_all_of_it() {
        let machine = MachineUse { pause_p999_us: 1200.0, others_pct: 3.0, ..quiet(Load::Max) };
        assert_eq!(
            machine.text(),
            "This machine: an empty loop paused 0.0 us at p99, 1200 us at p99.9, 90.0 us at most; others took 3.0 % of the CPUs, \
             the host 0.0 %, and the client waited 0.1 ms/s for its CPU."
        );
    }
}

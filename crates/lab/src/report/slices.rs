//! The slices behind a row, as they are saved: what two comparisons of different days are held against each other by.

use napier_verdict::{Beside, Histogram, Settings, Slice, Slices};
use serde::{Deserialize, Serialize};

use crate::loads::Load;
use crate::subject::{Subject, by_name};

/// The slices of a mode at a load that count. One entry for each slice in every list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedSlices {
    /// The load.
    pub load_rps: Load,
    /// The mode, and the backend if that is not the engine.
    #[serde(with = "by_name")]
    pub mode: Subject,
    /// CPUs of which `cpu_ns` is a part.
    pub cpus: u32,
    /// The round that it was in.
    pub round: Vec<u32>,
    /// How long it was.
    pub window_ns: Vec<u64>,
    /// CPU time of the server.
    pub cpu_ns: Vec<u64>,
    /// Requests that were due in it; 0 in a closed loop.
    pub due: Vec<u64>,
    /// Of these the ones that were answered in time.
    pub in_time: Vec<u64>,
    /// Requests that were answered in it.
    pub answered: Vec<u64>,
    /// Latencies: by how much the number of each bin that is not empty exceeds that of the one before, and how many are in it, in turn. A bin
    /// below 256 is of that many ns; above, the upper eight bits of the time and how far they are shifted, times 128, make its number.
    pub latency: Vec<Vec<u64>>,
}

impl SavedSlices {
    /// What is kept of the slices of a candidate.
    pub(crate) fn of(slices: &Slices, candidate: usize, mode: Subject, load_rps: Load) -> Option<Self> {
        let kept: Vec<&Slice> = slices.kept(candidate).collect();
        let each = |of: fn(&Slice) -> u64| kept.iter().map(|slice| of(slice)).collect::<Vec<u64>>();
        Some(Self {
            load_rps,
            mode,
            cpus: kept.first()?.cpus,
            round: kept.iter().map(|slice| slice.round).collect(),
            window_ns: each(|slice| slice.window_ns),
            cpu_ns: each(|slice| slice.cpu_ns),
            due: each(|slice| slice.due),
            in_time: each(|slice| slice.in_time),
            answered: each(|slice| slice.answered),
            latency: kept.iter().map(|slice| steps(&slice.latency)).collect(),
        })
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        let lists = [&self.window_ns, &self.cpu_ns, &self.due, &self.in_time, &self.answered].map(Vec::len);
        lists.into_iter().chain([self.latency.len()]).fold(self.round.len(), usize::min)
    }

    /// Adds them as those of a candidate.
    pub(crate) fn add_to(&self, slices: &mut Slices, candidate: usize) {
        for at in 0..self.len() {
            slices.add(Slice {
                candidate,
                round: self.round[at].min(ROUND_MAX),
                window_ns: self.window_ns[at].min(FIGURE_MAX),
                cpus: self.cpus,
                latency: histogram(&self.latency[at]),
                cpu_ns: self.cpu_ns[at].min(FIGURE_MAX),
                due: self.due[at].min(FIGURE_MAX),
                in_time: self.in_time[at].min(FIGURE_MAX),
                answered: self.answered[at].min(FIGURE_MAX),
                beside: Beside::default(),
            });
        }
    }

    /// Those of several modes at one load, as a run.
    pub(crate) fn run(of: &[&Self], settings: Settings) -> Slices {
        let mut slices = Slices::new(of.len(), settings);
        of.iter().enumerate().for_each(|(candidate, one)| one.add_to(&mut slices, candidate));
        slices
    }
}

/// No comparison has more rounds; a file may say anything.
const ROUND_MAX: u32 = 1 << 30;

/// No figure of a slice is larger.
const FIGURE_MAX: u64 = 1 << 43;

fn steps(latency: &Histogram) -> Vec<u64> {
    let mut last = 0;
    let step = |(bin, count): &(u16, u64)| {
        let by = bin - last;
        last = *bin;
        [u64::from(by), *count]
    };
    latency.bins().iter().flat_map(step).collect()
}

fn histogram(steps: &[u64]) -> Histogram {
    let mut bin = 0_u64;
    let pairs = steps.as_chunks::<2>().0.iter().map_while(|[by, count]| {
        bin = bin.checked_add(*by)?;
        // The number of the bin of the largest time.
        u16::try_from(bin).ok().filter(|bin| *bin < BIN_END).map(|bin| (bin, (*count).min(FIGURE_MAX)))
    });
    Histogram::of_bins(pairs)
}

/// There are no more bins: 57 times that a time of 64 bits is shifted, 128 each, and the first 128.
const BIN_END: u16 = 58 * 128;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modes::Mode;

    #[test]
    fn what_is_saved_gives_the_same_figures() {
        let mut slices = Slices::new(1, Settings::DEFAULT);
        for round in 0..6 {
            let latency: Histogram = (0..500).map(|n| (20_000 + n * n * u64::from(round + 1), 2)).collect();
            slices.add(Slice {
                candidate: 0,
                round,
                window_ns: 50_000_000,
                cpus: 2,
                latency,
                cpu_ns: 7_000_000,
                due: 1000,
                in_time: 999,
                answered: 1000,
                beside: Beside { pause_ns: Some(if round == 3 { 40_000_000 } else { 0 }), ..Beside::default() },
            });
        }
        let saved = SavedSlices::of(&slices, 0, Subject::engine(Mode::Base), Load::Rps(20_000)).unwrap();
        assert_eq!((saved.len(), saved.cpus), (5, 2), "one was left out");
        let text = serde_json::to_string(&saved).unwrap();
        let read: SavedSlices = serde_json::from_str(&text).unwrap();
        assert_eq!(read, saved);
        let again = SavedSlices::run(&[&read], Settings::DEFAULT);
        for metric in [napier_verdict::Metric::P99, napier_verdict::Metric::Cpu, napier_verdict::Metric::Throughput] {
            assert_eq!(again.estimate(0, metric), slices.estimate(0, metric), "{metric}");
        }
    }

    #[test]
    fn a_file_may_say_anything() {
        for steps in [vec![u64::MAX, 1, u64::MAX, 1], vec![1], vec![7423, 1, 1, 1], vec![65_535, 3]] {
            assert!(histogram(&steps).count() <= 1, "{steps:?}");
        }
    }
}

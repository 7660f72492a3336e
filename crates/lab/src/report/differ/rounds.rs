//! What the slices of two comparisons say of each other.
//!
//! They were not measured next to each other, so no rounds of theirs are pairs: rounds are drawn for each by itself, and verdicts come of the
//! ranks of all of them. What two runs of one program differ by as a whole is in no slice; that is why a small difference is never called one.

use napier_verdict::{Metric, Pair, Settings, Verdict};

use super::judge::DifferenceVerdict;
use super::{Line, Saved, SideBySide};
use crate::loads::Load;
use crate::report::decided::{Estimated, metrics_at};
use crate::report::slices::SavedSlices;

/// Between runs a difference of less than 5 % is none to speak of: where memory lies and how the CPU's clock goes differ by as much.
const BETWEEN_RUNS: Settings = Settings { least: 0.05, within: [0.05, 0.10, 0.15, 0.20], ..Settings::DEFAULT };

/// What is said of a figure of a row beside that of the first file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SlicesSay {
    pub(super) metric: Metric,
    pub(super) verdict: DifferenceVerdict,
    /// It over that of the first.
    pub(super) ratio: Option<Estimated>,
}

impl<'a> SideBySide<'a> {
    /// Fills in what slices say: of each file beside the first, of all modes of a load together, for they are corrected for how many they are.
    pub(super) fn ask_slices(&mut self) {
        let mut loads: Vec<Load> = Vec::new();
        for line in &self.lines {
            if !loads.contains(&line.load) {
                loads.push(line.load);
            }
        }
        for i in 1..self.files.len() {
            for load in &loads {
                self.ask_slices_at(i, *load);
            }
        }
    }

    fn ask_slices_at(&mut self, i: usize, load: Load) {
        let asked: Vec<(usize, [&'a SavedSlices; 2])> =
            (0..self.lines.len()).filter_map(|at| Some((at, self.slices_of(&self.lines[at], i, load)?))).collect();
        if asked.is_empty() {
            return;
        }
        let run = |which: usize| {
            SavedSlices::run(&asked.iter().map(|(_, slices)| slices[which]).collect::<Vec<_>>(), BETWEEN_RUNS)
        };
        let both = run(0).beside(&run(1));
        let pairs: Vec<(usize, usize)> = (0..asked.len()).map(|at| (at, asked.len() + at)).collect();
        for pair in both.verdicts(&pairs, metrics_at(load)) {
            let (line, _) = asked[pair.a];
            self.lines[line].slices_say[i].push(said(&pair));
        }
    }

    /// The slices of a row in the first file and in another, if both have some and its figures are not those of a queue.
    fn slices_of(&self, line: &Line<'a>, i: usize, load: Load) -> Option<[&'a SavedSlices; 2]> {
        if line.load != load {
            return None;
        }
        let of = |i: usize| {
            let row = line.rows[i].filter(|row| line.taken[i].is_none() && row.sustains())?;
            let file: &'a Saved = self.files[i];
            file.report.slices_of(row.subject, load)
        };
        Some([of(0)?, of(i)?])
    }
}

fn said(pair: &Pair) -> SlicesSay {
    let verdict = match pair.verdict {
        Verdict::Better { which } => {
            let second_is_less = (which == pair.b) != pair.metric.higher_is_better();
            if second_is_less { DifferenceVerdict::Lower } else { DifferenceVerdict::Higher }
        }
        Verdict::NoDifferent { within } => DifferenceVerdict::Alike { within_pct: (within * 100.0).round() as u32 },
        Verdict::Undecided { more_rounds, .. } => DifferenceVerdict::Undecided { more_rounds },
    };
    SlicesSay { metric: pair.metric, verdict, ratio: pair.ratio.map(|ratio| Estimated::of(ratio.inverse(), 1.0)) }
}

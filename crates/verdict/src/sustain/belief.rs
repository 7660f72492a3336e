//! How likely it is that the rate a candidate sustains is this or that, after what was seen.

/// The chance that a slice falls behind at a rate that is sustained: of a pause that was not seen.
const FAILS_BELOW: f64 = 0.05;
/// The chance that a slice keeps up at a rate far above: hardly any, for nothing makes a slow server fast.
const KEEPS_ABOVE: f64 = 0.002;
/// Over which share of the rate keeping up turns into falling behind, and how likely each is beforehand. Arrivals of a short slice vary by
/// some percent, and so does a machine.
const WIDTHS: [(f64, f64); 4] = [(0.01, 0.3), (0.02, 0.3), (0.04, 0.25), (0.08, 0.15)];
/// Logarithms of rates are this far apart.
const STEP: f64 = 0.008;
/// At most so many of them; the step is wider where that is not enough.
const STEPS_MAX: usize = 1500;
/// How far beyond the rates that were tried the sustained one may lie, as a logarithm.
const BEYOND: f64 = 0.7;

/// The slices at one rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Row {
    pub(super) rate: f64,
    pub(super) kept_up: u32,
    pub(super) fell_behind: u32,
}

/// A chance for each sustained rate and width.
pub(super) struct Belief {
    /// Logarithms of rates, in order.
    at: Vec<f64>,
    /// For each of them the chance with each width.
    chance: Vec<[f64; WIDTHS.len()]>,
}

impl Belief {
    /// After these rows, of which there is at least one. Before, all rates are equally likely by their logarithm.
    pub(super) fn after(rows: &[Row]) -> Self {
        let logs = || rows.iter().map(|row| row.rate.ln());
        let low = logs().fold(f64::INFINITY, f64::min) - BEYOND;
        let high = logs().fold(f64::NEG_INFINITY, f64::max) + BEYOND;
        let steps = (((high - low) / STEP) as usize).min(STEPS_MAX);
        let at: Vec<f64> = (0..=steps).map(|step| low + (high - low) * step as f64 / steps as f64).collect();
        let mut logs: Vec<[f64; WIDTHS.len()]> = at.iter().map(|at| likelihood(*at, rows)).collect();
        let most = logs.iter().flatten().copied().fold(f64::NEG_INFINITY, f64::max);
        logs.iter_mut().flatten().for_each(|log| *log = (*log - most).exp());
        let all: f64 = logs.iter().flatten().sum();
        logs.iter_mut().flatten().for_each(|chance| *chance /= all);
        Self { at, chance: logs }
    }

    /// The rate that the sustained one does not exceed with this chance.
    pub(super) fn quantile(&self, chance: f64) -> f64 {
        let mut below = 0.0;
        for (at, chances) in self.at.iter().zip(&self.chance) {
            below += chances.iter().sum::<f64>();
            if below >= chance {
                return at.exp();
            }
        }
        self.at.last().map_or(f64::NAN, |at| at.exp())
    }

    /// How much one more slice at this rate would tell, in nats: how uncertain its outcome is, less what stays uncertain if the
    /// sustained rate is known.
    pub(super) fn tells(&self, rate: f64) -> f64 {
        let log = rate.ln();
        let (mut keeps, mut known) = (0.0, 0.0);
        for (at, chances) in self.at.iter().zip(&self.chance) {
            for (chance, (width, _)) in chances.iter().zip(WIDTHS) {
                if *chance > 1e-9 {
                    let p = keeps_up(log, *at, width);
                    keeps += chance * p;
                    known += chance * entropy(p);
                }
            }
        }
        entropy(keeps) - known
    }
}

/// The chance that a slice at a rate keeps up, if another one is sustained; both as logarithms.
fn keeps_up(rate: f64, sustained: f64, width: f64) -> f64 {
    let logistic = 1.0 / (1.0 + ((rate - sustained) / width).min(700.0).exp());
    KEEPS_ABOVE + (1.0 - KEEPS_ABOVE - FAILS_BELOW) * logistic
}

fn entropy(p: f64) -> f64 {
    let part = |p: f64| if p > 0.0 { -p * p.ln() } else { 0.0 };
    part(p) + part(1.0 - p)
}

/// Logarithms of how likely the rows are with each width, times how likely the width is.
fn likelihood(sustained: f64, rows: &[Row]) -> [f64; WIDTHS.len()] {
    WIDTHS.map(|(width, prior)| {
        let of = |row: &Row| {
            let p = keeps_up(row.rate.ln(), sustained, width);
            f64::from(row.kept_up) * p.ln() + f64::from(row.fell_behind) * (1.0 - p).ln()
        };
        prior.ln() + rows.iter().map(of).sum::<f64>()
    })
}

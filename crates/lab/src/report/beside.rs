//! The sentence that puts the engine beside the kernel: for each mode that both ran, the ratio of what is asked at this
//! load, and in plain words where the engine is behind.

use super::Row;
use super::verdict::{Doubt, sustains_for_sure};
use crate::loads::Load;
use crate::stats::{Figures, Measured};
use crate::subject::{Backend, Subject};

/// Engine over kernel in one mode, named as the kernel's row.
struct Ratio {
    subject: Subject,
    median: f64,
    lowest: f64,
    highest: f64,
}

impl Ratio {
    /// Lowest and highest are those of any run of the one over any run of the other, so they never claim too much.
    fn of(subject: Subject, engine: &Measured, kernel: &Measured, figure: fn(&Figures) -> f64) -> Self {
        let over = |engine: &Figures, kernel: &Figures| figure(engine) / figure(kernel);
        Self {
            subject,
            median: over(&engine.median, &kernel.median),
            lowest: over(&engine.spread.min, &kernel.spread.max),
            highest: over(&engine.spread.max, &kernel.spread.min),
        }
    }

    fn text(&self) -> String {
        format!("{} {:.2}x [{:.2}-{:.2}]", self.subject.name(false), self.median, self.lowest, self.highest)
    }
}

/// The sentence for the rows of one load; empty unless a mode ran on both. `taken` is what took the machine away meanwhile.
pub(crate) fn sentence(load: Load, rows: &[&Row], taken: Option<String>) -> String {
    let of = |backend| rows.iter().filter(move |row| row.subject.backend == backend);
    let both: Vec<(&Row, &Row)> = of(Backend::Kernel)
        .filter_map(|kernel| {
            let engine = of(Backend::Engine).find(|engine| engine.subject.is_row_of(&kernel.subject))?;
            (engine.measured().is_some() && kernel.measured().is_some()).then_some((*engine, *kernel))
        })
        .collect();
    if both.is_empty() {
        return String::new();
    }
    let one_run = both.iter().any(|(engine, kernel)| [engine, kernel].iter().any(|row| runs(row) < 2));
    if let Some(doubt) = taken.map(Doubt::Taken).or(one_run.then_some(Doubt::OneRun)) {
        return format!("Engine over kernel is not decided: {}.", doubt.none_is_best());
    }
    match load {
        Load::Max => at_max(&both),
        Load::Rps(_) => at_rate(&both),
    }
}

fn runs(row: &Row) -> u32 {
    row.measured().map_or(0, |measured| measured.runs)
}

fn ratios(both: &[(&Row, &Row)], figure: fn(&Figures) -> f64) -> Vec<Ratio> {
    both.iter()
        .filter_map(|(engine, kernel)| Some(Ratio::of(kernel.subject, engine.measured()?, kernel.measured()?, figure)))
        .collect()
}

fn at_max(both: &[(&Row, &Row)]) -> String {
    let ratios = ratios(both, |figures| figures.achieved_rps);
    let behind = verdict(&ratios, |ratio| ratio.median < 1.0, |ratio| ratio.highest >= 1.0);
    format!("Engine over kernel, rate (more is better): {}; {behind}.", texts(&ratios))
}

/// A subject that does not keep up has the latency of its queue, so it takes part only in words.
fn at_rate(both: &[(&Row, &Row)]) -> String {
    let (kept_up, failed): (Vec<_>, Vec<_>) =
        both.iter().copied().partition(|(engine, kernel)| engine.sustains() && kernel.sustains());
    let mut parts = Vec::new();
    if !kept_up.is_empty() {
        let ratios = ratios(&kept_up, |figures| figures.latency_us.p99);
        let behind = verdict(&ratios, |ratio| ratio.median > 1.0, |ratio| ratio.lowest <= 1.0);
        parts.push(format!("p99 (less is better): {}; {behind}", texts(&ratios)));
    }
    let for_sure =
        |(engine, kernel): &&(&Row, &Row)| sustains_for_sure(engine).is_some() && sustains_for_sure(kernel).is_some();
    let (failed, sometimes): (Vec<_>, Vec<_>) = failed.iter().partition(for_sure);
    let names = |kept: fn(bool, bool) -> bool| {
        let which = failed.iter().filter(|(engine, kernel)| kept(engine.sustains(), kernel.sustains()));
        which.map(|(_, kernel)| kernel.subject.name(false)).collect::<Vec<_>>().join(", ")
    };
    for (who, modes) in [
        ("the engine alone does not sustain this load", names(|engine, kernel| !engine && kernel)),
        ("the kernel alone does not sustain this load", names(|engine, kernel| engine && !kernel)),
        ("neither sustains this load", names(|engine, kernel| !engine && !kernel)),
    ] {
        if !modes.is_empty() {
            parts.push(format!("{who} in {modes}"));
        }
    }
    if !sometimes.is_empty() {
        let modes: Vec<String> = sometimes.iter().map(|(_, kernel)| kernel.subject.name(false)).collect();
        parts.push(format!("not decided in {}, which kept up in some runs only", modes.join(", ")));
    }
    format!("Engine over kernel, {}.", parts.join("; "))
}

fn texts(ratios: &[Ratio]) -> String {
    ratios.iter().map(Ratio::text).collect::<Vec<_>>().join(", ")
}

/// Where the engine is behind by its median; whether the runs bear that out.
fn verdict(ratios: &[Ratio], behind: fn(&Ratio) -> bool, open: fn(&Ratio) -> bool) -> String {
    let (open, sure): (Vec<&Ratio>, Vec<&Ratio>) =
        ratios.iter().filter(|ratio| behind(ratio)).partition(|one| open(one));
    let names = |all: &[&Ratio]| all.iter().map(|ratio| ratio.subject.name(false)).collect::<Vec<_>>().join(", ");
    let mut parts = Vec::new();
    if !sure.is_empty() {
        parts.push(format!("THE ENGINE IS BEHIND in {}", names(&sure)));
    }
    if !open.is_empty() {
        parts.push(format!("not decided in {} (runs overlap)", names(&open)));
    }
    if parts.is_empty() { "the engine is not behind in any".to_owned() } else { parts.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples::{refused, row};
    use crate::subject::Subject;

    fn kernel(mut row: Row) -> Row {
        row.subject = Subject::kernel(row.subject.mode);
        row
    }

    fn said(rows: &[Row]) -> String {
        sentence(rows[0].load, &rows.iter().collect::<Vec<_>>(), None)
    }

    const LOAD: Load = Load::Rps(1000);

    #[test]
    fn the_rate_is_compared_in_modes_that_both_ran() {
        let rows = [
            row("base", Load::Max, 300.0, 9.0, 9.0, 0.0),
            kernel(row("base", Load::Max, 200.0, 9.0, 9.0, 0.0)),
            row("fullbusy", Load::Max, 100.0, 9.0, 9.0, 0.1),
            kernel(row("fullbusy", Load::Max, 200.0, 9.0, 9.0, 0.1)),
            row("suspend20", Load::Max, 190.0, 9.0, 9.0, 0.1),
            kernel(row("suspend20", Load::Max, 200.0, 9.0, 9.0, 0.1)),
            row("workqueue", Load::Max, 100.0, 9.0, 9.0, 0.0),
            kernel(refused("workqueue", Load::Max, "no such thing")),
        ];
        assert_eq!(
            said(&rows),
            "Engine over kernel, rate (more is better): base 1.50x [1.50-1.50], fullbusy 0.50x [0.41-0.61], \
             suspend20 0.95x [0.78-1.16]; THE ENGINE IS BEHIND in fullbusy; not decided in suspend20 (runs overlap)."
        );
        assert_eq!(said(&rows[6..]), "");
    }

    #[test]
    fn the_tail_is_compared_only_where_both_keep_up() {
        let rows = [
            row("base", LOAD, 1e3, 10.0, 9.0, 0.0),
            kernel(row("base", LOAD, 1e3, 20.0, 9.0, 0.0)),
            row("defer20", LOAD, 900.0, 10.0, 9.0, 0.0),
            kernel(row("defer20", LOAD, 1e3, 20.0, 9.0, 0.0)),
            row("fullbusy", LOAD, 1e3, 10.0, 9.0, 0.0),
            kernel(row("fullbusy", LOAD, 900.0, 20.0, 9.0, 0.0)),
        ];
        assert_eq!(
            said(&rows),
            "Engine over kernel, p99 (less is better): base 0.50x [0.50-0.50]; the engine is not behind in any; the engine \
             alone does not sustain this load in defer20; the kernel alone does not sustain this load in fullbusy."
        );
        assert!(said(&rows[2..4]).starts_with("Engine over kernel, the engine alone does not sustain this load"));
    }
}

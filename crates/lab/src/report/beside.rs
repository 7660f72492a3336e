//! The engine beside the kernel: for each mode that both ran, where the one has the lower p99, or in closed loop the higher rate; and in plain
//! words where the engine is behind.

use napier_verdict::Metric;

use super::Report;
use super::decided::PairVerdict;
use super::verdict::{and, ratio_of};
use crate::loads::Load;
use crate::subject::{Backend, Subject};

/// How the engine stands to the kernel in a mode at a load.
struct Standing {
    kernel: Subject,
    load: Load,
    ratio: Option<f64>,
    verdict: Option<PairVerdict>,
}

/// A line on each of the figures; none unless a mode ran on both.
pub(super) fn said(report: &Report) -> Vec<String> {
    let (open, closed): (Vec<_>, Vec<_>) = standings(report).into_iter().partition(|one| one.load != Load::Max);
    [("p99", "lower", open), ("rate in closed loop", "higher", closed)]
        .into_iter()
        .filter(|(_, _, all)| !all.is_empty())
        .map(|(figure, better, all)| line(figure, better, &all))
        .collect()
}

/// Of loads that both keep up with: a queue's latency says nothing of a mode.
fn standings(report: &Report) -> Vec<Standing> {
    let of = |load: Load, backend: Backend| {
        report
            .rows
            .iter()
            .filter(move |row| row.load == load && row.subject.backend == backend && row.measured().is_some())
    };
    let mut all = Vec::new();
    for (load, _) in report.by_load() {
        let metric = if load == Load::Max { Metric::Throughput } else { Metric::P99 };
        for kernel in of(load, Backend::Kernel) {
            let engine = of(load, Backend::Engine).find(|row| row.subject.is_row_of(&kernel.subject));
            let Some(engine) = engine.filter(|engine| engine.sustains() && kernel.sustains()) else { continue };
            let decided = report.decided_at(load).filter(|decided| !decided.taken);
            let pair = decided.and_then(|decided| decided.pair(engine.subject, kernel.subject, metric));
            all.push(Standing {
                kernel: kernel.subject,
                load,
                ratio: pair.and_then(|pair| Some(ratio_of(pair, engine.subject)?.value)),
                verdict: pair.map(|pair| pair.verdict.clone()),
            });
        }
    }
    all
}

/// Whether a verdict on a mode of both backends is of a kind.
type OfKind = fn(&Standing) -> bool;

fn line(figure: &str, better: &str, all: &[Standing]) -> String {
    let parts: [(&str, OfKind); 4] = [
        ("better", |one| matches!(one.verdict, Some(PairVerdict::Better { better }) if better != one.kernel)),
        ("behind", |one| matches!(one.verdict, Some(PairVerdict::Better { better }) if better == one.kernel)),
        ("same", |one| matches!(one.verdict, Some(PairVerdict::NoDifferent { .. }))),
        ("open", |one| matches!(one.verdict, Some(PairVerdict::Undecided { .. }) | None)),
    ];
    let parts = parts.into_iter().filter_map(|(what, is)| {
        let those: Vec<&Standing> = all.iter().filter(|one| is(one)).collect();
        let named = names(&those);
        (!those.is_empty()).then(|| match what {
            "better" => format!("{better} in {named}"),
            "behind" => format!("BEHIND in {named}"),
            "same" => format!("no different in {named}"),
            _ => format!("undecided in {named}"),
        })
    });
    format!("Engine beside kernel, {figure}: {}.", parts.collect::<Vec<_>>().join("; "))
}

/// Modes, each with its loads and ratios.
fn names(all: &[&Standing]) -> String {
    let mut modes: Vec<(Subject, Vec<String>)> = Vec::new();
    for one in all {
        let ratio = one.ratio.map_or_else(String::new, |ratio| format!(" {ratio:.2}x"));
        let at = if one.load == Load::Max { ratio.trim().to_owned() } else { format!("{}{ratio}", one.load) };
        match modes.iter_mut().find(|(mode, _)| *mode == one.kernel) {
            Some((_, loads)) => loads.push(at),
            None => modes.push((one.kernel, vec![at])),
        }
    }
    let named = |(mode, at): &(Subject, Vec<String>)| format!("{} ({})", mode.name(false), at.join(", "));
    and(&modes.iter().map(named).collect::<Vec<_>>())
}
